"""Forest: contexts, rollouts, trees, segments and groups, by hand and against recursion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import oracles_forest as slow
import pytest
from forest_strategies import forests
from hypothesis import given
from oracles_forest import Cell
from record_strategies import PROPERTY

from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.store import EventLog, Forest
from rosellm.roserlhf.store.forest.context import Context
from rosellm.roserlhf.trajectory import (
    CopySpan,
    ParentKind,
    ParentLink,
    PolicyAction,
    TokenSpan,
    Trajectory,
    TransitionRecord,
    VersionSpan,
)


def record(name: str, parent: tuple[str, int, ParentKind] | None = None, **fields: Any) -> Trajectory:
    """A record of task "task"; a root's prompt is [1, 2]."""
    fields.setdefault("prompt", [] if parent and parent[2] in ("branch", "continuation") else [TokenSpan([1, 2], "user")])
    tokenizer, task = fields.pop("tokenizer_hash", "tok"), fields.pop("task_id", "task")
    return Trajectory(name, task, "e", tokenizer, parent=ParentLink(*parent) if parent else None, **fields)


def act(trajectory: Trajectory, ids: list[int], shown: list[int] | None = None, **ends: Any) -> Trajectory:
    """Append a turn that samples `ids` and is shown `shown`; cut where it neither shows nor ends."""
    turn = trajectory.first_turn + len(trajectory.actions)
    begins = ends.pop("continues_action", False)
    cut = shown is None and not ends
    action = PolicyAction(
        turn, ids, [-i / 10 for i in ids], "v1", "", stop_reason="interrupted" if cut else "stop", continues_action=begins
    )
    observation = [] if shown is None else [TokenSpan(shown, "tool")]
    trajectory.append(action, None if cut else TransitionRecord(turn, None, observation=observation, **ends))
    return trajectory


def cells(context: Context) -> list[Cell]:
    """Write a context out token by token."""
    found = []
    for span in context.spans:
        for i, token in enumerate(span.token_ids):
            versions = [s.version for s in span.version_spans if s.start <= i < s.end]
            content = span.content_mask is None or bool(span.content_mask[i])
            place = (span.record_id, span.start + i, span.turn)
            found.append(Cell(token, span.role, content, span.policy, *place, versions[0] if versions else None))
    return found


# --- contexts -------------------------------------------------------------------------------------------------------------------


def family() -> list[Trajectory]:
    """One root, and a child of every kind.

    root  a: prompt 1 2 | turn 0: 10 11 → 3 | turn 1: 12 → 4 | turn 2: 13, handed off
    branch b, before turn 1: turn 1: 20 → 5 | turn 2: 21 22, cut
    continuation c of b: turn 2, the rest: 23, ended
    compaction d of a: prompt copies [0, 2) and [5, 7) of a, then 6 | turn 3: 30, ended
    subagent e of a, before turn 2: prompt 7 | turn 0: 40, ended
    rewrite g of f (a root that handed off): prompt 9, then [1, 4) of d
    """
    a = act(act(act(record("a"), [10, 11], [3]), [12], [4]), [13], handed_off=True)
    b = act(act(record("b", ("a", 1, "branch")), [20], [5]), [21, 22])
    c = act(record("c", ("b", 2, "continuation")), [23], continues_action=True, terminated=True)
    d = record("d", ("a", 3, "compaction"), prompt=[CopySpan("a", 0, 2), CopySpan("a", 5, 7), TokenSpan([6], "user")])
    act(d, [30], terminated=True)
    e = act(record("e", ("a", 2, "subagent"), prompt=[TokenSpan([7], "user")]), [40], terminated=True)
    f = act(record("f"), [50], handed_off=True)
    g = record("g", ("f", 1, "rewrite"), prompt=[TokenSpan([9], "system"), CopySpan("d", 1, 4)])
    return [g, d, c, act(g, [60], terminated=True) and b, a, f, e]


def test_contexts_by_hand() -> None:
    forest = Forest(family())
    # a's own row: 1 2 10 11 3 12 4 13, so positions [5, 7) are 12 4
    expected = {
        ("a", None): (1, 2),
        ("a", 1): (1, 2, 10, 11, 3),
        ("a", 2): (1, 2, 10, 11, 3, 12, 4),
        ("b", None): (1, 2, 10, 11, 3),
        ("b", 2): (1, 2, 10, 11, 3, 20, 5),
        ("c", None): (1, 2, 10, 11, 3, 20, 5, 21, 22),
        ("d", None): (1, 2, 12, 4, 6),
        ("e", None): (7,),
        ("g", None): (9, 2, 12, 4),
    }
    assert {key: forest.context(*key).token_ids for key in expected} == expected
    assert {key: forest.context(*key).tokens for key in expected} == {key: len(ids) for key, ids in expected.items()}


