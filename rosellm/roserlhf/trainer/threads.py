"""Threads of a run: a few workers, each single-threaded inside torch; the caller's setting comes back afterwards."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch


def worker_count(device: torch.device) -> int:
    """One worker per core that this process may use; one alone drives an accelerator."""
    return len(os.sched_getaffinity(0)) if device.type == "cpu" else 1


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """Let torch use one thread per operation inside the block: parallel workers share the cores, and results depend on no count."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
