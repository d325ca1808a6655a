"""Rewards of trajectories → advantages of rows: groups by id, unscored members left out, every exclusion booked.

| what | where it goes |
|---|---|
| group with different rewards | advantages from the recipe's credit function |
| group whose scored rewards are all equal | credit is exactly 0; excluded as `uniform group` if asked |
| unscored member | excluded as `unscored`; no part in the statistics of its group |
| member that is evidence only | excluded as `not trainable`; no part either |
| a member left alone by that | excluded as `alone in its group`: nothing to compare it with |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.batching.rows import Row, exclude, row_of
from rosellm.roserlhf.errors import NonFiniteError, ShapeError
from rosellm.roserlhf.record.exclusion import NOT_TRAINABLE, UNSCORED
from rosellm.roserlhf.trajectory import Trajectory

UNIFORM, ALONE = "uniform group", "alone in its group"


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
    """All scored rewards equal, whether or not the members succeeded."""


def total_reward(trajectory: Trajectory, weights: Mapping[str, float]) -> float | None:
    """Add up the weighted components; None as soon as one of them is missing or unscored, for None is not 0.

    Example:
        >>> end = TransitionRecord(0, None, {"correct": 1.0, "format": -2.0}, terminated=True)
        >>> episode = Trajectory("t", "task", "shop-1", "tok", [PolicyAction(0, [2], [-0.1], "v1", "")], [end])
        >>> total_reward(episode, {"correct": 1.0, "format": 0.25}), total_reward(episode, {"style": 1.0})
        (0.5, None)
    """
    if trajectory.is_unscored:
        return None
    totals = trajectory.reward_totals()
    total = 0.0
    for name, weight in weights.items():
        value = totals.get(name)
        if value is None:
            return None
        total += weight * value
    return total


def group_rows(
    trajectories: Sequence[Trajectory],
    rewards: Sequence[float | None],
    credit: Callable[[Tensor], Tensor],
    *,
    drop_uniform: bool,
) -> list[Row]:
    """Give every trajectory its row with its advantage, or with its exclusion.

    Args:
        trajectories: any order; members find each other by `group_id`. One without a group is alone.
        rewards: one each; None = unscored.
        credit: rewards of one group's scored members `[G]` (float64) → advantages `[G]`.
        drop_uniform: exclude uniform groups, so that they leave the denominator too.

    Returns:
        Rows in the order of `trajectories`.

    Raises:
        ShapeError: not one reward per trajectory, or not one advantage per reward.
        NonFiniteError: a reward that is NaN or infinite; what was not scored is None.
    """
    _check_rewards(trajectories, rewards)
    rows = [row_of(trajectory) for trajectory in trajectories]
    for indices in _groups(trajectories):
        scored: dict[int, float] = {}
        for i in indices:
            reward = rewards[i]
            if not trajectories[i].trainable:
                rows[i] = exclude(rows[i], NOT_TRAINABLE)
            elif reward is None:
                rows[i] = exclude(rows[i], UNSCORED)
            else:
                scored[i] = reward
        if len(scored) == 1:
            (alone,) = scored
            rows[alone] = exclude(rows[alone], ALONE)
        elif scored:
            uniform = len({*scored.values()}) == 1
            for i, advantage in zip(scored, _advantages(credit, list(scored.values())), strict=True):
                row = replace(rows[i], advantage=advantage)
                rows[i] = exclude(row, UNIFORM) if uniform and drop_uniform else row
    return rows


def group_signal(
    trajectories: Sequence[Trajectory], rewards: Sequence[float | None], successes: Sequence[bool | None]
) -> GroupSignal:
    """Count the groups by what they can teach.

    Args:
        trajectories: any order, as in `group_rows`.
        rewards: one each; None = unscored.
        successes: one each; whether the episode succeeded. Read only where there is a reward.

    Raises:
        ShapeError: not one reward and one success per trajectory.
        NonFiniteError: a reward that is NaN or infinite.
    """
    _check_rewards(trajectories, rewards)
    if len(successes) != len(trajectories):
        raise checks.fail(ShapeError, "successes", f"hold one for each of {len(trajectories)} trajectories", len(successes))
    groups = _groups(trajectories)
    counts = dict.fromkeys(("all_fail", "all_pass", "mixed", "unscored", "uniform"), 0)
    for indices in groups:
        scored = [i for i in indices if rewards[i] is not None]
        if len(scored) < 2:
            counts["unscored"] += 1
            continue
        passed = [bool(successes[i]) for i in scored]
        counts["all_pass" if all(passed) else "mixed" if any(passed) else "all_fail"] += 1
        counts["uniform"] += len({rewards[i] for i in scored}) == 1
    return GroupSignal(len(groups), **counts)


def _groups(trajectories: Sequence[Trajectory]) -> list[list[int]]:
    """Return the places of each group's members."""
    found: dict[tuple[bool, str], list[int]] = {}
    for i, trajectory in enumerate(trajectories):
        alone = trajectory.group_id is None
        found.setdefault((alone, trajectory.group_id or trajectory.trajectory_id), []).append(i)
    return list(found.values())


def _advantages(credit: Callable[[Tensor], Tensor], rewards: list[float]) -> list[float]:
    advantages = credit(torch.tensor(rewards, dtype=torch.float64))
    if advantages.shape != (len(rewards),):
        raise checks.fail(ShapeError, "credit", f"return one advantage for each of {len(rewards)} rewards", tuple(advantages.shape))
    return advantages.tolist()


def _check_rewards(trajectories: Sequence[Trajectory], rewards: Sequence[float | None]) -> None:
    if len(rewards) != len(trajectories):
        raise checks.fail(ShapeError, "rewards", f"hold one for each of {len(trajectories)} trajectories", len(rewards))
    for trajectory, reward in zip(trajectories, rewards, strict=True):
        if reward is not None and not math.isfinite(reward):
            fix = "None means not scored"
            raise checks.fail(NonFiniteError, f"reward of {trajectory.trajectory_id!r}", "be a finite number", reward, fix=fix)
