"""What one check of the doctor found: `Outcome`, and the exit code that several of them give."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Verdict: TypeAlias = Literal["passed", "failed", "warning", "info", "skipped", "not built yet"]
"""`skipped`: could not be made, the evidence says why; it is no pass. `info`: worth knowing, nothing to do."""


@dataclass(frozen=True)
class Outcome:
    """One check."""

    name: str
    """What the check asks for."""
    verdict: Verdict
    evidence: str
    """Numbers and places, and the tolerance they were held against; why, if it was skipped."""
    cause: str = ""
    """What most likely made it fail."""
    fix: str = ""
    """What to do about it."""
    lines: tuple[str, ...] = ()
    """Anything to be read as it is, such as a printed trajectory; may hold text of a model."""

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        return {**asdict(self), "lines": list(self.lines)}


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """1 if a check failed, else 0; warnings and what was skipped do not fail.

    Example:
        >>> from rosellm.roserlhf.audit.diagnosis import Outcome, exit_code
        >>> exit_code([Outcome("ledger", "passed", "5 steps"), Outcome("leftovers", "info", "1 file")])
        0
    """
    return int(any(outcome.verdict == "failed" for outcome in outcomes))
