"""JSON schemas of annotations and docstrings: against those that transformers makes, and what is refused."""

from __future__ import annotations

from typing import Any, Literal, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.environment import docstring
from rosellm.roserlhf.environment.schema import misfits, schema_of
from rosellm.roserlhf.environment.tools import read_tool
from rosellm.roserlhf.errors import DtypeError, RangeError

PROPERTY = settings(derandomize=True, max_examples=60, deadline=None)


def everything(
    text: str,
    whole: int,
    number: float,
    yes: bool,
    anything: list,  # type: ignore[type-arg]
    table: dict,  # type: ignore[type-arg]
    numbers: list[int],
    rows: list[list[str]],
    counts: dict[str, int],
    unit: Literal["celsius", "fahrenheit"],
    size: Literal[1, 2] = 1,
    name: str | None = None,
    older: Optional[list[int]] = None,  # noqa: UP045
    mode: Literal["a", "b"] | None = None,
) -> str:
    """Do everything.

    Args:
        text: some text.
        whole: a whole number.
        number: a number.
        yes: whether or not.
        anything: a list.
        table: an object.
        numbers: whole numbers.
        rows: rows of
            text.
        counts: how many.
        unit: of temperature.
        size: small or large.
        name: who.
        older: a list
        mode: how: a or b.

    Returns:
        Text.
    """
    return ""


def test_a_schema_is_the_one_that_transformers_makes() -> None:
    from transformers.utils.chat_template_utils import get_json_schema

    expected = get_json_schema(everything)
    expected["function"].pop("return", None)
    made = read_tool(everything).schema()
    assert made["function"]["parameters"]["required"] == expected["function"]["parameters"]["required"]
    assert made["function"]["description"] == expected["function"]["description"]
    for name, schema in expected["function"]["parameters"]["properties"].items():
        assert made["function"]["parameters"]["properties"][name] == schema, name


@pytest.mark.parametrize(
    "annotation",
    [
        None,
        object,
        Any,
        tuple[int, int],
        set[str],
        int | str,
        dict[int, str],
        list[object],
        Literal["a", 1],
        Literal[None],
        bytes,
        "str",
    ],
)
def test_what_json_has_no_type_for_is_none(annotation: Any) -> None:
    assert schema_of(annotation) is None


def bad_default(size: int = "3") -> str:  # type: ignore[assignment]
    return ""


def bad_none(size: int = None) -> str:  # type: ignore[assignment]  # noqa: RUF013
    return ""


def bad_choice(unit: Literal["a", "b"] = "c") -> str:  # type: ignore[assignment]
    return ""


def bad_inner(values: list[object]) -> str:
    return ""


def bad_name(values: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
    return ""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (bad_default, r"bad_default\(size\) must have a default of its own type: the default must be integer, got '3'"),
        (bad_none, r"the default must be integer, got None; annotate it with \.\.\. \| None"),
        (bad_choice, r"the default must be one of a, b, got 'c'"),
        (bad_inner, r"bad_inner\(values\) must be annotated with one of str, .*, got list\[object\]"),
        (bad_name, r"bad_name must have annotations that can be read, got name 'Nowhere' is not defined"),
    ],
)
def test_wrong_annotations_are_errors(function: Any, message: str) -> None:
    with pytest.raises(DtypeError, match=message):
        read_tool(function)


def test_a_docstring_that_describes_no_parameter_is_an_error() -> None:
    def look(item: str) -> str:
        """Look.

        Args:
            itme: the thing.
        """
        return item

    with pytest.raises(RangeError, match="Args of look must describe its parameters, got itme"):
        read_tool(look)


@pytest.mark.parametrize(
    ("text", "description", "arguments"),
    [
        ("", "", {}),
        ("One line.", "One line.", {}),
        ("Two\nlines.\n\nMore.", "Two lines.", {}),
        ("Args:\n    a: x", "", {"a": "x"}),
        (
            "Do.\n\nArgs:\n    a: x\n\n    b (int, optional): y: z\n        and more\n\nReturns:\n    c: d",
            "Do.",
            {"a": "x", "b": "y: z and more"},
        ),
        ("Do.\n\nArguments:\n  a:\n    below", "Do.", {"a": "below"}),
        ("Do.\n\nArgs: a is x", "Do.", {}),
        ("Do.\n\nArgs:\nReturns:\n    a: x", "Do.", {}),
    ],
)
def test_docstrings(text: str, description: str, arguments: dict[str, str]) -> None:
    assert docstring.description(text) == description
    assert docstring.arguments(text) == arguments


@pytest.mark.parametrize(
    ("value", "schema", "problems"),
    [
        (None, schema_of(int | None), []),
        ("1", schema_of(int | None), ["x must be integer or null"]),
        (None, schema_of(Literal["a"] | None), []),
        ("b", schema_of(Literal["a", "c"]), ["x must be one of a, c"]),
        (True, schema_of(Literal[1, 2]), ["x must be integer"]),
        ([1, "2", True], schema_of(list[int]), ["x[1] must be integer", "x[2] must be integer"]),
        ({"a": {"b": 1}}, schema_of(dict[str, dict[str, str]]), ["x.a.b must be string"]),
        (
            {"a": 1},
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
            ["x must have b", "x.a must be string"],
        ),
        ({"a": 1}, {"type": "object", "additionalProperties": False}, ["x must not have a"]),
        (1, {"type": ["string", "null"]}, ["x must be string or null"]),
        ({"anything": [1]}, {}, []),
        (1, {"type": "any"}, []),
    ],
)
def test_misfits_are_worded(value: Any, schema: dict[str, Any], problems: list[str]) -> None:
    assert list(misfits(value, schema, "x")) == problems


TYPES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, st.text(max_size=3)),
    (int, st.integers()),
    (bool, st.booleans()),
    (float, st.floats() | st.integers()),
    (list[int], st.lists(st.integers(), max_size=3)),
    (dict[str, bool], st.dictionaries(st.text(max_size=2), st.booleans(), max_size=2)),
    (int | None, st.none() | st.integers()),
    (Literal["a", "b"], st.sampled_from("ab")),
]


@PROPERTY
@given(st.sampled_from(TYPES).flatmap(lambda pair: st.tuples(st.just(pair[0]), pair[1])))
def test_a_value_of_the_annotated_type_fits(pair: tuple[Any, Any]) -> None:
    schema = schema_of(pair[0])
    assert schema is not None
    assert list(misfits(pair[1], schema, "x")) == []
