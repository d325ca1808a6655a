"""Texts that are not known for certain: a value is its alternatives; what only running would tell is `UNKNOWN`."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable

from rosellm.roserlhf.guard.act import UNKNOWN

Value = tuple[str, ...]
"""Alternatives, at least one; a plain text has one."""

NOTHING: Value = ("",)
ANYTHING: Value = (UNKNOWN,)
BLANKS = " \t\n"
MOST = 64
"""Alternatives that are kept; further ones become one `UNKNOWN`."""
LONGEST = 100_000
"""Characters of a computed text; a longer one is cut and ends in `UNKNOWN`, so that doubling does not fill the memory."""


def names(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


def one_of(texts: Iterable[str]) -> Value:
    """Return the value whose alternatives are these texts, each once."""
    found = tuple(dict.fromkeys(texts))
    if not found:
        return NOTHING
    return found if len(found) <= MOST else (*found[: MOST - 1], UNKNOWN)


def joined(parts: list[Value]) -> Value:
    """Concatenate.

    Parts with equally many alternatives vary together (`$f ${f%.in}.out`), others independently.

    Example:
        >>> joined([("/a", "/b"), ("/",), ("1", "2")]), joined([("x", "y"), ("1", "2", "3")])
        (('/a/1', '/b/2'), ('x1', 'x2', 'x3', 'y1', 'y2', 'y3'))
    """
    if len(parts) == 1:
        return parts[0]
    if sum(map(len, parts)) == len(parts):  # none has alternatives, as nearly always
        return (short("".join([part[0] for part in parts])),)
    found: Value = NOTHING
    for part in parts:
        if len(part) == 1:
            found = tuple(a + part[0] for a in found)
        elif len(found) in (1, len(part)):
            found = tuple(a + b for a, b in zip(itertools.cycle(found), part, strict=False))
        else:
            found = one_of(a + b for a, b in itertools.product(found, part[: MOST // len(found) + 1]))
    return tuple(short(text) for text in found)


def split(text: str, separators: str = BLANKS) -> list[str]:
    """Split a text into fields as the shell does with these separators in `IFS`: blanks in a row separate once.

    Example:
        >>> split(" a  b"), split("a,,b , c", ", "), split("a b", "")
        (['a', 'b'], ['a', '', 'b', 'c'], ['a b'])
    """
    if separators == BLANKS:
        return text.split()
    blanks = "".join(one for one in separators if one.isspace())
    found = _separator(separators, blanks).split(text.strip(blanks) if blanks else text) if separators else [text]
    return found if found[-1] else found[:-1]


@functools.lru_cache(64)
def _separator(separators: str, blanks: str) -> re.Pattern[str]:
    marks = "".join(one for one in separators if one not in blanks)
    around = f"[{re.escape(blanks)}]" if blanks else "(?!)"
    return re.compile(f"{around}*[{re.escape(marks)}]{around}*|{around}+" if marks else f"{around}+")


def short(text: str) -> str:
    """Cut a text that has grown too long."""
    return text if len(text) <= LONGEST else text[:LONGEST] + UNKNOWN


def mapped(change: Callable[[str], str], value: Value) -> Value:
    """Apply a function to every alternative."""
    return (change(value[0]),) if len(value) == 1 else one_of(map(change, value))


def known(value: Value | None) -> bool:
    """Tell whether every alternative is known wholly."""
    return value is not None and not any(UNKNOWN in text for text in value)
