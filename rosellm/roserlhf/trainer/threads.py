"""Threads of a run: a few workers, each single-threaded inside torch, and one that runs the asynchronous work."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

_T = TypeVar("_T")


def worker_count(device: torch.device) -> int:
    """One worker per core that this process may use; one alone drives an accelerator."""
    if device.type != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """Let torch use one thread per operation inside the block: parallel workers share the cores, and results depend on no count."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class LoopThread:
    """An event loop in a thread of its own, so that a program with a running loop, such as a notebook, can call into it."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._thread = ThreadPoolExecutor(1, "loop", initializer=torch.set_num_threads, initargs=(1,))
        self._loop = self._thread.submit(self._runner.get_loop).result()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run one piece of work to its end and return its result, or raise what it raised."""
        return self._thread.submit(self._runner.run, work).result()

    def close(self) -> None:
        """Cancel what is still running, which an interrupted caller leaves behind, close the loop and end the thread."""
        if self._loop.is_running():
            self._loop.call_soon_threadsafe(self._cancel)
        self._thread.submit(self._runner.close)
        self._thread.shutdown()

    def _cancel(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
