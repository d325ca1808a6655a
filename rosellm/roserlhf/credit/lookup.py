"""A table by id, and the ids at every step -> the entry of each step; used for turns and for packed episodes."""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks


def look_up(table: Tensor, ids: Tensor, where: Tensor, *, ids_name: str, fix: str) -> Tensor:
    """Read the last dimension of `table` at `ids` wherever `where` is true; elsewhere, and at an id that does not exist, NaN.

    An id outside the table is an error. On an accelerator that error is raised later (`checks.raise_deferred`), and until then NaN
    stands there: an index out of range would abort the device, a clamped one would silently take another entry.

    Args:
        table: `[..., K]`, floating point, K ≥ 1.
        ids: `[..., T]`, integer.
        where: `[..., T]`, boolean.
        ids_name, fix: how the error names the ids and the way out.

    Returns:
        `[..., T]`, dtype of `table`.
    """
    size = table.shape[-1]
    checks.index(ids, ids_name, size, where, fix=fix)
    index = ids.long()
    known = where & (index >= 0) & (index < size)
    return torch.where(known, table.gather(-1, torch.where(known, index, 0)), float("nan"))
