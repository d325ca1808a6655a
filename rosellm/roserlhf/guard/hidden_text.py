"""Text as a person would see it: invisible characters out, look-alikes as the letters that they pass for, and what was found.

Zero-width characters, bidirectional controls, variation selectors and tag characters carry words that a model reads and a person
does not; letters of other alphabets pass for Latin ones. Rules read the text that is shown, and the words that the tags spell.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

_HIDDEN = {
    "zero_width": re.compile(
        "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0]+"
    ),
    "bidi": re.compile("[\u202a-\u202e\u2066-\u2069]+"),
    "selectors": re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]+"),
}
_TAGS = re.compile("[\U000e0000-\U000e007f]+")
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
_LOOKALIKE = re.compile(f"[{''.join(map(re.escape, _LOOKS))}]")


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
    for name, characters in _HIDDEN.items():
        if characters.search(text):
            found.append(name)
            text = characters.sub("", text)
    if _TAGS.search(text):
        found.append("tags")
        tags = "".join(chr(ord(letter) - 0xE0000) for run in _TAGS.findall(text) for letter in run if ord(letter) > 0xE001)
        text = _TAGS.sub("", text)
    if text.isascii():
        return Shown(text, tuple(found), tags, text)
    compatible = unicodedata.normalize("NFKC", text)
    folded = compatible
    if _LOOKALIKE.search(compatible):
        folded = _LOOKALIKE.sub(lambda letter: _LOOKS[letter.group()], compatible)
        if _mixed(compatible):
            found.append("confusable")
    if compatible != unicodedata.normalize("NFC", text):
        found.append("compatible")
    return Shown(folded, tuple(found), tags, compatible)


def readable(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot hold, one character for one, so that places in the text stay.

    Example:
        >>> readable("a\\ud800b")
        'a\ufffdb'
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return re.sub("[\ud800-\udfff]", "\ufffd", text)
    return text


def _mixed(text: str) -> bool:
    """Say whether a word mixes Latin letters with letters of another alphabet that look like Latin ones."""
    for word in text.split():
        if not word.isascii() and any("a" <= letter.lower() <= "z" for letter in word):
            others = [letter for letter in word if letter in _LOOKS and letter.isalpha() and letter not in "ø"]
            if others:
                return True
    return False
