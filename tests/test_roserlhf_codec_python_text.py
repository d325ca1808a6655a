"""Python's literals, read into JSON values, against Python's own reader."""

from __future__ import annotations

import ast
import json
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.codec.calls.python_text import Literals
from rosellm.roserlhf.codec.calls.reading import MalformedError

SOURCES = st.lists(
    st.sampled_from([*"abxuUNnrt0178'\"\\ \n", "\\x41", "\\u00e9", "\\U0001F600", "\\101", "\\'", '\\"', "\\\n", "é"]), max_size=8
).map("".join)


@settings(derandomize=True, max_examples=400, deadline=None)
@given(st.sampled_from(["'", '"', "'''", '"""']), st.sampled_from(["", "r", "u", "R"]), SOURCES)
def test_strings_are_read_as_python_reads_them(quote: str, prefix: str, body: str) -> None:
    source = f"{prefix}{quote}{body}{quote}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected: Any = ast.literal_eval(source)
    except (SyntaxError, ValueError):
        expected = None
    try:
        value, end = Literals(source, 0).read(0)
        found = value if end == len(source) else None
    except MalformedError:
        found = None
    assert found == expected


@pytest.mark.parametrize(
    "source",
    ["0", "-1", "+2", "1_000", "0x1F", "0o17", "0b11", "1.5", "1.", ".5", "1e3", "-2.5E-3", "(1)", "(1,)", "()", "(1, 2)",
     "[1, (2,)]", "{'a': [True, None]}", "'a' \"b\"", "{}", "((1),)", "[[], {}]"],
)  # fmt: skip
def test_other_literals_are_read_as_python_reads_them(source: str) -> None:
    expected = ast.literal_eval(source)
    value, end = Literals(source, 0).read(0)
    assert end == len(source)
    assert json.dumps(value) == json.dumps(expected)  # a tuple becomes a list


@pytest.mark.parametrize(
    "source", ["1__0", "1j", "01", "0x", "b'a'", "f'a'", "...", "a", "-", "--1", "1.2.3", "1_", "'\\xg1'", "'\\N{DASH}'"]
)
def test_what_is_no_literal_of_json_is_refused(source: str) -> None:
    with pytest.raises(MalformedError):
        _, end = Literals(source, 0).read(0)
        if end < len(source):
            raise MalformedError("rest")
