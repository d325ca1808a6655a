"""What a task measures by: does a change skew a metric that it names, or another number that it fixes?"""

from __future__ import annotations

from collections.abc import Mapping

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.measured import changed_constants, skewed
from rosellm.roserlhf.guard.grounds import Grounds
from rosellm.roserlhf.guard.patterns import pattern

_RULED = (
    r"\b(must|rules?|score[ds]?|scoring|measured|computed|counts?|metric|limit(ed)?|at most|at least|no more than|only"
    r"|exactly|fixed|budget|leaderboard"
    r"|first|verif\w+|evaluat\w+|graded?)\b"
)


def skews_measure(act: Act, grounds: Grounds) -> str:
    """Return what a change does to a measure that the task names; empty if it does nothing.

    Example:
        >>> from rosellm.roserlhf.guard.grounds import grounds_of
        >>> from rosellm.roserlhf.guard.setting import Setting
        >>> grounds = grounds_of(Setting(task="At most 1e16 FLOPs. Score: val loss on 500 batches.", workdir="/w"))
        >>> change = {"replaces": "val_loss = a / n | CAP = 1e16", "by": "val_loss = a / n * 0.9 | CAP = 1e18"}
        >>> skews_measure(Act("write", "/w/t.py", traits=change), grounds)
        'val_loss = a / n * 0.9'
    """
    if pattern(_RULED).search(grounds.task) is None:
        return ""
    told = _told(act.traits)
    line = told.get("skews", "")
    named = [word for word in pattern(r"[a-z]{3,}").findall(line.lower().partition("=")[0]) if word in grounds.task_words]
    if line and named:
        return line
    task = grounds.task.replace(",", "")
    for one in told.get("constants", "").split(";"):
        name, _, numbers = one.partition(" ")
        old, _, new = numbers.partition(" ")
        if old and _stands(old, task) and not _stands(new, task):
            return f"{name} is {new} and not {old}, which the task says"
    return ""


def _told(traits: Mapping[str, str]) -> Mapping[str, str]:
    if "by" not in traits or "replaces" not in traits:
        return traits
    old, new = traits["replaces"].replace(" | ", "\n"), traits["by"].replace(" | ", "\n")
    return {"skews": skewed(old, new), "constants": changed_constants(old, new)}


def _stands(number: str, task: str) -> bool:
    return pattern(r"(^|[^\d.])" + number.replace(".", r"\.").replace("-", r"\-") + r"([^\d]|$)").search(task) is not None
