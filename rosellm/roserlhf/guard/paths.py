"""Does a path or glob of a call touch a path or glob of the setting? Globs against globs, unknown parts and all, in linear time."""

from __future__ import annotations

import enum
import posixpath
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.globs import WILD, braces, glob_pattern, literal_prefix, shared_letters
from rosellm.roserlhf.guard.patterns import pattern

_LONGEST: Final = 1024
_LONGEST_ENTRY: Final = 900
"""Of a setting; each letter may take four in a pattern."""
"""Characters of a path that are compared; longer ones than any file system takes are cut."""
_ENOUGH: Final = 4
_ENOUGH_BELOW: Final = 3
"""Known letters that an otherwise unknown path must share with an entry to count as perhaps the same."""


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


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


NONE, NAME, ABOVE, MAYBE, OVERLAP, INSIDE = Touch
"""Them by names of their own: those of a class that enumerates take long to look up."""


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
    within: str
    """What paths inside begin with, a slash put at their end, if the entry names one directory or file; else empty."""
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
        return nearest(target, (self,))

    def near(self, path: str, below: str) -> Touch:
        """Tell how near a path without wildcards is that lies not inside; `below` is the same with a slash at its end."""
        if self.prefix.startswith(below) or (
            below.startswith(self.prefix) and not _is_file(path) and shared_letters(below + "**", self.text) >= 0
        ):
            return ABOVE
        return self._near_by_name(path)

    def holds(self, path: str, below: str) -> bool:
        """Tell whether a path without wildcards lies inside."""
        if self.within:
            return below.startswith(self.within)
        return path.startswith(self.stem) and self.inside.fullmatch(path) is not None

    def touched_by_glob(self, path: str, start: str) -> Touch:
        """Tell how surely a path with wildcards, of which `start` stands before the first, is what this entry names."""
        if not (start.startswith(self.prefix) or self.prefix.startswith(start)):
            return NONE if UNKNOWN in path else self.near(path, path if path.endswith("/") else path + "/")
        shared = shared_letters(path, self.text)
        if not self.text.endswith("/**"):
            shared = max(shared, shared_letters(path, self.text + "/**"))
        if shared < 0:
            above = UNKNOWN not in path and not _is_file(path) and shared_letters(path + "/**", self.text) >= 0
            return ABOVE if above else self._near_by_name(path)
        if UNKNOWN not in path:
            from_above = start.endswith("/") and len(start) < len(self.prefix)
            fewest = _ENOUGH_BELOW if _goes_below(path, self.prefix) else _ENOUGH
            return ABOVE if from_above and shared - _letters(start) < fewest else OVERLAP
        known = path.removeprefix(self.workdir + "/") if self.prefix.startswith(self.workdir) else path
        enough = shared - _letters(path[: len(path) - len(known)]) >= _ENOUGH
        return MAYBE if enough else NONE

    def _near_by_name(self, path: str) -> Touch:
        if not self.ending:
            return NONE
        same = path.endswith("/" + self.ending) if self.named is None else self.named.search(path) is not None
        return NAME if same else NONE


def _goes_below(path: str, prefix: str) -> bool:
    """Tell whether a glob names what lies in a folder, not the folder: so many names, the last with letters of its own."""
    last = path.rpartition("/")[2]
    return path.count("/") >= prefix.count("/") and len(last.strip("*?")) > 3


def nearest(target: str, found: Iterable[Entry]) -> Touch:
    """Tell how surely `target`, as an act names it, is what one of some entries names."""
    path = target[:_LONGEST].casefold()
    if WILD.isdisjoint(path):
        return _nearest_to_path(path, path if path.endswith("/") else path + "/", found)
    return _nearest_to_glob(path, literal_prefix(path), found)


def nearest_by_field(target: str, fields: Mapping[str, Collection[Entry]]) -> dict[str, Touch]:
    """Tell the same of the entries of each field."""
    path = target[:_LONGEST].casefold()
    if WILD.isdisjoint(path):
        below = path if path.endswith("/") else path + "/"
        return {name: _nearest_to_path(path, below, found) if found else NONE for name, found in fields.items()}
    start = literal_prefix(path)
    return {name: _nearest_to_glob(path, start, found) if found else NONE for name, found in fields.items()}


def _nearest_to_path(path: str, below: str, found: Iterable[Entry]) -> Touch:
    best = NONE
    for entry in found:
        if entry.holds(path, below):
            return INSIDE
        if best < ABOVE and (one := entry.near(path, below)) > best:
            best = one
    return best


def _nearest_to_glob(path: str, start: str, found: Iterable[Entry]) -> Touch:
    best = NONE
    for entry in found:
        if (one := entry.touched_by_glob(path, start)) > best:
            best = one
    return best


def _is_file(path: str) -> bool:
    """Tell whether a path ends as files do and directories do not: nothing lies below it."""
    return pattern(r"[^/.][^/]*\.[a-z][a-z0-9]{0,4}$").search(path) is not None and not path.endswith(".d")


def _letters(path: str) -> int:
    return len(path) - path.count("/")


def entries(text: str, workdir: str, home: str = "/root") -> tuple[Entry, ...]:
    """Read a path or glob of a setting, relative to `workdir`; braces give several.

    Example:
        >>> [one.text for one in entries("tests/../{a,b}/*.py", "/app")]
        ['/app/a/*.py', '/app/b/*.py']
    """
    found = []
    for one in braces(pattern(r"<[\w -]{1,24}>").sub("*", text[:_LONGEST])):
        path = absolute(one, workdir, home).casefold()[:_LONGEST_ENTRY]
        ending = posixpath.basename(path)
        stem = ending.partition(".")[0].replace("*", "").strip("_-")
        telling = len(ending) > 4 and len(stem) > 3 and UNKNOWN not in ending and stem not in _COMMON
        is_glob = telling and not WILD.isdisjoint(ending)
        named = pattern(glob_pattern("/" + ending).removeprefix("(?s)").removesuffix("(?:/.*)?") + "$") if is_glob else None
        prefix = literal_prefix(path)
        place = workdir.rstrip("/").casefold()
        bare = path.removesuffix("/**")
        within = bare.rstrip("/") + "/" if bare.rstrip("/") and WILD.isdisjoint(bare) else ""
        inside, stem = pattern(glob_pattern(path)), prefix.rstrip("/")
        found.append(Entry(path, inside, prefix, stem, ending if telling else "", named, within, place))
    return tuple(found)


_COMMON: Final = word_set(
    """
    test tests main init __init__ index run check setup conftest readme makefile metric metrics score result results
    report data config build solution cargo package lib mod utils answer answers output labels images features train
    valid expected input targets grade grades status verdict reward outcome changelog license notebook state flag key
    """
)
"""Names that so many files bear that a namesake elsewhere says nothing."""


def absolute(path: str, workdir: str, home: str = "/root") -> str:
    """Return a path or glob from `workdir`, `~` filled in, `.` and `..` gone."""
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    joined = posixpath.join(workdir or "/", path)
    return "/" + posixpath.normpath(joined).lstrip("/")
