"""Reference cases of other values: several rewards, step-level credit, trees."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from oracles_cases import Draw, Parts, by_group, discounted, makes, scaled


def gdpo(draw: Draw, std: str, eps: float, ids: list[int] | None) -> Parts:
    r = np.round(draw.standard_normal((6, 3)), 3)
    r[:, 2] = 0.7  # a uniform reward is worth nothing
    groups = ids or [0] * 6
    each = np.stack([by_group(r[:, k], groups, lambda x: scaled(x, std, eps)) for k in range(3)], 1)
    expected = {
        "grpo_on_sum": by_group(r.sum(1), groups, lambda x: scaled(x, std, eps)),
        "gdpo_before_batch_norm": each.sum(1),
        "per_reward": each,
        "final": scaled(each.sum(1), std, eps),
        "all_uniform_final": [0] * 6,
    }
    return {"rewards": r} | ({"group": ids} if ids else {}), {"std": std, "eps": eps}, expected


makes("gdpo")(lambda draw: gdpo(draw, "sample", 0, None))
makes("gdpo")(lambda draw: gdpo(draw, "population", 1e-3, [4, 1, 1, 4, 4, 1]))


@makes("gdpo")
def gdpo_lengths(draw: Draw) -> Parts:
    r, ids, lengths = draw.standard_normal((6, 3)), [0, 1, 0, 1, 0, 1], [1, 4, 2, 2, 5, 3]
    total = np.sum([by_group(r[:, k], ids, lambda x: scaled(x, "sample", 1e-6)) for k in range(3)], 0)
    x = np.repeat(total, lengths)
    expected = {
        "final_token_weighted": (total - x.mean()) / math.sqrt(x.var(ddof=1) + 1e-8),
        "final_per_rollout": scaled(total, "sample", 1e-6),
    }
    return {"rewards": r, "group": ids, "lengths": lengths}, {"per_reward": "sample + 1e-6"}, expected


def weighted(a: np.ndarray, ids: list[int], keep: Any) -> tuple[np.ndarray, np.ndarray]:
    q = by_group(keep, ids, lambda x: np.full(len(x), x.mean()))
    return q, np.where(keep, a.sum(1), 0) * q


@makes("gd2po")
def gd2po(draw: Draw) -> Parts:
    a, ids = np.round(draw.standard_normal((8, 3)), 2), [1, 0, 1, 0, 2, 2, 0, 1]
    a[:3] = np.abs(a[:3])
    conflict = (a > 0).any(1) & (a < 0).any(1)
    q, total = weighted(a, ids, ~conflict)
    expected = {"conflict": conflict, "keep": (~conflict).astype(int), "query_weight": q, "weighted_sum": total}
    return {"advantages": a, "group": ids}, {}, expected


@makes("gd2po")
def gd2po_signal(draw: Draw) -> Parts:
    a, ids = draw.standard_normal((6, 3)), [0, 0, 0, 1, 1, 1]
    delta = np.abs(a.sum(1)) / (np.abs(a).sum(1) + 0.01)
    safe = np.abs(a.sum(1)) / (np.abs(a).sum(1) + 1e-8)
    expected = {"delta": delta, "keep": delta >= 0.5, "delta_with_eps_1e-8": safe, "keep_with_eps_1e-8": safe >= 0.5}
    return {"advantages": a, "group": ids}, {"tau": 0.5, "eps": 0.01}, expected


@makes("gd2po")
def gd2po_whitened(draw: Draw) -> Parts:
    a, ids, lengths = draw.standard_normal((6, 2)), [0, 0, 0, 1, 1, 1], [1, 2, 3, 1, 2, 3]
    a[:4] = np.abs(a[:4])
    keep = ~((a > 0).any(1) & (a < 0).any(1))
    _, total = weighted(a, ids, keep)
    x = np.repeat(total[keep], np.array(lengths)[keep])
    final = np.where(keep, (total - x.mean()) / math.sqrt(x.var(ddof=1) + 1e-8), 0)
    parameters = {"whiten": "sample variance over kept tokens, eps 1e-8 inside sqrt"}
    return {"advantages": a, "group": ids, "lengths": lengths}, parameters, {"final": final, "pre_whiten": total}


@makes("gd2po")
def query_weights(draw: Draw) -> Parts:
    keep = draw.random((5, 3)) < 0.5
    return {"keep": keep.astype(int)}, {}, {"M": keep.sum(1), "q": keep.mean(1)}


STATES = [["s", "a", "s", "b"], ["s", "b"], ["a", "s", "s"], ["c"]]


def gigpo(draw: Draw, norm: str | None, statistics: str | None, std: str, eps: float) -> Parts:
    rewards = [draw.standard_normal(len(one)) for one in STATES]
    gamma, omega = 0.9, 2
    returns = [discounted(one, gamma) for one in rewards]
    totals = [one.sum() for one in rewards]
    flat, states = np.concatenate(returns), [s for one in STATES for s in one]

    def normal(x: np.ndarray) -> np.ndarray:
        return x - x.mean() if norm == "mean_only" else scaled(x, std, eps)

    steps = by_group(flat, states, lambda x: normal(x) if len(x) > 1 else 0 * x)
    if statistics == "steps":
        episodes = normal(np.repeat(totals, [len(one) for one in STATES]))
    else:
        episodes = np.repeat(normal(np.array(totals)), [len(one) for one in STATES])
    cuts = np.cumsum([len(one) for one in STATES])[:-1]
    expected = {
        "returns": returns,
        "A_E": np.split(episodes, cuts),
        "A_S": np.split(steps, cuts),
        "A": np.split(episodes + omega * steps, cuts),
        "group_sizes": {s: states.count(s) for s in states},
    }
    named = {"norm": norm, "episode_statistics": statistics}
    parameters = {"gamma": gamma, "omega": omega, "std": std, "eps": eps} | {k: v for k, v in named.items() if v}
    inputs = {"trajectories": [{"states": s, "rewards": r} for s, r in zip(STATES, rewards, strict=True)]}
    return inputs, parameters, expected


makes("gigpo")(lambda draw: gigpo(draw, None, None, "sample", 1e-3))
makes("gigpo")(lambda draw: gigpo(draw, "std", "steps", "population", 0))
makes("gigpo")(lambda draw: gigpo(draw, "mean_only", "trajectory", "sample", 0))
makes("gigpo")(lambda draw: gigpo(draw, "mean_only", "steps", "population", 0))


@makes("gigpo")
def gigpo_numbered_states(draw: Draw) -> Parts:
    """JSON has no numbers as keys of an object."""
    rewards = draw.standard_normal((2, 2))
    sizes = {"1": 2, "5": 1, "7": 1}
    expected = {"group_sizes": sizes, "returns": [[a + 0.5 * b, b] for a, b in rewards]}
    inputs = {"trajectories": [{"states": [1, k], "rewards": r} for k, r in zip((5, 7), rewards, strict=True)]}
    return inputs, {"gamma": 0.5, "omega": 1, "std": "population", "eps": 0}, expected


@makes("gigpo")
def visits(draw: Draw) -> Parts:
    del draw
    expected = {"returns": [3 * 0.8**5, 3 * 0.8**3, 3 * 0.8**0], "seed_formula_second_visit": 3 * 0.8**4}
    return {"T": 6, "R_T": 3, "visit_steps": [1, 3, 6]}, {"gamma": 0.8}, expected


@makes("gigpo")
def equal_actions(draw: Draw) -> Parts:
    names, r = ["x", "y", "x", "z", "y"], draw.standard_normal(5)
    means = by_group(r, names, lambda x: np.full(len(x), x.mean()))
    expected = {
        "A_S_plain": scaled(r, "sample", 0.1),
        "A_S_after_averaging_equal_actions": scaled(means, "sample", 0.1),
    }
    return {"members": [[a, x] for a, x in zip(names, r, strict=True)]}, {"std": "sample", "eps": 0.1}, expected


@makes("gigpo")
def clusters(draw: Draw) -> Parts:
    del draw
    # 0 ~ 1, 1 ~ 2, 2 ~ 3; at 0.5 each is compared with the first of a cluster
    similarity = [[1, 0.5, 0.1, 0.1], [0.5, 1, 0.6, 0.1], [0.1, 0.6, 1, 0.7], [0.1, 0.1, 0.7, 1]]
    expected = {
        "groups_order_0123": [[0, 1], [2, 3]],
        "groups_order_1230": [[0, 1, 2], [3]],
        "groups_order_3021": [[0, 1], [2, 3]],
    }
    return {"similarity": similarity, "order": [0, 1, 2, 3]}, {"threshold": 0.5}, expected


@makes("gigpo")
def penalties(draw: Draw) -> Parts:
    r = draw.standard_normal(3)
    before = discounted(r, 0.5)
    inputs = {"states": ["a", "b", "a"], "rewards": r, "valid": [0, 1, 0]}
    return inputs, {"gamma": 0.5, "penalty": 0.25}, {"returns_before": before, "step_scores_after": before - [0.25, 0, 0.25]}


@makes("tree_grpo")
def tree_sizes(draw: Draw) -> Parts:
    del draw
    sizes = [[3, 2, 2], [1, 1, 1], [5, 0, 3]]
    expected = {"leaves_G": [15, 2, 5], "expected_budget_in_chains": [9, 1.5, 5]}
    return {"MNL": sizes}, {}, expected


def tree(draw: Draw, parameters: dict[str, Any], std: str, eps: float) -> Parts:
    ids, r = [2, 0, 2, 1, 0, 1, 2], draw.standard_normal(7)

    def parts(name: str, kind: str, small: float) -> dict[str, np.ndarray]:
        intra, inter = by_group(r, ids, lambda x: scaled(x, kind, small)), scaled(r, kind, small)
        return {f"intra{name}": intra, f"inter{name}": inter, f"sum{name}": intra + inter}

    expected = parts("", std, eps) | parts("_sample_1e-6", "sample", 1e-6) | parts("_population", "population", 0)
    return {"tree": ids, "rewards": r}, parameters, expected


makes("tree_grpo")(lambda draw: tree(draw, {"std": "sample", "eps": 0.5}, "sample", 0.5))
makes("tree_grpo")(lambda draw: tree(draw, {}, "population", 0))


@makes("tree_grpo")
def tree_prefix(draw: Draw) -> Parts:
    a = draw.standard_normal(4)
    expected = {
        "authors_prefix_token_coefficient": a.sum(),
        "token_count_authors": 2 + 1 + 4 + 3 + 4 * 5,
        "seed_variant_token_count": 2 + 1 + 4 + 3 + 5,
        "seed_variant_prefix_coefficient": a[0],
    }
    return {"prefix_tokens": 5, "own_tokens": [2, 1, 4, 3], "advantages": a}, {}, expected


@makes("tree_grpo")
def pair_weights(draw: Draw) -> Parts:
    del draw
    return {"p_win": [0.25, 0.8, 1, 0.375]}, {}, {"grpo_pair_weight": [0.1875, 0.16, 0, 0.234375]}
