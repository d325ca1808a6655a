"""Words of a git subcommand -> options, plain words, and the paths behind `--`."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import lru_cache

from rosellm.roserlhf.guard.content.tables import table


@dataclass(frozen=True, slots=True)
class Words:
    """A subcommand's words by what they are."""

    options: tuple[tuple[str, str], ...]
    """(name with its dashes, value or `""`); `-n3` and `-n 3` are the same, `-abc` is three where none takes a value."""
    plain: tuple[str, ...]
    paths: tuple[str, ...]
    """Behind `--`."""
    divided: bool
    """Whether a `--` was there."""

    def has(self, *names: str) -> bool:
        """Say whether one of the options is given."""
        return any(name in names for name, _ in self.options)

    def value(self, *names: str) -> str:
        """Return the last value of an option, `""` if none."""
        return next((value for name, value in reversed(self.options) if name in names and value), "")

    def values(self, *names: str) -> list[str]:
        """Return all values of an option."""
        return [value for name, value in self.options if name in names and value]


_WORD = re.compile(r"""(?:[^ \t\r\n'"\\]+|(?:'[^']*'|"[^"\\]*")[^ \t\r\n'"\\]*)(?:(?:'[^']*'|"[^"\\]*")[^ \t\r\n'"\\]*)*""")
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")


def split_line(line: str) -> list[str]:
    """Split a line as `shlex.split` does, letter by letter only where there are backslashes.

    Raises:
        ValueError: a quotation is not closed, or nothing follows a backslash.

    Example:
        >>> split_line("log -n3 'a  b'c ''")
        ['log', '-n3', 'a  bc', '']
    """
    words: list[str] = []
    end = 0
    for found in _WORD.finditer(line):
        if line[end : found.start()].strip(" \t\r\n"):
            return shlex.split(line)
        word, end = found.group(), found.end()
        words.append(_QUOTED.sub(r"\1\2", word) if "'" in word or '"' in word else word)
    return shlex.split(line) if line[end:].strip(" \t\r\n") else words


def words_of(command: str, args: list[str]) -> Words:
    """Sort the words behind a subcommand.

    Example:
        >>> words_of("log", ["-n3", "--all", "-S", "x", "main", "--", "a.py"])
        ... # doctest: +NORMALIZE_WHITESPACE
        Words(options=(('-n', '3'), ('--all', ''), ('-S', 'x')), plain=('main',), paths=('a.py',), divided=True)
    """
    with_value = _with_value(command)
    options: list[tuple[str, str]] = []
    plain: list[str] = []
    place = 0
    while place < len(args):
        word = args[place]
        place += 1
        if word == "--":
            return Words(tuple(options), tuple(plain), tuple(args[place:]), True)
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            if not equals and name in with_value and place < len(args):
                value = args[place]
                place += 1
            options.append((name, value))
        elif word.startswith("-") and len(word) > 1:
            place = _short(word, args, place, with_value, options)
        else:
            plain.append(word)
    return Words(tuple(options), tuple(plain), (), False)


def _short(word: str, args: list[str], place: int, with_value: frozenset[str], options: list[tuple[str, str]]) -> int:
    """Take a word of short options apart; return the place of the next word."""
    if word[1:].isdigit():
        options.append(("-n", word[1:]))
        return place
    for at, letter in enumerate(word[1:], start=1):
        name = "-" + letter
        if name in with_value:
            value = word[at + 1 :]
            if not value and place < len(args):
                value = args[place]
                place += 1
            options.append((name, value))
            return place
        options.append((name, ""))
    return place


@lru_cache(maxsize=256)
def _with_value(command: str) -> frozenset[str]:
    known = table("git").get(command, {})
    if not isinstance(known, dict):
        return frozenset()
    return _with_value(known["like"]) if "like" in known else frozenset(known.get("with_value", "").split())
