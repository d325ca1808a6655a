"""Tensors `[..., T]` -> their rows in pieces that a processor's cache holds; on an accelerator, or to be compiled, one piece."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

IN_CACHE = 2**18
"""Numbers per tensor and piece."""


def in_pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Flatten what is before the last dimension and yield the same rows of all tensors; contiguous ones are views.

    A result that is written into its pieces must therefore be contiguous: of another layout the pieces may be copies.
    """
    rows = [tensor.reshape(-1, tensor.shape[-1]) for tensor in tensors]
    steps = max(tensor.shape[-1] for tensor in rows)
    several = (
        max(1, IN_CACHE // steps)
        if rows[0].device.type == "cpu" and not torch.compiler.is_compiling()
        else max(1, rows[0].shape[0])
    )
    return zip(*(tensor.split(several) for tensor in rows), strict=True)
