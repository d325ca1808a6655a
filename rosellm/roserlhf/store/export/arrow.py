"""Arrow schemas and batches of an export: `records or table rows -> RecordBatch`.

An Arrow string is valid Unicode and an integer has 64 bits. Where a name or number is neither, the readable column shows it
escaped, or null, and what is restored comes from the binary columns `skeleton` and `exact`, which can hold anything. This is the
one place that knows pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rosellm.roserlhf.errors import MissingExtraError
from rosellm.roserlhf.store.encoding import pack
from rosellm.roserlhf.store.export.columns import READABLE, Opened, readable
from rosellm.roserlhf.store.export.exact_json import dumps
from rosellm.roserlhf.store.export.folder import EXPORT_SCHEMA, WRITTEN_BY
from rosellm.roserlhf.store.export.outcomes import Outcome
from rosellm.roserlhf.store.export.table_rows import COUNTS, VALUES, named
from rosellm.roserlhf.store.export.token_columns import TokenColumns, TokenRows
from rosellm.roserlhf.store.export.transfer import StoredRow, record_checksum
from rosellm.roserlhf.store.tables import TRAJECTORIES, UPDATES, Table

try:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]
except ImportError as error:
    raise MissingExtraError("Parquet needs pyarrow: pip install 'rosellm[store]'", name="pyarrow") from error

ArrowError: type[Exception] = pa.ArrowException
_WIDEST = 2**63
TOKEN_BYTES, ROW_BYTES = 32, 2048
"""Memory that a token and a row take on their way, about."""
_DICTIONARY_BYTES = 4 * 2**20
"""Enough for the ids of half a million different tokens in one row group."""
_PLAIN = ("trajectory_id", "digest", "skeleton")
"""Columns whose values do not repeat."""


def listed(item: Any) -> Any:
    """Return the type of a list as Parquet names its parts."""
    return pa.list_(pa.field("element", item))


_PAIR = [pa.field("name", pa.string()), pa.field("value", pa.float64())]
_KINDS = {
    "text": pa.string(),
    "count": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
    "names": listed(pa.string()),
    "rewards": listed(pa.struct(_PAIR)),
    "turn_rewards": listed(pa.struct([pa.field("turn", pa.int64()), *_PAIR])),
    "tokens": listed(pa.struct([pa.field("reason", pa.string()), pa.field("tokens", pa.int64())])),
}
TOKENS = {
    "token_ids": listed(pa.int64()),
    "policy_mask": listed(pa.bool_()),
    "turn": listed(pa.int32()),
    "role": listed(pa.string()),
    "behaviour_logprobs": listed(pa.float64()),
}
"""Columns over the row of tokens, aligned with each other."""
RESTORED = {"digest": pa.binary(), "checksum": pa.int64(), "exact": pa.binary(), "skeleton": pa.binary()}
"""Columns from which, with token ids and log-probabilities, a record is restored."""
_ROW = {"superseded": pa.bool_(), "checksum": pa.int64(), "exact": pa.binary()}
_UPDATE = {"update": pa.int64(), "values": pa.string(), "trajectory_id": pa.string(), "current_logprobs": listed(pa.float32())}


def record_schema() -> Any:
    """Return the columns of the records."""
    return _schema(TRAJECTORIES, {**{name: _KINDS[kind] for name, kind in READABLE.items()}, **TOKENS, **RESTORED})


def written_schema() -> Any:
    """Return the columns of the records as they are written: the roles of a batch are a dictionary, which rests as strings."""
    schema = record_schema()
    place = schema.get_field_index("role")
    return schema.set(place, pa.field("role", listed(pa.dictionary(pa.int32(), pa.string()))))


def table_schema(table: Table) -> Any:
    """Return the columns of another table; msgpack values are JSON text, and an update has a row for each of its records."""
    columns = {name: pa.int64() if name in COUNTS else pa.string() for name in table.columns}
    if table is UPDATES:
        del columns["content"]
        columns.update(_UPDATE)
    return _schema(table, {**columns, **_ROW})


def _schema(table: Table, columns: dict[str, Any]) -> Any:
    about = {"rosellm.schema": str(EXPORT_SCHEMA), "rosellm.table": table.name, "rosellm.written_by": WRITTEN_BY}
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()], metadata=about)


class RecordGroup:
    """Records on their way into one batch; what was decoded of each is let go at once, which spares the garbage collector."""

    def __init__(self) -> None:
        """Hold no record."""
        self.size = 0
        """Bytes in memory, about."""
        self._tokens = TokenRows()
        self._values: list[list[Any]] = [[] for _ in (*READABLE, *RESTORED)]

    def add(self, record: Opened, outcome: Outcome | None) -> None:
        """Add a record and what the ledger says of it."""
        summary, packed = record.summary, record.packed
        checksum = record_checksum(summary.step, summary.phase, summary.superseded, record.digest)
        restored = (record.digest, checksum, _exact([summary.phase]), packed.skeleton)
        for column, value in zip(self._values, (*readable(record, outcome), *restored), strict=True):
            column.append(value)
        self._tokens.add(record)
        self.size += TOKEN_BYTES * len(packed.token_ids) + len(packed.skeleton) + ROW_BYTES

    def batch(self) -> Any:
        """Make the batch, with the columns of `written_schema`."""
        schema = written_schema()
        kinds = [schema.field(name).type for name in (*READABLE, *RESTORED)]
        values = [_array(column, kind) for column, kind in zip(self._values, kinds, strict=True)]
        count = len(READABLE)
        columns = [*values[:count], *_token_arrays(self._tokens.columns()), *values[count:]]
        return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _token_arrays(tokens: TokenColumns) -> list[Any]:
    count, offsets = len(tokens.token_ids), pa.array(tokens.offsets)
    sampled = pa.py_buffer(np.packbits(tokens.policy_mask, bitorder="little"))
    has_turn = pa.py_buffer(np.packbits(tokens.turn >= 0, bitorder="little"))
    roles = _array(tokens.roles, pa.string())
    arrays = (
        pa.array(tokens.token_ids),
        pa.Array.from_buffers(pa.bool_(), count, [None, sampled]),
        pa.Array.from_buffers(pa.int32(), count, [has_turn, pa.py_buffer(tokens.turn)]),
        pa.DictionaryArray.from_arrays(pa.array(tokens.role), roles),
        pa.Array.from_buffers(pa.float64(), count, [sampled, pa.py_buffer(tokens.behaviour_logprobs)]),
    )
    return [pa.ListArray.from_arrays(offsets, values, type=listed(values.type)) for values in arrays]


def table_batch(schema: Any, rows: Sequence[dict[str, Any]]) -> Any:
    """Make one batch of rows given by column."""
    return pa.RecordBatch.from_arrays([_array([row[f.name] for row in rows], f.type) for f in schema], names=schema.names)


def table_rows(table: Table, rows: Iterable[StoredRow]) -> Iterator[dict[str, Any]]:
    """Turn stored rows into values by column."""
    for number, (superseded, stored, checksum) in enumerate(rows):
        values = named(table, stored)
        about: dict[str, Any] = {"superseded": superseded, "checksum": checksum}
        if table is not UPDATES:
            exact = _exact([value for name, value in values.items() if name not in VALUES and name not in COUNTS])
            json = {name: dumps(value) for name, value in values.items() if name in VALUES}
            yield {**values, **json, **about, "exact": exact}
            continue
        content = values.pop("content")
        records = content.pop("rows") or [(None, b"")]  # an update of no record has a row too
        about |= {**values, "update": number, "values": dumps(content)}
        for record, logprobs in records:
            yield {**about, "trajectory_id": record, "current_logprobs": np.frombuffer(logprobs, "<f4"), "exact": _exact([record])}


def _exact(names: Sequence[str | None]) -> bytes | None:
    """Keep names that a readable column cannot hold."""
    try:
        for name in names:
            if name is not None and not name.isascii():
                name.encode()
    except UnicodeEncodeError:
        return pack(names)
    return None


def _array(values: Sequence[Any], kind: Any) -> Any:
    try:
        return pa.array(values, kind)
    except (UnicodeEncodeError, OverflowError):
        return pa.array([_shown(value) for value in values], kind)


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, (list, tuple)):
        return [_shown(item) for item in value] if isinstance(value, list) else tuple(_shown(item) for item in value)
    return None if isinstance(value, int) and not -_WIDEST <= value < _WIDEST else value


def open_writer(path: Path, schema: Any) -> Any:
    """Open a file for batches of `schema`, with the encodings of an export."""
    leaves = [leaf for field in schema for leaf in _leaves(field)]
    split = [name for name in leaves if name.endswith("logprobs.list.element")]
    writer = pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=[name for name in leaves if name not in (*_PLAIN, *split)],
        use_byte_stream_split=split,
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        write_statistics=[name for name in schema.names if name in READABLE],
        write_page_checksum=True,
        store_schema=False,
    )
    writer.add_key_value_metadata(schema.metadata)  # without Arrow's own schema, which some readers trip over, it is not kept
    return writer


def _leaves(field: Any) -> list[str]:
    """Name a field's columns as Parquet does."""
    if pa.types.is_list(field.type):
        return [f"{field.name}.list.{leaf}" for leaf in _leaves(field.type.value_field)]
    if pa.types.is_struct(field.type):
        return [f"{field.name}.{leaf}" for inner in field.type for leaf in _leaves(inner)]
    return [field.name]


def open_file(path: Path) -> Any:
    """Open a file for reading in small pieces, every page checked."""
    return pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20, page_checksum_verification=True)
