"""JSON inside a reply, read strictly: no name given twice, no NaN or infinity, no half of a surrogate pair."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.calls.reading import TOO_DEEP, MalformedError
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.trajectory import ToolCall

BREAKS_OFF = "the call breaks off"
PART = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\]"]', re.DOTALL)
_FIRST_NAME = re.compile(r'\{\s*"name"\s*:\s*("(?:[^"\\]++|\\.)*+")', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_BLANK = re.compile(r"\s*")
_KIND_NAMES: Mapping[type, str] = {
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def _shown(name: str) -> str:
    """Shorten a name that the model wrote, and make sure that it can be written."""
    return name[:40].encode("utf-8", "backslashreplace").decode("utf-8")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name in found if counts[name] > 1)
        raise MalformedError(f"{_shown(twice)} is given twice")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise MalformedError(f"{text:.20} is too large a number")
    return value


def _no_number(text: str) -> NoReturn:
    raise MalformedError(f"{text} is not a JSON number")


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:  # more digits than Python converts
        raise MalformedError("an integer has too many digits") from None


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_float=_finite, parse_constant=_no_number, parse_int=_whole)


def read(text: str, start: int) -> tuple[Any, int]:
    """Read the JSON value that begins at `start`; return it and where it ends.

    Raises:
        MalformedError: there is none, or it breaks one of the rules above.

    Example:
        >>> read('x [1, {"a": "]"}] y', 2)
        ([1, {'a': ']'}], 17)
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
        if "\\u" in text[start:end] or _SURROGATE.search(text, start, end):
            refuse_surrogates(value)
    except RecursionError:
        raise MalformedError(TOO_DEEP) from None
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
            raise MalformedError(BREAKS_OFF) from None
        raise MalformedError(f"not valid JSON: {error.msg} at character {error.pos - start}") from None
    return value, end


def refuse_surrogates(value: Any) -> None:
    """Refuse half of a surrogate pair anywhere in a value: it is no character and cannot be stored.

    Raises:
        MalformedError: there is one.
    """
    if isinstance(value, str):
        if _SURROGATE.search(value):
            raise MalformedError("a string holds half of a surrogate pair")
    elif isinstance(value, dict):
        for name, inner in value.items():
            refuse_surrogates(name)
            refuse_surrogates(inner)
    elif isinstance(value, list):
        for inner in value:
            refuse_surrogates(inner)


def read_call(text: str, start: int, key: str) -> tuple[str, dict[str, Any], int]:
    """Read `{"name": …, <key>: {…}}`; return the name, the arguments and where the object ends.

    Raises:
        MalformedError: it is not valid JSON or not of this form.
    """
    call, end = read(text, start)
    if not isinstance(call, dict):
        raise MalformedError(f"a call must be an object, got {kind_name(call)}")
    for wanted in ("name", key):
        if wanted not in call:
            raise MalformedError(f'missing "{wanted}"' + (f'; write "{key}": {{}} for none' if wanted == key else ""))
    if unknown := [name for name in call if name not in ("name", key) and (name, call[name]) != ("type", "function")]:
        raise MalformedError(f'unexpected "{_shown(unknown[0])}" beside "name" and "{key}"')
    name, arguments = call["name"], call[key]
    if not isinstance(name, str) or not name:
        raise MalformedError(f"name must be a string that is not empty, got {kind_name(name)}")
    if not isinstance(arguments, dict):
        twice = "; do not encode it twice" if isinstance(arguments, str) else ""
        raise MalformedError(f"{key} must be an object, got {kind_name(arguments)}{twice}")
    return name, arguments, end


def kind_name(value: Any) -> str:
    """Name the kind of a JSON value for the model."""
    return _KIND_NAMES[type(value)]


def first_name(text: str, start: int) -> str | None:
    """Return the tool's name out of a malformed call, if it comes first and is whole."""
    match = _FIRST_NAME.match(text, start)
    if match is None:
        return None
    try:
        name = json.loads(match.group(1))
    except ValueError:
        return None
    return name if isinstance(name, str) and not _SURROGATE.search(name) else None


def skip(text: str, start: int, part: re.Pattern[str] = PART) -> int | None:
    """Return where a malformed value ends by its brackets, strings left aside; None if they do not close.

    Args:
        text: the reply.
        start: where the value begins.
        part: finds strings, brackets, and whatever else ends the search, a quote that opens no string for example.

    Example:
        >>> skip('{"a": }, "}"} rest', 0)
        7
    """
    depth, place = 0, start
    while match := part.search(text, place):
        found, place = match.group(), match.end()
        if found in ("{", "["):
            depth += 1
        elif found in ("}", "]"):
            depth -= 1
            if depth <= 0:
                return place
        elif len(found) == 1 or found[0] != '"':
            return None
    return None


def skip_blank(text: str, start: int) -> int:
    """Return the first place that holds no blank."""
    match = _BLANK.match(text, start)
    return start if match is None else match.end()


def dump_call(call: ToolCall, key: str) -> str:
    """Write `{"name": …, <key>: {…}}`.

    Raises:
        RangeError: see `dump`.
    """
    return f'{{"name": {dump(call.name)}, "{key}": {dump(call.arguments)}}}'


def dump(value: Any) -> str:
    """Write a JSON value that `read` reads again.

    Raises:
        RangeError: it holds NaN, an infinity or half of a surrogate pair.
    """
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise checks.fail(RangeError, "arguments", "hold finite numbers", f"{value!r:.80}") from None
    if _SURROGATE.search(written):
        raise checks.fail(RangeError, "arguments", "hold no half of a surrogate pair", f"{value!r:.80}")
    return written
