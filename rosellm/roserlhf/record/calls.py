"""Tool calls and their results: `sampled reply -> ParsedAction | ParseFailure -> ToolResult`, shared by codecs and environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rosellm.roserlhf.record import plain
from rosellm.roserlhf.record.plain import Json

ResultStatus = Literal["ok", "error", "invalid", "refused", "blocked", "timeout", "unavailable"]
"""`error`: the tool ran and failed. `invalid`: unknown tool or bad arguments. `refused`: not permitted. `blocked`: replaced by the
guard. `timeout`, `unavailable`: the tool gave no answer."""
ResultOrigin = Literal["environment", "guard", "harness"]
"""Who wrote a tool result."""

_set = object.__setattr__


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One parsed tool call."""

    call_id: str
    """Identifies the call within its action; the result carries the same id."""
    name: str
    """Tool name as sampled."""
    arguments: Mapping[str, Json] = plain.EMPTY
    """Parsed arguments."""
    span: tuple[int, int] | None = None
    """Positions [start, end) of the call in the action's `token_ids`; None if the parser does not know."""

    def __post_init__(self) -> None:
        plain.text(self.call_id, "call_id")
        plain.text(self.name, "name")
        _set(self, "arguments", plain.mapping(self.arguments, "arguments", plain.json_value))
        _set(self, "span", plain.span(self.span, "span"))


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """A reply, or one call of it, that could not be parsed; the sampled tokens stay as they are."""

    reason: str
    """What is wrong, worded for the model: the next observation may show it."""
    call_id: str | None = None
    """The call that is malformed; None when the whole reply is."""
    name: str | None = None
    """Tool name, as far as it could be read."""
    raw: str = ""
    """The text that could not be parsed."""
    span: tuple[int, int] | None = None
    """Positions [start, end) in the action's `token_ids`; None if unknown."""
    cut: bool = False
    """True when a budget ended the reply before the policy did: it is incomplete, nothing says that it is malformed."""

    def __post_init__(self) -> None:
        plain.name(self.reason, "reason")
        plain.flag(self.cut, "cut")
        plain.optional(plain.text, call_id=self.call_id, name=self.name)
        plain.text(self.raw, "raw")
        _set(self, "span", plain.span(self.span, "span"))


@dataclass(frozen=True, slots=True)
class ParsedAction:
    """A reply as the environment sees it: text beside calls; a malformed call stands in `failures`, its siblings in `calls`."""

    content: str = ""
    """Text outside the calls."""
    calls: Sequence[ToolCall] = ()
    """Well-formed calls in the order they were sampled."""
    failures: Sequence[ParseFailure] = ()
    """Malformed calls, in order."""

    def __post_init__(self) -> None:
        plain.text(self.content, "content")
        _set(self, "calls", plain.records(self.calls, "calls", ToolCall))
        _set(self, "failures", plain.records(self.failures, "failures", ParseFailure))


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came back for one call."""

    call_id: str
    """The call it answers."""
    status: ResultStatus = "ok"
    """How the call went."""
    content: str = ""
    """The text given to the policy."""
    origin: ResultOrigin = "environment"
    """Who wrote `content`: the tool, the guard in its place, or the harness (unknown tool, timeout)."""
    ref: str | None = None
    """Where a large result is kept."""
    attempts: int = 1
    """Times the tool was tried; 0 if it never ran."""
    latency: float | None = None
    """Seconds; not part of the content hash."""
    source: str | None = None
    """What served it: a server, a cache, a replay."""
    guard_event: str | None = None
    """The guard's event about this call."""

    def __post_init__(self) -> None:
        plain.text(self.call_id, "call_id")
        plain.text(self.content, "content")
        plain.one_of(self.status, "status", ResultStatus)
        plain.one_of(self.origin, "origin", ResultOrigin)
        _set(self, "attempts", plain.natural(self.attempts, "attempts"))
        plain.optional(plain.real, latency=self.latency)
        plain.optional(plain.text, ref=self.ref, source=self.source, guard_event=self.guard_event)
