"""Four uses of a rollout that several policy versions sampled."""

from __future__ import annotations

import math
from typing import Any

import pytest
from forest_strategies import VERSIONS, forests
from hypothesis import given
from hypothesis import strategies as st
from record_strategies import PROPERTY

from rosellm.roserlhf.errors import RangeError, RecordError
from rosellm.roserlhf.store import Forest
from rosellm.roserlhf.store.forest.law import SampledRun, sampled_runs
from rosellm.roserlhf.store.forest.mixed_policy import (
    LAGGING,
    MIXED,
    OLDER,
    OffPolicyUse,
    PolicyUse,
    VersionSegment,
    discard_mixed,
    newest_segment_only,
    off_policy_estimator,
    per_segment_ratios,
)
from rosellm.roserlhf.trajectory import ParentLink, PolicyAction, TokenSpan, Trajectory, TransitionRecord, VersionSpan

TABLE = ["v3", "v4", "v5"]


def episode(*turns: list[tuple[str, int]], name: str = "a", **fields: Any) -> Trajectory:
    """A finished record; each turn is (version, tokens) spans, the i-th token of the record has log-probability −i."""
    record = Trajectory(name, "task", "e", "tok", prompt=[TokenSpan([1], "user")], **fields)
    place = 0
    for turn, parts in enumerate(turns):
        spans: list[VersionSpan] = []
        for version, count in parts:
            name, _, cache = version.partition(" ")
            start = spans[-1].end if spans else 0
            spans.append(VersionSpan(start, start + count, name, "stale" if cache else "recomputed"))
        ids = range(spans[-1].end)
        action = PolicyAction(turn, ids, [-float(place + i) for i in ids], spans[0].version, "", version_spans=spans)
        place += len(ids)
        last = turn == len(turns) - 1
        record.append(action, TransitionRecord(turn, None, terminated=last, observation=[] if last else [TokenSpan([2], "tool")]))
    return record


# A partial rollout: four turns of 2, 1, 3 and 1 tokens, sampled by versions 3, 3, 4 and 5.
RUNS = sampled_runs([episode([("v3", 2)], [("v3", 1)], [("v4", 3)], [("v5", 1)])])


def bits(use: PolicyUse) -> list[int]:
    return [int(selected) for selected in use.selection]


def test_only_the_newest_segment_is_trained() -> None:
    use = newest_segment_only(RUNS, TABLE, current="v5")
    assert bits(use) == [0, 0, 0, 0, 0, 0, 1]
    assert (use.sampled, use.trained, use.excluded) == (7, 1, {OLDER: 6})
    assert use.segments == (VersionSegment("v3", 0, 3, 2), VersionSegment("v4", 3, 6, 1), VersionSegment("v5", 6, 7, 0))
    assert use.of("a") == use.selection


def test_per_segment_ratios_by_hand() -> None:
    use = per_segment_ratios(RUNS, TABLE, current="v5")
    assert (bits(use), use.excluded, use.segment_ids) == ([1] * 7, {}, (0, 0, 0, 1, 1, 1, 2))
    # behaviour log-probabilities 0 −1 … −6; with current ones all −2 the geometric means are
    # exp((−6 + 3) / 3) = e⁻¹, exp((−6 + 12) / 3) = e², exp(−2 + 6) = e⁴
    behaviour = off_policy_estimator(RUNS, TABLE, current="v5").behaviour_logprobs
    ratios = []
    for i in range(len(use.segments)):
        log_ratios = [-2.0 - b for b, segment in zip(behaviour, use.segment_ids, strict=True) if segment == i]
        ratios.append(math.exp(sum(log_ratios) / len(log_ratios)))
    assert ratios == [math.exp(-1), math.exp(2), math.exp(4)]


def test_the_off_policy_estimator_gets_everything_per_token() -> None:
    use = off_policy_estimator(RUNS, TABLE, current="v5", max_lag=1)
    assert isinstance(use, OffPolicyUse)
    assert (bits(use), use.excluded) == ([0, 0, 0, 1, 1, 1, 1], {LAGGING: 3})
    assert use.behaviour_versions == ("v3", "v3", "v3", "v4", "v4", "v4", "v5")
    assert use.behaviour_logprobs == (0.0, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0)
    assert use.lags == (2, 2, 2, 1, 1, 1, 0)


