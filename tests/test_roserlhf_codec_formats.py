"""Five ways to write a call: what is read back, what is malformed, and that no text raises or takes long."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.codec.calls import FORMATS, CallFormat, call_format, parameters_of, relocated
from rosellm.roserlhf.codec.calls.reading import MOST_CALLS
from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.environment.protocol import StepResult
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.tools import tool
from rosellm.roserlhf.errors import ConfigError, RangeError
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure, ToolCall

PROPERTY = settings(derandomize=True, max_examples=60, deadline=None)
HERMES, LLAMA3, PYTHONIC, TAGS = (FORMATS[name] for name in ("hermes", "llama3", "pythonic", "tags"))
SEVERAL = [HERMES, LLAMA3, PYTHONIC, TAGS]


class Adder(ToolEnvironment):
    """Counts how often its tool really ran."""

    ran = 0

    @staticmethod
    def make_task(rng: Any) -> dict[str, Any]:
        return {}

    def prompt(self) -> str:
        return "add"

    @tool
    def add(self, a: int, b: int) -> str:
        self.ran += 1
        return str(a + b)

    @tool
    def note(self, text: str, values: list = [], extra: dict = {}) -> str:  # type: ignore[type-arg] # noqa: B006
        return text

    def score(self) -> dict[str, float | None]:
        return {"correct": 1.0}


SCHEMAS = parameters_of(Adder().tools.schemas())


def read(form: CallFormat, text: str) -> ParsedAction:
    parsed = form.parse(text, SCHEMAS)
    assert isinstance(parsed, ParsedAction), parsed
    return parsed


def failure(form: CallFormat, text: str) -> ParseFailure:
    parsed = read(form, text)
    assert (parsed.calls, len(parsed.failures)) == ((), 1), parsed
    return parsed.failures[0]


def calls(*wanted: tuple[str, dict[str, Any]]) -> list[ToolCall]:
    return [ToolCall(f"call-{i}", name, arguments) for i, (name, arguments) in enumerate(wanted)]


def plain(parsed: Sequence[ToolCall]) -> str:
    """Names and arguments as text, in which 1, 1.0 and true differ."""
    return json.dumps([[call.call_id, call.name, call.arguments] for call in parsed])


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    [
        "</tool_call>",
        "<tool_call>",
        '"}',
        "'\"\\",
        "</parameter>",
        "[f(x=1)]",
        "null",
        "True",
        "\n",
        "<think>",
        "; {",
        "\\N{BULLET}",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
ADD = st.fixed_dictionaries({"a": st.integers(), "b": st.integers()})
NOTE = st.fixed_dictionaries(
    {"text": TEXT}, optional={"values": st.lists(VALUES, max_size=3), "extra": st.dictionaries(TEXT, VALUES)}
)
CALLS = st.lists(st.tuples(st.just("add"), ADD) | st.tuples(st.just("note"), NOTE), min_size=1, max_size=3)


@pytest.mark.parametrize("form", SEVERAL, ids=lambda form: form.name)
@PROPERTY
@given(wanted=CALLS)
def test_what_is_written_is_read_again(form: CallFormat, wanted: list[tuple[str, dict[str, Any]]]) -> None:
    written = form.write(calls(*wanted), SCHEMAS)
    parsed = read(form, written)
    assert plain(parsed.calls) == plain(calls(*wanted))
    assert (parsed.content, parsed.failures) == ("", ())
    spans = [call.span for call in parsed.calls]
    assert all(span is not None for span in spans)
    again = [read(form, written[span[0] : span[1]]) for span in spans if span and form is not PYTHONIC]
    assert [one.calls[0].arguments for one in again] == [call.arguments for call in parsed.calls if form is not PYTHONIC]


@PROPERTY
@given(st.dictionaries(st.sampled_from("ab"), st.integers()) | NOTE)
def test_the_function_form_writes_what_it_can_read_and_refuses_the_rest(arguments: dict[str, Any]) -> None:
    (call,) = calls(("note" if "text" in arguments else "add", arguments))
    try:
        written = FORMATS["function"].write([call], SCHEMAS)
    except RangeError:
        return
    assert sorted(plain(read(FORMATS["function"], written).calls)) == sorted(plain([call]))  # written in the order of the schema


@pytest.mark.parametrize(
    ("form", "call", "message"),
    [
        ("function", ("note", {"text": "a, b"}), "be read again as it is written"),
        ("function", ("add", {"c": 1}), "be read again as it is written"),
        ("function", ("note", {"text": " a"}), "be read again as it is written"),
        ("tags", ("note", {"text": "</parameter></function>"}), "be read again as it is written"),
        ("tags", ("note", {"text": "<tool_call><function=f>"}), "be read again as it is written"),
        ("tags", ("no>te", {}), "hold none of < > and newline"),
        ("pythonic", ("a b", {}), "be an identifier"),
        ("pythonic", ("f", {"a b": 1}), "have identifiers as names"),
        *[(form, ("note", {"text": "x", "values": [float("nan")]}), "hold finite numbers") for form in FORMATS],
        *[(form, ("note", {"text": "\ud800"}), "hold no half of a surrogate pair") for form in FORMATS],
    ],
)
def test_what_a_format_cannot_say_is_refused(form: str, call: tuple[str, dict[str, Any]], message: str) -> None:
    with pytest.raises(RangeError, match=message):
        FORMATS[form].write(calls(call), SCHEMAS)


def test_formats_are_found_by_name() -> None:
    assert list(FORMATS) == ["function", "hermes", "llama3", "pythonic", "tags"]
    with pytest.raises(ConfigError, match=r"call format must be one of function, hermes, .*, got 'hermess'; did you mean hermes\?"):
        call_format("hermess")


@pytest.mark.parametrize("form", SEVERAL, ids=lambda form: form.name)
def test_a_reply_without_a_call_is_content(form: CallFormat) -> None:
    for text in ("", "The answer is 4.", "[1]", "a [f(x)] b", "see (1)", "[]"):
        assert read(form, text) == ParsedAction(text)
    assert form.write([], SCHEMAS) == ""


# --- R44, R45: for every form, arguments that break off and the six that parse and do not fit ---

BREAKS_OFF = {
    "function": ('add({"a": 1, "b": ', "not a call of the form name(argument)"),
    "hermes": ('<tool_call>{"name": "add", "arguments": {"a": 1, "b": ', "the call breaks off"),
    "llama3": ('{"name": "add", "parameters": {"a": 1, "b": ', "the call breaks off"),
    "pythonic": ("[add(a=1, b=", "expected a literal at character 11, but the call breaks off"),
    "tags": ("<tool_call><function=add><parameter=a>1</parameter><parameter=b>", "b is not closed by </parameter>"),
}


def json_call(key: str, left: str, right: str) -> dict[str, tuple[str, str]]:
    def call(name: str, arguments: str) -> str:
        return f'{left}{{"name": "{name}", "{key}": {arguments}}}{right}'

    return {
        "twice": (call("add", '"{\\"a\\": 1}"'), f"{key} must be an object, got a string; do not encode it twice"),
        "null": (call("add", "null"), f"{key} must be an object, got null"),
        "list": (call("add", "[1]"), f"{key} must be an object, got a list"),
        "missing": (call("add", '{"a": 1}'), "missing b"),
        "extra": (call("add", '{"a": 1, "b": 2, "c": 3}'), "unexpected c"),
        "unknown": (call("solve", '{"a": 1}'), "unknown tool; use add, note"),
    }


def tag_call(name: str, **values: str) -> str:
    inside = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<tool_call>\n<function={name}>\n{inside}</function>\n</tool_call>"


WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "function": {
        "twice": ('add("{\\"a\\": 1}")', "missing b; a must be integer"),
        "null": ("add(null)", "missing b; a must be integer"),
        "list": ("add([1])", "missing b; a must be integer"),
        "missing": ("add(1)", "missing b"),
        "extra": ("add(1, 2, 3)", "too many arguments"),
        "unknown": ("solve(1)", "unknown tool; use add, note"),
    },
    "hermes": json_call("arguments", "<tool_call>\n", "\n</tool_call>"),
    "llama3": json_call("parameters", "", ""),
    "pythonic": {
        "twice": ("[add('{\"a\": 1}')]", "missing b; a must be integer"),
        "null": ("[add(None)]", "missing b; a must be integer"),
        "list": ("[add([1])]", "missing b; a must be integer"),
        "missing": ("[add(a=1)]", "missing b"),
        "extra": ("[add(a=1, b=2, c=3)]", "unexpected c"),
        "unknown": ("[solve(a=1)]", "unknown tool; use add, note"),
    },
    "tags": {
        "twice": (tag_call("add", a='"{\\"a\\": 1}"'), "missing b; a must be integer"),
        "null": (tag_call("add", a="null"), "missing b; a must be integer"),
        "list": (tag_call("add", a="[1]"), "missing b; a must be integer"),
        "missing": (tag_call("add", a="1"), "missing b"),
        "extra": (tag_call("add", a="1", b="2", c="3"), "unexpected c"),
        "unknown": (tag_call("solve", a="1"), "unknown tool; use add, note"),
    },
}


def answered(environment: Adder, parsed: ParsedAction | ParseFailure) -> StepResult:
    environment.start(Adder.task_from({}), 0)
    return asyncio.run(environment.step(parsed, DirectRunner(environment.tools)))


@pytest.mark.parametrize("form", FORMATS)
def test_R44_arguments_that_break_off_run_nothing_and_are_named(form: str) -> None:
    text, told = BREAKS_OFF[form]
    environment = Adder()
    parsed = FORMATS[form].parse(text, SCHEMAS)
    result = answered(environment, parsed)
    assert [message.content for message in result.observation.messages] == [told]
    assert (environment.ran, environment.mistakes, result.terminated) == (0, 1, False)
    if isinstance(parsed, ParsedAction):
        (broken,) = parsed.failures
        assert (broken.call_id, broken.name, broken.raw) == ("call-0", "add", text.removeprefix("["))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("mistake", ["twice", "null", "list", "missing", "extra", "unknown"])
def test_R45_wrong_arguments_and_unknown_tools_run_nothing_and_are_named(form: str, mistake: str) -> None:
    text, told = WRONG[form][mistake]
    environment = Adder()
    result = answered(environment, FORMATS[form].parse(text, SCHEMAS))
    assert [message.content for message in result.observation.messages] == [told]
    assert (environment.ran, environment.mistakes, result.terminated) == (0, 1, False)


BROKEN_BETWEEN = {
    "hermes": '<tool_call>{"name": "add", "arguments": {"a": </tool_call>',
    "llama3": '{"name": "add", "parameters": {"a": }}',
    "pythonic": "add(a=open('x'))",
    "tags": "<tool_call><function=add><parameter=a>1</tool_call>",
}


@pytest.mark.parametrize("form", SEVERAL, ids=lambda form: form.name)
def test_the_siblings_of_a_malformed_call_still_run(form: CallFormat) -> None:
    first, last = ({"a": 1, "b": 2}, {"a": 3, "b": 4})
    text = form.write(calls(("add", first), ("add", {"a": 0, "b": 0}), ("add", last)), SCHEMAS)
    between = form.write(calls(("add", {"a": 0, "b": 0})), SCHEMAS).removeprefix("[").removesuffix("]")
    text = text.replace(between, BROKEN_BETWEEN[form.name])
    parsed = read(form, text)
    assert [(call.call_id, call.arguments) for call in parsed.calls] == [("call-0", first), ("call-2", last)]
    (broken,) = parsed.failures
    assert (broken.call_id, broken.name, broken.raw) == ("call-1", "add", BROKEN_BETWEEN[form.name])
    assert parsed.content == ""
    environment = Adder()
    told = [message.content for message in answered(environment, parsed).observation.messages]
    assert (environment.ran, told) == (2, ["3", "7", broken.reason])


# --- each grammar ---


@pytest.mark.parametrize(
    ("form", "text", "content"),
    [
        (HERMES, 'I add.\n<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call> Then?', "I add.\n Then?"),
        (LLAMA3, 'I add.<|python_tag|>{"name": "add", "parameters": {"a": 1, "b": 2}} Then?', "I add. Then?"),
        (LLAMA3, ' {"type": "function", "name": "add", "parameters": {"a": 1, "b": 2}}', ""),
        (PYTHONIC, "I add.\n[add(a=1, b=2)]\nThen?", "I add.\n\nThen?"),
        (PYTHONIC, "I add.<|tool_call_start|>[add(1, b=2)]<|tool_call_end|>Then?", "I add.Then?"),
        (PYTHONIC, "[ add ( a = 1 , b = +2 , ) , ]", ""),
        (TAGS, f"I add.{tag_call('add', a='1', b='2')}Then?", "I add.Then?"),
        (TAGS, "<tool_call><function=add><parameter=a>1</parameter><parameter=b> 2 </parameter></function></tool_call>", ""),
    ],
)
def test_text_beside_a_call_is_kept(form: CallFormat, text: str, content: str) -> None:
    parsed = read(form, text)
    assert [(call.name, call.arguments) for call in parsed.calls] == [("add", {"a": 1, "b": 2})]
    assert (parsed.content, parsed.failures) == (content, ())


@pytest.mark.parametrize("form", SEVERAL, ids=lambda form: form.name)
def test_nothing_is_called_while_thinking(form: CallFormat) -> None:
    call = form.write(calls(("add", {"a": 1, "b": 2})), SCHEMAS)
    thought = f"<think>\n{call}\n"
    assert read(form, thought) == ParsedAction(thought.strip())
    parsed = read(form, f"{thought}</think>\n{call}")
    assert [call.span for call in parsed.calls] == [
        (len(thought) + 9 + (form is PYTHONIC), len(thought) + 9 + len(call) - (form is PYTHONIC))
    ]
    assert parsed.content.startswith("<think>")


@pytest.mark.parametrize(
    ("form", "text", "name", "told"),
    [
        (HERMES, "<tool_call>", None, "the call breaks off"),
        (HERMES, "<tool_call>add</tool_call>", None, "not valid JSON: Expecting value at character 0"),
        (HERMES, "<tool_call>[]</tool_call>", None, "a call must be an object, got a list"),
        (HERMES, '<tool_call>{"name": "add"}</tool_call>', "add", 'missing "arguments"; write "arguments": {} for none'),
        (HERMES, '<tool_call>{"arguments": {}}</tool_call>', None, 'missing "name"'),
        (
            HERMES,
            '<tool_call>{"name": 3, "arguments": {}}</tool_call>',
            None,
            "name must be a string that is not empty, got a number",
        ),
        (
            HERMES,
            '<tool_call>{"name": "", "arguments": {}}</tool_call>',
            "",
            "name must be a string that is not empty, got a string",
        ),
        (
            HERMES,
            '<tool_call>{"name": "add", "arguments": {}, "x": 1}</tool_call>',
            "add",
            'unexpected "x" beside "name" and "arguments"',
        ),
        (HERMES, '<tool_call>{"name": "add", "arguments": {"a": 1, "a": 2}}</tool_call>', "add", "a is given twice"),
        (HERMES, '<tool_call>{"name": "add", "arguments": {"a": NaN}}</tool_call>', "add", "NaN is not a JSON number"),
        (HERMES, '<tool_call>{"name": "add", "arguments": {"a": -Infinity}}</tool_call>', "add", "-Infinity is not a JSON number"),
        (HERMES, '<tool_call>{"name": "add", "arguments": {"a": 1e999}}</tool_call>', "add", "1e999 is too large a number"),
        (
            HERMES,
            '<tool_call>{"name": "add", "arguments": {"a": "\\ud800"}}</tool_call>',
            "add",
            "a string holds half of a surrogate pair",
        ),
        (HERMES, '<tool_call>{"name": "\\ud800", "arguments": {}}</tool_call>', None, "a string holds half of a surrogate pair"),
        (HERMES, '<tool_call>{"name": "add", "arguments": {}}', "add", "the call is not closed by </tool_call>"),
        (
            HERMES,
            '<tool_call>{"name": "add", "arguments": {}}}</tool_call>',
            "add",
            "only </tool_call> may follow the JSON object, got '}</tool_call>'",
        ),
        (HERMES, '<tool_call>{"name": "add", "arguments": {"x": "</tool_call>", }}</tool_call>', "add", "not valid JSON"),
        (LLAMA3, "<|python_tag|>print(1)", None, "after <|python_tag|> must follow a JSON object"),
        (LLAMA3, '{"answer": 4}', None, 'missing "name"'),
        (PYTHONIC, "[add(a=true)]", "add", "write True, not true"),
        (PYTHONIC, "[add(a=x)]", "add", "expected a literal at character 6, got x)]"),
        (PYTHONIC, "[add(a=1+1)]", "add", "expected , or ) at character 7, got +1)]"),
        (PYTHONIC, "[add(a=1, 2)]", "add", "expected name= at character 9, got 2)]"),
        (PYTHONIC, "[add(1, 2, 3)]", "add", "too many arguments"),
        (PYTHONIC, "[add(1, a=2)]", "add", "a is given twice"),
        (PYTHONIC, "[add(a=1, a=2)]", "add", "a is given twice"),
        (PYTHONIC, "[add(a={'x': 1, 'x': 2})]", "add", "x is given twice"),
        (PYTHONIC, "[add(a={1: 2})]", "add", "expected a string as key at character 7, got 1: 2})]"),
        (PYTHONIC, "[add(a=1e999)]", "add", "1e999 is too large a number"),
        (PYTHONIC, "[add(a=007)]", "add", "007 is no number"),
        (PYTHONIC, "[add(a='b)]", "add", "a string is not closed"),
        (PYTHONIC, "[add(a='\\ud800')]", "add", "a string holds half of a surrogate pair"),
        (PYTHONIC, "[add(a=f'{1}')]", "add", "expected a literal at character 6, got f'{1}')]"),
        (PYTHONIC, "[add(*[1, 2])]", "add", "expected a literal at character 4, got *[1, 2])]"),
        (PYTHONIC, "[add(a=1).x]", None, "expected , or ] after a call, got .x]"),
        (TAGS, "<function=add></function>", "add", "<function=…> must stand inside <tool_call>"),
        (TAGS, "<tool_call>add</tool_call>", None, "after <tool_call> must follow <function=name>"),
        (TAGS, tag_call("add", a="one"), "add", "a: not valid JSON: Expecting value at character 0"),
        (TAGS, tag_call("add", a="1 2"), "add", "a must be one JSON value, got  2 after it"),
        (TAGS, "<tool_call><function=add>", "add", "the call must go on with <parameter=…> or end with </function></tool_call>"),
        (
            TAGS,
            "<tool_call><function=add><parameter=a>1</parameter><parameter=a>1</parameter></function></tool_call>",
            "add",
            "a is given twice",
        ),
    ],
)
def test_what_is_malformed_is_said(form: CallFormat, text: str, name: str | None, told: str) -> None:
    if text == "[add(a=1).x]":  # the call before it is whole and runs
        parsed = read(form, text)
        assert ([call.name for call in parsed.calls], parsed.failures[0].reason) == (["add"], told)
        return
    broken = failure(form, text)
    assert (broken.name, broken.call_id, broken.cut) == (name, "call-0", False)
    assert broken.reason == told or (told.endswith("JSON") and broken.reason.startswith(told))
    assert broken.span is not None
    assert text[slice(*broken.span)] == broken.raw


def test_a_closing_tag_inside_a_string_closes_nothing() -> None:
    for text in ("</tool_call>", "a</parameter>b", "</function></tool_call>", "\n\n</parameter>\n"):
        for form in SEVERAL:
            assert read(form, form.write(calls(("note", {"text": text})), SCHEMAS)).calls[0].arguments == {"text": text}


def test_a_further_call_says_that_the_one_before_is_not_closed() -> None:
    whole = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
    parsed = read(HERMES, '<tool_call>{"name": "add", "arguments": {"a": 1}\n' + whole)
    assert [failure.reason for failure in parsed.failures] == ["not valid JSON: Expecting ',' delimiter at character 38"]
    assert [call.call_id for call in parsed.calls] == ["call-1"]
    parsed = read(TAGS, "<tool_call><function=note><parameter=text>so" + tag_call("add", a="1", b="2"))
    assert [failure.reason for failure in parsed.failures] == ["text is not closed by </parameter>"]
    assert [call.arguments for call in parsed.calls] == [{"a": 1, "b": 2}]


def test_the_schema_tells_text_from_numbers_where_the_form_does_not() -> None:
    assert read(TAGS, tag_call("note", text="1", values="[1]", other="2")).calls[0].arguments == {
        "text": "1", "values": [1], "other": "2",
    }  # fmt: skip
    assert read(TAGS, tag_call("add", a="True", b="None")).calls[0].arguments == {"a": True, "b": None}


@pytest.mark.parametrize("form", SEVERAL, ids=lambda form: form.name)
def test_calls_beyond_the_limit_are_one_failure(form: CallFormat) -> None:
    text = form.write(calls(*[("add", {"a": i, "b": 0}) for i in range(MOST_CALLS + 50)]), SCHEMAS)
    parsed = read(form, text)
    assert (len(parsed.calls), len(parsed.failures)) == (MOST_CALLS, 1)
    assert parsed.failures[0].reason == f"more than {MOST_CALLS} calls in one reply; the others were not read"
    assert parsed.content == ""


# --- hostile text ---

PIECES = [
    "<tool_call>", "</tool_call>", "<function=add>", "</function>", "<parameter=a>", "</parameter>", "<|python_tag|>", "<think>",
    '{"name": "add", ', '"arguments": ', '"parameters": ', "{", "}", "[", "]", "[add(", "a=", "(", ")", '"', "'", "\\", "\\u", ",",
    ":", ";", "1", "-", ".", "e", "_", "x", "\n", " ", "\x00", "\ud800", "é", "NaN", "null", "True", '"""', "\\N{", "\\ud800",
]  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
@settings(derandomize=True, max_examples=200, deadline=None)
@given(pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=25))
def test_no_text_raises_and_every_span_fits(form: str, pieces: list[str]) -> None:
    text = "".join(pieces)
    parsed = FORMATS[form].parse(text, SCHEMAS)
    if isinstance(parsed, ParseFailure):
        return
    found: list[ToolCall | ParseFailure] = [*parsed.calls, *parsed.failures]
    parts = sorted(found, key=lambda part: int((part.call_id or "").removeprefix("call-")))
    spans = [part.span for part in parts if part.span is not None]
    assert len(spans) == len(parts)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))
    assert all(broken.span and text[slice(*broken.span)] == broken.raw for broken in parsed.failures)
    for call in parsed.calls:
        json.dumps(call.arguments, allow_nan=False, ensure_ascii=False).encode()
    for broken in parsed.failures:
        assert broken.reason.encode()


