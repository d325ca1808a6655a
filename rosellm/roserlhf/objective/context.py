"""Token log-ratios -> the mean of every sequence, also where the ranks of a context-parallel group hold parts of each.

Local means cannot be averaged: the addable form is (sum, count) per sequence, one exchange of two numbers each. What comes back is
a constant; the gradient is carried by the tokens themselves (`gspo`), so none is exchanged on the way back.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError, RangeError
from rosellm.roserlhf.masked import Partial, select
from rosellm.roserlhf.objective.aggregation import Weighing
from rosellm.roserlhf.objective.layout import Layout, Sequences
from rosellm.roserlhf.objective.segments import Segments


@dataclass(frozen=True)
class SequenceMeans:
    """One number per sequence each, detached and the same on all ranks of the group, except `share`."""

    mean: Tensor
    """Over the live tokens of the sequence, on whatever rank; 0 without any."""
    live: Tensor
    """Boolean: the sequence has a live token somewhere."""
    share: Tensor
    """Part of the sequence's live tokens that is here, 1 without a group: counts it once however many ranks it is spread over."""
    length: Tensor
    """Number of live tokens of the sequence, on whatever rank."""

    def counted(self, values: Tensor, among: Tensor) -> Partial:
        """Return the partial of one value per sequence that adds up over the ranks of the group, too."""
        weight = select(self.share, among & self.live)
        return Partial((values.detach() * weight).sum(), weight.sum())


def sequence_means(values: Tensor, units: Segments, group: dist.ProcessGroup | None) -> SequenceMeans:
    """Average token values over each sequence, with the tokens that the other ranks of `group` hold."""
    here = units.lengths().to(values.dtype)
    if group is None:
        total, lengths = units.sum(values.detach()), here
    else:
        table = torch.stack([units.sum(values.detach()).double(), here.double()])
        dist.all_reduce(table, group=group)
        total, lengths = table.to(values.dtype).unbind()
    live = lengths > 0
    divisor = lengths.masked_fill(~live, 1.0)
    return SequenceMeans(total / divisor, live, here / divisor, lengths)


def check_context(group: object, layout: Layout, how: Weighing) -> None:
    """Require what makes the sequences of the ranks the same ones, and lengths and divisors that count all ranks."""
    if group is None:
        return
    check_same_sequences(group, layout, how.sequences)
    if how.denominator is None:
        requirement = "be given with context_group"
        raise checks.fail(RangeError, "denominator", requirement, None, fix="the count of this call is that of one rank")
    per_token = isinstance(how.denominator, Tensor) and how.denominator.ndim > 0
    if how.aggregation == "sequence_mean" or (how.aggregation == "rollout" and not per_token):
        fix = 'use aggregation="rollout" with denominator from rollout_denominators, every sequence being a rollout'
        requirement = "not divide by the length of what this rank holds of a sequence, with context_group"
        raise checks.fail(RangeError, "aggregation", requirement, repr(how.aggregation), fix=fix)


def check_same_sequences(group: object, layout: Layout, sequences: Sequences) -> None:
    """Require a process group, if any, and what makes the sequences of its ranks the same ones."""
    if group is None:
        return
    if not (dist.is_available() and isinstance(group, dist.ProcessGroup)):
        got = f"{group!r:.80} ({type(group).__name__})"
        raise checks.fail(DtypeError, "context_group", "be a torch.distributed.ProcessGroup", got)
    if layout.get("position_ids") is not None:
        fix = "a part begins anywhere in a sequence, so use cu_seqlens, or sequence_ids with num_sequences"
        raise checks.fail(RangeError, "position_ids", "not be given with context_group", "both", fix=fix)
    if sequences.ids is not None and sequences.count is None:
        fix = "the ranks must mean the same sequence by the same index"
        raise checks.fail(RangeError, "num_sequences", "be given with sequence_ids and context_group", None, fix=fix)
