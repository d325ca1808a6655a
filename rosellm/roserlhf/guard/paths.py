"""Does a path or glob of a call touch a path or glob of the setting? Globs against globs, unknown parts and all, in linear time."""

from __future__ import annotations

import enum
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.patterns import pattern

_LONGEST: Final = 1024
"""Characters of a path that are compared; longer ones than any file system takes are cut."""
_BRACES: Final = 64
"""Alternatives that braces may give."""
_ENOUGH: Final = 4
"""Known letters that an otherwise unknown path must share with an entry to count as perhaps the same."""
_WILD: Final = frozenset("*?[" + UNKNOWN)


class Touch(enum.IntEnum):
    """How surely a path of a call is one that an entry of the setting names."""

    NONE = 0
    NAME = 1
    """Elsewhere, but called the same: a copy, or the same file seen from another root."""
    ABOVE = 2
    """A directory that holds it: touched by what goes down into directories."""
    MAYBE = 3
    """It holds parts that only running the call would tell, and what is known of it fits."""
    OVERLAP = 4
    """A glob that takes in some of what the entry names."""
    INSIDE = 5
    """What the entry names, or something inside."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A path or glob of the setting, absolute, letters of one case."""

    text: str
    inside: Any
    """Matches what the entry names and everything below."""
    prefix: str
    """What stands before the first wildcard."""
    stem: str
    """The same without its last slash: what begins otherwise is not inside."""
    ending: str
    """The last component if it is a name that says something; else empty."""
    named: Any
    """Matches paths that end in it, if it is a glob."""
    workdir: str

    def touched_by(self, target: str) -> Touch:
        """Tell how surely `target`, as an act names it, is what this entry names.

        Example:
            >>> hidden = entries("/eval/hidden/**", "/testbed")[0]
            >>> [hidden.touched_by(path).name for path in ("/eval/hidden/a.py", "/eval", "/ev*/h*/a.py", "/tmp/a.py")]
            ['INSIDE', 'ABOVE', 'OVERLAP', 'NONE']
            >>> [hidden.touched_by(path).name for path in ("/eval/hid\ufffc", "\ufffc")]
            ['MAYBE', 'NONE']
        """
        path = target[:_LONGEST].casefold()
        if _WILD.isdisjoint(path):
            if path.startswith(self.stem) and self.inside.fullmatch(path):
                return Touch.INSIDE
            return self._near(path)
        return self._touched_by_glob(path)

    def _near(self, path: str) -> Touch:
        below = path if path.endswith("/") else path + "/"
        if self.prefix.startswith(below) or (below.startswith(self.prefix) and _shared(below + "**", self.text) >= 0):
            return Touch.ABOVE
        return self._near_by_name(path)

    def _touched_by_glob(self, path: str) -> Touch:
        start = literal_prefix(path)
        if not (start.startswith(self.prefix) or self.prefix.startswith(start)):
            return self._near(path) if UNKNOWN not in path else Touch.NONE
        shared = max(_shared(path, self.text), _shared(path, self.text + "/**"))
        if shared < 0:
            return Touch.ABOVE if UNKNOWN not in path and _shared(path + "/**", self.text) >= 0 else self._near_by_name(path)
        if UNKNOWN not in path:
            from_above = start.endswith("/") and len(start) < len(self.prefix)
            return Touch.ABOVE if from_above and shared - _letters(start) < _ENOUGH else Touch.OVERLAP
        known = path.removeprefix(self.workdir + "/") if self.prefix.startswith(self.workdir) else path
        enough = shared - _letters(path[: len(path) - len(known)]) >= _ENOUGH
        return Touch.MAYBE if enough else Touch.NONE

    def _near_by_name(self, path: str) -> Touch:
        if not self.ending:
            return Touch.NONE
        same = path.endswith("/" + self.ending) if self.named is None else self.named.search(path) is not None
        return Touch.NAME if same else Touch.NONE


def _letters(path: str) -> int:
    return len(path) - path.count("/")


