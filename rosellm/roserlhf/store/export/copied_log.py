"""A log filled from an export: `rows with their checksums -> events.db`, whole or not at all.

Rows are taken as another log stored them, superseded ones too, so that every read gives what it gave there. Nothing is believed:
every row has a checksum over what is restored from it, every record is built through its constructors and compared with its digest,
and in the end every row is read once. What the log says as a whole (does the ledger balance?) is for an audit to judge, as before.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from rosellm.roserlhf.errors import RoseError, StoreError
from rosellm.roserlhf.store.database import Database
from rosellm.roserlhf.store.encoding import Packed, pack, unpack_record
from rosellm.roserlhf.store.export.folder import sync
from rosellm.roserlhf.store.reading import EventReader
from rosellm.roserlhf.store.tables import INSERT_RECORD, SCHEMA, TRAJECTORIES, Table, stored, trajectory_columns

_ROWS_PER_COMMIT = 256


def row_checksum(superseded: bool, values: Sequence[Any]) -> int:
    """Compute the CRC-32 of what is restored from an exported row."""
    return zlib.crc32(pack((superseded, *values)))


class CopiedLog:
    """A log that is being filled; use :func:`copied_log`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rows: Counter[str] = Counter()
        self._pending: list[tuple[Table, Sequence[Any], bool, bytes | None]] = []

    def add_record(self, packed: Packed, *, step: int, phase: str, superseded: bool, digest: bytes) -> None:
        """Add a record after building it.

        Raises:
            StoreError: it is not what was written, or no legal record.
        """
        record = packed.to_bytes()
        if sha256(record).digest() != digest:
            raise StoreError("it does not match its digest")
        columns = trajectory_columns(unpack_record(packed), phase=phase, step=step, record=record)
        self._pending.append((TRAJECTORIES, columns, superseded, record))
        self._write_some()

    def add(self, table: Table, values: Sequence[Any], *, superseded: bool) -> None:
        """Add a row of another table, as it was stored."""
        self._pending.append((table, values, superseded, None))
        self._write_some()

    def _write_some(self) -> None:
        if len(self._pending) >= _ROWS_PER_COMMIT:
            self.write()

    def write(self) -> None:
        """Commit what was added."""
        with self._database.transaction():
            for table, values, superseded, record in self._pending:
                row = self._rows[table.name] = self._rows[table.name] + 1
                self._database.write(table.insertion, stored(table, row, values, superseded=superseded))
                if record is not None:
                    self._database.write(INSERT_RECORD, (row, record))
        self._pending.clear()


@contextlib.contextmanager
def copied_log(path: Path) -> Iterator[CopiedLog]:
    """Make a new log; it appears under its name when the block has ended well and its rows have been checked.

    Raises:
        StoreError: the file exists, its folder cannot be written, or the rows do not belong together.
    """
    if path.exists():
        raise StoreError(f"{path} must not exist yet; name another place to import to")
    made = next((parent for parent in reversed(path.parents) if not parent.exists()), None)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".import-", dir=path.parent))
    except OSError as error:
        raise StoreError(f"{path} cannot be created: {error.strerror or error}") from error
    try:
        database = Database.create(aside / path.name, SCHEMA)
        with contextlib.closing(database):
            log = CopiedLog(database)
            yield log
            log.write()
        _check(aside / path.name)
        _put(aside / path.name, path)
    except BaseException:
        shutil.rmtree(made or aside, ignore_errors=True)
        raise
    shutil.rmtree(aside)


def _check(path: Path) -> None:
    """Read every row through its constructor."""
    try:
        with EventReader.read(path) as log:
            for rows in (log.scores, log.ledger, log.policies, log.metrics, log.updates):
                for _ in rows(include_superseded=True):
                    pass
    except RoseError as error:
        raise StoreError(f"the rows of an export must make a log, got some that do not: {error}") from error


def _put(new: Path, path: Path) -> None:
    sync(new)
    os.replace(new, path)
    sync(path.parent)