def test_a_mixed_rollout_is_discarded_whole() -> None:
    use = discard_mixed(RUNS, TABLE, current="v5")
    assert (bits(use), use.excluded) == ([0] * 7, {MIXED: 7})
    pure = sampled_runs([episode([("v4", 2)], [("v4", 1)])])
    assert (discard_mixed(pure, TABLE, current="v5").trained, discard_mixed(pure, TABLE, current="v5").excluded) == (3, {})


def test_R42_the_lag_of_a_reply_is_that_of_its_oldest_span() -> None:
    runs = sampled_runs([episode([("v7", 57), ("v8", 71)])])
    table = ["v6", "v7", "v8", "v9"]
    use = off_policy_estimator(runs, table, current="v9", max_lag=1)
    assert use.oldest_lag == 2  # the sample may be refused as a whole,
    assert use.selection == (False,) * 57 + (True,) * 71  # or its first 57 tokens masked; a lag of exactly 1 is accepted
    assert use.excluded == {LAGGING: 57}
    assert per_segment_ratios(runs, table, current="v9", max_lag=2).trained == 128


def test_order_is_the_tables_not_the_alphabets() -> None:
    runs = sampled_runs([episode([("v9", 2), ("v10", 3)])])
    assert bits(newest_segment_only(runs, ["v9", "v10"], current="v10")) == [0, 0, 1, 1, 1]
    assert bits(newest_segment_only(runs, ["v10", "v9"], current="v9")) == [1, 1, 0, 0, 0]


def test_a_replica_that_lagged_in_between_leaves_both_newest_segments() -> None:
    runs = sampled_runs([episode([("v5", 1)], [("v4", 1)], [("v5", 1)])])
    use = newest_segment_only(runs, TABLE, current="v5")
    assert (bits(use), use.segment_ids) == ([1, 0, 1], (0, 1, 2))


def test_what_the_law_excludes_keeps_its_reason() -> None:
    runs = sampled_runs([episode([("v4", 2), ("v5 stale", 3)])])
    for use in (per_segment_ratios(runs, TABLE, current="v5"), off_policy_estimator(runs, TABLE, current="v5")):
        assert (bits(use), use.excluded) == ([1, 1, 0, 0, 0], {"stale prefix cache": 3})
    assert newest_segment_only(runs, TABLE, current="v5").excluded == {OLDER: 2, "stale prefix cache": 3}
    assert discard_mixed(runs, TABLE, current="v5").excluded == {MIXED: 2, "stale prefix cache": 3}


def test_evidence_of_another_policy_needs_no_place_in_the_table() -> None:
    judge = episode([("judge", 4)], name="j", parent=ParentLink("a", 1, "subagent"), trainable=False)
    runs = Forest([episode([("v4", 2)]), judge]).sampled("a")
    for use in (
        newest_segment_only(runs, TABLE, current="v5"),
        per_segment_ratios(runs, TABLE, current="v5", max_lag=1),
        off_policy_estimator(runs, TABLE, current="v5", max_lag=1),
        discard_mixed(runs, TABLE, current="v5"),
    ):
        assert (bits(use), use.excluded) == ([1, 1, 0, 0, 0, 0], {"not trainable": 4})
        assert use.segments == (VersionSegment("v4", 0, 2, 1), VersionSegment("judge", 2, 6, None))
        assert (use.of("a"), use.of("j"), use.oldest_lag) == ((True, True), (False,) * 4, 1)


def test_a_segment_goes_on_through_a_cut_and_ends_with_its_episode() -> None:
    first = Trajectory("a", "task", "e", "tok", prompt=[TokenSpan([1], "user")])
    first.append(PolicyAction(0, [5, 6], [-0.1, -0.2], "v4", "", stop_reason="interrupted"))
    empty = Trajectory("b", "task", "e", "tok", parent=ParentLink("a", 0, "continuation"))
    rest = Trajectory("c", "task", "e", "tok", parent=ParentLink("b", 0, "continuation"))
    rest.append(PolicyAction(0, [7], [-0.3], "v4", "", continues_action=True), TransitionRecord(0, None, terminated=True))
    agent = episode([("v4", 1)], name="d", parent=ParentLink("a", 0, "subagent"))
    use = per_segment_ratios(Forest([first, empty, rest, agent]).sampled("a"), TABLE, current="v4")
    assert use.segments == (VersionSegment("v4", 0, 3, 0), VersionSegment("v4", 3, 4, 0))
    assert use.positions == {"a": (0, 2), "c": (2, 3), "d": (3, 4)}
    with pytest.raises(RecordError, match="record_id must name a record with sampled tokens of this rollout, got 'b'"):
        use.of("b")


