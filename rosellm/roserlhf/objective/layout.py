"""Keyword arguments of every objective -> which tokens form a sequence: rows, or several sequences packed in a row.

| given | a sequence is | tokens |
|---|---|---|
| nothing | a row | `[B, T]` |
| `sequence_ids` | the tokens with one id, wherever they stand | any shape |
| `cu_seqlens` | tokens `cu_seqlens[i]` to `cu_seqlens[i + 1]`, as FlashAttention wants it | `[N]` or `[1, N]` |
| `position_ids` | a stretch in which the position counts up; it starts anew at 0 and with each row | any shape |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError, ShapeError
from rosellm.roserlhf.objective.segments import Segments, ids_per_token, segments


class Layout(TypedDict, total=False):
    """How tokens form sequences and rollouts: keyword arguments that every objective and `aggregate` take, all optional.

    At most one of `sequence_ids`, `cu_seqlens` and `position_ids` may be given; without any, every row is one sequence.

    Example:
        >>> loss, mask = torch.tensor([1.0, 3.0, 8.0]), torch.tensor([True, True, True])  # two sequences packed: [1, 3] and [8]
        >>> aggregate(loss, mask, aggregation="sequence_mean", cu_seqlens=torch.tensor([0, 2, 3]))  # (2 + 8) / 2
        tensor(5.)
        >>> aggregate(loss, mask, aggregation="sequence_mean", position_ids=torch.tensor([0, 1, 0]))
        tensor(5.)
        >>> aggregate(loss, mask, aggregation="sequence_mean", sequence_ids=torch.tensor([7, 7, 2]))
        tensor(5.)
    """

    sequence_ids: Tensor | None
    """Integers shaped like the tokens; equal ids are one sequence. Masked tokens may have a negative id, for padding."""
    cu_seqlens: Tensor | None
    """`[S + 1]`, integers: the boundaries of S packed sequences, from 0 to the number of tokens."""
    position_ids: Tensor | None
    """Integers shaped like the tokens: position of each token in its sequence. A 0 starts one, masked or not; a masked token with a
    negative number is padding and belongs to none. What else stands at masked tokens is not checked."""
    num_sequences: int | None
    """S, with one of the above: `sequence_ids` are then indices in [0, S), nothing is sorted, per-sequence results are `[S]`."""
    rollout_ids: Tensor | None
    """Integers shaped like the tokens or like the rows, for `aggregation="rollout"`."""
    horizon: float | None
    """Positive number, for `aggregation="horizon"` and refused elsewhere: the generation budget in tokens."""


@dataclass(frozen=True)
class Sequences:
    """A partition of the tokens into sequences, checked."""

    ids: Tensor | None
    """int64, one per token, negative for padding; None: every row is one sequence."""
    count: int | None
    """If known without reading data: `ids` are indices in [0, count)."""

    def of(self, mask: Tensor) -> Segments:
        """Return the units that the selected tokens form."""
        return segments(mask, self.ids, self.count)

    def require_same(self, other: Sequences, argument: str) -> None:
        """Require the sequences of `argument` to be these."""
        requirement, fix = "have the sequences of the left one", "give both the same layout"
        if self.ids is None or other.ids is None:
            if self.ids is not other.ids:
                got = "rows" if other.ids is None else "packed ones"
                raise checks.fail(ShapeError, argument, requirement, got, fix=fix)
            return
        here, there = self.ids, other.ids
        checks.each(argument, requirement, lambda: (there, here != there), ShapeError, fix=fix)


def read_sequences(mask: Tensor, layout: Layout, place: str = "") -> Sequences:
    """Check the arguments that say what a sequence is against the boolean token mask; `place` follows their names in errors."""
    checks.known_keywords(layout, Layout.__annotations__)
    sequence_ids, cu_seqlens, position_ids = (layout.get("sequence_ids"), layout.get("cu_seqlens"), layout.get("position_ids"))
    given = {"sequence_ids": sequence_ids, "cu_seqlens": cu_seqlens, "position_ids": position_ids}
    named = [f"{name}{place}" for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise checks.fail(
            RangeError, named[1], f"not be given together with {named[0]}", "both", fix="each says what a sequence is"
        )
    count = layout.get("num_sequences")
    if count is not None:
        checks.count(count, "num_sequences")
        if not named:
            requirement = "be given only with sequence_ids, cu_seqlens or position_ids"
            raise checks.fail(RangeError, "num_sequences", requirement, count, fix="without them every row is one sequence")
    if cu_seqlens is not None:
        return _from_boundaries(cu_seqlens, f"cu_seqlens{place}", mask, count)
    if position_ids is not None:
        return _from_positions(position_ids, f"position_ids{place}", mask, count)
    if sequence_ids is None:
        return Sequences(None, None)
    ids = ids_per_token(sequence_ids, mask, f"sequence_ids{place}")
    if count is not None:
        checks.index(ids, f"sequence_ids{place}", count, where=mask, fix="with num_sequences they are indices")
    return Sequences(ids.long(), count)


def _from_boundaries(cu_seqlens: Tensor, argument: str, mask: Tensor, count: int | None) -> Sequences:
    checks.integer(cu_seqlens, argument)
    checks.same_device(cu_seqlens, argument, mask, "action_mask")
    if mask.ndim > 2 or mask.shape[:-1].numel() != 1:
        raise checks.fail(ShapeError, argument, "be given only for packed tokens [N] or [1, N]", f"tokens {tuple(mask.shape)}")
    tokens = mask.shape[-1]
    if cu_seqlens.ndim != 1 or len(cu_seqlens) < (2 if tokens else 1):
        raise checks.fail(ShapeError, argument, "have shape [S + 1] with at least one sequence", tuple(cu_seqlens.shape))
    known = len(cu_seqlens) - 1
    if count not in (None, known):
        raise checks.fail(RangeError, "num_sequences", f"be the number of sequences in cu_seqlens ({known})", count)

    def broken() -> tuple[Tensor, Tensor]:
        bad = torch.cat([cu_seqlens[:1] != 0, cu_seqlens[1:] < cu_seqlens[:-1]])
        bad[-1] |= cu_seqlens[-1] != tokens
        return cu_seqlens, bad

    checks.each(argument, f"rise from 0 to the number of tokens ({tokens})", broken, RangeError)
    places = torch.arange(tokens, device=mask.device)
    return Sequences(torch.bucketize(places, cu_seqlens[1:].long(), right=True).view(mask.shape), known)


def _from_positions(position_ids: Tensor, argument: str, mask: Tensor, count: int | None) -> Sequences:
    checks.integer(position_ids, argument)
    checks.same_shape(position_ids, argument, mask, "action_mask")
    starts = position_ids == 0
    starts[..., :1] = position_ids[..., :1] >= 0  # a row that begins in the middle of a sequence holds the rest of it
    ids = (starts.flatten().cumsum(0) - 1).view(mask.shape).masked_fill(position_ids < 0, -1)

    def broken() -> tuple[Tensor, Tensor]:
        jumps = torch.zeros_like(mask)
        jumps[..., 1:] = ~starts[..., 1:] & (position_ids[..., 1:] != position_ids[..., :-1] + 1)
        return position_ids, (jumps | (position_ids < 0)) & mask

    checks.each(argument, "count up inside a sequence and start at 0, wherever the mask is true", broken, RangeError)
    if count is not None:
        checks.each(argument, f"start at most num_sequences={count} sequences", lambda: (position_ids, ids >= count), RangeError)
    return Sequences(ids, count)
