"""Checks of the groups: do they follow the prompts, has each more than one member, does any carry a signal?"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rosellm.roserlhf.audit.batch.check import CannotTellError, Check, Seen, some
from rosellm.roserlhf.audit.batch.inputs import Batch
from rosellm.roserlhf.audit.batch.runs import Array
from rosellm.roserlhf.audit.findings import Finding, Severity


@dataclass(frozen=True)
class Members:
    """One entry per member of a group: a rollout, or a row where rollouts are not told apart."""

    group: Array
    """Codes 0, 1, 2, …"""
    reward: Array | None
    """NaN where it was not scored."""
    rows: Array
    """A row of each member."""

    @functools.cached_property
    def uniform(self) -> tuple[Array, Array]:
        """Scored members per group, and whether all their rewards are one number."""
        assert self.reward is not None
        known = np.isfinite(self.reward)
        count = int(self.group.max(initial=-1)) + 1
        low, high = np.full(count, np.inf), np.full(count, -np.inf)
        np.minimum.at(low, self.group[known], self.reward[known])
        np.maximum.at(high, self.group[known], self.reward[known])
        return np.bincount(self.group[known], minlength=count), low >= high


@functools.lru_cache(maxsize=4)
def members(seen: Seen) -> Members:
    """Take the first row of each rollout as its member; every row without `rollout_ids`."""
    assert seen.group is not None
    rows = np.arange(len(seen.group))
    if seen.rollout is not None:
        rows = np.sort(np.unique(seen.rollout, return_index=True)[1])
    group = np.unique(seen.group[rows], return_inverse=True)[1]
    return Members(group, None if seen.reward is None else scored_rewards(seen)[rows], rows)


def scored_rewards(seen: Seen) -> Array:
    """Rewards, NaN where a row was declared not scored."""
    assert seen.reward is not None
    return seen.reward if seen.scored_rows is None else np.where(seen.scored_rows, seen.reward, np.nan)


def groups_singleton(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find groups of one: all of them is a grouping that was never made."""
    assert batch.group_ids is not None
    who = members(seen)
    sizes = np.bincount(who.group)
    alone = sizes == 1
    if not alone.any() or len(who.rows) < 2:
        return
    rows = [int(row) for row in who.rows[alone[who.group]]]
    evidence = {"groups of one": int(alone.sum()), "groups": len(sizes), "rows": rows}
    if not alone.all():
        yield Finding(
            "groups_singleton",
            "info",
            f"one member in {some(int(alone.sum()), len(sizes), 'group')}: there is no baseline, and the advantage should be 0",
            evidence,
            "the other members were filtered, failed or are in another micro-batch",
            "audit the whole group batch; leave groups of one out of the loss",
        )
        return
    repeated = _rows_of_repeated_prompts(seen, who)
    yield Finding(
        "groups_singleton",
        "error" if repeated else "warning",
        f"each of the {len(sizes)} groups has one member" + (f", though {repeated} of them share a prompt" if repeated else ""),
        {**evidence, "ids are row numbers": rows_are_ids(seen)},
        "the group id is unique per rollout (a trajectory id or the row number) instead of per task: there is no baseline",
        "give every rollout of one task the same group id",
    )


def rows_are_ids(seen: Seen) -> bool:
    """Whether the group ids are the row numbers."""
    assert seen.group is not None
    return bool(np.equal(seen.group, np.arange(len(seen.group))).all())


def _rows_of_repeated_prompts(seen: Seen, who: Members) -> int:
    if seen.prompt is None or (seen.mask.first[who.rows] == 0).any():
        return 0
    sizes = np.unique(seen.prompt[who.rows], return_counts=True)[1]
    return int(sizes[sizes > 1].sum()) if len(sizes) > 1 else 0


