"""Remarks in code of any language that speak of whoever checks or measures it: `code -> text acts`, detail `remark`."""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.hints import WRITTEN
from rosellm.roserlhf.guard.patterns import pattern

MOST_REMARKS = 24
LONGEST = 400
_BEGINS = r"(?:^|[\s;{}()])(?://+|/\*+|#+|--|;;+|%+|\(\*|<!--|\*)[ \t]+"
_REMARK = rf"{_BEGINS}([^\n]{{8,{LONGEST}}})"
_REMARK_OF_ANY_LENGTH = rf"{_BEGINS}([^\n]{{8}}[^\n]*)"
"""The same where no line is longer, which is faster."""
_SPEAKS = (
    r"(?i)\b(harness|check\w*|grad(?:er|ers|ing)|judges?|verif\w+|evaluat\w+|scor(?:er|ing|ed)|score\.\w+"
    r"|testers?|tests?|suite|bench\w*|"
    r"eval|timer|timed|clock|metric|auditors?|smoke|runner|reviewer|counted|uncounted|measured|noticed?"
    r"|threshold|tolerance|seeds?)\b"
)
_SPEAKING = WRITTEN.add(_SPEAKS)


def acts_of_remarks(code: str) -> Iterator[Act]:
    """Yield the remarks.

    Example:
        >>> [a.target for a in acts_of_remarks("int f(); // the judge reads one line\\nint g(); // fast path\\n")]
        ['the judge reads one line']
    """
    if _SPEAKING not in WRITTEN.found(code):
        return
    count = 0
    is_short = max(map(len, code.split("\n"))) <= LONGEST
    for found in pattern(_REMARK_OF_ANY_LENGTH if is_short else _REMARK).finditer(code):
        if pattern(_SPEAKS).search(found.group(1)):
            yield Act("text", found.group(1).strip(" */"), "remark", span=found.span(1))
            count += 1
            if count >= MOST_REMARKS:
                return
