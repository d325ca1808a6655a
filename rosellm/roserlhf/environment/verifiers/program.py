"""A program that must pass unit tests, both in the sandbox, the verdict read from where the program cannot reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.sandbox import Sandbox, unit_tests
from rosellm.roserlhf.environment.verifiers.contract import Grade
from rosellm.roserlhf.errors import SandboxError, VerifierError


async def passes_tests(
    sandbox: Sandbox,
    program: str | None,
    tests: str,
    *,
    names: Sequence[str] = (),
    files: Mapping[str, str | bytes] | None = None,
    seconds: float | None = None,
    partial: bool = False,
) -> Grade:
    """Pay 1 if a program passes all tests, else 0; with `partial`, the share that it passes.

    The program runs in one box, the tests in another, where they see the program as the module `solution`; the program sees
    neither tests nor files. A program that hangs, exits, floods or crashes has not passed: this is its own doing, not a failure
    of the verifier.

    Args:
        sandbox: where both run.
        program: Python source; None if the policy gave none, which is wrong.
        tests: Python source with functions `test…`, `unittest` cases, or plain assertions.
        names: functions and classes of the program that the tests use without importing them.
        files: what the tests find in their working directory; staged for this call only.
        seconds: wall time of all calls of the program together; None means the sandbox's limit.
        partial: pay a share.

    Raises:
        VerifierError: the sandbox did not start, or the tests are broken, whatever the program: unscored.

    Example:
        >>> import asyncio
        >>> from rosellm.roserlhf.environment.sandbox import Sandbox
        >>> from rosellm.roserlhf.environment.verifiers import passes_tests
        >>> tests = "def test_two(): assert f(1) == 2" + chr(10) + "def test_three(): assert f(2) == 3"
        >>> asyncio.run(passes_tests(Sandbox(), "def f(x): return 2 * x", tests, names=["f"], partial=True))
        0.5
    """
    checks.flag(partial, "partial")
    if program is None:
        return 0.0
    try:
        verdict = await unit_tests(sandbox, program, tests, names=names, files=files, seconds=seconds)
    except SandboxError as error:
        raise checks.fail(VerifierError, "verifier passes_tests", "run in the sandbox", f"{error!s:.200}") from error
    share = verdict.share
    if share is None:
        raise checks.fail(VerifierError, "tests", "be tests", f"{verdict.broken!s:.200}")
    return share if partial else float(share == 1.0)
