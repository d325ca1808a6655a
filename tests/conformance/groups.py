"""Adapters: group-relative credit, whitening, baselines, sampling filters, constraints."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from rosellm.roserlhf.advantages import (
    LagrangeMultiplier,
    RunningMeanBaseline,
    batch_standardized_advantages,
    discounted_returns,
    dynamic_sampling_mask,
    group_centered_advantages,
    grouped_advantages,
    leave_one_out_advantages,
    overlong_penalty,
    variance_optimal_baseline,
)
from rosellm.roserlhf.losses import clipped_policy_loss

from .case import Case, UnmappedError, adapts, gradient, length_mask, ragged, tensor


@adapts("rloo", "rewards")
def rloo(case: Case) -> Mapping[str, Any]:
    rewards = case.tensor("rewards")
    advantages, centred = leave_one_out_advantages(rewards), group_centered_advantages(rewards)
    largest = centred.abs().argmax()
    return {"advantages": advantages, "centred": centred, "ratio": lambda: advantages[largest] / centred[largest]}


def _policy(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities, and the gradient of the log-probability of every action with respect to the logits, `[actions, logits]`."""
    probabilities = logits.softmax(-1)
    return probabilities, torch.eye(len(logits), dtype=torch.float64) - probabilities


@adapts("rloo", "logits rewards G")
def rloo_by_enumeration(case: Case) -> Mapping[str, Any]:
    probabilities, scores = _policy(case.tensor("logits"))
    rewards, size = case.tensor("rewards"), int(case["G"])

    def expected(credit: Any) -> Tensor:
        total = torch.zeros_like(probabilities)
        for actions in itertools.product(range(len(rewards)), repeat=size):
            advantages = credit(rewards[list(actions)])
            total += probabilities[list(actions)].prod() * (advantages[:, None] * scores[list(actions)]).mean(0)
        return total

    true = (probabilities * rewards) @ scores
    centred = expected(group_centered_advantages)
    return {
        "expected_grad_rloo": expected(leave_one_out_advantages),
        "expected_grad_group_mean": centred,
        "true_grad": true,
        "shrink": (centred @ true) / (true @ true),
    }


@adapts("reinforce", "logits rewards")
def bandit(case: Case) -> Mapping[str, Any]:
    probabilities, scores = _policy(case.tensor("logits"))
    rewards = case.tensor("rewards")
    squared = scores.square().sum(-1)

    def trace_variance(baseline: Tensor | float) -> Tensor:
        estimates = (rewards - baseline)[:, None] * scores
        mean = probabilities @ estimates
        return (probabilities * estimates.square().sum(-1)).sum() - mean.square().sum()

    mean = probabilities @ rewards
    best = variance_optimal_baseline(rewards, squared, weights=probabilities)
    return {
        "J": mean,
        "grad_J_wrt_logits": (probabilities * rewards) @ scores,
        "mean_reward_baseline": mean,
        "optimal_scalar_baseline": best,
        "trace_variance_no_baseline": trace_variance(0.0),
        "trace_variance_mean_baseline": trace_variance(mean),
        "trace_variance_optimal": trace_variance(best),
    }


def _inside_root(rewards: Tensor, ids: list[Any], eps: float) -> Tensor:
    """Group by group, because only whole batches have this placement."""
    found = torch.zeros_like(rewards)
    for group in dict.fromkeys(ids):
        members = [row for row, other in enumerate(ids) if other == group]
        ones = torch.ones(len(members))
        found[members] = batch_standardized_advantages(rewards[members], ones, eps=eps, eps_placement="inside_root")
    return found


@adapts("grpo", "rewards", optional="std eps ddof", optional_inputs="group scale shift")
def grpo(case: Case) -> Mapping[str, Any]:
    if not any(isinstance(row, list) for row in case["rewards"]):
        rewards = case.tensor("rewards")
        return _grpo(case, rewards, list(case.get("group", [0] * len(rewards))))
    if "group" in case.inputs:
        raise UnmappedError("rewards in rows and a group")
    lengths = [len(row) for row in case["rewards"]]
    ids = [row for row, length in enumerate(lengths) for _ in range(length)]
    found = _grpo(case, tensor([reward for row in case["rewards"] for reward in row]), ids)
    return {name: _by_row(value, lengths) for name, value in found.items()}


