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


def grouped(
    rewards: Sequence[float],
    ids: Sequence[Hashable],
    scored: Sequence[bool],
    *,
    baseline: str = "mean",
    scale: str = "std",
    std: str = "population",
    eps: float = 1e-8,
) -> list[float]:
    """Advantages relative to the group, one member after the other."""
    result = [0.0] * len(rewards)
    everyone = [r for r, keep in zip(rewards, scored, strict=True) if keep]
    for rows in members(ids):
        rows = [row for row in rows if scored[row]]
        group = [rewards[row] for row in rows]
        if not group or min(group) == max(group):
            continue
        divisor = {"none": 1.0, "std": deviation(group, std) + eps, "batch_std": deviation(everyone, std) + eps}[scale]
        for place, row in enumerate(rows):
            others = group[:place] + group[place + 1 :]
            centre = mean(others) if baseline == "leave_one_out" else mean(group)
            result[row] = (rewards[row] - centre) / divisor
    return result


def batch_standardized(advantages: Sequence[float], mask: Sequence[bool], std: str, eps: float, placement: str) -> list[float]:
    chosen = [a for a, keep in zip(advantages, mask, strict=True) if keep]
    if len(chosen) < 2 or min(chosen) == max(chosen):
        return [0.0] * len(advantages)
    centre, variance = mean(chosen), deviation(chosen, std) ** 2
    scale = {
        "inside_root": math.sqrt(variance + eps),
        "outside_root": math.sqrt(variance) + eps,
        "variance_floor": math.sqrt(max(variance, eps)),
    }[placement]
    return [(a - centre) / scale if keep else 0.0 for a, keep in zip(advantages, mask, strict=True)]


def running_mean(rewards: Sequence[float], tasks: Sequence[Hashable], window: int, initial: float) -> list[float]:
    result = []
    for now, (reward, task) in enumerate(zip(rewards, tasks, strict=True)):
        before = [rewards[t] for t in range(now) if tasks[t] == task][-window:]
        result.append(reward - (mean(before) if before else initial))
    return result
