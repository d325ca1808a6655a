"""What readers look for first in a text: several patterns in one pass over it, once for each text.

A reader without its hints finds nothing, and in most texts most readers find nothing. Hints are loose (`patterns.loosened`): where
one is found, its reader looks again. They stand in small groups: one automaton for all of them would have too many states, and most
texts would make new ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from threading import Lock

from rosellm.roserlhf.guard.expression import Found
from rosellm.roserlhf.guard.needed import needed
from rosellm.roserlhf.guard.patterns import LONGEST_PATTERN, PatternSet, pattern

_MOST_TEXTS = 16
"""Texts of which it is remembered what they hold: those of one call."""
_MOST_CHARACTERS = 4_096


def with_blanks(words: str) -> str:
    r"""Return a pattern of `re` for RE2: of what is ASCII `\s` takes in less there.

    Example:
        >>> with_blanks(r"a\s*b")
        'a[\\s\\v\\x1c-\\x1f]*b'
    """
    return words.replace(r"\s", r"[\s\v\x1c-\x1f]")


_BEYOND = re.compile("[^\0-\x7f]+")
LETTER, BLANK, SIGN, _ODD = "_", "\f", "\1", "\2"
"""What stands for letters, blanks and other signs beyond ASCII, and for those that none can stand for."""
_FOLDED = "\u017f\u212a\u0130\u0131"
"""They are also found as letters of ASCII, in either case."""


class _StandIns(dict[int, str]):
    """For each character beyond ASCII one of ASCII of its kind; a bounded number of them is remembered."""

    def __missing__(self, place: int) -> str:
        letter = chr(place)
        found = (
            _ODD if letter in _FOLDED or letter.isdecimal() else LETTER if letter.isalnum() else BLANK if letter.isspace() else SIGN
        )
        if len(self) >= _MOST_CHARACTERS:
            self.clear()
        self[place] = found
        return found


_STAND_INS = _StandIns()


@lru_cache(_MOST_TEXTS)
def in_ascii(text: str) -> str | None:
    r"""Return a text, place by place, in which RE2 finds what `re` finds in the given one, and perhaps more; None if there is none.

    Patterns may not name letters beyond ASCII, nor what stands for them here among what they leave out: `[^_]`.

    Example:
        >>> in_ascii("caf\u00e9\u2003\u2192 1"), in_ascii("\u0661"), in_ascii("a\xa0b") == "a\fb"
        ('caf_\x0c\x01 1', None, True)
    """
    if text.isascii():
        return text
    found = _BEYOND.sub(_stand_ins, text)
    return found if found.count(_ODD) == text.count(_ODD) else None


def _stand_ins(found: re.Match[str]) -> str:
    return found[0].translate(_STAND_INS)


def first(words: re.Pattern[str], text: str) -> re.Match[str] | Found | None:
    """Return where an expression without look-around is found first, as `re` does; RE2 looks for it, which is faster in long texts.

    What it leaves out is bound as for `in_ascii`.

    Example:
        >>> first(re.compile(r"\\bse\\w+"), "\\u00e9sel sel").span(), first(re.compile("a_b"), "a\\u00e9b a_b").span()
        ((5, 8), (4, 7))
    """
    same = in_ascii(text)
    if same is None:
        return words.search(text)
    found: Found | None = pattern(with_blanks(words.pattern)).search(same)
    if found is None or text.isascii() or text[found.start() : found.end()].isascii():
        return found
    return words.search(text)


class Hints:
    """A group of patterns.

    Example:
        >>> group = Hints()
        >>> recalls = group.add("by heart", ignore_case=True)
        >>> recalls in group.found("I know it By Heart."), recalls in group.found("by part")
        (True, False)
    """

    def __init__(self, *words: str) -> None:
        self._words = list(words)
        self._made: tuple[PatternSet, dict[str, frozenset[int]]] | None = None
        """What finds them, and what it found last."""
        self._lock = Lock()

    def add(self, words: str, *, ignore_case: bool = False) -> int:
        """Take in a pattern and return its number; those that the group began with are counted from 0."""
        with self._lock:
            self._words.append(f"(?i){words}" if ignore_case else words)
            self._made = None
            return len(self._words) - 1

    def found(self, text: str) -> frozenset[int]:
        """Return the numbers of all patterns that may be found in a text."""
        finds, known = self._made or self._make()
        held = known.get(text)
        if held is None:
            held = finds.scan(text)
            if len(known) >= _MOST_TEXTS:
                known.clear()
            known[text] = held
        return held

    def _make(self) -> tuple[PatternSet, dict[str, frozenset[int]]]:
        with self._lock:
            made: tuple[PatternSet, dict[str, frozenset[int]]] = PatternSet(self._words, ignore_case=False, loose=True), {}
            self._made = made
            return made

    def may_hold(self, text: str, number: int) -> bool:
        """Tell whether a text may hold what `re` finds by the same words: its letters may go beyond those of ASCII.

        Example:
            >>> group = Hints(r"is\\s+known")
            >>> group.may_hold("is  known", 0), group.may_hold("is so", 0), group.may_hold("is\\u2003known", 0)
            (True, False, True)
            >>> group.may_hold("\\u00fcber", 0)
            False
        """
        same = in_ascii(text)
        return same is None or number in self.found(same)


class FirstLook:
    """What several readers need, looked for at once in a text that all of them are given: most need not look themselves.

    Example:
        >>> look = FirstLook({1: [r"by heart\\b"], 2: [r"\\bsums? of [0-9]+", "total"]})
        >>> look.held("I know it By Heart."), look.held("the sum of 3"), look.held("nothing of it")
        (1, 2, 0)
    """

    def __init__(self, readers: Mapping[int, Iterable[str]]) -> None:
        """Take for each reader, a bit, the patterns of which it must find one."""
        self._needs = {reader: tuple(patterns) for reader, patterns in readers.items()}
        self._known: dict[str, int] = {}

    def held(self, text: str) -> int:
        """Return the bits of the readers that may find something in a text."""
        held = self._known.get(text)
        if held is None:
            finds, readers = self._made
            held = 0
            for place in finds.scan(text):
                held |= readers[place]
            if len(self._known) >= _MOST_TEXTS:
                self._known.clear()
            self._known[text] = held
        return held

    @cached_property
    def _made(self) -> tuple[PatternSet, tuple[int, ...]]:
        """What finds the words, and which reader needs those of each pattern."""
        words = [(reader, some) for reader, patterns in self._needs.items() for some in _joined(patterns)]
        return PatternSet([some for _, some in words], ignore_case=False), tuple(reader for reader, _ in words)


def _joined(patterns: Iterable[str]) -> Iterator[str]:
    """Yield patterns of what must stand in a text in which one of some patterns is found, each as long as it may be."""
    found: set[str] = set()
    for one in patterns:
        words = needed(one)
        if words is None:
            yield ""
            return
        found |= words
    some: list[str] = []
    room = 0
    for word in sorted(found):
        if len(word) >= room:
            if some:
                yield f"(?i){'|'.join(some)}"
            room, some = LONGEST_PATTERN - len("(?i)"), []
        some.append(word)
        room -= len(word) + 1
    yield f"(?i){'|'.join(some)}"


WRITTEN = Hints()
"""Of the readers of whole files that look for one thing each."""
