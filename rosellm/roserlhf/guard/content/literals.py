"""Source code of any language with quotes -> its string literals, joined where code joins them, and the code without comments.

The patterns of tokens use `re`, which is several times faster than RE2 for thousands of small matches: they take possessively what
they take, so that they are linear, too.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from rosellm.roserlhf.guard.content.tables import table

MOST_LITERALS = 4_000
LONGEST_LITERAL = 4_000
_SLASHES = r"(//[^\n\r\u2028\u2029]*+|/\*(?s:.*?)(?:\*/|\Z))"
_HASHES = r"((?<!\S)#[^\n]*+)"
_DASHES = r"(--[^\n]*+|/-(?s:.*?)(?:-/|\Z)|\(\*(?s:.*?)(?:\*\)|\Z))"
_STATEMENTS = r"(--[^\n]*+|/\*(?s:.*?)(?:\*/|\Z))"
_DOUBLE = r'"((?:[^"\\]++|\\(?s:.))*+)"'
_SINGLE = r"'((?:[^'\\\n]++|\\.)*+)'"
_LETTER = r"'((?:[^'\\\n]|\\[^\n]{1,8}))'"
_BACK = r"`((?:[^`\\]++|\\(?s:.))*+)`"
_COMMENTS = {"hash_comments": _HASHES, "dash_comments": _DASHES, "sql_comments": _STATEMENTS}
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u\{?([0-9A-Fa-f]{4,6})\}?|([0-7]{3})|((?s:.)))")
_JOINED = re.compile(r"\s*(?:\.\.|\+\+|<>|[+.&])\s*\Z")
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


class Literal(NamedTuple):
    """One string, as the program would have it."""

    text: str
    start: int
    end: int


def split_source(code: str, extension: str) -> tuple[str, list[Literal]]:
    """Return the code with comments blanked, character for character, and its string literals in order.

    Example:
        >>> text, found = split_source("a('/ev' + 'al') // b('c')", "js")
        >>> text.rstrip(), [one.text for one in found]
        ("a('/ev' + 'al')", ['/eval'])
    """
    blanked: list[str] = []
    found: list[Literal] = []
    last = 0
    adjacent = extension in table("source")["family"]["c"]
    for token in _tokens(extension).finditer(code):
        kind = token.lastindex or 1
        start, end = token.span()
        if kind == 1:
            blanked += (code[last:start], _blank(token[0]))
            last = end
        elif len(found) < MOST_LITERALS:
            text = token[kind][:LONGEST_LITERAL]
            text = _unescaped(text) if "\\" in text else text
            if found and len(found[-1].text) < LONGEST_LITERAL and start - found[-1].end < 40:
                gap = code[found[-1].end : start]
                if _JOINED.match(gap) or (adjacent and not gap.strip()):
                    found[-1] = Literal(found[-1].text + text, found[-1].start, end)
                    continue
            found.append(Literal(text, start, end))
    blanked.append(code[last:])
    return "".join(blanked), found


def without_hashes(code: str) -> str:
    """Return code with the comments blanked that begin with `#`, as in Python and Ruby.

    Example:
        >>> without_hashes("a('#')  # b")
        "a('#')     "
    """
    return split_source(code, "rb")[0] if "#" in code else code


@lru_cache(maxsize=256)
def _tokens(extension: str) -> re.Pattern[str]:
    known = table("source")["lexis"]
    comments = next(
        (words for name, words in _COMMENTS.items() if extension in known[name]),
        _SLASHES,
    )
    single = _LETTER if extension in known["quoted_letters"] else _SINGLE
    return re.compile(f"{comments}|{_DOUBLE}|{single}|{_BACK}")


def _blank(comment: str) -> str:
    return "\n".join([" " * len(line) for line in comment.split("\n")])


def _unescaped(text: str) -> str:
    def letter(found: Any) -> str:
        code = found.group(1) or found.group(2)
        if code:
            number = int(code, 16)
            return chr(number) if number < 0xD800 or 0xDFFF < number < 0x110000 else "\ufffd"
        return chr(int(found.group(3), 8)) if found.group(3) else _PLAIN.get(found.group(4), found.group(4))

    return str(_ESCAPE.sub(letter, text))
