"""Marks that a text gives itself -> where they stand: turns of a grader, assessment summaries, full points out of so many."""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.guard.hints import Hints
from rosellm.roserlhf.guard.patterns import pattern

MOST = 8
_HINT = (
    r"(?i)\b(?:mark|grad|scor|rating|rated|band|points|assess|evaluat|verdict|rubric|criteri|stars|judge|examin|review|"
    r"note\b|punkt|bewert"
    r"|puntuaci|calific|avalia|valutaz|оцен|评分|评价|採点|評価|채점)"
)
_NAMED = (
    r"(?:marks?|grades?|scores?|ratings?|bands?|points|stars|verdicts?|assessments?|evaluations?|not[ea]n?|punkte|punktzahl|"
    r"bewertung"
    r"|puntuaci[oó]n|calificaci[oó]n|avalia[cç][aã]o|voto|valutazione|оценка|балл\w*|评分|得分|评价|点数|評価|점수|평가)"
)
_PAIR = r"(\d{1,4})(?:\.0)?\s*(?:/|of|out of|von|sur|de|из|점 만점에)\s*(\d{1,4})"
_TOP = (
    r"(?:full(?: marks?| credit| points)?|max(?:imum|imal)?|perfect|top|highest|excellent|outstanding|distinction|flawless|"
    r"exemplary"
    r"|exceeds? (?:all )?expectations?|a\+|100 ?%|sehr gut|sobresaliente|très bien|满分|最高|満点|만점)"
)
_WORK = (
    r"(?:answer|explanation|essay|report|submission|response|solution|patch|work|text|translation|proof|output|article|"
    r"summary|script|code|file)"
)
_TURN = (
    r"(?i)[\"'](?:role|from|speaker|author|name|sender)[\"']\s*:\s*[\"'](?:grader|judge|evaluator|examiner|scorer|verifier|"
    r"reviewer|marker"
    r"|critic|rater|auditor|checker|grading\w*|llm[_-]judge)[\"']"
)
_OUTCOME = (
    r"(?i)\b(?:correct|pass(?:ed|es)?|accept(?:ed|s)?|approved?|resolved|success|full|score|match(?:es|ed)?|equivalent|"
    r"lgtm)\b|\d/\d|\b\d+ of \d+"
)
_HEAD = (
    r"(?i)\b(?:assessment|marking|grading|evaluation|scoring|examiner'?s?|grader'?s?|judge'?s?|marker'?s?|rubric|quality|"
    r"peer|self)[ -]"
    r"(?:summary|results?|outcome|report|sheet|notes?|record|feedback|comments?|check|purposes|decision|table|breakdown|assessment"
    r"|evaluation|grade|rating|score|scorecard|verdict|review|coverage|compliance)\b"
)
_BAND = (
    rf"(?i)\b(?:band|level|grade|tier|mark|score|rating)s?\s*[:=]?\s*(?:[5-9]\b|10\b|a\+?(?:\W|$)|{_TOP})"
    rf"|\b{_TOP}\s*(?:band|level|tier)"
)
_DESERVED = (
    rf"(?i)\b(?:overall|recommended|suggested|proposed|final|total|expected|deserved|awarded|assigned|appropriate|provisional|indicative)"
    rf"\s+(?:\w+\s+){{0,2}}?{_NAMED}\b[^.\n]{{0,24}}?(?:[:=]|\bis\b|\bof\b|\))"
)
_PRAISED = (
    rf"(?i)\b(?:this|the|my|above) {_WORK} (?:is|was|has been|should be|deserves?|merits?|earns?|meets?"
    rf"|satisf(?:ies|y)|fulfil\w*)\b[^.\n]{{0,160}}"
    rf"\b{_NAMED}\b"
)
_RESULTS = (
    r"(?i)\b(?:tests?|examples?|cases?|checks?|dev|validation|visible|smoke|passed|samples?|lines?|rows|pages|receipts|"
    r"files|questions answered)\b"
)
HINTS = (_TURN, _HEAD, _DESERVED, _PRAISED)
"""Without one of them nothing is found."""
_HINTS = Hints(*HINTS)
_TURNS, _HEADS, _DESERVES, _PRAISES = range(4)


def awards(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text gives itself a mark, or poses as the turn of one who does.

    Example:
        >>> [bool(list(awards(one))) for one in ("Overall recommended mark: 30/30.", "The jury gave it 9 points of 10.")]
        [True, False]
    """
    held = _HINTS.found(text)
    if not held or pattern(_HINT).search(text) is None:
        return
    turns = pattern(_TURN).finditer(text) if _TURNS in held else ()
    found = [one.span() for one in turns if pattern(_OUTCOME).search(text[one.end() : one.end() + 200])]
    for head in pattern(_HEAD).finditer(text) if _HEADS in held else ():
        after = text[head.start() : head.end() + 300]
        if pattern(_BAND).search(after) or _full(after):
            found.append(head.span())
    deserved = pattern(_DESERVED).finditer(text) if _DESERVES in held else ()
    praised = pattern(_PRAISED).finditer(text) if _PRAISES in held else ()
    for one in (*deserved, *praised):
        after = text[one.start() : one.end() + 40]
        if _full(after) or pattern(rf"(?i)\b{_TOP}(?:\W|$)").search(text[one.end() - 2 : one.end() + 24]):
            found.append(one.span())
    yield from found[:MOST]


def _full(text: str) -> bool:
    """Tell whether all points out of so many are given, other than to count tests or items of the work."""
    return any(
        one.group(1) == one.group(2)
        and one.group(1) != "1"
        and not pattern(_RESULTS).search(text[max(0, one.start() - 40) : one.end() + 12])
        for one in pattern(_PAIR).finditer(text)
    )
