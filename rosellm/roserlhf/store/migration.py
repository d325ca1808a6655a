"""From schema 1 to the present one: `tables of schema 1 -> tables of schema 2`, every record equal bit for bit.

Schema 1 kept a record as one msgpack map from field names to values, fields at their default left out, and little of it in columns.
The whole step happens inside the caller's transaction, so that a process that dies in the middle leaves a whole log of schema 1.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rosellm.roserlhf.errors import RecordError, StoreError
from rosellm.roserlhf.store.encoding import pack, pack_record, unpack
from rosellm.roserlhf.store.tables import (
    INSERT_RECORD,
    LEDGER,
    METRICS,
    POLICIES,
    SCHEMA,
    SCORES,
    TRAJECTORIES,
    Table,
    stored,
    trajectory_columns,
)
from rosellm.roserlhf.trajectory import (
    CopySpan,
    Failure,
    ParentLink,
    ParsedAction,
    ParseFailure,
    PolicyAction,
    SamplingParameters,
    TokenSpan,
    ToolCall,
    ToolResult,
    Trajectory,
    TransitionRecord,
    VersionSpan,
)

_OLD = (TRAJECTORIES, SCORES, LEDGER, POLICIES, METRICS)
_PARTS: dict[str, type] = {
    "actions": PolicyAction,
    "transitions": TransitionRecord,
    "parent": ParentLink,
    "failure": Failure,
    "parsed": ParsedAction,
    "parse_failure": ParseFailure,
    "sampling": SamplingParameters,
    "version_spans": VersionSpan,
    "results": ToolResult,
    "observation": TokenSpan,
    "calls": ToolCall,
    "failures": ParseFailure,
}
"""The class of the record, or of each record of the sequence, that a field of schema 1 holds."""

_Old = dict[str, Any]


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Turn a log of schema 1 into one of the present schema, inside the open transaction.

    Raises:
        StoreError: a row of it is damaged.
        sqlite3.Error: it cannot be written.
    """
    for (index,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").fetchall():
        connection.execute(f"DROP INDEX {index}")
    for table in _OLD:
        connection.execute(f"ALTER TABLE {table.name} RENAME TO old_{table.name}")
    for statement in filter(str.strip, SCHEMA.split(";")):
        connection.execute(statement)
    for old in _rows(connection, TRAJECTORIES, path):
        trajectory = _record(old, path)
        record = pack_record(trajectory).to_bytes()
        columns = trajectory_columns(trajectory, phase=old["phase"], step=old["step"], record=record)
        _restore(connection, TRAJECTORIES, old, columns)
        connection.execute(INSERT_RECORD, (old["row"], record))
    for table, values in _COPIED.items():
        for old in _rows(connection, table, path):
            _restore(connection, table, old, values(old))
    for table in _OLD:
        connection.execute(f"DROP TABLE old_{table.name}")


_COPIED: dict[Table, Callable[[_Old], tuple[Any, ...]]] = {
    SCORES: lambda old: (old["trajectory_id"], old["turn"], old["scorer_hash"], old["record"]),
    LEDGER: lambda old: (*(old[c] for c in ("attempt_id", "state", "step", "reason", "sampled")), _rest(old["record"])),
    POLICIES: lambda old: (old["version"], old["step"], old["parent"], old["content_hash"]),
    METRICS: lambda old: (old["phase"], old["step"], old["record"]),
}


def _rest(record: bytes) -> bytes:
    return pack({name: value for name, value in unpack(record).items() if value is not None and value != {}})


def _rows(connection: sqlite3.Connection, table: Table, path: Path) -> Iterator[_Old]:
    cursor = connection.execute(f"SELECT * FROM old_{table.name} ORDER BY row")
    names = [column[0] for column in cursor.description]
    for values in cursor:
        old = dict(zip(names, values, strict=True))
        if "record" in old and zlib.crc32(old["record"]) != old["checksum"]:
            raise StoreError(f"{path} is damaged: row {old['row']} of {table.name} does not match its checksum")
        yield old


def _restore(connection: sqlite3.Connection, table: Table, old: _Old, values: tuple[Any, ...]) -> None:
    connection.execute(table.insertion, stored(table, old["row"], values, superseded=bool(old["superseded"])))


def _record(old: _Old, path: Path) -> Trajectory:
    written = unpack(old["record"])
    try:
        record: Trajectory = _built(Trajectory, {**written, "sealed": True})
    except (RecordError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged: row {old['row']} of trajectories is no record: {error}") from error
    return record


def _built(cls: type, written: dict[str, Any]) -> Any:
    for name in written.keys() & _PARTS.keys():
        part = written[name]
        build = _PARTS[name]
        written[name] = [_built(build, p) for p in part] if isinstance(part, list) else _built(build, part)
    if "prompt" in written:
        written["prompt"] = [_built(CopySpan if "record_id" in p else TokenSpan, p) for p in written["prompt"]]
    for name in ("parsed", "parse_failure"):
        if name in written:
            written["parsed_action"] = written.pop(name)
    return cls(**written)
