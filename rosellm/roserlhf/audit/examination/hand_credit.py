"""Step 3: returns and advantages by hand: the real groups in plain Python loops against the library."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from rosellm.roserlhf.advantages import discounted_returns, group_standardized_advantages, leave_one_out_advantages
from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.examination.subject import Episodes, Subject
from rosellm.roserlhf.batching.credit import group_rows
from rosellm.roserlhf.trajectory import Trajectory

NAME = "return and advantage by hand"
TOLERANCE = 1e-6
_EPS = 1e-8


def hand_total(trajectory: Trajectory, weights: Mapping[str, float]) -> float | None:
    """Add up weighted components turn by turn; None if one is missing or unscored."""
    total = 0.0
    for name, weight in weights.items():
        values = [t.reward_components[name] for t in trajectory.transitions if name in t.reward_components]
        if not values or None in values or trajectory.is_unscored:
            return None
        for value in values:
            total += weight * (value or 0.0)
    return total


def hand_returns(rewards: Sequence[float], gamma: float) -> list[float]:
    """Sum what follows each step, every term written out: `Σ_k γ^k r_(t+k)`."""
    return [sum(gamma**k * rewards[t + k] for k in range(len(rewards) - t)) for t in range(len(rewards))]


def hand_standardized(rewards: Sequence[float]) -> list[float]:
    """Distance from the mean in population standard deviations."""
    if max(rewards) == min(rewards):
        return [0.0] * len(rewards)
    mean = math.fsum(rewards) / len(rewards)
    deviation = math.sqrt(math.fsum((r - mean) ** 2 for r in rewards) / len(rewards))
    return [(r - mean) / (deviation + _EPS) for r in rewards]


def hand_leave_one_out(rewards: Sequence[float]) -> list[float]:
    """Distance from the mean of the others."""
    if len(rewards) < 2:
        return [0.0] * len(rewards)
    return [r - math.fsum(o for j, o in enumerate(rewards) if j != i) / (len(rewards) - 1) for i, r in enumerate(rewards)]


HANDS: Mapping[Any, Callable[[Sequence[float]], list[float]]] = MappingProxyType(
    {group_standardized_advantages: hand_standardized, leave_one_out_advantages: hand_leave_one_out}
)
"""The hand computation of each credit function."""


def hand_credit(subject: Subject, episodes: Episodes) -> Outcome:
    """Compute totals, returns and advantages by hand, for the rewards as they are and for made-up ones that all differ.

    Groups are formed here by what they are about, the task and the prompt, and not by their ids.
    """
    mixed = _mixed_group(episodes.trajectories)
    if mixed is not None:
        cause = "wrong group ids: episodes of different tasks are compared with each other"
        return Outcome(NAME, "failed", mixed, cause, "form the id of a group from run, step and task")
    for trajectory, reward in zip(episodes.trajectories, episodes.rewards, strict=True):
        if not _near(by_hand := hand_total(trajectory, subject.reward_weights), reward):
            evidence = f"total reward of {trajectory.trajectory_id} is {reward}, by hand {by_hand}"
            return Outcome(
                NAME, "failed", evidence, "components are weighted or summed wrongly", "None is not 0; weights are the recipe's"
            )
    if (wrong := _wrong_return(episodes)) is not None:
        return Outcome(NAME, "failed", wrong, "returns are discounted or cut wrongly", "G_t = r_t + γ G_(t+1), 0 after the end")
    credit: Any = subject.recipe.credit
    if credit not in HANDS:
        name = getattr(credit, "__name__", repr(credit))
        evidence = f"totals and returns agree; the advantages of {name} were not compared: it has no hand computation"
        return Outcome(
            NAME, "warning", evidence, "the credit function is one of your own", "compare it with a slow computation of it"
        )
    made_up: list[float | None] = [float((i * i) % 7) + 0.1 * i for i in range(len(episodes.trajectories))]
    for what, rewards in (("as scored", episodes.rewards), ("made up", made_up)):
        if (wrong := _wrong_advantage(subject, episodes.trajectories, rewards)) is not None:
            evidence = f"rewards {what}: {wrong}"
            return Outcome(
                NAME, "failed", evidence, "another formula, or statistics over the wrong members", "credit is per group, by id"
            )
    groups = len({t.group_id for t in episodes.trajectories})
    evidence = f"{len(episodes.rewards)} totals, returns at γ 1 and 0.9, advantages of {groups} groups as scored and made up agree"
    return Outcome(NAME, "passed", f"{evidence} (allowed {TOLERANCE:g})")


def _near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= TOLERANCE * max(1.0, abs(one))


def _about(trajectory: Trajectory) -> tuple[Any, ...]:
    return trajectory.task_id, tuple(tuple(getattr(span, "token_ids", ())) for span in trajectory.prompt)


def _mixed_group(trajectories: Sequence[Trajectory]) -> str | None:
    by_id: dict[str | None, Trajectory] = {}
    by_task: dict[Any, Trajectory] = {}
    for trajectory in trajectories:
        first = by_id.setdefault(trajectory.group_id, trajectory)
        if _about(first) != _about(trajectory):
            pair = f"{first.trajectory_id} and {trajectory.trajectory_id}"
            return f"group {trajectory.group_id!r} holds {pair}, which are about different tasks"
        same = by_task.setdefault(_about(trajectory), trajectory)
        if same.group_id != trajectory.group_id:
            return f"{same.trajectory_id} and {trajectory.trajectory_id} are about one task, but are in different groups"
    return None


def _wrong_return(episodes: Episodes) -> str | None:
    for trajectory, total in zip(episodes.trajectories, episodes.rewards, strict=True):
        if total is None or not trajectory.actions:
            continue
        rewards = [0.0] * (len(trajectory.actions) - 1) + [total]
        for gamma in (1.0, 0.9):
            found = discounted_returns(torch.tensor(rewards, dtype=torch.float64), gamma=gamma).tolist()
            by_hand = hand_returns(rewards, gamma)
            if not all(map(_near, found, by_hand)):
                return f"returns of {trajectory.trajectory_id} at γ {gamma} are {found}, by hand {by_hand}"
    return None


def _wrong_advantage(subject: Subject, trajectories: Sequence[Trajectory], rewards: Sequence[float | None]) -> str | None:
    rows = group_rows(trajectories, rewards, subject.recipe.credit, drop_uniform=False)
    groups: dict[Any, list[int]] = {}
    for index, (trajectory, reward) in enumerate(zip(trajectories, rewards, strict=True)):
        if reward is not None:
            groups.setdefault(_about(trajectory), []).append(index)
    for members in groups.values():
        scored = [reward for index in members if (reward := rewards[index]) is not None]
        by_hand = HANDS[subject.recipe.credit](scored) if len(members) > 1 else [None]
        for index, wanted in zip(members, by_hand, strict=True):
            if not _near(wanted, rows[index].advantage):
                return (
                    f"advantage of {rows[index].trajectory_id} is {rows[index].advantage}, by hand {wanted} of the rewards {scored}"
                )
    return None
