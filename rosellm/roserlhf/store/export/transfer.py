"""A run's log to files and back: `events.db -> one file per table -> events.db`, equal in every read.

What differs between formats is a :class:`Format`: how rows are written and read. Everything is streamed, and an export is of one
moment, even while the run goes on.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rosellm.roserlhf.errors import RoseError, StoreError
from rosellm.roserlhf.store.encoding import Packed
from rosellm.roserlhf.store.export.columns import Opened, opened
from rosellm.roserlhf.store.export.copied_log import CopiedLog, copied_log, row_checksum
from rosellm.roserlhf.store.export.folder import OTHERS, Counts, file_of, new_export, read_manifest, write_manifest
from rosellm.roserlhf.store.export.outcomes import Outcome, outcomes
from rosellm.roserlhf.store.reading import EventReader
from rosellm.roserlhf.store.tables import SCORES, TRAJECTORIES, UPDATES, Table, name

Exported = tuple[Opened, Outcome | None]
"""A record and what the ledger says of it."""
StoredRow = tuple[bool, Sequence[Any], int]
"""Superseded or not, the stored values, and their checksum."""


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """A record as it was read from an export."""

    packed: Packed
    step: int
    phase: str
    superseded: bool
    digest: bytes
    checksum: int


class Format(Protocol):
    """How rows are written to a file and read from it, in bounded memory."""

    suffix: str
    """Of its files."""
    may_be_torn: bool
    """A file that was cut is read up to where it is whole; what is lost is counted."""

    def write_records(self, path: Path, records: Iterable[Exported]) -> None:
        """Write the records to a new file."""

    def write_table(self, path: Path, table: Table, rows: Iterable[StoredRow]) -> None:
        """Write the rows of another table to a new file."""

    def read_records(self, path: Path) -> Iterator[ReadRecord]:
        """Read what `write_records` wrote."""

    def read_table(self, path: Path, table: Table) -> Iterator[StoredRow]:
        """Read what `write_table` wrote."""


def record_checksum(step: int, phase: str, superseded: bool, digest: bytes) -> int:
    """Compute the checksum of a record's place in the run and its content."""
    return row_checksum(superseded, (step, phase, digest))


def export_log(log: EventReader, folder: Path, form: Format, *, step: int | None, phase: str | None, overwrite: bool) -> Counts:
    """Write a log's tables to `folder`.

    Filters choose records; scores follow their records and updates their step, the other tables are always whole.

    Raises:
        StoreError: an export is there already, the folder cannot be written, or the log is damaged.
    """
    counter: Counter[str] = Counter()
    ids: set[str] | None = None if step is None and phase is None else set()
    with new_export(folder, form.suffix, overwrite=overwrite) as aside, log.snapshot():
        records = _records(log, step, phase, counter, ids)
        form.write_records(file_of(aside, TRAJECTORIES.name, form.suffix), records)
        for table in OTHERS:
            rows = _rows(log, table, step, counter, ids)
            form.write_table(file_of(aside, table.name, form.suffix), table, rows)
        tokens = counter.pop("tokens", 0)
        rows_by_table = {table.name: counter[table.name] for table in (TRAJECTORIES, *OTHERS)}
        write_manifest(aside, form.suffix, rows_by_table, {"step": step, "phase": phase})
    return Counts(rows_by_table, tokens, {})


def _records(
    log: EventReader, step: int | None, phase: str | None, counter: Counter[str], ids: set[str] | None
) -> Iterator[Exported]:
    found = outcomes(log.ledger())
    for stored in log.packed_trajectories(step=step, phase=phase, include_superseded=True):
        summary = stored.summary
        counter[TRAJECTORIES.name] += 1
        counter["tokens"] += len(stored.packed.token_ids)
        if ids is not None:
            ids.add(summary.trajectory_id)
        yield opened(stored), None if summary.superseded else found.get(summary.trajectory_id)


def _rows(log: EventReader, table: Table, step: int | None, counter: Counter[str], ids: set[str] | None) -> Iterator[StoredRow]:
    for superseded, values in log.stored(table, step=step if table is UPDATES else None):
        if table is not SCORES or ids is None or name(values[0]) in ids:
            counter[table.name] += 1
            yield superseded, values, row_checksum(superseded, values)


def import_log(source: Path, path: Path, form: Format) -> Counts:
    """Fill a new log at `path` from an export: a folder, or the file of records alone.

    Raises:
        StoreError: the source is no export of this format, is damaged or of a newer schema, or the log cannot be made.
    """
    alone = not source.is_dir()
    expected = None if alone else read_manifest(source, form.suffix)
    tables: Sequence[Table] = () if alone else OTHERS
    records = source if alone else file_of(source, TRAJECTORIES.name, form.suffix)
    counter: Counter[str] = Counter()
    with copied_log(path) as log:
        _copy_records(log, records, form, counter)
        for table in tables:
            _copy_rows(log, file_of(source, table.name, form.suffix), table, form, counter)
        tokens = counter.pop("tokens", 0)
        rows = {table.name: counter[table.name] for table in (TRAJECTORIES, *tables)}
        lost = {name: count - rows[name] for name, count in (expected or {}).items() if count != rows[name]}
        if any(count < 0 or not form.may_be_torn for count in lost.values()):
            raise StoreError(f"{source} must hold the rows that its manifest counts, {expected}, got {rows}")
    return Counts(rows, tokens, lost)


def _copy_records(log: CopiedLog, path: Path, form: Format, counter: Counter[str]) -> None:
    for row in form.read_records(path):
        with _naming_row(path, counter[TRAJECTORIES.name]):
            if row.checksum != record_checksum(row.step, row.phase, row.superseded, row.digest):
                raise StoreError("it does not match its checksum")
            log.add_record(row.packed, step=row.step, phase=row.phase, superseded=row.superseded, digest=row.digest)
        counter[TRAJECTORIES.name] += 1
        counter["tokens"] += len(row.packed.token_ids)


def _copy_rows(log: CopiedLog, path: Path, table: Table, form: Format, counter: Counter[str]) -> None:
    for superseded, values, checksum in form.read_table(path, table):
        with _naming_row(path, counter[table.name]):
            if checksum != row_checksum(superseded, values):
                raise StoreError("it does not match its checksum")
            log.add(table, values, superseded=superseded)
        counter[table.name] += 1


@contextlib.contextmanager
def _naming_row(path: Path, row: int) -> Iterator[None]:
    try:
        yield
    except RoseError as error:
        if isinstance(error.__cause__, (sqlite3.OperationalError, OSError)):
            raise  # the new log cannot be written
        raise StoreError(f"{path} is damaged at row {row}: {error}") from error