def _by_row(value: Callable[[], Tensor], lengths: list[int]) -> Callable[[], list[list[float]]]:
    return lambda: ragged(value(), lengths)


def _grpo(case: Case, rewards: Tensor, ids: list[Any]) -> Mapping[str, Callable[[], Tensor]]:

    def scaled(std: Literal["population", "sample"], eps: float, values: Tensor = rewards) -> Tensor:
        return grouped_advantages(values, ids, std=std, eps=eps)

    def centred(values: Tensor) -> Tensor:
        return grouped_advantages(values, ids, scale="none")

    kind: Any = case.choice("std", {0: "population", 1: "sample"}.get(case.get("ddof", 0), "?"), ("population", "sample"))
    eps = float(case.get("eps", 0.0))
    moved = rewards * case.get("scale", 1.0) + case.get("shift", 0.0)

    def deviations() -> Tensor:
        if len(set(ids)) > 1:
            raise UnmappedError("population_over_sample of several groups")
        return (scaled("population", 0.0) / scaled("sample", 0.0)).nan_to_num().max()

    found: dict[str, Callable[[], Tensor]] = {
        "advantages": lambda: scaled(kind, eps),
        "scaled": lambda: scaled(kind, eps, moved),
        "mean_only": lambda: centred(rewards),
        "mean_only_scaled": lambda: centred(moved),
        "population_no_eps": lambda: scaled("population", 0.0),
        "population_eps_1e-6": lambda: scaled("population", 1e-6),
        "population_outside_1e-6": lambda: scaled("population", 1e-6),
        "population_inside_sqrt_1e-8": lambda: _inside_root(rewards, ids, 1e-8),
        "sample_no_eps": lambda: scaled("sample", 0.0),
        "sample_eps_1e-6_verl": lambda: scaled("sample", 1e-6),
        "sample_eps_1e-4_trl": lambda: scaled("sample", 1e-4),
        "population_over_sample": deviations,
    }
    if len(rewards) == 1:  # what verl makes of a group of one: the raw reward, which no function here returns
        found |= {"recommended": lambda: scaled("population", 1e-8), "verl_mean0_std1_eps1e-6": lambda: rewards / (1 + 1e-6)}
    return found


@adapts("dr_grpo", "rewards lengths", "horizon ratio")
def dr_grpo(case: Case) -> Mapping[str, Any]:
    case.choice("ratio", "all ones", ("all ones",))
    advantages = group_centered_advantages(case.tensor("rewards"))
    mask = length_mask(case["lengths"])
    old = torch.zeros(mask.shape, dtype=torch.float64)
    current = old.clone().requires_grad_()
    by_horizon = clipped_policy_loss(current, old, advantages, mask, aggregation="horizon", horizon=float(case["horizon"]))
    by_sum = clipped_policy_loss(current, old, advantages, mask, aggregation="sequence_sum")
    return {
        "advantages": advantages,
        "objective_const_horizon": by_horizon.objective,
        "objective_sum_over_G_no_horizon": by_sum.objective,
        "grad_objective_wrt_logp_at_ratio_1": gradient(-by_horizon.loss, current),
    }


@adapts("dapo", "correct")
def dynamic_sampling(case: Case) -> Mapping[str, Any]:
    lengths = [len(row) for row in case["correct"]]
    rewards = tensor([reward for row in case["correct"] for reward in row])
    kept = dynamic_sampling_mask(rewards, torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths)))
    by_prompt = torch.stack([part[0] for part in kept.split(lengths)])
    return {
        "keep": by_prompt,
        "kept_prompts": by_prompt.sum(),
        "generated": len(rewards),
        "trained": kept.sum(),
    }


@adapts("dapo", "lengths", "max_length cache_length")
def overlong(case: Case) -> Mapping[str, Any]:
    lengths = torch.tensor(case["lengths"])
    how = {"max_length": case["max_length"], "cache_length": case["cache_length"]}
    found = overlong_penalty(lengths, **how)  # float32
    return {"penalty": (found.double() * case["cache_length"]).round() / case["cache_length"]}


