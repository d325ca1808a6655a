"""Source code of any language with quotes -> its string literals, joined where code joins them, and the code without comments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rosellm.roserlhf.guard.content.tables import table
from rosellm.roserlhf.guard.patterns import pattern

MOST_LITERALS = 4_000
LONGEST_LITERAL = 4_000
_SLASHES = r"(?s)(//[^\n]*|/\*.*?(?:\*/|\z))"
_HASHES = r"(?s)((?:^|\s)#[^\n]*)"
_DASHES = r"(?s)(--[^\n]*|/-.*?(?:-/|\z)|\(\*.*?(?:\*\)|\z))"
_DOUBLE = r'"((?:[^"\\]|\\.)*)"'
_SINGLE = r"'((?:[^'\\\n]|\\.)*)'"
_LETTER = r"'((?:[^'\\\n]|\\[^\n]{1,8}))'"
_BACK = r"`((?:[^`\\]|\\.)*)`"
_ESCAPE = r"\\(?:x([0-9A-Fa-f]{2})|u\{?([0-9A-Fa-f]{4,6})\}?|([0-7]{3})|(.))"
_JOINED = r"^\s*(?:[+.&]|\.\.|\+\+|<>)\s*$"
_ADJACENT = r"^\s*$"
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


@dataclass(frozen=True, slots=True)
class Literal:
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
        if token.group(1) is not None:
            blanked += (code[last : token.start()], _blank(token.group(0)))
            last = token.end()
        elif len(found) < MOST_LITERALS:
            text = next((one for one in token.groups()[1:] if one is not None), "")[:LONGEST_LITERAL]
            text = _unescaped(text) if "\\" in text else text
            gap = code[found[-1].end : token.start()] if found and token.start() - found[-1].end < 40 else "x"
            if (
                found
                and len(found[-1].text) < LONGEST_LITERAL
                and (pattern(_JOINED).search(gap) or (adjacent and pattern(_ADJACENT).search(gap)))
            ):
                found[-1] = Literal(found[-1].text + text, found[-1].start, token.end())
            else:
                found.append(Literal(text, token.start(), token.end()))
    blanked.append(code[last:])
    return "".join(blanked), found


def _tokens(extension: str) -> Any:
    known = table("source")["lexis"]
    comments = _HASHES if extension in known["hash_comments"] else _DASHES if extension in known["dash_comments"] else _SLASHES
    single = _LETTER if extension in known["quoted_letters"] else _SINGLE
    return pattern(f"{comments}|{_DOUBLE}|{single}|{_BACK}")


def _blank(comment: str) -> str:
    return "".join("\n" if letter == "\n" else " " for letter in comment)


def _unescaped(text: str) -> str:
    def letter(found: Any) -> str:
        code = found.group(1) or found.group(2)
        if code:
            number = int(code, 16)
            return chr(number) if number < 0xD800 or 0xDFFF < number < 0x110000 else "\ufffd"
        return chr(int(found.group(3), 8)) if found.group(3) else _PLAIN.get(found.group(4), found.group(4))

    return str(pattern(_ESCAPE).sub(letter, text))
