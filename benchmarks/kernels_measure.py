"""What the kernel benchmarks share: one line of a result, and medians of calls that take turns.

Both sides of a ratio run in turns, so that whatever else the machine does meets both, and times are those that the processor spent
on the one thread, which another job inflates less than the clock on the wall.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

Results = dict[str, dict[str, Any]]


def entry(value: float, target: float | None = None, better: str = "higher") -> dict[str, Any]:
    """One line of the result; without a target it is only told."""
    ok = target is None or (value >= target if better == "higher" else value <= target)
    return {"value": float(f"{value:.4g}"), "target": target, "better": better, "ok": ok}


def medians_ms(repeats: int, calls: Sequence[Callable[[], object]]) -> list[float]:
    """Median processor milliseconds of each call; they take turns, the first call of which finds cold caches and is not timed."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, taken in zip(calls, times, strict=True):
            call()
            for _ in range(2):
                started = time.thread_time()
                call()
                taken.append(1e3 * (time.thread_time() - started))
    return [statistics.median(taken) for taken in times]
