"""What must stand in a text for a pattern to be found there: `pattern -> words, one of which stands wherever it is found`.

Many patterns are found in few texts. Words have no parts that may go on for a line, so that one automaton looks for those of all
patterns at once and has few states: what it does not find, none of the patterns need be asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from re import _parser  # type: ignore[attr-defined]
from typing import Any

_MOST = 24
"""Words that are made of what may stand side by side."""
_MOST_LETTERS = 10
_OTHER_SYNTAX = re.compile(r"\[:\^?\w+:\]|\\[QCpP]")
"""What `re` reads otherwise than RE2, and does not refuse."""
_BOUNDARY = "\0"
_LONGEST_BOUND = 4
"""Letters of a word that is looked for as one that stands by itself; a longer one is rare enough."""
_PLAIN = " ()="
"""Signs that stand in most texts of code."""
_COMMON = frozenset(("test", "tests", "time", "now"))
_NOTHING = frozenset([""])
_Words = frozenset[str]


def needed(text: str) -> frozenset[str] | None:
    r"""Return patterns of RE2 for words, one of which stands, in either case, wherever a pattern is found; None in doubt.

    Example:
        >>> sorted(needed(r"\bsums?\b[^.]{0,60}\bis (?:right|true)|\bnay\b")), needed(r"\w+")
        (['\\bnay\\b', 'is\\ right', 'is\\ true'], None)
    """
    if _OTHER_SYNTAX.search(text):
        return None
    try:
        parsed = _parser.parse(text)
    except (re.error, RecursionError, OverflowError):
        return None
    found: set[str] = set()
    for words in _alternatives(parsed):
        if words is None:
            return None
        found |= words
    return frozenset(_spelled(word) for word in found if not any(other in word for other in found if other != word))


def _spelled(word: str) -> str:
    bound = len(word.strip(_BOUNDARY)) <= _LONGEST_BOUND
    return "".join(re.escape(one) if one != _BOUNDARY else r"\b" if bound else "" for one in word)


def _alternatives(parsed: Iterable[tuple[Any, Any]]) -> Iterator[_Words | None]:
    """Yield of each alternative of a pattern the rarest words that it cannot do without."""
    parts = list(parsed)
    places = [place for place, (kind, _) in enumerate(parts) if str(kind) != "AT"]
    kind: Any
    value: Any
    kind, value = parts[places[0]] if len(places) == 1 else (None, None)
    if str(kind) == "SUBPATTERN":
        kind, value = "BRANCH", (None, [value[3]])
    if str(kind) == "BRANCH":
        for one in value[1]:
            yield from _alternatives([*parts[: places[0]], *one, *parts[places[0] + 1 :]])
    else:
        whole, rarest = _sequence(parts)
        yield _rarer(rarest, whole)


def _sequence(parsed: Iterable[tuple[Any, Any]]) -> tuple[_Words | None, _Words | None]:
    """Return all that a sequence may be, None if that is more than a few words, and the rarest words that it cannot do without."""
    parts = [(str(kind), value) for kind, value in parsed]
    run, rarest, whole = _NOTHING, None, True
    for place, (kind, value) in enumerate(parts):
        words, needs = _part(
            kind,
            value,
            [one for one in parts[:place][-1:] if _bounds(one)],
            [one for one in parts[place + 1 :][:1] if _bounds(one)],
        )
        rarest = _rarer(rarest, needs)
        if words is not None and len(run) * len(words) <= _MOST:
            run = frozenset((before + after).replace(2 * _BOUNDARY, _BOUNDARY) for before in run for after in words)
        else:
            rarest, whole = _rarer(rarest, run), False
            run = _NOTHING if words is None else words
    return (run, rarest) if whole else (None, _rarer(rarest, run))


def _bounds(part: tuple[Any, Any]) -> bool:
    return str(part[0]) == "AT" and str(part[1]) == "AT_BOUNDARY"


def _part(kind: str, value: Any, before: list[Any], after: list[Any]) -> tuple[_Words | None, _Words | None]:
    """Return the same of a part, between the boundaries beside it."""
    if kind == "LITERAL":
        return frozenset([_small(value)]), None
    if kind == "IN":
        return _letters(value), None
    if kind == "AT":
        return (frozenset([_BOUNDARY]) if _bounds((kind, value)) else _NOTHING), None
    if kind == "SUBPATTERN":
        return _sequence([*before, *value[3], *after])
    if kind == "BRANCH":
        return _branches([_sequence([*before, *one, *after]) for one in value[1]])
    if kind in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most, of = value
        words, needs = _sequence(of)
        if least:
            return (words, needs) if most == 1 else (None, _rarer(needs, words))
        return (words | _NOTHING, None) if most == 1 and words is not None else (None, None)
    return None, None


def _small(code: int) -> str:
    """Return a letter of ASCII in its small form; RE2 finds others in either case by whichever is given."""
    return chr(code).lower() if code < 128 else chr(code)


def _letters(value: Iterable[tuple[Any, Any]]) -> _Words | None:
    """Return the letters of a class, None if there are more than a few."""
    found: set[str] = set()
    for kind, of in value:
        if str(kind) not in ("LITERAL", "RANGE"):
            return None
        first, last = (of, of) if str(kind) == "LITERAL" else of
        if last - first >= _MOST_LETTERS:
            return None
        found |= set(map(_small, range(first, last + 1)))
    return frozenset(found) if len(found) <= _MOST_LETTERS else None


def _branches(each: list[tuple[_Words | None, _Words | None]]) -> tuple[_Words | None, _Words | None]:
    wholes = [words for words, _ in each if words is not None]
    if len(wholes) == len(each) and sum(map(len, wholes)) <= _MOST:
        return frozenset().union(*wholes), None
    needs = [known for words, rarest in each if (known := _rarer(rarest, words)) is not None]
    return None, frozenset().union(*needs) if len(needs) == len(each) else None


def _rarer(known: _Words | None, words: _Words | None) -> _Words | None:
    """Return those of two sets that stand in fewer texts; None if each has something that stands in most."""
    if words is None or not all(map(_tells, words)):
        return known
    return words if known is None or _often(words) < _often(known) else known


def _tells(word: str) -> bool:
    bare = word.replace(_BOUNDARY, "").strip()
    return len(bare) > 1 or bare == "^"


def _often(words: _Words) -> float:
    """Say roughly how often one of some words stands in a text."""
    return sum(0.3 ** sum(map(_share, word)) * (10 if word.strip(_BOUNDARY) in _COMMON else 1) for word in words)


def _share(letter: str) -> float:
    return 0.5 if letter == _BOUNDARY else 1.0 if letter.isalnum() or letter in _PLAIN else 1.5