@PROPERTY
@given(forests(), st.sampled_from(VERSIONS), st.none() | st.integers(0, 3))
def test_trained_and_excluded_are_what_was_sampled(records: list[Trajectory], current: str, max_lag: int | None) -> None:
    forest, table = Forest(records), VERSIONS[: VERSIONS.index(current) + 1]
    counts = forest.counts()
    for rollout in forest.rollouts:
        name = rollout.trajectory_id
        runs = forest.sampled(name)
        versions = [version for r in runs for version in [r.version] * (r.end - r.start)]
        trainable = [r.record.trainable for r in runs for _ in range(r.start, r.end)]
        known = [version for version, ours in zip(versions, trainable, strict=True) if ours]
        if not {*known} <= {*table}:
            with pytest.raises(RecordError, match=r"must (not be newer than the current|be in the policy table)"):
                newest_segment_only(runs, VERSIONS, current=current)
            continue
        newest = max(map(table.index, known), default=0)
        uses = {
            "newest": newest_segment_only(runs, VERSIONS, current=current),
            "segments": per_segment_ratios(runs, VERSIONS, current=current, max_lag=max_lag),
            "tokens": off_policy_estimator(runs, VERSIONS, current=current, max_lag=max_lag),
            "discard": discard_mixed(runs, VERSIONS, current=current),
        }
        for use in uses.values():
            assert use.sampled == counts.rollouts[name].sampled == use.trained + sum(use.excluded.values())
            assert use.trained <= counts.rollouts[name].trainable
            assert [use.segments[i].version for i in use.segment_ids] == versions
            assert sum((use.of(record) for record in use.positions), ()) == use.selection
            for reason in counts.rollouts[name].excluded:
                assert use.excluded[reason] == counts.rollouts[name].excluded[reason]
        free = [r.reason is None for r in runs for _ in range(r.start, r.end)]
        for i, version in enumerate(versions):
            lag = table.index(current) - table.index(version) if version in table else None
            near = max_lag is None or (lag is not None and lag <= max_lag)
            assert uses["newest"].selection[i] == (free[i] and version == table[newest])
            assert uses["segments"].selection[i] == uses["tokens"].selection[i] == (free[i] and near)
            assert uses["discard"].selection[i] == (free[i] and len({*known}) == 1)


@pytest.mark.parametrize(
    ("versions", "current", "error", "message"),
    [
        (["v3", "v4", "v3"], "v3", RangeError, "versions must name each version once, got 'v3' twice"),
        (TABLE, "v6", RangeError, "current must be in the policy table, got 'v6'"),
        (["v4", "v5"], "v5", RecordError, "version of turn 0 of 'a' must be in the policy table, got 'v3'"),
        (TABLE, "v4", RecordError, "version of turn 3 of 'a' must not be newer than the current 'v4', got 'v5'"),
        ("v3", "v3", RecordError, "versions must be a sequence"),
    ],
)
def test_a_table_that_does_not_fit(versions: Any, current: str, error: type[Exception], message: str) -> None:
    for use in (newest_segment_only, per_segment_ratios, off_policy_estimator, discard_mixed):
        with pytest.raises(error, match=message):
            use(RUNS, versions, current=current)


@pytest.mark.parametrize("max_lag", [-1, 0.5, True])
def test_a_lag_is_a_count(max_lag: Any) -> None:
    with pytest.raises(RangeError, match="max_lag must be an integer ≥ 0 or None"):
        per_segment_ratios(RUNS, TABLE, current="v5", max_lag=max_lag)


def test_nothing_sampled_is_nothing_trained() -> None:
    none: tuple[SampledRun, ...] = ()
    use = newest_segment_only(none, TABLE, current="v5")
    assert (use.sampled, use.trained, use.excluded, use.segments, use.oldest_lag) == (0, 0, {}, (), None)
