"""Reading an event log: `SQLite file -> records, scores, ledger, policy table, metrics, updates`, every row checked."""

from __future__ import annotations

import contextlib
import heapq
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store.database import REPAIR, Database
from rosellm.roserlhf.store.encoding import Packed, unpack, unpack_record
from rosellm.roserlhf.store.ledger import LedgerEntry
from rosellm.roserlhf.store.rows import Metrics, PackedTrajectory, Policy, StoredTrajectory, TrajectorySummary
from rosellm.roserlhf.store.tables import (
    LEDGER,
    METRICS,
    POLICIES,
    SCORES,
    TABLES,
    TRAJECTORIES,
    UPDATES,
    Table,
    is_intact,
    name,
    stored_name,
    trajectory_columns,
)
from rosellm.roserlhf.store.updates import Update, UpdatedRow
from rosellm.roserlhf.trajectory import ScoreRecord

_PAGE, _SUMMARIES = 32, 4096
_WITH_RECORDS = "trajectories LEFT JOIN records ON records.row = trajectories.row"

Row = Sequence[Any]


class EventReader:
    """What can be read from a run's events, beside a writer or without one."""

    def __init__(self, database: Database) -> None:
        """Wrap an open database; use :meth:`read`."""
        self._database = database

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
        for stored in self._packed({"phase": phase, "step": step}, include_superseded):
            yield _built(stored)

    def packed_trajectories(
        self, *, phase: str | None = None, step: int | None = None, include_superseded: bool = False
    ) -> Iterator[PackedTrajectory]:
        """Read records as skeleton and arrays, without building them; the arguments are those of :meth:`trajectories`.

        Raises:
            StoreError: a record is damaged, or the log cannot be read.
        """
        yield from self._packed({"phase": phase, "step": step}, include_superseded)

    def trajectory(self, trajectory_id: str, *, phase: str | None = None) -> StoredTrajectory:
        """Read the live record of this id.

        Raises:
            StoreError: there is none, or more than one phase has it and `phase` is not given.
        """
        found = list(self._packed({"trajectory_id": trajectory_id, "phase": phase}, include_superseded=False))
        if len(found) != 1:
            got = f"{trajectory_id!r}, found in phases {[f.summary.phase for f in found]}" if found else repr(trajectory_id)
            raise StoreError(f"trajectory_id must name one stored record, got {got}")
        return _built(found[0])

    def find(self, trajectory_id: str, *, include_superseded: bool = False) -> tuple[StoredTrajectory, ...]:
        """Read every record of this id, one per phase; empty if there is none.

        Args:
            trajectory_id: the id.
            include_superseded: also records of steps that were run again; they are looked for without an index.

        Raises:
            StoreError: a record is damaged, or the log cannot be read.
        """
        return tuple(map(_built, self._packed({"trajectory_id": trajectory_id}, include_superseded)))

    def summaries(
        self,
        *,
        version: str | None = None,
        phase: str | None = None,
        step: int | None = None,
        include_superseded: bool = False,
    ) -> Iterator[TrajectorySummary]:
        """Read what credit and accounting ask of the records, in the order they were appended, without the records themselves.

        Args:
            version: only records in which this policy version sampled a token.
            phase: only this phase.
            step: only this step.
            include_superseded: also records of steps that were run again.

        Raises:
            StoreError: a row is damaged, or the log cannot be read.
        """
        wanted = {"phase": phase, "step": step}
        if version is None:
            rows = self._pages(TRAJECTORIES, wanted, include_superseded, size=_SUMMARIES)
            yield from (self._summary(row) for row in rows)
            return
        # Records of one version are found by an index, those of several (few, or none) are looked through.
        alone = self._pages(TRAJECTORIES, {**wanted, "version": version}, include_superseded, "versions IS NULL", _SUMMARIES)
        mixed = self._pages(TRAJECTORIES, wanted, include_superseded, "versions IS NOT NULL", _SUMMARIES)
        for row in heapq.merge(alone, mixed, key=lambda row: int(row[0])):
            summary = self._summary(row)
            if version in summary.policy_versions:
                yield summary

    def scores(self, trajectory_id: str | None = None, *, include_superseded: bool = False) -> Iterator[ScoreRecord]:
        """Read scores, of one record or all, in the order they were appended.

        Raises:
            StoreError: a row is damaged, or the log cannot be read.
        """
        for row in self._pages(SCORES, {"trajectory_id": trajectory_id}, include_superseded):
            record, turn, scorer, components = self._intact(SCORES, row)
            yield ScoreRecord(name(record), turn, unpack(components), name(scorer))

    def ledger(self, *, step: int | None = None, include_superseded: bool = False) -> Iterator[LedgerEntry]:
        """Read ledger events, of one step or all, in the order they were appended; `Ledger(log.ledger())` counts them.

        Raises:
            StoreError: a row is damaged, or the log cannot be read.
        """
        for row in self._pages(LEDGER, {"step": step}, include_superseded, size=_SUMMARIES):
            attempt, state, at, reason, sampled, rest = self._intact(LEDGER, row)
            yield LedgerEntry(
                name(attempt), state, step=at, reason=name(reason), sampled=sampled, superseded=bool(row[1]), **unpack(rest)
            )

    def policies(self, *, include_superseded: bool = False) -> tuple[Policy, ...]:
        """Read the policy table, oldest version first.

        Raises:
            StoreError: a row is damaged, or the log cannot be read.
        """
        found = []
        for row in self._pages(POLICIES, {}, include_superseded):
            version, step, parent, content = self._intact(POLICIES, row)
            found.append(Policy(name(version), step, name(parent), name(content), bool(row[1])))
        return tuple(found)

    def metrics(self, phase: str | None = None, *, include_superseded: bool = False) -> tuple[Metrics, ...]:
        """Read metrics, of one phase or all, in the order they were appended.

        Raises:
            StoreError: a row is damaged, or the log cannot be read.
        """
        found = []
        for row in self._pages(METRICS, {"phase": phase}, include_superseded):
            measured, step, content = self._intact(METRICS, row)
            found.append(Metrics(name(measured), step, unpack(content), bool(row[1])))
        return tuple(found)

    def updates(self, step: int | None = None, *, include_superseded: bool = False) -> Iterator[Update]:
        """Read optimizer updates, of one step or all, in the order they were appended.

        Raises:
            StoreError: a row is damaged, or the log cannot be read.
        """
        for row in self._pages(UPDATES, {"step": step}, include_superseded, size=1):
            at, number, content = self._intact(UPDATES, row)
            written = unpack(content)
            rows = [UpdatedRow(record, array("f", data)) for record, data in written.pop("rows")]
            yield Update(at, number, rows=rows, **written)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """See the log as it is now in all reads inside the block, whatever is appended meanwhile.

        Raises:
            StoreError: the log cannot be read, or is inside a transaction.
        """
        with self._database.snapshot():
            yield

    def stored(self, table: Table, *, step: int | None = None) -> Iterator[tuple[bool, Sequence[Any]]]:
        """Read a table's rows as they are stored, superseded ones too: `(superseded, values of its columns)`, to be copied.

        Raises:
            StoreError: a row is damaged, or the log cannot be read.
        """
        for row in self._pages(table, {"step": step}, include_superseded=True, size=1 if table is UPDATES else _SUMMARIES):
            yield bool(row[1]), self._intact(table, row)

    def sampled_tokens(self, *, phase: str | None = None) -> dict[int, int]:
        """Count the sampled tokens of the live records by step: the other side of `Ledger.balance(recorded=...)`.

        Raises:
            StoreError: the log cannot be read.
        """
        sql = "SELECT step, SUM(tokens) FROM trajectories WHERE superseded = 0 AND (?1 IS NULL OR phase = ?1) GROUP BY step"
        return dict(self._database.rows(sql, (phase,)))

    def problems(self) -> Iterator[str]:
        """Look at every row, and say in a sentence each what is not as it was written; a healthy log gives nothing.

        Beyond what every reading checks: SQLite's own structure, marks and numbers of rows, and that the columns of a record are
        what its bytes say. A record that was edited is found although its checksum was made to fit.

        Raises:
            StoreError: the log cannot be read at all.
        """
        for (said,) in self._database.rows("PRAGMA quick_check"):
            if said != "ok":
                yield f"SQLite says: {said}"
        for table in TABLES:
            last = 0
            for row in self._pages(table, {}, include_superseded=True):
                number, superseded, checksum, *values = row
                if number != last + 1:
                    yield f"rows {last + 1} to {number - 1} of {table.name} are missing"
                if not is_intact(table, number, superseded, checksum, values):
                    yield f"row {number} of {table.name} does not match its checksum"
                last = number
        yield from self._edited()

    def _edited(self) -> Iterator[str]:
        for row in self._pages(TRAJECTORIES, {}, include_superseded=True, with_records=True):
            number, _, _, *columns, record = row
            if record is None:
                yield f"row {number} of trajectories has lost its record"
                continue
            if not isinstance(record, bytes):
                yield f"row {number} of records holds no record: {type(record).__name__} in place of bytes"
                continue
            try:
                trajectory = unpack_record(Packed.from_bytes(record))
            except StoreError as error:
                yield f"row {number} of records holds no record: {error}"
                continue
            place = {"phase": name(columns[3]), "step": columns[4]}
            wanted = map(stored_name, trajectory_columns(trajectory, record=record, **place))
            differing = [c for c, value, said in zip(TRAJECTORIES.columns, columns, wanted, strict=True) if value != said]
            if differing:
                yield f"row {number} of trajectories differs from its record in {', '.join(differing)}"

    def _packed(self, wanted: Mapping[str, Any], include_superseded: bool) -> Iterator[PackedTrajectory]:
        for row in self._pages(TRAJECTORIES, wanted, include_superseded, with_records=True):
            *columns, record = row
            summary = self._summary(columns)
            if record is None:
                raise self._damaged("trajectories", row[0], "has lost its record")
            if not isinstance(record, bytes) or sha256(record).digest() != summary.digest:
                raise self._damaged("records", row[0], "does not match its hash")
            yield PackedTrajectory(summary, Packed.from_bytes(record))

    def _summary(self, row: Row) -> TrajectorySummary:
        values = self._intact(TRAJECTORIES, row)
        record, task, group, phase, step, tokens, version, versions, rewards, unscored, ending, digest = values
        sampled_by = (name(version),) if versions is None else tuple(unpack(versions))
        return TrajectorySummary(
            name(record),
            name(task),
            name(group),
            name(phase),
            step,
            tokens,
            sampled_by if version is not None else (),
            unpack(rewards),
            bool(unscored),
            ending,
            digest,
            bool(row[1]),
        )

    def _pages(
        self,
        table: Table,
        wanted: Mapping[str, Any],
        include_superseded: bool,
        condition: str = "",
        size: int = _PAGE,
        *,
        with_records: bool = False,
    ) -> Iterator[Row]:
        """Read rows a page at a time, so that no open cursor holds the log back; stop at what was the last row at the start."""
        filters = [f"{table.name}.{column} = ?" for column, value in wanted.items() if value is not None]
        filters += [condition] if condition else []
        filters += [] if include_superseded else [f"{table.name}.superseded = 0"]
        values = [stored_name(value) for value in wanted.values() if value is not None]
        where = "".join(f" AND {f}" for f in filters)
        selected, source = table.selection, table.name
        if with_records:
            selected, source = f"{selected}, records.record", _WITH_RECORDS
        key = f"{table.name}.row"
        sql = f"SELECT {selected} FROM {source} WHERE {key} > ? AND {key} <= ?{where} ORDER BY {key} LIMIT {size}"
        row, last = 0, self._database.rows(f"SELECT COALESCE(MAX(row), 0) FROM {table.name}")[0][0]
        while page := self._database.rows(sql, (row, last, *values)):
            yield from page
            row = page[-1][0]

    def _intact(self, table: Table, row: Row) -> Sequence[Any]:
        number, superseded, checksum, *values = row
        if not is_intact(table, number, superseded, checksum, values):
            raise self._damaged(table.name, number, "does not match its checksum")
        return values

    def _damaged(self, table: str, row: int, how: str) -> StoreError:
        return StoreError(f"{self._database.path} is damaged: row {row} of {table} {how}; {REPAIR} keeps what is whole")


def _built(stored: PackedTrajectory) -> StoredTrajectory:
    summary = stored.summary
    return StoredTrajectory(summary.step, summary.phase, unpack_record(stored.packed), summary.superseded)
