"""What `ToolEnvironment` does for an environment of one's own: routing, words for mistakes, states, content hashes."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.environment.protocol import Capabilities, Environment, StepResult, Task
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.tools import tool
from rosellm.roserlhf.errors import ConfigError, NonFiniteError, RecordError
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure, ToolCall, ToolResult


class Box(ToolEnvironment):
    """Put numbers into a box, then shut it."""

    @staticmethod
    def make_task(rng: random.Random) -> dict[str, Any]:
        return {"wanted": [rng.randint(0, 9)]}

    def reset(self) -> None:
        self.inside: list[int] = []

    def prompt(self) -> str:
        return f"put {self.task.payload['wanted']}"

    @tool
    def put(self, number: int) -> str:
        self.inside.append(number)
        return f"{len(self.inside)} inside"

    @tool
    def shut(self) -> str:
        self.finish()
        return "shut"

    def score(self) -> dict[str, float | None]:
        return {"correct": float(self.inside == self.task.payload["wanted"]), "format": -float(self.mistakes)}


def started(task: Task | None = None) -> Box:
    environment = Box()
    environment.start(task or Box.task_from({"wanted": [3]}), seed=0)
    return environment


def step(environment: ToolEnvironment, action: ParsedAction | ParseFailure, runner: Any = None) -> StepResult:
    return asyncio.run(environment.step(action, runner or DirectRunner(environment.tools)))


def calls(*wanted: tuple[str, dict[str, Any]]) -> ParsedAction:
    return ParsedAction(calls=[ToolCall(f"call-{i}", name, arguments) for i, (name, arguments) in enumerate(wanted)])


def put(number: int) -> tuple[str, dict[str, Any]]:
    return "put", {"number": number}


SHUT: tuple[str, dict[str, Any]] = ("shut", {})


def texts(result: StepResult) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in result.observation.messages]


def test_it_is_an_environment() -> None:
    seam: Environment = Box()  # the type checker holds the base class to the seam
    assert seam.capabilities == Capabilities(deterministic=True, snapshot=False, replayable=True)


def test_calls_run_in_order_and_each_answer_is_a_message() -> None:
    environment = started()
    result = step(environment, calls(put(3), put(4)))
    assert texts(result) == [("tool", "1 inside"), ("tool", "2 inside")]
    assert [(r.call_id, r.status) for r in result.results] == [("call-0", "ok"), ("call-1", "ok")]
    assert (result.terminated, result.truncated, result.cause) == (False, False, None)
    assert (environment.inside, environment.shown, environment.mistakes) == ([3, 4], "1 inside\n2 inside", 0)


def test_the_call_that_ends_the_episode_is_the_last_that_runs() -> None:
    environment = started()
    result = step(environment, calls(put(3), SHUT, put(4)))
    assert (environment.inside, result.terminated, result.cause) == ([3], True, "finished")
    assert result.results[2] == ToolResult("call-2", "refused", "the episode is over", "harness", attempts=0)
    assert environment.score() == {"correct": 1.0, "format": -0.0}


@pytest.mark.parametrize(
    ("action", "shown", "mistakes"),
    [
        (ParseFailure("not a call"), ["not a call"], 1),
        (ParsedAction("just talk"), ["no tool call"], 1),
        (ParseFailure("cut off", cut=True), ["cut off"], 0),  # a budget did that
        (calls(("solve", {})), ["unknown tool; use put, shut"], 1),
        (calls(("put", {})), ["missing number"], 1),
        (calls(put(1), ("put", {"number": "2"})), ["1 inside", "number must be integer"], 1),
        (
            ParsedAction(calls=[ToolCall("a", "put", {"number": 1})], failures=[ParseFailure("half a call")]),
            ["1 inside", "half a call"],
            1,
        ),
        (ParsedAction(failures=[ParseFailure("x"), ParseFailure("y", cut=True)]), ["x", "y"], 1),
    ],
)
def test_R44_mistakes_are_answered_in_words_and_counted(
    action: ParsedAction | ParseFailure, shown: list[str], mistakes: int
) -> None:
    environment = started()
    result = step(environment, action)
    assert [text for _, text in texts(result)] == shown
    assert (environment.mistakes, result.terminated) == (mistakes, False)
    assert environment.score()["format"] == -mistakes


def test_a_refusal_is_no_mistake_of_form() -> None:
    environment = started()
    result = step(environment, calls(put(1)), DirectRunner(environment.tools, allowed=["shut"]))
    assert (texts(result), environment.mistakes, environment.inside) == ([("tool", "put is not allowed; use shut")], 0, [])


def test_the_runner_is_told_what_happened_before() -> None:
    told: list[list[str]] = []

    class Runner(DirectRunner):
        async def call(self, call: ToolCall, history: Sequence[ToolResult]) -> ToolResult:
            told.append([result.content for result in history])
            return await super().call(call, history)

    environment = started()
    runner = Runner(environment.tools)
    step(environment, calls(put(1), put(2)), runner)
    step(environment, calls(put(3)), runner)
    assert told == [[], ["1 inside"], ["1 inside", "2 inside"]]


def test_the_same_state_is_the_same_calls_with_the_same_results_on_the_same_task() -> None:
    def key(*actions: ParsedAction | ParseFailure, task: Task | None = None) -> Any:
        environment = started(task)
        for action in actions:
            step(environment, action)
        return environment.state_key()

    start = key()
    assert key(calls(put(1))) == key(calls(put(1)))
    assert key(calls(put(1), put(2))) == key(calls(put(1)), calls(put(2)))  # in one action or in two
    assert key(ParseFailure("what"), calls(put(1)), ParsedAction("hm")) == key(calls(put(1)))  # words change nothing
    assert key(calls(("solve", {}))) == start
    other = Box.task_from({"wanted": [4]})
    different = [
        start,
        key(calls(put(1))),
        key(calls(put(2))),
        key(calls(put(1), put(2))),
        key(calls(put(2), put(1))),
        key(task=other),
    ]
    assert len(set(different)) == len(different)


def test_an_instance_can_play_again_and_remembers_nothing() -> None:
    environment = started()
    step(environment, calls(put(3), ("solve", {}), SHUT))
    first = environment.state_key()
    environment.start(Box.task_from({"wanted": [3]}), seed=1)
    assert (environment.finished, environment.mistakes, environment.results, environment.inside) == (False, 0, [], [])
    assert environment.state_key() == started().state_key() != first
    assert environment.shown == "put [3]"


def test_a_class_that_is_not_whole_is_no_environment() -> None:
    class Half(ToolEnvironment):
        def prompt(self) -> str:
            return ""

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]


def test_an_environment_without_demonstrations_says_so() -> None:
    with pytest.raises(ConfigError, match=r"environment must define demonstrate\(\) to be learnt from scratch, got Box"):
        Box().demonstrate(random.Random(0), faulty=False)


def test_equal_content_is_one_task() -> None:
    one, two = Box.task_from({"a": 1, "b": [1, 2.5, None, "x"]}), Box.task_from({"b": (1, 2.5, None, "x"), "a": 1})
    assert one.task_id == two.task_id
    assert one == two
    assert json.loads(json.dumps(one.payload)) == {"a": 1, "b": [1, 2.5, None, "x"]}
    assert Box.task_from({"a": 2}).task_id != Box.task_from({"a": 1}).task_id

    class Newer(Box):
        version = "2"

    Newer.__name__ = "Box"
    assert Newer.task_from({"a": 1}).task_id != Box.task_from({"a": 1}).task_id


@pytest.mark.parametrize(
    ("payload", "error", "message"),
    [
        ({1: 2}, RecordError, "every name in payload must be a string, got 1"),
        ({"a": {"b": {2, 3}}}, RecordError, r"payload\['a'\] must be a JSON value"),
        ({"a": object()}, RecordError, r"payload\['a'\] must be a JSON value"),
        ([1], RecordError, "payload must be a mapping from names"),
        ({"a": math.nan}, NonFiniteError, "payload must hold finite numbers"),
    ],
)
def test_a_payload_is_json(payload: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Box.task_from(payload)


def test_R54_no_episode_can_change_the_task_of_another() -> None:
    given = {"wanted": [3]}
    task = Box.task_from(given)
    given["wanted"].append(4)
    one, two = started(task), started(task)
    with pytest.raises(TypeError, match="read-only"):
        one.task.payload["wanted"].append(9)
    with pytest.raises(TypeError, match="read-only"):
        one.task.payload["wanted"] = []  # type: ignore[index]
    assert two.task.payload == {"wanted": [3]}
