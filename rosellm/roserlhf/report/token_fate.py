"""What became of an attempt's tokens: `ledger entries -> Fate`, and never more than the ledger says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rosellm.roserlhf.guard.policy import MASKED
from rosellm.roserlhf.guard.token_spans import event_spans
from rosellm.roserlhf.record.exclusion import STALE
from rosellm.roserlhf.report import units
from rosellm.roserlhf.store import EventLog, LedgerEntry
from rosellm.roserlhf.trajectory import Trajectory

OWN_REASONS = (STALE, MASKED)
"""Why a token may be left out by what its record says of it alone; the first that applies counts."""


def own_reason(stale: bool, blocked: bool) -> frozenset[str]:
    """Name the reasons that a record gives for leaving a token out."""
    return frozenset(reason for reason, given in zip(OWN_REASONS, (stale, blocked), strict=True) if given)


def blocked_places(trajectory: Trajectory) -> dict[int, frozenset[int]]:
    """Return by turn the places in its action of the tokens of calls that a guard blocked."""
    found: dict[int, set[int]] = {}
    for span in event_spans(trajectory):
        if span.event.blocked:
            found.setdefault(span.turn, set()).update(range(span.start, span.end))
    return {turn: frozenset(places) for turn, places in found.items()}


@dataclass(frozen=True)
class Fate:
    """The last event of an attempt."""

    entry: LedgerEntry

    @property
    def words(self) -> str:
        """Say it in words."""
        entry = self.entry
        if entry.state == "trained":
            excluded = ", ".join(f"{units.number(count)} {reason}" for reason, count in entry.excluded.items())
            return f"trained at step {entry.step}, {units.number(entry.trained)} tokens" + (
                f"; excluded: {excluded}" if excluded else ""
            )
        return entry.state + (f": {entry.reason}" if entry.reason else "")

    @property
    def advantage(self) -> float | tuple[float, ...] | None:
        """The advantage of the rollout, or of each of its turns in order, where the ledger keeps it."""
        detail = self.entry.detail
        value = detail.get("advantage") if isinstance(detail, Mapping) else None
        if isinstance(value, (list, tuple)) and value and all(map(_is_number, value)):
            return tuple(map(float, value))
        return float(value) if isinstance(value, (int, float)) and _is_number(value) else None

    def of_token(self, own: frozenset[str]) -> tuple[bool, str | None]:
        """Return (trained, reason it was excluded) of one sampled token.

        The ledger counts excluded tokens without their places; both are empty where a token cannot be told from the others.

        Args:
            own: reasons that its record gives for leaving it out, see `own_reason`.
        """
        entry = self.entry
        if entry.state == "rejected":
            return False, entry.reason
        if entry.state != "trained":
            return False, None
        if not entry.excluded:
            return True, None
        if not entry.trained:
            return False, ", ".join(entry.excluded)
        booked = {STALE if "stale" in reason else reason: reason for reason in entry.excluded}
        if not booked.keys() <= {*OWN_REASONS}:
            return False, None
        reason = next((booked[name] for name in OWN_REASONS if name in own and name in booked), None)
        return (True, None) if reason is None else (False, reason)


class HeldOut:
    """The fate of every evaluation episode, which no ledger has."""

    words = "held out, never trained"
    advantage = None

    def of_token(self, own: frozenset[str]) -> tuple[bool, str | None]:
        """No token is trained, for the same reason."""
        return False, self.words


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def fates(log: EventLog, attempts: Sequence[str], steps: Iterable[int]) -> dict[str, Fate]:
    """Read the last event of each attempt; all steps are read only if an attempt did not end in its own step."""
    wanted, last = set(attempts), dict[str, LedgerEntry]()
    for step in sorted(steps):
        last |= _last(log.ledger(step=step), wanted)
    if any(attempt not in last or last[attempt].state not in ("trained", "rejected") for attempt in wanted):
        last |= _last(log.ledger(), wanted)
    return {attempt: Fate(entry) for attempt, entry in last.items()}


def _last(entries: Iterable[LedgerEntry], wanted: set[str]) -> dict[str, LedgerEntry]:
    return {entry.attempt_id: entry for entry in entries if entry.attempt_id in wanted}
