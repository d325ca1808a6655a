"""The contract of every verifier: `what it returned -> a number in [0, 1], None, or an error that names the verifier`."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ArgumentError, VerifierError
from rosellm.roserlhf.record import plain

Grade: TypeAlias = float | None
"""A number in [0, 1]; None means that nothing could be judged, which is not 0."""

Verifier: TypeAlias = Callable[..., Grade | Awaitable[Grade]]
"""A function, plain or `async`, of whatever the environment hands to it."""


def checked(value: object, name: str) -> Grade:
    """Require what a verifier may return: a finite number in [0, 1] (bool and numpy numbers count as numbers), or None.

    Args:
        value: what it returned.
        name: of the verifier, for the message.

    Raises:
        VerifierError: NaN, an infinity, a number outside [0, 1], text, or anything else.

    Example:
        >>> from rosellm.roserlhf.environment.verifiers import checked
        >>> checked(True, "tests"), checked(None, "judge")
        (1.0, None)
        >>> checked(float("nan"), "judge")
        Traceback (most recent call last):
        ...
        rosellm.roserlhf.errors.VerifierError: verifier judge must return a number in [0, 1] or None, got nan (float)
    """
    number = plain.native(value)
    if number is None:
        return None
    if not isinstance(number, (int, float)) or not 0 <= number <= 1:  # NaN fails every comparison
        raise checks.fail(VerifierError, f"verifier {name}", "return a number in [0, 1] or None", plain.shown(value))
    return float(number)


async def verified(
    verifier: Verifier, *arguments: Any, seconds: float | None = None, name: str | None = None, **keywords: Any
) -> Grade:
    """Call a verifier of one's own under the contract: whatever goes wrong is a `VerifierError`, never a number.

    Args:
        verifier: plain or `async`.
        arguments, keywords: handed to it.
        seconds: time limit of an `async` verifier, which is cancelled. A plain function cannot be interrupted here; `isolated` runs
            it in a process of its own, which can be killed.
        name: of the verifier; by default that of the function.

    Returns:
        Its number in [0, 1], or None.

    Raises:
        VerifierError: it raised, took too long, or returned anything else.
        ArgumentError: a time limit for a plain function.

    Example:
        >>> import asyncio
        >>> from rosellm.roserlhf.environment.verifiers import verified
        >>> async def polite(text: str) -> float:
        ...     return float("please" in text)
        >>> asyncio.run(verified(polite, "yes, please", seconds=1.0))
        1.0
    """
    name = name or str(getattr(verifier, "__name__", type(verifier).__name__))
    if seconds is not None:
        checks.number_in(seconds, "seconds", 0, math.inf, open_low=True)
    try:
        answer = verifier(*arguments, **keywords)
        if inspect.isawaitable(answer):
            return checked(await _in_time(answer, name, seconds), name)
    except VerifierError:
        raise
    except Exception as error:  # a verifier of somebody else's may raise anything
        raise _broken(name, "answer", f"{type(error).__name__}: {error}") from error
    if seconds is not None:
        fix = f"isolated({name}, seconds={seconds:g}) can be killed"
        raise checks.fail(ArgumentError, "seconds", "be given for an async verifier", f"{name}, a plain function", fix=fix)
    return checked(answer, name)


async def _in_time(answer: Awaitable[Grade], name: str, seconds: float | None) -> Grade:
    try:
        async with asyncio.timeout(seconds) as clock:
            return await answer
    except TimeoutError:
        if not clock.expired():  # the verifier's own
            raise
    raise _broken(name, f"answer within {seconds} s", "none")


def _broken(name: str, requirement: str, got: object) -> VerifierError:
    error = checks.fail(VerifierError, f"verifier {name}", requirement, f"{got!s:.200}")
    assert isinstance(error, VerifierError)
    return error
