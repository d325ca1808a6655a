"""Where the open attempts of a run stand, kept by its one writer: `ledger entries -> legal or refused`, without asking the file.

The file is the truth. This is a copy of its part that the next entries depend on, read when the first entry comes, and dropped
whenever the file may have gone another way: after a transaction that was undone, and after steps were superseded.
"""

from __future__ import annotations

from collections.abc import Sequence

from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store.database import Database
from rosellm.roserlhf.store.ledger import ENDS, LedgerEntry, check_placed, check_transition
from rosellm.roserlhf.store.tables import name, stored_name

_OPEN = f"""
SELECT attempt_id, state, sampled FROM ledger WHERE superseded = 0 AND attempt_id NOT IN
  (SELECT attempt_id FROM ledger WHERE superseded = 0 AND state IN {ENDS}) ORDER BY row
"""
_LAUNCHED = "SELECT 1 FROM ledger WHERE attempt_id = ? AND state = 'launched' AND superseded = 0"
_LAST = "SELECT state FROM ledger WHERE attempt_id = ? AND superseded = 0 ORDER BY row DESC LIMIT 1"

_Place = tuple[str, int | None]
"""State and sampled tokens."""


class OpenAttempts:
    """The attempts that are neither trained nor rejected."""

    def __init__(self, database: Database) -> None:
        """Know nothing yet."""
        self._database = database
        self._places: dict[str, _Place] | None = None

    def forget(self) -> None:
        """Ask the file again, the next time."""
        self._places = None

    def require(self, entries: Sequence[LedgerEntry]) -> None:
        """Require that the attempts may take these steps, in order, and remember that they did.

        Raises:
            StoreError: a path does not allow it, or tokens do not add up; nothing is remembered then.
        """
        if self._places is None:
            self._places = self._loaded()
        taken: dict[str, _Place] = {}
        for entry in entries:
            if entry.superseded:
                raise fail(StoreError, "superseded", "be False in an entry that is appended", True)
            before = taken.get(entry.attempt_id) or self._places.get(entry.attempt_id)
            if before is None:
                check_transition(entry.attempt_id, self._ended(entry.attempt_id), entry.state)
            else:
                check_transition(entry.attempt_id, before[0], entry.state)
                if entry.state in ENDS:
                    check_placed(entry, before[1] or 0)
            taken[entry.attempt_id] = (entry.state, entry.sampled if before is None or before[1] is None else before[1])
        for attempt_id, place in taken.items():
            if place[0] in ENDS:
                self._places.pop(attempt_id, None)
            else:
                self._places[attempt_id] = place

    def _loaded(self) -> dict[str, _Place]:
        places: dict[str, _Place] = {}
        for stored, state, sampled in self._database.rows(_OPEN):
            attempt_id = name(stored)
            before = places.get(attempt_id)
            places[attempt_id] = (state, sampled if before is None or before[1] is None else before[1])
        return places

    def _ended(self, attempt_id: str) -> str | None:
        """State of an attempt that is not open: how it ended, or None if it was never launched."""
        stored = stored_name(attempt_id)
        if not self._database.rows(_LAUNCHED, (stored,)):
            return None
        return str(self._database.rows(_LAST, (stored,))[0][0])