def groups_uniform(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find groups whose rewards are all equal: all of them is a batch without a signal."""
    who = members(seen)
    assert who.reward is not None
    sizes, uniform = who.uniform
    compared = sizes >= 2
    if not (uniform & compared).any():
        return
    everyone = bool(uniform[compared].all())
    values = sorted({float(who.reward[who.group == group][0]) for group in np.flatnonzero(uniform & compared)[:64]})
    yield Finding(
        "groups_uniform",
        "warning" if everyone else "info",
        f"equal rewards in {some(int((uniform & compared).sum()), int(compared.sum()), 'group')}: the advantage should be exactly 0"
        + (", so this batch has no signal" if everyone else ""),
        {"rows": [int(row) for row in who.rows[(uniform & compared)[who.group]]], "rewards": values},
        "every rollout succeeded or every one failed; if it is all groups of every step, the reward is a constant",
        "choose tasks of middling difficulty and drop such groups; look at the reward function if it never varies",
    )


def uniform_groups(seen: Seen) -> Array:
    """Rows whose group has equal rewards; a group of one is uniform."""
    who = members(seen)
    flags = who.uniform[1]
    assert seen.group is not None
    return flags[np.searchsorted(np.unique(seen.group[who.rows]), seen.group)]


def groups_mixed(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find group ids that do not follow the prompts."""
    assert seen.group is not None
    assert seen.prompt is not None
    who = members(seen)
    if batch.prompt_ids is None and batch.reasoning_excluded:
        raise CannotTellError("needs prompt_ids, because sampled tokens stand before the first trained one")
    if batch.prompt_ids is None and (seen.mask.first[who.rows] == 0).any():
        raise CannotTellError("needs prompt_ids, because input_ids are completions alone")
    prompt, group = np.unique(seen.prompt[who.rows], return_inverse=True)[1], who.group
    groups = int(group.max(initial=-1)) + 1
    if len(np.unique(prompt * groups + group)) == groups == int(prompt.max(initial=-1)) + 1:
        return
    prompt = np.unique(_prompts(batch, seen, who.rows), return_inverse=True)[1]
    pairs = np.unique(prompt * groups + group)
    groups_of, prompts_of = np.bincount(pairs // groups), np.bincount(pairs % groups)
    spread, merged = groups_of > 1, prompts_of > 1
    crossing = spread[prompt] & merged[group]
    repeats = np.bincount(prompt)
    if crossing.any():
        yield _mixed("error", who, crossing, "rows of one prompt are in several groups, and these groups hold several prompts")
    elif (merged & (np.bincount(group) > 1)).any() and all(repeats[prompt[merged[group]]] > 1):
        yield _mixed("warning", who, merged[group], "groups hold several prompts, each of them more than once")
    elif merged.any():
        yield _mixed("info", who, merged[group], "members of one group have different prompts")
    elif spread.any():
        yield _mixed("info", who, spread[prompt], "one prompt is in several groups")


def _mixed(severity: Severity, who: Members, rows: Array, what: str) -> Finding:
    text = f"{what} ({some(int(rows.sum()), len(rows), 'member')})"
    shown = who.rows[rows][:8]
    evidence = {"rows": shown, "groups": who.group[rows][:8]}
    if severity == "info":
        return Finding("groups_mixed", "info", text, evidence, "the task was drawn twice, or its prompt varies by design", "")
    return Finding(
        "groups_mixed",
        severity,
        text,
        evidence,
        "group ids were assigned by position, and the rows were sorted, shuffled or filtered in between",
        "carry the group id with the rollout from the task that made it; never group by position",
    )


def _prompts(batch: Batch, seen: Seen, rows: Array) -> Array:
    """Number the members' prompts, compared in full; padding on the left (a run of one id) is not part of a prompt."""
    if batch.prompt_ids is not None:
        prompts = list(batch.prompt_ids.cpu().numpy()[rows])
    else:
        assert batch.input_ids is not None
        ids, valid = batch.input_ids.cpu().numpy(), None if batch.valid_mask is None else batch.valid_mask.cpu().numpy()
        prompts = []
        for row in rows:
            end = min(int(seen.mask.first[row]), batch.width)
            prompt = ids[row, :end] if valid is None else ids[row, :end][valid[row, :end]]
            prompts.append(prompt)
    different: list[Array] = []
    numbers = []
    for prompt in prompts:
        number = next((n for n, other in enumerate(different) if _equal_but_for_padding(prompt, other)), len(different))
        if number == len(different):
            different.append(prompt)
        numbers.append(number)
    return np.array(numbers)


def _equal_but_for_padding(a: Array, b: Array) -> bool:
    short, long = sorted((a, b), key=len)
    extra = len(long) - len(short)
    return np.array_equal(long[extra:], short) and bool((long[:extra] == long[:1]).all())


CHECKS = (
    Check(("groups_singleton",), ("group_ids",), groups_singleton),
    Check(("groups_uniform",), ("group_ids", "rewards"), groups_uniform),
    Check(("groups_mixed",), ("group_ids", "input_ids or prompt_ids"), groups_mixed),
)
