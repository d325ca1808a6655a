"""Reading a Parquet export: `file -> batches -> records and table rows`, in the memory of one small batch.

A file is judged by its footer before a page of it is read: who wrote it, its columns and their types, and how large it says it is,
since a few bytes of Parquet can stand for billions of values.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.record.plain import shown
from rosellm.roserlhf.store.encoding import Packed, unpack
from rosellm.roserlhf.store.export import arrow
from rosellm.roserlhf.store.export.exact_json import loads
from rosellm.roserlhf.store.export.folder import require_schema
from rosellm.roserlhf.store.export.footer import check_footer
from rosellm.roserlhf.store.export.table_rows import COUNTS, VALUES, unnamed
from rosellm.roserlhf.store.export.transfer import ReadRecord, StoredRow
from rosellm.roserlhf.store.tables import TRAJECTORIES, UPDATES, Table

_MOST_VALUES = 2**26
"""Of one column in one row group: 64 times what a row group is written with."""
_MOST_BYTES = 2**31
_ROWS = 64
_NEEDED = ("step", "phase", "superseded", "token_ids", "behaviour_logprobs", *arrow.RESTORED)


def scan_parquet(path: str | PathLike[str], columns: Sequence[str] | None = None, *, rows: int = _ROWS) -> Iterator[Any]:
    """Read the records of an export in bounded memory, as a stream of `pyarrow.RecordBatch`.

    Args:
        path: the file `trajectories.parquet`.
        columns: names of columns; None for all.
        rows: records in a batch, at most.

    Raises:
        StoreError: it is no such file, or is damaged, of a newer schema, or larger than any export.
    """
    return _batches(Path(path), TRAJECTORIES, arrow.record_schema(), columns, rows)


def read_records(path: Path) -> Iterator[ReadRecord]:
    """Read what is restored of every record."""
    places = [name for name in _NEEDED if name not in arrow.TOKENS]
    for batch in _batches(path, TRAJECTORIES, arrow.record_schema(), _NEEDED, _ROWS):
        ids, logprobs = batch.column("token_ids"), batch.column("behaviour_logprobs")
        for i, row in enumerate(batch.select(places).to_pylist()):
            with _clear_errors(path):
                exact = row.pop("exact")
                if None in row.values():
                    raise StoreError(f"{path} must have a value in each of {', '.join(row)}, got {shown(row)}")
                packed = Packed(row["skeleton"], _narrow_ids(ids, i), _narrow_logprobs(logprobs, i))
                phase = row["phase"] if exact is None else unpack(exact)[0]
                record = ReadRecord(packed, row["step"], phase, row["superseded"], row["digest"], row["checksum"])
            yield record


def read_table(path: Path, table: Table) -> Iterator[StoredRow]:
    """Read the rows of another table as they were stored."""
    rows = _rows(path, table)
    for values in _whole_updates(path, rows) if table is UPDATES else rows:
        with _clear_errors(path):
            row = values["superseded"], unnamed(table, values), values["checksum"]
        yield row


def _rows(path: Path, table: Table) -> Iterator[dict[str, Any]]:
    names = [c for c in table.columns if c not in VALUES and c not in COUNTS] or ["trajectory_id"]
    for batch in _batches(path, table, arrow.table_schema(table), None, _ROWS):
        logprobs = batch.column("current_logprobs") if table is UPDATES else None
        for i, values in enumerate((batch.drop_columns(["current_logprobs"]) if logprobs else batch).to_pylist()):
            with _clear_errors(path):
                if values["exact"] is not None:
                    values.update(zip(names, unpack(values["exact"]), strict=True))
                values.update({name: loads(values[name]) for name in VALUES if name in values})
                if logprobs is not None:
                    values["current_logprobs"] = _list(logprobs, i).to_numpy(zero_copy_only=False).astype("<f4").tobytes()
            yield values


def _whole_updates(path: Path, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Put the rows of an update together again."""
    for _, parts in groupby(rows, itemgetter("update")):
        with _clear_errors(path):
            records = list(parts)
            first = records[0]
            pairs = [(row["trajectory_id"], row["current_logprobs"]) for row in records if row["trajectory_id"] is not None]
            whole = {**first, "content": {**loads(first["values"]), "rows": pairs}}
        yield whole


def _batches(path: Path, table: Table, schema: Any, columns: Sequence[str] | None, rows: int) -> Iterator[Any]:
    with _clear_errors(path):
        check_footer(path)
        file = arrow.open_file(path)
    with file, _clear_errors(path):
        _check(path, table, file, schema, schema.names if columns is None else columns)
        yield from file.iter_batches(rows, columns=None if columns is None else list(columns))


def _check(path: Path, table: Table, file: Any, schema: Any, columns: Sequence[str]) -> None:
    about: Mapping[bytes, bytes] = file.metadata.metadata or {}
    found = about.get(b"rosellm.table", b"").decode("utf-8", "replace")
    if found != table.name:
        raise StoreError(f"{path} must hold an export's {table.name}, got {found or 'Parquet of another program'}")
    version = about.get(b"rosellm.schema", b"")
    require_schema(int(version) if version.isdigit() else version, path)
    for name in columns:
        wanted = schema.field(name).type if name in schema.names else None
        place = file.schema_arrow.get_field_index(name)
        if wanted is None or place < 0 or file.schema_arrow.field(place).type != wanted:
            got = "none" if place < 0 else str(file.schema_arrow.field(place).type)
            raise StoreError(f"{path} must have a column {name} of type {wanted or 'that an export has'}, got {got}")
    for i in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(i)
        values = max(group.column(j).num_values for j in range(group.num_columns))
        if values > _MOST_VALUES or group.total_byte_size > _MOST_BYTES:
            raise StoreError(
                f"{path} must have row groups of at most {_MOST_VALUES} values and {_MOST_BYTES} bytes, "
                f"got {values} values and {group.total_byte_size} bytes"
            )


@contextlib.contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (arrow.ArrowError, OSError, ValueError, TypeError, LookupError, AttributeError, MemoryError) as error:
        message = " ".join(str(error).split())
        raise StoreError(f"{path} cannot be read as Parquet: {message:.300}") from error


def _list(column: Any, row: int) -> Any:
    found = column[row].values
    if found is None:
        raise StoreError("a list of tokens must not be null")
    return found


def _narrow_ids(column: Any, row: int) -> array[int]:
    """Return ids as they are packed: in the narrowest type, the widest where -1 stands for one that fits none."""
    ids = _list(column, row)
    if ids.null_count:
        raise StoreError("token_ids must hold no null")
    wide = ids.to_numpy()
    low, high = (int(wide.min()), int(wide.max())) if len(wide) else (0, 0)
    typecode = "q" if low < 0 or high >= 2**31 else "i" if high >= 2**16 else "H"
    return array(typecode, wide.astype(typecode).tobytes())


def _narrow_logprobs(column: Any, row: int) -> array[float]:
    """Return the log-probabilities that are not null as they are packed: float32 where that is exact."""
    wide = _list(column, row).drop_null().to_numpy()
    with np.errstate(all="ignore"):
        narrow = wide.astype(np.float32)
    return array("f", narrow.tobytes()) if (narrow == wide).all() else array("d", wide.tobytes())
