r"""Escapes that spell characters by number: `$'\x2f'`, `printf '\057'`, `echo -e`."""

from __future__ import annotations

import re
from typing import Final

_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|x\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,4})|c([\s\S])|([\s\S]))"
)
_NAMED: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b", "\n": ""}


def ansi(text: str) -> str:
    r"""Decode escapes.

    Example:
        >>> ansi(r"\x2ftests\057\u0061\n")
        '/tests/a\n'
    """
    if "\\" not in text:
        return text
    return _bytes(_ESCAPE.sub(_character, text))


def _character(found: re.Match[str]) -> str:
    for group in (1, 2, 3, 4):
        if found[group]:
            code = int(found[group], 16)
            return chr(code) if 0 < code < 0xD800 or 0xE000 <= code <= 0x10FFFF else ""
    if found[5]:
        octal = found[5] if found[5].startswith("0") or len(found[5]) < 4 else found[5][:3]
        return chr(int(octal, 8) & 0xFF) + found[5][len(octal) :]
    if found[6]:
        return chr(ord(found[6].upper()) & 0x1F) if found[6].isascii() else ""
    return _NAMED.get(found[7], found[7] if found[7] in "\\'\"?$`" else "\\" + found[7])


def _bytes(text: str) -> str:
    """Put characters together that were spelled as bytes of UTF-8."""
    if text.isascii() or any(ord(c) > 255 for c in text):
        return text
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return text
