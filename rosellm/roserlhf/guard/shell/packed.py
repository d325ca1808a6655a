"""Texts that perl, ruby, php and node put together (`pack`, `reverse`, `chr`) -> literals; and which literals are printed."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from rosellm.roserlhf.guard.shell.escapes import ansi

LONGEST: Final = 50_000
"""Characters of code in which anything is folded."""
_ROUNDS: Final = 6
_LITERAL: Final = r"""(?:"(?:[^"\\]++|\\[\s\S])*+"|'(?:[^'\\]++|\\[\s\S])*+')"""
_NUMBERS: Final = r"((?:0[xX])?[0-9A-Fa-f]{1,4}(?:\s*,\s*(?:0[xX])?[0-9A-Fa-f]{1,4})*+)"
_ANY: Final = re.compile(
    r"pack|reverse|strrev|decode|64|hex2bin|chr\b|Buffer|fromCharCode|rot13|\bq[qx]?\s*[({\[<|/!]|%[qQx]?[({\[]|=\s*[\"']|"
    r"[\"']\s*[.+]\s*[\"']"
)
_QUOTE: Final = re.compile(
    r"(?<![\w$@%>])(?:qq?|%[qQ]?)\s*+(?:\(([^()]*+)\)|\{([^{}]*+)\}|\[([^\[\]]*+)\]|<([^<>]*+)>|\|([^|]*+)\||!([^!]*+)!|/([^/]*+)/)"
)
_ASSIGNED: Final = re.compile(
    rf"(?:^|[;{{}}\n]|\bmy\b|\bour\b|\bvar\b|\blet\b|\bconst\b)\s*(\$?[A-Za-z_]\w*)\s*=\s*({_LITERAL})\s*(?=[;\n]|$)"
)
_PRINTED: Final = re.compile(
    rf"(?<![\w$.])(?:print|printf|say|puts|echo|p|print_r|console\.log|process\.stdout\.write|STDOUT\.write|\$stdout\.(?:write|puts|print)|io\.write)"
    rf"\s*\(?\s*(?:STDOUT\s+)?({_LITERAL})"
)


@dataclass(slots=True)
class Packed:
    """Code after folding."""

    code: str
    hidden: list[tuple[str, str]] = field(default_factory=list)
    """(how it was hidden, the text) of every payload."""

    @property
    def printed(self) -> list[str]:
        """Literals that the code prints."""
        return [_text(found[1]) for found in _PRINTED.finditer(self.code)]


def unpacked(code: str) -> Packed:
    """Fold what code computes from literals alone into literals.

    Example:
        >>> unpacked("exec(pack('H*', '6c73'), scalar reverse 'a-')").code
        'exec("ls", "-a")'
    """
    found = Packed(code)
    if len(code) > LONGEST or not _ANY.search(code):
        return found
    found.code = _QUOTE.sub(lambda one: quoted(next(text for text in one.groups() if text is not None)), code)
    for _ in range(_ROUNDS):
        before = found.code
        for pattern, how, decode in _FOLDS:
            found.code = pattern.sub(_folding(found, how, decode), found.code)
        found.code = _filled(found.code)
        if found.code == before:
            break
    return found


def _folding(found: Packed, how: str, decode: Callable[..., str]) -> Callable[[re.Match[str]], str]:
    def fold(match: re.Match[str]) -> str:
        if match["kept"] is not None:
            return match["kept"]
        try:
            text = decode(*(one for one in match.groups() if one is not None))
        except (ValueError, binascii.Error, TypeError):
            return match.group()
        if how:
            found.hidden.append((how, text))
        return quoted(text)

    return fold


