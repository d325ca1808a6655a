"""The plain tool runner: `call → checked → executed or refused → result`; mistakes come back as results, never as exceptions.

| what happens | status | origin | attempts |
|---|---|---|---|
| the tool answers | ok | environment | 1 or more |
| the tool raises `ToolError` | error, with its message | environment | 1 or more |
| unknown tool, wrong arguments | invalid | harness | 0 |
| not allowed, not confirmed | refused | harness | 0 |
| no answer in time | timeout | harness | 1 or more |
| any other exception | none: it is raised, for the environment is broken | | |

A tool that does not answer in time: an `async` one is cancelled, a plain one runs on in its thread; whatever either of them still
returns is dropped. What it did until then, or still does, is not undone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.output import shortened, text_of
from rosellm.roserlhf.environment.tools import Tool, ToolSet
from rosellm.roserlhf.environment.waiting import NoAnswerError, answer_of, at_once
from rosellm.roserlhf.errors import ToolError
from rosellm.roserlhf.trajectory import ResultStatus, ToolCall, ToolResult

TIMEOUT = 60.0
"""Seconds that a tool has by default."""
OUTPUT_LIMIT = 16_384
"""Bytes of an answer that the policy is shown by default."""


class DirectRunner:
    """Run calls on the tools themselves, checking names and arguments first.

    An exception of a tool is not caught here, unless it is a `ToolError`: it is no answer to the policy, the episode records it as
    a failure of its surroundings.

    Args:
        tools: the tools of the episode.
        allowed: names that may be called; None allows all of them.
        confirm: asked before an irreversible tool runs; None confirms nothing.
        timeout: seconds for one attempt; None waits for ever. Not for tools that declare themselves `instant`, and without effect
            on an `async` tool that blocks the thread.
        retries: further attempts after a timeout or an exception, for tools that declare themselves `repeatable`.
        output_limit: bytes of an answer, in UTF-8, that the policy is shown: its beginning and its end, and in between how much
            was left out.
        keep: stores the whole of an answer that was shortened and returns where, for the result's `ref`; None drops what was left
            out, and the text says how many bytes that were.

    Raises:
        RangeError, DtypeError: an argument out of range.
    """

    def __init__(
        self,
        tools: ToolSet,
        *,
        allowed: Collection[str] | None = None,
        confirm: Callable[[ToolCall], bool] | None = None,
        timeout: float | None = TIMEOUT,
        retries: int = 0,
        output_limit: int = OUTPUT_LIMIT,
        keep: Callable[[ToolCall, str], str] | None = None,
    ) -> None:
        if timeout is not None:
            checks.number_in(timeout, "timeout", 0, math.inf, open_low=True)
        checks.count(retries, "retries")
        checks.count(output_limit, "output_limit", at_least=1)
        self._tools = tools.tools
        self._permitted = allowed
        self._confirm, self._timeout, self._retries = confirm, timeout, retries
        self._output_limit, self._keep = output_limit, keep

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
        return await self._execute(known, call)

    async def _execute(self, known: Tool, call: ToolCall) -> ToolResult:
        """Try the tool as often as it may be tried, and word what came of it."""
        most = 1 + (self._retries if known.repeatable else 0)
        started = time.perf_counter()
        for attempt in range(1, most + 1):
            try:
                answer = await self._attempt(known, call)
                break
            except NoAnswerError:
                answer = ToolResult(call.call_id, "timeout", f"{call.name} gave no answer within {self._timeout:g} s", "harness")
            except Exception:
                if attempt == most:
                    raise
        latency = time.perf_counter() - started
        if isinstance(answer, ToolResult):
            text, ref = self._shown(call, answer.content)
            attempts = attempt - 1 + answer.attempts
            ref = ref or answer.ref
            return replace(answer, call_id=call.call_id, content=text, ref=ref, attempts=attempts, latency=latency)
        text, ref = self._shown(call, answer)
        status: ResultStatus = "error" if isinstance(answer, ToolError) else "ok"
        return ToolResult(call.call_id, status, text, ref=ref, attempts=attempt, latency=latency)

    async def _attempt(self, known: Tool, call: ToolCall) -> Any:
        """Return what the tool answers; a `ToolError` is an answer."""
        arguments = {name: _changeable(value) for name, value in call.arguments.items()}
        try:
            if known.instant:
                return await at_once(known.function, arguments)
            return await answer_of(known.function, arguments, timeout=self._timeout)
        except ToolError as error:
            return error

    def _shown(self, call: ToolCall, answer: Any) -> tuple[str, str | None]:
        """Return the text that the policy is shown, and where the whole of it is kept, if it was shortened and is kept."""
        text = text_of(answer)
        short = shortened(text, self._output_limit)
        return short, None if short is text or self._keep is None else self._keep(call, text)


def _changeable(value: Any) -> Any:
    """Copy an argument out of the record, which is read-only: a tool may sort a list that it is given."""
    if isinstance(value, dict):
        return {name: _changeable(inner) for name, inner in value.items()}
    return [_changeable(inner) for inner in value] if isinstance(value, list) else value


def unexecuted(call_id: str, status: ResultStatus, why: str) -> ToolResult:
    """Answer a call that never ran, in the harness's name."""
    return ToolResult(call_id, status, why, "harness", attempts=0)
