"""Values of a program that is read, not run: Python's own constants, and these stand-ins for what only running would tell.

Constants are themselves (`str`, `bytes`, `int`, `list`, `dict`, …); a string holds `UNKNOWN` where a part of it is not known.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rosellm.roserlhf.guard.act import UNKNOWN

STAR = "\ue000"
"""A star of a glob that only running would fill in; twice: any folders. It leaves as `*`."""
MOST_OPTIONS = 8
"""Values that one name is followed through at once."""
LONGEST_NAME = 160


def names_in(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


@dataclass(slots=True, eq=False)
class Thing:
    """Something known by how it is reached: `os.path.join`, `psutil.Process().environ`; the empty name is not known at all."""

    name: str = ""
    subject: Any = None
    """What it is about: the path of a file, the URL of a request."""


@dataclass(slots=True, eq=False)
class Place:
    """A `pathlib` path."""

    text: str


@dataclass(slots=True, eq=False)
class File:
    """An open file."""

    path: str
    writes: bool = False
    name: str = "open"


@dataclass(slots=True, eq=False)
class Contents:
    """What was read from files, or was computed from it."""

    paths: tuple[str, ...]
    edits: tuple[tuple[str, str], ...] = ()
    """Replacements made in it: (old, new)."""
    name: str = ""
    """Function that read it."""


MOST_EDITS = 16


def put_in(owner: Contents, value: Any) -> None:
    """Note lines that are put among those of a file."""
    for one in value if type(value) in (list, tuple) else (value,):
        if type(one) is str and len(owner.edits) < MOST_EDITS:
            owner.edits = (*owner.edits, ("", one))


@dataclass(slots=True, eq=False)
class Choice:
    """One of several values."""

    options: tuple[Any, ...]


@dataclass(slots=True, eq=False)
class Scope:
    """Names of a module, class or function."""

    names: dict[str, Any]
    parent: Scope | None = None
    shared: set[str] = field(default_factory=set)
    """Names declared `global` or `nonlocal`."""


@dataclass(slots=True, eq=False)
class Closure:
    """A function of the program."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Scope
    defaults: list[Any]
    keyword_defaults: dict[str, Any]
    owner: Klass | None = None


@dataclass(slots=True, eq=False)
class Klass:
    """A class of the program."""

    name: str
    names: dict[str, Any]
    bases: list[Any]


@dataclass(slots=True, eq=False)
class Instance:
    """An object of a class of the program."""

    klass: Klass
    names: dict[str, Any]


@dataclass(slots=True, eq=False)
class Method:
    """An attribute of a value, to be called."""

    owner: Any
    name: str


@dataclass(slots=True, eq=False)
class Partial:
    """`functools.partial`."""

    function: Any
    arguments: list[Any]
    keywords: dict[str, Any]


def choice(values: Sequence[Any]) -> Any:
    """Join values into one: the value itself if they agree."""
    kinds = set(map(type, values))
    if Choice in kinds:
        values = [option for value in values for option in (value.options if type(value) is Choice else (value,))]
        kinds = set(map(type, values))
    elif len(values) == 1:
        return values[0]
    if kinds <= _DISTINCT:
        found = list(dict.fromkeys(values))
        return found[0] if len(found) == 1 else Choice(tuple(found[:MOST_OPTIONS]))
    found = []
    for option in values:
        kind = type(option)
        is_plain = kind in PLAIN
        for one in found:
            if option is one or (is_plain and kind is type(one) and option == one):
                break
        else:
            found.append(option)
        if len(found) >= MOST_OPTIONS:
            break
    return found[0] if len(found) == 1 else Choice(tuple(found))


_DISTINCT = frozenset((str, bytes, int, type(None), Thing, Place, File, Contents, Closure, Klass, Instance, Method, Partial))
"""Kinds whose values can be looked up by and are equal to none of another of these kinds."""


def options(value: Any) -> tuple[Any, ...]:
    """Return the values that a value may be."""
    return value.options if type(value) is Choice else (value,)


