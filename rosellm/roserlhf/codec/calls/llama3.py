"""Llama 3: `{"name": …, "parameters": {…}}`, several of them separated by semicolons, after an optional `<|python_tag|>`.

A reply holds calls if it begins with `{`, or from its first `<|python_tag|>` on; before and after them may stand text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rosellm.roserlhf.codec.calls import json_text
from rosellm.roserlhf.codec.calls.protocol import Schemas
from rosellm.roserlhf.codec.calls.reading import MalformedError, Reading, reasoning_end
from rosellm.roserlhf.trajectory import ParsedAction, ToolCall

TAG = "<|python_tag|>"
_SEPARATOR = re.compile(r"\s*;?\s*(?=\{|<\|python_tag\|>)")


class Llama3Calls:
    """Calls as bare JSON objects."""

    name = "llama3"

    def parse(self, text: str, schemas: Schemas) -> ParsedAction:
        """Read the calls; `schemas` are not needed.

        Example:
            >>> parsed = Llama3Calls().parse('{"name": "f", "parameters": {"x": 1}}; {"name": "g", "parameters": null}', {})
            >>> parsed.calls[0].arguments, parsed.failures[0].name, parsed.failures[0].reason
            ({'x': 1}, 'g', 'parameters must be an object, got null')
        """
        reading = Reading(text)
        start = json_text.skip_blank(text, reasoning_end(text))
        if not text.startswith("{", start):
            start = text.find(TAG, start)
        while 0 <= start < len(text) and not reading.is_full(start):
            tagged = text.startswith(TAG, start)
            body = json_text.skip_blank(text, start + len(TAG)) if tagged else start
            try:
                if not text.startswith("{", body):
                    raise MalformedError(f"after {TAG} must follow a JSON object")
                name, arguments, end = json_text.read_call(text, body, "parameters")
            except MalformedError as mistake:
                end = json_text.skip(text, body) or len(text) if text.startswith("{", body) else len(text)
                reading.failure(str(mistake), json_text.first_name(text, body), start, end)
            else:
                reading.call(name, arguments, start, end)
            start = _next(text, end)
            reading.glue(end, max(start, end))
        return reading.action()

    def write(self, calls: Sequence[ToolCall], schemas: Schemas) -> str:
        """Write the calls as Llama's templates do, without the tag.

        Raises:
            RangeError: an argument is NaN, infinite or holds half of a surrogate pair.
        """
        return "; ".join(json_text.dump_call(call, "parameters") for call in calls)


def _next(text: str, end: int) -> int:
    """Return where the next call begins; -1 if none follows."""
    separator = _SEPARATOR.match(text, end)
    return -1 if separator is None else separator.end()
