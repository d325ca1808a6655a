"""Unit tests that the tested code cannot answer for: `solution, tests → two boxes → verdict`.

```
box of the solution            box of the tests                 here
runs the solution  ⇐ inputs ⇐  runs the tests, never a   ⇒  reads the verdict over the
and nothing else   ⇒ plain ⇒   byte of the solution         channel of the tests' box
                     values
```
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.sandbox.result import Ending, Kind, SandboxResult
from rosellm.roserlhf.environment.sandbox.sandbox import Sandbox
from rosellm.roserlhf.environment.sandbox.session import SandboxSession
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.record import plain

_PROXY = Path(__file__).with_name("proxy.py")
_GRACE = 2.0
"""Seconds that the tests have beyond the solution's, to say which of them had passed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tests found. Exactly one of three: tests passed or failed, the tests did not end, the tests are broken."""

    passed: tuple[str, ...]
    """Names of the tests that passed; `"tests"` for a file without test functions."""
    failed: Mapping[str, str]
    """Names of those that did not, with the reason; text of the solution may stand in it."""
    broken: str | None
    """Why the tests are no tests of this kind: no Python, they pass what is no plain value, or they would not be run or ask nothing
    of the solution. It says nothing of the solution."""
    ending: Ending
    """How the process of the tests ended; other than `ok` counts as failed, for the solution's answers can cause it."""
    seconds: float
    """Wall time of the tests."""
    kind: Kind
    """What held both."""

    @property
    def share(self) -> float | None:
        """The share of tests that passed; None if the tests are broken."""
        if self.broken is not None:
            return None
        return len(self.passed) / (len(self.passed) + len(self.failed)) if self.ending == "ok" else 0.0


async def unit_tests(
    sandbox: Sandbox,
    solution: str,
    tests: str,
    *,
    names: Sequence[str] = (),
    files: Mapping[str, str | bytes] | None = None,
    seconds: float | None = None,
) -> Verdict:
    """Run tests against a solution, in two fresh boxes, and read the verdict from the one that the solution is not in.

    The tests see the solution as the module `solution`, and under the given names as globals. Calls carry plain values: None,
    numbers, text, bytes, lists, tuples, sets and dicts; a list, dict, set or bytearray that a call changes is changed for the
    tests, too. Anything else that the solution returns can be called and asked for attributes, and equals nothing. Exceptions of
    Python's own kinds are raised in the tests; others, and those that would end a loop, as `SolutionError`.

    Each function `test*` and each method `test*` of a `unittest.TestCase` is a test, which passes if it runs to its end and returns
    nothing; a file without any is one test. Tests that any solution would pass are broken: what a call does not run (`async`
    functions, generators, methods of other classes), and files that ask nothing of the solution. The solution's box gets neither
    the tests nor `files`. A solution that hangs, exits or floods fails. Names are given by the caller, so that a solution cannot
    put its own `all` or `len` in front of the tests.

    Args:
        sandbox: where both run.
        solution: source of the tested code.
        tests: source of the tests.
        names: functions and classes of the solution that the tests use without importing them.
        files: what the tests find in their working directory.
        seconds: wall time of all calls together; None means the sandbox's limit.

    Raises:
        SandboxError: a box did not start: the solution was not tested.
        RecordError: something that is not text where text is needed.

    Example:
        >>> import asyncio
        >>> verdict = asyncio.run(unit_tests(Sandbox(), "def f(x): return x + 1", "assert f(1) == 2", names=["f"]))
        >>> verdict.share, verdict.passed
        (1.0, ('tests',))
    """
    for argument, text in (("solution", solution), ("tests", tests)):
        plain.text(text, argument)
    for name in names:
        if not (isinstance(name, str) and name.isidentifier()):
            raise checks.fail(RecordError, "names", "be identifiers", f"{name!r:.80}")
    allowed = sandbox.limits.seconds if seconds is None else seconds
    checks.number_in(allowed, "seconds", 0, float("inf"), open_low=True, open_high=True)
    one, other = socket.socketpair()
    with one, other:
        async with sandbox.session(links=[one]) as subject, sandbox.session(files, links=[other]) as examiner:
            await asyncio.gather(subject.start(), examiner.start())
            ends = one.fileno(), other.fileno()
            one.close()  # what one box lets go of, the other must see
            other.close()
            result = await _examined(subject, examiner, ends, (solution, tests, list(names)), allowed)
    return _verdict(result)


async def _examined(
    subject: SandboxSession, examiner: SandboxSession, ends: tuple[int, int], texts: tuple[str, str, list[str]], seconds: float
) -> SandboxResult:
    solution, tests, names = texts
    serving = asyncio.ensure_future(subject.run(f"{_proxy()}\nserve({ends[0]}, {solution!r})\n", seconds=seconds + 2 * _GRACE))
    try:
        call = f"__value__ = examine({ends[1]}, {tests!r}, {names!r}, {seconds!r})"
        return await examiner.run(f"{_proxy()}\n{call}\n", seconds=seconds + _GRACE)
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


def _verdict(result: SandboxResult) -> Verdict:
    found: Any = result.value if result.ending == "ok" else None
    if found is None:
        ending: Ending = "died" if result.ending == "ok" else result.ending
        return Verdict((), {}, None, ending, result.seconds, result.kind)
    passed, failed = tuple(found["passed"]), dict(found["failed"])
    return Verdict(passed, failed, found["broken"], "ok", result.seconds, result.kind)


@functools.cache
def _proxy() -> str:
    return _PROXY.read_text(encoding="utf-8")