def entries(text: str, workdir: str, home: str = "/root") -> tuple[Entry, ...]:
    """Read a path or glob of a setting, relative to `workdir`; braces give several.

    Example:
        >>> [one.text for one in entries("tests/../{a,b}/*.py", "/app")]
        ['/app/a/*.py', '/app/b/*.py']
    """
    found = []
    for one in braces(text[:_LONGEST]):
        path = absolute(one, workdir, home).casefold()
        ending = posixpath.basename(path)
        stem = ending.partition(".")[0].replace("*", "").strip("_-")
        telling = len(ending) > 4 and len(stem) > 3 and UNKNOWN not in ending and stem not in _COMMON
        is_glob = telling and not _WILD.isdisjoint(ending)
        named = pattern(glob_pattern("/" + ending).removeprefix("(?s)").removesuffix("(?:/.*)?") + "$") if is_glob else None
        prefix = literal_prefix(path)
        place = workdir.rstrip("/").casefold()
        found.append(Entry(path, pattern(glob_pattern(path)), prefix, prefix.rstrip("/"), ending if telling else "", named, place))
    return tuple(found)


_COMMON: Final = frozenset(
    "test tests main init __init__ index run check setup conftest readme makefile metric metrics score result results report data "
    "config build solution cargo package lib mod utils answer answers output labels images features train valid expected input "
    "targets grade grades status verdict reward outcome changelog license notebook state flag key".split()
)
"""Names that so many files bear that a namesake elsewhere says nothing."""


def absolute(path: str, workdir: str, home: str = "/root") -> str:
    """Return a path or glob from `workdir`, `~` filled in, `.` and `..` gone."""
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    joined = posixpath.join(workdir or "/", path)
    return "/" + posixpath.normpath(joined).lstrip("/")


def literal_prefix(path: str) -> str:
    """Return what stands before the first wildcard."""
    for place, letter in enumerate(path):
        if letter in _WILD:
            return path[:place]
    return path


def braces(text: str) -> list[str]:
    """Expand `{a,b}`, nested ones too; too many alternatives leave the rest as it is."""
    done, todo = [], [text]
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
                    return start, place + 1, [text[a + 1 : b] for a, b in zip(bounds, bounds[1:], strict=False)]
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
    return "".join(letter if letter.isalnum() or letter in "_/" or ord(letter) > 127 else f"\\x{ord(letter):02x}" for letter in text)


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
    letters = set()
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
def _shared(left: str, right: str) -> int:
    r"""Return how many letters, written out in both globs, some path that both name has in common; -1 if there is no such path.

    Backwards over both token strings, best[j] for the rest of `right` from j:
    $b_{i,j} = \max$ over letting a wildcard end, a wildcard take a letter, or both going on by one.
    """
    a, b = _tokens(left), _tokens(right)
    if len(a) * len(b) > 40_000:
        return -1
    none = -1
    below = [none] * (len(b) + 1)
    below[len(b)] = 0
    for j in range(len(b) - 1, -1, -1):
        below[j] = below[j + 1] if b[j] in (_SOME, _ALL) else none
    for i in range(len(a) - 1, -1, -1):
        here = a[i]
        wild = here in (_SOME, _ALL)
        row = [none] * (len(b) + 1)
        row[len(b)] = below[len(b)] if wild else none
        for j in range(len(b) - 1, -1, -1):
            there = b[j]
            best = none
            if wild:
                best = below[j]
                if there in (_SOME, _ALL) or here == _ALL or there != "/":
                    best = max(best, row[j + 1])
            if there in (_SOME, _ALL):
                best = max(best, row[j + 1])
                if not wild and (there == _ALL or here != "/"):
                    best = max(best, below[j])
            elif not wild and below[j + 1] > none:
                gain = _common(here, there)
                if gain > none:
                    best = max(best, below[j + 1] + gain)
            row[j] = best
        below = row
    return below[0]


def _common(here: _Token, there: _Token) -> int:
    """Return 1 for one and the same letter, 0 for a wildcard that may be it or a slash, -1 if they differ."""
    if here == there and isinstance(here, str) and here != _ONE:
        return int(here != "/")
    if isinstance(here, str) and isinstance(there, str):
        return 0 if (here == _ONE and there != "/") or (there == _ONE and here != "/") else -1
    if isinstance(here, frozenset) and isinstance(there, frozenset):
        return 0 if here & there else -1
    letters, other = (here, there) if isinstance(here, frozenset) else (there, here)
    return 0 if other == _ONE or other in letters else -1  # type: ignore[operator]
