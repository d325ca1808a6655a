"""A thread of one episode's own: plain code that may block runs in it, one call after another.

It is a daemon: neither the event loop nor the end of the process waits for code that never returns. A pool would, and would have
one worker less from then on.

The event loop stands still for the first `PATIENCE` seconds of a call. So calls that return soon happen in the same order as if
they were made directly, episodes ask the engine together as they would then, and a run can be repeated bit for bit; only calls that
take longer run beside the others.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

_T = TypeVar("_T")
_LEFT = "left behind: "
_Job = tuple[Callable[[], Any], "Future[Any]"]
PATIENCE = 0.5
"""Seconds of each call for which the event loop stands still."""


class StillRunningError(Exception):
    """A call did not return within its time."""


def left_behind() -> int:
    """Count the threads that still run a call nobody waits for any more."""
    return sum(thread.name.startswith(_LEFT) for thread in threading.enumerate())


class EpisodeThread:
    """Runs calls in order.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True)
        self._thread.start()

    async def call(self, function: Callable[[], _T], *, seconds: float) -> _T:
        """Call the function in the thread, in the caller's context, and return what it returns.

        Args:
            function: plain code.
            seconds: that it may take.

        Raises:
            StillRunningError: it takes longer; `leave` gives it up.
            RuntimeError: it raised what is no `Exception`, such as `SystemExit`: that ends neither the episode's loop nor the run.
        """
        answer: Future[_T] = Future()
        self._jobs.put((partial(contextvars.copy_context().run, function), answer))
        ready = threading.Event()
        answer.add_done_callback(lambda _: ready.set())
        if ready.wait(min(PATIENCE, seconds)):
            return answer.result()
        if seconds > PATIENCE:
            try:
                async with asyncio.timeout(seconds - PATIENCE) as clock:
                    return await asyncio.wrap_future(answer)
            except TimeoutError:
                if not clock.expired():  # the function's own
                    raise
        raise StillRunningError

    def end(self) -> None:
        """End the thread after the calls it was given."""
        self._jobs.put(None)

    def leave(self) -> None:
        """Give up on the call that runs: the thread ends when it returns, if ever."""
        self._thread.name = _LEFT + self._thread.name
        self.end()


def _work(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        function, answer = job
        if answer.set_running_or_notify_cancel():
            _settle(function, answer)
        del job, function, answer


def _settle(function: Callable[[], Any], answer: Future[Any]) -> None:
    try:
        value = function()
    except BaseException as error:  # noqa: BLE001 - the caller raises it
        if not isinstance(error, Exception) or isinstance(error, StopIteration):  # which a future cannot carry to a coroutine
            odd, error = error, RuntimeError(f"{type(error).__name__}: {error}")
            error.__cause__ = odd
        answer.set_exception(error)
    else:
        answer.set_result(value)
