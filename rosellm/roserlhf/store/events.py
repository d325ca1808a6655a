"""The event log of a run: `records, scores, ledger, policy table, metrics, updates -> one SQLite file -> the same, exactly`.

```
transaction():  append_trajectory | append_score | append_entries | add_policy | append_metrics | append_update  -> one commit
supersede(k):   everything of steps >= k leaves the default reads, because those steps run again with the same ids
```

One writer, any number of readers at the same time (see :mod:`rosellm.roserlhf.store.database`). Rows are only ever added or marked
`superseded`; every row carries a checksum. Records are plain data again when they are read: validated, sealed, bit for bit.

What is appended a second time: an identical record, score, policy or update is there already and changes nothing; another one under
the same name is an error. A ledger entry is a step on a path and can be taken once. Metrics are measurements: each is a row.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.record.plain import Json
from rosellm.roserlhf.store.attempts import OpenAttempts
from rosellm.roserlhf.store.database import Database
from rosellm.roserlhf.store.encoding import pack, pack_record
from rosellm.roserlhf.store.ledger import LedgerEntry, State
from rosellm.roserlhf.store.reading import EventReader
from rosellm.roserlhf.store.rows import Policy
from rosellm.roserlhf.store.tables import (
    INSERT_RECORD,
    LEDGER,
    METRICS,
    POLICIES,
    SCHEMA,
    SCORES,
    TRAJECTORIES,
    UPDATES,
    Table,
    stored,
    stored_name,
    trajectory_columns,
)
from rosellm.roserlhf.store.updates import Update
from rosellm.roserlhf.trajectory import ScoreRecord, Trajectory

_LIVE_ANYWHERE = "SELECT 1 FROM trajectories WHERE trajectory_id = ? AND superseded = 0 LIMIT 1"
_SAME_SCORE = "SELECT 1 FROM scores WHERE trajectory_id = ? AND turn = ? AND scorer_hash = ? AND components = ? AND superseded = 0"
_LIVE_POLICY = "SELECT version, step, parent, content_hash FROM policies WHERE version = ? AND superseded = 0"
_LIVE_UPDATE = "SELECT content FROM updates WHERE step = ? AND number = ? AND superseded = 0"
_SUPERSEDED = "superseded = 1, checksum = ~checksum"


class EventLog(EventReader):
    """Append to and read a run's events.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with EventLog.create(folder.name + "/events.db") as log:
        ...     log.add_policy("v0", step=0)
        ...     log.append_metrics("train", 0, {"reward": 0.25})
        ...     [m.values for m in log.metrics()]
        True
        [{'reward': 0.25}]
        >>> folder.cleanup()
    """

    def __init__(self, database: Database) -> None:
        """Wrap an open database; use :meth:`create`, :meth:`open` or :meth:`read`."""
        super().__init__(database)
        self._attempts = OpenAttempts(database)
        self._rows: dict[str, int] = {}
        database.on_undo = self._forget

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Self:
        """Create an empty log in an existing folder and open it for appending.

        Raises:
            StoreError: the file exists, the folder does not or is read-only, or another process writes it.
        """
        return cls(Database.create(Path(path), SCHEMA))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open a log for appending.

        Raises:
            StoreError: no such log, damaged, of another schema version, not writable, or it has a writer already.
        """
        return cls(Database.append(Path(path)))

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """Make all appends inside the block one atomic commit; an exception undoes them all. Blocks may nest.

        Raises:
            StoreError: the log was opened for reading, or the commit is refused.
        """
        return self._database.transaction()

    def flush(self) -> None:
        """Wait until everything appended so far is on the disk and survives a power cut; call it before a checkpoint refers to it.

        Raises:
            StoreError: the log was opened for reading, or the disk refuses.
        """
        self._database.flush()

    def append_trajectory(self, trajectory: Trajectory, *, step: int, phase: str) -> bool:
        """Store a record, finished or not, and seal it: what is at rest never changes.

        Args:
            trajectory: the record; its id must be new among the live records of the phase.
            step: training step.
            phase: what it was collected for, such as `train` or `evaluate`.

        Returns:
            True; False if the same record (by content hash) of the same step and phase was stored already, which changes nothing.

        Raises:
            StoreError: the id is stored with another content or step, or the log cannot be written.
        """
        trajectory.seal()
        phase, step = plain.name(phase, "phase"), plain.natural(step, "step")
        with self._database.transaction():
            record = pack_record(trajectory).to_bytes()
            columns = trajectory_columns(trajectory, phase=phase, step=step, record=record)
            row = self._next_row(TRAJECTORIES)
            if not self._database.write_new(TRAJECTORIES.insertion, stored(TRAJECTORIES, row, columns)):
                self._require_same(trajectory, step, phase)
                return False
            self._database.write(INSERT_RECORD, (row, record))
            self._rows[TRAJECTORIES.name] = row
        return True

    def _require_same(self, trajectory: Trajectory, step: int, phase: str) -> None:
        stored = self.trajectory(trajectory.trajectory_id, phase=phase)
        if stored.step == step and stored.trajectory.content_hash() == trajectory.content_hash():
            return
        other = "other content" if stored.step == step else f"step {stored.step}"
        got = f"{trajectory.trajectory_id!r}, which is stored already with {other}"
        fix = "supersede its step before it runs again"
        raise fail(StoreError, "trajectory_id", f"be new in phase {phase!r}", got, fix=fix)

    def append_score(self, score: ScoreRecord) -> bool:
        """Store a late, judged or repeated score; the record it is about must be stored.

        Returns:
            True; False if an identical score was stored already, which changes nothing.

        Raises:
            StoreError: there is no live record of this id, or the log cannot be written.
        """
        row = (stored_name(score.trajectory_id), score.turn, stored_name(score.scorer_hash), pack(score.components))
        with self._database.transaction():
            if not self._database.rows(_LIVE_ANYWHERE, row[:1]):
                raise StoreError(f"trajectory_id must name a stored record, got {score.trajectory_id!r}")
            if self._database.rows(_SAME_SCORE, row):
                return False
            self._insert(SCORES, row)
        return True

    def append_ledger(
        self,
        attempt_id: str,
        state: State,
        *,
        step: int,
        reason: str | None = None,
        detail: Json = None,
        sampled: int | None = None,
        trained: int | None = None,
        excluded: Mapping[str, int] = plain.EMPTY,
        group: str | None = None,
        retry_of: str | None = None,
    ) -> None:
        """Store one event of an attempt (see :class:`~rosellm.roserlhf.store.ledger.LedgerEntry` for the arguments).

        Raises:
            StoreError: the attempt's path does not allow this state, a count or reason is missing, the tokens do not add up, or
                the log cannot be written.
        """
        counts: dict[str, Any] = {"sampled": sampled, "trained": trained, "excluded": excluded}
        entry = LedgerEntry(attempt_id, state, step=step, reason=reason, detail=detail, group=group, retry_of=retry_of, **counts)
        self.append_entries([entry])

    def append_entries(self, entries: Sequence[LedgerEntry]) -> None:
        """Store events of attempts, in order, all of them or none.

        Raises:
            StoreError: an attempt's path does not allow a state, tokens do not add up, or the log cannot be written.
        """
        with self._database.transaction():
            self._attempts.require(entries)
            for entry in entries:
                self._insert(LEDGER, (entry.attempt_id, entry.state, entry.step, entry.reason, entry.sampled, pack(_rest(entry))))

    def add_policy(self, version: str, *, step: int, parent: str | None = None, content_hash: str | None = None) -> bool:
        """Add a version to the policy table; rows are in the order of publication.

        Args:
            version: opaque name, new among the live versions.
            step: the step that made it.
            parent: the version it was made from, already in the table.
            content_hash: hash of the weights.

        Returns:
            True; False if exactly this row is in the table already, which changes nothing.

        Raises:
            StoreError: the version is there with other values, the parent is not there, or the log cannot be written.
        """
        plain.optional(plain.name, parent=parent, content_hash=content_hash)
        row = tuple(map(stored_name, (plain.name(version, "version"), plain.natural(step, "step"), parent, content_hash)))
        with self._database.transaction():
            if found := self._database.rows(_LIVE_POLICY, row[:1]):
                if found[0] == row:
                    return False
                there = Policy(version, *found[0][1:])
                raise StoreError(f"version must be new in the policy table, got {version!r}, which is there already as {there}")
            if parent is not None and not self._database.rows(_LIVE_POLICY, (stored_name(parent),)):
                raise StoreError(f"parent must be in the policy table, got {parent!r}")
            self._insert(POLICIES, row)
        return True

    def append_metrics(self, phase: str, step: int, values: Mapping[str, Json]) -> None:
        """Store named values: numbers (NaN and infinities stay what they are), text, or JSON values of them.

        Raises:
            RecordError: a value is not plain data.
            StoreError: the log cannot be written.
        """
        kept = plain.mapping(values, "values", plain.json_value)
        row = (plain.name(phase, "phase"), plain.natural(step, "step"), pack(kept))
        with self._database.transaction():
            self._insert(METRICS, row)

    def append_update(self, update: Update) -> bool:
        """Store the evidence of one optimizer update.

        Returns:
            True; False if an identical update of the same step and number was stored already, which changes nothing.

        Raises:
            StoreError: another update has this step and number, or the log cannot be written.
        """
        names = ("epoch", "denominator", "loss", "gradient_norm", "learning_rate", "skipped")
        rows = [(row.trajectory_id, row.current_logprobs.tobytes()) for row in update.rows]
        content = pack({**{name: getattr(update, name) for name in names}, "rows": rows})
        place = (update.step, update.number)
        with self._database.transaction():
            if found := self._database.rows(_LIVE_UPDATE, place):
                if found[0][0] == content:
                    return False
                raise StoreError(
                    f"number must be new in step {update.step}, got {update.number}, which is stored with other content"
                )
            self._insert(UPDATES, (*place, content))
        return True

    def supersede(self, from_step: int) -> int:
        """Mark everything of steps ≥ `from_step` as superseded, because these steps are about to run again.

        Superseded rows stay, out of the default reads; their ids and versions may be used again. Scores follow their record.

        Args:
            from_step: the first step that runs again.

        Returns:
            Number of rows marked.

        Raises:
            StoreError: the log cannot be written.
        """
        first = plain.natural(from_step, "from_step")
        marked = 0
        with self._database.transaction():
            self._attempts.forget()
            of_those = "trajectory_id IN (SELECT trajectory_id FROM trajectories WHERE superseded = 0 AND step >= ?)"
            marked += self._database.write(f"UPDATE scores SET {_SUPERSEDED} WHERE superseded = 0 AND {of_those}", (first,))
            for table in (TRAJECTORIES, LEDGER, POLICIES, METRICS, UPDATES):
                sql = f"UPDATE {table.name} SET {_SUPERSEDED} WHERE superseded = 0 AND step >= ?"
                marked += self._database.write(sql, (first,))
        return marked

    def _insert(self, table: Table, values: tuple[Any, ...]) -> None:
        row = self._next_row(table)
        self._database.write(table.insertion, stored(table, row, values))
        self._rows[table.name] = row

    def _next_row(self, table: Table) -> int:
        if table.name not in self._rows:
            self._rows[table.name] = self._database.rows(f"SELECT COALESCE(MAX(row), 0) FROM {table.name}")[0][0]
        return self._rows[table.name] + 1

    def _forget(self) -> None:
        """Ask the file again: a transaction was undone."""
        self._attempts.forget()
        self._rows.clear()


def _rest(entry: LedgerEntry) -> dict[str, Any]:
    """Collect the fields of an entry that have no column and are not empty."""
    values = {name: getattr(entry, name) for name in ("trained", "excluded", "detail", "group", "retry_of")}
    return {name: value for name, value in values.items() if value is not None and value is not plain.EMPTY}
