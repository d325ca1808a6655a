"""Globs as sets of paths: written out, as regular expressions, and what two of them have in common, in linear time each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN

WILD: Final = frozenset("*?[" + UNKNOWN)
"""Letters that stand for others."""
_BRACES: Final = 64
"""Alternatives that braces may give."""


def literal_prefix(path: str) -> str:
    """Return what stands before the first wildcard."""
    for letter in WILD:
        path = path.partition(letter)[0]
    return path


def braces(text: str) -> list[str]:
    """Expand `{a,b}`, nested ones too; too many alternatives leave the rest as it is."""
    done: list[str] = []
    todo = [text]
    while todo and len(done) + len(todo) <= _BRACES:
        one = todo.pop(0)
        span = _first_braces(one)
        if span is None:
            done.append(one)
        else:
            start, stop, parts = span
            todo += [one[:start] + part + one[stop:] for part in parts]
    return done + todo


def _first_braces(text: str) -> tuple[int, int, list[str]] | None:
    start = text.find("{")
    while start >= 0:
        depth, cuts = 0, [start]
        for place in range(start, len(text)):
            letter = text[place]
            depth += (letter == "{") - (letter == "}")
            if letter == "," and depth == 1:
                cuts.append(place)
            if depth == 0:
                if len(cuts) > 1:
                    bounds = [*cuts, place]
                    return start, place + 1, [text[a + 1 : b] for a, b in pairwise(bounds)]
                break
        start = text.find("{", start + 1)
    return None


def glob_pattern(path: str) -> str:
    """Write a glob as a regular expression for the paths it names and everything below them."""
    written = []
    rest = path.removesuffix("/**") or "/"
    place = 0
    while place < len(rest):
        if rest.startswith("/**/", place):
            written.append("/(?:.*/)?")
            place += 4
        elif rest.startswith("**", place):
            written.append(".*")
            place += 2
        else:
            token, place = _token(rest, place)
            written.append(_as_pattern(token))
    text = "".join(written)
    return "(?s)" + (text if text == "/" else text.removesuffix("/")) + "(?:/.*)?"


def escaped(text: str) -> str:
    """Write text as a pattern that matches it alone."""
    return "".join(
        letter if letter.isalnum() or letter in "_/" or ord(letter) > 127 else f"\\x{ord(letter):02x}" for letter in text
    )


_Token = str | frozenset[str]
"""One letter, a set of letters (of which `!` first makes all others), or one of `?`, `*`, `**` written as below."""
_ONE: Final = "\0?"
_SOME: Final = "\0*"
_ALL: Final = "\0**"


def _token(path: str, place: int) -> tuple[_Token, int]:
    letter = path[place]
    if letter == UNKNOWN or path.startswith("**", place):
        return _ALL, place + (1 if letter == UNKNOWN else 2)
    if letter == "*":
        return _SOME, place + 1
    if letter == "?":
        return _ONE, place + 1
    if letter == "[":
        stop = path.find("]", place + 2)
        if stop > 0:
            return _set(path[place + 1 : stop]), stop + 1
    return letter, place + 1


def _set(inner: str) -> frozenset[str] | str:
    if inner[0] in "!^" or inner.startswith("[:"):
        return _ONE
    letters: set[str] = set()
    place = 0
    while place < len(inner):
        if inner[place + 1 : place + 2] == "-" and place + 2 < len(inner):
            low, high = ord(inner[place]), ord(inner[place + 2])
            if high - low > 256:
                return _ONE
            letters.update(map(chr, range(low, high + 1)))
            place += 3
        else:
            letters.add(inner[place])
            place += 1
    return frozenset(letters)


def _as_pattern(token: _Token) -> str:
    if isinstance(token, frozenset):
        return "(?:" + "|".join(escaped(letter) for letter in sorted(token)) + ")" if token else "(?:)"
    return {_ONE: "[^/]", _SOME: "[^/]*", _ALL: ".*"}.get(token) or escaped(token)


@lru_cache(maxsize=4096)
def _tokens(path: str) -> tuple[_Token, ...]:
    return tuple(_each_token(path))


def _each_token(path: str) -> Iterator[_Token]:
    place = 0
    while place < len(path):
        if path.startswith("/**/", place):  # also nothing at all: one slash
            yield "/"
            yield _ALL
            place += 4
        else:
            token, place = _token(path, place)
            yield token


@lru_cache(maxsize=8192)
def shared_letters(left: str, right: str) -> int:
    r"""Return how many letters, written out in both globs, some path that both name has in common; -1 if there is no such path.

    Backwards over both token strings, best[j] for the rest of `right` from j:
    $b_{i,j} = \max$ over letting a wildcard end, a wildcard take a letter, or both going on by one.
    """
    a, b = _tokens(left), _tokens(right)
    if len(a) * len(b) > 40_000:
        return -1
    ahead, first, last = _outer(a, b)
    if ahead < 0:
        return -1
    a, b = a[first : len(a) - last], b[first : len(b) - last]
    none = -1
    ends = len(b)
    below = [none] * (ends + 1)
    below[ends] = 0
    for j in range(ends - 1, -1, -1):
        if b[j] not in _SEVERAL:
            break
        below[j] = 0
    for here in reversed(a):
        row = [none] * (ends + 1)
        if here in _SEVERAL:
            best = row[ends] = below[ends]
            for j in range(ends - 1, -1, -1):
                if best < below[j] or (here == _SOME and b[j] == "/"):
                    best = below[j]
                row[j] = best
        else:
            for j in range(ends - 1, -1, -1):
                there = b[j]
                if there in _SEVERAL:
                    best = row[j + 1]
                    if best < below[j] and (there == _ALL or here != "/"):
                        best = below[j]
                    row[j] = best
                elif below[j + 1] > none:
                    gain = _common(here, there)
                    if gain > none:
                        row[j] = below[j + 1] + gain
        below = row
    return none if below[0] == none else below[0] + ahead


_SEVERAL: Final = frozenset((_SOME, _ALL))
"""What stands for any number of letters."""


def _outer(a: tuple[_Token, ...], b: tuple[_Token, ...]) -> tuple[int, int, int]:
    """Return how many letters two globs share before and after all wildcards, and how many tokens that is before and after.

    There letter must stand by letter; the first number is -1 where one does not.
    """
    most = min(len(a), len(b))
    first = last = letters = 0
    while first < most and _is_letter(a[first]) and _is_letter(b[first]):
        if a[first] != b[first]:
            return -1, 0, 0
        letters += a[first] != "/"
        first += 1
    most -= first
    while last < most and _is_letter(a[-1 - last]) and _is_letter(b[-1 - last]):
        if a[-1 - last] != b[-1 - last]:
            return -1, 0, 0
        letters += a[-1 - last] != "/"
        last += 1
    return letters, first, last


def _is_letter(token: _Token) -> bool:
    return isinstance(token, str) and len(token) == 1


def _common(here: _Token, there: _Token) -> int:
    """Return 1 for one and the same letter, 0 for a wildcard that may be it or a slash, -1 if they differ."""
    if here == there and isinstance(here, str) and here != _ONE:
        return int(here != "/")
    if isinstance(here, str) and isinstance(there, str):
        return 0 if (here == _ONE and there != "/") or (there == _ONE and here != "/") else -1
    if isinstance(here, frozenset) and isinstance(there, frozenset):
        return 0 if here & there else -1
    letters, other = (here, there) if isinstance(here, frozenset) else (there, here)
    return 0 if other == _ONE or other in letters else -1
