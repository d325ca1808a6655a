"""Keys and values of a few sequences: as many rows and positions as were needed so far, and rows that can be copied and moved."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_POSITIONS, _ROWS = 64, 8
"""Room is made in multiples of these, for a quarter more positions than asked, so that growing by one is rare."""


class Cache:
    """Keys and values of every layer, `[rows, K, positions, D]` each; row r, position p holds token p of sequence r.

    Nothing is allocated before it is needed. What grows is copied layer by layer, so no more than one layer is ever held twice.

    Args:
        layers, kv_heads, head_dim: of the model.
        positions: longest sequence there may be; no row ever has more.
        device, dtype: of keys and values.
    """

    def __init__(
        self, *, layers: int, kv_heads: int, head_dim: int, positions: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._limit = positions
        empty = torch.zeros(0, kv_heads, 0, head_dim, device=device, dtype=dtype)
        self.keys, self.values = [empty] * layers, [empty] * layers
        self.rows = self.positions = 0

    def reserve(self, rows: int, positions: int) -> None:
        """Make room for rows 0 … `rows` − 1 with `positions` tokens each; what is cached stays."""
        if rows <= self.rows and positions <= self.positions:
            return
        if positions > self.positions:
            self.positions = min(self._limit, _rounded(positions + positions // 4, _POSITIONS))
        self.rows = max(_rounded(rows, _ROWS), self.rows)
        for tensors in (self.keys, self.values):
            for layer, old in enumerate(tensors):
                tensors[layer] = self._grown(old)

    def _grown(self, old: Tensor) -> Tensor:
        # zeros, not rubbish: attention gives unused places the weight 0, and 0 times NaN is NaN
        new = old.new_zeros(self.rows, old.shape[1], self.positions, old.shape[3])
        new[: old.shape[0], :, : old.shape[2]] = old
        return new

    def copy(self, source: int, targets: Sequence[int], start: int, end: int) -> None:
        """Copy the tokens [start, end) of one row to others."""
        for tensor in (*self.keys, *self.values):
            tensor[list(targets), :, start:end] = tensor[source, :, start:end]

    def exchange(self, pairs: Sequence[tuple[int, int]], end: int) -> None:
        """Let the rows of each pair change places, with their tokens [0, end)."""
        there, here = [i for pair in pairs for i in pair], [i for pair in pairs for i in reversed(pair)]
        for tensor in (*self.keys, *self.values):
            tensor[there, :, :end] = tensor[here, :, :end]


def _rounded(count: int, unit: int) -> int:
    return -(-count // unit) * unit
