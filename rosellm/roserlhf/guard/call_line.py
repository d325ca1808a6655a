"""A call as one line of history: `ToolCall → str`, a command as it was given, any other call with its tool's name in front."""

from __future__ import annotations

import json
import shlex
from typing import Any

from rosellm.roserlhf.trajectory import ToolCall

LONGEST = 8_000
"""Characters of a line; of a longer one the beginning is kept."""
_PLAIN = ("command", "cmd", "code")
"""Arguments whose text is a line as it stands."""


def call_line(call: ToolCall) -> str:
    """Write a call as history has it.

    Example:
        >>> from rosellm.roserlhf.guard.call_line import call_line
        >>> call_line(ToolCall("c0", "shell", {"command": "ls /app"})), call_line(ToolCall("c1", "git", {"args": ["log", "-p"]}))
        ('ls /app', 'git log -p')
        >>> call_line(ToolCall("c2", "write_file", {"path": "a.py", "content": "x = 1"}))
        'write_file a.py: x = 1'
    """
    arguments = call.arguments
    for name in _PLAIN:
        if isinstance(arguments.get(name), str):
            return str(arguments[name])[:LONGEST]
    if isinstance(arguments.get("args"), list):
        words = [str(word) for word in arguments["args"]]
        return f"{call.name} {shlex.join(words)}"[:LONGEST]
    path, content = arguments.get("path"), arguments.get("content")
    if isinstance(path, str) and isinstance(content, str):
        return f"{call.name} {path}: {content}"[:LONGEST]
    return f"{call.name}: {', '.join(map(_text, arguments.values()))}"[:LONGEST]


def _text(value: Any) -> str:
    return value[:LONGEST] if isinstance(value, str) else json.dumps(value)[:LONGEST]
