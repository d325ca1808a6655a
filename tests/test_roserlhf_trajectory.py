"""The record: every rule of it, by example and by property."""

from __future__ import annotations

import copy
import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from least_time import least_seconds
from record_strategies import IDS, LOGPROBS, PROPERTY, actions, token_spans, trajectories, transitions, version_spans

from rosellm.roserlhf.errors import RecordError, RoseError
from rosellm.roserlhf.trajectory import (
    CopySpan,
    Failure,
    ParentLink,
    ParsedAction,
    ParseFailure,
    PolicyAction,
    SamplingParameters,
    ScoreRecord,
    TokenSpan,
    ToolCall,
    ToolResult,
    Trajectory,
    TransitionRecord,
    VersionSpan,
    naming_trajectory,
)


def action(turn: int = 0, version: str = "v1", **fields: Any) -> PolicyAction:
    return PolicyAction(turn, [11, 12, 2], [-0.1, -0.5, -0.01], version, "hi", **fields)


def record(**fields: Any) -> Trajectory:
    return Trajectory("run/0/task-1/0", "task-1", "shop-1", "tok-1", **fields)


def child(kind: Any, turn: int = 3, **fields: Any) -> Trajectory:
    return record(parent=ParentLink("parent", turn, kind), **fields)


PROMPT = [TokenSpan([1, 2, 3], "user", [False, True, False])]
SHOWN = [TokenSpan([4, 5], "tool", [True, False])]


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


# --- rewards, failures, scores --------------------------------------------------------------------------------------------------


def test_a_reward_is_a_number_or_not_scored() -> None:
    given_ = {"a": True, "b": np.float32(0.5), "c": torch.tensor(2), "d": None, "e": -3, "f": np.bool_(False)}
    kept = TransitionRecord(0, None, given_).reward_components  # type: ignore[arg-type]
    assert kept == {"a": 1.0, "b": 0.5, "c": 2.0, "d": None, "e": -3.0, "f": 0.0}
    assert {type(v) for v in kept.values()} == {float, type(None)}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, "1", [1.0], 10**400, torch.tensor([1.0, 2.0])])
def test_R49_R56_a_reward_that_is_no_number_is_refused_by_name(bad: Any) -> None:
    with pytest.raises(RecordError, match=r"reward_components\['correct'\] must be a finite number, got .*; None means not scored"):
        TransitionRecord(0, None, {"correct": bad})
    with pytest.raises(RecordError, match=r"components\['correct'\] must be a finite number"):
        ScoreRecord("t", 0, {"correct": bad}, "judge-1")


def test_R56_a_text_reward_is_refused_with_its_type() -> None:
    with pytest.raises(RecordError, match=r"got '1' \(str\)"):
        TransitionRecord(0, None, {"correct": "1"})  # type: ignore[dict-item]


@PROPERTY
@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(-5, 5)), max_size=5))
def test_a_total_is_unscored_if_a_part_is(turns: list[dict[str, int | None]]) -> None:
    answers = [TransitionRecord(t, None, given_) for t, given_ in enumerate(turns)]
    trajectory = record(actions=[action(t) for t in range(len(turns))], transitions=answers)
    for name, total in trajectory.reward_totals().items():
        parts = [given_[name] for given_ in turns if name in given_]
        assert total == (None if None in parts else sum(p for p in parts if p is not None))


@PROPERTY
@given(st.sampled_from([None, "policy", "environment", "infrastructure"]), st.booleans(), st.booleans())
def test_only_the_infrastructure_makes_a_rollout_unscored(blame: Any, has_cause: bool, in_transition: bool) -> None:
    cause = "timeout" if has_cause else None
    trajectory = record()
    if in_transition and blame and not cause:
        with pytest.raises(RecordError, match="cause must be given with blame"):
            TransitionRecord(0, None, blame=blame, cause=cause)
        return
    if in_transition or blame is None:
        trajectory.append(action(), TransitionRecord(0, None, {"correct": 0.0}, blame=blame, cause=cause))
    else:
        trajectory.fail(blame, "the engine died")
        assert trajectory.failure == Failure(blame, "the engine died")
        assert trajectory.sealed
    assert trajectory.is_unscored == (blame == "infrastructure")


