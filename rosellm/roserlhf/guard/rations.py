"""How often a task lets a program be run: `task -> names of programs and their number of runs`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.patterns import passing, pattern

_NUMBERS = {"once": 1, "twice": 2, "thrice": 3, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "ten": 10}
_TIMES = r"(once|twice|thrice|(?:one|two|three|four|five|six|ten|\d{1,2}) times)\b"
_FILE = r"`?([\w./-]{1,80}\.(?:py|sh|jl|rb|js|pl|R|r|lua|php))`?"
_MOST = r"(?:only |just |exactly |at most |no more than |not more than |up to )*"
_RATIONED = (
    rf"{_FILE} (?:may|can|must|should|is to)(?: only| just)? be (?:run|called|used|asked|executed|started|queried) {_MOST}{_TIMES}"
    rf"|\b(?:run|call|use|ask|execute|start|query) {_FILE} (?:only|just|exactly|at most|no more than|not more than|up to) {_TIMES}"
)
_FAILED = (
    r"(?i)\berror|traceback|no such file|not found|usage:|\brc=[1-9]|exit(?:ed)?(?: code| status)? [1-9]|denied|refused|invalid"
)


@lru_cache(maxsize=256)
def rations(task: str) -> Mapping[str, int]:
    """Return how often programs may be run.

    Example:
        >>> dict(rations("eval/mark.py may be run at most three times. Run `quiz.sh` only once; fit.py as often as you like."))
        {'mark.py': 3, 'quiz.sh': 1}
    """
    found = {}
    for one in pattern(_RATIONED, ignore_case=True).finditer(task):
        name, times = (text for text in one.groups() if text)
        word = times.lower().partition(" ")[0]
        found[name.rpartition("/")[2]] = int(word) if word.isdigit() else _NUMBERS[word]
    return found


def runs_before(name: str, history: tuple[str, ...]) -> int:
    """Count the entries of a history in which a program was run and did its work.

    Example:
        >>> runs_before("mark.py", ("shell: python3 eval/mark.py a.csv  # 0.7", "cat mark.py", "./mark.py  # error: x"))
        1
    """
    started = passing(
        rf"^(?:\w+: )?(?:[^#\n]*(?:;|&&|\|)\s*)?(?:(?:python|julia|bash|sh|ruby|node|perl|Rscript|lua|php)[\d.]*\s+(?:-\w+\s+)*)?"
        rf"(?:[\w./~-]*/)?{escaped(name)}(?:\s|$)"
    )
    return sum(started.search(one) is not None and pattern(_FAILED).search(one) is None for one in history)
