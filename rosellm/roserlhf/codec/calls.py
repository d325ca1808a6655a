"""Tool calls in the form `name(argument, argument)`: text → `ParsedAction` or a `ParseFailure` that says what is wrong.

Arguments are positional, in the order of the tool's JSON schema. A string argument is written bare, without quotes, up to the next
comma; the last one may hold commas. Every other argument is a JSON value. Nothing is evaluated, and nothing is guessed: an argument
that is empty is missing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError, RecordError
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure, ToolCall

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\((.*)\)\s*", re.DOTALL)
_CALL_ID = "call-0"
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_UNKNOWN: Mapping[str, Any] = {"properties": {"argument": {"type": "string"}}, "required": []}
"""Schema of a tool that does not exist: whoever executes the call says so, with the list of those that do."""


class _ArgumentError(ValueError):
    """The arguments do not fit the schema; the message is worded for the model."""


def parse_call(text: str, schemas: Mapping[str, Mapping[str, Any]]) -> ParsedAction | ParseFailure:
    """Parse a reply that should be exactly one call; no text makes this raise.

    Args:
        text: the decoded reply without its stop token.
        schemas: tool name → JSON schema of its parameters, as `parameters_of` gives them.

    Returns:
        One call, of a tool that need not exist; or what is wrong.

    Example:
        >>> schema = {"properties": {"item": {"type": "string"}}, "required": ["item"]}
        >>> parse_call("search(lamps)", {"search": schema}).calls[0].arguments
        {'item': 'lamps'}
        >>> parse_call("search()", {"search": schema}).reason
        'missing item'
        >>> parse_call("search(lamps", {"search": schema}).reason
        'not a call of the form name(argument)'
    """
    match = _CALL.fullmatch(text)
    if match is None:
        return ParseFailure("not a call of the form name(argument)", raw=text)
    name, inside = match.groups()
    try:
        arguments = _arguments(inside.strip(), schemas.get(name, _UNKNOWN))
        return ParsedAction(calls=(ToolCall(_CALL_ID, name, arguments),))
    except _ArgumentError as mistake:
        return ParseFailure(str(mistake), call_id=_CALL_ID, name=name, raw=text)
    except (RecursionError, RecordError):
        return ParseFailure("arguments nested too deep", call_id=_CALL_ID, name=name, raw=text)


def parameters_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the parameters' schema of each tool, by name.

    Raises:
        RangeError: a parameter's type is none of string, integer, number, boolean, array, object.
    """
    found = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    for name, schema in found.items():
        for parameter, kind in schema["properties"].items():
            if kind.get("type") not in _TYPES:
                raise checks.fail(
                    RangeError, f"type of {name}({parameter})", f"be one of {', '.join(_TYPES)}", repr(kind.get("type"))
                )
    return found


def _arguments(inside: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    rest: str | None = inside or None
    properties = schema["properties"]
    for place, (parameter, kind) in enumerate(properties.items(), start=1):
        if rest is None:
            break
        value, rest = _take(rest, parameter, kind["type"], last=place == len(properties))
        if value is not None:
            found[parameter] = value
    if rest is not None:
        raise _ArgumentError("too many arguments" if properties else "takes no argument")
    if missing := [name for name in schema["required"] if name not in found]:
        raise _ArgumentError(f"missing {', '.join(missing)}")
    return found


def _take(text: str, parameter: str, kind: str, *, last: bool) -> tuple[Any, str | None]:
    """Return the next argument, None if it is empty, and what follows its comma, None if there is no comma."""
    if kind == "string":
        head, comma, tail = (text, "", "") if last else text.partition(",")
        return head.strip() or None, tail.strip() if comma else None
    if not text or text.startswith(","):
        return None, text[1:].strip() if text else None
    try:
        value, end = _JSON.raw_decode(text)
    except ValueError:
        raise _ArgumentError(f"{parameter} must be {kind}") from None
    after = text[end:].strip()
    fits = isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if not fits or (after and not after.startswith(",")):
        raise _ArgumentError(f"{parameter} must be {kind}")
    return value, after[1:].strip() if after else None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


_JSON = json.JSONDecoder(parse_float=_finite, parse_constant=_no_number)
