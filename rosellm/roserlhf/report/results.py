"""What a run achieved and what it cost: success with its interval, tokens, seconds; from the summary, else added up from the steps.

Where there is no summary the second-best source is used and named in a note, so that the page never passes one off as the other.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from rosellm.roserlhf.report.interval import wilson_interval
from rosellm.roserlhf.report.run_folder import Row, Run, column, recorded

Share: TypeAlias = "tuple[float, float, float]"
"""A share with the ends of its 95 % interval."""
STAGES = ("warm_start", "rollout", "learn", "evaluate")


def share_of(share: float | None, count: float | None) -> Share | None:
    """Return a share with its Wilson interval; None where share or count is unknown or impossible."""
    if share is None or count is None or not 0 <= share <= 1 or not 1 <= count < math.inf:
        return None
    return (share, *wilson_interval(share, int(count)))


def held_out(summary: Row | None, when: str, mode: str) -> Share | None:
    """Return the held-out success of the summary, `when` being `success_before` or `success_after`."""
    return share_of(summary.number(when, mode), summary.number(when, "n")) if summary else None


def evaluation(row: Row) -> Share | None:
    """Return the success of an evaluation row, with the recorded interval if it has one."""
    share, low, high = row.number("success"), row.number("low"), row.number("high")
    if share is not None and low is not None and high is not None and 0 <= low <= share <= high <= 1:
        return share, low, high
    return share_of(share, row.number("n"))


def token_totals(run: Run) -> tuple[float | None, float | None, dict[str, float | None], str]:
    """Return sampled, trained and excluded (by reason) tokens, and the note."""
    if run.summary is not None and run.summary.table("tokens"):
        summary = run.summary
        return summary.number("tokens", "sampled"), summary.number("tokens", "trained"), summary.table("tokens", "excluded"), ""
    sampled, trained = recorded(column(run.train, "tokens", "sampled")), recorded(column(run.train, "tokens", "trained"))
    reasons: dict[str, float | None] = {}
    for row in run.train:
        for reason, count in row.table("tokens", "excluded").items():
            reasons[reason] = reasons.get(reason) if count is None else (reasons.get(reason) or 0.0) + count
    note = f"added up over the {len(sampled)} of {len(run.train)} steps that recorded it; no summary"
    return sum(sampled) if sampled else None, sum(trained) if trained else None, reasons, note if run.train else ""


def stage_seconds(run: Run) -> tuple[dict[str, float | None], float | None, str]:
    """Return seconds per stage, their total, and the note."""
    if run.summary is not None and run.summary.table("seconds"):
        stages: dict[str, float | None] = {stage: run.summary.number("seconds", stage) for stage in STAGES}
        return stages, run.summary.number("seconds", "total"), ""
    found = {"warm_start": recorded(column(run.warm_start, "seconds"))}
    found |= {stage: recorded(column(run.train, "seconds", stage)) for stage in STAGES[1:]}
    known = {stage: sum(values) if values else None for stage, values in found.items()}
    measured = [value for value in known.values() if value is not None]
    return known, sum(measured) if measured else None, "added up over the recorded steps; no summary" if measured else ""
