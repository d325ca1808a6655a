"""Calls in the form `name(argument, argument)`: the whole reply is one call.

Arguments are positional, in the order of the tool's JSON schema. A text argument is written bare, without quotes, up to the next
comma; the last one may hold commas. Every other argument is a JSON value. Nothing is evaluated, and nothing is guessed: an argument
that is empty is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.calls import json_text
from rosellm.roserlhf.codec.calls.protocol import Schemas, is_text, kinds_of, may_be_null
from rosellm.roserlhf.codec.calls.reading import TOO_DEEP, MalformedError
from rosellm.roserlhf.errors import RangeError, RecordError
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure, ToolCall

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\((.*)\)\s*", re.DOTALL)
_CALL_ID = "call-0"
_UNKNOWN: Mapping[str, Any] = {"properties": {"argument": {"type": "string"}}}
"""Schema of a tool that does not exist: whoever executes the call says so, with the list of those that do."""
_EMPTY: Final = object()


class FunctionCalls:
    """One call with positional arguments; short, which suits a small model."""

    name = "function"

    def parse(self, text: str, schemas: Schemas) -> ParsedAction | ParseFailure:
        """Read a reply that should be exactly one call, of a tool that need not exist.

        Example:
            >>> schemas = {"search": {"properties": {"item": {"type": "string"}}, "required": ["item"]}}
            >>> FunctionCalls().parse("search(lamps)", schemas).calls[0].arguments
            {'item': 'lamps'}
            >>> FunctionCalls().parse("search(lamps", schemas).reason
            'not a call of the form name(argument)'
        """
        match = _CALL.fullmatch(text)
        if match is None:
            return ParseFailure("not a call of the form name(argument)", raw=text, span=(0, len(text)))
        name, inside = match.groups()
        span = (match.start(1), match.end(2) + 1)
        try:
            arguments = _arguments(inside.strip(), schemas.get(name, _UNKNOWN))
            return ParsedAction(calls=(ToolCall(_CALL_ID, name, arguments, span),))
        except MalformedError as mistake:
            return ParseFailure(str(mistake), _CALL_ID, name, text, span)
        except (RecordError, RecursionError):
            return ParseFailure(TOO_DEEP, _CALL_ID, name, text, span)

    def write(self, calls: Sequence[ToolCall], schemas: Schemas) -> str:
        """Write one call.

        Raises:
            RangeError: there is not exactly one, or it would be read as something else, a text with a comma for example.
        """
        if len(calls) != 1:
            raise checks.fail(RangeError, "calls", "be exactly one", len(calls))
        call = calls[0]
        properties = schemas.get(call.name, _UNKNOWN)["properties"]
        given = [_written(call.arguments[key], properties[key]) if key in call.arguments else "" for key in properties]
        while given and not given[-1]:
            del given[-1]
        text = f"{call.name}({', '.join(given)})"
        match self.parse(text, schemas):
            case ParsedAction(calls=(again,)) if (again.name, again.arguments) == (call.name, call.arguments):
                return text
        raise checks.fail(RangeError, "call", "be read again as it is written", f"{text:.80}")


def _written(value: Any, schema: Mapping[str, Any]) -> str:
    written = json_text.dump(value)
    return value if isinstance(value, str) and is_text(schema) else written


def _arguments(inside: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    rest: str | None = inside or None
    properties = schema["properties"]
    for place, (parameter, kind) in enumerate(properties.items(), start=1):
        if rest is None:
            break
        value, rest = _take(rest, parameter, kind, last=place == len(properties))
        if value is not _EMPTY:
            found[parameter] = value
    if rest is not None:
        raise MalformedError("too many arguments" if properties else "takes no argument")
    return found


def _take(text: str, parameter: str, schema: Mapping[str, Any], *, last: bool) -> tuple[Any, str | None]:
    """Return the next argument, `_EMPTY` if there is none, and what follows its comma, None if there is no comma."""
    if is_text(schema):
        head, comma, tail = (text, "", "") if last else text.partition(",")
        head = head.strip()
        value = None if head == "null" and may_be_null(schema) else head or _EMPTY
        return value, tail.strip() if comma else None
    if not text or text.startswith(","):
        return _EMPTY, text[1:].strip() if text else None
    try:
        value, end = json_text.read(text, 0)
        after = text[end:].strip()
        if after and not after.startswith(","):
            raise MalformedError("two values")
    except MalformedError as mistake:
        if str(mistake) == TOO_DEEP:
            raise
        raise MalformedError(f"{parameter} must be {' or '.join(kinds_of(schema))}") from None
    return value, after[1:].strip() if after else None