def test_a_copy_says_who_sampled_it_and_where_it_is_stored() -> None:
    spans = Forest(family()).context("g").spans
    # a copy of a copy: d's positions 1, 2, 3 are a's 1, 5, 6
    assert [(s.token_ids, s.record_id, s.start, s.turn, s.role, s.policy) for s in spans] == [
        ((9,), "g", 0, None, "system", False),
        ((2,), "a", 1, None, "user", False),
        ((12,), "a", 5, 1, "assistant", True),
        ((4,), "a", 6, 1, "tool", False),
    ]
    assert [s.version_spans for s in spans] == [(), (), (VersionSpan(0, 1, "v1"),), ()]


def test_a_slice_of_an_action_keeps_its_versions_and_flags() -> None:
    versions = [VersionSpan(0, 2, "v1"), VersionSpan(2, 4, "v2", "stale"), VersionSpan(4, 5, "v3")]
    root = record("a", prompt=[TokenSpan([1, 2, 3], "user", [False, True, True])])
    action = PolicyAction(0, [10, 11, 12, 13, 14], [-1.0] * 5, "v1", "", version_spans=versions)
    root.append(action, TransitionRecord(0, None, handed_off=True))
    child = record("b", ("a", 1, "rewrite"), prompt=[CopySpan("a", 1, 2), CopySpan("a", 5, 5), CopySpan("a", 4, 7)])
    first, second = Forest([root, child]).context("b").spans
    assert (first.token_ids, first.content_mask, first.start) == ((2,), (True,), 1)
    # positions 4, 5, 6 are the action's 1, 2, 3: one token of v1, two of v2
    assert (second.token_ids, second.start) == ((11, 12, 13), 4)
    assert second.version_spans == (VersionSpan(0, 1, "v1"), VersionSpan(1, 3, "v2", "stale"))


@PROPERTY
@given(forests())
def test_every_context_is_the_walk_to_the_root(records: list[Trajectory]) -> None:
    forest, by_id = Forest(records), {r.trajectory_id: r for r in records}
    for name, r in by_id.items():
        assert cells(forest.context(name)) == slow.context(by_id, name)
        end = r.first_turn + len(r.actions) + (r.ending in (None, "truncated"))
        for turn in range(r.first_turn, end):
            context = forest.context(name, turn)
            assert cells(context) == slow.context(by_id, name, turn)
            assert context.tokens == len(context.token_ids)


def test_a_generation_that_is_cut_twice_and_once_before_its_first_token() -> None:
    a = act(record("a"), [10])
    b = record("b", ("a", 0, "continuation"))  # cut again before it sampled anything
    c = act(record("c", ("b", 0, "continuation")), [11], continues_action=True)
    d = act(record("d", ("c", 0, "continuation")), [12], continues_action=True, terminated=True)
    forest = Forest([d, c, b, a])
    assert [forest.context(name).token_ids for name in "abcd"] == [(1, 2), (1, 2, 10), (1, 2, 10), (1, 2, 10, 11)]
    (joined,) = forest.joined_actions("a")
    assert (joined.turn, joined.record_ids, joined.token_ids) == (0, ("a", "c", "d"), (10, 11, 12))
    assert joined.behaviour_logprobs == (-1.0, -1.1, -1.2)
    assert joined.version_spans == (VersionSpan(0, 1, "v1"), VersionSpan(1, 2, "v1"), VersionSpan(2, 3, "v1"))
    assert joined.transition is d.transitions[0]
    kinds: list[ParentKind] = ["branch", "subagent"]
    for kind in kinds:
        with pytest.raises(RecordError, match="turn of the parent link must be > 0, where 'b' goes on with a cut action, got 0"):
            Forest([a, b, record("x", ("b", 0, kind))])


