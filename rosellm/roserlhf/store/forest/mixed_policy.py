r"""Four uses of a rollout that more than one policy version sampled: `its sampled tokens + the policy table -> what is trained`.

Turns 0…k sampled by :math:`\mu_0` and later ones by :math:`\mu_1` have no single behaviour policy:

.. math:: p(\tau) = \rho_0 P \prod_{t \le k} \mu_0(a_t \mid h_t) P_t \prod_{t > k} \mu_1(a_t \mid h_t) P_t

| use | trained | what the loss needs |
|---|---|---|
| `newest_segment_only` | what the newest version sampled; all before it is context, mask 0 | nothing more: near on-policy |
| `per_segment_ratios` | everything | one importance ratio per version segment: `segment_ids` |
| `off_policy_estimator` | everything within a lag | per token: behaviour log-probability, version, lag |
| `discard_mixed` | rollouts of one version, whole; others not at all | nothing more; selects against long rollouts |

Which is right is a choice; each is counted the same way: `trained + sum(excluded) = sampled`. A token that the law excludes already
(stale prefix cache, not trainable, unscored, interrupted) keeps that reason. A behaviour log-probability is always that of the
version that sampled the token, never of another one. Tokens that are not trainable may be another policy's: their versions need not
stand in the table, and they make no rollout mixed.

Source: Kimi Team 2025, "Kimi k1.5: Scaling Reinforcement Learning with LLMs", partial rollouts, https://arxiv.org/abs/2501.12599
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.errors import RangeError, RecordError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.store.forest.law import SampledRun

OLDER = "older policy version"
"""Not sampled by the newest version of its rollout."""
MIXED = "mixed policy versions"
"""Its rollout was sampled by more than one version."""
LAGGING = "lag above the limit"
"""Sampled by a version too far behind the current one."""


@dataclass(frozen=True, slots=True)
class VersionSegment:
    """Consecutive sampled tokens of one version, within one episode; several turns and records, if no update fell between them."""

    version: str
    """The version that sampled them."""
    start: int
    """First position among the sampled tokens of the rollout."""
    end: int
    """Position after the last."""
    lag: int | None
    """Publications between this version and the current one; None for a version that is not in the table."""


@dataclass(frozen=True, slots=True)
class PolicyUse:
    """What of a rollout is trained. Columns are aligned with its sampled tokens, in the order of the runs."""

    selection: tuple[bool, ...]
    """True where the token is trained: the loss mask at the sampled tokens."""
    excluded: Mapping[str, int]
    """The others, by reason."""
    segments: tuple[VersionSegment, ...]
    """They tile the sampled tokens."""
    positions: Mapping[str, tuple[int, int]]
    """Per record, its sampled tokens: [start, end)."""

    @property
    def sampled(self) -> int:
        """Sampled tokens."""
        return len(self.selection)

    @property
    def trained(self) -> int:
        """Selected tokens."""
        return sum(self.selection)

    @property
    def oldest_lag(self) -> int | None:
        """The largest lag of a segment, by which a whole rollout may be refused; None if no version is in the table."""
        return max((segment.lag for segment in self.segments if segment.lag is not None), default=None)

    @property
    def segment_ids(self) -> tuple[int, ...]:
        """The segment of each token, as an index in `segments`: the unit of one importance ratio."""
        return tuple(i for i, segment in enumerate(self.segments) for _ in range(segment.start, segment.end))

    def of(self, record_id: str) -> tuple[bool, ...]:
        """Select among the sampled tokens of one record, for its row.

        Raises:
            RecordError: the record has no sampled token here.
        """
        if record_id not in self.positions:
            raise fail(RecordError, "record_id", "name a record with sampled tokens of this rollout", plain.shown(record_id))
        start, end = self.positions[record_id]
        return self.selection[start:end]


@dataclass(frozen=True, slots=True)
class OffPolicyUse(PolicyUse):
    """What an importance weight per token, truncated or not, or V-trace needs to know of the behaviour policies."""

    behaviour_logprobs: tuple[float, ...]
    """Of the version that sampled the token."""
    behaviour_versions: tuple[str, ...]
    """That version."""
    lags: tuple[int | None, ...]
    """Its lag, as in the segments."""


def newest_segment_only(runs: Sequence[SampledRun], versions: Sequence[str], *, current: str) -> PolicyUse:
    """Train what the newest of a rollout's versions sampled; the rest is context, excluded as an `older policy version`.

    The newest version is the rollout's own; whether it is the current one is told by the lag.

    Args:
        runs: the rollout's sampled tokens (`Forest.sampled`, or `sampled_runs` of its records).
        versions: the run's policy table, oldest first; the only order of versions there is.
        current: the version about to be updated.

    Raises:
        RangeError: `versions` names one twice, or not `current`.
        RecordError: a version of a trainable record is not in the table, or newer than `current`.

    Example:
        >>> spans = [VersionSpan(0, 2, "b"), VersionSpan(2, 3, "a")]
        >>> action = PolicyAction(0, [5, 6, 2], [-0.1, -0.5, -0.2], "b", "", version_spans=spans)
        >>> episode = Trajectory("t", "task", "e", "tok", [action], [TransitionRecord(0, None, terminated=True)])
        >>> from rosellm.roserlhf.store.forest.law import sampled_runs
        >>> use = newest_segment_only(sampled_runs([episode]), ["b", "a"], current="a")
        >>> use.selection, use.excluded
        ((False, False, True), {'older policy version': 2})
    """
    table = _Table(versions, current)
    newest = min((table.lag(run) for run in runs if run.record.trainable), default=0)
    return _use(runs, table, lambda run: OLDER if table.lag(run) != newest else None)


def per_segment_ratios(
    runs: Sequence[SampledRun], versions: Sequence[str], *, current: str, max_lag: int | None = None
) -> PolicyUse:
    r"""Train every token, with one importance ratio per version segment, from behaviour log-probabilities of the segment's version.

    .. math:: r_s = \exp\Big(\tfrac{1}{|s|} \sum_{t \in s} \ell_t - \ell^{\text{behaviour}}_t\Big)

    for a geometric mean, or without the root for the exact ratio: the objective's choice, with `segment_ids` as its units.

    Args:
        runs, versions, current: as in `newest_segment_only`.
        max_lag: tokens of a larger lag are excluded; None excludes none.

    Raises:
        RangeError, RecordError: as in `newest_segment_only`; `max_lag` is negative.
    """
    return _use(runs, *_within(versions, current, max_lag))


def off_policy_estimator(
    runs: Sequence[SampledRun], versions: Sequence[str], *, current: str, max_lag: int | None = None
) -> OffPolicyUse:
    r"""Train every token with a fully off-policy estimator: :math:`\rho_t = \exp(\ell_t - \ell^{\text{behaviour}}_t)` per token.

    Args:
        runs, versions, current: as in `newest_segment_only`.
        max_lag: tokens of a larger lag are excluded; None excludes none.

    Raises:
        RangeError, RecordError: as in `newest_segment_only`; `max_lag` is negative.
    """
    table, refuse = _within(versions, current, max_lag)
    use = _use(runs, table, refuse)
    logprobs = tuple(logprob for run in runs for logprob in run.action.old_logprobs[run.start : run.end])
    names = tuple(segment.version for segment in use.segments for _ in range(segment.start, segment.end))
    lags = tuple(segment.lag for segment in use.segments for _ in range(segment.start, segment.end))
    return OffPolicyUse(use.selection, use.excluded, use.segments, use.positions, logprobs, names, lags)


def discard_mixed(runs: Sequence[SampledRun], versions: Sequence[str], *, current: str) -> PolicyUse:
    """Train a rollout that one version sampled; exclude all of any other as `mixed policy versions`.

    Args:
        runs, versions, current: as in `newest_segment_only`.

    Raises:
        RangeError, RecordError: as in `newest_segment_only`.
    """
    mixed = len({run.version for run in runs if run.record.trainable}) > 1
    return _use(runs, _Table(versions, current), lambda _: MIXED if mixed else None)


class _Table:
    """Order of versions, counted back from the current one."""

    def __init__(self, versions: Sequence[str], current: str) -> None:
        names = plain.records(versions, "versions", str)
        self._rank = {version: rank for rank, version in enumerate(names)}
        if len(self._rank) != len(names):
            twice = next(version for version, count in Counter(names).items() if count > 1)
            raise fail(RangeError, "versions", "name each version once", f"{twice!r} twice")
        if current not in self._rank:
            raise fail(RangeError, "current", "be in the policy table", plain.shown(current))
        self._current = current

    def lag(self, run: SampledRun) -> int:
        """Count publications since the run's version."""
        where = f"version of turn {run.action.turn} of {run.record.trajectory_id!r}"
        if run.version not in self._rank:
            raise fail(RecordError, where, "be in the policy table", repr(run.version))
        lag = self._rank[self._current] - self._rank[run.version]
        if lag < 0:
            raise fail(RecordError, where, f"not be newer than the current {self._current!r}", repr(run.version))
        return lag

    def lag_if_known(self, run: SampledRun) -> int | None:
        known = run.record.trainable or self._rank.get(run.version, len(self._rank)) <= self._rank[self._current]
        return self.lag(run) if known else None


