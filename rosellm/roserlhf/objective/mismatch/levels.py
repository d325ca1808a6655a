"""Token log-ratios -> one log-ratio per token, sequence or segment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ArgumentError, RangeError
from rosellm.roserlhf.masked import Partial, partial
from rosellm.roserlhf.objective.context import check_same_sequences, sequence_means
from rosellm.roserlhf.objective.layout import Layout, Sequences, read_sequences
from rosellm.roserlhf.objective.segments import dense, ids_per_token, segments

Level = Literal["token", "geometric_sequence", "product_sequence", "segment"]
"""Whose importance ratio is bounded."""


def sequences_of(mask: Tensor, layout: Layout, context_group: dist.ProcessGroup | None) -> Sequences:
    """Check what says which tokens are a sequence; the rest of a loss's layout does not concern a correction."""
    for name in ("rollout_ids", "horizon"):
        if layout.get(name) is not None:
            raise checks.fail(ArgumentError, name, "not be given to a correction", "a value", fix="give it to the loss")
    sequences = read_sequences(mask, layout)
    check_same_sequences(context_group, layout, sequences)
    return sequences


@dataclass(frozen=True)
class Statistic:
    """One log-ratio per unit of a level, and the ways from units to tokens and to an addable mean over units."""

    log: Tensor
    spread: Callable[[Tensor], Tensor]
    counted: Callable[[Tensor], Partial]


def statistic(
    log_ratio: Tensor,
    mask: Tensor,
    level: Level,
    sequences: Sequences,
    segment_ids: Tensor | None,
    context_group: dist.ProcessGroup | None,
) -> Statistic:
    """Reduce token log-ratios to the level."""
    if level == "token":
        return Statistic(log_ratio, lambda per_token: per_token, lambda values: partial(values, mask))
    if level == "segment":
        if context_group is not None:
            requirement = 'not be given for level="segment"'
            raise checks.fail(RangeError, "context_group", requirement, "a group", fix="a segment must lie on one rank")
        units = segments(mask, _runs(mask, sequences) if segment_ids is None else _pairs(segment_ids, mask, sequences))
    else:
        units = sequences.of(mask)
    # float64 so that sums do not depend on the order; back in the precision of the evidence, ties on a bound are met
    means = sequence_means(log_ratio.double(), units, context_group)
    log = means.mean * means.length if level == "product_sequence" else means.mean
    return Statistic(log.to(log_ratio.dtype), units.spread, lambda values: means.counted(values, means.live))


def _runs(mask: Tensor, sequences: Sequences) -> Tensor:
    """Number the runs of consecutive live tokens; a row or another sequence starts a new one."""
    starts = mask.clone()
    continues = mask[..., :-1]
    if sequences.ids is not None:
        continues = continues & (sequences.ids[..., 1:] == sequences.ids[..., :-1])
    starts[..., 1:] &= ~continues
    return (starts.flatten().cumsum(0) - 1).view(mask.shape)


def _pairs(segment_ids: Tensor, mask: Tensor, sequences: Sequences) -> Tensor:
    """Number the pairs of sequence and segment, so that ids may start anew in every sequence."""
    ids = dense(ids_per_token(segment_ids, mask, "segment_ids"))
    rows = torch.arange(mask.shape[:-1].numel(), device=mask.device).view(*mask.shape[:-1], 1).expand(mask.shape)
    return (rows if sequences.ids is None else dense(sequences.ids)) * mask.numel() + ids
