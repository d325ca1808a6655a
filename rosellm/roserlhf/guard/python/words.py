"""Comments and strings with words in them -> `text` acts."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.python.findings import Findings, short
from rosellm.roserlhf.guard.python.source import STRINGS, UNKNOWN_NAME

MOST = 200
LONGEST = 1500
_WORDS = re.compile(
    r"[^\W\d_]{2}[^\w\s]{0,3}[\s\u00ad\u200b-\u200f\u2060\ufeff]\W{0,3}[^\W\d_]{2}|"
    r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{4}"
)
_ESCAPED = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{|[0-7]{2,3})")
"""An escape where a letter could stand."""


def add(findings: Findings, text: str) -> None:
    """Add what people and judges may read; comments on adjacent lines are one text, and so are adjacent strings.

    Args:
        findings: gets the acts.
        text: what was parsed.
    """
    comment: list[str] = []
    pieces: list[str] = []
    start = end = first = last = count = 0
    for found in STRINGS.finditer(text):
        at, stop = found.span()
        words = text[at:stop]
        is_comment = words[0] == "#"
        if comment and not (is_comment and text[end:at].isspace()):
            count += _add(findings, " ".join(comment), "comment", start, end)
            comment = []
        if pieces and (is_comment or text[last:at].strip(" \t\n\\frbuFRBU")):
            count += _add(findings, "".join(pieces), "literal", first, last)
            pieces = []
        if is_comment:
            start = start if comment else at
            comment.append(words.lstrip("#! ").rstrip())
            end = stop
        elif "\\" in words and _ESCAPED.search(words) and not text[at - 1 : at].isalnum():
            count += _unescape(findings, words, (at, stop))
        elif stop - at > 8:
            quotes = 3 if words[:3] in ('"""', "'''") else 1
            first = first if pieces else at
            pieces.append(words[quotes:-quotes])
            last = stop
        if count >= MOST:
            return
    if pieces:
        _add(findings, "".join(pieces), "literal", first, last)
    if comment:
        _add(findings, " ".join(comment), "comment", start, end)


def add_folded(findings: Findings, folded: Sequence[tuple[tuple[int, int], str | bytes]]) -> None:
    """Add what the strings say that are computed."""
    for (start, end), value in folded[:MOST]:
        if isinstance(value, str):
            _add(findings, value, "literal", start + findings.shift, end + findings.shift)


def add_code(findings: Findings, code: str, node: ast.AST | None) -> None:
    """Add code as it reads without a disguise: judges look at it; it is neither a path nor words, which have acts of their own."""
    if code:
        findings.add("decode", f"{len(code)} characters of code", "respelled", node, text=code)


def _unescape(findings: Findings, words: str, span: tuple[int, int]) -> bool:
    """Add a literal as it reads without escapes."""
    try:
        value = ast.literal_eval(words)
    except (ValueError, SyntaxError):
        return False
    findings.fold_at(span, value)
    return False


def holds_words(text: str) -> bool:
    """Tell whether a text has several words in it, which in ASCII stand apart.

    Example:
        >>> holds_words("two words"), holds_words("data/one.csv")
        (True, False)
    """
    return (len(text.split(None, 1)) == 2 or not text.isascii()) and _WORDS.search(text) is not None


def _add(findings: Findings, words: str, where: str, start: int, end: int) -> bool:
    if not holds_words(words[:LONGEST]):
        return False
    span = (max(0, start - findings.shift), max(0, end - findings.shift))
    findings.at("text", short(words.strip().replace(UNKNOWN_NAME, UNKNOWN), LONGEST), where, span)
    return True
