"""What runs inside the process of a `Worker`: import the function, then answer one line after the other."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Any, NoReturn

_SPARE_SECONDS = 5
"""CPU seconds beyond the caller's limit: a caller that was killed cannot kill, the kernel can."""


def serve(target: str, memory: int) -> None:
    """Answer the questions on standard input until it ends.

    Args:
        target: import path `module:function`.
        memory: bytes of address space.
    """
    questions, answers = _channel()
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    try:
        function = _function(target)
    except Exception as error:  # noqa: BLE001 - whatever importing does, the caller is told
        _say(answers, {"error": _named(error)})
        return
    _limit(resource.RLIMIT_AS, memory)
    _say(answers, {"ready": True})
    for line in questions:
        seconds, arguments = json.loads(line)
        _limit(resource.RLIMIT_CPU, int(time.process_time() + seconds) + _SPARE_SECONDS)
        _say(answers, _answer(function, arguments))


def _channel() -> tuple[IO[str], IO[str]]:
    """Keep the pipes for questions and answers; the function itself reads nothing and prints into nowhere."""
    questions, answers = os.fdopen(os.dup(0), "r", encoding="ascii"), os.fdopen(os.dup(1), "w", encoding="ascii")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    return questions, answers


def _follow(parent: int) -> NoReturn:
    """End with the caller, even while the function sleeps."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(0)


def _function(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    function: Callable[..., Any] = found
    return function


def _answer(function: Callable[..., Any], arguments: list[Any]) -> dict[str, Any]:
    try:
        value = function(*arguments)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        json.dumps(value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a SystemExit of the function is no reason to end, either
        return {"error": _named(error)}
    return {"value": value}


def _named(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300].removesuffix(":")


def _say(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _limit(kind: int, wanted: int) -> None:
    """Lower a limit as far as the system allows; some know none of this kind."""
    _, hard = resource.getrlimit(kind)
    try:
        resource.setrlimit(kind, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    except (ValueError, OSError) as error:
        print(f"no limit: {error}", file=sys.stderr)
