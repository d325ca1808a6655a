"""Flags `[B, T]` as tensors, on whatever device: made, and counted per row."""

from __future__ import annotations

import torch
from torch import Tensor


def count(flags: Tensor) -> Tensor:
    """Count per row."""
    return flags.view(torch.uint8).sum(1, dtype=torch.int32)


def below_zero(values: Tensor) -> Tensor:
    """`values < 0`, in the way that is vectorised on a CPU; NaN is not below 0."""
    return values.clone().lt_(0).to(torch.bool)


def is_one_of(codes: Tensor, wanted: tuple[int, ...]) -> Tensor:
    """`isin` for a handful of values, without its sort."""
    found = codes == wanted[0] if wanted else torch.zeros_like(codes, dtype=torch.bool)
    for code in wanted[1:]:
        found |= codes == code
    return found
