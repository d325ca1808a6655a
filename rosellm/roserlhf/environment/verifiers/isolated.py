"""A verifier in a process of its own, which can be killed: for code that may hang, crash, print or eat memory."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.verifiers.contract import Grade, checked
from rosellm.roserlhf.environment.verifiers.worker import Workers
from rosellm.roserlhf.errors import ArgumentError


def isolated(verifier: Callable[..., Any], *, seconds: float, at_most: int = 2) -> Callable[..., Grade]:
    """Wrap a verifier so that each call runs in a process of its own and is killed when its time is up.

    The process is kept between calls. It sees no variables of the environment but places and language, 4 GiB of memory, and is no
    sandbox: it can read what its user can. Run an agent's *code* in the sandbox instead.

    Args:
        verifier: a function that can be imported (no lambda, no nested function), plain or `async`, of JSON values.
        seconds: time limit of one call.
        at_most: processes at a time, if called from several threads.

    Returns:
        A plain function of the same positional arguments; off the event loop by `await asyncio.to_thread(wrapped, …)`. It raises
        `VerifierError` where the verifier raised, crashed, took too long, or returned no number in [0, 1].

    Raises:
        ArgumentError: a function that another process cannot import.
    """
    checks.number_in(seconds, "seconds", 0, math.inf, open_low=True, open_high=True)
    name = getattr(verifier, "__qualname__", "")
    module = getattr(verifier, "__module__", "")
    if not name or "<" in name or module == "__main__" or _found(module, name) is not verifier:
        fix = "move it to the top level of a module"
        raise checks.fail(ArgumentError, "verifier", "be a function that can be imported", f"{verifier!r:.80}", fix=fix)
    workers = Workers(f"{module}:{name}", at_most=at_most)

    def call(*arguments: Any) -> Grade:
        return checked(workers.call(*arguments, seconds=seconds), name)

    call.__name__ = name
    return call


def _found(module: str, name: str) -> object:
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
