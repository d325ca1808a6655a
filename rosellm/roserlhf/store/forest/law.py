"""The law: `records of a rollout -> every sampled token, once, trainable or excluded under one reason`.

Only what the records themselves say is decided here; uniform groups, lag and the like are reasons of the batch made of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.record.exclusion import INTERRUPTED, NOT_TRAINABLE, STALE, UNSCORED
from rosellm.roserlhf.store.forest.links import goes_on, is_open
from rosellm.roserlhf.trajectory import PolicyAction, Trajectory


@dataclass(frozen=True, slots=True)
class Account:
    """Where sampled tokens are: `sampled = trainable + sum(excluded) + pending`."""

    sampled: int
    """Sampled by a policy."""
    trainable: int
    """Free to be trained."""
    excluded: Mapping[str, int] = plain.EMPTY
    """Left out, by reason; no reason has a count of 0."""
    pending: int = 0
    """In a live run, those of rollouts that have no end yet."""

    def __post_init__(self) -> None:
        for name in ("sampled", "trainable", "pending"):
            plain.natural(getattr(self, name), name)
        object.__setattr__(self, "excluded", plain.mapping(self.excluded, "excluded", plain.natural))
        placed = self.trainable + sum(self.excluded.values()) + self.pending
        if placed != self.sampled:
            raise fail(RecordError, "sampled", "equal trainable + excluded + pending", f"{self.sampled} and {placed}")


@dataclass(frozen=True, slots=True)
class SampledRun:
    """Consecutive sampled tokens of one action with one fate."""

    record: Trajectory
    """The record that holds them."""
    action: PolicyAction
    """Their action."""
    episode: str
    """The first record of the episode that the record goes on with; a subagent has its own."""
    start: int
    """First position in the action."""
    end: int
    """Position after the last."""
    version: str
    """The policy version that sampled them."""
    reason: str | None
    """Why they are not trained; None if they may be."""


def sampled_runs(records: Sequence[Trajectory], *, branched: Container[str] = ()) -> tuple[SampledRun, ...]:
    """Walk the sampled tokens of one rollout in order.

    The reason is the first that applies: stale prefix cache (of the run), not trainable (of the record), unscored (the
    infrastructure failed in any of `records`), interrupted (the first record's episode, or the record's own, has no end).

    Args:
        records: of one rollout, each behind the one it goes on with; the first one's episode is the rollout's.
        branched: ids of records at whose end branches go on: a trunk needs no end of its own.

    Example:
        >>> spans = [VersionSpan(0, 2, "v7"), VersionSpan(2, 3, "v8", "stale")]
        >>> action = PolicyAction(0, [5, 6, 2], [-0.1, -0.5, -0.2], "v7", "", version_spans=spans)
        >>> episode = Trajectory("a", "task", "e", "tok", [action], [TransitionRecord(0, None, terminated=True)])
        >>> [(run.start, run.end, run.version, run.reason) for run in sampled_runs([episode])]
        [(0, 2, 'v7', None), (2, 3, 'v8', 'stale prefix cache')]
    """
    episodes = _episodes(records)
    fate = _fates(records, episodes, branched)
    runs = []
    for record in records:
        reason = NOT_TRAINABLE if not record.trainable else fate[record.trajectory_id]
        for action in record.actions:
            for span in action.version_spans:
                why = STALE if span.prefix_cache == "stale" else reason
                runs.append(SampledRun(record, action, episodes[record.trajectory_id], span.start, span.end, span.version, why))
    return tuple(runs)


def _episodes(records: Sequence[Trajectory]) -> dict[str, str]:
    """Give the first record of each record's episode, as far as `records` reach."""
    first: dict[str, str] = {}
    for record in records:
        before = record.parent.record_id if record.parent is not None and goes_on(record) else record.trajectory_id
        first[record.trajectory_id] = first.get(before, record.trajectory_id)
    return first


def _fates(records: Sequence[Trajectory], episodes: Mapping[str, str], branched: Container[str]) -> dict[str, str | None]:
    """Tell for each record whether its tokens have an outcome to learn from."""
    if any(record.is_unscored for record in records):
        return dict.fromkeys(episodes, UNSCORED)
    # The last record of an episode decides.
    endless = {episodes[r.trajectory_id]: is_open(r) and r.trajectory_id not in branched for r in records}
    lost = {first for first, has_no_end in endless.items() if has_no_end}
    if records and episodes[records[0].trajectory_id] in lost:
        return dict.fromkeys(episodes, INTERRUPTED)
    return {record_id: INTERRUPTED if first in lost else None for record_id, first in episodes.items()}


def account(runs: Iterable[SampledRun], *, live: bool = False) -> Account:
    """Count sampled tokens by fate.

    Args:
        runs: as `sampled_runs` gives them.
        live: the run goes on, so what has no end yet is pending, not lost.
    """
    counts: Counter[str | None] = Counter()
    for run in runs:
        counts[run.reason] += run.end - run.start
    sampled, trainable = counts.total(), counts.pop(None, 0)
    pending = counts.pop(INTERRUPTED, 0) if live else 0
    return Account(sampled, trainable, {str(reason): count for reason, count in counts.items()}, pending)


def add(accounts: Iterable[Account]) -> Account:
    """Add accounts of different tokens."""
    sampled = trainable = pending = 0
    excluded: Counter[str] = Counter()
    for part in accounts:
        sampled, trainable, pending = sampled + part.sampled, trainable + part.trainable, pending + part.pending
        excluded.update(part.excluded)
    return Account(sampled, trainable, excluded, pending)