def spread(function: Callable[..., Any], *values: Any) -> Any:
    """Apply a function to each combination of options."""
    for value in values:
        if type(value) is Choice:
            break
    else:
        return function(*values)
    combinations = itertools.islice(itertools.product(*map(options, values)), MOST_OPTIONS)
    return choice([function(*each) for each in combinations])


def text(value: Any) -> str:
    """Return a value as text, `UNKNOWN` for what is not known."""
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]
    if kind is Thing and value.name not in _TOLD:
        return UNKNOWN
    match value:
        case str():
            return value
        case bytes() | bytearray():
            return bytes(value).decode("utf-8", "replace")
        case Place():
            return value.text
        case int() | float() | None:
            return _number(value)
        case Thing():
            return value.subject  # type: ignore[no-any-return]
        case Choice():
            return text(value.options[0])
    return UNKNOWN


_TOLD = frozenset(("os.getpid()", "os.DirEntry"))
"""Things whose subject is what they are as text."""


def _number(value: float | None) -> str:
    try:
        return str(value)
    except ValueError:  # an integer of more digits than Python writes
        return UNKNOWN


def texts(value: Any) -> list[str]:
    """Return the texts that a value may be."""
    return list(dict.fromkeys(text(one) for one in options(value)))


def paths(value: Any) -> Iterator[str]:
    """Yield the paths that a value may be; nothing for a value that is no path, such as a file descriptor or a buffer."""
    for one in options(value):
        match one:
            case str() | bytes() | Place():
                yield text(one)
            case File():
                yield one.path
            case Thing(subject=str() | bytes() | Place()):
                yield text(one.subject)
            case Thing():
                yield UNKNOWN
            case Contents():
                yield UNKNOWN
            case list() | tuple():
                for inner in one[:MOST_OPTIONS]:
                    yield from paths(inner)


def known(value: Any) -> bool:
    """Tell whether a value is a constant through and through, up to the parts of strings, and of a size to compute with."""
    kind = type(value)
    return kind in PLAIN or kind is range or (kind in _HOLDING and _through(value))


def is_key(value: Any) -> bool:
    """Tell whether a value may be looked up by."""
    if type(value) is str:
        return True
    if not known(value):
        return False
    try:
        hash(value)
    except TypeError:
        return False
    return True


def sure(value: Any) -> bool:
    """Tell whether a value is a constant, of a size to compute with, and no part of it is unknown."""
    kind = type(value)
    if kind is str:
        return UNKNOWN not in value and STAR not in value
    return kind in PLAIN or kind is range or (kind in _HOLDING and _through(value, whole=True))


PLAIN = frozenset({str, bytes, int, float, bool, type(None), complex, bytearray, slice})
_HOLDING = frozenset({list, tuple, set, dict})
MOST_PARTS = 70_000


def _through(value: Any, whole: bool = False) -> bool:
    """Tell whether all parts of a value are plain; what refers to itself, or is shared too often, is not."""
    todo = [value]
    parts = 0
    while todo:
        one = todo.pop()
        inner = [*one, *one.values()] if type(one) is dict else one
        parts += len(inner) + 1
        if parts > MOST_PARTS:
            return False
        for part in inner:
            kind = type(part)
            if kind in _HOLDING:
                todo.append(part)
            elif kind not in PLAIN or (whole and kind is str and (UNKNOWN in part or STAR in part)):
                return False
    return True


FROM_FILES = frozenset((Choice, Contents, list, tuple))
"""Kinds of values that may be what was read from a file, or hold it."""


def sources(*values: Any) -> tuple[str, ...]:
    """Return the paths of the files that values were computed from."""
    if FROM_FILES.isdisjoint(map(type, values)):
        return ()
    found: list[str] = []
    for value in values:
        kind = type(value)
        if kind is Contents:
            found += value.paths
        elif kind in FROM_FILES:
            for one in value.options if kind is Choice else (value,):
                if type(one) is Contents:
                    found += one.paths
                elif type(one) is list or type(one) is tuple:
                    for part in one[:64]:
                        if type(part) is Contents:
                            found += part.paths
    return tuple(found if len(found) < 2 else list(dict.fromkeys(found))[:MOST_OPTIONS])
