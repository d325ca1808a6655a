"""Slow, obvious group credit: plain Python floats, one group at a time, one member at a time."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence


def members(ids: Sequence[Hashable]) -> list[list[int]]:
    """Return the rows of each group, groups in the order of their first row."""
    found: dict[Hashable, list[int]] = {}
    for row, name in enumerate(ids):
        found.setdefault(name, []).append(row)
    return list(found.values())


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def deviation(values: Sequence[float], std: str) -> float:
    if min(values) == max(values):
        return 0.0
    centre = mean(values)
    return math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (len(values) - (std == "sample")))


def standardized(values: Sequence[float], std: str, eps: float) -> list[float]:
    if min(values) == max(values):
        return [0.0] * len(values)
    centre, scale = mean(values), deviation(values, std) + eps
    return [(v - centre) / scale for v in values]
