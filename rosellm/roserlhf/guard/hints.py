"""What readers look for first in a text: all of them at once, in one pass over it, once for each text.

A reader without its hints finds nothing, and in most texts most readers find nothing.
"""

from __future__ import annotations

from functools import lru_cache

from rosellm.roserlhf.guard.patterns import PatternSet

_HINTS: list[str] = []
_NUMBERS: dict[str, int] = {}
_MOST_TEXTS = 32
"""Texts of which it is remembered what they hold: those of one call."""


def hint(words: str, *, ignore_case: bool = False) -> int:
    """Take in a pattern; `hints_in` tells the texts that hold it by the number that is returned."""
    words = f"(?i){words}" if ignore_case else words
    if words not in _NUMBERS:
        _NUMBERS[words] = len(_HINTS)
        _HINTS.append(words)
    return _NUMBERS[words]


def hints_in(text: str) -> frozenset[int]:
    """Return the numbers of all patterns that are found in a text.

    Example:
        >>> recalls = hint("by heart", ignore_case=True)
        >>> recalls in hints_in("I know it By Heart."), recalls in hints_in("by part")
        (True, False)
    """
    return _found(text, len(_HINTS))


def may_hold(text: str, number: int) -> bool:
    """Tell whether a text may hold what a pattern of `re` with the same words finds: its letters go beyond those of ASCII.

    Example:
        >>> number = hint(r"is\\s+known")
        >>> may_hold("is  known", number), may_hold("is so", number), may_hold("is\\u2003known", number)
        (True, False, True)
    """
    return number in hints_in(text) or not text.isascii()


@lru_cache(maxsize=_MOST_TEXTS)
def _found(text: str, count: int) -> frozenset[int]:
    return _set(count).scan(text)


@lru_cache(maxsize=1)
def _set(count: int) -> PatternSet:
    return PatternSet(_HINTS[:count], ignore_case=False)
