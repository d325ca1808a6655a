"""JSON lines: `records <-> one line each`, strict JSON that shows everything; see :mod:`rosellm.roserlhf.store.export.exact_json`.

A line is whole by itself, so files can be cut and joined by lines. A last line that was torn off is skipped and counted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rosellm.roserlhf.errors import RoseError, StoreError
from rosellm.roserlhf.record.plain import shown
from rosellm.roserlhf.store.encoding import pack_record, unpack_record
from rosellm.roserlhf.store.export.columns import READABLE, readable
from rosellm.roserlhf.store.export.exact_json import dumps, loads
from rosellm.roserlhf.store.export.folder import EXPORT_SCHEMA, Counts, require_schema
from rosellm.roserlhf.store.export.named_record import from_named, to_named
from rosellm.roserlhf.store.export.table_rows import named, unnamed
from rosellm.roserlhf.store.export.transfer import Exported, ReadRecord, StoredRow, export_log, import_log, record_checksum
from rosellm.roserlhf.store.reading import EventReader
from rosellm.roserlhf.store.tables import TRAJECTORIES, Table

_LONGEST_LINE = 2**30


class _Lines:
    """The format, as a transfer sees it."""

    suffix = "jsonl"
    may_be_torn = True

    def write_records(self, path: Path, records: Iterable[Exported]) -> None:
        _write(path, TRAJECTORIES, map(_record_line, records))

    def write_table(self, path: Path, table: Table, rows: Iterable[StoredRow]) -> None:
        lines = ({**named(table, values), "superseded": superseded, "checksum": check} for superseded, values, check in rows)
        _write(path, table, lines)

    def read_records(self, path: Path) -> Iterator[ReadRecord]:
        for number, line in _read(path, TRAJECTORIES):
            try:
                record = _read_record(line)
            except (LookupError, TypeError, ValueError, RoseError) as error:
                raise StoreError(f"{path} line {number} must be a record, got {error!r:.300}") from error
            yield record

    def read_table(self, path: Path, table: Table) -> Iterator[StoredRow]:
        for number, line in _read(path, table):
            try:
                row = _flag(line["superseded"]), unnamed(table, line), _count(line["checksum"])
            except (LookupError, TypeError, ValueError, RoseError) as error:
                raise StoreError(f"{path} line {number} must be a row of {table.name}, got {error!r:.300}") from error
            yield row


LINES = _Lines()


def export_jsonl(
    log: EventReader, folder: Path, *, step: int | None = None, phase: str | None = None, overwrite: bool = False
) -> Counts:
    """Write a run's log as JSON lines: `folder/trajectories.jsonl`, and the other tables in `folder/tables/`.

    The arguments, the result and the errors are those of :func:`~rosellm.roserlhf.store.export.parquet.export_parquet`.
    """
    return export_log(log, Path(folder), LINES, step=step, phase=phase, overwrite=overwrite)


def import_jsonl(source: Path, path: Path) -> Counts:
    """Make a new log from an export as JSON lines, or from its `trajectories.jsonl` alone.

    The arguments and errors are those of :func:`~rosellm.roserlhf.store.export.parquet.import_parquet`. Lines lost at the end of a
    file are counted in `Counts.lost`.
    """
    return import_log(Path(source), Path(path), LINES)


def _record_line(exported: Exported) -> dict[str, Any]:
    record, outcome = exported
    values = dict(zip(READABLE, readable(record, outcome), strict=True))
    values["rewards"], values["excluded_tokens"] = dict(values["rewards"]), dict(values["excluded_tokens"])
    del values["turn_rewards"]  # they stand in the record
    checksum = record_checksum(record.summary.step, record.summary.phase, record.summary.superseded, record.digest)
    whole = to_named(unpack_record(record.packed))
    return {**values, "digest": record.digest.hex(), "checksum": checksum, "trajectory": whole}


def _read_record(line: Mapping[str, Any]) -> ReadRecord:
    return ReadRecord(
        pack_record(from_named(line["trajectory"])),
        _count(line["step"]),
        line["phase"],
        _flag(line["superseded"]),
        bytes.fromhex(line["digest"]),
        _count(line["checksum"]),
    )


def _write(path: Path, table: Table, lines: Iterable[Mapping[str, Any]]) -> None:
    about = {"schema": EXPORT_SCHEMA, "table": table.name}
    with path.open("w", encoding="ascii", newline="\n") as file:
        for line in lines:
            file.write(dumps({**about, **line}) + "\n")


def _read(path: Path, table: Table) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), start=1):
                values = _line(path, table, number, line)
                if values is not None:
                    yield number, values
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error


def _line(path: Path, table: Table, number: int, line: bytes) -> Mapping[str, Any] | None:
    if len(line) == _LONGEST_LINE:
        raise StoreError(f"{path} line {number} must be shorter than {_LONGEST_LINE} bytes")
    try:
        values = loads(line)
    except StoreError as error:
        if line.endswith(b"\n"):
            raise StoreError(f"{path} line {number} is damaged: {error}") from error
        warnings.warn(f"{path} ends in the middle of line {number}: that line is skipped", RuntimeWarning, stacklevel=2)
        return None
    if not isinstance(values, Mapping) or values.get("table") != table.name:
        raise StoreError(f"{path} line {number} must be a row of an export's {table.name}, got {shown(values)}")
    require_schema(values.get("schema"), path)
    return values


def _count(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{shown(value)} where an integer belongs")
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError(f"{shown(value)} where true or false belongs")
    return value
