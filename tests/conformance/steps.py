"""Adapters: several rewards, step-level credit, trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from rosellm.roserlhf.advantages import (
    discounted_returns,
    filter_reward_conflicts,
    gdpo_advantages,
    gigpo_advantages,
    group_centered_advantages,
    grouped_advantages,
    similarity_clusters,
    tree_advantages,
    tree_budget,
    tree_token_weights,
)

from .case import Case, UnmappedError, adapts, ragged, tensor

STD = ("population", "sample")


def _group(case: Case) -> list[int]:
    return list(case.get("group", [0] * len(case.get("rewards", case.get("advantages", [])))))


@adapts("gdpo", "rewards", "std eps", optional_inputs="group")
def gdpo(case: Case) -> Mapping[str, Any]:
    rewards, ids, eps = case.tensor("rewards"), _group(case), float(case["eps"])
    std: Any = case.choice("std", "population", STD)

    def each() -> Tensor:
        columns = [grouped_advantages(rewards[:, k], ids, std=std, eps=eps) for k in range(rewards.shape[1])]
        return torch.stack(columns, 1)

    return {
        "grpo_on_sum": grouped_advantages(rewards.sum(1), ids, std=std, eps=eps),
        "gdpo_before_batch_norm": gdpo_advantages(rewards, ids, whiten="none", std=std, eps=eps),
        "per_reward": each,
        "final": gdpo_advantages(rewards, ids, std=std, eps=eps),
        "all_uniform_final": gdpo_advantages(torch.ones_like(rewards), ids, std=std, eps=eps),
    }


@adapts("gdpo", "rewards group lengths", "per_reward")
def gdpo_whitened(case: Case) -> Mapping[str, Any]:
    case.choice("per_reward", "", ("sample + 1e-6",))
    rewards, ids = case.tensor("rewards"), _group(case)
    lengths = torch.tensor([int(n) for n in case["lengths"]])
    how: Any = {"std": "sample", "eps": 1e-6}
    return {
        "final_token_weighted": gdpo_advantages(rewards, ids, whiten="token", lengths=lengths, **how),
        "final_per_rollout": gdpo_advantages(rewards, ids, whiten="rollout", **how),
    }


@adapts("gd2po", "advantages group")
def gd2po(case: Case) -> Mapping[str, Any]:
    advantages, ids = case.tensor("advantages"), _group(case)
    found = filter_reward_conflicts(advantages, ids)
    return {
        "conflict": ~found.keep_mask,
        "keep": found.keep_mask,
        "query_weight": found.query_weights,
        "weighted_sum": found.advantages,
        "final": filter_reward_conflicts(advantages, ids, whiten="rollout").advantages,
    }


@adapts("gd2po", "advantages group", "tau eps")
def gd2po_by_signal(case: Case) -> Mapping[str, Any]:
    def at(eps: float) -> Any:
        how: Any = {"conflict_filter": "snr", "snr_threshold": case["tau"], "snr_eps": eps}
        return filter_reward_conflicts(case.tensor("advantages"), _group(case), **how)

    return {
        "delta": at(float(case["eps"])).signal_to_noise,
        "keep": at(float(case["eps"])).keep_mask,
        "delta_with_eps_1e-8": at(1e-8).signal_to_noise,
        "keep_with_eps_1e-8": at(1e-8).keep_mask,
    }


@adapts("gd2po", "advantages group lengths", "whiten")
def gd2po_whitened(case: Case) -> Mapping[str, Any]:
    case.choice("whiten", "", ("sample variance over kept tokens, eps 1e-8 inside sqrt",))
    advantages, ids = case.tensor("advantages"), _group(case)
    lengths = torch.tensor([int(n) for n in case["lengths"]])
    found = filter_reward_conflicts(advantages, ids, whiten="token", lengths=lengths, std="sample", whiten_eps=1e-8)
    return {"final": found.advantages, "pre_whiten": filter_reward_conflicts(advantages, ids).advantages}


@adapts("gd2po", "keep")
def gd2po_query_weights(case: Case) -> Mapping[str, Any]:
    """Advantages that conflict exactly where a rollout is not kept."""
    keep = torch.tensor(case["keep"]).bool()
    advantages = torch.stack([torch.ones(keep.numel()), torch.where(keep.flatten(), 1.0, -1.0)], 1)
    ids = torch.arange(len(keep)).repeat_interleave(keep.shape[1])
    found = filter_reward_conflicts(advantages.double(), ids)
    return {
        "M": found.keep_mask.view(keep.shape).sum(1),
        "q": found.query_weights.view(keep.shape)[:, 0],
    }


def _steps(trajectories: Sequence[Mapping[str, Any]]) -> tuple[Tensor, list[str], list[int]]:
    rewards = tensor([reward for one in trajectories for reward in one["rewards"]])
    states = [state for one in trajectories for state in one["states"]]
    return rewards, states, [i for i, one in enumerate(trajectories) for _ in one["rewards"]]


@adapts("gigpo", "trajectories", "gamma omega std eps", optional="norm episode_statistics")
def gigpo(case: Case) -> Mapping[str, Any]:
    rewards, states, trajectories = _steps(case["trajectories"])
    lengths = [len(one["rewards"]) for one in case["trajectories"]]
    found = gigpo_advantages(
        rewards,
        states,
        trajectories,
        ["task"] * len(states),
        gamma=case["gamma"],
        omega=case["omega"],
        normalization={"std": "std", "mean_only": "none"}[case.choice("norm", "std", ("std", "mean_only"))],  # type: ignore[arg-type]
        std=case.choice("std", "population", STD),  # type: ignore[arg-type]
        eps=float(case["eps"]),
        episode_statistics=case.choice("episode_statistics", "trajectory", ("trajectory", "steps")),  # type: ignore[arg-type]
    )
    return {
        "returns": ragged(found.returns, lengths),
        "A_E": ragged(found.episode_advantages, lengths),
        "A_S": ragged(found.step_advantages, lengths),
        "A": ragged(found.advantages, lengths),
        "group_sizes": dict(zip(map(str, states), found.step_group_sizes.tolist(), strict=True)),
    }


@adapts("gigpo", "T R_T visit_steps", "gamma")
def gigpo_returns(case: Case) -> Mapping[str, Any]:
    """The last of T steps, counted from 1, is rewarded; the state of the visited steps comes back."""
    steps, last, visits = case["T"], case["R_T"], case["visit_steps"]
    rewards = torch.zeros(steps, dtype=torch.float64)
    rewards[-1] = last
    states = ["visited" if t + 1 in visits else f"s{t}" for t in range(steps)]
    found = gigpo_advantages(rewards, states, [0] * steps, ["task"] * steps, gamma=case["gamma"])
    return {
        "returns": found.returns[[t - 1 for t in visits]],
        # printed for the second visit: the exponent of step 2, whatever its own step is
        "seed_formula_second_visit": case["gamma"] ** (steps - 2) * last,
    }


@adapts("gigpo", "members", "std eps")
def gigpo_equal_actions(case: Case) -> Mapping[str, Any]:
    actions, rewards = [str(action) for action, _ in case["members"]], tensor([reward for _, reward in case["members"]])

    def step_advantages(merge: bool) -> Tensor:
        return gigpo_advantages(
            rewards,
            ["state"] * len(actions),
            list(range(len(actions))),
            ["task"] * len(actions),
            gamma=1.0,
            std=case.choice("std", "population", STD),  # type: ignore[arg-type]
            eps=float(case["eps"]),
            merge_equal_actions=merge,
            action_keys=actions if merge else None,
        ).step_advantages

    return {"A_S_plain": step_advantages(False), "A_S_after_averaging_equal_actions": step_advantages(True)}


@adapts("gigpo", "similarity order", "threshold")
def gigpo_clusters(case: Case) -> Mapping[str, Any]:
    similarity = case.tensor("similarity")
    if list(case["order"]) != list(range(len(similarity))):  # the orders are those in the names of what is expected
        raise UnmappedError(f"order={case['order']}")

    def clusters(order: list[int]) -> list[list[int]]:
        labels = similarity_clusters(similarity[order][:, order], case["threshold"], reading="first_match").tolist()
        found: dict[int, list[int]] = {}
        for row, label in zip(order, labels, strict=True):
            found.setdefault(label, []).append(row)
        return sorted(sorted(rows) for rows in found.values())

    def by_name(name: str) -> list[list[int]]:
        order = [int(digit) for digit in name.rpartition("_")[2]]
        if sorted(order) != list(range(len(similarity))):
            raise UnmappedError(name)
        return clusters(order)

    return {name: by_name(name) for name in case.expected if name.startswith("groups_order_")}


@adapts("gigpo", "states rewards valid", "gamma penalty")
def gigpo_penalty(case: Case) -> Mapping[str, Any]:
    rewards, valid = case.tensor("rewards"), torch.tensor(case["valid"]).bool()
    steps = len(rewards)
    penalties = torch.where(valid, 0.0, float(case["penalty"])).double()
    found = gigpo_advantages(rewards, case["states"], [0] * steps, ["task"] * steps, gamma=case["gamma"], step_penalties=penalties)
    return {"returns_before": discounted_returns(rewards, gamma=case["gamma"]), "step_scores_after": found.returns}


@adapts("tree_grpo", "MNL")
def budget(case: Case) -> Mapping[str, Any]:
    found = [tree_budget(*numbers) for numbers in case["MNL"]]
    return {"leaves_G": [b.leaves for b in found], "expected_budget_in_chains": [b.expected_chains for b in found]}


@adapts("tree_grpo", "tree rewards", optional="std eps")
def tree(case: Case) -> Mapping[str, Any]:
    rewards = case.tensor("rewards")

    def parts(std: Any, eps: float) -> dict[str, Tensor]:
        found = tree_advantages(rewards, case["tree"], ["task"] * len(rewards), std=std, eps=eps)
        return {"intra": found.intra_advantages, "inter": found.inter_advantages, "sum": found.advantages}

    asked = parts(case.choice("std", "population", STD), float(case.get("eps", 0.0)))
    sample, population = parts("sample", 1e-6), parts("population", 0.0)
    return {
        **asked,
        **{f"{name}_sample_1e-6": value for name, value in sample.items()},
        **{f"{name}_population": value for name, value in population.items()},
    }


@adapts("tree_grpo", "prefix_tokens own_tokens advantages")
def tree_prefix(case: Case) -> Mapping[str, Any]:
    """Leaf 0 wrote the prefix; the others branched off behind it."""
    shared, own, advantages = case["prefix_tokens"], torch.tensor(case["own_tokens"]), case.tensor("advantages")
    leaves = len(own)
    parents = torch.tensor([-1] + [0] * (leaves - 1))
    sampled = torch.where(torch.arange(leaves) == 0, own + shared, own)
    shares = torch.where(torch.arange(leaves) == 0, 0, shared)

    def reading(prefix: Any) -> Any:
        return tree_token_weights(advantages, sampled, parents, shares, prefix=prefix)

    every, own_only = reading("all_leaves"), reading("own_suffix")
    return {
        "authors_prefix_token_coefficient": every.coefficient[0],
        "token_count_authors": every.multiplicity.sum(),
        "seed_variant_token_count": own_only.multiplicity.sum(),
        "seed_variant_prefix_coefficient": own_only.coefficient[0],
    }


@adapts("tree_grpo", "p_win")
def tree_pair_weight(case: Case) -> Mapping[str, Any]:
    """A group in which a share p wins: the centred advantages of the winners, times their share, is p (1 - p)."""

    def weight(p: float) -> float:
        share = Fraction(p).limit_denominator(1_000_000)
        if abs(share - Fraction(p)) > 1e-12:
            raise UnmappedError(f"p_win={p} is no share of a small group")
        group = tensor([1.0] * share.numerator + [0.0] * (share.denominator - share.numerator))
        return float(group_centered_advantages(group)[0] * p)

    return {"grpo_pair_weight": [weight(p) for p in case["p_win"]]}