def test_a_failure_is_one_of_three_peoples() -> None:
    with pytest.raises(RecordError, match="blame must be one of 'policy', 'environment', 'infrastructure', got 'nobody'"):
        record().fail("nobody", "x")  # type: ignore[arg-type]
    finished = record(actions=[action()], transitions=[TransitionRecord(0, None, {}, True)])
    with pytest.raises(RecordError, match="no failure can be added, the record is finished"):
        finished.fail("policy", "late")
    with pytest.raises(RecordError, match="failure must be None in a finished record"):
        replace(finished, failure=Failure("policy", "late"))
    assert record(failure=Failure("policy", "early")).sealed


# --- nothing changes afterwards -------------------------------------------------------------------------------------------------


def test_R54_records_copy_what_they_are_given() -> None:
    ids, logprobs, rewards, shown = [1, 2], [-0.1, -0.2], {"correct": 1.0}, [4, 5]
    nested = {"items": [{"name": "lamp"}]}
    parsed = ParsedAction(calls=[ToolCall("c", "search", nested)])
    built, answer = PolicyAction(0, ids, logprobs, "v1", "", parsed), TransitionRecord(0, None, rewards)
    spans, mask = [TokenSpan(shown, "user", mask := [True, False])], mask
    group = [Trajectory(f"t{i}", "task", "env", "tok", prompt=spans) for i in range(4)]
    before = [t.content_hash() for t in group]
    ids.append(9)
    logprobs.append(-9.0)
    rewards["correct"] = 0.0
    shown.append(6)
    mask.append(True)
    nested["items"][0]["name"] = "mug"
    spans.append(TokenSpan([7], "user"))
    assert built.token_ids == (1, 2)
    assert built.old_logprobs == (-0.1, -0.2)
    assert answer.reward_components == {"correct": 1.0}
    assert parsed.calls[0].arguments == {"items": [{"name": "lamp"}]}
    assert [t.content_hash() for t in group] == before
    group[0].append(action(), TransitionRecord(0, None, observation=SHOWN))
    assert [len(t.actions) for t in group] == [1, 0, 0, 0]


def test_records_are_read_only() -> None:
    built = action(parsed_action={"items": ["lamp"]}, timing={"seconds": 1.0})
    parsed: Any = built.parsed_action
    trajectory = record(seeds={"run": 2**40})
    for target, name in ((built, "text"), (built, "token_ids"), (trajectory, "actions"), (trajectory, "sealed")):
        with pytest.raises(FrozenInstanceError):
            setattr(target, name, ())
    changes: list[Callable[[], object]] = [
        lambda: parsed.update(x=1),
        lambda: parsed["items"].append("mug"),
        lambda: parsed["items"].__setitem__(0, "mug"),
        lambda: built.timing.update(seconds=2.0),  # type: ignore[attr-defined]
        lambda: trajectory.seeds.clear(),  # type: ignore[attr-defined]
    ]
    for change in changes:
        with pytest.raises(TypeError, match="a record is read-only"):
            change()
    assert json.loads(json.dumps(built.parsed_action)) == {"items": ["lamp"]}


@PROPERTY
@given(trajectories())
def test_a_sealed_record_is_never_reopened(trajectory: Trajectory) -> None:
    trajectory.seal()
    turn = trajectory.first_turn + len(trajectory.actions)
    before = trajectory.content_hash()
    with pytest.raises(RecordError, match=r"finished|sealed"):
        trajectory.append(action(turn), TransitionRecord(turn, None, observation=SHOWN))
    with pytest.raises(RecordError, match=r"finished|sealed"):
        trajectory.fail("policy", "late")
    assert trajectory.content_hash() == before
    assert replace(trajectory, sealed=True).sealed


def test_a_sealed_record_says_how_to_go_on() -> None:
    trajectory = record()
    trajectory.seal()
    with pytest.raises(RecordError, match="the record is sealed; continue it in a child"):
        trajectory.append(action(), TransitionRecord(0, None))


