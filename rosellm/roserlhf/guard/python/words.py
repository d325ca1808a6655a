"""Comments and strings with words in them -> `text` acts."""

from __future__ import annotations

import re

from rosellm.roserlhf.guard.python.findings import Findings, short
from rosellm.roserlhf.guard.python.source import STRINGS

MOST = 200
LONGEST = 1500
_WORDS = re.compile(
    r"[^\W\d_]{2}[^\w\s]{0,3}[\s\u00ad\u200b-\u200f\u2060\ufeff]\W{0,3}[^\W\d_]{2}|[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{4}"
)
_PREFIX = re.compile(r"[\"']+")


def add(findings: Findings, text: str) -> None:
    """Add what people and judges may read; comments on adjacent lines are one text.

    Args:
        findings: gets the acts.
        text: what was parsed.
    """
    comment: list[str] = []
    start = end = count = 0
    for found in STRINGS.finditer(text):
        words = found[0]
        is_comment = words[0] == "#"
        if comment and not (is_comment and text[end : found.start()].isspace()):
            count += _add(findings, " ".join(comment), "comment", start, end)
            comment = []
        if is_comment:
            start = start if comment else found.start()
            comment.append(words.lstrip("#! ").rstrip())
            end = found.end()
        elif len(words) > 8:
            quotes = 3 if words[:3] in ('"""', "'''") and len(words) > 6 else 1
            count += _add(findings, words[quotes:-quotes], "literal", *found.span())
        if count >= MOST:
            return
    if comment:
        _add(findings, " ".join(comment), "comment", start, end)


def _add(findings: Findings, words: str, where: str, start: int, end: int) -> bool:
    if not _WORDS.search(words[:LONGEST]):
        return False
    findings.at("text", short(words.strip(), LONGEST), where, (max(0, start - findings.shift), max(0, end - findings.shift)))
    return True
