"""Columns of a Parquet file as arrays: `file -> {name: Column}`, read whole, within bounds that are checked before anything is.

A cell is one value or a list of values; lists of different lengths come back flat, with their lengths.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.errors import MissingExtraError, StoreError

LARGEST = 4 * 2**30
"""Bytes that the columns of one file may hold, uncompressed."""


@dataclass(frozen=True)
class Column:
    """One column."""

    values: NDArray[Any] | list[str | None]
    """One entry per row, or the entries of all lists one after the other; missing numbers are NaN."""
    lengths: NDArray[Any] | None = None
    """int64, entries of each row's list; None where a cell is one value."""


def column_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the names of a Parquet file's columns, from its footer alone.

    Raises:
        StoreError: the file cannot be read.
        MissingExtraError: pyarrow is not installed.
    """
    return tuple(_open(Path(path)).schema_arrow.names)


def read_columns(path: str | os.PathLike[str], names: Sequence[str]) -> dict[str, Column]:
    """Read columns of a Parquet file.

    Args:
        path: the file.
        names: columns to read.

    Returns:
        One column per name; numbers in the type they were stored in (integers with missing cells become float64).

    Raises:
        StoreError: the file cannot be read, holds more than `LARGEST` bytes, or a column is neither numbers, flags nor text, or
            lists of them, or misses a value where only text or floating point can say so.
        MissingExtraError: pyarrow is not installed.
    """
    place = Path(path)
    file = _open(place)
    groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
    if size > LARGEST:
        raise StoreError(f"{place} must hold at most {LARGEST:,} bytes uncompressed, got {size:,}; write fewer rows to one file")
    try:
        table = file.read(columns=list(names), use_threads=False)
        return {name: _column(name, table.column(name)) for name in names}
    except (OSError, ValueError, KeyError, NotImplementedError, MemoryError) as error:
        raise StoreError(f"{place} cannot be read: {' '.join(str(error).split())[:200]}") from error


def _open(path: Path) -> Any:
    try:
        import pyarrow.parquet as parquet  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise MissingExtraError("Parquet needs pyarrow: pip install 'rosellm[store]'", name="pyarrow") from error
    if not path.is_file():
        raise fail(StoreError, "file", "be a Parquet file", f"{path}, {'a folder' if path.is_dir() else 'which is not there'}")
    try:
        return parquet.ParquetFile(path, memory_map=False)
    except (OSError, ValueError, NotImplementedError) as error:
        raise StoreError(f"{path} cannot be read as Parquet: {' '.join(str(error).split())[:200]}") from error


def _column(name: str, chunked: Any) -> Column:
    import pyarrow as arrow

    array = chunked.combine_chunks()
    if isinstance(array, arrow.ChunkedArray):  # of no row at all
        array = arrow.concat_arrays(array.chunks) if array.num_chunks else arrow.array([], array.type)
    kind = array.type
    if arrow.types.is_fixed_size_list(kind):
        array = array.cast(arrow.list_(kind.value_type))
    if arrow.types.is_list(array.type) or arrow.types.is_large_list(array.type):
        if array.null_count:
            raise fail(StoreError, f"column {name}", "have a list in every row", f"{array.null_count} missing")
        offsets = array.offsets.to_numpy()
        return Column(_values(name, array.flatten()), offsets[1:].astype("int64") - offsets[:-1].astype("int64"))
    return Column(_values(name, array))


def _values(name: str, array: Any) -> NDArray[Any] | list[str | None]:
    import pyarrow as arrow

    if arrow.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if arrow.types.is_string(kind) or arrow.types.is_large_string(kind):
        texts: list[str | None] = array.to_pylist()
        return texts
    if not (arrow.types.is_integer(kind) or arrow.types.is_floating(kind) or arrow.types.is_boolean(kind)):
        raise fail(StoreError, f"column {name}", "hold numbers, flags or text, or lists of them", str(kind))
    if array.null_count and not arrow.types.is_floating(kind):
        array = array.cast(arrow.float64(), safe=False)
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values