def quoted(text: str) -> str:
    """Return a text as a literal in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _text(literal: str) -> str:
    """Return the text of a literal."""
    inner = literal[1:-1]
    if literal[0] == "'":
        return re.sub(r"\\(['\\])", r"\1", inner)
    return ansi(inner.replace("\\$", "$").replace("\\@", "@"))


def _filled(code: str) -> str:
    """Put in the values of variables that are given a literal, once."""
    values: dict[str, str] = {}
    for one in _ASSIGNED.finditer(code):
        values[one[1]] = "" if one[1] in values else one[2]
    values = {name: value for name, value in values.items() if value and len(values) <= 64}
    if not values:
        return code
    names = "|".join(re.escape(name) for name in sorted(values, key=len, reverse=True))
    use = re.compile(rf"({_LITERAL})|(?<![\w$.])({names})(?!\w|\s*=[^=~])")

    def fill(found: re.Match[str]) -> str:
        return found[1] if found[1] is not None else values[found[2]]

    return use.sub(fill, code)


def _bytes(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _base64(text: str) -> str:
    return _bytes(base64.b64decode(re.sub(r"[^A-Za-z0-9+/]", "", text.replace("-", "+").replace("_", "/")) + "=="))


def _of_base64(literal: str) -> str:
    return _base64(_text(literal))


def _packed(form: str, literal: str) -> str:
    kind, text = _text(form)[:1], _text(literal)
    if kind in "Hh":
        return _bytes(bytes.fromhex(text if kind == "H" else "".join(text[at : at + 2][::-1] for at in range(0, len(text), 2))))
    if kind == "m":
        return _base64(text)
    if kind in "aA":
        return text
    raise ValueError


def _numbers(numbers: str) -> str:
    values = [
        int(one, 16 if one.strip().lower().startswith("0x") or not one.strip().isdigit() else 10) for one in numbers.split(",")
    ]
    return _bytes(bytes(values)) if max(values) < 256 else "".join(map(chr, values))


def _buffer(literal: str, how: str = "'utf8'") -> str:
    text, how = _text(literal), _text(how).lower()
    return _bytes(bytes.fromhex(text)) if how == "hex" else _base64(text) if how.startswith("base64") else text


_FOLDS: Final[tuple[tuple[re.Pattern[str], str, Callable[..., str]], ...]] = tuple(
    (re.compile(rf"{pattern}|(?P<kept>{_LITERAL})"), how, decode)
    for pattern, how, decode in (
        (rf"\bpack\s*\(\s*({_LITERAL})\s*(?:,|=>)\s*({_LITERAL})\s*\)", "hex", _packed),
        (rf"\bpack\s+({_LITERAL})\s*(?:,|=>)\s*({_LITERAL})", "hex", _packed),
        (rf"\bpack\s*\(\s*{_LITERAL}\s*,\s*\(?\s*{_NUMBERS}\s*\)?\s*\)", "character codes", _numbers),
        (rf"\bpack\s+{_LITERAL}\s*,\s*\(?\s*{_NUMBERS}\s*\)?", "character codes", _numbers),
        (rf"\[\s*({_LITERAL})\s*\]\s*\.\s*pack\s*\(?\s*({_LITERAL})\s*\)?", "hex", lambda text, form: _packed(form, text)),
        (rf"\[\s*{_NUMBERS}\s*\]\s*\.\s*pack\s*\(?\s*{_LITERAL}\s*\)?", "character codes", _numbers),
        (rf"\[\s*{_NUMBERS}\s*\]\s*\.\s*map\s*\(?\s*&:chr\s*\)?\s*\.\s*join", "character codes", _numbers),
        (
            rf"\bjoin\s*\(?\s*{_LITERAL}\s*,\s*map\s*\(?\s*\{{?\s*chr\s*(?:\(?\$_\)?)?\s*\}}?\s*,?\s*\(?\s*{_NUMBERS}\s*\)*",
            "character codes",
            _numbers,
        ),
        (rf"\bString\s*\.\s*from(?:CharCode|CodePoint)\s*\(\s*{_NUMBERS}\s*\)", "character codes", _numbers),
        (r"\bchr\s*\(\s*(0[xX][0-9A-Fa-f]+|\d+)\s*\)", "", _numbers),
        (r"\bchr\s+(\d+)", "", _numbers),
        (r"\b(\d+)\.chr\b(?:\s*\(\s*\))?", "", _numbers),
        (
            rf"\b(?:MIME::Base64::|Base64\s*[.:]+\s*)?(?:decode_base64|base64_decode|(?:strict_|urlsafe_)?decode64|atob)\s*(?:\(\s*({_LITERAL})\s*\)|\s({_LITERAL}))",
            "base64",
            _of_base64,
        ),
        (rf"\bhex2bin\s*\(\s*({_LITERAL})\s*\)", "hex", lambda text: _bytes(bytes.fromhex(_text(text)))),
        (
            rf"\bBuffer\s*\.\s*from\s*\(\s*({_LITERAL})\s*(?:,\s*({_LITERAL})\s*)?\)(?:\s*\.\s*toString\s*\(\s*(?:{_LITERAL})?\s*\))?",
            "base64 or hex",
            _buffer,
        ),
        (rf"\bstr_rot13\s*\(\s*({_LITERAL})\s*\)", "rot13", lambda text: codecs.encode(_text(text), "rot13")),
        (rf"\bstrrev\s*\(\s*({_LITERAL})\s*\)", "reversed", lambda text: _text(text)[::-1]),
        (rf"\bscalar\s*\(\s*reverse\s*\(?\s*({_LITERAL})\s*\)?\s*\)", "reversed", lambda text: _text(text)[::-1]),
        (rf"\b(?:scalar\s+)?reverse\s*(?:\(\s*({_LITERAL})\s*\)|({_LITERAL}))", "reversed", lambda text: _text(text)[::-1]),
        (rf"({_LITERAL})\s*\.\s*reverse\b(?:\s*\(\s*\))?", "reversed", lambda text: _text(text)[::-1]),
        (rf"({_LITERAL})\s*[.+]\s*({_LITERAL})", "", lambda left, right: _text(left) + _text(right)),
    )
)
