"""Rewards of trajectories → advantages of rows: groups by id, unscored members left out, every exclusion booked.

| what | where it goes |
|---|---|
| group with different rewards | advantages from the recipe's credit function, one for a rollout or one for each of its turns |
| group whose advantages are all equal | nothing in it is better than the rest; excluded as `uniform group` if asked |
| unscored member | excluded as `unscored`; no part in the statistics of its group |
| member that is evidence only | excluded as `not trainable`; no part either |
| a member left alone by that | excluded as `alone in its group`: nothing to compare it with |
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from rosellm.roserlhf import checks
from rosellm.roserlhf.batching.rows import Row, exclude, row_of
from rosellm.roserlhf.batching.scored import Credit, scored_rollouts
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
    credit: Credit,
    *,
    drop_uniform: bool,
    weights: Mapping[str, float] | None = None,
) -> list[Row]:
    """Give every trajectory its row with its advantages, or with its exclusion.

    Args:
        trajectories: any order; members find each other by `group_id`. One without a group is alone.
        rewards: one each, the weighted total; None = unscored.
        credit: called once, with the scored rollouts that have others to be compared with.
        drop_uniform: exclude uniform groups, so that they leave the denominator too.
        weights: of the reward components, for credit that looks at components or turns; None where only totals are known.

    Returns:
        Rows in the order of `trajectories`.

    Raises:
        ShapeError: not one reward per trajectory, or neither one advantage per rollout nor one per turn.
        NonFiniteError: a reward that is NaN or infinite; what was not scored is None.
    """
    groups, left_out = compared(trajectories, rewards)
    rows = [row_of(trajectory) for trajectory in trajectories]
    for i, reason in left_out.items():
        rows[i] = exclude(rows[i], reason)
    advantages = _advantages(credit, trajectories, rewards, groups, weights)
    spread: dict[int, set[float]] = {}
    for i, advantage in advantages.items():
        spread.setdefault(groups[i], set()).update(advantage if isinstance(advantage, tuple) else (advantage,))
    for i, advantage in advantages.items():
        row = replace(rows[i], advantage=advantage)
        rows[i] = exclude(row, UNIFORM) if drop_uniform and len(spread[groups[i]]) == 1 else row
    return rows


def compared(trajectories: Sequence[Trajectory], rewards: Sequence[float | None]) -> tuple[dict[int, int], dict[int, str]]:
    """Sort the trajectories of a step into those that are compared with others and those that are left out.

    Args:
        trajectories, rewards: as in `group_rows`.

    Returns:
        Place of a trajectory to the number of its group, places ascending; and place to the reason why it is left out.
    """
    _check_rewards(trajectories, rewards)
    groups: dict[int, int] = {}
    left_out: dict[int, str] = {}
    for number, indices in enumerate(_groups(trajectories)):
        scored = []
        for i in indices:
            if not trajectories[i].trainable:
                left_out[i] = NOT_TRAINABLE
            elif rewards[i] is None:
                left_out[i] = UNSCORED
            else:
                scored.append(i)
        if len(scored) == 1:
            left_out[scored[0]] = ALONE
        else:
            groups |= dict.fromkeys(scored, number)
    return dict(sorted(groups.items())), left_out


def _advantages(
    credit: Credit,
    trajectories: Sequence[Trajectory],
    rewards: Sequence[float | None],
    groups: Mapping[int, int],
    weights: Mapping[str, float] | None,
) -> dict[int, float | tuple[float, ...]]:
    """Return the advantage, or the advantage of each turn, of the trajectories at the places in `groups`."""
    if not groups:
        return {}
    chosen = [trajectories[i] for i in groups]
    totals = [total for i in groups if (total := rewards[i]) is not None]
    found = credit(scored_rollouts(chosen, totals, list(groups.values()), weights))
    edges = [*accumulate((len(trajectory.actions) for trajectory in chosen), initial=0)]
    values: list[float] = found.tolist()
    if found.shape == (len(chosen),):
        return dict(zip(groups, values, strict=True))
    if found.shape == (edges[-1],):
        return {i: tuple(values[start:end]) for i, (start, end) in zip(groups, pairwise(edges), strict=True)}
    requirement = f"return one advantage for each of {len(chosen)} rewards or {edges[-1]} turns"
    raise checks.fail(ShapeError, "credit", requirement, tuple(found.shape))


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


def _check_rewards(trajectories: Sequence[Trajectory], rewards: Sequence[float | None]) -> None:
    if len(rewards) != len(trajectories):
        raise checks.fail(ShapeError, "rewards", f"hold one for each of {len(trajectories)} trajectories", len(rewards))
    for trajectory, reward in zip(trajectories, rewards, strict=True):
        if reward is not None and not math.isfinite(reward):
            fix = "None means not scored"
            raise checks.fail(NonFiniteError, f"reward of {trajectory.trajectory_id!r}", "be a finite number", reward, fix=fix)