@adapts("dapo loss_aggregation", "surrogate mask")
def token_against_sample_level(case: Case) -> Mapping[str, Any]:
    from rosellm.roserlhf.losses import aggregate

    values, mask = case.tensor("surrogate"), case.tensor("mask")
    return {
        "token_level": aggregate(values, mask, aggregation="token"),
        "sample_level": aggregate(values, mask, aggregation="sequence_mean"),
    }


@adapts("whiten", "advantages mask")
def whiten(case: Case) -> Mapping[str, Any]:
    advantages, mask = case.tensor("advantages"), case.tensor("mask")

    def by(std: Any, eps: float, placement: Any) -> Tensor:
        return batch_standardized_advantages(advantages, mask, std=std, eps=eps, eps_placement=placement)

    return {
        "population_eps_inside_1e-8": by("population", 1e-8, "inside_root"),
        "sample_eps_inside_1e-8_verl": by("sample", 1e-8, "inside_root"),
        "population_var_clamp_1e-8_openrlhf": by("population", 1e-8, "variance_floor"),
        "population_std_plus_1e-5": by("population", 1e-5, "outside_root"),
    }


@adapts("reinforce_pp", "terminal_rewards lengths token_kl_k1", "beta gamma")
def reinforce_pp(case: Case) -> Mapping[str, Any]:
    mask, kl = length_mask(case["lengths"]), case.tensor("token_kl_k1")
    rewards = -case["beta"] * kl
    rewards[torch.arange(len(mask)), mask.sum(1) - 1] += case.tensor("terminal_rewards")
    returns = discounted_returns(rewards, gamma=case["gamma"], valid_mask=mask)
    return {
        "returns": returns,
        "advantages_population_openrlhf": batch_standardized_advantages(returns, mask, eps_placement="variance_floor"),
        "advantages_sample_verl": batch_standardized_advantages(returns, mask, std="sample", eps_placement="inside_root"),
    }


@adapts("reinforce_pp_baseline", "rewards group lengths", "var")
def reinforce_pp_baseline(case: Case) -> Mapping[str, Any]:
    case.choice("var", "population over tokens", ("population over tokens",))
    centred = grouped_advantages(case.tensor("rewards"), case["group"], scale="none")
    mask = length_mask(case["lengths"])
    tokens = batch_standardized_advantages(centred[:, None].expand(mask.shape), mask, eps=0.0)
    return {
        "centred": centred,
        "token_mean": centred[:, None].expand(mask.shape)[mask].mean(),
        "advantages": tokens[:, 0],
    }


@adapts("running_mean_baseline", "rewards", "window", optional="initial")
def running_mean(case: Case) -> Mapping[str, Any]:
    baseline = RunningMeanBaseline(window=case["window"], initial=case.get("initial", 0.0))
    rewards = case.tensor("rewards")
    return {"advantages": baseline.advantages(rewards, ["task"] * len(rewards))}


@adapts("lagrangian", "mean_costs start", "budget lr", optional_inputs="costs_low start_low")
def lagrangian(case: Case) -> Mapping[str, Any]:
    def path(start: float, costs: list[float]) -> list[float]:
        multiplier = LagrangeMultiplier(budget=case["budget"], learning_rate=case["lr"], initial=start)
        found = []
        for cost in costs:
            multiplier.update(tensor([cost]))
            found.append(float(multiplier.value))
        return found

    return {
        "lambda": path(case["start"], case["mean_costs"]),
        "lambda_low": lambda: path(case["start_low"], case["costs_low"]),
        "cost_equals_budget": path(case["start"], [case["budget"]])[0],
    }


@adapts("overlong_filter", "truncated mask rewards")
def overlong_filter(case: Case) -> Mapping[str, Any]:
    truncated, rewards = torch.tensor(case["truncated"]).bool(), case.tensor("rewards")
    group = [0] * len(rewards)
    kept = torch.tensor(case["mask"]).bool() & ~truncated[:, None]
    everyone = grouped_advantages(rewards, group, scale="none")
    others = grouped_advantages(rewards, group, scale="none", scored_mask=~truncated)
    first = int((~truncated).nonzero()[0])
    return {
        "loss_mask": kept.long(),
        "group_mean_including_truncated": rewards[first] - everyone[first],
        "group_mean_excluding_truncated": rewards[first] - others[first],
    }
