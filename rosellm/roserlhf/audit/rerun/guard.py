"""The guard over a stored episode: it decides on the recorded calls once more, and its decisions are held against the events.

Rules and the deterministic judge decide anew. A judge of another kind may answer otherwise today: its verdict is taken from the
record, and so is a failure; what follows from it (rule, evidence, action, dummy result) is made again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rosellm.roserlhf.errors import VerifierError
from rosellm.roserlhf.guard.event import GuardEvent, event_of
from rosellm.roserlhf.guard.guard import Guard
from rosellm.roserlhf.guard.verdict import Case, Judge, Verdict
from rosellm.roserlhf.trajectory import ToolResult

NOTHING = "not suspicious"
"""Decision on a call without an event."""


@dataclass
class RecordedJudge:
    """Answers as the record says; asks `judge`, where there is one, about what the record does not call a failure."""

    judge: Judge | None
    taken: Counter[str]
    """Counts the verdicts that were taken from the record."""
    _expected: list[GuardEvent] = field(default_factory=list)

    def expect(self, results: Sequence[ToolResult]) -> None:
        """Say what the calls of the next action led to."""
        self._expected = [event for result in results if (event := event_of(result)) is not None]

    async def __call__(self, case: Case) -> Verdict:
        """Judge one case."""
        place = next((place for place, event in enumerate(self._expected) if event.tool == case.tool), None)
        recorded = None if place is None else self._expected.pop(place)
        if recorded is not None and recorded.outcome == "failed":
            self.taken["a judge that failed"] += 1
            raise VerifierError(recorded.reason)
        if self.judge is not None:
            return await self.judge(case)
        if recorded is None:
            raise VerifierError("the record has no verdict on this call")
        self.taken["a verdict of a judge that may answer otherwise today"] += 1
        return Verdict(recorded.attempt, recorded.reason, recorded.rule if recorded.attempt else None)


def deciding_again(guard: Guard, *, deterministic: bool, taken: Counter[str]) -> tuple[Guard, RecordedJudge]:
    """Return the guard for a replay, and the judge that must be told what to expect.

    Args:
        guard: of the run.
        deterministic: whether its judge says the same about the same case whenever it is asked.
        taken: counts what is taken from the record instead.
    """
    judge = RecordedJudge(guard.judge if deterministic else None, taken)
    return replace(guard, judge=judge), judge


def decision(result: ToolResult) -> str:
    """Put what the guard decided about a call into text that can be compared; of a failure, not what went wrong."""
    event = event_of(result)
    if event is None:
        return NOTHING
    return replace(event, reason="").decision if event.outcome == "failed" else event.decision
