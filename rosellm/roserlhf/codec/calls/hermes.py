"""Hermes and Qwen: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, any number of them, text between them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rosellm.roserlhf.codec.calls import json_text
from rosellm.roserlhf.codec.calls.protocol import Schemas
from rosellm.roserlhf.codec.calls.reading import MalformedError, Reading, reasoning_end
from rosellm.roserlhf.trajectory import ParsedAction, ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_PART = re.compile(f"{json_text.PART.pattern}|{OPEN}", re.DOTALL)
_NEXT = re.compile(f"{CLOSE}|(?={OPEN})")


class HermesCalls:
    """Calls as JSON between tags. A closing tag inside a JSON string closes nothing, for the JSON is read by its own grammar."""

    name = "hermes"

    def parse(self, text: str, schemas: Schemas) -> ParsedAction:
        """Read the calls; `schemas` are not needed.

        Example:
            >>> parsed = HermesCalls().parse('Look: <tool_call>{"name": "f", "arguments": {"x": "</tool_call>"}}</tool_call>', {})
            >>> parsed.content, parsed.calls[0].arguments, parsed.calls[0].span
            ('Look:', {'x': '</tool_call>'}, (6, 78))
        """
        reading, place = Reading(text), reasoning_end(text)
        while (start := text.find(OPEN, place)) >= 0 and not reading.is_full(start):
            body = json_text.skip_blank(text, start + len(OPEN))
            try:
                name, arguments, end = json_text.read_call(text, body, "arguments")
                end = _closed(text, end)
            except MalformedError as mistake:
                place = malformed_end(text, body)
                reading.failure(str(mistake), json_text.first_name(text, body), start, place)
            else:
                place = end
                reading.call(name, arguments, start, place)
        return reading.action()

    def write(self, calls: Sequence[ToolCall], schemas: Schemas) -> str:
        """Write the calls as Qwen's templates do.

        Raises:
            RangeError: an argument is NaN, infinite or holds half of a surrogate pair.
        """
        return "\n".join(f"{OPEN}\n{json_text.dump_call(call, 'arguments')}\n{CLOSE}" for call in calls)


def _closed(text: str, end: int) -> int:
    place = json_text.skip_blank(text, end)
    if text.startswith(CLOSE, place):
        return place + len(CLOSE)
    if place == len(text) or text.startswith(OPEN, place):
        raise MalformedError(f"the call is not closed by {CLOSE}")
    raise MalformedError(f"only {CLOSE} may follow the JSON object, got {text[place : place + 20]!r}")


def malformed_end(text: str, body: int) -> int:
    """Return where a malformed call ends: after its closing tag, or before the next opening one, or with the text."""
    end = json_text.skip(text, body, _PART)
    if end is not None and text.startswith(CLOSE, place := json_text.skip_blank(text, end)):
        return place + len(CLOSE)
    match = _NEXT.search(text, body)
    return len(text) if match is None else match.end()
