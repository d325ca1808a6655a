"""A call written as Python text, read as syntax, never evaluated: `mv(source='a', destination='b')` → name, literal arguments."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RecordError


@dataclass(frozen=True)
class LiteralCall:
    """A call whose arguments are literals."""

    name: str
    positional: tuple[Any, ...]
    arguments: dict[str, Any]


def read_call(text: str) -> LiteralCall:
    """Read one call.

    Raises:
        RecordError: it is no call of a plain name with literal arguments.

    Example:
        >>> read_call("tail('log.txt', lines=20)")
        LiteralCall(name='tail', positional=('log.txt',), arguments={'lines': 20})
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            arguments = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords if keyword.arg}
            if len(arguments) == len(node.keywords):
                return LiteralCall(node.func.id, tuple(map(ast.literal_eval, node.args)), arguments)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass  # the one answer to all of them stands below
    raise checks.fail(RecordError, "call", "be name(literal, name=literal, …)", f"{text!r:.80}")
