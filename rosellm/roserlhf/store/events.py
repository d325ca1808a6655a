"""The event log of a run: `records, scores, ledger, policy table, metrics -> one SQLite file -> the same, exactly`.

```
transaction():  append_trajectory | append_score | append_ledger | add_policy | append_metrics   -> one atomic commit
supersede(k):   everything of steps >= k leaves the default reads, because those steps run again with the same ids
```

One writer, any number of readers at the same time (see :mod:`rosellm.roserlhf.store.database`). Rows are only ever added or marked
`superseded`; every record carries a checksum. Records are plain data again when they are read: validated, sealed, bit for bit.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.record.plain import Json
from rosellm.roserlhf.store.database import Database
from rosellm.roserlhf.store.encoding import decode, encode, pack, unpack
from rosellm.roserlhf.store.ledger import LedgerEntry, State, check_placed, check_transition
from rosellm.roserlhf.trajectory import ScoreRecord, Trajectory

_SCHEMA = """
CREATE TABLE trajectories (row INTEGER PRIMARY KEY, trajectory_id TEXT NOT NULL, task_id TEXT NOT NULL, group_id TEXT,
  phase TEXT NOT NULL, step INTEGER NOT NULL, tokens INTEGER NOT NULL, superseded INTEGER NOT NULL DEFAULT 0,
  checksum INTEGER NOT NULL, record BLOB NOT NULL);
CREATE UNIQUE INDEX live_trajectory ON trajectories (trajectory_id, phase) WHERE superseded = 0;
CREATE INDEX trajectory_step ON trajectories (step, phase);
CREATE TABLE scores (row INTEGER PRIMARY KEY, trajectory_id TEXT NOT NULL, turn INTEGER NOT NULL, scorer_hash TEXT NOT NULL,
  superseded INTEGER NOT NULL DEFAULT 0, checksum INTEGER NOT NULL, record BLOB NOT NULL);
CREATE INDEX score_trajectory ON scores (trajectory_id);
CREATE TABLE ledger (row INTEGER PRIMARY KEY, attempt_id TEXT NOT NULL, state TEXT NOT NULL, step INTEGER NOT NULL, reason TEXT,
  sampled INTEGER, superseded INTEGER NOT NULL DEFAULT 0, checksum INTEGER NOT NULL, record BLOB NOT NULL);
