"""A weight matrix as the engine keeps it: in float32, in bfloat16, or in eight bits with one scale a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Matrix(Protocol):
    """`[M, N]`, applied to the last dimension of its input."""

    def load(self, parts: Sequence[Tensor]) -> None:
        """Take over new values, in place: the parts one below the other."""
        ...

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply: `[..., N]` to `[..., M]`."""
        ...


class FloatMatrix:
    """Values in the dtype of the arithmetic."""

    def __init__(self, rows: int, columns: int, device: torch.device, dtype: torch.dtype) -> None:
        self.weight = torch.empty(rows, columns, device=device, dtype=dtype)

    def load(self, parts: Sequence[Tensor]) -> None:
        """Take over new values, in place: the parts one below the other."""
        for own, part in zip(self.weight.split([len(part) for part in parts]), parts, strict=True):
            own.copy_(part)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply: `[..., N]` to `[..., M]`."""
        return F.linear(x, self.weight)


class Int8Matrix:
    r"""Integers of eight bits: :math:`W_{ij} \approx s_i q_{ij}` with :math:`s_i = \max_j |W_{ij}| / 127`, rounded half to even.

    The integers are exact in bfloat16, so the product is that of the rounded weights; the scale is applied to the result.
    """

    def __init__(self, rows: int, columns: int, device: torch.device, dtype: torch.dtype) -> None:
        self.weight = torch.empty(rows, columns, device=device, dtype=torch.int8)
        self.scales = torch.empty(rows, device=device, dtype=dtype)

    def load(self, parts: Sequence[Tensor]) -> None:
        """Take over new values, in place: the parts one below the other."""
        sizes = [len(part) for part in parts]
        for own, scales, part in zip(self.weight.split(sizes), self.scales.split(sizes), parts, strict=True):
            # the scale as it is kept is the one to divide by: rounding it must not shift a whole row
            scales.copy_(part.abs().amax(1) / 127)
            own.copy_((part / scales.to(part.dtype).clamp(min=torch.finfo(part.dtype).tiny)[:, None]).round().clamp(-127, 127))

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply: `[..., N]` to `[..., M]`."""
        return F.linear(x, self.weight.to(x.dtype)) * self.scales
