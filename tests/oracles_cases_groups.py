"""Reference cases of other values: group-relative credit, whitening, baselines, sampling filters, constraints."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from oracles_cases import Draw, Parts, average, by_group, discounted, makes, mask_of, scaled


@makes("rloo")
def rloo(draw: Draw) -> Parts:
    rewards = draw.standard_normal(6)
    centred = rewards - rewards.mean()
    return {"rewards": rewards}, {}, {"advantages": centred * 6 / 5, "centred": centred, "ratio": 6 / 5}


def bandit(draw: Draw) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    logits, rewards = draw.standard_normal((2, 4))
    p = np.exp(logits) / np.exp(logits).sum()
    return logits, rewards, p, np.eye(4) - p


@makes("rloo")
def rloo_enumerated(draw: Draw) -> Parts:
    logits, rewards, p, scores = bandit(draw)
    loo, centred = np.zeros(4), np.zeros(4)
    for pair in itertools.product(range(4), repeat=2):
        r = rewards[list(pair)]
        for i, action in enumerate(pair):
            share = p[list(pair)].prod() / 2 * scores[action]
            loo += share * (r[i] - r[1 - i])
            centred += share * (r[i] - r.mean())
    expected = {"expected_grad_rloo": loo, "expected_grad_group_mean": centred, "true_grad": (p * rewards) @ scores, "shrink": 0.5}
    return {"logits": logits, "rewards": rewards, "G": 2}, {}, expected


@makes("reinforce")
def reinforce(draw: Draw) -> Parts:
    logits, rewards, p, scores = bandit(draw)
    squares = (scores**2).sum(1)
    best, mean = (p * squares * rewards).sum() / (p * squares).sum(), p @ rewards
    true = (p * rewards) @ scores

    def trace(b: float) -> float:
        return float((p * (rewards - b) ** 2 * squares).sum() - true @ true)

    expected = {
        "J": mean,
        "grad_J_wrt_logits": true,
        "mean_reward_baseline": mean,
        "optimal_scalar_baseline": best,
        "trace_variance_no_baseline": trace(0),
        "trace_variance_mean_baseline": trace(mean),
        "trace_variance_optimal": trace(best),
    }
    return {"logits": logits, "rewards": rewards}, {}, expected


@makes("grpo")
def grpo(draw: Draw) -> Parts:
    r = draw.standard_normal(6)
    expected = {
        "population_no_eps": scaled(r, "population", 0),
        "population_eps_1e-6": scaled(r, "population", 1e-6),
        "population_outside_1e-6": scaled(r, "population", 1e-6),
        "population_inside_sqrt_1e-8": (r - r.mean()) / math.sqrt(r.var() + 1e-8),
        "sample_no_eps": scaled(r, "sample", 0),
        "sample_eps_1e-6_verl": scaled(r, "sample", 1e-6),
        "sample_eps_1e-4_trl": scaled(r, "sample", 1e-4),
        "mean_only": r - r.mean(),
        "population_over_sample": math.sqrt(6 / 5),
    }
    return {"rewards": r}, {}, expected


def grpo_grouped(draw: Draw, parameters: dict[str, Any], std: str, eps: float) -> Parts:
    r, ids = draw.standard_normal(8), ["b", "a", "b", "c", "a", "b", "a", "a"]
    expected = {
        "advantages": by_group(r, ids, lambda x: scaled(x, std, eps)),
        "mean_only": by_group(r, ids, lambda x: x - x.mean()),
        "population_no_eps": by_group(r, ids, lambda x: scaled(x, "population", 0)),
        "population_inside_sqrt_1e-8": by_group(r, ids, lambda x: (x - x.mean()) / math.sqrt(x.var() + 1e-8)),
    }
    return {"rewards": r, "group": ids}, parameters, expected


makes("grpo")(lambda draw: grpo_grouped(draw, {"std": "sample", "eps": 0}, "sample", 0))
makes("grpo")(lambda draw: grpo_grouped(draw, {"std": "population", "eps": 1e-4}, "population", 1e-4))
makes("grpo")(lambda draw: grpo_grouped(draw, {"ddof": 1, "eps": 0.5}, "sample", 0.5))


@makes("grpo")
def grpo_rows(draw: Draw) -> Parts:
    rows = [draw.standard_normal(3), draw.standard_normal(5), np.full(4, 0.1), draw.standard_normal(1)]
    found = [scaled(r, "sample", 0.25) if len(r) > 1 else np.zeros(1) for r in rows]
    centred = [r - r.mean() if r.max() > r.min() else 0 * r for r in rows]
    return {"rewards": rows}, {"std": "sample", "eps": 0.25}, {"advantages": found, "mean_only": centred}


@makes("grpo")
def grpo_moved(draw: Draw) -> Parts:
    r = draw.standard_normal(5)
    moved = r * -2 + 7
    expected = {
        "advantages": scaled(r, "sample", 0.1),
        "scaled": scaled(moved, "sample", 0.1),
        "mean_only": r - r.mean(),
        "mean_only_scaled": moved - moved.mean(),
    }
    return {"rewards": r, "scale": -2, "shift": 7}, {"eps": 0.1, "ddof": 1}, expected


@makes("grpo")
def grpo_of_one(draw: Draw) -> Parts:
    del draw
    expected = {"recommended": [0], "verl_mean0_std1_eps1e-6": [-3 / (1 + 1e-6)], "torch_sample_std": None}
    return {"rewards": [-3]}, {}, expected


@makes("dr_grpo")
def dr_grpo(draw: Draw) -> Parts:
    r, lengths = draw.standard_normal(3), [2, 1, 4]
    centred, mask = r - r.mean(), mask_of(lengths)
    expected = {
        "advantages": centred,
        "objective_const_horizon": (centred * lengths).sum() / (3 * 5),
        "objective_sum_over_G_no_horizon": (centred * lengths).sum() / 3,
        "grad_objective_wrt_logp_at_ratio_1": centred[:, None] * mask / 15,
    }
    return {"rewards": r, "lengths": lengths}, {"horizon": 5, "ratio": "all ones"}, expected


@makes("dapo")
def dynamic_sampling(draw: Draw) -> Parts:
    del draw
    correct = [[1, 0], [0, 0, 0], [1, 1], [0, 1, 1, 1], [1]]
    return {"correct": correct}, {}, {"keep": [1, 0, 0, 1, 0], "kept_prompts": 2, "generated": 12, "trained": 6}


@makes("dapo")
def overlong(draw: Draw) -> Parts:
    del draw
    lengths = [0, 60, 80, 81, 95, 100, 101]
    return {"lengths": lengths}, {"max_length": 100, "cache_length": 20}, {"penalty": [0, 0, 0, -0.05, -0.75, -1, -1]}


@makes("dapo")
def levels(draw: Draw) -> Parts:
    values, mask = draw.standard_normal((3, 4)), mask_of([4, 1, 2])
    expected = {"token_level": average(values, mask, "token"), "sample_level": average(values, mask, "seq_token_mean")}
    return {"surrogate": values, "mask": mask}, {}, expected


@makes("whiten")
def whiten(draw: Draw) -> Parts:
    a, mask = draw.standard_normal((2, 4)), np.array([[1, 0, 1, 1], [1, 1, 0, 0]])
    x = a[mask > 0]
    centred = np.where(mask > 0, a - x.mean(), 0)
    expected = {
        "population_eps_inside_1e-8": centred / math.sqrt(x.var() + 1e-8),
        "sample_eps_inside_1e-8_verl": centred / math.sqrt(x.var(ddof=1) + 1e-8),
        "population_var_clamp_1e-8_openrlhf": centred / math.sqrt(max(x.var(), 1e-8)),
        "population_std_plus_1e-5": centred / (x.std() + 1e-5),
    }
    return {"advantages": a, "mask": mask}, {}, expected


@makes("reinforce_pp")
def reinforce_pp(draw: Draw) -> Parts:
    ends, lengths, kl = draw.standard_normal(3), [3, 1, 2], draw.standard_normal((3, 3))
    mask, returns = mask_of(lengths), np.zeros((3, 3))
    for row, n in enumerate(lengths):
        rewards = -0.3 * kl[row, :n]
        rewards[-1] += ends[row]
        returns[row, :n] = discounted(rewards, 0.9)
    x = returns[mask]
    centred = np.where(mask, returns - x.mean(), 0)
    expected = {
        "returns": returns,
        "advantages_population_openrlhf": centred / math.sqrt(x.var()),
        "advantages_sample_verl": centred / math.sqrt(x.var(ddof=1) + 1e-8),
    }
    return {"terminal_rewards": ends, "lengths": lengths, "token_kl_k1": kl}, {"beta": 0.3, "gamma": 0.9}, expected


@makes("reinforce_pp_baseline")
def reinforce_pp_baseline(draw: Draw) -> Parts:
    r, ids, lengths = draw.standard_normal(5), [7, 3, 7, 3, 3], [2, 1, 3, 1, 2]
    centred = by_group(r, ids, lambda x: x - x.mean())
    x = np.repeat(centred, lengths)
    expected = {"centred": centred, "token_mean": x.mean(), "advantages": (centred - x.mean()) / x.std()}
    return {"rewards": r, "group": ids, "lengths": lengths}, {"var": "population over tokens"}, expected


@makes("running_mean_baseline")
def running_mean(draw: Draw) -> Parts:
    r = draw.standard_normal(6)
    found = [r[i] - (r[max(0, i - 3) : i].mean() if i else 0.5) for i in range(6)]
    return {"rewards": r}, {"window": 3, "initial": 0.5}, {"advantages": found}


@makes("lagrangian")
def lagrangian(draw: Draw) -> Parts:
    costs, value, path = draw.random(5) * 2, 0.2, []
    for cost in costs:
        value = max(0.0, value + 0.5 * (cost - 1))
        path.append(value)
    return {"mean_costs": costs, "start": 0.2}, {"budget": 1, "lr": 0.5}, {"lambda": path, "cost_equals_budget": 0.2}


@makes("overlong_filter")
def overlong_filter(draw: Draw) -> Parts:
    del draw
    expected = {
        "loss_mask": [[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 0, 0]],
        "group_mean_including_truncated": 2.0,
        "group_mean_excluding_truncated": 3.5,
    }
    inputs = {"truncated": [1, 0, 0, 1], "mask": [[1, 1, 1], [1, 1, 1], [1, 0, 0], [1, 1, 0]], "rewards": [1, 3, 4, 0]}
    return inputs, {}, expected
