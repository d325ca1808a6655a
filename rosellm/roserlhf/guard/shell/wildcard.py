"""Patterns of the shell -> regular expressions that match in linear time, however they are written."""

from __future__ import annotations

import functools
import re
from typing import Any

from rosellm.roserlhf.errors import ConfigError
from rosellm.roserlhf.guard.patterns import pattern


@functools.lru_cache(512)
def compiled(glob: str, how: str = "longest") -> Any:
    """Compile a pattern; None if it is too large or no pattern.

    Args:
        glob: pattern with `*`, `?`, `[...]`.
        how: `longest` or `shortest`: what a `*` takes.
    """
    any_ = ".*" if how == "longest" else ".*?"
    parts: list[str] = []
    at = 0
    while at < len(glob):
        character = glob[at]
        stop = glob.find("]", at + 2) if character == "[" else -1
        if stop > 0 and "[:" not in glob[at:stop]:
            inner = glob[at + 1 : stop].replace("\\", "\\\\").replace("[", "\\[")
            parts.append("[" + ("^" + inner[1:] if inner[0] in "!^" else inner) + "]")
            at = stop + 1
            continue
        parts.append({"*": any_, "?": "."}.get(character, re.escape(character)))
        at += 1
    try:
        return pattern("(?s)" + "".join(parts))
    except ConfigError:
        return None
