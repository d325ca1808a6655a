"""Rewards of rollouts → advantages of rows: groups by id, unscored members left out, every exclusion booked.

| what | where it goes |
|---|---|
| group with different rewards | advantages from the recipe's credit function, one for a rollout or one for each of its turns |
| group whose advantages are all equal | nothing in it is better than the rest; excluded as `uniform group` if asked |
| unscored member | excluded as `unscored`; no part in the statistics of its group |
| member that is evidence only | excluded as `not trainable`; no part either |
| member that somebody left out (`Rollout.left_out`) | excluded under that reason; no part either |
| a member left alone by that | excluded as `alone in its group`: nothing to compare it with |
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from rosellm.roserlhf import checks
from rosellm.roserlhf.batching.rollout import Episode, Rollout, as_rollout
from rosellm.roserlhf.batching.rows import Row, exclude
from rosellm.roserlhf.batching.scored import Credit, scored_rollouts
from rosellm.roserlhf.errors import NonFiniteError, ShapeError
from rosellm.roserlhf.record.exclusion import NOT_TRAINABLE, UNSCORED

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


def total_reward(episode: Episode, weights: Mapping[str, float]) -> float | None:
    """Add up the weighted components of a rollout; None as soon as one of them is missing or unscored, for None is not 0.

    Example:
        >>> end = TransitionRecord(0, None, {"correct": 1.0, "format": -2.0}, terminated=True)
        >>> episode = Trajectory("t", "task", "shop-1", "tok", [PolicyAction(0, [2], [-0.1], "v1", "")], [end])
        >>> total_reward(episode, {"correct": 1.0, "format": 0.25}), total_reward(episode, {"style": 1.0})
        (0.5, None)
    """
    if episode.is_unscored:
        return None
    totals = episode.reward_totals()
    total = 0.0
    for name, weight in weights.items():
        value = totals.get(name)
        if value is None:
            return None
        total += weight * value
    return total


def group_rows(
    episodes: Sequence[Episode],
    rewards: Sequence[float | None],
    credit: Credit,
    *,
    drop_uniform: bool,
    weights: Mapping[str, float] | None = None,
) -> list[Row]:
    """Give every record its row with its advantages, or with its exclusion.

    Args:
        episodes: any order; members find each other by `group_id`. One without a group is alone. An episode of several records is
            a `Rollout`; one of a single record may be given as the record.
        rewards: one for each episode, the weighted total; None = unscored.
        credit: called once, with the scored rollouts that have others to be compared with.
        drop_uniform: exclude uniform groups, so that they leave the denominator too.
        weights: of the reward components, for credit that looks at components or turns; None where only totals are known.

    Returns:
        Rows in the order of `episodes`, those of one episode one after another.

    Raises:
        ShapeError: not one reward per episode, or neither one advantage per rollout nor one per turn.
        NonFiniteError: a reward that is NaN or infinite; what was not scored is None.
        RecordError: a record lacks its context.
    """
    rollouts = [as_rollout(episode) for episode in episodes]
    groups, left_out = compared(rollouts, rewards)
    advantages = _advantages(credit, rollouts, rewards, groups, weights)
    spread: dict[int, set[float]] = {}
    for i, advantage in advantages.items():
        spread.setdefault(groups[i], set()).update(advantage if isinstance(advantage, tuple) else (advantage,))
    rows: list[Row] = []
    for i, rollout in enumerate(rollouts):
        parts = rollout.rows()
        if i in advantages:
            parts = [replace(row, advantage=advantage_of_row(advantages[i], row, rollout.first_turn)) for row in parts]
        uniform = drop_uniform and i in advantages and len(spread[groups[i]]) == 1
        reason = UNIFORM if uniform else left_out.get(i)
        rows += parts if reason is None else [exclude(row, reason) for row in parts]
    return rows


def advantage_of_row(advantage: float | tuple[float, ...], row: Row, first_turn: int) -> float | tuple[float, ...]:
    """Cut the advantages of a rollout's turns to those that were sampled in one row.

    Args:
        advantage: of the whole rollout, or one for each of its turns.
        row: of one of its records.
        first_turn: absolute turn that the rollout began with.
    """
    if not isinstance(advantage, tuple):
        return advantage
    turns = [turn for turn in row.turns if turn >= 0]
    return advantage[turns[0] - first_turn : turns[-1] - first_turn + 1] if turns else ()


def compared(episodes: Sequence[Episode], rewards: Sequence[float | None]) -> tuple[dict[int, int], dict[int, str]]:
    """Sort the episodes of a step into those that are compared with others and those that are left out.

    Args:
        episodes, rewards: as in `group_rows`.

    Returns:
        Place of an episode to the number of its group, places ascending; and place to the reason why it is left out.
    """
    _check_rewards(episodes, rewards)
    groups: dict[int, int] = {}
    left_out: dict[int, str] = {}
    for number, indices in enumerate(_groups(episodes)):
        scored = []
        for i in indices:
            if not episodes[i].trainable:
                left_out[i] = NOT_TRAINABLE
            elif rewards[i] is None:
                left_out[i] = UNSCORED
            elif (reason := as_rollout(episodes[i]).left_out) is not None:
                left_out[i] = reason
            else:
                scored.append(i)
        if len(scored) == 1:
            left_out[scored[0]] = ALONE
        else:
            groups |= dict.fromkeys(scored, number)
    return dict(sorted(groups.items())), left_out


def _advantages(
    credit: Credit,
    rollouts: Sequence[Rollout],
    rewards: Sequence[float | None],
    groups: Mapping[int, int],
    weights: Mapping[str, float] | None,
) -> dict[int, float | tuple[float, ...]]:
    """Return the advantage, or the advantage of each turn, of the rollouts at the places in `groups`."""
    if not groups:
        return {}
    chosen = [rollouts[i] for i in groups]
    totals = [total for i in groups if (total := rewards[i]) is not None]
    found = credit(scored_rollouts(chosen, totals, list(groups.values()), weights))
    edges = [*accumulate((len(rollout.turns) for rollout in chosen), initial=0)]
    values: list[float] = found.tolist()
    if found.shape == (len(chosen),):
        return dict(zip(groups, values, strict=True))
    if found.shape == (edges[-1],):
        return {i: tuple(values[start:end]) for i, (start, end) in zip(groups, pairwise(edges), strict=True)}
    requirement = f"return one advantage for each of {len(chosen)} rewards or {edges[-1]} turns"
    raise checks.fail(ShapeError, "credit", requirement, tuple(found.shape))


def group_signal(episodes: Sequence[Episode], rewards: Sequence[float | None], successes: Sequence[bool | None]) -> GroupSignal:
    """Count the groups by what they can teach.

    Args:
        episodes: any order, as in `group_rows`.
        rewards: one each; None = unscored.
        successes: one each; whether the episode succeeded. Read only where there is a reward.

    Raises:
        ShapeError: not one reward and one success per episode.
        NonFiniteError: a reward that is NaN or infinite.
    """
    _check_rewards(episodes, rewards)
    if len(successes) != len(episodes):
        raise checks.fail(ShapeError, "successes", f"hold one for each of {len(episodes)} episodes", len(successes))
    groups = _groups(episodes)
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


def _groups(episodes: Sequence[Episode]) -> list[list[int]]:
    """Return the places of each group's members."""
    found: dict[tuple[bool, str], list[int]] = {}
    for i, episode in enumerate(episodes):
        alone = episode.group_id is None
        found.setdefault((alone, episode.group_id or episode.trajectory_id), []).append(i)
    return list(found.values())


def _check_rewards(episodes: Sequence[Episode], rewards: Sequence[float | None]) -> None:
    if len(rewards) != len(episodes):
        raise checks.fail(ShapeError, "rewards", f"hold one for each of {len(episodes)} episodes", len(rewards))
    for episode, reward in zip(episodes, rewards, strict=True):
        if reward is not None and not math.isfinite(reward):
            fix = "None means not scored"
            raise checks.fail(NonFiniteError, f"reward of {episode.trajectory_id!r}", "be a finite number", reward, fix=fix)
