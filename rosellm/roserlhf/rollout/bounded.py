"""An environment whose every method ends in time: `method, seconds → value | what it raised | OverdueError`.

| method | where it runs | what happens to it when its time is up |
|---|---|---|
| `async` | on the event loop | cancelled; left behind if it refuses |
| plain | in a thread of the episode | left behind with its thread, counted and warned about |
| plain, of an `instant` environment | on the event loop, directly | nothing: it promised to return at once |
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import warnings
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from rosellm.roserlhf.environment.protocol import Environment, Observation, StepResult, Task, ToolRunner
from rosellm.roserlhf.rollout.limits import Limits
from rosellm.roserlhf.rollout.thread import EpisodeThread, StillRunningError, left_behind
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure

_T = TypeVar("_T")
_GRACE = 1.0
"""Seconds that a cancelled coroutine has to clean up."""


class OverdueError(Exception):
    """A method did not return within its time."""

    def __init__(self, method: str, seconds: float) -> None:
        super().__init__(f"{method} took longer than {seconds:g} s")


class BoundedEnvironment:
    """Calls the methods of one environment, one at a time, each within its limit.

    Args:
        environment: one episode's instance.
        limits: seconds of each method.
    """

    def __init__(self, environment: Environment, limits: Limits) -> None:
        self._environment, self._limits = environment, limits
        self._instant = environment.capabilities.instant
        self._thread: EpisodeThread | None = None

    async def start(self, task: Task, seed: int) -> Observation:
        """Begin the episode."""
        return await self._call("start", partial(self._environment.start, task, seed), self._limits.environment_timeout)

    async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
        """Take one action of the policy."""
        return await self._call("step", partial(self._environment.step, action, run), self._limits.environment_timeout)

    async def state_hash(self) -> str | None:
        """Hash the name of the present state; None if it has none."""
        key = await self._call("state_key", self._environment.state_key, self._limits.environment_timeout)
        return None if key is None else hashlib.blake2b(repr(key).encode("utf-8", "backslashreplace"), digest_size=12).hexdigest()

    async def score(self) -> Mapping[str, float | None]:
        """Verify the episode as it stands."""
        return await self._call("score", self._environment.score, self._limits.score_timeout)

    async def close(self) -> None:
        """Release what the episode holds; what goes wrong is told, for what the episode recorded stands."""
        try:
            await self._call("close", self._environment.close, self._limits.close_timeout)
        except Exception as error:  # noqa: BLE001 - this is only worth a word
            warnings.warn(f"{type(self._environment).__name__}: {cause_of('close', error)}", RuntimeWarning, stacklevel=2)
        finally:
            if self._thread is not None:
                self._thread.end()

    async def _call(self, name: str, method: Callable[[], _T | Awaitable[_T]], seconds: float) -> _T:
        if self._instant:
            value = method()
            return await _cooperative(name, value, seconds) if inspect.isawaitable(value) else value
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        plain = not inspect.iscoroutinefunction(getattr(method, "func", method))
        value = await self._in_thread(name, method, seconds) if plain else method()
        return await self._awaited(name, value, until - loop.time(), seconds) if inspect.isawaitable(value) else value

    async def _in_thread(self, name: str, method: Callable[[], _T], seconds: float) -> _T:
        if self._thread is None:
            self._thread = EpisodeThread(f"{type(self._environment).__name__}.{name}")
        try:
            return await self._thread.call(method, seconds=seconds)
        except StillRunningError:
            self._thread.leave()
        self._thread = None  # what comes next, `close` perhaps, does not wait behind it
        self._tell(f"{OverdueError(name, seconds)}; its thread is left behind, {left_behind()} such now")
        raise OverdueError(name, seconds)

    async def _awaited(self, name: str, value: Awaitable[_T], left: float, seconds: float) -> _T:
        """Await in a task of its own, which can be left behind if it refuses to be cancelled."""
        task = asyncio.ensure_future(value)
        try:
            done, _ = await asyncio.wait({task}, timeout=max(left, 0.0))
        except asyncio.CancelledError:
            await self._cancelled(name, task)
            raise
        if done:
            if task.cancelled():  # by itself; nobody asked this episode to stop
                raise RuntimeError("it cancelled itself")
            return task.result()
        await self._cancelled(name, task)
        raise OverdueError(name, seconds)

    async def _cancelled(self, name: str, task: asyncio.Future[Any]) -> None:
        task.cancel()
        await asyncio.wait({task}, timeout=_GRACE)
        if not task.done():
            self._tell(f"{name} refuses to be cancelled and is left behind")
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # nobody else asks what became of it

    def _tell(self, what: str) -> None:
        warnings.warn(f"{type(self._environment).__name__}: {what}", RuntimeWarning, stacklevel=2)


async def _cooperative(name: str, value: Awaitable[_T], seconds: float) -> _T:
    """Await in place, which costs next to nothing; it can only be asked to give way."""
    try:
        async with asyncio.timeout(seconds) as clock:
            return await value
    except TimeoutError:
        if not clock.expired():
            raise
    raise OverdueError(name, seconds)


def cause_of(method: str, error: Exception) -> str:
    """Name what went wrong in one line that every file can hold."""
    words = str(error) if isinstance(error, OverdueError) else f"{method} raised {type(error).__name__}: {error}"
    whole = words.encode("utf-8", "backslashreplace").decode("utf-8")
    return " ".join(whole.split())[:200].removesuffix(":")
