"""Checks of the advantages: finite, of the declared level, of the right sign, and made from the rewards of the declared groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rosellm.roserlhf.audit.batch.check import CannotTellError, Check, Seen, places, rows_where, some
from rosellm.roserlhf.audit.batch.derivation import Fit, are_raw, batch_wide, chunks, interleaved, relative_to
from rosellm.roserlhf.audit.batch.groups import members, scored_rewards, uniform_groups
from rosellm.roserlhf.audit.batch.inputs import Batch
from rosellm.roserlhf.audit.batch.runs import Array
from rosellm.roserlhf.audit.findings import Finding

_TINY = 1e-6


def row_advantages(seen: Seen) -> Array | None:
    """One advantage per row, NaN for rows that train nothing; None if they differ within rows."""
    assert seen.advantage is not None
    trained = seen.mask.trained > 0
    low, high = np.where(trained, seen.advantage.lowest, 0), np.where(trained, seen.advantage.highest, 0)
    same = np.isnan(low) | (high - low <= _TINY * np.maximum(1, np.abs(high)))
    return np.where(trained, high, np.nan) if same.all() else None


def advantage_nonfinite(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find NaN and infinity among the advantages of trained tokens."""
    assert seen.advantage is not None
    assert batch.advantages is not None
    rows = (seen.mask.trained > 0) & ~np.isfinite(seen.advantage.total)
    if not rows.any():
        return
    tokens = [] if batch.advantages.ndim == 1 else places(batch.mask & ~batch.advantages.isfinite())
    yield Finding(
        "advantage_nonfinite",
        "error",
        f"the advantage is not finite in {some(int(rows.sum()), batch.rows, 'row')} with trained tokens",
        {"rows": rows_where(rows)[:16], "positions": tokens},
        "a reward that was never scored, or the standard deviation of a group of one, entered the estimator",
        "leave unscored rollouts and groups of one out of the loss, and count them",
    )


