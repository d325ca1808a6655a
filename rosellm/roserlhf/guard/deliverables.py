"""What a task asks the agent to hand in: `task -> paths and names of files that it is to write`."""

from __future__ import annotations

from functools import lru_cache

from rosellm.roserlhf.guard.clauses import clauses
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.phrases import file_names, is_plausible, paths_in

_MAKES = (
    r"write|produce|create|save|put|store|leave|deliver|submit|hand in|generate|output|export|emit|place|record|dump|document|"
    r"implement|complete|fill in|finish|develop|prepare|draft|compose|provide|author|rewrite|repair|fix|optimi[sz]e|make|"
    r"build|edit|"
    r"update|extend|change|adapt|configure|set up|tune|commit"
)
_PUTS = (
    r"enter|collect|translate|summari[sz]e|recover|extract|convert|predict|compute|merge|answer|restore|list|report|log|"
    r"print|give"
)
_ASKED = (
    r"(?:^|^\W*for (?:each|every|all)\b[^,;]{0,80}? |[,(]|\b(?:you|and|then|please|also|or|to|agent))\s*"
    r"(?:(?:must|should|may|can|are to|need to|have to|shall|will)\s+)?"
)
_NOT_MADE = (
    r"\b(?:from|of|with|on|by|using|after|against|for|than|like|see|read|reads|given|per|in|at|that|which|whose|reading|run|runs|"
    r"imports?|over|under|below|inside|when|where|because|via|through|is|are|does|on top of)(?: the| a| each| every)?\s*$"
)
_BY_OTHERS = (
    r"\b(?:harness|grader|judge|verifier|checker|scripts?|runner|tester|server|platform|ci|evaluator|scorer|process|"
    r"service)\b[^,;]*"
    r"\b(?:will|can|must|shall|would|to|may)\b"
)
_APART = r"\b(?:that|which|from|with|after|reading|answering|pass|passes|including|equal|match|matches|reach|reaches|serves?)\b"
"""Words after which other things are spoken of than what is made."""
_FILLED_IN = r"<[\w-]+>|\{\w+\}"
"""Stands in the name of a file for what differs: `reviews/PR-<n>.json`."""
_IS_JUDGED = r"^[`'\")]* (?:pass(?:es)?|succeeds?|(?:turns? |go(?:es)? |be )?green|run through)\b"
"""Words after a test that is to pass, not to be made."""
_TOLD_CONTENT = (
    r"^[`'\")]* (?:holds?|contains?|takes|gets|is to (?:hold|contain)|(?:must|should) (?:hold|contain)) "
    r"(?:what|whatever|all that) "
    r"(?:it|that|they|your?|the (?:program|script))\b"
)
"""Words after a file of what the agent's own program puts into it: `out.txt holds what it prints`."""
_KEPT_UP = r"^[`'\")]*(?: \([^()]*\))? (?:with|of) (?:what|whatever|all|every|each)\b"
"""Words after a file that is to be kept up: `keep log.csv (time,what) with what you saw`."""


@lru_cache(maxsize=256)
def deliverables(task: str) -> tuple[str, ...]:
    """Return the files that a task tells the agent to write.

    Example:
        >>> deliverables("Train on /data/a.csv and write /out/submission.csv. bench.py writes score.json. Answer into notes.md.")
        ('/out/submission.csv', 'notes.md')
        >>> deliverables("Translate src/de/*.txt into out/en/*.txt. Do not write to /logs/x.txt.")
        ('out/en/*.txt',)
    """
    found: list[str] = []
    for clause in clauses(task):
        if not clause.forbids:
            found += _made(clause.text)
    return tuple(dict.fromkeys(found))


def _made(text: str) -> list[str]:
    small = text.lower().replace("hand in", "produce")
    found = []
    for path in (*(one for one in paths_in(text) if is_plausible(one, frozenset(), text)), *file_names(text)):
        place = text.find(path)
        if pattern(_IS_JUDGED).search(small[place + len(path) :]):
            continue
        kept_up = pattern(r"\b(?:keep|maintain)$").search(small[:place].rstrip("`'\"( ")) is not None
        if pattern(_KEPT_UP if kept_up else _TOLD_CONTENT).search(small[place + len(path) :]):
            found.append(pattern(_FILLED_IN).sub("*", path))
            continue
        before = small[:place].rstrip("`'\"( ")
        if pattern(_BY_OTHERS).search(before):
            continue
        makes = _last(rf"{_ASKED}(?:{_MAKES})\b", before)
        puts = _last(rf"{_ASKED}(?:{_PUTS}|{_MAKES})\b", before)
        into = pattern(r"\b(?:into|to|as|called|named)(?: the file| a file)?$").search(before) is not None or (
            pattern(r"\b(?:put|save|store|leave|document|place|record)\b[^,;]{0,60}\b(?:in|at|under)$").search(before) is not None
        )
        between = before[makes:] if makes >= 0 else ""
        direct = (
            bool(between) and len(between) < 120 and not pattern(_NOT_MADE).search(before) and not pattern(_APART).search(between)
        )
        if direct or (into and puts >= 0):
            found.append(pattern(_FILLED_IN).sub("*", path))
    return found


def _last(words: str, text: str) -> int:
    places = [match.start() for match in pattern(words).finditer(text)]
    return places[-1] if places else -1