@PROPERTY
@given(trajectories())
def test_a_record_is_equal_to_its_copies(trajectory: Trajectory) -> None:
    trajectory.validate(require_finished=False)
    for twin in (pickle.loads(pickle.dumps(trajectory)), copy.deepcopy(trajectory), replace(trajectory)):  # noqa: S301
        assert twin == trajectory
        assert twin.content_hash() == trajectory.content_hash()
    assert {hash(a) for a in trajectory.actions} == {hash(copy.deepcopy(a)) for a in trajectory.actions}
    with pytest.raises(TypeError, match="unhashable"):
        hash(trajectory)


# --- the content hash -----------------------------------------------------------------------------------------------------------


@PROPERTY
@given(actions(), st.data())
def test_the_content_hash_leaves_out_timing_only(acted: PolicyAction, data: st.DataObject) -> None:
    answer = data.draw(transitions(acted, "truncated"))
    trajectory = record(actions=[acted], transitions=[answer], timing={"started": 1})
    slow = [replace(r, latency=9.5) for r in answer.results]
    later = record(
        actions=[replace(acted, timing={"seconds": 7.0})],
        transitions=[replace(answer, results=slow, timing={"waited": 2**63})],
        timing={"started": 2},
    )
    assert later.content_hash() == trajectory.content_hash()
    changed = [
        record(actions=[replace(acted, text=acted.text + "x")], transitions=[answer]),
        record(
            actions=[replace(acted, old_logprobs=[*acted.old_logprobs[:-1], acted.old_logprobs[-1] - 1.0])], transitions=[answer]
        ),
        record(actions=[acted], transitions=[replace(answer, truncated=False)]),
        record(actions=[acted], transitions=[answer], step=1),
        record(),
    ]
    assume(acted.old_logprobs[-1] > -1e15)  # beyond, one less is the same number
    assert trajectory.content_hash() not in {other.content_hash() for other in changed}


def test_the_content_hash_tells_zero_from_minus_zero_and_not_scored() -> None:
    hashes = {
        record(actions=[action()], transitions=[TransitionRecord(0, None, {"a": value})]).content_hash()
        for value in (0.0, -0.0, None)
    }
    assert len(hashes) == 3


def test_the_content_hash_is_the_same_in_every_process() -> None:
    program = (
        "from rosellm.roserlhf.trajectory import *\n"
        "json = {'b': 1, 'a': [0.1 + 0.2]}\n"
        "a = PolicyAction(0, [1, 2**40], [-0.1, -5e-324], 'v1', 'a\\u2028\\0\\ud800', json, sidecars={'x': b'ab'})\n"
        "r = TransitionRecord(0, None, {'y': 1.0, 'x': None}, True)\n"
        "t = Trajectory('t', 'k', 'e', 'h', [a], [r], seeds={'b': 1, 'a': 2})\n"
        "print(t.content_hash())"
    )
    hashes = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            check=True,
        )
        hashes.add(done.stdout.strip())
    # Pinned: a changed value means that hashes stored earlier no longer match.
    assert hashes == {"d89feb955fb6728075fe419c4b95b11bcb0e801cb0b8bb5eb1b0d82b1f34c58f"}


