"""Numbers and dense ids -> counts, sums, ranges, means and deviations of each group, in any order and of any size.

Rows are the last dimension, `[..., N]`; ids are `[N]`, dense as `identifiers.integer_ids` makes them. Sums are float64 (float32 on
devices without it) and measured from the smallest value of the group: a uniform group consists of zeros and has no rounding to
show, and large values do not overflow. There is no loop over rows or groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.identifiers import number_of_groups

StdKind = Literal["population", "sample"]
"""Which standard deviation: divisor n, or n - 1."""


@dataclass(frozen=True)
class GroupStatistics:
    """What is known of each group over its selected members; groups are the last dimension, `[..., G]`."""

    ids: Tensor
    """`[N]` int64, the group of each row."""
    where: Tensor
    """`[N]` boolean: the row is selected."""
    count: Tensor
    """`[G]` int64, selected members; 0 for a group that has none."""
    low: Tensor
    """`[..., G]` smallest value; 0 where nothing is selected."""
    high: Tensor
    """`[..., G]` largest value; 0 where nothing is selected."""
    uniform: Tensor
    """`[..., G]` boolean: largest = smallest, so the group cannot tell its members apart; true where nothing is selected."""
    above_low: Tensor
    """`[..., N]` distance of each value from the smallest of its group; 0 where the row is not selected."""
    mean_above_low: Tensor
    """`[..., G]` mean of those distances."""
    centred: Tensor
    """`[..., N]` distance of each value from the mean of its group; exactly 0 in a uniform group and where not selected."""

    @property
    def mean(self) -> Tensor:
        """`[..., G]` mean; 0 where nothing is selected."""
        return self.low + self.mean_above_low

    @property
    def spread(self) -> Tensor:
        """`[..., G]` largest minus smallest value."""
        return self.high - self.low

    def of_rows(self, per_group: Tensor) -> Tensor:
        """Give every row the entry of its group: `[..., G]` -> `[..., N]`."""
        return per_group.index_select(-1, self.ids)

    def deviation(self, std: StdKind = "population") -> Tensor:
        """`[..., G]` standard deviation; exactly 0 where the group is uniform or has one member."""
        return self.spread * self._in_spreads(std)[1]

    def standardized(self, std: StdKind = "population", eps: float = 0.0) -> Tensor:
        """`[..., N]` distance from the mean over (deviation + eps); exactly 0 in a uniform group, whatever `eps` is."""
        distance, deviation = self._in_spreads(std)
        scale = torch.where(self.uniform, 1.0, deviation + eps / self.spread)
        return distance / self.of_rows(scale)

    def _in_spreads(self, std: StdKind) -> tuple[Tensor, Tensor]:
        """Distance from the mean and deviation with the spread as their unit: squares in [0, 1] neither overflow nor vanish."""
        distance = self.centred / self.of_rows(torch.where(self.uniform, 1.0, self.spread))
        squares = group_sum(distance.square(), self.ids, len(self.count))
        free = self.count if std == "population" else self.count - 1
        return distance, (squares / free.clamp(min=1)).sqrt()


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
    work = values.to(_accumulator(values))
    count = group_count(ids, size, where)
    low, high = group_range(work, ids, size, where)
    above_low = _select(work - low.index_select(-1, ids), where)
    mean_above_low = group_sum(above_low, ids, size) / count.clamp(min=1)
    centred = _select(above_low - mean_above_low.index_select(-1, ids), where)
    chosen = torch.ones_like(ids, dtype=torch.bool) if where is None else where
    return GroupStatistics(ids, chosen, count, low, high, high == low, above_low, mean_above_low, centred)


def group_count(ids: Tensor, groups: int, where: Tensor | None = None) -> Tensor:
    """Count the selected members of each group, `[G]` int64."""
    ones = torch.ones_like(ids) if where is None else where.to(torch.int64)
    return ids.new_zeros(groups, dtype=torch.int64).index_add_(0, ids, ones)


def group_sum(values: Tensor, ids: Tensor, groups: int, where: Tensor | None = None) -> Tensor:
    """Add up the selected values of each group, `[..., N]` -> `[..., G]`, float64 where the device has it."""
    work = _select(values.to(_accumulator(values)), where)
    return work.new_zeros(*values.shape[:-1], groups).index_add_(-1, ids, work)


def group_range(values: Tensor, ids: Tensor, groups: int, where: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the smallest and the largest selected value of each group, `[..., N]` -> two `[..., G]`; 0 where there is none."""
    work = values.to(_accumulator(values))
    # compared as integers of the same order, which is several times faster than as floating-point numbers that may be NaN
    rank = _flip_negative(work.view(_INTEGER[work.dtype]))
    index, limit = ids.expand(values.shape), torch.iinfo(rank.dtype)
    bounds = []
    for start, reduction in ((limit.max, "amin"), (limit.min, "amax")):
        chosen = rank if where is None else torch.where(where, rank, start)
        found = rank.new_full((*values.shape[:-1], groups), start).scatter_reduce_(-1, index, chosen, reduction)
        bounds.append(torch.where(found == start, 0.0, _flip_negative(found).view(work.dtype)))
    return bounds[0], bounds[1]


def check_std(std: str) -> None:
    """Require the name of a standard deviation."""
    checks.one_of(std, "std", ("population", "sample"))


def _accumulator(values: Tensor) -> torch.dtype:
    return torch.float32 if values.device.type == "mps" else torch.float64


_INTEGER = {torch.float32: torch.int32, torch.float64: torch.int64}


def _flip_negative(bits: Tensor) -> Tensor:
    """Turn the bits of floating-point numbers into integers of the same order, and back: below zero, larger bits are smaller."""
    return bits ^ ((bits >> (8 * bits.itemsize - 1)) & torch.iinfo(bits.dtype).max)


def _select(values: Tensor, where: Tensor | None) -> Tensor:
    return values if where is None else torch.where(where, values, 0.0)
