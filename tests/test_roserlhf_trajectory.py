"""The record: its parts and how they fit, by example and by property."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from plain_records import PROMPT, SHOWN, action, child, record
from record_strategies import IDS, LOGPROBS, PROPERTY, token_spans, version_spans

from rosellm.roserlhf.errors import RecordError, RoseError
from rosellm.roserlhf.trajectory import (
    CopySpan,
    ParentLink,
    ParsedAction,
    ParseFailure,
    PolicyAction,
    TokenSpan,
    ToolCall,
    ToolResult,
    Trajectory,
    TransitionRecord,
    VersionSpan,
    naming_trajectory,
)

# --- the seeds' surface ---------------------------------------------------------------------------------------------------------


def test_a_trajectory_is_built_from_positional_arguments_alone() -> None:
    trajectory = Trajectory("t", "task", "env", "tok")
    trajectory.append(PolicyAction(0, [1, 2], [-0.1, -0.2], "v1", "a"), TransitionRecord(0, "obs-0"))
    assert not trajectory.is_finished
    trajectory.append(
        PolicyAction(1, [3], [-0.3], "v2", "b", "submit"), TransitionRecord(1, "obs-1", {"correct": 1.0}, True, False, "hash")
    )
    assert trajectory.is_finished
    assert trajectory.ending == "terminated"
    assert trajectory.behavior_policy_versions == ("v1", "v2")
    assert trajectory.sampled_tokens == 3
    trajectory.validate()


def test_actions_and_transitions_can_be_given_to_the_constructor() -> None:
    built = Trajectory(
        "t", "task", "env", "tok", [action(0), action(1)], [TransitionRecord(0, None), TransitionRecord(1, None, {}, True)]
    )
    grown = Trajectory("t", "task", "env", "tok")
    grown.append(action(0), TransitionRecord(0, None))
    grown.append(action(1), TransitionRecord(1, None, {}, True))
    assert built == grown
    with pytest.raises(RecordError, match=r"transitions must hold one per action \(2; .*, got 0"):
        Trajectory("t", "task", "env", "tok", [action(0), action(1)])


def test_nothing_is_appended_to_a_finished_episode() -> None:
    ends: list[dict[str, Any]] = [{"terminated": True}, {"truncated": True}, {"handed_off": True}]
    for end in ends:
        trajectory = record(actions=[action()], transitions=[TransitionRecord(0, None, **end)])
        with pytest.raises(RecordError, match="finished"):
            trajectory.append(action(1), TransitionRecord(1, None))
        assert len(trajectory.actions) == 1
    with pytest.raises(RecordError, match="finished"):
        record(actions=[action(0), action(1)], transitions=[TransitionRecord(0, None, {}, True), TransitionRecord(1, None)])


def test_an_unfinished_trajectory_validates_only_on_request() -> None:
    trajectory = record(actions=[action()], transitions=[TransitionRecord(0, None)])
    trajectory.validate(require_finished=False)
    with pytest.raises(RecordError, match=r"'run/0/task-1/0' is incomplete: 1 action\(s\) and no end"):
        trajectory.validate()
    with pytest.raises(RecordError, match="incomplete"):
        record().validate()


def test_a_prompt_with_no_gap_reads_in_row_order() -> None:
    trajectory = record(prompt=PROMPT)
    trajectory.append(action(0), TransitionRecord(0, None, observation=SHOWN))
    trajectory.append(action(1), TransitionRecord(1, None, {}, True))
    # prompt 3, action 3, observation 2, action 3
    assert [len(span.token_ids) for span in trajectory.spans() if not isinstance(span, CopySpan)] == [3, 3, 2, 3]
    assert [isinstance(span, PolicyAction) for span in trajectory.spans()] == [False, True, False, True]


# --- one log-probability per sampled token --------------------------------------------------------------------------------------


@PROPERTY
@given(st.lists(IDS, max_size=6), st.lists(LOGPROBS, max_size=6))
def test_every_sampled_token_has_one_logprob(ids: list[int], logprobs: list[float]) -> None:
    if len(ids) != len(logprobs):
        with pytest.raises(RecordError, match="every sampled token"):
            PolicyAction(0, ids, logprobs, "v1", "")
    elif not ids:
        with pytest.raises(RecordError, match="token_ids must hold at least one sampled token"):
            PolicyAction(0, ids, logprobs, "v1", "")
    else:
        built = PolicyAction(0, ids, logprobs, "v1", "")
        assert built.token_ids == tuple(ids)
        assert [x.hex() for x in built.old_logprobs] == [x.hex() for x in logprobs]


@PROPERTY
@given(
    st.lists(LOGPROBS, min_size=1, max_size=5),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e-9, 0.5, None, "-0.1", True, np.float32("nan"), 10**400, -(10**400), [-0.1]]),
    st.data(),
)
def test_a_logprob_is_a_finite_number_not_above_zero(logprobs: list[float], bad: Any, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(logprobs)))
    with pytest.raises(RecordError, match=rf"old_logprobs\[{at}\] of turn 7 must be a finite number ≤ 0, got"):
        PolicyAction(7, range(len(logprobs) + 1), [*logprobs[:at], bad, *logprobs[at:]], "v1", "")


@pytest.mark.parametrize("missing", [None, math.nan, torch.tensor(math.nan), np.float64("nan")])
def test_R13_a_missing_logprob_is_refused_with_its_place(missing: Any) -> None:
    with (
        pytest.raises(
            RecordError, match=r"^trajectory 'run/3/t/1': old_logprobs\[1\] of turn 2 must be a finite number ≤ 0"
        ) as caught,
        naming_trajectory("run/3/t/1"),
    ):
        PolicyAction(2, [5, 6, 7], [-0.7, missing, -0.2], "v1", "")
    assert "0.0 would claim certainty" in str(caught.value)
    assert isinstance(caught.value, RoseError)
    assert isinstance(caught.value, ValueError)


@PROPERTY
@given(st.lists(IDS, min_size=1, max_size=4), st.sampled_from([-1, True, 1.0, "3", None, np.float32(1), b"1"]), st.data())
def test_token_ids_are_integers_from_zero(ids: list[int], bad: Any, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(ids)))
    wrong = [*ids[:at], bad, *ids[at:]]
    with pytest.raises(RecordError, match=rf"token_ids\[{at}\] must be an integer ≥ 0, got"):
        PolicyAction(0, wrong, [-1.0] * len(wrong), "v1", "")
    with pytest.raises(RecordError, match=rf"token_ids\[{at}\] must be an integer ≥ 0, got"):
        TokenSpan(wrong, "user")


def test_arrays_and_tensors_become_plain_numbers() -> None:
    plain = PolicyAction(1, [3, 2**40], [-0.5, 0.0], "v1", "")
    for kind in (np.array, torch.tensor):
        built = PolicyAction(np.int64(1), kind([3, 2**40]), kind([-0.5, -0.0]), "v1", "")  # type: ignore[arg-type]
        assert built == plain
        assert {type(x) for x in (*built.token_ids, built.turn)} == {int}
        assert {type(x) for x in built.old_logprobs} == {float}
    # An integer zero is a number, and float32 keeps the value it has.
    assert PolicyAction(0, [1], [0], "v1", "").old_logprobs == (0.0,)
    scalars: list[Any] = [np.int32(4), np.float32(-0.1)]
    assert PolicyAction(0, iter(scalars[:1]), scalars[1:], "v1", "").old_logprobs == (-0.10000000149011612,)  # type: ignore[arg-type]


@pytest.mark.parametrize("ids", ["12", b"12", {1, 2}, {1: 2}, 3, None])
def test_token_ids_must_be_a_sequence(ids: Any) -> None:
    with pytest.raises(RecordError, match=r"token_ids must be a sequence, got"):
        PolicyAction(0, ids, [-0.1], "v1", "")


def test_a_version_is_a_non_empty_string() -> None:
    for version in ("", 7, None):
        with pytest.raises(RecordError, match="policy_version must be a non-empty string, got"):
            PolicyAction(0, [1], [-0.1], version, "")  # type: ignore[arg-type]


def test_a_turn_is_an_integer_from_zero() -> None:
    for turn in (-1, True, 1.0, "0"):
        with pytest.raises(RecordError, match="turn must be an integer ≥ 0, got"):
            PolicyAction(turn, [1], [-0.1], "v1", "")  # type: ignore[arg-type]


# --- version spans --------------------------------------------------------------------------------------------------------------


def test_R42_two_versions_in_one_reply_are_two_spans() -> None:
    spans = [VersionSpan(0, 57, "v7"), VersionSpan(57, 128, "v8", "stale")]
    reply = PolicyAction(0, range(128), [-0.1] * 128, "v7", "", version_spans=spans)
    assert reply.version_spans == tuple(spans)
    trajectory = record(actions=[reply], transitions=[TransitionRecord(0, None, {}, True)])
    assert trajectory.behavior_policy_versions == ("v7", "v8")
    # The policy table of the run orders versions: at v9 the reply is two versions old, not one.
    table = ["v7", "v8", "v9"]
    assert table.index("v9") - table.index(reply.policy_version) == 2
    with pytest.raises(RecordError, match=r"policy_version must be the oldest span's version 'v7', got 'v8'"):
        PolicyAction(0, range(128), [-0.1] * 128, "v8", "", version_spans=spans)


@PROPERTY
@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), version_spans(n))), st.integers(0, 9), st.integers(0, 9))
def test_version_spans_tile_the_ids(drawn: tuple[int, list[VersionSpan]], start: int, end: int) -> None:
    count, spans = drawn
    tiled = PolicyAction(0, range(count), [-0.1] * count, spans[0].version, "", version_spans=spans)
    assert [i for span in tiled.version_spans for i in range(span.start, span.end)] == list(range(count))
    assume(start < end)
    moved = [replace(spans[0], start=start, end=end), *spans[1:]]
    if moved == spans:
        return
    with pytest.raises(RecordError, match="version_spans must tile"):
        PolicyAction(0, range(count), [-0.1] * count, spans[0].version, "", version_spans=moved)


def test_without_spans_one_span_covers_the_reply() -> None:
    assert action().version_spans == (VersionSpan(0, 3, "v1", "recomputed"),)
    for start, end in ((0, 0), (2, 1)):
        with pytest.raises(RecordError, match=f"end must be > start {start}, got {end}"):
            VersionSpan(start, end, "v1")
    with pytest.raises(RecordError, match="prefix_cache must be one of 'recomputed', 'stale', got 'cold'"):
        VersionSpan(0, 1, "v1", "cold")  # type: ignore[arg-type]


# --- what is aligned with the ids -----------------------------------------------------------------------------------------------


@PROPERTY
@given(st.lists(IDS, min_size=1, max_size=4, unique=True), st.data())
def test_kept_support_holds_the_sampled_token(ids: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(ids) - 1))
    kept: list[list[int] | None] = [None if data.draw(st.booleans()) else [*ids] for _ in ids]
    built = PolicyAction(0, ids, [-0.1] * len(ids), "v1", "", kept_support=kept)
    assert built.kept_support == tuple(None if row is None else tuple(row) for row in kept)
    kept[at] = [i for i in ids if i != ids[at]]
    with pytest.raises(RecordError, match=rf"kept_support\[{at}\] must hold the sampled id {ids[at]}"):
        PolicyAction(0, ids, [-0.1] * len(ids), "v1", "", kept_support=kept)
    with pytest.raises(RecordError, match=f"kept_support must hold one entry for each of {len(ids)} tokens, got {len(ids) + 1}"):
        PolicyAction(0, ids, [-0.1] * len(ids), "v1", "", kept_support=[None] * (len(ids) + 1))


@PROPERTY
@given(st.integers(1, 5), st.binary(max_size=12))
def test_sidecars_are_aligned_with_the_ids(count: int, data: bytes) -> None:
    if len(data) % count:
        with pytest.raises(RecordError, match="sidecars\\['experts'\\] must hold the same number of bytes"):
            PolicyAction(0, range(count), [-0.1] * count, "v1", "", sidecars={"experts": data})
    else:
        assert PolicyAction(0, range(count), [-0.1] * count, "v1", "", sidecars={"experts": data}).sidecars == {"experts": data}


@pytest.mark.parametrize(
    "parsed",
    [
        ParsedAction(calls=[ToolCall("c", "add", {}, (1, 4))]),
        ParseFailure("cut", span=(0, 4)),
        ParsedAction(failures=[ParseFailure("cut", span=(0, 4))]),
    ],
)
def test_call_spans_lie_within_the_reply(parsed: ParsedAction | ParseFailure) -> None:
    with pytest.raises(RecordError, match="span must lie within the 3 token_ids"):
        action(parsed_action=parsed)
    assert PolicyAction(0, [1, 2, 3, 4], [-0.1] * 4, "v1", "", parsed).parsed_action is parsed


def test_a_content_mask_has_one_boolean_per_id() -> None:
    assert TokenSpan([1, 2], "user", np.array([True, False])).content_mask == (True, False)  # type: ignore[arg-type]
    for mask in ([True], [True, 2], [True, None]):
        with pytest.raises(RecordError, match="content_mask must hold 2 booleans"):
            TokenSpan([1, 2], "user", mask)  # type: ignore[arg-type]


# --- the end of an episode ------------------------------------------------------------------------------------------------------


@PROPERTY
@given(st.booleans(), st.booleans(), st.booleans())
def test_an_episode_ends_in_at_most_one_way(terminated: bool, truncated: bool, handed_off: bool) -> None:
    if terminated + truncated + handed_off > 1:
        with pytest.raises(RecordError, match="turn 3 must end in at most one way, got"):
            TransitionRecord(3, None, {}, terminated, truncated, handed_off=handed_off)
        return
    answer = TransitionRecord(3, None, {}, terminated, truncated, handed_off=handed_off)
    named = {"terminated": terminated, "truncated": truncated, "handed_off": handed_off}
    assert answer.ending == next((name for name, given_ in named.items() if given_), None)


def test_R28_every_trajectory_carries_its_own_end() -> None:
    # Lengths say nothing about the end: A is short and cut, B is the longest and ended by itself.
    def episode(turns: int, **end: Any) -> Trajectory:
        answers = [TransitionRecord(t, None, {}, **(end if t == turns - 1 else {})) for t in range(turns)]
        return record(actions=[action(t) for t in range(turns)], transitions=answers)

    group = [episode(3, truncated=True), episode(5, terminated=True)]
    assert [t.ending == "truncated" for t in group] == [True, False]
    longer = [*group, episode(8, terminated=True)]
    assert [t.ending for t in longer[:2]] == ["truncated", "terminated"]


@pytest.mark.parametrize("kind", ["branch", "continuation", "compaction", "subagent", "rewrite"])
def test_a_cut_action_has_no_transition_and_a_continuation_goes_on_with_it(kind: str) -> None:
    first = record()
    first.append(action(0), TransitionRecord(0, None))
    first.append(action(1, stop_reason="interrupted"))
    assert first.ending == "interrupted"
    assert not first.is_finished
    with pytest.raises(RecordError, match="nothing can follow a cut action"):
        first.append(action(2), TransitionRecord(2, None))
    second = child(kind, 1)
    rest = action(second.first_turn, continues_action=True)
    if kind == "continuation":
        second.append(rest, TransitionRecord(1, None, {}, True))
        assert second.is_finished
        assert second.actions[0].turn == first.actions[-1].turn
    else:
        with pytest.raises(RecordError, match="continues_action must be False but in the first action of a continuation"):
            second.append(rest, TransitionRecord(second.first_turn, None))


def test_only_the_first_action_continues_another() -> None:
    second = child("continuation", 1)
    second.append(action(1), TransitionRecord(1, None))
    with pytest.raises(RecordError, match="continues_action must be False"):
        second.append(action(2, continues_action=True), TransitionRecord(2, None))
    with pytest.raises(RecordError, match="continues_action must be False"):
        record().append(action(0, continues_action=True), TransitionRecord(0, None))


@PROPERTY
@given(st.sampled_from([None, "stop", "length", "interrupted"]), st.booleans())
def test_an_action_has_a_transition_unless_it_was_interrupted(stop_reason: Any, answered: bool) -> None:
    trajectory = record()
    cut, answer = action(stop_reason=stop_reason), TransitionRecord(0, None) if answered else None
    if answered == (stop_reason == "interrupted"):
        with pytest.raises(RecordError, match="transition must be None iff the action was interrupted"):
            trajectory.append(cut, answer)
        assert trajectory.actions == ()
    else:
        trajectory.append(cut, answer)
        assert trajectory.actions == (cut,)


@PROPERTY
@given(st.sampled_from([None, "terminated", "truncated", "handed_off"]), st.lists(token_spans(), max_size=2), st.booleans())
def test_the_last_observation_is_kept_iff_it_is_needed(ending: str | None, shown: list[TokenSpan], has_prompt: bool) -> None:
    flags: dict[str, Any] = {} if ending is None else {ending: True}
    if ending in ("terminated", "handed_off") and shown:
        with pytest.raises(RecordError, match=f"observation must be empty at a {ending} end"):
            TransitionRecord(0, None, observation=shown, **flags)
        return
    answer = TransitionRecord(0, None, observation=shown, **flags)
    trajectory = record(prompt=PROMPT if has_prompt else ())
    if has_prompt and not shown and ending in (None, "truncated"):
        with pytest.raises(RecordError, match="observation must hold at least one span when another action follows"):
            trajectory.append(action(), answer)
    else:
        trajectory.append(action(), answer)
        assert trajectory.ending == ending


def test_a_record_that_keeps_ids_keeps_all_of_them() -> None:
    trajectory = child("branch")
    trajectory.append(action(3), TransitionRecord(3, None, observation=[TokenSpan([], "tool")]))
    with pytest.raises(RecordError, match="an empty TokenSpan says that nothing was shown"):
        trajectory.append(action(4), TransitionRecord(4, None, {}, False, True))


# --- turns and order ------------------------------------------------------------------------------------------------------------


@PROPERTY
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4))
def test_turns_are_contiguous(turns: list[tuple[int, int]]) -> None:
    trajectory = record()
    for i, (acted, answered) in enumerate(turns):
        if (acted, answered) != (i, i):
            with pytest.raises(RecordError, match=f"turn must be contiguous: {i} comes next, got"):
                trajectory.append(action(acted), TransitionRecord(answered, None))
            break
        trajectory.append(action(acted), TransitionRecord(answered, None))
    assert [a.turn for a in trajectory.actions] == list(range(len(trajectory.actions)))


@pytest.mark.parametrize(
    ("kind", "first"), [("branch", 3), ("continuation", 3), ("compaction", 3), ("rewrite", 3), ("subagent", 0)]
)
def test_turns_are_absolute(kind: str, first: int) -> None:
    trajectory = child(kind)
    assert trajectory.first_turn == first
    trajectory.append(action(first), TransitionRecord(first, None, {}, True))
    with pytest.raises(RecordError, match=f"turn must be contiguous: {first} comes next, got action {first + 1}"):
        child(kind).append(action(first + 1), TransitionRecord(first + 1, None))


@PROPERTY
@given(st.permutations(["a", "b", "c"]), st.integers(0, 3))
def test_results_stand_in_call_order(order: list[str], count: int) -> None:
    parsed = ParsedAction(calls=[ToolCall(c, "add") for c in "abc"], failures=[ParseFailure("cut", call_id="d")])
    results = [ToolResult("d", "invalid", origin="harness", attempts=0), *(ToolResult(c) for c in order[:count])]
    answer = TransitionRecord(0, None, results=results)
    if order[:count] == sorted(order[:count]):
        record().append(action(parsed_action=parsed), answer)
    else:
        with pytest.raises(RecordError, match=r"results must stand in call order \['a', 'b', 'c'\]"):
            record().append(action(parsed_action=parsed), answer)


def test_a_result_answers_a_call_of_the_action() -> None:
    parsed = ParsedAction(calls=[ToolCall("a", "add")])
    with pytest.raises(RecordError, match="results must answer calls of the action, got call_id 'x' from environment"):
        record().append(action(parsed_action=parsed), TransitionRecord(0, None, results=[ToolResult("x")]))
    # The harness may comment on a reply that holds no such call.
    record().append(
        action(parsed_action=ParsedAction()), TransitionRecord(0, None, results=[ToolResult("x", "invalid", origin="harness")])
    )


# --- parents, groups, prompts ---------------------------------------------------------------------------------------------------


@PROPERTY
@given(
    st.sampled_from([None, "branch", "continuation", "compaction", "subagent", "rewrite"]),
    st.lists(st.sampled_from([*PROMPT, CopySpan("parent", 0, 9)]), max_size=2),
    st.none() | st.just("group-1"),
)
def test_a_child_holds_what_its_kind_allows(kind: Any, prompt: list[Any], group: str | None) -> None:
    parent = kind and ParentLink("parent", 3, kind)
    copies = any(isinstance(span, CopySpan) for span in prompt)
    if group and kind not in (None, "branch"):
        expected: str | None = "group_id must be None unless the record is a rollout"
    elif kind in ("branch", "continuation") and prompt:
        expected = f"prompt must be empty in a {kind}"
    elif kind is None and copies:
        expected = "prompt must hold ids, not copies, in a root"
    else:
        expected = None
    if expected:
        with pytest.raises(RecordError, match=expected):
            record(parent=parent, prompt=prompt, group_id=group)
    else:
        built = record(parent=parent, prompt=prompt, group_id=group)
        assert built.is_rollout == (kind in (None, "branch"))


def test_a_record_is_not_its_own_parent() -> None:
    with pytest.raises(RecordError, match="parent must be another record"):
        record(parent=ParentLink("run/0/task-1/0", 0, "branch"))
    with pytest.raises(RecordError, match=r"kind must be one of 'branch', .*, got 'clone'"):
        ParentLink("p", 0, "clone")  # type: ignore[arg-type]
