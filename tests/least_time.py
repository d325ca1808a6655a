"""The processor's time that a piece of work takes at least: what the rest of the suite left behind is not counted."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def least_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the least of several times, without the pauses of a collector that walks everybody's objects."""
    times = []
    gc.disable()
    try:
        for _ in range(repeats):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
    finally:
        gc.enable()
    return min(times)
