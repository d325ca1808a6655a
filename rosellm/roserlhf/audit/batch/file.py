"""A file of one training batch -> the arguments of `check_batch`: Parquet, `.npz` or safetensors, columns named as the arguments.

In Parquet a row is a rollout: per-token columns are lists, which may differ in length; they are padded on the right here and
`valid_mask` is made from their lengths. What is one value for the whole step (`temperature`, `stop_ids`) is the same in every row.
"""

from __future__ import annotations

import inspect
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.audit.batch.check_batch import check_batch
from rosellm.roserlhf.config import nearest
from rosellm.roserlhf.errors import ConfigError, ShapeError, StoreError
from rosellm.roserlhf.store.arrays import LARGEST, Column, column_names, read_columns

SUFFIXES = (".parquet", ".npz", ".safetensors")
NAMES = tuple(name for name in inspect.signature(check_batch).parameters if name != "sync")
STEP_WIDE = frozenset(
    {
        "reasoning_excluded", "current_version", "before_update", "temperature", "top_p", "gamma", "gae_lambda", "credit",
        "loss", "aggregation", "denominator", "stop_ids", "micro_batches", "role_names", "policy_roles",
    }
)  # fmt: skip
"""Arguments that are one value, or one list, for the whole step."""
NOT_PADDED = frozenset({"sampled_ids", "prompt_ids"})
"""Per-row sequences with lengths of their own."""
FILLERS: Mapping[str, Any] = {"input_ids": 0, "roles": 0}
"""What stands at padding; masks are false there, and other numbers NaN, which nothing may read."""


def read_batch(path: Path) -> dict[str, Any]:
    """Read the arguments of `check_batch` from a file; nothing in it is executed.

    Args:
        path: `.parquet`, `.npz` (without pickled objects) or `.safetensors`.

    Returns:
        Arguments by name: tensors, lists of texts, numbers.

    Raises:
        ConfigError: another kind of file, or a column that is no argument of `check_batch`; the message names the nearest.
        StoreError: the file cannot be read, is too large, or holds something else than numbers, flags and text.
        ShapeError: per-token columns of different lengths.
        MissingExtraError: Parquet, and pyarrow is not installed.
    """
    read = {".parquet": _parquet, ".npz": _npz, ".safetensors": _safetensors}.get(path.suffix.lower())
    if read is None:
        raise checks.fail(ConfigError, "batch", "be a file " + ", ".join(SUFFIXES), str(path))
    if not path.is_file():
        raise checks.fail(ConfigError, "batch", "be a file", f"{path}, {'a folder' if path.is_dir() else 'which is not there'}")
    found = read(path)
    if "action_mask" not in found:
        raise checks.fail(StoreError, "batch", "hold action_mask, the tokens in the loss", f"{path} without")
    return found


def _require_known(names: list[str]) -> None:
    for name in names:
        if name not in NAMES:
            near = nearest(name, NAMES)
            advice = f"did you mean {' or '.join(near)}?" if near else f"name columns as the arguments: {', '.join(NAMES[:7])}, …"
            raise ConfigError(f"unknown column {name!r}; {advice}")


def _parquet(path: Path) -> dict[str, Any]:
    names = list(column_names(path))
    _require_known(names)
    columns = read_columns(path, names)
    return _Padding(columns).arguments() if "action_mask" in columns else {}


