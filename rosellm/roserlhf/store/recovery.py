"""What can be saved of a damaged event log: `damaged file -> a new file with every row that is whole, and a list of what is lost`.

A row counts as whole if its checksum says so, and a record if its hash does; nothing is guessed or repaired. Row numbers go up by
one in each table, so a gap is a row that is lost. The damaged file is kept beside the new one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store.database import Database, clear_errors, lock_file, wait_for_disk, wal_file, writer_lock
from rosellm.roserlhf.store.pages import PAGE_SIZES, Cell, Pages, contents, page_size
from rosellm.roserlhf.store.tables import (
    INSERT_RECORD,
    LEDGER,
    POLICIES,
    SCHEMA,
    TABLES,
    TRAJECTORIES,
    UPDATES,
    Table,
    is_intact,
    name,
    stored,
)

_RECORD_COLUMNS = 2
_ENDED = ("finished", "failed")
_UNIQUE: Mapping[Table, Any] = {
    TRAJECTORIES: lambda values: (values[0], values[3]),
    LEDGER: lambda values: values[0] if values[1] == "launched" else None,
    POLICIES: lambda values: values[0],
    UPDATES: lambda values: tuple(values[:2]),
}
"""What no two live rows of a table share; None where a row has no part in that."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was saved, and what is known to be lost."""

    path: Path
    """The new log."""
    damaged: Path
    """The old one; its write-ahead log, if it had one, has `-wal` behind this name."""
    kept: Mapping[str, int]
    """Rows in the new log, by table."""
    lost_rows: Mapping[str, tuple[int, ...]]
    """Numbers of the rows that are lost, by table; what stood behind the last row that is left cannot be known."""
    lost_ids: tuple[str, ...]
    """Trajectories that are lost although their summary or the ledger still names them."""
    superseded: int
    """Rows marked as superseded because a later row has their name: the mark itself was lost."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is known to be lost."""
        return not self.lost_rows and not self.lost_ids


@dataclass(slots=True)
class _Found:
    """Rows that are whole, by table and number, and where each record may stand."""

    rows: dict[Table, dict[int, tuple[int, Sequence[Any]]]] = field(default_factory=lambda: {table: {} for table in TABLES})
    records: dict[int, list[Cell]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))


def recover(path: str | os.PathLike[str]) -> Recovery:
    """Copy every whole row of a damaged log into a new one that takes its place; the old one is kept as `<name>.damaged`.

    The file is read page by page, so a damaged header, index or inner page costs nothing, and a damaged leaf only its own rows. It
    is read into memory whole. A log of schema 1 must be opened for writing first, which brings it to the present schema.

    Args:
        path: the log; its write-ahead log is looked for beside it.

    Returns:
        What was kept and what is lost.

    Raises:
        StoreError: there is no such file, it has a writer, not one whole row was found, or the new file cannot be written; in each
            of these cases everything is as it was.
    """
    source = Path(path)
    if not source.is_file():
        raise StoreError(f"{source} must be an event log, got no such file")
    with clear_errors(source, "recovered"):
        lock = writer_lock(source)
        try:
            return _replaced(source, _found(contents(source), contents(_log_of(source)), source))
        finally:
            lock.close()


def _found(database: bytes, log: bytes, path: Path) -> _Found:
    known = page_size(database, log)
    best = _Found()
    for size in PAGE_SIZES if known is None else (known,):
        found = _scanned(Pages(database, log, size))
        best = max(best, found, key=len)
    if not len(best):
        raise StoreError(f"{path} holds no whole row of an event log, nothing was changed; restore it from a copy")
    return best


def _scanned(pages: Pages) -> _Found:
    found = _Found()
    for cell in pages.cells():
        if cell.columns == _RECORD_COLUMNS:
            found.records.setdefault(cell.row, []).append(cell)
            continue
        tables = [table for table in TABLES if len(table.columns) + 3 == cell.columns]
        if tables and (values := cell.values()):
            _, *columns, superseded, checksum = values
            for table in tables:
                if is_intact(table, cell.row, superseded, checksum, columns):
                    before = found.rows[table].get(cell.row, (0, ()))[0]
                    # A row never goes back from superseded to live: a live image beside a superseded one is an older page.
                    found.rows[table][cell.row] = (superseded | before, columns)
    return found


