"""Masks + ids -> which tokens belong to one unit (a sequence, a rollout), and sums over each unit.

Units are told apart by id, never by position. Everything has a static shape and nothing reads tensor data on the host, so the same
code runs on an accelerator without a stall and under `torch.compile`: ids of any value get one of at most `number of tokens` slots.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ShapeError
from rosellm.roserlhf.masked import select


@dataclass(frozen=True)
class Segments:
    """A partition of the tokens into units; the per-unit tensors below are `[units]`, or shaped like the rows without ids."""

    mask: Tensor
    """Boolean, `[..., T]`: the tokens that count."""
    slots: Tensor | None
    """Shape of the tokens, int64 in [0, units): the unit of each token. `None`: every row is one unit."""
    units: int
    """Number of slots; with ids some of them may be unused."""

    def sum(self, values: Tensor) -> Tensor:
        """Sum the selected token values of each unit."""
        chosen = select(values, self.mask)
        if self.slots is None:
            return chosen.sum(-1)
        return chosen.new_zeros(self.units).index_add(0, self.slots.flatten(), chosen.flatten())

    def lengths(self) -> Tensor:
        """Count the selected tokens of each unit, int64."""
        return self.sum(self.mask.long())

    def mean(self, values: Tensor) -> Tensor:
        """Average the selected token values of each unit; 0 for a unit without tokens, which the caller leaves out."""
        lengths = self.lengths()
        return self.sum(values) / lengths.masked_fill(lengths == 0, 1)

    def spread(self, per_unit: Tensor) -> Tensor:
        """Give every token the value of its unit, in the shape of the tokens."""
        if self.slots is None:
            return per_unit.unsqueeze(-1).expand(self.mask.shape)
        return per_unit.index_select(0, self.slots.flatten()).view(self.slots.shape)


def segments(mask: Tensor, ids: Tensor | None, units: int | None = None) -> Segments:
    """Partition tokens by integer labels, or by rows when `ids` is None; equal labels are one unit wherever they stand.

    With `units` the ids are indices in `[0, units)`, which the caller has checked; those of masked tokens are ignored.
    """
    if ids is None:
        return Segments(mask, None, mask.shape[:-1].numel())
    if units is None:
        return Segments(mask, dense(ids), ids.numel())
    slots = select(ids, mask)
    if mask.device.type != "cpu":
        # An accelerator learns of a bad id only at `checks.raise_deferred`; until then it must not write outside the sums.
        slots = slots.clamp(0, units - 1)
    return Segments(mask, slots, units)


def ids_per_token(ids: Tensor, mask: Tensor, argument: str, *, rows: bool = False) -> Tensor:
    """Require one non-negative integer per token, or per row where `rows` allows it, and return one per token.

    A negative id marks padding, so it must be masked.
    """
    checks.integer(ids, argument)
    if rows and ids.shape == mask.shape[:-1]:
        ids = ids.unsqueeze(-1).expand(mask.shape)
    if ids.shape != mask.shape:
        requirement = f"have the shape of the tokens {tuple(mask.shape)}" + (
            f" or of the rows {tuple(mask.shape[:-1])}" if rows else ""
        )
        raise checks.fail(ShapeError, argument, requirement, tuple(ids.shape))
    checks.same_device(ids, argument, mask, "action_mask")
    checks.index(ids, argument, None, where=mask)
    return ids


def dense(ids: Tensor) -> Tensor:
    """Replace arbitrary integers by their rank among the distinct ones: 0, 1, 2, ... in the same shape."""
    flat = ids.flatten().long()
    order = flat.argsort()
    ordered = flat.gather(0, order)
    ranks = ordered.diff(prepend=ordered[:1] - 1).ne(0).cumsum(0) - 1
    return torch.empty_like(flat).scatter(0, order, ranks).view(ids.shape)


def present(ids: Tensor, units: int | None = None) -> Tensor:
    """Count the distinct non-negative ids, masked tokens included, as a 0-d int64 tensor; `units` as in `segments`."""
    there = ids >= 0
    return (segments(there, ids, units).lengths() > 0).sum()
