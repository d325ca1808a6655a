"""Numbers and dense ids -> counts, sums, ranges, means and deviations of each group, in any order and of any size.

Rows are the last dimension, `[..., N]`; ids are `[N]`, dense as `identifiers.integer_ids` makes them. Sums are float64 (float32 on
devices without it) and measured from the smallest value of the group: a uniform group consists of zeros and has no rounding to
show, and large values do not overflow. There is no loop over rows or groups; on the CPU rows are read in blocks, because the memory
for intermediate results of a whole batch costs more time than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.identifiers import blocks, number_of_groups

StdKind = Literal["population", "sample"]
"""Which standard deviation: divisor n, or n - 1."""


@dataclass(frozen=True)
class GroupStatistics:
    """What is known of each group over its selected members; groups are the last dimension, `[..., G]`."""

    values: Tensor
    """`[..., N]` as they were given."""
    ids: Tensor
    """`[N]` int64, the group of each row."""
    selected: Tensor | None
    """`[N]` boolean: the row is selected; None: every row is."""
    count: Tensor
    """`[G]` int64, selected members; 0 for a group that has none."""
    low: Tensor
    """`[..., G]` smallest value; 0 where nothing is selected."""
    high: Tensor
    """`[..., G]` largest value; 0 where nothing is selected."""
    uniform: Tensor
    """`[..., G]` boolean: largest = smallest, so the group cannot tell its members apart; true where nothing is selected."""
    mean_above_low: Tensor
    """`[..., G]` mean distance of the values from the smallest of their group."""

    @property
    def where(self) -> Tensor:
        """`[N]` boolean: the row is selected."""
        return torch.ones_like(self.ids, dtype=torch.bool) if self.selected is None else self.selected

    @property
    def mean(self) -> Tensor:
        """`[..., G]` mean; 0 where nothing is selected."""
        return self.low + self.mean_above_low

    @property
    def spread(self) -> Tensor:
        """`[..., G]` largest minus smallest value."""
        return self.high - self.low

    @property
    def above_low(self) -> Tensor:
        """`[..., N]` distance of each value from the smallest of its group; 0 where the row is not selected."""
        return self._rows(lambda values, ids, where: _above(self.low, values, ids, where))

    def centred(self, out: Tensor | None = None) -> Tensor:
        """`[..., N]` distance of each value from the mean of its group; exactly 0 in a uniform group and where not selected."""
        return self._rows(self._centred, out)

    def of_rows(self, per_group: Tensor) -> Tensor:
        """Give every row the entry of its group: `[..., G]` -> `[..., N]`."""
        return per_group.index_select(-1, self.ids)

    def deviation(self, std: StdKind = "population") -> Tensor:
        """`[..., G]` standard deviation; exactly 0 where the group is uniform or has one member."""
        return self.spread * self._in_spreads(std)[1]

    def standardized(self, std: StdKind = "population", eps: float = 0.0, out: Tensor | None = None) -> Tensor:
        """`[..., N]` distance from the mean over (deviation + eps); exactly 0 in a uniform group, whatever `eps` is.

        Written to `out` if it is given, which may be the memory of `values`.
        """
        distance, deviation, spread = self._in_spreads(std, out)
        scale = deviation.add_(spread.reciprocal_().mul_(eps)).masked_fill_(self.uniform, 1.0)
        for part, ids in zip(distance.split(blocks(self.ids), -1), self.ids.split(blocks(self.ids)), strict=True):
            part.div_(scale.index_select(-1, ids))
        return distance

    def _centred(self, values: Tensor, ids: Tensor, where: Tensor | None) -> Tensor:
        return _select(_above(self.low, values, ids, where) - self.mean_above_low.index_select(-1, ids), where)

    def _in_spreads(self, std: StdKind, out: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Distances from the mean, deviations, and their unit: the spread, or 1. Squares then neither overflow nor vanish."""
        unit, squares = self.spread.masked_fill_(self.uniform, 1.0), torch.zeros_like(self.low)

        def measure(values: Tensor, ids: Tensor, where: Tensor | None) -> Tensor:
            distance = self._centred(values, ids, where).div_(unit.index_select(-1, ids))
            squares.index_add_(-1, ids, distance.square())
            return distance

        distance = self._rows(measure, out)
        free = self.count if std == "population" else self.count - 1
        return distance, squares.div_(free.clamp(min=1)).sqrt_(), unit

    def _rows(self, of_block: Callable[[Tensor, Tensor, Tensor | None], Tensor], out: Tensor | None = None) -> Tensor:
        result = torch.empty(self.values.shape, dtype=self.low.dtype, device=self.values.device) if out is None else out
        parts = result.split(blocks(self.ids), -1)
        for part, block in zip(parts, _in_blocks(self.values, self.ids, self.selected), strict=True):
            part.copy_(of_block(*block))
        return result