MANY = 200_000
NAMES = "".join(f'"{i}":0,' for i in range(MANY // 4))
HOSTILE = {
    "tags that open": "<tool_call>" * MANY,
    "unclosed strings": '<tool_call>{"name":"add","arguments":{"x":"' * (MANY // 10),
    "deep JSON": '<tool_call>{"name":"add","arguments":{"a":' + "[" * MANY,
    "deep JSON, Llama": '{"name":"add","parameters":{"a":' + '{"a":' * MANY,
    "deep Python": "[add(a=" + "[" * MANY,
    "deep parentheses": "[add(a=" + "(" * MANY,
    "signs": "[add(a=" + "-" * MANY,
    "sums": "[add(a=" + "1+" * MANY,
    "backslashes": '[add(a="' + "\\" * MANY,
    "quotes": '[add(a="""' + '"a' * MANY,
    "digits": "[add(a=" + "9" * MANY + ", b=1)]",
    "some hundred digits": "[add(a=" + "9" * 400 + ")]",  # too large for a float
    "hexadecimal digits": "[add(a=0x" + "f" * MANY + ")]",
    "names, the last one twice": f'{{"name":"add","parameters":{{{NAMES}"x":0,"x":0}}}}',
    "names, the last one twice, tagged": f'<tool_call>{{"name":"add","arguments":{{{NAMES}"x":0,"x":0}}}}</tool_call>',
    "lists": "\n[add(" * MANY,
    "parameters": "<tool_call><function=add><parameter=a>" * (MANY // 10),
    "closing tags": "<tool_call><function=add><parameter=a>" + "</parameter>" * MANY,
    "blanks": ("<|tool_call_start|>" + " " * 2000) * (MANY // 1000),
    "objects": '{"name":"add","parameters":{}};' * (MANY // 10),
    "braces": "{" * MANY,
    "NUL": "\x00" * MANY,
    "surrogates": '<tool_call>{"name":"add","arguments":{"a":"' + "\ud800" * MANY + '"}}</tool_call>',
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_time_grows_with_the_length_of_the_text_only(hostile: str) -> None:
    for form in FORMATS.values():
        start = time.process_time()
        parsed = form.parse(HOSTILE[hostile], SCHEMAS)
        assert isinstance(parsed, (ParsedAction, ParseFailure))
        json.dumps([dict(call.arguments) for call in getattr(parsed, "calls", ())])  # as the store will
        assert time.process_time() - start < 3  # 0.2 s measured at most; what is quadratic needs minutes


@pytest.mark.parametrize(
    ("form", "left", "right"),
    [
        (HERMES, '<tool_call>{"name": "add", "arguments": {"a": ', "}}</tool_call>"),
        (LLAMA3, '{"name": "add", "parameters": {"a": ', "}}"),
        (PYTHONIC, "[add(a=", ")]"),
        (TAGS, "<tool_call><function=add><parameter=a>", "</parameter></function></tool_call>"),
    ],
)
def test_arguments_may_be_as_deep_as_a_record_keeps(form: CallFormat, left: str, right: str) -> None:
    assert read(form, left + "[" * 99 + "]" * 99 + right).calls
    for depth in (101, 500, 3000, 10**5):
        assert failure(form, left + "[" * depth + "]" * depth + right).reason.endswith("arguments nested too deep")
    for depth in range(200, 1000, 100):  # an escape has the value looked through once more
        assert failure(form, left + "[" * depth + '"\\u0041"' + "]" * depth + right).reason.endswith("arguments nested too deep")


DEEP = {
    "function": "note(x, " + "[" * 90 + "]" * 90 + ")",
    "hermes": '<tool_call>{"name": "note", "arguments": {"text": "x", "values": ' + "[" * 90 + "]" * 90 + "}}</tool_call>",
    "llama3": '{"name": "note", "parameters": {"text": "x", "values": ' + "[" * 90 + "]" * 90 + "}}",
    "pythonic": "[note(text='x', values=" + "[" * 90 + "]" * 90 + ")]",
    "tags": tag_call("note", text="x", values="[" * 90 + "]" * 90),
}


@pytest.mark.parametrize("form", FORMATS)
def test_a_deep_stack_changes_nothing_but_the_depth_that_is_left(form: str) -> None:
    """Read near the interpreter's own limit, where less than 100 levels are left."""
    text = DEEP[form]

    def deeper(levels: int) -> ParsedAction | ParseFailure:
        return deeper(levels - 1) if levels else FORMATS[form].parse(text, SCHEMAS)

    for left in (60, 100, 150, 200, 300, 400):
        parsed = deeper(sys.getrecursionlimit() - len(inspect.stack(0)) - left)
        told = parsed if isinstance(parsed, ParseFailure) else (parsed.failures or [ParseFailure("none")])[0]
        assert told.reason in ("none", "arguments nested too deep", "values: arguments nested too deep")


# --- real templates ---


@pytest.mark.parametrize(
    ("template", "form", "count"),
    [
        ("qwen2_5", HERMES, 2),
        ("qwen3", HERMES, 2),
        ("qwen3_instruct_2507", HERMES, 2),
        ("qwen3_5_think", TAGS, 2),
        ("llama3_1", LLAMA3, 1),
        ("llama3_2", LLAMA3, 1),
        ("lfm2_2_5", PYTHONIC, 2),
    ],
)
def test_what_real_templates_write_is_read(template: str, form: CallFormat, count: int) -> None:
    trl = pytest.importorskip("trl")
    from transformers.utils.chat_template_utils import _compile_jinja_template

    source = (Path(trl.__file__).parent / "chat_templates" / f"{template}.jinja").read_text()
    both: list[tuple[str, dict[str, Any]]] = [
        (
            "note",
            {"text": 'é "</tool_call>" \\n', "values": [1, None if form is HERMES else 2.5, "x"], "extra": {"k": {"l": [True]}}},
        ),
        ("add", {"a": 1, "b": -2}),
    ]
    wanted = both[:count]
    if form is PYTHONIC:  # its template escapes no quote, and writes JSON inside mappings
        wanted[0] = ("note", {"text": "so", "values": [1, 2.5, "x", True, None]})
    functions = [{"type": "function", "function": {"name": name, "arguments": arguments}} for name, arguments in wanted]
    messages = [{"role": "user", "content": "ZQ"}, {"role": "assistant", "content": "", "tool_calls": functions}]
    rendered = _compile_jinja_template(source).render(messages=messages, tools=Adder().tools.schemas(), bos_token="")
    reply = rendered[rendered.index("ZQ") :]
    if form is LLAMA3:
        reply = reply[reply.index("{") :]
    parsed = read(form, reply)
    assert plain(parsed.calls) == plain(calls(*wanted))
    if form in (HERMES, LLAMA3):
        assert form.write(calls(*wanted), SCHEMAS) in rendered  # letter by letter


def test_spans_can_be_relocated() -> None:
    text = 'x <tool_call>{"name": "add", "arguments": {}}</tool_call><tool_call>'
    moved = relocated(read(HERMES, text), lambda span: (span[0] + 1, span[1] + 1))
    assert isinstance(moved, ParsedAction)
    assert (moved.calls[0].span, moved.failures[0].span) == ((3, 58), (58, 69))
    assert relocated(moved, lambda _: None).calls[0].span is None  # type: ignore[union-attr]
