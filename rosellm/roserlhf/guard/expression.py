"""One regular expression of RE2, asked without detours: most questions are answered no, most texts are ASCII.

The package's own wrapper makes a generator for every question and counts the characters before each span, which takes longer than
RE2 itself. Where a text is ASCII its bytes are its characters; in others the characters up to a place are counted once it is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Found:
    """Where an expression was found; its methods are those of a match of `re`."""

    __slots__ = ("_spans", "_text")

    def __init__(self, text: str, spans: list[tuple[int, int]]) -> None:
        self._text = text
        self._spans = spans

    def __getitem__(self, group: int) -> str | None:
        start, end = self._spans[group]
        return self._text[start:end] if start >= 0 else None

    def group(self, group: int = 0) -> str | None:
        """Return the text of a group; None where it took no part."""
        return self[group]

    def groups(self, default: str | None = None) -> tuple[str | None, ...]:
        """Return the texts of all groups."""
        return tuple(self._text[start:end] if start >= 0 else default for start, end in self._spans[1:])

    def span(self, group: int = 0) -> tuple[int, int]:
        """Return where a group begins and ends."""
        return self._spans[group]

    def start(self, group: int = 0) -> int:
        """Return where a group begins."""
        return self._spans[group][0]

    def end(self, group: int = 0) -> int:
        """Return where a group ends."""
        return self._spans[group][1]


_NOWHERE: Iterator[Found] = iter(())


class Expression:
    """A compiled expression with the methods of `re`.

    Example:
        >>> from rosellm.roserlhf.guard.patterns import pattern
        >>> [found.span() for found in pattern(r"\\w+").finditer("über aß")], pattern("(a)|b").search("b").groups()
        ([(1, 4), (5, 6)], (None,))
    """

    __slots__ = ("_anywhere", "_match", "_wrapped", "groups")

    def __init__(self, wrapped: Any, anywhere: Any) -> None:
        """Take a compiled expression of google-re2, and what tells it to look anywhere in a text."""
        self._wrapped = wrapped
        self._match = wrapped._regexp.Match
        self._anywhere = anywhere
        self.groups: int = wrapped.groups

    def search(self, text: str, start: int = 0) -> Found | None:
        """Return where it is found first, from some place on."""
        if start == 0 and text.isascii():
            spans = self._match(self._anywhere, text.encode(), 0, len(text))
            return Found(text, spans) if spans[0][0] >= 0 else None
        return next(self.finditer(text, start), None)

    def match(self, text: str) -> Any:
        """Return how it fits the beginning of a text."""
        return self._wrapped.match(text)

    def fullmatch(self, text: str) -> Any:
        """Return how it fits the whole text."""
        return self._wrapped.fullmatch(text)

    def finditer(self, text: str, start: int = 0, end: int | None = None) -> Iterator[Found]:
        """Return where it is found, one place after the other."""
        if not text.isascii():
            return self._wide(text, start, end)
        data = text.encode()
        stop = len(data) if end is None else max(0, min(end, len(data)))
        if start > stop:
            return _NOWHERE
        spans = self._match(self._anywhere, data, start, stop)
        return self._places(text, data, start, stop, spans) if spans[0][0] >= 0 else _NOWHERE

    def _places(self, text: str, data: bytes, start: int, stop: int, spans: list[tuple[int, int]]) -> Iterator[Found]:
        """Yield a place that was found, and those after it."""
        match, anywhere = self._match, self._anywhere
        while spans[0][0] >= 0:
            last = spans[0][1]
            yield Found(text, spans)
            if start == stop:
                return
            start = last if last > start else start + 1  # it found nothing at all there, which must not hold it up
            if start > stop:
                return
            spans = match(anywhere, data, start, stop)

    def _wide(self, text: str, start: int, end: int | None) -> Iterator[Found]:
        """Yield the places in a text of which some characters are several bytes."""
        match, anywhere = self._match, self._anywhere
        data = text.encode(errors="replace")  # a lone surrogate, one character for one
        known = min(start, len(text))  # characters before `passed`
        at = passed = len(text[:known].encode(errors="replace")) if known else 0
        stop = len(data) if end is None or end >= len(text) else len(text[: max(0, end)].encode(errors="replace"))
        if at > stop:
            return
        spans = match(anywhere, data, at, stop)
        while spans[0][0] >= 0:
            first, last = spans[0]
            known += len(data[passed:first].decode())
            yield Found(text, _by_character(data, first, last, known, spans))
            if at == stop:
                return
            known += len(data[first:last].decode())
            passed = last
            at = last if last > at else at + _width(data[at])  # it found nothing at all there, which must not hold it up
            if at > stop:
                return
            spans = match(anywhere, data, at, stop)

    def findall(self, text: str) -> list[Any]:
        """Return what it finds: the whole, its one group, or all groups."""
        if self.groups == 0:
            return [found[0] for found in self.finditer(text)]
        if self.groups == 1:
            return [found[1] or "" for found in self.finditer(text)]
        return [found.groups("") for found in self.finditer(text)]

    def sub(self, by: Any, text: str) -> str:
        """Return a text with other words, or what a function makes of them, where it is found."""
        if isinstance(by, str) and "\\" in by:  # it speaks of groups
            return text if self.search(text) is None else str(self._wrapped.sub(by, text))
        parts: list[str] = []
        end = 0
        for found in self.finditer(text):
            start, stop = found.span()
            parts += (text[end:start], by if isinstance(by, str) else by(found))
            end = stop
        if not parts:
            return text
        parts.append(text[end:])
        return "".join(parts)

    def split(self, text: str) -> list[str | None]:
        """Return what stands between the places where it is found, and its groups."""
        parts: list[str | None] = []
        end = 0
        for found in self.finditer(text):
            parts += (text[end : found.start()], *found.groups())
            end = found.end()
        parts.append(text[end:])
        return parts


def _by_character(data: bytes, first: int, last: int, place: int, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans of bytes, of which the first holds the others, as spans of characters; it begins at the character `place`."""
    if data[first:last].isascii():
        shift = place - first
        return [(start + shift, end + shift) if start >= 0 else (start, end) for start, end in spans]
    return [
        (place + len(data[first:start].decode()), place + len(data[first:end].decode())) if start >= 0 else (start, end)
        for start, end in spans
    ]


def _width(byte: int) -> int:
    """Return how many bytes a character has that begins with some byte."""
    return 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
