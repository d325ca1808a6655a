"""Tool calls out of text: what is a call, what is wrong with the others, and that nothing is guessed."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollout_fakes import codec_of, play, says

from rosellm.roserlhf.codec.calls import parameters_of
from rosellm.roserlhf.codec.calls.function import FunctionCalls
from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.tools import tool, tools_of
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure

PROPERTY = settings(derandomize=True, max_examples=60, deadline=None)


class Desk:
    """Tools of every shape."""

    @tool
    def search(self, item: str) -> str:
        return ""

    @tool
    def add(self, a: int, b: int) -> str:
        return ""

    @tool
    def note(self, title: str, text: str) -> str:
        return ""

    @tool
    def put(self, name: str, values: list, strict: bool = False) -> str:  # type: ignore[type-arg]
        return ""

    @tool
    def mean(self, values: list, weight: float) -> str:  # type: ignore[type-arg]
        return ""

    @tool
    def stop(self) -> str:
        return ""


TOOLS = tools_of(Desk())
SCHEMAS = parameters_of(TOOLS.schemas())


def arguments(text: str) -> dict[str, Any]:
    parsed = FunctionCalls().parse(text, SCHEMAS)
    assert isinstance(parsed, ParsedAction), parsed
    (call,) = parsed.calls
    assert (call.call_id, call.name) == ("call-0", text.split("(")[0].strip())
    return dict(call.arguments)


def reason(text: str) -> str:
    """What the policy is told about a call: by the parser about its form, by the runner about its arguments."""
    parsed = FunctionCalls().parse(text, SCHEMAS)
    if isinstance(parsed, ParseFailure):
        assert (parsed.raw, parsed.cut) == (text, False)
        return parsed.reason
    result = asyncio.run(DirectRunner(TOOLS).call(parsed.calls[0], ()))
    assert result.status == "invalid"
    return result.content


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("search(lamps)", {"item": "lamps"}),
        (" search( red lamps )\n", {"item": "red lamps"}),
        ("search(a, b, (c))", {"item": "a, b, (c)"}),  # the last text argument may hold anything
        ("search(')", {"item": "'"}),
        ("note(title, text, with comma)", {"title": "title", "text": "text, with comma"}),
        ("add(3, -4)", {"a": 3, "b": -4}),
        ("put(x, [1, [2, 3]])", {"name": "x", "values": [1, [2, 3]]}),  # optional arguments may be left out at the end
        ("put(x, [1, 2], true)", {"name": "x", "values": [1, 2], "strict": True}),
        ('mean([{"a": ","}, "]"], 0.5)', {"values": [{"a": ","}, "]"], "weight": 0.5}),  # commas inside JSON separate nothing
        ("mean([], 2)", {"values": [], "weight": 2}),
        ("stop()", {}),
        ("stop( )", {}),
    ],
)
def test_arguments_are_read_by_the_schema(text: str, expected: dict[str, Any]) -> None:
    assert arguments(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "not a call of the form name(argument)"),
        ("search", "not a call of the form name(argument)"),
        ("search(lamps", "not a call of the form name(argument)"),
        ("search lamps)", "not a call of the form name(argument)"),
        ("I will search(lamps)", "not a call of the form name(argument)"),
        ("3(lamps)", "not a call of the form name(argument)"),
        ("search(lamps) then", "not a call of the form name(argument)"),
        ("search()", "missing item"),
        ("search(  )", "missing item"),
        ("note(title)", "missing text"),
        ("note(, text)", "missing title"),
        ("note()", "missing title, text"),
        ("add(1)", "missing b"),
        ("add(1,)", "missing b"),
        ("add(,1)", "missing a"),
        ("add(1, 2, 3)", "too many arguments"),
        ("add(1, 2,)", "too many arguments"),
        ("stop(now)", "takes no argument"),
        ("add(1 2)", "a must be integer"),
        ("add(one, 2)", "a must be integer"),
        ("add(1.0, 2)", "a must be integer"),
        ("add(true, 2)", "a must be integer"),
        ("add(null, 2)", "a must be integer"),
        ('add("1", 2)', "a must be integer"),
        ("mean([1], true)", "weight must be number"),
        ("mean([1], NaN)", "weight must be number"),
        ("mean([1], -Infinity)", "weight must be number"),
        ("mean([1], 1e999)", "weight must be number"),
        ("mean([NaN], 1)", "values must be array"),
        ("mean({}, 1)", "values must be array"),
        ("mean([1, 1)", "values must be array"),
        ("put(x, [1], 1)", "strict must be boolean"),
        ("put(x, [1], false, 2)", "too many arguments"),
        ("add(" + "9" * 5000 + ", 1)", "a must be integer"),
        ("put(x, " + "[" * 150 + "]" * 150 + ")", "arguments nested too deep"),
        ("put(x, " + "[" * 10**5 + ")", "arguments nested too deep"),
    ],
)
def test_what_is_wrong_is_said(text: str, expected: str) -> None:
    assert reason(text) == expected


def test_a_malformed_call_carries_its_id_and_its_name() -> None:
    failure = FunctionCalls().parse("add(1, 2, 3)", SCHEMAS)
    assert isinstance(failure, ParseFailure)
    assert (failure.call_id, failure.name) == ("call-0", "add")
    whole = FunctionCalls().parse("add(1", SCHEMAS)
    assert isinstance(whole, ParseFailure)
    assert (whole.call_id, whole.name) == (None, None)


@pytest.mark.parametrize(
    ("text", "inside"), [("solve(1, 2)", {"argument": "1, 2"}), ("solve()", {}), ("__import__(os)", {"argument": "os"})]
)
def test_an_unknown_tool_is_a_call_that_somebody_else_refuses(text: str, inside: dict[str, str]) -> None:
    parsed = FunctionCalls().parse(text, SCHEMAS)
    assert isinstance(parsed, ParsedAction)
    assert dict(parsed.calls[0].arguments) == inside


def test_a_parameter_of_an_unknown_type_is_refused_at_once() -> None:
    parameters = {"type": "object", "properties": {"item": {"type": "text"}}, "required": ["item"]}
    bad = [{"type": "function", "function": {"name": "search", "parameters": parameters}}]
    with pytest.raises(RangeError, match=r"type of search\(item\) must be one of string, integer, .*, got 'text'"):
        parameters_of(bad)


@PROPERTY
@given(
    st.text(st.sampled_from('add(searchput[]{}",:12 .-eE\\un\n'), max_size=40) | st.text(max_size=40),
    st.sampled_from(sorted(SCHEMAS)),
)
def test_no_text_raises(text: str, name: str) -> None:
    for reply in (text, f"{name}({text})", f"{name}({text}", f"{name}(x, {text}, {text})"):
        assert isinstance(FunctionCalls().parse(reply, SCHEMAS), (ParsedAction, ParseFailure))


@pytest.mark.parametrize(
    "hostile", ["(" * 10**5, "a(" * 50_000, "search(" + ")" * 10**5, " " * 10**5, "search(" + ") " * 50_000 + "x"]
)
def test_time_grows_with_the_length_of_the_text_only(hostile: str) -> None:
    start = time.process_time()
    assert isinstance(FunctionCalls().parse(hostile, SCHEMAS), (ParsedAction, ParseFailure))
    assert time.process_time() - start < 2  # a quadratic parser would need minutes


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@PROPERTY
@given(st.lists(VALUES, max_size=4), st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_json_arguments_come_through_unchanged(values: list[Any], weight: float) -> None:
    assert arguments(f"mean({json.dumps(values)}, {json.dumps(weight)})") == {"values": values, "weight": weight}


class Adder(ToolEnvironment):
    """One tool that counts how often it really ran."""

    ran = 0

    @staticmethod
    def make_task(rng: Any) -> dict[str, Any]:
        return {}

    def prompt(self) -> str:
        return "add"

    @tool
    def add(self, a: int, b: int) -> str:
        self.ran += 1
        self.finish()
        return str(a + b)

    def score(self) -> dict[str, float | None]:
        return {"correct": float(self.ran == 1), "format": -float(self.mistakes)}


WRONG = {
    '{"a": 1, "b": ': "not a call of the form name(argument)",  # R44: arguments that break off
    "add(1, ": "not a call of the form name(argument)",
    'add("{\\"a\\": 1}")': "missing b; a must be integer",  # R45: encoded twice
    "add(null)": "missing b; a must be integer",
    "add([1])": "missing b; a must be integer",
    "add(1)": "missing b",
    "add(1, 2, 3)": "too many arguments",
    "solve(1)": "unknown tool; use add",
}


@pytest.mark.parametrize("reply", WRONG)
def test_R44_R45_a_wrong_call_is_not_run_and_the_model_is_told(reply: str) -> None:
    environment = Adder()
    codec = codec_of(environment)
    episode = play(environment, says(codec, reply, "add(1, 2)"), codec=codec, task=Adder.task_from({}))
    first, second = episode.transitions
    told = codec.text([i for span in first.observation for i in span.token_ids])
    assert told == f"<tool>{WRONG[reply]}<end><assistant>"
    assert codec.text(episode.actions[0].token_ids) == reply + "<end>"  # what was sampled stays as it is
    assert (environment.ran, environment.mistakes, episode.failure) == (1, 1, None)  # and the model may try again
    assert (second.terminated, second.results[0].content) == (True, "3")
    assert episode.reward_totals() == {"correct": 1.0, "format": -1.0}
