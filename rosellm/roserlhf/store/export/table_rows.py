"""Rows of a log's tables as named plain values, and back: `stored values <-> {column: text, number or JSON value}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store.encoding import pack, unpack
from rosellm.roserlhf.store.tables import Table, name, stored_name

VALUES = ("components", "rest", "content")
"""Columns that hold JSON values (and bytes), as msgpack."""
COUNTS = ("step", "turn", "number", "sampled")
"""Columns that hold integers; all others hold names."""


def named(table: Table, stored: Sequence[Any]) -> dict[str, Any]:
    """Return a stored row's values by column."""
    return {column: unpack(value) if column in VALUES else name(value) for column, value in zip(table.columns, stored, strict=True)}


def unnamed(table: Table, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return values by column as they are stored.

    Raises:
        StoreError: a column is missing or of another type.
    """
    stored = []
    for column in table.columns:
        if column not in values:
            raise StoreError(f"a row of {table.name} must have a {column}")
        value = values[column]
        if column in VALUES:
            value = pack(value)
        elif value is not None and type(value) is not (int if column in COUNTS else str):
            raise StoreError(f"{column} must be {'an integer' if column in COUNTS else 'a name'}, got {value!r:.80}")
        stored.append(stored_name(value) if column not in VALUES else value)
    return tuple(stored)