# --- the remaining fields -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": -0.1}, "temperature must be ≥ 0, got -0.1"),
        ({"temperature": math.nan}, "temperature must be a finite number"),
        ({"top_p": 0.0}, r"top_p must be in \(0, 1\], got 0.0"),
        ({"min_p": 1.5}, r"min_p must be in \[0, 1\], got 1.5"),
        ({"top_k": 0}, "top_k must be ≥ 1 or None, got 0"),
        ({"max_tokens": 0}, "max_tokens must be ≥ 1 or None, got 0"),
        ({"seed_key": (7, 0.5)}, r"seed_key\[1\] must be an integer, got 0.5"),
    ],
)
def test_sampling_parameters_out_of_range_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        SamplingParameters(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hashes": {"weights": "x"}}, "hashes must have names out of task, environment, .*, got 'weights'"),
        ({"seeds": {"run": 0.5}}, r"seeds\['run'\] must be an integer, got 0.5"),
        ({"seeds": {1: 2}}, "every name in seeds must be a string, got 1"),
        ({"schema_version": 2}, r"schema_version must be in \[1, 1\], got 2; upgrade rosellm"),
        ({"step": -1}, "step must be an integer ≥ 0, got -1"),
        ({"prompt": [[1, 2]]}, r"prompt\[0\] must be a TokenSpan or CopySpan"),
        ({"actions": [1]}, r"actions\[0\] must be a PolicyAction, got 1"),
        ({"trainable": 1}, "trainable must be True or False, got 1"),
        ({"failure": "x"}, "failure must be a Failure"),
        ({"group_id": ""}, "group_id must be a non-empty string"),
        ({"parent": "x"}, "parent must be a ParentLink"),
        ({"timing": {"seconds": math.nan}}, r"timing\['seconds'\] must be a finite number"),
    ],
)
def test_fields_of_a_trajectory_are_checked_and_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=f"^trajectory 'run/0/task-1/0': {message}"):
        record(**fields)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Trajectory("", "t", "e", "k"), "trajectory_id must be a non-empty string"),
        (lambda: action(stop_reason="eos"), "stop_reason must be one of 'stop', 'length', 'interrupted', got 'eos'"),
        (lambda: action(sampling=0.7), r"sampling must be SamplingParameters, got 0.7 \(float\)"),
        (lambda: action(parsed_action={1, 2}), "parsed_action must be a JSON value, got {1, 2}"),
        (lambda: action(sidecars={"x": [1]}), r"sidecars\['x'\] must be bytes"),
        (lambda: PolicyAction(0, [1], [-0.1], "v1", None), "text must be a string, got None"),  # type: ignore[arg-type]
        (lambda: ToolResult("c", "fine"), "status must be one of 'ok', .*, got 'fine'"),  # type: ignore[arg-type]
        (lambda: ToolResult("c", attempts=-1), "attempts must be an integer ≥ 0"),
        (lambda: ToolCall("c", "add", [1]), "arguments must be a mapping from names"),  # type: ignore[arg-type]
        (lambda: ToolCall("c", "add", {}, (3, 1)), r"span must be \(start, end\) with start ≤ end, got \(3, 1\)"),
        (lambda: ParseFailure(""), "reason must be a non-empty string"),
        (lambda: ParsedAction(calls=["add"]), r"calls\[0\] must be a ToolCall"),  # type: ignore[list-item]
        (lambda: CopySpan("r", 3, 2), "end must be ≥ start 3, got 2"),
        (lambda: TransitionRecord(0, None, {}, 1), "terminated must be True or False, got 1"),  # type: ignore[arg-type]
        (lambda: TransitionRecord(0, None, [0.5]), "reward_components must be a mapping from names"),  # type: ignore[arg-type]
        (lambda: ScoreRecord("t", -1, {}, "s"), "turn must be an integer ≥ 0"),
        (lambda: record().append("a"), "action must be a PolicyAction"),  # type: ignore[arg-type]
        (lambda: record().append(action(), 1.0), "transition must be a TransitionRecord"),  # type: ignore[arg-type]
    ],
)
def test_arguments_are_checked_and_named(build: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        build()


def test_a_json_value_of_any_depth_is_kept_or_refused() -> None:
    def nested(depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = [value]
        return value

    assert action(parsed_action=nested(100)).parsed_action == nested(100)
    with pytest.raises(RecordError, match="parsed_action must be nested at most 100 deep"):
        action(parsed_action=nested(101))
    assert action(parsed_action=np.array([[1.5]])).parsed_action == [[1.5]]


def test_a_long_episode_grows_in_linear_time() -> None:
    def seconds(turns: int) -> float:
        acted = [action(t) for t in range(turns)]
        answers = [TransitionRecord(t, None, observation=SHOWN) for t in range(turns)]

        def grow() -> None:
            trajectory = record(prompt=PROMPT)
            for a, t in zip(acted, answers, strict=True):
                trajectory.append(a, t)

        return least_seconds(grow)

    assert seconds(400) < 2.5 * seconds(200) + 0.001