@pytest.mark.parametrize(
    ("name", "turn", "message"),
    [
        ("b", 0, r"turn must lie in the turns \[1, 2\] that 'b' leads to, got 0; ask the record that owns the turn"),
        ("b", 3, r"turn must lie in the turns \[1, 2\] that 'b' leads to, got 3"),
        ("a", 3, r"turn must lie in the turns \[0, 2\] that 'a' leads to, got 3"),
        ("a", -1, "turn must be an integer ≥ 0"),
        ("x", None, "record_id must name a record of the forest, got 'x'"),
    ],
)
def test_a_context_that_does_not_exist(name: str, turn: int | None, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        Forest(family()).context(name, turn)


def test_ids_that_were_not_recorded_are_not_guessed() -> None:
    bare = record("a", prompt=[])
    bare.append(PolicyAction(0, [10], [-0.1], "v1", ""), TransitionRecord(0, None))
    bare.append(PolicyAction(1, [11], [-0.1], "v1", ""), TransitionRecord(1, None, terminated=True))
    branch = act(record("b", ("a", 1, "branch")), [20], terminated=True)
    forest = Forest([bare, branch])
    for name in "ab":
        with pytest.raises(
            RecordError, match=f"in front of turn . of '{name}' must all be recorded, got none for the prompt of 'a'"
        ):
            forest.context(name)
    assert forest.counts().total.trainable == 3
    late = record("a", ("r", 0, "branch"))
    late.append(PolicyAction(0, [10], [-0.1], "v1", ""), TransitionRecord(0, None))
    late.append(PolicyAction(1, [11], [-0.1], "v1", ""), TransitionRecord(1, None, terminated=True))
    forest = Forest([act(record("r"), [5], terminated=True), late, branch])
    assert forest.context("a", 0).token_ids == (1, 2)
    for name in "ab":
        with pytest.raises(RecordError, match="got none for the observation of turn 0 of 'a'"):
            forest.context(name, 1)


# --- links ----------------------------------------------------------------------------------------------------------------------


def names(records: tuple[Trajectory, ...]) -> list[str]:
    return [r.trajectory_id for r in records]


def test_a_family_by_hand() -> None:
    forest = Forest(family())
    assert names(forest.rollouts) == ["b", "a", "f"]  # in the order given
    assert {r.trajectory_id: forest.rollout_id(r.trajectory_id) for r in forest} == dict(zip("gdcbafe", "fabbafa", strict=True))
    assert {r.trajectory_id: forest.tree_id(r.trajectory_id) for r in forest} == dict(zip("gdcbafe", "faaaafa", strict=True))
    assert names(forest.children("a")) == ["b", "e", "d"]  # turns 1, 2, 3
    assert names(forest.children("a", "subagent")) == ["e"]
    assert names(forest.branches("a")) == ["b"]
    assert names(forest.segments("a")) == ["a", "d"]
    assert names(forest.segments("b")) == ["b", "c"]
    assert names(forest.members("a")) == ["a", "d", "e"]
    assert (len(forest), "g" in forest, "x" in forest, forest["g"].trajectory_id) == (7, True, False, "g")
    # turn 2 of rollout b stands in two records; its transition is the second one's
    assert [(a.turn, a.record_ids, a.token_ids) for a in forest.joined_actions("b")] == [
        (1, ("b",), (20,)),
        (2, ("b", "c"), (21, 22, 23)),
    ]
    assert [a.transition is None for a in forest.joined_actions("b")] == [False, False]
    with pytest.raises(RecordError, match="rollout_id must name a root or a branch, got 'e', a record of 'a'"):
        forest.members("e")


def test_groups_are_by_id_and_in_member_order() -> None:
    forest = Forest([record(name, group_id=group, member=member) for name, group, member in [
        ("a", "g", 2), ("b", "g", None), ("c", "h", 0), ("d", "g", 0), ("e", None, 0)]])  # fmt: skip
    assert {group: names(members) for group, members in forest.groups().items()} == {"g": ["d", "a", "b"], "h": ["c"]}


@PROPERTY
@given(forests())
def test_every_record_is_in_one_rollout_and_one_tree(records: list[Trajectory]) -> None:
    forest, by_id = Forest(records), {r.trajectory_id: r for r in records}
    assert [*forest] == records
    for name in by_id:
        assert forest.rollout_id(name) == slow.rollout(by_id, name)
        assert forest.tree_id(name) == slow.tree(by_id, name)
    found = [name for rollout in forest.rollouts for name in names(forest.members(rollout.trajectory_id))]
    assert sorted(found) == sorted(by_id)
    for rollout in forest.rollouts:
        turns = [a.turn for a in forest.joined_actions(rollout.trajectory_id)]
        assert turns == list(range(rollout.first_turn, rollout.first_turn + len(turns)))  # each turn once
    assert {name for members in forest.groups().values() for name in names(members)} == {n for n, r in by_id.items() if r.group_id}


@PROPERTY
@given(forests())
def test_the_order_of_the_records_changes_nothing(records: list[Trajectory]) -> None:
    one, other = Forest(records), Forest(sorted(records, key=lambda r: r.trajectory_id))
    for r in records:
        name = r.trajectory_id
        assert cells(one.context(name)) == cells(other.context(name))
        assert names(one.children(name)) == names(other.children(name))
        assert names(one.members(one.rollout_id(name))) == names(other.members(other.rollout_id(name)))
    assert one.groups() == other.groups()
    assert one.counts() == other.counts()


@PROPERTY
@given(forests(live=True))
def test_a_live_run_may_have_handed_off_to_nobody_yet(records: list[Trajectory]) -> None:
    forest = Forest(records, live=True)
    waiting = {r.trajectory_id for r in records if r.ending == "handed_off" and forest.segments(r.trajectory_id)[-1] is r}
    if waiting:
        with pytest.raises(RecordError, match="a record that handed off must have a compaction or rewrite child, got 'r"):
            Forest(records)
    else:
        Forest(records)


# --- records that contradict each other -----------------------------------------------------------------------------------------


def ended(trajectory: Trajectory) -> Trajectory:
    return act(trajectory, [9], terminated=True)


def open_root() -> Trajectory:
    return act(act(record("a"), [10, 11], [3]), [12], [4])


def cut_root() -> Trajectory:
    return act(act(record("a"), [10, 11], [3]), [12])


def handed_root() -> Trajectory:
    return act(record("a"), [10, 11], handed_off=True)


def failed_root() -> Trajectory:
    root = open_root()
    root.fail("policy", "gave up")
    return root


CONTRADICTIONS: dict[str, tuple[list[Trajectory], str]] = {
    "same id": ([record("a"), record("a")], "records must have different ids, got 'a' twice; read one phase"),
    "no parent": ([record("b", ("a", 0, "branch"))], "trajectory 'b': parent must name one of the records, got 'a'"),
    "late turn": (
        [open_root(), record("b", ("a", 3, "branch"))],
        r"'b': turn of the parent link must lie in the turns \[0, 2\] of 'a'",
    ),
    "early turn": (
        [open_root(), act(record("b", ("a", 1, "branch")), [8], [9]), record("c", ("b", 0, "subagent"))],
        r"'c': turn of the parent link must lie in the turns \[1, 2\] of 'b', got 0; link to the record that owns the turn",
    ),
    "cycle": (
        [record("a", ("b", 0, "branch")), record("b", ("c", 0, "branch")), record("c", ("b", 0, "branch"))],
        "record 'b' must come after its parent and after the records it copies, got a cycle: 'b' after 'c' after 'b'",
    ),
    "cyclic copies": (
        [
            open_root(),
            record("b", ("a", 0, "subagent"), prompt=[CopySpan("c", 0, 1)]),
            record("c", ("a", 0, "subagent"), prompt=[CopySpan("b", 0, 1)]),
        ],
        "record 'b' must come after .* it copies, got a cycle: 'b' after 'c' after 'b'",
    ),
    "copy of itself": ([open_root(), record("b", ("a", 0, "subagent"), prompt=[CopySpan("b", 0, 0)])], "a cycle: 'b' after 'b'"),
    "copy of nothing": (
        [open_root(), record("b", ("a", 0, "subagent"), prompt=[TokenSpan([1], "user"), CopySpan("x", 0, 1)])],
        r"trajectory 'b': record_id of prompt\[1\] must name one of the records, got 'x'",
    ),
    "copy too far": (
        [open_root(), record("b", ("a", 0, "subagent"), prompt=[CopySpan("a", 3, 8)])],
        r"trajectory 'b': prompt\[0\] must lie in the 7 positions of 'a', got \[3, 8\)",
    ),
    "copy of other tokens": (
        [open_root(), record("b", ("a", 0, "subagent"), prompt=[CopySpan("a", 0, 1)], tokenizer_hash="other")],
        "trajectory 'b': tokenizer_hash must be 'tok' as in the copied 'a', got 'other'",
    ),
    "nothing was cut": (
        [open_root(), act(record("b", ("a", 2, "continuation")), [9], [1], continues_action=True)],
        "'b': continues_action must be False: the last action of 'a' was not cut, got True",
    ),
    "the cut action is dropped": (
        [cut_root(), ended(record("b", ("a", 1, "continuation")))],
        "'b': continues_action must be True: the last action of 'a' was cut, got False",
    ),
    "behind a cut action": (
        [cut_root(), record("b", ("a", 2, "continuation"))],
        "'b': turn of the parent link must be 1, where 'a' was cut, got 2",
    ),
    "inside": ([open_root(), record("b", ("a", 1, "continuation"))], "turn of the parent link must be 2, where 'a' ends, got 1"),
    "two continuations": (
        [cut_root(), record("b", ("a", 1, "continuation")), record("c", ("a", 1, "continuation"))],
        r"trajectory 'c': parent must be a record that no other goes on with \('a'\), got 'b' before this one",
    ),
    "after the end": ([ended(record("a")), record("b", ("a", 1, "continuation"))], "or interrupted, got 'a', which is terminated"),
    "after a failure": ([failed_root(), record("b", ("a", 2, "continuation"))], "be open or interrupted, got 'a', which is failed"),
    "branch after the end": (
        [ended(record("a")), record("b", ("a", 1, "branch"))],
        "'b': turn of the parent link must be < 1, where 'a' is terminated, got 1",
    ),
    "branch behind a cut action": (
        [cut_root(), record("b", ("a", 2, "branch"))],
        "turn of the parent link must be < 2, where 'a' is interrupted, got 2",
    ),
    "nobody takes over": ([handed_root()], "a record that handed off must have a compaction or rewrite child, got 'a' without one"),
    "a subagent does not take over": ([handed_root(), ended(record("b", ("a", 1, "subagent")))], "must have a compaction"),
    "two take over": (
        [handed_root(), record("b", ("a", 1, "compaction")), record("c", ("a", 1, "rewrite"))],
        "'c': parent must be a record that no other goes on with",
    ),
    "compaction of an open record": (
        [open_root(), record("b", ("a", 2, "compaction"))],
        "'b': parent of a compaction must have handed off just before the child's turn, got 'a', open at turn 2, and turn 2",
    ),
    "rewrite from the middle": (
        [handed_root(), record("b", ("a", 0, "rewrite"))],
        "parent of a rewrite must have handed off just before the child's turn, got 'a', handed_off at turn 1, and turn 0",
    ),
    "other tokenizer": (
        [open_root(), record("b", ("a", 1, "branch"), tokenizer_hash="other")],
        "trajectory 'b': tokenizer_hash must be 'tok' as in the parent 'a', got 'other'",
    ),
    "other task": (
        [open_root(), record("b", ("a", 2, "continuation"), task_id="other")],
        "trajectory 'b': task_id must be 'task' as in the parent 'a', got 'other'",
    ),
    "mixed group": (
        [record("a", group_id="g"), record("b", group_id="g", task_id="other")],
        "trajectory 'b': group_id must be one task's, 'task' as in 'a', got 'other'",
    ),
    "mixed runs": (
        [record("a", run_id="r"), record("c"), record("b", run_id="s")],
        "trajectory 'b': run_id must be one run's, 'r' as in 'a', got 's'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_contradictions_are_named(case: str) -> None:
    records, message = CONTRADICTIONS[case]
    for given_order in (
        (records, records[::-1]) if "two" not in case and case not in ("same id", "mixed group", "mixed runs") else [records]
    ):
        with pytest.raises(RecordError, match=message):
            Forest(given_order)


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(RecordError, match=r"records\[1\] must be a Trajectory, got .*; a stored one is its .trajectory"):
        Forest([record("a"), "b"])  # type: ignore[list-item]
    with pytest.raises(RecordError, match="live must be True or False"):
        Forest([], live="no")  # type: ignore[arg-type]
    with pytest.raises(RecordError, match="kind must be one of"):
        Forest([record("a")]).children("a", "clone")  # type: ignore[arg-type]


def test_a_forest_of_nothing() -> None:
    forest = Forest([])
    assert (len(forest), forest.rollouts, forest.groups(), forest.counts().total.sampled) == (0, (), {}, 0)


def test_a_stored_run_is_a_forest(tmp_path: Path) -> None:
    records = family()
    with EventLog.create(tmp_path / "events.db") as log:
        for r in sorted(records, key=lambda r: r.trajectory_id):
            log.append_trajectory(r, step=0, phase="train")
        forest = Forest(stored.trajectory for stored in log.trajectories(phase="train"))
        with pytest.raises(RecordError, match=r"records\[0\] must be a Trajectory, got .*; a stored one is its .trajectory"):
            Forest(log.trajectories())  # type: ignore[arg-type]
    assert forest.context("g").token_ids == Forest(records).context("g").token_ids
    assert forest.counts() == Forest(records).counts()


def test_a_subagent_may_speak_another_language() -> None:
    other = ended(record("b", ("a", 1, "subagent"), tokenizer_hash="other", task_id="look up"))
    assert Forest([open_root(), other]).context("b").token_ids == (1, 2)
