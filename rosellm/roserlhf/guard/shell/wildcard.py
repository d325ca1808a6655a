"""Patterns of the shell -> regular expressions that match in linear time, however they are written."""

from __future__ import annotations

import functools
from typing import Any

from rosellm.roserlhf.errors import missing_extra


@functools.lru_cache(512)
def compiled(glob: str, how: str = "longest") -> Any:
    """Compile a pattern; None if it is too large.

    Args:
        glob: pattern with `*`, `?`, `[...]`.
        how: `longest` or `shortest`: what a `*` takes.
    """
    try:
        import re2  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise missing_extra(error) from error
    any_, parts, at = ".*" if how.startswith("longest") else ".*?", [], 0
    while at < len(glob):
        character = glob[at]
        if character == "[" and (stop := glob.find("]", at + 2)) > 0:
            inner = glob[at + 1 : stop].replace("\\", "\\\\").replace("[", "\\[") if "[:" not in glob[at:stop] else ""
            if inner:
                parts.append("[" + ("^" + inner[1:] if inner[0] in "!^" else inner) + "]")
                at = stop + 1
                continue
        parts.append({"*": any_, "?": "."}.get(character, re2.escape(character)))
        at += 1
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    try:
        return re2.compile("".join(parts), options)
    except re2.error:
        return None