def _replaced(path: Path, found: _Found) -> Recovery:
    aside = path.with_name(path.name + ".recovering")
    _remove(aside)
    try:
        copy = _Copy(found)
        copy.write(aside)
        wait_for_disk(aside)
        damaged = _set_aside(path)
        os.replace(aside, path)
        wait_for_disk(path.parent)
    finally:
        _remove(aside)
    return Recovery(path, damaged, copy.kept, _gaps(found, copy.recordless), tuple(dict.fromkeys(copy.lost_ids)), copy.superseded)


def _remove(aside: Path) -> None:
    for leftover in (aside, wal_file(aside), aside.with_name(aside.name + "-shm"), lock_file(aside)):
        leftover.unlink(missing_ok=True)


def _has_log(path: Path) -> bool:
    log = wal_file(path)
    return log.exists() and log.stat().st_size > 0  # readers leave an empty one


def _second_name(path: Path) -> Path:
    """The name that a damaged file is kept under: a free one, or the one that a recovery which died gave it and its log."""
    damaged = path.with_name(path.name + ".damaged")
    number = 1
    while damaged.exists() and (_has_log(path) or not damaged.samefile(path)):
        number += 1
        damaged = path.with_name(f"{path.name}.damaged-{number}")
    return damaged


def _log_of(path: Path) -> Path:
    """Where the write-ahead log of a damaged file is."""
    return wal_file(path) if _has_log(path) else wal_file(_second_name(path))


def _set_aside(path: Path) -> Path:
    """Give the damaged file and its log second names; then the log loses its first one, so that it never meets the new file."""
    damaged = _second_name(path)
    if not damaged.exists():
        os.link(path, damaged)
    if _has_log(path):
        os.link(wal_file(path), wal_file(damaged))
    for beside in (wal_file(path), path.with_name(path.name + "-shm")):
        beside.unlink(missing_ok=True)
    return damaged


class _Copy:
    """The new log, and what could not be put into it."""

    def __init__(self, found: _Found) -> None:
        self._found = found
        self.kept: dict[str, int] = {}
        self.recordless: set[int] = set()
        self.lost_ids: list[str] = []
        self.superseded = 0

    def write(self, path: Path) -> None:
        database = Database.create(path, SCHEMA)
        try:
            with database.transaction():
                for table, rows in self._found.rows.items():
                    self._write_table(database, table, rows)
        finally:
            database.close()
        recorded = {name(v[0]) for row, (_, v) in self._found.rows[TRAJECTORIES].items() if row not in self.recordless}
        self.lost_ids += [attempt for attempt in _ended(self._found) if attempt not in recorded]

    def _write_table(self, database: Database, table: Table, rows: Mapping[int, tuple[int, Sequence[Any]]]) -> None:
        repeated = _repeated(table, rows)
        self.superseded += len(repeated)
        for row, (superseded, values) in sorted(rows.items()):
            record = _record(self._found, row) if table is TRAJECTORIES else b""
            if record is None:
                self.recordless.add(row)
                self.lost_ids.append(name(values[0]))
                continue
            mark = bool(superseded) or row in repeated
            database.write(table.insertion, stored(table, row, values, superseded=mark))
            if table is TRAJECTORIES:
                database.write(INSERT_RECORD, (row, record))
            self.kept[table.name] = self.kept.get(table.name, 0) + 1


def _record(found: _Found, row: int) -> bytes | None:
    digest = found.rows[TRAJECTORIES][row][1][-1]
    for cell in reversed(found.records.get(row, [])):
        values = cell.values()
        if values and isinstance(values[1], bytes) and sha256(values[1]).digest() == digest:
            return values[1]
    return None


def _repeated(table: Table, rows: Mapping[int, tuple[int, Sequence[Any]]]) -> set[int]:
    """Rows that claim to be live beside a later one of the same name."""
    names: dict[Any, int] = {}
    repeated = set()
    for row, (superseded, values) in sorted(rows.items()):
        key = _UNIQUE[table](values) if table in _UNIQUE else None
        if key is None or superseded:
            continue
        if key in names:
            repeated.add(names[key])
        names[key] = row
    return repeated


def _ended(found: _Found) -> Iterable[str]:
    """Attempts that left a record, as the ledger says."""
    return [name(values[0]) for superseded, values in found.rows[LEDGER].values() if not superseded and values[1] in _ENDED]


def _gaps(found: _Found, recordless: set[int]) -> dict[str, tuple[int, ...]]:
    gaps = {}
    for table, rows in found.rows.items():
        whole = rows.keys() - (recordless if table is TRAJECTORIES else set())
        missing = tuple(row for row in range(1, max(rows, default=0) + 1) if row not in whole)
        if missing:
            gaps[table.name] = missing
    return gaps
