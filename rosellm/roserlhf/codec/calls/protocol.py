"""The seam between a reply as text and the calls in it: `parse: text → calls and failures`, `write: calls → text`.

A format checks syntax and nothing else: that a tool exists and takes such arguments is decided once, by whoever runs the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure, ToolCall

Schemas: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Tool name → JSON schema of its parameters, as `parameters_of` gives them."""
Span: TypeAlias = tuple[int, int]
KINDS = ("string", "integer", "number", "boolean", "array", "object", "null")
"""The types that a JSON schema knows."""


class CallFormat(Protocol):
    """One way to write tool calls. Stateless: one object serves all episodes."""

    @property
    def name(self) -> str:
        """Its name in the table of formats."""
        ...

    def parse(self, text: str, schemas: Schemas) -> ParsedAction | ParseFailure:
        """Read the calls of one reply. Whatever the text is, this does not raise, and its time grows with the length only.

        Args:
            text: the reply without its stop token; markers such as `<tool_call>` must be in it, also where they are tokens.
            schemas: of the tools that exist; only formats whose text does not tell a number from a string need them to read.

        Returns:
            The calls in order, beside them the malformed ones as failures, both numbered `call-0`, `call-1`, … by place, with
            spans [start, end) in characters of `text`; what stands outside them is the content. A reply without a call is
            content only. A `ParseFailure` instead of an action: in this format the whole reply has to be a call, and is none.
        """
        ...

    def write(self, calls: Sequence[ToolCall], schemas: Schemas) -> str:
        """Write calls so that `parse` reads the same names and arguments again.

        Raises:
            RangeError: the format has no way to write one of them.
        """
        ...


def parameters_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the parameters' schema of each tool, by name.

    Args:
        tools: plain JSON schemas, `{"type": "function", "function": {"name": …, "parameters": …}}`; without parameters, or
            `properties` in them, a tool takes none.

    Raises:
        RangeError: a parameter's type is none of string, integer, number, boolean, array, object, null.
    """
    schemas = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in tools}
    found: dict[str, Mapping[str, Any]] = {
        name: {**schema, "properties": schema.get("properties") or {}} for name, schema in schemas.items()
    }
    for name, schema in found.items():
        for parameter, kind in schema["properties"].items():
            if not set(kinds_of(kind)) <= set(KINDS):
                raise checks.fail(
                    RangeError, f"type of {name}({parameter})", f"be one of {', '.join(KINDS)}", repr(kind.get("type"))
                )
    return found


def kinds_of(schema: Mapping[str, Any]) -> Sequence[str]:
    """List the types that a parameter may have; none named: any."""
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else tuple(kind)


def is_text(schema: Mapping[str, Any]) -> bool:
    """Tell whether an argument is written as it stands, for it may be text."""
    kinds = kinds_of(schema)
    return not kinds or "string" in kinds


def may_be_null(schema: Mapping[str, Any]) -> bool:
    """Tell whether an argument may be null."""
    return bool(schema.get("nullable")) or "null" in kinds_of(schema)


def relocated(parsed: ParsedAction | ParseFailure, place: Callable[[Span], Span | None]) -> ParsedAction | ParseFailure:
    """Return the same action with every span replaced, from characters to tokens for example; None is "unknown".

    Example:
        >>> relocated(ParseFailure("not a call", span=(0, 8)), lambda span: (span[0] // 4, span[1] // 4)).span
        (0, 2)
    """

    def moved(part: Any) -> Any:
        return part if part.span is None else replace(part, span=place(part.span))

    if isinstance(parsed, ParseFailure):
        failure: ParseFailure = moved(parsed)
        return failure
    return replace(parsed, calls=[moved(call) for call in parsed.calls], failures=[moved(failure) for failure in parsed.failures])
