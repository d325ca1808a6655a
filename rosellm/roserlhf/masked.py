"""Masked reductions by selection: what a mask leaves out cannot change a value or a gradient, not even NaN or infinity.

`values, mask -> sums, means, per-row sums`, and `Partial(sum, count)`, the addable form in which every statistic travels.
Multiplying by a mask is never used: 0 * inf is NaN. All sums are at least float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ArgumentError


@dataclass(frozen=True)
class Partial:
    """A sum and the count it is over, as detached 0-d tensors: add them across micro-batches and ranks, divide once at the end."""

    sum: Tensor
    """Sum of the selected values, float32 or float64."""
    count: Tensor
    """Number of selected values (or another weight), same dtype."""

    def __add__(self, other: Partial) -> Partial:
        return Partial(self.sum + other.sum, self.count + other.count)

    def mean(self) -> Tensor:
        """Return `sum / count`; NaN where nothing was counted, because an undefined mean is not 0."""
        return self.sum / self.count

    @classmethod
    def nothing(cls, like: Tensor) -> Partial:
        """Return zero of zero, on the device of `like`: a statistic that this call has no data for, so that its mean is NaN."""
        zero = torch.zeros((), dtype=torch.promote_types(like.dtype, torch.float32), device=like.device)
        return cls(zero, zero)


def named(partials: Mapping[str, Partial], names: Sequence[str], source: str) -> list[Partial]:
    """Return the partials of these names, which the output of `source` has."""
    given = partials if isinstance(partials, Mapping) else {}
    for name in names:
        if name not in given:
            raise checks.fail(ArgumentError, "partials", f"be those of {source}, with {', '.join(names)}", f"none named {name}")
    return [partials[name] for name in names]


def at_least_float32(values: Tensor) -> Tensor:
    """Upcast half precision (and integers) to float32; float32 and float64 stay."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def select(values: Tensor, mask: Tensor, fill: float = 0.0) -> Tensor:
    """Return `values` where the boolean `mask` is true and the constant `fill` elsewhere, with no gradient to what is left out.

    Forward and backward never touch the values that were left out. Apply it *before* an operation that could overflow: a selection
    after `exp` still multiplies an infinite derivative by zero in the backward pass.
    """
    return values.masked_fill(~mask, fill)


def masked_sum(values: Tensor, mask: Tensor, dim: int | None = None) -> Tensor:
    """Sum the selected values, over everything or over `dim`, in at least float32; the sum of nothing is a zero in the graph."""
    chosen = select(at_least_float32(values), mask)
    return chosen.sum() if dim is None else chosen.sum(dim)


def partial(values: Tensor, mask: Tensor) -> Partial:
    """Detached `Partial` of the selected values."""
    total = masked_sum(values.detach(), mask)
    return Partial(total, mask.sum().to(total.dtype))


def fraction(what: Tensor, among: Tensor) -> Partial:
    """Count how often one boolean holds among the positions where another does."""
    return partial(what.to(torch.float32), among)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    r"""Average the selected values.

    .. math:: \frac{\sum_t m_t x_t}{\sum_t m_t}

    An empty mask is an error: the mean of nothing is undefined, and a silent 0 hides a lost batch.

    Args:
        values: `[...]`, floating point; values where the mask is false are ignored, NaN and infinity included.
        mask: same shape, boolean or exactly 0/1.

    Returns:
        0-d tensor, float32 at least, differentiable with respect to the selected `values`.

    Raises:
        MaskError: the mask is not 0/1, or is empty (`empty mask`).
        NonFiniteError: NaN or infinity at a selected position.
        ShapeError: the shapes differ.
        DtypeError: `values` is not floating point.

    Example:
        >>> masked_mean(torch.tensor([1.0, 3.0, float("nan")]), torch.tensor([True, True, False]))
        tensor(2.)
    """
    checks.floating(values, "values")
    chosen: Tensor = checks.mask(mask, "mask")
    checks.same_shape(mask, "mask", values, "values")
    checks.selects_something(chosen, "mask")
    checks.finite(values, "values", where=chosen)
    return masked_sum(values, chosen) / chosen.sum()
