"""The plain tool runner: `call → checked → executed or refused → result`; mistakes come back as results, never as exceptions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from rosellm.roserlhf.environment.tools import ToolSet
from rosellm.roserlhf.trajectory import ResultStatus, ToolCall, ToolResult


class DirectRunner:
    """Run calls on the tools themselves, checking names and arguments first.

    An exception of a tool is not caught here: it is no answer to the policy, the episode records it as a failure of its
    surroundings.

    Args:
        tools: the tools of the episode.
        allowed: names that may be called; None allows all of them.
        confirm: asked before an irreversible tool runs; None confirms nothing.
    """

    def __init__(
        self, tools: ToolSet, *, allowed: Collection[str] | None = None, confirm: Callable[[ToolCall], bool] | None = None
    ) -> None:
        self._tools = tools.tools
        self._permitted = allowed
        self._confirm = confirm

    async def call(self, call: ToolCall, history: Sequence[ToolResult]) -> ToolResult:
        """Execute one call; an unknown tool or a wrong argument is the policy's mistake and is answered in words."""
        allowed = [name for name in self._tools if self._permitted is None or name in self._permitted]  # tools may come later
        known = self._tools.get(call.name)
        if known is None:
            return unexecuted(call.call_id, "invalid", f"unknown tool; use {', '.join(allowed)}")
        if call.name not in allowed:
            return unexecuted(call.call_id, "refused", f"{call.name} is not allowed; use {', '.join(allowed)}")
        if complaint := known.complaint(call.arguments):
            return unexecuted(call.call_id, "invalid", complaint)
        if known.irreversible and not (self._confirm is not None and self._confirm(call)):
            return unexecuted(call.call_id, "refused", f"{call.name} cannot be undone and was not confirmed")
        answer = known.function(**call.arguments)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, ToolResult):
            return replace(answer, call_id=call.call_id)
        return ToolResult(call.call_id, "ok", "" if answer is None else str(answer))


def unexecuted(call_id: str, status: ResultStatus, why: str) -> ToolResult:
    """Answer a call that never ran, in the harness's name."""
    return ToolResult(call_id, status, why, "harness", attempts=0)