def group_statistics(values: Tensor, ids: Tensor, where: Tensor | None = None, groups: int | None = None) -> GroupStatistics:
    r"""Collect the statistics of every group.

    Args:
        values: `[..., N]`, floating point; what `where` leaves out is never read, NaN included.
        ids: `[N]`, dense integer ids on the device of `values`.
        where: `[N]`, boolean; None selects every row.
        groups: G, if known; else the largest id plus one.

    Returns:
        The statistics, in float64 where the device has it.

    Example:
        >>> from rosellm.roserlhf.credit.statistics import group_statistics
        >>> found = group_statistics(torch.tensor([1.0, 5.0, 3.0]), torch.tensor([0, 1, 0]))  # groups {1, 3} and {5}
        >>> found.mean, found.deviation(), found.uniform
        (tensor([2., 5.], dtype=torch.float64), tensor([1., 0.], dtype=torch.float64), tensor([False,  True]))
    """
    size = number_of_groups(ids) if groups is None else groups
    count = group_count(ids, size, where)
    low, high = group_range(values, ids, size, where)
    total = torch.zeros_like(low)
    for numbers, members, chosen in _in_blocks(values, ids, where):
        total.index_add_(-1, members, _above(low, numbers, members, chosen))
    return GroupStatistics(values, ids, where, count, low, high, high == low, total.div_(count.clamp(min=1)))


def group_count(ids: Tensor, groups: int, where: Tensor | None = None) -> Tensor:
    """Count the selected members of each group, `[G]` int64."""
    count = ids.new_zeros(groups, dtype=torch.int64)
    for place, members in enumerate(ids.split(blocks(ids))):
        ones = torch.ones_like(members) if where is None else where.split(blocks(ids))[place].to(torch.int64)
        count.index_add_(0, members, ones)
    return count


def group_sum(values: Tensor, ids: Tensor, groups: int, where: Tensor | None = None) -> Tensor:
    """Add up the selected values of each group, `[..., N]` -> `[..., G]`, float64 where the device has it."""
    total = values.new_zeros(*values.shape[:-1], groups, dtype=accumulator(values))
    for numbers, members, chosen in _in_blocks(values, ids, where):
        total.index_add_(-1, members, _select(numbers, chosen))
    return total


def group_range(values: Tensor, ids: Tensor, groups: int, where: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the smallest and the largest selected value of each group, `[..., N]` -> two `[..., G]`; 0 where there is none."""
    dtype = accumulator(values)
    limit = torch.iinfo(_INTEGER[dtype])
    shape = (*values.shape[:-1], groups)
    low, high = (values.new_full(shape, start, dtype=_INTEGER[dtype]) for start in (limit.max, limit.min))
    for numbers, members, chosen in _in_blocks(values, ids, where):
        # compared as integers of the same order, which is several times faster than as floating-point numbers that may be NaN
        rank, index = _flip_negative(numbers.view(_INTEGER[dtype])), members.expand(numbers.shape)
        low.scatter_reduce_(-1, index, rank if chosen is None else torch.where(chosen, rank, limit.max), "amin")
        high.scatter_reduce_(-1, index, rank if chosen is None else torch.where(chosen, rank, limit.min), "amax")
    nobody = low > high
    low, high = (torch.where(nobody, 0.0, _flip_negative(bound).view(dtype)) for bound in (low, high))
    return low, high


def check_std(std: str) -> None:
    """Require the name of a standard deviation."""
    checks.one_of(std, "std", ("population", "sample"))


_INTEGER = {torch.float32: torch.int32, torch.float64: torch.int64}


def accumulator(values: Tensor) -> torch.dtype:
    """Return the type in which sums are taken: float64 where the device has it."""
    return torch.float32 if values.device.type == "mps" else torch.float64


def _in_blocks(values: Tensor, ids: Tensor, where: Tensor | None) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    size, dtype = blocks(ids), accumulator(values)
    masks = [None] * -(-len(ids) // size) if where is None else where.split(size)
    for numbers, members, chosen in zip(values.split(size, -1), ids.split(size), masks or [None], strict=True):
        yield numbers.to(dtype), members, chosen


def _above(low: Tensor, values: Tensor, ids: Tensor, where: Tensor | None) -> Tensor:
    return _select(values - low.index_select(-1, ids), where)


def _select(values: Tensor, where: Tensor | None) -> Tensor:
    return values if where is None else torch.where(where, values, 0.0)


def _flip_negative(bits: Tensor) -> Tensor:
    """Turn the bits of floating-point numbers into integers of the same order, and back: below zero, larger bits are smaller."""
    return (bits >> (8 * bits.itemsize - 1)).bitwise_and_(torch.iinfo(bits.dtype).max).bitwise_xor_(bits)
