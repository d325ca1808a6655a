"""Regular expressions that run in linear time: every pattern of the guard is compiled here, with RE2."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from re import _parser  # type: ignore[attr-defined]
from string import ascii_letters, digits, whitespace
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ConfigError, missing_extra
from rosellm.roserlhf.guard.expression import Expression

LONGEST_PATTERN = 4_000
_AROUND = 100
"""Characters that may stand around alternatives."""
_MOST_KNOWN, _LONGEST_KNOWN = 1_024, 200
"""Texts whose patterns a set remembers: ways and names of arguments come back with every act."""
_NONE: frozenset[int] = frozenset()
_COUNTED = re.compile(r"(?<!\\)\{\d+,\d+\}")
NOWHERE = r".\A"
"""A pattern that is found in no text."""
MOST_MEMORY = 8 << 20
"""Bytes that RE2 may use for one pattern."""


@cache
def pattern(text: str, *, ignore_case: bool = False) -> Any:
    """Compile a pattern; its methods are those of `re`.

    RE2 has no look-around and no back-references; a pattern that needs them, or that grows beyond its bounds, is refused.

    Args:
        text: a pattern in RE2's syntax.
        ignore_case: whether letters match in both cases.

    Raises:
        ConfigError: RE2 refuses the pattern.
        MissingExtraError: google-re2 is not installed.

    Example:
        >>> pattern(r"(a+)+$").search("a" * 30 + "b") is None
        True
    """
    return _compiled(text, ignore_case)


@lru_cache(maxsize=1024)
def passing(text: str) -> Any:
    """Compile a pattern that words of a call or of a setting are part of, case and all; one that is too long is found nowhere.

    Those words must be `escaped`, or be names. Unlike the guard's own patterns these are forgotten: every call brings others.

    Example:
        >>> passing(r"\\bname\\b").search("a name") is None, passing("a" * LONGEST_PATTERN + "a").search("a" * 9_000) is None
        (False, True)
    """
    return _compiled(text if len(text) <= LONGEST_PATTERN else NOWHERE, False)


def _compiled(text: str, ignore_case: bool) -> Any:
    try:
        import re2  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise missing_extra(error) from error
    options = re2.Options()
    options.max_mem = MOST_MEMORY
    options.log_errors = False
    options.case_sensitive = not ignore_case
    if len(text) > LONGEST_PATTERN:
        raise checks.fail(ConfigError, "pattern", f"have at most {LONGEST_PATTERN} characters", len(text))
    try:
        return Expression(re2.compile(text, options), re2._Anchor.UNANCHORED)
    except re2.error as error:
        raise checks.fail(ConfigError, "pattern", f"be one that RE2 accepts ({_words(error)})", repr(text[:80])) from error


def alternatives(texts: Iterable[str]) -> str:
    """Join patterns to one that finds any of them: as many, from the first, as one pattern may hold.

    Example:
        >>> alternatives(["a", "b" * LONGEST_PATTERN, "c"])
        'a|c'
    """
    kept, room = [], LONGEST_PATTERN - _AROUND
    for text in texts:
        if len(text) < room:
            kept.append(text)
            room -= len(text) + 1
    return "|".join(kept)


def loosened(text: str) -> str:
    """Return a pattern that is found wherever another is found, and in little else: what it counts may stand any number of times.

    An automaton that counts has a state for each number, and most texts would make new ones.

    Example:
        >>> loosened("sums?[^.]{0,60}right")
        'sums?[^.]*right'
    """
    return _COUNTED.sub("*", text)


def may_be_found(text: str, letters: frozenset[str]) -> bool:
    """Tell whether a pattern may be found in a text of these ASCII letters alone; in doubt it may.

    Example:
        >>> [may_be_found(text, frozenset("0123456789+")) for text in ("10 ?/ ?10", r"\\d+|nine", "(a|b)*1", "[^0-9]", "[xy]+1")]
        [False, True, True, True, False]
    """
    if any(sign in text for sign in _OTHER_SYNTAX):
        return True
    try:
        return _fits(_parser.parse(text), letters)
    except (re.error, RecursionError, OverflowError):
        return True


_OTHER_SYNTAX = ("[:", r"\Q", r"\C", r"\p", r"\P")
"""What `re` reads otherwise than RE2, and does not refuse."""
_CLASSES = {"CATEGORY_DIGIT": digits, "CATEGORY_SPACE": whitespace, "CATEGORY_WORD": ascii_letters + digits + "_"}


def _fits(parsed: Iterable[tuple[Any, Any]], letters: frozenset[str]) -> bool:
    return all(_may_stand(str(kind), value, letters) for kind, value in parsed)


def _may_stand(kind: str, value: Any, letters: frozenset[str]) -> bool:
    if kind == "LITERAL":
        return not letters.isdisjoint((chr(value).lower(), chr(value).upper()))
    if kind == "RANGE":
        return any(_may_stand("LITERAL", code, letters) for code in range(value[0], min(value[1], 127) + 1))
    if kind == "CATEGORY":
        return str(value) not in _CLASSES or not letters.isdisjoint(_CLASSES[str(value)])
    if kind == "IN":
        return any(str(one) == "NEGATE" or _may_stand(str(one), of, letters) for one, of in value)
    if kind == "BRANCH":
        return any(_fits(one, letters) for one in value[1])
    if kind == "SUBPATTERN":
        return _fits(value[3], letters)
    if kind in ("MAX_REPEAT", "MIN_REPEAT"):
        return value[0] == 0 or _fits(value[2], letters)
    return True


def _words(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def finder(patterns: Sequence[Any]) -> Callable[[str], bool]:
    """Return what tells whether one of some patterns is found in a text; of short texts it remembers it, since they come back.

    Example:
        >>> finder([pattern("a+b"), pattern("^c")])("xaab")
        True
    """
    known: dict[str, bool] = {}

    def found(text: str) -> bool:
        said = known.get(text)
        if said is None:
            said = any(one.search(text) is not None for one in patterns)
            if len(text) <= _LONGEST_KNOWN:
                if len(known) >= _MOST_KNOWN:
                    known.clear()
                known[text] = said
        return said

    return found


class _Remembered(dict[str, frozenset[int]]):
    """What a scan finds in a text; of short ones, which come back, it is remembered."""

    def __init__(self, scan: Callable[[str], frozenset[int]]) -> None:
        super().__init__()
        self._scan = scan

    def __missing__(self, text: str) -> frozenset[int]:
        found = self._scan(text)
        if len(text) <= _LONGEST_KNOWN:
            if len(self) >= _MOST_KNOWN:
                self.clear()
            self[text] = found
        return found


class PatternSet:
    """Several patterns that are looked for in one pass, by default letters in either case; where it is loose, at least those.

    Example:
        >>> PatternSet(["hid+en", "^/eval"]).found("/eval/Hidden")
        frozenset({0, 1})
    """

    def __init__(self, texts: Sequence[str], *, ignore_case: bool = True, loose: bool = False) -> None:
        for text in texts:
            pattern(text, ignore_case=ignore_case)  # says what is wrong with which
        self._match: Callable[[bytes], list[int]] | None = None
        self.found: Callable[[str], frozenset[int]] = _Remembered(self.scan).__getitem__
        """Returns the same as `scan`; of short texts, which come back, it is remembered."""
        if texts:
            import re2

            options = re2.Options()
            options.max_mem = MOST_MEMORY * (1 + len(texts))
            options.log_errors = False
            options.case_sensitive = not ignore_case
            found = re2.Set.SearchSet(options)
            for text in texts:
                found.Add(loosened(text) if loose else text)
            found.Compile()
            self._match = found._set.Match  # the package's own is asked by way of another function

    def scan(self, text: str) -> frozenset[int]:
        """Return the indices of the patterns that are found in a text."""
        found = self._match(text.encode(errors="replace")) if self._match is not None else None
        return frozenset(found) if found else _NONE


class Sieve:
    """Numbered patterns, letters in either case: looked for in one loose pass, then by itself each that may be there.

    Example:
        >>> sieve = Sieve({4: "sums?[^.]{0,6}right", 7: "hid+en"})
        >>> sieve.found("the sum is right"), sieve.found("the sum is not right")
        (frozenset({4}), frozenset())
    """

    def __init__(self, texts: Mapping[int, str]) -> None:
        self._patterns = [(number, pattern(text, ignore_case=True)) for number, text in texts.items()]
        self._loose = PatternSet(list(texts.values()), loose=True)
        self.found: Callable[[str], frozenset[int]] = _Remembered(self._look_for).__getitem__
        """Returns the numbers of the patterns that are found in a text; of short texts, which come back, it is remembered."""

    def _look_for(self, text: str) -> frozenset[int]:
        patterns = self._patterns
        return frozenset([number for place in self._loose.scan(text) for number, one in [patterns[place]] if one.search(text)])


def first_groups(words: str, text: str) -> Iterable[str]:
    r"""Return the first group of each place in a text that fits a pattern.

    Example:
        >>> list(first_groups(r"port (\d+)", "port 80, port 443"))
        ['80', '443']
    """
    return (match.group(1) for match in pattern(words).finditer(text))