def advantage_varies(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find rollouts with several advantages though credit is said to be per trajectory."""
    assert seen.advantage is not None
    if batch.credit != "trajectory":
        return
    trained = seen.mask.trained > 0
    low, high = seen.advantage.lowest, seen.advantage.highest
    rollout = np.arange(batch.rows) if seen.rollout is None else np.unique(seen.rollout, return_inverse=True)[1]
    lowest, highest = np.full(batch.rows, np.inf), np.full(batch.rows, -np.inf)
    np.fmin.at(lowest, rollout[trained], low[trained])
    np.fmax.at(highest, rollout[trained], high[trained])
    wrong = trained & (highest - lowest > 1e-5 * np.maximum(1, np.abs(highest)))[rollout] if trained.any() else trained
    if not wrong.any():
        return
    yield Finding(
        "advantage_varies",
        "error",
        f"the advantage differs within a rollout in {some(int(wrong.sum()), batch.rows, 'row')}, though credit is per trajectory",
        {"rows": rows_where(wrong)[:8], "lowest": low[wrong][:8], "highest": high[wrong][:8]},
        "advantages and rows were sorted differently, a token-level tensor was passed, or statistics were taken per row",
        "compute one advantage per rollout and broadcast it to all of its rows and tokens",
    )


def advantage_derivation(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find out what the advantages are relative to, and speak up if it is not the declared groups."""
    advantages = row_advantages(seen)
    if advantages is None:
        raise CannotTellError("needs one advantage per row")
    if not (np.abs(np.nan_to_num(advantages)) > _TINY).any():
        return
    who = members(seen)
    reward, advantage = who.reward, advantages[who.rows]
    assert reward is not None
    assert seen.reward is not None
    assert seen.group is not None
    declared = relative_to(who.group, reward, advantage)
    if declared is not None:
        if declared.sign < 0:
            yield _negated(batch, seen, declared)
        return
    rows = scored_rewards(seen)
    if seen.rollout is not None and len(who.rows) < batch.rows:
        if relative_to(seen.group, rows, advantages) is not None:
            yield _other(batch, seen, "rows instead of rollouts: long rollouts vote several times", "take statistics over rollouts")
        return
    whole = batch_wide(rows, advantages)
    if whole is not None:
        if whole.sign < 0:
            yield _negated(batch, seen, whole)
        elif are_raw(rows, advantages):
            yield _raw(batch, seen)
        return
    size = int(np.bincount(np.bincount(who.group)).argmax())
    for layout, parts in (("in chunks", chunks(batch.rows, size)), ("interleaved", interleaved(batch.rows, size))):
        fit = relative_to(parts, rows, advantages) if 1 < size < batch.rows and batch.rows % size == 0 else None
        if fit is not None and fit.parts >= 2:
            what = f"groups of {size} by position ({layout}), not the groups of group_ids"
            yield _other(batch, seen, what, "group by id: positions change when rows are sorted, shuffled or filtered")
            return
    yield from _correlation(batch, seen, who.group, reward, advantage)


def _negated(batch: Batch, seen: Seen, fit: Fit) -> Finding:
    return Finding(
        "advantage_sign",
        "error",
        f"every advantage is negative where the reward is above its group's mean ({fit.parts} groups with different rewards)",
        _first_rows(seen),
        "the sign was flipped: costs were passed as rewards, or the advantage is baseline minus reward",
        "advantage = reward - baseline; the loss carries the minus sign",
    )


def _other(batch: Batch, seen: Seen, what: str, fix: str) -> Finding:
    return Finding(
        "advantage_grouping",
        "error",
        f"the advantages are relative to {what}",
        {**_first_rows(seen), "groups": [] if seen.group is None else seen.group[:16]},
        "the estimator reshaped the rewards, or took statistics over whatever rows there were",
        fix,
    )


def _raw(batch: Batch, seen: Seen) -> Finding:
    assert seen.group is not None
    alone = len(np.unique(seen.group)) == batch.rows > 1
    return Finding(
        "advantage_grouping",
        "error" if alone else "info",
        "the advantages are the rewards themselves: there is no baseline"
        + (", because every group has one member" if alone else ""),
        _first_rows(seen),
        "the group id is unique per rollout, and the estimator's fallback for a group of one is the raw reward",
        "give every rollout of one task the same group id",
    )


def _correlation(batch: Batch, seen: Seen, group: Array, reward: Array, advantage: Array) -> Iterator[Finding]:
    """Judge advantages of unknown origin by their sign alone."""
    known = np.isfinite(reward) & np.isfinite(advantage)
    if known.sum() < 8:
        return
    reward, advantage, group = reward[known], advantage[known], np.unique(group[known], return_inverse=True)[1]
    centred = reward - (np.bincount(group, reward) / np.bincount(group))[group]
    if centred.std() < _TINY or advantage.std() < _TINY:
        return
    correlation = float(np.corrcoef(centred, advantage)[0, 1])
    if correlation < -0.5:
        yield Finding(
            "advantage_sign",
            "warning",
            f"advantages fall where rewards rise within a group (correlation {correlation:.2f})",
            {**_first_rows(seen), "correlation": correlation},
            "the sign was flipped, or the advantages belong to other rows",
            "advantage = reward - baseline; carry both with the rollout",
        )


def _first_rows(seen: Seen) -> dict[str, Any]:
    assert seen.reward is not None
    assert seen.advantage is not None
    return {"rewards": seen.reward[:16], "advantages": seen.advantage.highest[:16]}


def advantage_in_uniform_group(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find advantages in groups whose rewards are all equal, or that have one member."""
    advantages = row_advantages(seen)
    if advantages is None or batch.values is not None:
        raise CannotTellError("needs one advantage per row, made without a critic")
    who = members(seen)
    assert who.reward is not None
    assert seen.reward is not None
    uniform = uniform_groups(seen) & np.isfinite(seen.reward) & np.isfinite(advantages)
    wrong = uniform & (np.abs(advantages) > _TINY)
    if not wrong.any() or _without_groups(seen, advantages) or _whitened_after(who.group, who.reward, advantages[who.rows]):
        return
    foreign = _of_other_rewards(who.group, who.reward, advantages[who.rows])
    yield Finding(
        "advantage_in_uniform_group",
        "info" if foreign else "error",
        f"an advantage in {some(int(wrong.sum()), batch.rows, 'row')} whose group has no difference in reward",
        {"rows": rows_where(wrong)[:8], "rewards": seen.reward[wrong][:8], "advantages": advantages[wrong][:8]},
        "the advantages were made from other rewards (a penalty or weights came in between) or over other groups than these"
        if foreign
        else "a rounding residue was divided by a standard deviation that is a residue too, or a group of one kept its raw reward",
        "pass the rewards that entered the estimator"
        if foreign
        else "set the advantage of a group to 0 where max == min; never decide it by a small standard deviation",
    )


def _without_groups(seen: Seen, advantages: Array) -> bool:
    """Whether the advantages never were relative to groups of several."""
    rewards = scored_rewards(seen)
    assert seen.group is not None
    if len(np.unique(seen.group)) == len(seen.group):
        return True  # groups_singleton and advantage_derivation say what is wrong
    return batch_wide(rewards, advantages) is not None


def _whitened_after(group: Array, reward: Array, advantage: Array) -> bool:
    """Whether a constant was taken off all advantages after they were centred in their groups: whitened over the batch."""
    known = np.isfinite(reward) & np.isfinite(advantage)
    group, reward, advantage = np.unique(group[known], return_inverse=True)[1], reward[known], advantage[known]
    lowest, highest = np.full(len(group), np.inf), np.full(len(group), -np.inf)
    np.minimum.at(lowest, group, reward)
    np.maximum.at(highest, group, reward)
    constant = advantage[(highest == lowest)[group]]
    if not len(constant) or np.ptp(constant) > _TINY:
        return False
    return relative_to(group, reward, advantage - constant[0]) is not None


def _of_other_rewards(group: Array, reward: Array, advantage: Array) -> bool:
    """Whether the groups that do differ in reward contradict it, too: then equal rewards here say nothing."""
    known = np.isfinite(reward) & np.isfinite(advantage)
    differ = any(np.ptp(reward[known & (group == one)]) > _TINY for one in np.unique(group[known]))
    return differ and relative_to(group, reward, advantage) is None


def padding_in_statistics(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find token advantages that have mean 0 and deviation 1 over all positions, padding included, and not over trained tokens."""
    assert batch.advantages is not None
    if batch.advantages.ndim == 1 or row_advantages(seen) is not None or not _may_be_whitened(batch, seen):
        return
    everything = batch.advantages[batch.advantages.isfinite()].double()
    trained = batch.advantages[batch.mask].double()
    if len(everything) == len(trained) or len(trained) < 8:
        return
    if _whitened(float(everything.mean()), float(everything.std())) and not _whitened(
        float(trained.mean()), float(trained.std()), 3e-2
    ):
        yield Finding(
            "padding_in_statistics",
            "error",
            "advantages were whitened over padding: mean 0 and deviation 1 hold over all positions, not over the trained tokens",
            {"mean over trained tokens": float(trained.mean()), "deviation over trained tokens": float(trained.std())},
            "mean() and std() were taken of the padded tensor",
            "take both over the tokens of the mask",
        )


def _may_be_whitened(batch: Batch, seen: Seen) -> bool:
    """Whether mean and deviation over all positions are near 0 and 1, or unknown because not all numbers are finite."""
    assert seen.advantage is not None
    assert seen.advantage.everywhere is not None
    assert seen.advantage.squares_everywhere is not None
    total, squares = float(seen.advantage.everywhere.sum()), float(seen.advantage.squares_everywhere.sum())
    if not np.isfinite([total, squares]).all():
        return True
    count = batch.mask.numel()
    variance = max(0.0, squares - total**2 / count) / max(1, count - 1)
    return _whitened(total / count, variance**0.5, 1e-2)


def _whitened(mean: float, deviation: float, tolerance: float = 3e-3) -> bool:
    return abs(mean) < tolerance and abs(deviation - 1) < tolerance


_DERIVED = ("advantages", "rewards", "group_ids")

CHECKS = (
    Check(("advantage_nonfinite",), ("advantages",), advantage_nonfinite),
    Check(("advantage_varies",), ("advantages", "credit"), advantage_varies),
    Check(("advantage_grouping", "advantage_sign"), _DERIVED, advantage_derivation),
    Check(("advantage_in_uniform_group",), _DERIVED, advantage_in_uniform_group),
    Check(("padding_in_statistics",), ("advantages per token",), padding_in_statistics),
)
