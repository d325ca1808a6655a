"""What one check of a run found: `Outcome`, and the three ways to make one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.run_folder import Row, Run, column, recorded

Verdict: TypeAlias = Literal["passed", "notice", "serious", "not recorded"]
WINDOW = 10
"""Number of last steps that a check about the present state looks at."""


@dataclass(frozen=True)
class Outcome:
    """One check; `problem` and `fix` are empty unless there is something to do."""

    name: str
    """What the check asks for, as a fact: `clip fraction low`."""
    verdict: Verdict
    evidence: str
    """The numbers, and the threshold they were held against."""
    problem: str = ""
    """What is wrong."""
    fix: str = ""
    """What to do about it."""


Check: TypeAlias = Callable[[Run], Outcome]


def missing(name: str, what: str) -> Outcome:
    """Say that a check could not be made."""
    return Outcome(name, "not recorded", f"{what} {units.NOT_RECORDED}")


def judge(name: str, evidence: str, problem: str, fix: str, *, notice: bool = False, serious: bool = False) -> Outcome:
    """Pass, unless one of the two conditions holds."""
    if not notice and not serious:
        return Outcome(name, "passed", evidence)
    return Outcome(name, "serious" if serious else "notice", evidence, problem, fix)


def late(rows: Sequence[Row], *path: str) -> list[float]:
    """Return the recorded values of the last steps."""
    return recorded(column(rows[-WINDOW:], *path))