CREATE INDEX ledger_attempt ON ledger (attempt_id, superseded);
CREATE INDEX ledger_step ON ledger (step);
CREATE TABLE policies (row INTEGER PRIMARY KEY, version TEXT NOT NULL, step INTEGER NOT NULL, parent TEXT, content_hash TEXT,
  superseded INTEGER NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX live_policy ON policies (version) WHERE superseded = 0;
CREATE TABLE metrics (row INTEGER PRIMARY KEY, phase TEXT NOT NULL, step INTEGER NOT NULL,
  superseded INTEGER NOT NULL DEFAULT 0, checksum INTEGER NOT NULL, record BLOB NOT NULL);
"""
_TRAJECTORY = "trajectory_id, task_id, group_id, phase, step, tokens, checksum, record"
_LEDGER = "attempt_id, state, step, reason, sampled"
_PAGE = 256


@dataclass(frozen=True, slots=True)
class StoredTrajectory:
    """A record and where it stands in the run."""

    step: int
    """Training step."""
    phase: str
    """What it was collected for: `train`, `evaluate`, ..."""
    trajectory: Trajectory
    """The record, sealed."""
    superseded: bool = False
    """True if its step was run again."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One row of the policy table; the order of the rows is the order of versions."""

    version: str
    """Opaque name."""
    step: int
    """Step that made it."""
    parent: str | None = None
    """Version it was made from."""
    content_hash: str | None = None
    """Hash of the weights."""
    superseded: bool = False
    """True if its step was run again."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Named values of one step and phase."""

    phase: str
    """What was measured."""
    step: int
    """Training step."""
    values: Mapping[str, Json]
    """Values by name, NaN and infinities included."""
    superseded: bool = False
    """True if its step was run again."""


class EventLog:
    """Append to and read a run's events.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with EventLog.create(folder.name + "/events.db") as log:
        ...     log.add_policy("v0", step=0)
        ...     log.append_metrics("train", 0, {"reward": 0.25})
        ...     [m.values for m in log.metrics()]
        [{'reward': 0.25}]
        >>> folder.cleanup()
    """

    def __init__(self, database: Database) -> None:
        """Wrap an open database; use :meth:`create`, :meth:`open` or :meth:`read`."""
        self._database = database

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Self:
        """Create an empty log in an existing folder and open it for appending.

        Raises:
            StoreError: the file exists, the folder does not or is read-only, or another process writes it.
        """
        return cls(Database.create(Path(path), _SCHEMA))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open a log for appending.

        Raises:
            StoreError: no such log, damaged, of another schema version, not writable, or it has a writer already.
        """
        return cls(Database.append(Path(path)))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Open a log for reading only, while a writer appends or not.

        Raises:
            StoreError: no such log, damaged, or of another schema version.
        """
        return cls(Database.read(Path(path)))

    def close(self) -> None:
        """Close the log."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """Make all appends inside the block one atomic commit; an exception undoes them all. Blocks may nest.

        Raises:
            StoreError: the log was opened for reading.
        """
        return self._database.transaction()

    def flush(self) -> None:
        """Wait until everything appended so far is on the disk and survives a power cut; call it before a checkpoint refers to it.

        Raises:
            StoreError: the log was opened for reading, or the disk refuses.
        """
        self._database.flush()

    def append_trajectory(self, trajectory: Trajectory, *, step: int, phase: str) -> None:
        """Store a record, finished or not, and seal it: what is at rest never changes.

        Args:
            trajectory: the record; its id must be new among the live records of the phase.
            step: training step.
            phase: what it was collected for, such as `train` or `evaluate`.

        Raises:
            StoreError: the id is stored already, or the log cannot be written.
        """
        trajectory.seal()
        place = (plain.name(phase, "phase"), plain.natural(step, "step"))
        name = (trajectory.trajectory_id, trajectory.task_id, trajectory.group_id)
        with self._database.transaction():
            if self._live("trajectories", "trajectory_id = ? AND phase = ?", (name[0], place[0])):
                fix = "supersede its step before it runs again"
                raise StoreError(f"trajectory_id must be new in phase {phase!r}, got {name[0]!r}, which is stored already; {fix}")
            self._insert("trajectories", _TRAJECTORY, (*name, *place, trajectory.sampled_tokens, *_sealed(encode(trajectory))))

    def append_score(self, score: ScoreRecord) -> None:
        """Store a late, judged or repeated score; the record it is about must be stored.

        Raises:
            StoreError: there is no live record of this id, or the log cannot be written.
        """
        with self._database.transaction():
            if not self._live("trajectories", "trajectory_id = ?", (score.trajectory_id,)):
                raise StoreError(f"trajectory_id must name a stored record, got {score.trajectory_id!r}")
            columns = (score.trajectory_id, score.turn, score.scorer_hash)
            self._insert(
                "scores", "trajectory_id, turn, scorer_hash, checksum, record", (*columns, *_sealed(pack(score.components)))
            )

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
    ) -> None:
        """Store one event of an attempt (see :class:`~rosellm.roserlhf.store.ledger.LedgerEntry` for the arguments).

        Raises:
            StoreError: the attempt's path does not allow this state, a count or reason is missing, the tokens do not add up, or
                the log cannot be written.
        """
        entry = LedgerEntry(
            attempt_id, state, step=step, reason=reason, detail=detail, sampled=sampled, trained=trained, excluded=excluded
        )
        with self._database.transaction():
            sql = "SELECT state, sampled FROM ledger WHERE attempt_id = ? AND superseded = 0 ORDER BY row DESC"
            before = self._database.rows(sql, (entry.attempt_id,))
            check_transition(entry.attempt_id, before[0][0] if before else None, entry.state)
            if entry.state == "trained":
                check_placed(entry, next(count for _, count in before if count is not None))
            kept = {"trained": entry.trained, "excluded": entry.excluded, "detail": entry.detail}
            columns = (entry.attempt_id, entry.state, entry.step, entry.reason, entry.sampled)
            self._insert("ledger", f"{_LEDGER}, checksum, record", (*columns, *_sealed(pack(kept))))

    def add_policy(self, version: str, *, step: int, parent: str | None = None, content_hash: str | None = None) -> None:
        """Add a version to the policy table; rows are in the order of publication.

        Args:
            version: opaque name, new among the live versions.
            step: the step that made it.
            parent: the version it was made from, already in the table.
            content_hash: hash of the weights.

        Raises:
            StoreError: the version is there already, the parent is not, or the log cannot be written.
        """
        plain.optional(plain.name, parent=parent, content_hash=content_hash)
        row = (plain.name(version, "version"), plain.natural(step, "step"), parent, content_hash)
        with self._database.transaction():
            if self._live("policies", "version = ?", (version,)):
                raise StoreError(f"version must be new in the policy table, got {version!r}, which is there already")
            if parent is not None and not self._live("policies", "version = ?", (parent,)):
                raise StoreError(f"parent must be in the policy table, got {parent!r}")
            self._insert("policies", "version, step, parent, content_hash", row)

    def append_metrics(self, phase: str, step: int, values: Mapping[str, Json]) -> None:
        """Store named values: numbers (NaN and infinities stay what they are), text, or JSON values of them.

        Raises:
            RecordError: a value is not plain data.
            StoreError: the log cannot be written.
        """
        kept = plain.mapping(values, "values", plain.json_value)
        row = (plain.name(phase, "phase"), plain.natural(step, "step"))
        with self._database.transaction():
            self._insert("metrics", "phase, step, checksum, record", (*row, *_sealed(pack(kept))))

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
            of_those = "trajectory_id IN (SELECT trajectory_id FROM trajectories WHERE superseded = 0 AND step >= ?)"
            marked += self._database.write(f"UPDATE scores SET superseded = 1 WHERE superseded = 0 AND {of_those}", (first,))
            for table in ("trajectories", "ledger", "policies", "metrics"):
                marked += self._database.write(f"UPDATE {table} SET superseded = 1 WHERE superseded = 0 AND step >= ?", (first,))
        return marked

    def trajectories(
        self, *, phase: str | None = None, step: int | None = None, include_superseded: bool = False
    ) -> Iterator[StoredTrajectory]:
        """Read records in the order they were appended, a page at a time; what is appended meanwhile is not included.

        Args:
            phase: only this phase.
            step: only this step.
            include_superseded: also records of steps that were run again.

        Raises:
            StoreError: a record is damaged, or the log cannot be read.
        """
        yield from self._stored({"phase": phase, "step": step}, include_superseded)

    def trajectory(self, trajectory_id: str, *, phase: str | None = None) -> StoredTrajectory:
        """Read the live record of this id.

        Raises:
            StoreError: there is none, or more than one phase has it and `phase` is not given.
        """
        found = list(self._stored({"trajectory_id": trajectory_id, "phase": phase}, include_superseded=False))
        if len(found) != 1:
            got = f"{trajectory_id!r}, found in phases {[f.phase for f in found]}" if found else repr(trajectory_id)
            raise StoreError(f"trajectory_id must name one stored record, got {got}")
        return found[0]

    def find(self, trajectory_id: str, *, include_superseded: bool = False) -> tuple[StoredTrajectory, ...]:
        """Read all records of this id, one per phase and attempt of its step; empty if there is none.

        Args:
            trajectory_id: the id.
            include_superseded: also records of steps that were run again; without an index, so it takes longer.

        Raises:
            StoreError: a record is damaged, or the log cannot be read.
        """
        return tuple(self._stored({"trajectory_id": trajectory_id}, include_superseded))

    def _stored(self, wanted: Mapping[str, Any], include_superseded: bool) -> Iterator[StoredTrajectory]:
        for row, step, phase, superseded, checksum, record in self._pages(
            "trajectories", "step, phase, superseded, checksum, record", wanted, include_superseded
        ):
            trajectory = decode(self._intact("trajectories", row, checksum, record))
            yield StoredTrajectory(step, phase, trajectory, bool(superseded))

    def scores(self, trajectory_id: str | None = None, *, include_superseded: bool = False) -> Iterator[ScoreRecord]:
        """Read scores, of one record or all, in the order they were appended.

        Raises:
            StoreError: a row is damaged, or the log cannot be read.
        """
        columns = "trajectory_id, turn, scorer_hash, checksum, record"
        for row, name, turn, scorer, checksum, record in self._pages(
            "scores", columns, {"trajectory_id": trajectory_id}, include_superseded
        ):
            yield ScoreRecord(name, turn, unpack(self._intact("scores", row, checksum, record)), scorer)

    def ledger(self, *, step: int | None = None, include_superseded: bool = False) -> Iterator[LedgerEntry]:
        """Read ledger events, of one step or all, in the order they were appended; `Ledger(log.ledger())` counts them.

        Raises:
            StoreError: a row is damaged, or the log cannot be read.
        """
        rows = self._pages("ledger", f"{_LEDGER}, checksum, record", {"step": step}, include_superseded)
        for row, attempt_id, state, at, reason, sampled, checksum, record in rows:
            kept = unpack(self._intact("ledger", row, checksum, record))
            yield LedgerEntry(attempt_id, state, step=at, reason=reason, sampled=sampled, **kept)

    def policies(self, *, include_superseded: bool = False) -> tuple[Policy, ...]:
        """Read the policy table, oldest version first.

        Raises:
            StoreError: the log cannot be read.
        """
        rows = self._pages("policies", "version, step, parent, content_hash, superseded", {}, include_superseded)
        return tuple(Policy(version, step, parent, content, bool(gone)) for _, version, step, parent, content, gone in rows)

    def metrics(self, phase: str | None = None, *, include_superseded: bool = False) -> tuple[Metrics, ...]:
        """Read metrics, of one phase or all, in the order they were appended.

        Raises:
            StoreError: a row is damaged, or the log cannot be read.
        """
        rows = self._pages("metrics", "phase, step, superseded, checksum, record", {"phase": phase}, include_superseded)
        return tuple(
            Metrics(name, step, unpack(self._intact("metrics", row, checksum, record)), bool(superseded))
            for row, name, step, superseded, checksum, record in rows
        )

    def sampled_tokens(self, *, phase: str | None = None) -> dict[int, int]:
        """Count the sampled tokens of the live records by step: the other side of `Ledger.balance(recorded=...)`.

        Raises:
            StoreError: the log cannot be read.
        """
        sql = "SELECT step, SUM(tokens) FROM trajectories WHERE superseded = 0 AND (?1 IS NULL OR phase = ?1) GROUP BY step"
        return dict(self._database.rows(sql, (phase,)))

    def _live(self, table: str, condition: str, values: tuple[Any, ...]) -> bool:
        return bool(self._database.rows(f"SELECT 1 FROM {table} WHERE {condition} AND superseded = 0 LIMIT 1", values))

    def _insert(self, table: str, columns: str, values: tuple[Any, ...]) -> None:
        self._database.write(f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(values))})", values)

    def _pages(self, table: str, columns: str, wanted: Mapping[str, Any], include_superseded: bool) -> Iterator[tuple[Any, ...]]:
        """Read rows a page at a time, so that no open cursor holds the log back; stop at what was the last row at the start."""
        filters = [f"{name} = ?" for name, value in wanted.items() if value is not None]
        filters += [] if include_superseded else ["superseded = 0"]
        values = [value for value in wanted.values() if value is not None]
        where = "".join(f" AND {f}" for f in filters)
        sql = f"SELECT row, {columns} FROM {table} WHERE row > ? AND row <= ?{where} ORDER BY row LIMIT {_PAGE}"
        row, last = 0, self._database.rows(f"SELECT COALESCE(MAX(row), 0) FROM {table}")[0][0]
        while page := self._database.rows(sql, (row, last, *values)):
            yield from page
            row = page[-1][0]

    def _intact(self, table: str, row: int, checksum: int, record: bytes) -> bytes:
        if zlib.crc32(record) != checksum:
            raise StoreError(f"{self._database.path} is damaged: row {row} of {table} does not match its checksum")
        return record


def _sealed(record: bytes) -> tuple[int, bytes]:
    return zlib.crc32(record), record
