"""Rows → tensors: padded on the right, every mask from the rows' own lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.losses import KeptSupport


@dataclass(frozen=True)
class Batch:
    """B rows of T tokens; every tensor is `[B, T]`."""

    input_ids: Tensor
    """int64; 0 at padding, which causal attention never shows to a real token on its left."""
    valid_mask: Tensor
    """bool: not padding."""
    policy_mask: Tensor
    """bool: sampled here."""
    loss_mask: Tensor
    """bool: in the loss."""
    behaviour_logprobs: Tensor
    """float32, aligned to `input_ids`; 0 where `policy_mask` is False."""
    advantages: Tensor
    """float32: that of the token's rollout or turn, 0 where nothing was sampled. A row without credit is NaN, so that training on
    it cannot go unnoticed."""
    support: KeptSupport | None = None
    """What truncated sampling kept at each of the B * T places, row after row; None if nothing was truncated."""


def pad(rows: Sequence[Row], device: torch.device | str = "cpu") -> Batch:
    """Pad rows to the longest of them.

    Raises:
        RangeError: no rows.
    """
    if not rows:
        raise checks.fail(RangeError, "rows", "hold at least one row", 0)
    width = max(len(row.token_ids) for row in rows)

    def padded(column: Sequence[Sequence[float]], fill: float, dtype: torch.dtype) -> Tensor:
        return torch.tensor([[*values, *[fill] * (width - len(values))] for values in column], dtype=dtype, device=device)

    return Batch(
        padded([row.token_ids for row in rows], 0, torch.int64),
        padded([[True] * len(row.token_ids) for row in rows], False, torch.bool),
        padded([row.policy_mask for row in rows], False, torch.bool),
        padded([row.loss_mask for row in rows], False, torch.bool),
        padded([row.behaviour_logprobs for row in rows], 0.0, torch.float32),
        padded([row.token_advantages() for row in rows], 0.0, torch.float32),
        _support(rows, width, device),
    )


def _support(rows: Sequence[Row], width: int, device: torch.device | str) -> KeptSupport | None:
    """Flatten the kept ids of all places; prompts, observations and padding list none, which is the whole vocabulary."""
    if all(row.support is None for row in rows):
        return None
    counts = np.zeros((len(rows), width), dtype=np.int64)
    for row, own in zip(rows, counts, strict=True):
        own[: len(row.support or ())] = [len(kept or ()) for kept in row.support or ()]
    kept_ids = chain.from_iterable(kept for row in rows for kept in row.support or () if kept)
    ids = torch.from_numpy(np.fromiter(kept_ids, np.int64, int(counts.sum())))
    offsets = torch.from_numpy(np.concatenate([[0], counts.ravel().cumsum()]))
    return KeptSupport(ids.to(device), offsets.to(device))


def by_length(rows: Sequence[Row]) -> list[Row]:
    """Sort rows by length, ties by id, so that rows of one micro-batch waste little padding; the result never depends on it."""
    return sorted(rows, key=lambda row: (len(row.token_ids), row.trajectory_id))
