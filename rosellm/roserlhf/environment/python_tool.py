"""The tool `python`: `code → what it printed`, in a sandbox of the episode's own whose state lasts from call to call."""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable
from typing import ClassVar

from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.environment.protocol import Capabilities
from rosellm.roserlhf.environment.sandbox import Limits, Sandbox, SandboxResult, SandboxSession
from rosellm.roserlhf.environment.tools import tool
from rosellm.roserlhf.record.calls import ResultStatus
from rosellm.roserlhf.trajectory import ToolCall, ToolResult

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
NO_OUTPUT = "(no output)"
_LOST = "variables and files of earlier calls are lost"


class PythonTool(ToolEnvironment):
    """An environment whose policy can run Python: derive from it, alone or beside other bases, instead of `ToolEnvironment`.

    The box starts with the first call and ends with the episode. `ToolResult.source` says what held the program, so every
    trajectory records it. A box that does not start fails the episode as infrastructure; nothing ever runs outside of one.

    Example:
        >>> class Puzzle(PythonTool):
        ...     "Asks for a number; the policy may compute it."
        ...
        ...     @staticmethod
        ...     def make_task(rng):
        ...         return {"n": rng.randrange(100)}
        ...
        ...     def prompt(self):
        ...         return f"Which number is {self.task.payload['n']} squared?"
        ...
        ...     def score(self):
        ...         return {"correct": 0.0}
        >>> [one["function"]["name"] for one in Puzzle().tools.schemas()]
        ['python']
    """

    capabilities: ClassVar[Capabilities] = Capabilities(deterministic=False, replayable=False)
    """A program may read the clock; a task that knows better says so."""
    sandbox: ClassVar[Sandbox | None] = None
    """Where programs run; None means `Sandbox()`, looked for when the first program is run."""
    longest_answer: ClassVar[int] = 4000
    """Characters of one answer; of a longer one the middle is left out, and that is said."""

    def __init__(self) -> None:
        super().__init__()
        self._python: SandboxSession | None = None

    @tool
    async def python(self, code: str) -> ToolResult:
        """Run Python code and return what it prints; variables are kept between calls."""
        if self._python is None:
            self._python = (self.sandbox or _sandbox_here()).session()
        return answer(await self._python.run(code), self._python.limits, self.longest_answer)

    def dummy_result(self, call: ToolCall) -> str | None:
        """Say of code that was not run that it printed nothing."""
        return NO_OUTPUT if call.name == "python" else super().dummy_result(call)

    def close(self) -> Awaitable[None] | None:
        """End the episode's box."""
        return None if self._python is None else self._python.close()


@functools.cache
def _sandbox_here() -> Sandbox:
    return Sandbox()


def answer(result: SandboxResult, limits: Limits, longest: int) -> ToolResult:
    """Word a result for the policy: cut to `longest` characters, control characters then shown escaped, the limit it met named.

    Args:
        result: of one cell.
        limits: that it ran under, to name the one it met.
        longest: characters of its output and errors together.

    Example:
        >>> from rosellm.roserlhf.environment.sandbox import SandboxResult
        >>> shown = answer(SandboxResult("ok", "123456789", "", 0.1, "bubblewrap"), Limits(), 4)
        >>> shown.content, shown.source
        ('12\\n[5 characters left out]\\n89', 'bubblewrap')
    """
    text = (result.output + result.errors).rstrip("\n")
    parts = [_UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", cut(text, longest))] if text else []
    stopped = {
        "timeout": f"stopped after {limits.seconds:g} s",
        "output": f"stopped: more than {limits.output} bytes of output",
        "cpu": f"stopped: more than {limits.cpu_seconds} s of processor time",
        "died": "the process ended",
    }
    if note := stopped.get(result.ending):
        parts.append(f"[{note}; {_LOST}]" if result.state_lost else f"[{note}]")
    status: ResultStatus = "ok" if result.ending == "ok" else "timeout" if result.ending == "timeout" else "error"
    content = "\n".join(parts) or NO_OUTPUT
    return ToolResult("", status, content, latency=result.seconds, source=result.kind)


def cut(text: str, longest: int) -> str:
    """Leave out the middle of a text that is longer than `longest` characters, and say how much."""
    if len(text) <= longest:
        return text
    head, tail = (longest + 1) // 2, longest // 2
    return f"{text[:head]}\n[{len(text) - longest} characters left out]\n{text[len(text) - tail :]}"
