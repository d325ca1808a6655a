"""What `sed` makes of a known text, where its script only substitutes and transliterates; of other scripts the text stays."""

from __future__ import annotations

import functools
import re
from typing import Any, Final

from rosellm.roserlhf.errors import ConfigError
from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.shell.escapes import ansi

_LONGEST: Final = 20_000
_SUBSTITUTION: Final = re.compile(
    r"s([^\\\n\w\s])((?:\\[\s\S]|(?!\1)[^\\\n])*)\1((?:\\[\s\S]|(?!\1)[^\\])*)\1([gIiMmpe\d]*)[ \t]*(?=[;\n}]|$)"
)
_TRANSLITERATION: Final = re.compile(
    r"y([^\\\n\w\s])((?:\\[\s\S]|(?!\1)[^\\\n])*)\1((?:\\[\s\S]|(?!\1)[^\\\n])*)\1[ \t]*(?=[;\n}]|$)"
)
_BETWEEN: Final = re.compile(r"[\s;]*")
_ESCAPE: Final = re.compile(r"\\([\s\S])|([(){}+?|])|\[\^?\]?(?:\[:\w+:\]|[^\]])*\]")
_SWAPPED: Final = "(){}+?|"
_NEW: Final = re.compile(r"\\([\s\S])|&")


def edited(text: str, codes: list[str], *, extended: bool = False) -> str:
    """Apply a script.

    Args:
        text: what comes in.
        codes: the parts of the script (`-e`).
        extended: whether its regular expressions are extended ones (`-E`).

    Example:
        >>> edited("c@t-x", ["s/@/a/; y/x/y/"]), edited("ab", [r"s/\\(.\\)\\(.\\)/\\2\\1/"]), edited("a", ["1d"])
        ('cat-y', 'ba', 'a')
    """
    if text == UNKNOWN or len(text) > _LONGEST:
        return text
    for code in codes:
        at = _BETWEEN.match(code).end()  # type: ignore[union-attr]
        while at < len(code):
            if (found := _SUBSTITUTION.match(code, at)) is not None:
                text = _substituted(text, found, extended)
            elif (found := _TRANSLITERATION.match(code, at)) is not None:
                old, new = _plain(found[2], found[1]), _plain(found[3], found[1])
                text = text.translate({ord(a): b for a, b in zip(old, new, strict=False)}) if len(old) == len(new) else text
            else:
                break
            at = _BETWEEN.match(code, found.end()).end()  # type: ignore[union-attr]
    return text if len(text) <= 4 * _LONGEST else UNKNOWN


def _plain(text: str, mark: str) -> str:
    return ansi(text.replace("\\" + mark, mark))


def _substituted(text: str, found: re.Match[str], extended: bool) -> str:
    mark, old, new, flags = found.groups()
    compiled = _compiled(old.replace("\\" + mark, mark) if mark not in ".*[]^$+?(){}|" else old, extended, "i" in flags.lower())
    if compiled is None:
        return text
    new = new.replace("\\" + mark, mark)
    number = int(re.sub(r"\D", "", flags)[:4] or 1)

    def fill(one: Any) -> str:
        return _NEW.sub(lambda part: _filled(one, part), new)

    return "\n".join(_line(line, compiled, fill, number, "g" in flags) for line in text.split("\n"))


def _line(line: str, compiled: Any, fill: Any, number: int, every: bool) -> str:
    parts: list[str] = []
    at = 0
    for count, one in enumerate(compiled.finditer(line), 1):
        if count < number:
            continue
        parts += (line[at : one.start()], fill(one))
        at = one.end()
        if not every:
            break
    return "".join([*parts, line[at:]])


def _filled(one: Any, part: re.Match[str]) -> str:
    letter = part[1]
    if letter is None:
        return str(one.group(0))
    if letter.isdigit():
        try:
            return one.group(int(letter)) or ""
        except (IndexError, ConfigError):
            return ""
    return {"n": "\n", "t": "\t"}.get(letter, "" if letter in "ULEul" else letter)


@functools.lru_cache(256)
def _compiled(old: str, extended: bool, ignore_case: bool) -> Any:
    """Compile a regular expression of `sed`; None if it is none that matches in linear time."""

    def swapped(found: re.Match[str]) -> str:
        if extended:
            return found.group()
        if found[1] is not None:
            return found[1] if found[1] in _SWAPPED else found.group()
        return "\\" + found[2] if found[2] is not None else found.group()

    try:
        return pattern(_ESCAPE.sub(swapped, old), ignore_case=ignore_case)
    except ConfigError:
        return None
