"""A limit on the wait for somebody else's code: `function, arguments → its answer, or NoAnswerError after so many seconds`.

```
plain function   runs in a daemon thread of its own      left alone after the limit: a thread cannot be stopped
async function   runs as a task of this event loop       cancelled after the limit, and left alone if it refuses
instant          runs here and now                       no limit
```
What is still returned or raised after the limit is dropped.

The event loop stands still for the first `PATIENCE` seconds of a plain function. So functions that return soon are answered in the
order in which they were called, episodes ask the engine together as if there were no threads, and a run can be repeated bit for
bit; only what takes longer runs beside the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

PATIENCE = 0.5
"""Seconds of a plain function for which the event loop stands still."""
_LEFT = "left behind: "


def left_behind() -> int:
    """Count the threads that run a function whose answer nobody waits for any more."""
    return sum(thread.name.startswith(_LEFT) for thread in threading.enumerate())


class NoAnswerError(Exception):
    """The limit was reached."""


async def answer_of(function: Callable[..., Any], arguments: Mapping[str, Any], *, timeout: float | None) -> Any:
    """Call a plain or `async` function and return what it answers.

    Args:
        function: what to call.
        arguments: by name.
        timeout: seconds; None waits for ever, and calls a plain function in this thread.

    Raises:
        NoAnswerError: it did not answer in time.
        RuntimeError: it raised `SystemExit`, `StopIteration`, `GeneratorExit` or `CancelledError`, or cancelled itself, which would
            end more than the call.
    """
    if timeout is None:
        return await at_once(function, arguments)
    until = asyncio.get_running_loop().time() + timeout
    if inspect.iscoroutinefunction(function):
        answer = called(function, arguments)
    else:
        answer = await _until(_in_thread(function, arguments, min(PATIENCE, timeout)), until)
    return await _until(asyncio.ensure_future(awaited(answer)), until) if inspect.isawaitable(answer) else answer


async def at_once(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function here and now, without a limit.

    Raises:
        RuntimeError: see `answer_of`.
    """
    answer = called(function, arguments)
    return await _until(asyncio.ensure_future(awaited(answer)), None) if inspect.isawaitable(answer) else answer


def called(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function, and raise as `RuntimeError` what would end more than the call."""
    try:
        return function(**arguments)
    except (SystemExit, StopIteration, GeneratorExit, asyncio.CancelledError) as error:
        raise RuntimeError(f"{type(error).__name__} was raised") from error


async def awaited(answer: Awaitable[Any]) -> Any:
    """Await an answer, and raise as `RuntimeError` what would end more than that, but for a cancellation from outside."""
    try:
        return await answer
    except SystemExit as error:
        raise RuntimeError("SystemExit was raised") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("it cancelled itself") from error


async def _until(future: asyncio.Future[Any], until: float | None) -> Any:
    timeout = None if until is None else until - asyncio.get_running_loop().time()
    try:
        done, _ = await asyncio.wait({future}, timeout=timeout)
    except asyncio.CancelledError:
        _drop(future)
        raise
    if not done:
        _drop(future)
        await asyncio.sleep(0)  # its thread learns that it is left behind
        raise NoAnswerError
    if future.cancelled():
        raise RuntimeError("it cancelled itself")
    return future.result()


def _drop(future: asyncio.Future[Any]) -> None:
    future.add_done_callback(lambda late: late.cancelled() or late.exception())  # or asyncio reports that nobody looked at it
    future.cancel()


def _in_thread(function: Callable[..., Any], arguments: Mapping[str, Any], patience: float) -> asyncio.Future[Any]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context, answered = contextvars.copy_context(), threading.Event()

    def deliver(answer: Any, error: BaseException | None) -> None:
        if future.done():  # nobody waits any more
            return
        if error is None:
            future.set_result(answer)
        else:
            future.set_exception(error)

    def work() -> None:
        answer, raised = None, None
        try:
            answer = context.run(called, function, arguments)
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
            raised = error
        with contextlib.suppress(RuntimeError):  # the loop may be closed since
            loop.call_soon_threadsafe(deliver, answer, raised)
        answered.set()

    def leave(dropped: asyncio.Future[Any]) -> None:
        if dropped.cancelled():
            thread.name = _LEFT + thread.name

    # not a pool: its threads are joined in the end, and one that never returns would hold up the interpreter
    name = getattr(getattr(function, "func", function), "__name__", "call")
    thread = threading.Thread(target=work, daemon=True, name=name)
    future.add_done_callback(leave)
    thread.start()
    answered.wait(patience)
    return future
