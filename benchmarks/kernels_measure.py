"""What the kernel benchmarks share: one line of a result, and medians of calls that take turns.

Both sides of a ratio run in turns, so that whatever else the machine does meets both, and times are those that the processor spent
on this process, which another job inflates less than the clock on the wall.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

Results = dict[str, dict[str, Any]]


def entry(value: float, *, at_least: float | None = None, at_most: float | None = None) -> dict[str, Any]:
    """One line of the result; without a target it is only told. NaN is within no target."""
    target, better = (at_most, "lower") if at_least is None else (at_least, "higher")
    ok = target is None or (value <= target if at_least is None else value >= target)
    return {"value": float(f"{value:.4g}"), "target": target, "better": None if target is None else better, "ok": ok}


def line(name: str, result: dict[str, Any]) -> str:
    """One row of the table."""
    start = f"{name:62s} {result['value']:>10.4g}"
    if result["target"] is None:
        return start
    return f"{start}  {'>=' if result['better'] == 'higher' else '<='} {result['target']:<6g} {'ok' if result['ok'] else 'missed'}"


def medians_ms(repeats: int, calls: Sequence[Callable[[], object]]) -> list[float]:
    """Median processor milliseconds of each call; they take turns, the first call of which finds cold caches and is not timed."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, taken in zip(calls, times, strict=True):
            call()
            for _ in range(2):
                started = time.process_time()
                call()
                taken.append(1e3 * (time.process_time() - started))
    return [statistics.median(taken) for taken in times]