def _within(versions: Sequence[str], current: str, max_lag: int | None) -> tuple[_Table, Callable[[SampledRun], str | None]]:
    if max_lag is not None and (type(max_lag) is not int or max_lag < 0):
        raise fail(RangeError, "max_lag", "be an integer ≥ 0 or None", plain.shown(max_lag))
    table = _Table(versions, current)
    return table, lambda run: LAGGING if max_lag is not None and table.lag(run) > max_lag else None


def _use(runs: Sequence[SampledRun], table: _Table, refuse: Callable[[SampledRun], str | None]) -> PolicyUse:
    """Apply a choice to every run that the law leaves free."""
    selection: list[bool] = []
    excluded: Counter[str] = Counter()
    segments: list[VersionSegment] = []
    positions: dict[str, tuple[int, int]] = {}
    before: SampledRun | None = None
    for run in runs:
        lag = table.lag_if_known(run)
        reason = run.reason if run.reason is not None else refuse(run)
        start, count = len(selection), run.end - run.start
        selection += [reason is None] * count
        if reason is not None:
            excluded[reason] += count
        name = run.record.trajectory_id
        positions[name] = (positions.get(name, (start, 0))[0], start + count)
        if before is not None and (before.version, before.episode) == (run.version, run.episode):
            segments[-1] = VersionSegment(run.version, segments[-1].start, start + count, lag)
        else:
            segments.append(VersionSegment(run.version, start, start + count, lag))
        before = run
    return PolicyUse(tuple(selection), dict(excluded), tuple(segments), positions)
