"""Calls that say nothing but a number or a few plain words -> their acts at once, without history, scene and pieces.

What the readers would find by all their patterns is known beforehand where none of the words stands there that they look for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from rosellm.roserlhf.guard import looks
from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content import prose
from rosellm.roserlhf.guard.content.answer import several
from rosellm.roserlhf.guard.content.spoken import acts_of_words
from rosellm.roserlhf.guard.intents import admits
from rosellm.roserlhf.guard.patterns import PatternSet
from rosellm.roserlhf.guard.pieces import MAIN_NAMES, REMARKS
from rosellm.roserlhf.guard.tool_names import family_of, role_of

LONGEST_NUMBER = 1_000
LONGEST_WORDS = 200
_SIGNS = str.maketrans("", "", " ,.'?!-+*()")
"""Signs that may stand among plain words."""


def acts_of_plain_words(tool: str, arguments: Any, history: Sequence[str] = ()) -> tuple[Act, ...] | None:
    """Return the acts of a call whose one argument is a number, a sum or plain words; None of any other.

    No history changes them, but that the agent has said of an answer how it came by it: then it is read in full.

    Example:
        >>> from rosellm.roserlhf.guard.reading import read_call
        >>> for call in (("calculator", {"expression": "3*12"}), ("search_shop", {"item": "red lamps"})):
        ...     assert acts_of_plain_words(*call) == read_call(*call).acts
        >>> acts_of_plain_words("shell", {"command": "3*12"}) is None
        True
    """
    if not isinstance(arguments, Mapping) or len(arguments) != 1:
        return None
    ((name, text),) = arguments.items()
    if not (isinstance(name, str) and isinstance(text, str)):
        return None
    language, handed_in = _taken_as(tool, name)
    if not language or not (_is_number(text) or _is_plain(text)):
        return None
    if handed_in and (any(several(text)) or admits(history)):
        return None
    return (Act("text", text, "", name, (0, len(text)), (language,)),)


@lru_cache(maxsize=4096)  # tools and the names of their arguments come back with every call
def _taken_as(tool: str, name: str) -> tuple[str, bool]:
    """Return as what the words of an argument are read, nothing if they may be more than words, and whether they are handed in."""
    family = family_of(tool)
    if family == "search" and not role_of(name) and name.rpartition(".")[2] not in MAIN_NAMES:
        family = ""  # it searches for something by name, not the web by a query
    if not name.isascii() or family not in ("", "submit") or role_of(name) not in ("", "prose"):
        return "", False
    return "answer" if family and name.rpartition(".")[2] not in REMARKS else "prose", bool(family)


NUMERIC = "0123456789+-*()."
"""What numbers and sums without blanks are made of."""


def is_sum(tool: str, arguments: Mapping[str, Any], history: Sequence[str]) -> bool:
    """Tell at once of some calls that all they say is one number or sum without blanks: `acts_of_plain_words` is but its words.

    Example:
        >>> is_sum("calculator", {"expression": "3*12"}, ()), is_sum("submit", {"answer": "(1)(2)(3)"}, ())
        (True, False)
    """
    if len(arguments) != 1:
        return False
    ((name, text),) = arguments.items()
    if not isinstance(text, str) or not text or text.strip(NUMERIC) or "--" in text or len(text) > LONGEST_NUMBER:
        return False
    if not isinstance(name, str):
        return False
    language, handed_in = _taken_as(tool, name)
    if not language or not handed_in:
        return bool(language)
    return (text.isdigit() or "*" in text or "+" in text) and not admits(history)


def _is_number(text: str) -> bool:
    return len(text) <= LONGEST_NUMBER and looks.without_words(text)


def _is_plain(text: str) -> bool:
    """Tell whether a text is words in which no reader could find anything else."""
    if len(text) > LONGEST_WORDS or "--" in text or not text.isascii() or not text.translate(_SIGNS).isalnum():
        return False
    return not _told().found(text) and not any(acts_of_words(text, is_code=False, is_prose=True))


@cache
def _told() -> PatternSet:
    """Return the patterns by which a text is taken for more than words: code, an address to a judge, something encoded."""
    return PatternSet([*looks.patterns(), *prose.hints()])
