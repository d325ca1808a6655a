"""Tools in words, for templates that leave them out: a model that is not told of its tools cannot call them.

```
Tools:
calculator(expression): Compute an expression such as 2*(3+4).
submit(answer): Give the final number.
Call one like this: calculator(...)
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rosellm.roserlhf.codec.calls import CallFormat, parameters_of
from rosellm.roserlhf.trajectory import Message, ToolCall

_PLACEHOLDERS: Mapping[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


def tool_note(tools: Sequence[Mapping[str, Any]], calls: CallFormat) -> str:
    """Name every tool with its parameters and description, and show how one is called.

    Example:
        >>> from rosellm.roserlhf.codec.calls import call_format
        >>> schema = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
        >>> search = {"type": "function", "function": {"name": "search", "description": "Look up a price.", "parameters": schema}}
        >>> print(tool_note([search], call_format("function")))
        Tools:
        search(item): Look up a price.
        Call one like this: search(...)
    """
    schemas = parameters_of(tools)
    lines = [f"{_signature(name, schema)}: {tool['function'].get('description') or 'no description'}"
             for tool, (name, schema) in zip(tools, schemas.items(), strict=True)]  # fmt: skip
    name, schema = next(iter(schemas.items()))
    arguments = {
        key: _PLACEHOLDERS.get(str(schema["properties"].get(key, {}).get("type")), "...") for key in schema.get("required", ())
    }
    example = calls.write((ToolCall("call-0", name, arguments),), schemas)
    return "\n".join(["Tools:", *lines, f"Call one like this: {example}"])


def told(messages: Sequence[Message], note: str, *, system: bool) -> list[Message]:
    """Put the note into the first system message, or in front of everything; a template without that role gets it from the user."""
    if messages and messages[0].role == "system":
        return [replace(messages[0], content=f"{messages[0].content}\n\n{note}"), *messages[1:]]
    if system or not messages:
        return [Message("system", note), *messages]
    return [replace(messages[0], content=f"{note}\n\n{messages[0].content}"), *messages[1:]]


def _signature(name: str, schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    return f"{name}({', '.join(key if key in required else f'{key}?' for key in schema['properties'])})"
