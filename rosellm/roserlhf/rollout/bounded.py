"""An environment whose every method ends in time: `method, seconds → value | what it raised | OverdueError`.

| method | where it runs | what happens to it when its time is up |
|---|---|---|
| `async` | on the event loop | cancelled; left behind if it refuses |
| plain | in a thread of its own | left behind with its thread, counted and warned about |
| plain, of an `instant` environment | on the event loop, directly | nothing: it promised to return at once |
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import warnings
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from rosellm.roserlhf.environment.protocol import Environment, Observation, StepResult, Task, ToolRunner
from rosellm.roserlhf.environment.waiting import NoAnswerError, answer_of, awaited, called, left_behind
from rosellm.roserlhf.rollout.limits import Limits
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure


class OverdueError(Exception):
    """Something did not return within its time."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} took longer than {seconds:g} s")


class BoundedEnvironment:
    """Calls the methods of one environment, one at a time, each within its limit.

    Args:
        environment: one episode's instance.
        limits: seconds of each method.
    """

    def __init__(self, environment: Environment, limits: Limits) -> None:
        self._environment, self._limits = environment, limits
        self._instant = environment.capabilities.instant

    async def start(self, task: Task, seed: int) -> Observation:
        """Begin the episode."""
        method, seconds = self._environment.start, self._limits.environment_timeout
        return await self._call(method, seconds, task, seed)  # type: ignore[no-any-return]

    async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
        """Take one action of the policy."""
        method, seconds = self._environment.step, self._limits.environment_timeout
        return await self._call(method, seconds, action, run)  # type: ignore[no-any-return]

    async def state_hash(self) -> str | None:
        """Hash the name of the present state; None if it has none."""
        key = await self._call(self._environment.state_key, self._limits.environment_timeout)
        return None if key is None else hashlib.blake2b(repr(key).encode("utf-8", "backslashreplace"), digest_size=12).hexdigest()

    async def score(self) -> Mapping[str, float | None]:
        """Verify the episode as it stands."""
        return await self._call(self._environment.score, self._limits.score_timeout)  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Release what the episode holds; what goes wrong is told, for what the episode recorded stands."""
        try:
            await self._call(self._environment.close, self._limits.close_timeout)
        except OverdueError:
            pass  # which was told
        except Exception as error:  # noqa: BLE001 - this is only worth a word
            self._tell(cause_of("close", error))

    async def _call(self, method: Callable[..., Any], seconds: float, *arguments: Any) -> Any:
        if self._instant:
            value = called(partial(method, *arguments), {})
            return await _cooperative(method.__name__, value, seconds) if inspect.isawaitable(value) else value
        try:
            return await answer_of(partial(method, *arguments), {}, timeout=seconds)
        except NoAnswerError:
            late = OverdueError(method.__name__, seconds)
            self._tell(f"{late}; {left_behind()} threads are left behind by now")
            raise late from None

    def _tell(self, what: str) -> None:
        warnings.warn(f"{type(self._environment).__name__}: {what}", RuntimeWarning, stacklevel=2)


async def _cooperative(name: str, value: Awaitable[Any], seconds: float) -> Any:
    """Await in place, which costs next to nothing; it can only be asked to give way."""
    try:
        async with asyncio.timeout(seconds) as clock:
            return await awaited(value)
    except TimeoutError:
        if not clock.expired():
            raise
    raise OverdueError(name, seconds)


def cause_of(method: str, error: Exception) -> str:
    """Name what went wrong in one line that every file can hold."""
    words = str(error) if isinstance(error, OverdueError) else f"{method} raised {type(error).__name__}: {error}"
    whole = words.encode("utf-8", "backslashreplace").decode("utf-8")
    return " ".join(whole.split())[:200].removesuffix(":")
