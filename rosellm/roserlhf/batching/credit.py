"""Rewards of trajectories → advantages of rows: groups by id, unscored members left out, every exclusion booked.

| what | where it goes |
|---|---|
| group with different rewards | advantages from the recipe's credit function |
| group whose scored rewards are all equal | credit is exactly 0; excluded as `uniform group` if asked |
| unscored member | excluded as `unscored`; no part in the statistics of its group |
| a member left alone by that | excluded as `alone in its group`: nothing to compare it with |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rosellm.roserlhf.batching.rows import Row, exclude, row_of
from rosellm.roserlhf.trajectory import Trajectory

UNIFORM, UNSCORED, ALONE = "uniform group", "unscored", "alone in its group"


@dataclass(frozen=True)
class GroupSignal:
    """How many groups can teach something."""

    total: int
    all_fail: int
    all_pass: int
    mixed: int
    """Some members succeeded, some did not."""
    unscored: int
    """Fewer than two scored members."""
    uniform: int
    """All scored rewards equal."""


def total_reward(trajectory: Trajectory, weights: Mapping[str, float]) -> float | None:
    """Add up the weighted components; None as soon as one of them is missing or unscored, for None is not 0."""
    if trajectory.is_unscored:
        return None
    totals = trajectory.reward_totals()
    values = [totals.get(name) for name in weights]
    if any(value is None for value in values):
        return None
    return sum(weight * value for weight, value in zip(weights.values(), values, strict=True) if value is not None)


def group_rows(
    trajectories: Sequence[Trajectory],
    rewards: Sequence[float | None],
    credit: Callable[[Tensor], Tensor],
    *,
    drop_uniform: bool,
) -> list[Row]:
    """Give every trajectory its row with its advantage, or with its exclusion.

    Args:
        trajectories: any order; members find each other by `group_id`.
        rewards: one each; None = unscored.
        credit: rewards of one group's scored members `[G]` (float64) → advantages `[G]`.
        drop_uniform: exclude uniform groups, so that they leave the denominator too.

    Returns:
        Rows in the order of `trajectories`.
    """
    members: dict[str, list[int]] = {}
    for i, trajectory in enumerate(trajectories):
        members.setdefault(trajectory.group_id or trajectory.trajectory_id, []).append(i)
    rows = [row_of(trajectory) for trajectory in trajectories]
    for indices in members.values():
        scored = [i for i in indices if rewards[i] is not None]
        for i in indices:
            if rewards[i] is None:
                rows[i] = exclude(rows[i], UNSCORED)
        if len(scored) == 1:
            rows[scored[0]] = exclude(rows[scored[0]], ALONE)
        elif scored:
            values = torch.tensor([rewards[i] for i in scored], dtype=torch.float64)
            for i, advantage in zip(scored, credit(values).tolist(), strict=True):
                rows[i] = replace(rows[i], advantage=advantage)
            if drop_uniform and bool(values.max() == values.min()):
                for i in scored:
                    rows[i] = exclude(rows[i], UNIFORM)
    return rows


def group_signal(
    trajectories: Sequence[Trajectory], rewards: Sequence[float | None], successes: Sequence[bool | None]
) -> GroupSignal:
    """Count the groups by what they can teach."""
    members: dict[str, list[int]] = {}
    for i, trajectory in enumerate(trajectories):
        members.setdefault(trajectory.group_id or trajectory.trajectory_id, []).append(i)
    counts = dict.fromkeys(("all_fail", "all_pass", "mixed", "unscored", "uniform"), 0)
    for indices in members.values():
        scored = [i for i in indices if rewards[i] is not None]
        if len(scored) < 2:
            counts["unscored"] += 1
            continue
        passed = [bool(successes[i]) for i in scored]
        counts["all_pass" if all(passed) else "mixed" if any(passed) else "all_fail"] += 1
        counts["uniform"] += len({rewards[i] for i in scored}) == 1
    return GroupSignal(len(members), **counts)
