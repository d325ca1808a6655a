"""The record: rewards, blame, sealing, copies, hashes, and what is refused."""

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
from counted_work import instructions
from hypothesis import assume, given
from hypothesis import strategies as st
from plain_records import PROMPT, SHOWN, action, record
from record_strategies import PROPERTY, actions, trajectories, transitions

from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.trajectory import (
    CopySpan,
    Failure,
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
)

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
    def work(turns: int) -> int:
        acted = [action(t) for t in range(turns)]
        answers = [TransitionRecord(t, None, observation=SHOWN) for t in range(turns)]

        def grow() -> None:
            trajectory = record(prompt=PROMPT)
            for a, t in zip(acted, answers, strict=True):
                trajectory.append(a, t)

        return instructions(grow)

    assert work(400) < 2.5 * work(200)
