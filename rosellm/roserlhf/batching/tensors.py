"""Rows → micro-batches → tensors: padded on the right, every mask from the rows' own lengths.

A rollout whose conversation was rewritten has several rows. Where the loss is a mean over tokens that makes no difference; where it
weighs whole rollouts, all rows of one stand in one micro-batch, and `sequence_ids` tell the objective that they are one sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

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
    sequence_ids: Tensor | None = None
    """int64: the rollout of each token, numbered within the batch, −1 at padding; None: every row is a sequence of its own."""


def pad(rows: Sequence[Row], device: torch.device | str = "cpu", *, by_rollout: bool = False) -> Batch:
    """Pad rows to the longest of them.

    Args:
        rows: of one micro-batch.
        device: where the tensors are to live.
        by_rollout: number the rollouts, so that all rows of one are one sequence.

    Raises:
        RangeError: no rows.
    """
    if not rows:
        raise checks.fail(RangeError, "rows", "hold at least one row", 0)
    width = max(len(row.token_ids) for row in rows)

    def padded(column: Sequence[Sequence[float]], fill: float, dtype: torch.dtype) -> Tensor:
        return torch.tensor([[*values, *[fill] * (width - len(values))] for values in column], dtype=dtype, device=device)

    numbers = {name: number for number, name in enumerate(dict.fromkeys(row.rollout_id for row in rows))}
    return Batch(
        padded([row.token_ids for row in rows], 0, torch.int64),
        padded([[True] * len(row.token_ids) for row in rows], False, torch.bool),
        padded([row.policy_mask for row in rows], False, torch.bool),
        padded([row.loss_mask for row in rows], False, torch.bool),
        padded([row.behaviour_logprobs for row in rows], 0.0, torch.float32),
        padded([row.token_advantages() for row in rows], 0.0, torch.float32),
        _support(rows, width, device),
        padded([[numbers[row.rollout_id]] * len(row.token_ids) for row in rows], -1, torch.int64) if by_rollout else None,
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


def by_length(rows: Iterable[Row], *, whole_rollouts: bool = False) -> list[Row]:
    """Sort rows by length, ties by id, so that rows of one micro-batch waste little padding; the result never depends on it.

    Args:
        rows: of one update.
        whole_rollouts: let the rows of a rollout follow each other, at the place of its longest.
    """
    ordered = sorted(rows, key=lambda row: (len(row.token_ids), row.trajectory_id))
    if not whole_rollouts:
        return ordered
    last = {row.rollout_id: place for place, row in enumerate(ordered)}
    return sorted(ordered, key=lambda row: last[row.rollout_id])


def micro_batches(rows: Sequence[Row], size: int, *, whole_rollouts: bool = False) -> list[list[Row]]:
    """Cut rows, in their order, into parts of `size`.

    Args:
        rows: as `by_length` orders them.
        size: rows of one part; the last may have fewer.
        whole_rollouts: cut no rollout: a part ends before one that does not fit, and holds one that is larger by itself.
    """
    units = [list(part) for _, part in groupby(rows, lambda row: row.rollout_id)] if whole_rollouts else [[row] for row in rows]
    parts: list[list[Row]] = []
    for unit in units:
        if parts and len(parts[-1]) + len(unit) <= size:
            parts[-1] += unit
        else:
            parts.append(unit)
    return parts
