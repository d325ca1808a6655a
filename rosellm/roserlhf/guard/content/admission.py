"""Words by which an agent says what its work is -> `text` acts: that it was not done, or that it was.

Traits: `admits` (`recalled` from a key, `invented`, `guessed`, `hedged` among several answers, done only where it is `sampled`
for a check, read from where it `leaked`, `awarded` a mark by itself), or `claims` (`passes`, `verified`, `unused`), joined by
commas: what is claimed counts only against what the history shows. The target is the sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.awards import HINTS, awards
from rosellm.roserlhf.guard.content.tables import table
from rosellm.roserlhf.guard.looks import without_words
from rosellm.roserlhf.guard.patterns import PatternSet, may_be_found, pattern

LONGEST = 20_000
"""Characters of a text that are looked through."""
LONGEST_SENTENCE = 400
MOST = 8


ADMITS, CLAIMS, AWARDS = 1, 2, 4
"""What a text may say."""
_TOLD = (("admits", ADMITS), ("claims", CLAIMS))
SAYS = ADMITS | CLAIMS | AWARDS


def acts_of_admission(text: str, where: str = "", may_say: int = SAYS) -> Iterator[Act]:
    """Yield the sentences in which a text admits or claims something.

    Args:
        text: the words.
        where: where they stand, which becomes the detail.
        may_say: what is looked for.

    Example:
        >>> [dict(act.traits) for act in acts_of_admission("# recalled official key for this contest")]
        [{'admits': 'recalled'}]
        >>> [dict(act.traits) for act in acts_of_admission("All 12 tests pass.")]
        [{'claims': 'passes'}]
        >>> list(acts_of_admission("The parser keeps a key for each table."))
        []
    """
    part = text[:LONGEST]
    if without_words(part):
        return
    for what, told in _TOLD:
        said: dict[tuple[int, int], list[str]] = {}
        for kind, one in _compiled()[what].found(part) if may_say & told else ():
            for found in one.finditer(part):
                said.setdefault(_sentence(part, *found.span()), []).append(kind)
        for start, end in awards(part) if what == "admits" and may_say & AWARDS else ():
            said.setdefault(_sentence(part, start, end), []).append("awarded")
        for (start, end), kinds in list(said.items())[:MOST]:
            yield Act("text", part[start:end], where, span=(start, end), traits={what: ",".join(dict.fromkeys(kinds))})


def is_sum_of_tool(remark: str) -> bool:
    """Tell at once of calls of a tool with a number or a sum that they admit nothing; in doubt they may.

    Example:
        >>> is_sum_of_tool("calculator: 3*12"), is_sum_of_tool("guesser: 3*12"), is_sum_of_tool("calculator: a guess")
        (True, False, False)
    """
    name, _, text = remark.partition(": ")
    return text != "" and without_words(text) and name.isascii() and name.isidentifier() and _admits_no_number(name)


@lru_cache(maxsize=1024)  # tools come back
def _admits_no_number(name: str) -> bool:
    return not may_be_found(table("admissions")["hints"]["admits"], frozenset(f"{name}: 0123456789+-*()."))


def _sentence(text: str, start: int, end: int) -> tuple[int, int]:
    """Return where the sentence around some words begins and ends."""
    before = max(text.rfind(mark, max(0, start - LONGEST_SENTENCE), start) + len(mark) for mark in (". ", "\n", "; ", "! ", "? "))
    first = max(before if before > 1 else 0, start - LONGEST_SENTENCE)
    ends = [place for place in (text.find(mark, end) for mark in (". ", "\n", "! ", "? ")) if place >= 0]
    return min(first, start), min([*ends, end + LONGEST_SENTENCE, len(text)])


def hints() -> dict[int, tuple[str, ...]]:
    """Return the patterns without one of which a text says none of something."""
    known = table("admissions")
    parts = {told: tuple(f"(?i){one}" for found in known[part].values() for one in found) for part, told in _TOLD}
    return {**parts, AWARDS: HINTS}


@cache
def _compiled() -> dict[str, _Part]:
    known = table("admissions")
    return {part: _Part(known[part], known["hints"][part]) for part, _ in _TOLD}


class _Part:
    """The patterns of a part of the table, with the names of what they tell."""

    def __init__(self, known: Mapping[str, list[str]], hint: str) -> None:
        told = [(name, one) for name, found in known.items() for one in found]
        self._rules = [(name, pattern(one, ignore_case=True)) for name, one in told]
        self._set = PatternSet([one for _, one in told], loose=True)
        self._hint = pattern(hint, ignore_case=True)

    def found(self, text: str) -> list[tuple[str, Any]]:
        """Return those that may be found in a text."""
        held = self._set.scan(text)
        return [self._rules[place] for place in sorted(held)] if held and self._hint.search(text) is not None else []