class _Padding:
    """Columns of one file, laid out as `[B, T]`."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns
        lengths = columns["action_mask"].lengths
        if lengths is None:
            raise checks.fail(StoreError, "column action_mask", "hold a list per row, a value for each token", "one value per row")
        if not len(lengths):
            raise checks.fail(StoreError, "batch", "hold at least one row", "none")
        self._lengths = lengths
        self._width = int(lengths.max())
        if self._width * len(lengths) * 8 > LARGEST:
            got = f"{len(lengths):,} rows of up to {self._width:,}"
            raise checks.fail(StoreError, "batch", f"fit {LARGEST:,} bytes a column when padded", got, fix="write fewer rows")

    def arguments(self) -> dict[str, Any]:
        found = {name: self._argument(name, column) for name, column in self._columns.items()}
        if "valid_mask" not in found and len({*self._lengths.tolist()}) > 1:
            found["valid_mask"] = self._places()
        return found

    def _places(self) -> Tensor:
        return torch.arange(self._width)[None] < torch.from_numpy(self._lengths.copy())[:, None]

    def _argument(self, name: str, column: Column) -> Any:
        if name in STEP_WIDE:
            return _same_in_every_row(name, column)
        if column.lengths is None:
            return column.values if isinstance(column.values, list) else _tensor(name, column.values)
        cuts = np.cumsum(column.lengths)[:-1]
        if name in NOT_PADDED:
            parts = np.split(_numbers(name, column), cuts)
            return [part.tolist() for part in parts] if name == "sampled_ids" else _left_padded(parts)
        wrong = np.flatnonzero(column.lengths != self._lengths)
        if len(wrong):
            row = int(wrong[0])
            if (column.lengths == 1).all():  # a list of one value per row
                return _tensor(name, _numbers(name, column))
            rule = f"have as many entries as action_mask in every row ({self._lengths[row]} in row {row})"
            raise checks.fail(ShapeError, f"column {name}", rule, int(column.lengths[row]))
        if isinstance(column.values, list):
            texts = iter(column.values)
            return [[next(texts) for _ in range(n)] + ["padding"] * (self._width - n) for n in column.lengths.tolist()]
        return self._padded(name, column.values)

    def _padded(self, name: str, values: Any) -> Tensor:
        flat = _tensor(name, values)
        masked = name.endswith("_mask") or flat.dtype == torch.bool
        filler = FILLERS.get(name, 0 if masked or not flat.is_floating_point() else float("nan"))
        padded = torch.full((len(self._lengths), self._width), filler, dtype=flat.dtype)
        padded[self._places()] = flat
        return padded


def _numbers(name: str, column: Column) -> Any:
    if isinstance(column.values, list):
        raise checks.fail(StoreError, f"column {name}", "hold numbers", "text")
    return column.values


def _left_padded(parts: list[Any]) -> Tensor:
    """Prompts end where the replies begin; −1 is no id, so that a shorter prompt is never another one."""
    width = max((len(part) for part in parts), default=0)
    return torch.stack(
        [torch.from_numpy(np.pad(part.astype(np.int64), (width - len(part), 0), constant_values=-1)) for part in parts]
    )


def _same_in_every_row(name: str, column: Column) -> Any:
    values = column.values if isinstance(column.values, list) else column.values.tolist()
    if column.lengths is None:
        cells: list[Any] = values
    else:
        ends = np.cumsum(column.lengths).tolist()
        cells = [values[end - length : end] for end, length in zip(ends, column.lengths.tolist(), strict=True)]
    if any(cell != cells[0] for cell in cells):
        raise checks.fail(
            StoreError, f"column {name}", "be the same in every row: it is one for the whole step", f"{cells[:3]!r:.80}"
        )
    return cells[0]


def _tensor(name: str, array: Any) -> Tensor:
    """Turn an array of numbers into a tensor of a type that torch computes with."""
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        fix = "save numbers as float32, int64 or bool; bfloat16 needs safetensors"
        raise checks.fail(StoreError, f"array {name}", "hold numbers or flags", array.dtype, fix=fix)
    if array.dtype.kind == "u":
        if array.dtype.itemsize == 8 and array.size and int(array.max()) > 2**63 - 1:
            raise checks.fail(StoreError, f"array {name}", "fit int64", int(array.max()))
        array = array.astype(np.int64)
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))


def _npz(path: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            _require_known([member.filename.removesuffix(".npy") for member in archive.infolist()])
        if size > LARGEST:
            raise checks.fail(StoreError, "batch", f"hold at most {LARGEST:,} bytes uncompressed", f"{size:,}")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: _argument(name, arrays[name]) for name in arrays.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError, MemoryError) as error:
        if isinstance(error, (StoreError, ConfigError)):
            raise
        fix = (
            "save arrays of numbers, flags or text; objects are pickled, and pickles are not read"
            if "pickle" in str(error)
            else None
        )
        got = f"{path}: {' '.join(str(error).split())[:200]}"
        raise checks.fail(StoreError, "batch", "be a readable .npz", got, fix=fix) from error


def _argument(name: str, array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        raise checks.fail(StoreError, f"array {name}", "be an array", "something else")
    if array.dtype.kind in "US":
        return array.astype(str).tolist()
    if name in STEP_WIDE:
        return _tensor(name, array).tolist()
    return _tensor(name, array)


def _safetensors(path: Path) -> dict[str, Any]:
    if path.stat().st_size > LARGEST:
        raise checks.fail(StoreError, "batch", f"hold at most {LARGEST:,} bytes", f"{path.stat().st_size:,}")
    try:
        with safe_open(path, "pt") as file:
            said = {name: text for name, text in (file.metadata() or {}).items() if name in NAMES}
            _require_known(list(file.keys()))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
    except (OSError, SafetensorError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise checks.fail(StoreError, "batch", "be a readable .safetensors", f"{path}: {error}") from error
    found = {name: tensor.tolist() if name in STEP_WIDE else tensor for name, tensor in tensors.items()}
    return {**{name: _plain(text) for name, text in said.items()}, **found}


def _plain(text: str) -> Any:
    """Read a metadata entry: JSON, or else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
