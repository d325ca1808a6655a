"""Text as a person would see it: invisible characters out, look-alikes as the letters that they pass for, and what was found.

Zero-width characters, bidirectional controls, variation selectors and tag characters carry words that a model reads and a person
does not; letters of other alphabets pass for Latin ones. Rules read the text that is shown, and the words that the tags spell.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

_ZERO_WIDTH = dict.fromkeys(
    [0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E, *range(0x200B, 0x2010), 0xFEFF, 0x3164, 0xFFA0]
)
_ZERO_WIDTH |= dict.fromkeys([*range(0x2060, 0x2066), *range(0x206A, 0x2070), *range(0x180B, 0x180E)])
_BIDI = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
_SELECTORS = dict.fromkeys([*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])
_TAGS = range(0xE0000, 0xE0080)
_LOOKS = {
    # Cyrillic
    "а": "a", "в": "b", "с": "c", "ԁ": "d", "е": "e", "ѐ": "e", "ё": "e", "ғ": "f", "һ": "h", "і": "i", "ї": "i", "ј": "j",
    "к": "k",
    "ӏ": "l", "м": "m", "н": "h", "п": "n", "о": "o", "р": "p", "ԛ": "q", "г": "r", "ѕ": "s", "т": "t", "ц": "u", "ѵ": "v",
    "ԝ": "w",
    "х": "x", "у": "y", "ү": "y", "з": "3", "А": "A", "В": "B", "С": "C", "Е": "E", "Ԍ": "G", "Н": "H", "І": "I", "Ј": "J",
    "К": "K",
    "М": "M", "О": "O", "Р": "P", "Ѕ": "S", "Т": "T", "Ѵ": "V", "Ԝ": "W", "Х": "X", "У": "Y", "Ү": "Y",
    # Greek
    "α": "a", "β": "b", "ϲ": "c", "ε": "e", "η": "n", "ι": "i", "κ": "k", "ν": "v", "ο": "o", "ρ": "p", "τ": "t", "υ": "u",
    "χ": "x",
    "γ": "y", "ω": "w", "ϳ": "j", "Α": "A", "Β": "B", "Ε": "E", "Ζ": "Z", "Η": "H", "Ι": "I", "Κ": "K", "Μ": "M", "Ν": "N",
    "Ο": "O",
    "Ρ": "P", "Τ": "T", "Υ": "Y", "Χ": "X",
    # Latin, Armenian and others that look the same
    "ı": "i", "ȷ": "j", "ɑ": "a", "ɡ": "g", "ɩ": "i", "ʟ": "L", "ƅ": "b", "ǀ": "l", "Ӏ": "I", "օ": "o", "ո": "n", "ս": "u",
    "հ": "h", "ց": "g", "զ": "q", "ᴀ": "a", "ᴄ": "c", "ᴅ": "d", "ᴇ": "e", "ᴊ": "j", "ᴋ": "k", "ᴍ": "m", "ᴏ": "o", "ᴘ": "p",
    "ᴛ": "t",
    "ᴜ": "u", "ᴠ": "v", "ᴡ": "w", "ᴢ": "z", "ꜱ": "s", "ɪ": "i", "ɴ": "n", "ʀ": "r", "ʏ": "y", "ʙ": "b", "ɢ": "g", "ʜ": "h",
    "ø": "o",
    # marks
    "∕": "/", "⁄": "/", "⧸": "/", "／": "/", "╱": "/", "․": ".", "。": ".", "．": ".", "·": ".", "‐": "-", "‑": "-", "‒": "-",
    "–": "-",
    "—": "-", "−": "-", "﹣": "-", "⁓": "~", "∼": "~", "˜": "~", "∗": "*", "＊": "*", "‘": "'", "’": "'", "“": '"', "”": '"',
    "ː": ":",
    "∶": ":", "꞉": ":", "⎯": "-", "＿": "_", "ˍ": "_",
}  # fmt: skip
_FOLDED = str.maketrans(_LOOKS)


@dataclass(frozen=True, slots=True)
class Shown:
    """A text without what hides in it."""

    text: str
    """What a person sees, folded to ASCII where letters look alike."""
    found: tuple[str, ...] = ()
    """Of `zero_width`, `bidi`, `selectors`, `tags`, `confusable`, `compatible`; a word that is all in one alphabet is not
    `confusable`."""
    tags: str = ""
    """The words that tag characters spell."""
    clear: str = ""
    """`text` before letters of other alphabets are folded: what words of other languages are looked for in."""


def shown(text: str) -> Shown:
    """Return what a text shows and what hides in it.

    Example:
        >>> shown("te\\u200bst\\u0455").text, shown("te\\u200bst\\u0455").found
        ('tests', ('zero_width', 'confusable'))
        >>> shown("caf\\u00e9").found
        ()
    """
    if text.isascii():
        return Shown(text, clear=text)
    found: list[str] = []
    tags = ""
    for name, table in (("zero_width", _ZERO_WIDTH), ("bidi", _BIDI), ("selectors", _SELECTORS)):
        removed = text.translate(table)
        if len(removed) != len(text):
            found.append(name)
            text = removed
    if any(letter >= "\U000e0000" for letter in text):
        tags = "".join(chr(ord(letter) - 0xE0000) for letter in text if ord(letter) in _TAGS and ord(letter) > 0xE001)
        text = "".join(letter for letter in text if ord(letter) not in _TAGS)
        found.append("tags")
    if text.isascii():
        return Shown(text, tuple(found), tags, text)
    compatible = unicodedata.normalize("NFKC", text)
    folded = compatible.translate(_FOLDED)
    if _mixed(compatible):
        found.append("confusable")
    if compatible != unicodedata.normalize("NFC", text):
        found.append("compatible")
    return Shown(folded, tuple(found), tags, compatible)


def _mixed(text: str) -> bool:
    """Say whether a word mixes Latin letters with letters of another alphabet that look like Latin ones."""
    for word in text.split():
        if not word.isascii() and any("a" <= letter.lower() <= "z" for letter in word):
            others = [letter for letter in word if letter in _LOOKS and letter.isalpha() and letter not in "ø"]
            if others:
                return True
    return False
