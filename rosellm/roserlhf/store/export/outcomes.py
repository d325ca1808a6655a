"""What the ledger says of each attempt in the end: `ledger events -> attempt -> Outcome`, one line of an export."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rosellm.roserlhf.record import plain
from rosellm.roserlhf.store.ledger import LedgerEntry, State


@dataclass(slots=True)
class Outcome:
    """Where an attempt and its tokens ended."""

    state: State | None = None
    """Its present state; None if the ledger does not know it."""
    reason: str | None = None
    """Why it failed or was rejected."""
    sampled: int = 0
    """Tokens it sampled."""
    trained: int | None = None
    """Tokens with a gradient; 0 if it was rejected, None while it is open."""
    excluded: Mapping[str, int] = plain.EMPTY
    """Tokens left out, by reason."""
    advantage: float | None = None
    """Credit of the whole attempt; None if none was assigned, or each turn has its own, which the ledger's detail lists."""


def outcomes(entries: Iterable[LedgerEntry]) -> dict[str, Outcome]:
    """Follow the events of every attempt to its last one.

    Example:
        >>> found = outcomes([LedgerEntry("a", "launched", step=0), LedgerEntry("a", "failed", step=0, sampled=3, reason="timeout"),
        ...                   LedgerEntry("a", "rejected", step=0, reason="unscored")])
        >>> found["a"]
        Outcome(state='rejected', reason='unscored', sampled=3, trained=0, excluded={'unscored': 3}, advantage=None)
    """
    found: dict[str, Outcome] = {}
    for entry in entries:
        outcome = found.get(entry.attempt_id)
        if outcome is None:
            outcome = found[entry.attempt_id] = Outcome(entry.state)
        outcome.state = entry.state
        outcome.reason = entry.reason or outcome.reason
        outcome.sampled = outcome.sampled if entry.sampled is None else entry.sampled
        if entry.state == "rejected":
            outcome.trained, outcome.excluded = 0, {str(entry.reason): outcome.sampled}
        elif entry.state == "trained":
            outcome.trained, outcome.excluded = entry.trained, entry.excluded
        advantage = entry.detail.get("advantage") if isinstance(entry.detail, Mapping) else None
        if isinstance(advantage, float):
            outcome.advantage = advantage
    return found
