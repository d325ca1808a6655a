"""Parquet: `records <-> one row each, tokens as aligned lists`, readable by anything that reads Parquet.

zstd; dictionaries for tokens, roles, turns and names; BYTE_STREAM_SPLIT for log-probabilities; a checksum on every page; one row
group for about a million tokens. Every column is described in docs/store.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rosellm.roserlhf.store.export import arrow, parquet_reading
from rosellm.roserlhf.store.export.folder import Counts
from rosellm.roserlhf.store.export.footer import protect_footer
from rosellm.roserlhf.store.export.transfer import Exported, ReadRecord, StoredRow, export_log, import_log
from rosellm.roserlhf.store.reading import EventReader
from rosellm.roserlhf.store.tables import Table

_GROUP_BYTES = 32 * 2**20


class _Parquet:
    """The format, as a transfer sees it."""

    suffix = "parquet"
    may_be_torn = False

    def write_records(self, path: Path, records: Iterable[Exported]) -> None:
        schema = arrow.written_schema()
        write(path, schema, (group.batch() for group in record_groups(records)))

    def write_table(self, path: Path, table: Table, rows: Iterable[StoredRow]) -> None:
        schema = arrow.table_schema(table)
        write(path, schema, (arrow.table_batch(schema, group) for group in row_groups(arrow.table_rows(table, rows))))

    def read_records(self, path: Path) -> Iterator[ReadRecord]:
        return parquet_reading.read_records(path)

    def read_table(self, path: Path, table: Table) -> Iterator[StoredRow]:
        return parquet_reading.read_table(path, table)


PARQUET = _Parquet()


def export_parquet(
    log: EventReader, folder: Path, *, step: int | None = None, phase: str | None = None, overwrite: bool = False
) -> Counts:
    """Write a run's log as Parquet: `folder/trajectories.parquet`, and the other tables in `folder/tables/`.

    Streams: memory is that of a few million tokens, however long the run. The export is of one moment, even while the run goes on.

    Args:
        log: the log.
        folder: made if needed; nothing in it is replaced unless `overwrite`.
        step: only records of this step.
        phase: only records of this phase.
        overwrite: replace an earlier export.

    Returns:
        Rows and tokens.

    Raises:
        StoreError: an export is there already, the folder cannot be written, or the log is damaged.
        MissingExtraError: pyarrow is not installed.
    """
    return export_log(log, Path(folder), PARQUET, step=step, phase=phase, overwrite=overwrite)


def import_parquet(source: Path, path: Path) -> Counts:
    """Make a new log from a Parquet export; every read of it gives what the exported log gave.

    Args:
        source: the folder of an export, or its `trajectories.parquet` alone, which restores the records and nothing else.
        path: the log to make, usually `RUN/events.db`.

    Returns:
        Rows and tokens.

    Raises:
        StoreError: the source is no such export, is damaged or of a newer schema, or the log cannot be made.
        MissingExtraError: pyarrow is not installed.
    """
    return import_log(Path(source), Path(path), PARQUET)


def record_groups(records: Iterable[Exported]) -> Iterator[arrow.RecordGroup]:
    """Collect records to row groups; one record is always taken, however large."""
    group = arrow.RecordGroup()
    for record, outcome in records:
        group.add(record, outcome)
        if group.size >= _GROUP_BYTES:
            yield group
            group = arrow.RecordGroup()
    if group.size:
        yield group


def row_groups(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Collect rows of another table to row groups."""
    group: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += arrow.ROW_BYTES + 4 * len(row.get("current_logprobs", ()))
        if size >= _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def write(path: Path, schema: Any, batches: Iterable[Any]) -> None:
    """Write batches, a row group each, while the next is being made: pyarrow compresses without holding the interpreter."""
    with arrow.open_writer(path, schema) as writer, ThreadPoolExecutor(1) as thread:
        pending: Future[None] | None = None
        for batch in batches:
            if pending is not None:
                pending.result()
            pending = thread.submit(writer.write_batch, batch)
        if pending is not None:
            pending.result()
    protect_footer(path)
