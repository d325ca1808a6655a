"""Tensors `[..., T]` -> their rows in pieces that a processor's cache holds; on an accelerator one piece: it wants them all."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

IN_CACHE = 2**18
"""Numbers per tensor and piece."""


def in_pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Flatten what is before the last dimension and yield the same rows of all tensors; contiguous ones are views."""
    rows = [tensor.reshape(-1, tensor.shape[-1]) for tensor in tensors]
    steps = max(tensor.shape[-1] for tensor in rows)
    several = max(1, IN_CACHE // steps) if rows[0].device.type == "cpu" else max(1, rows[0].shape[0])
    return zip(*(tensor.split(several) for tensor in rows), strict=True)
