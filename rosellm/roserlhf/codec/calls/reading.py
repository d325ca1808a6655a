"""One reply while its calls are read: `spans of calls and failures → ParsedAction`, numbered by place, the rest as content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure, ToolCall

MOST_CALLS = 100
"""Calls that are read out of one reply; it bounds the time, and what the policy is told about a reply full of markers."""
TOO_DEEP = "arguments nested too deep"


class MalformedError(ValueError):
    """A call that cannot be read; the message is worded for the model."""


class Reading:
    """Collects calls and failures in the order of the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.calls: list[ToolCall] = []
        self.failures: list[ParseFailure] = []
        self._count = 0
        self._outside: list[tuple[int, int]] = []

    @property
    def last_end(self) -> int:
        """Where the last call ended."""
        return self._outside[-1][1] if self._outside else 0

    def glue(self, start: int, end: int) -> None:
        """Leave a separator out of the content."""
        self._outside.append((start, end))

    def _place(self, start: int, end: int) -> None:
        self._count += 1
        self._outside.append((start, end))

    def call(self, name: str, arguments: Mapping[str, Any], start: int, end: int) -> None:
        """Add a well-formed call; the record refuses what is nested too deep."""
        try:
            self.calls.append(ToolCall(f"call-{self._count}", name, arguments, (start, end)))
        except (RecordError, RecursionError):
            self.failure(TOO_DEEP, name, start, end)
        else:
            self._place(start, end)

    def failure(self, reason: str, name: str | None, start: int, end: int) -> None:
        """Add a malformed call; a reason that quotes what is no character shows it escaped, for the policy is told it."""
        reason = reason.encode("utf-8", "backslashreplace").decode("utf-8")
        self.failures.append(ParseFailure(reason, f"call-{self._count}", name, self.text[start:end], (start, end)))
        self._place(start, end)

    def is_full(self, start: int) -> bool:
        """Tell whether no further call may be read; if so, what begins at `start` is one failure up to the end."""
        if self._count < MOST_CALLS:
            return False
        self.failure(f"more than {MOST_CALLS} calls in one reply; the others were not read", None, start, len(self.text))
        return True

    def action(self) -> ParsedAction:
        """Give what was collected, with the text outside of it as content."""
        pieces, place = [], 0
        for start, end in self._outside:
            pieces.append(self.text[place:start])
            place = end
        return ParsedAction("".join([*pieces, self.text[place:]]).strip(), self.calls, self.failures)


def reasoning_end(text: str) -> int:
    """Return where the reply goes on after a leading `<think>…</think>`, in which nothing is a call.

    Example:
        >>> text = "<think>a <tool_call>?</think><tool_call>"
        >>> text[reasoning_end(text):]
        '<tool_call>'
    """
    if not text.lstrip().startswith("<think>"):
        return 0
    end = text.find("</think>")
    return len(text) if end < 0 else end + len("</think>")
