"""Warnings with their fix: `Run -> one Outcome per check`.

A check whose numbers were not recorded says so instead of passing. Thresholds stand in the checks and are printed with the
evidence, so that a reader can disagree with them.
"""

from __future__ import annotations

from rosellm.roserlhf.report import checks_of_learning as learning
from rosellm.roserlhf.report import checks_of_records as records
from rosellm.roserlhf.report.outcome import Check, Outcome
from rosellm.roserlhf.report.run_folder import Run

CHECKS: tuple[Check, ...] = (
    records.completion,
    records.readable,
    records.finite,
    records.accounting,
    records.scoring,
    records.truncation,
    learning.improvement,
    learning.signal,
    learning.trained_something,
    learning.first_ratio,
    learning.divergence,
    learning.clipping,
    learning.saturation,
    learning.gradient,
)


def check_run(run: Run) -> list[Outcome]:
    """Make every check, in reading order."""
    return [check(run) for check in CHECKS]
