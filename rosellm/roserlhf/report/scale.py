"""Axes: `values -> Axis(low, high, ticks)` with round ticks that cover the data, and the place of a value between 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

LARGEST = 1e300
"""Beyond this a value stands at the end of its axis: differences of larger numbers overflow."""


@dataclass(frozen=True)
class Axis:
    """A closed interval with its tick values; `log` places values by their logarithm."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def place(self, value: float) -> float:
        """Return where `value` lies: 0 at `low`, 1 at `high`; values outside are put on the edge."""
        if self.log:
            share = (math.log(max(value, self.low)) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))


def linear_axis(
    values: Iterable[float], *, include: Iterable[float] = (), ticks: int = 5, tight: bool = False, whole: bool = False
) -> Axis:
    """Build an axis over finite `values` and `include`, with about `ticks` ticks at 1, 2 or 5 times a power of ten.

    Args:
        values: what is drawn; may be empty.
        include: values the axis must reach (0 for counts, 1 for shares).
        ticks: about how many ticks.
        tight: the axis ends at the data instead of at a tick.
        whole: only whole-number ticks (steps).

    Example:
        >>> from rosellm.roserlhf.report.scale import linear_axis
        >>> linear_axis([0.1, 0.93], include=[0, 1]).ticks
        (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    """
    known = [max(-LARGEST, min(LARGEST, value)) for value in (*values, *include)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    size = max(abs(low), abs(high))
    if high - low <= max(1e-9 * size, 1 / LARGEST):
        pad = size / 2 if size > 1 / LARGEST and not whole else 0.5
        low, high = low - pad, high + pad
    step = _round_step((high - low) / ticks)
    if whole:
        step = max(1.0, step)
    if tight:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    else:
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        low, high = first * step, last * step
    digits = max(0, -math.floor(math.log10(step)) + 1)
    return Axis(low, high, tuple(round(index * step, digits) for index in range(first, last + 1)))


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step * (1 - 1e-9))


def log_axis(low: float, high: float, *, base: int = 10) -> Axis:
    """Build a logarithmic axis over [low, high], both positive, with a tick at each power of `base` inside."""
    first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
    every = max(1, math.ceil((last - first + 1) / 7))
    return Axis(low, high, tuple(float(base) ** power for power in range(first, last + 1, every)), log=True)
