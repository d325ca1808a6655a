"""Tool calls in the form `name(argument, argument)`: text → `ParsedAction` or a `ParseFailure` that says what is wrong.

Arguments are positional and typed by the tool's JSON schema; the last string argument may hold commas. Nothing is evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure, ToolCall

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\((.*)\)\s*", re.DOTALL)


def parse_call(text: str, schemas: Mapping[str, Mapping[str, Any]]) -> ParsedAction | ParseFailure:
    """Parse a reply that should be exactly one call.

    Args:
        text: the decoded reply without its stop token.
        schemas: tool name → JSON schema of its parameters.

    Example:
        >>> schema = {"properties": {"item": {"type": "string"}}}
        >>> parse_call("search(lamps)", {"search": schema}).calls[0].arguments
        {'item': 'lamps'}
        >>> parse_call("search(lamps", {"search": schema}).reason
        'not a call of the form name(argument)'
    """
    match = _CALL.fullmatch(text)
    if match is None:
        return ParseFailure("not a call of the form name(argument)", raw=text)
    name, inside = match.groups()
    properties: Mapping[str, Mapping[str, Any]] = (
        schemas[name]["properties"] if name in schemas else {"argument": {"type": "string"}}
    )
    parts = _split(inside, len(properties))
    if len(parts) != len(properties):
        return ParseFailure(f"{name} takes {len(properties)} argument(s), got {len(parts)}", name=name, raw=text)
    arguments: dict[str, Any] = {}
    for part, (parameter, schema) in zip(parts, properties.items(), strict=True):
        try:
            arguments[parameter] = _convert(part, schema["type"])
        except ValueError:
            return ParseFailure(f"{parameter} must be {schema['type']}", name=name, raw=text)
    return ParsedAction(calls=(ToolCall("call-0", name, arguments),))


def _split(inside: str, count: int) -> Sequence[str]:
    if not count:
        return [inside] if inside.strip() else []
    return [part.strip() for part in inside.split(",", count - 1)]


_PYTHON_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def _convert(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    value = json.loads(text)
    if not isinstance(value, _PYTHON_TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        raise ValueError(text)
    return value
