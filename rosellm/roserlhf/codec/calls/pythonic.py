"""Pythonic calls: `[f(a=1), g(b="x")]`, as Llama 3.2 and 4 and LFM2 write them. Literals only, read by a grammar, never evaluated.

```
calls   = "[" call {"," call} [","] "]"        at the beginning of a line or after an opening marker
call    = name "(" [argument {"," argument} [","]] ")"
argument = [name "="] literal                   without a name: in the order of the tool's JSON schema
literal = {string} | [+|-] number | True | False | None | list | tuple | dict with string keys
```
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.calls import json_text, python_text
from rosellm.roserlhf.codec.calls.protocol import Schemas
from rosellm.roserlhf.codec.calls.python_text import Literals, got
from rosellm.roserlhf.codec.calls.reading import TOO_DEEP, MalformedError, Reading, reasoning_end
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.trajectory import ParsedAction, ToolCall

_START = re.compile(r"(?:^[ \t]*|<\|tool_call_start\|>\s*|<\|python_start\|>\s*)(?=\[\s*[^\W\d][\w.]*\s*\()", re.MULTILINE)
_END = re.compile(r"\s*(?:<\|tool_call_end\|>|<\|python_end\|>)")
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_KEYWORD = re.compile(r"([^\W\d]\w*)\s*=\s*")


class PythonicCalls:
    """Calls as a list of Python function calls."""

    name = "pythonic"

    def parse(self, text: str, schemas: Schemas) -> ParsedAction:
        """Read the calls; `schemas` name arguments that are given by position.

        Example:
            >>> parsed = PythonicCalls().parse('[f(a=[1, None]), g(b=open("x")), h()]', {})
            >>> [(call.name, call.arguments) for call in parsed.calls]
            [('f', {'a': [1, None]}), ('h', {})]
            >>> parsed.failures[0].call_id, parsed.failures[0].name, parsed.failures[0].reason
            ('call-1', 'g', 'expected a literal at character 4, got open("x")), h()]')
        """
        reading, place = Reading(text), reasoning_end(text)
        while match := _START.search(text, place):
            reading.glue(match.start(), match.end() + 1)
            place = self._list(reading, match.end() + 1, schemas)
            if end := _END.match(text, place):
                reading.glue(place, end.end())
                place = end.end()
        return reading.action()

    def _list(self, reading: Reading, place: int, schemas: Schemas) -> int:
        """Read calls up to the closing bracket; return where the list ends."""
        text = reading.text
        while True:
            start = json_text.skip_blank(text, place)
            if text.startswith("]", start):
                reading.glue(place, start + 1)
                return start + 1
            if reading.is_full(start):
                return len(text)
            end = _call(reading, start, schemas)
            place = json_text.skip_blank(text, end)
            if text.startswith(",", place):
                place += 1
            elif not text.startswith("]", place):
                if reading.last_end < len(text):
                    reading.failure(f"expected , or ] after a call{got(text, place)}", None, place, len(text))
                return len(text)
            reading.glue(end, place)

    def write(self, calls: Sequence[ToolCall], schemas: Schemas) -> str:
        """Write the calls, every argument by name.

        Raises:
            RangeError: a name is no identifier, or an argument is NaN, infinite or holds half of a surrogate pair.
        """
        return f"[{', '.join(map(_written, calls))}]" if calls else ""


def _call(reading: Reading, start: int, schemas: Schemas) -> int:
    """Read the call at `start`, or record what is wrong with it; return where it ends."""
    text = reading.text
    name = _NAME.match(text, start)
    opened = start if name is None else json_text.skip_blank(text, name.end())
    try:
        if name is None or not text.startswith("(", opened):
            raise MalformedError(f"expected name(…){got(text, start)}")
        arguments, end = _arguments(text, start, opened + 1, _order(schemas, name.group()))
    except (MalformedError, RecursionError) as error:
        mistake = TOO_DEEP if isinstance(error, RecursionError) else str(error)
        end = python_text.skip(text, opened) or len(text)
        reading.failure(mistake, None if name is None else name.group(), start, end)
    else:
        reading.call(name.group(), arguments, start, end)
    return end


def _order(schemas: Schemas, name: str) -> Sequence[str] | None:
    """Return the parameters of a tool in order; None if there is no such tool, which is for others to say."""
    return None if name not in schemas else list(schemas[name].get("properties", {}))


def _arguments(text: str, start: int, place: int, order: Sequence[str] | None) -> tuple[dict[str, Any], int]:
    literals = Literals(text, start)
    found: dict[str, Any] = {}
    by_name = False

    def argument(at: int) -> int:
        nonlocal by_name
        keyword = _KEYWORD.match(text, at)
        if keyword is None and by_name:
            raise literals.expected("name=", at)
        if keyword is None:
            if order is not None and len(found) >= len(order):
                raise MalformedError("too many arguments" if order else "takes no argument")
            key = f"argument_{len(found) + 1}" if order is None else order[len(found)]
        else:
            by_name, key, at = True, keyword.group(1), keyword.end()
        value, end = literals.read(at)
        if key in found:
            raise MalformedError(f"{key:.40} is given twice")
        found[key] = value
        return end

    return found, literals.separated(place, ")", argument)


def _written(call: ToolCall) -> str:
    if not _NAME.fullmatch(call.name):
        raise checks.fail(RangeError, "name", "be an identifier", f"{call.name!r:.80}")
    json_text.dump(call.arguments)  # refuses what no format can write
    for key in call.arguments:
        if not key.isidentifier():
            raise checks.fail(RangeError, f"arguments of {call.name}", "have identifiers as names", f"{key!r:.80}")
    return f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})"
