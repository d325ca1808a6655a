"""Python literals inside a reply: read by a grammar of their own into JSON values, never evaluated, nested at most 100 deep."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from rosellm.roserlhf.codec.calls import json_text
from rosellm.roserlhf.codec.calls.reading import TOO_DEEP, MalformedError
from rosellm.roserlhf.record.plain import JSON_DEPTH

_STRING = re.compile(
    r"""([rRuU]?)(?:"{3}((?:[^\\"]++|\\.|"(?!""))*+)"{3}|'{3}((?:[^\\']++|\\.|'(?!''))*+)'{3}"""
    r"""|"(?!"")((?:[^"\\\n]++|\\.)*+)"|'(?!'')((?:[^'\\\n]++|\\.)*+)')""",
    re.DOTALL,
)
_PART = re.compile(_STRING.pattern + r"""|[\[\](){},"']""", re.DOTALL)
_OPENS_STRING = re.compile(r"[rRuU]?[\"']")
_NUMBER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|([0-9][0-9_]*)?(\.[0-9_]*)?([eE][-+]?[0-9]+)?)(?![\w.])")
_WORD = re.compile(r"[^\W\d]\w*")
_WORDS = {"True": True, "False": False, "None": None}
_JSON_WORDS = {"true": "True", "false": "False", "null": "None"}
_ESCAPE = re.compile(r"\\(\n|[\\'\"abfnrtv]|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[xuUN])", re.DOTALL)
_ESCAPED = {
    "\n": "", "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip


def got(text: str, place: int) -> str:
    """Say what stands at a place, for an error message."""
    return f", got {text[place : place + 20]}" if place < len(text) else ", but the call breaks off"


class Literals:
    """Reads literals of one text.

    Args:
        text: the whole reply.
        start: where the call begins; messages count characters from there.
    """

    def __init__(self, text: str, start: int) -> None:
        self._text, self._start = text, start

    def expected(self, what: str, place: int) -> MalformedError:
        """Build the error for a place at which something else stands; the caller raises it."""
        return MalformedError(f"expected {what} at character {place - self._start}{got(self._text, place)}")

    def read(self, place: int, depth: int = 0) -> tuple[Any, int]:
        """Read the literal at `place`; return it and where it ends.

        Raises:
            MalformedError: there is none.

        Example:
            >>> Literals("{'a': (1, -2.5), \\"b\\": None} …", 0).read(0)
            ({'a': [1, -2.5], 'b': None}, 27)
        """
        if depth > JSON_DEPTH:
            raise MalformedError(TOO_DEEP)
        text = self._text
        match text[place : place + 1]:
            case "[":
                return self._items(place + 1, "]", depth)
            case "(":
                return self._parentheses(place + 1, depth)
            case "{":
                return self._pairs(place + 1, depth)
        if _OPENS_STRING.match(text, place):
            return self._string(place)
        word = _WORD.match(text, place)
        if word is not None:
            return self._word(word.group(), place)
        number = _NUMBER.match(text, place)
        if number is None or not number.group().strip("-+"):
            raise self.expected("a literal", place)
        return _number(number), number.end()

    def _word(self, word: str, place: int) -> tuple[Any, int]:
        if word in _JSON_WORDS:
            raise MalformedError(f"write {_JSON_WORDS[word]}, not {word}")
        if word not in _WORDS:
            raise self.expected("a literal", place)
        return _WORDS[word], place + len(word)

    def _string(self, place: int) -> tuple[str, int]:
        """Read one string, or several that stand side by side and are one."""
        pieces: list[str] = []
        end = place
        while _OPENS_STRING.match(self._text, place):
            found = _STRING.match(self._text, place)
            if found is None:
                raise MalformedError("a string is not closed")
            body = next(group for group in found.groups()[1:] if group is not None)
            pieces.append(body if found.group(1) in ("r", "R") else _ESCAPE.sub(_unescaped, body))
            end = found.end()
            place = json_text.skip_blank(self._text, end)
        value = "".join(pieces)
        json_text.refuse_surrogates(value)
        return value, end

    def _items(self, place: int, close: str, depth: int) -> tuple[list[Any], int]:
        values: list[Any] = []

        def item(at: int) -> int:
            value, end = self.read(at, depth + 1)
            values.append(value)
            return end

        return values, self.separated(place, close, item)

    def _parentheses(self, place: int, depth: int) -> tuple[Any, int]:
        """Read a tuple, as a list, or one literal in parentheses."""
        values, end = self._items(place, ")", depth)
        is_tuple = len(values) != 1 or self._text[place : end - 1].rstrip().endswith(",")
        return (values if is_tuple else values[0]), end

    def _pairs(self, place: int, depth: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}

        def pair(at: int) -> int:
            if not _OPENS_STRING.match(self._text, at):
                raise self.expected("a string as key", at)
            key, end = self._string(at)
            colon = json_text.skip_blank(self._text, end)
            if not self._text.startswith(":", colon):
                raise self.expected(":", colon)
            value, end = self.read(json_text.skip_blank(self._text, colon + 1), depth + 1)
            if key in found:
                raise MalformedError(f"{key:.40} is given twice")
            found[key] = value
            return end

        return found, self.separated(place, "}", pair)

    def separated(self, place: int, close: str, item: Callable[[int], int]) -> int:
        """Read items up to `close`, separated by commas; `item(place)` reads one and returns its end."""
        text = self._text
        place = json_text.skip_blank(text, place)
        while not text.startswith(close, place):
            place = json_text.skip_blank(text, item(place))
            if text.startswith(",", place):
                place = json_text.skip_blank(text, place + 1)
            elif not text.startswith(close, place):
                raise self.expected(f", or {close}", place)
        return place + 1


def _number(found: re.Match[str]) -> int | float:
    text = found.group()
    try:
        value: int | float = float(text) if found.group(2) or found.group(3) else int(text, 0)
        str(value)  # a hexadecimal integer may have more digits than Python, and so JSON, writes
    except ValueError:
        raise MalformedError(f"{text:.40} is no number") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise MalformedError(f"{text:.40} is too large a number")
    return value


def _unescaped(found: re.Match[str]) -> str:
    name = found.group(1)
    if name in _ESCAPED:
        return _ESCAPED[name]
    if name in ("x", "u", "U", "N"):
        raise MalformedError(f"\\{name} is no escape here")
    code = int(name, 8) if name[0].isdigit() else int(name[1:], 16)
    if code > 0x10FFFF:
        raise MalformedError(f"\\{name} is no character")
    return chr(code)


def skip(text: str, start: int) -> int | None:
    """Return where a malformed call ends by its brackets, strings left aside; None if they do not close."""
    depth, place = 0, start
    while part := _PART.search(text, place):
        place = part.end()
        if part.group() in ("(", "[", "{"):
            depth += 1
        elif part.group() in (")", "]", "}"):
            depth -= 1
            if depth <= 0:
                return place if depth == 0 else part.start()
        elif part.group() in ('"', "'"):
            return None
        elif part.group() == "," and depth == 0:
            return part.start()
    return None
