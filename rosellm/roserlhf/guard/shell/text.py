"""Text with expansions in it that is no word of the tree: here-documents, operands of `${...}`, evaluated words."""

from __future__ import annotations

import re
from typing import Final

from rosellm.roserlhf.guard.shell.arithmetic import number
from rosellm.roserlhf.guard.shell.escapes import ansi
from rosellm.roserlhf.guard.shell.parameter import parameter
from rosellm.roserlhf.guard.shell.scan import closing
from rosellm.roserlhf.guard.shell.shell import Shell
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value, joined, known, mapped

_QUOTED: Final = re.compile(r"\\([$`\\\n])|(\$\(|\$\{|`)|\$(\w+|[@*#?$!-])")
_PLAIN: Final = re.compile(r"\\([\s\S])|(\$\(|\$\{|`)|\$(\w+|[@*#?$!-])|\$'((?:[^'\\]|\\[\s\S])*)'|'([^']*)'|(\")")
_DEEPEST: Final = 8


def expand(shell: Shell, text: str, *, quoted: bool, depth: int = 0) -> Value:
    """Expand a text; nothing is split.

    Args:
        shell: the shell at this point.
        text: may hold `$name`, `${...}`, `$(...)`, backquotes and escapes.
        quoted: as in a here-document, where quotes are letters; else quotes are taken away.
        depth: expansions around this one.
    """
    pattern = _QUOTED if quoted else _PLAIN
    parts: list[Value] = []
    at = 0
    while found := pattern.search(text, at):
        if found.start() > at:
            parts.append((text[at : found.start()],))
        at = found.end()
        if found[1] is not None:
            parts.append(("" if found[1] == "\n" else found[1],))
        elif found[2]:
            at = closing(text, found.start())
            parts.append(_bracketed(shell, text[found.start() : at], depth))
        elif found[3]:
            parts.append(_parameter(shell, found[3]))
        elif not quoted:
            parts.append((ansi(found[4]),) if found[4] is not None else (found[5] or "",))
    if at < len(text):
        parts.append((text[at:],))
    return joined(parts) if parts else NOTHING


def _bracketed(shell: Shell, text: str, depth: int) -> Value:
    if depth >= _DEEPEST:
        return ANYTHING
    if text.startswith("$(("):
        found = number(text[3:-2], lambda name: _one(shell, name))
        return (str(found),) if found is not None else ANYTHING
    if text.startswith("${"):
        return _parameter(shell, text[2:-1], depth + 1)
    return substituted(shell, text[1:-1] if text.startswith("`") else text[2:-1])


def substituted(shell: Shell, code: str) -> Value:
    """Read the commands of a substitution; return what they print, without newlines at the end."""
    return mapped(lambda one: one.rstrip("\n"), shell.evaluate(code, new=True))


def _parameter(shell: Shell, inner: str, depth: int = 0) -> Value:
    found = parameter(shell, inner, depth)
    if not isinstance(found, list):
        return found
    return joined([part for value in found for part in ((" ",), value)][1:] or [NOTHING])


def _one(shell: Shell, name: str) -> str | None:
    value: Value | None = shell.state.get("var", name)
    return value[0] if value is not None and known(value) else None
