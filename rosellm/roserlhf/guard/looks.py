"""A string of unknown meaning -> the language it looks like; cheap, and in doubt prose."""

from __future__ import annotations

from functools import cache

from rosellm.roserlhf.guard.hidden_text import readable
from rosellm.roserlhf.guard.patterns import PatternSet

LOOKED_AT = 4_000
"""Characters that decide."""

_PATTERNS = (
    ("url", r"^\s*(?:https?|ftp|ssh|git|file|data)(?:\+\w+)?://\S+\s*$"),
    ("patch", r"(?m)^(?:diff --git |--- \S.*\n\+\+\+ \S|\*\*\* Begin Patch|@@ -\d)"),
    ("shell", r"^\s*#!\S*\b(?:ba|z|da|k)?sh\b"),
    ("python", r"^\s*#!\S*\bpython"),
    ("path", r"^\s*(?:~|\.{1,2}|[\w.@+*?\[\]{},-]*)?/[^\s;|&<>()`$]*\s*$"),
    (
        "python",
        r"(?m)^\s*(?:import [\w.]+(?: as \w+)?(?:\s*,\s*\w+)*\s*(?:;.*|#.*)?$"
        r"|from [\w.]+ import |(?:async )?def \w+\(|class \w+[(:]"
        r"|@\w+[\w.]*\(?|(?:for|with|if|while|try|elif) ?.*:\s*(?:#.*)?$"
        r"|print\(|\w+(?:\.\w+)*\(.*\)\s*$|[a-z_]\w* = \S|__import__|exec\()",
    ),
    (
        "shell",
        r"(?m)^\s*(?:\$ |sudo |\w+=\S* +\w|export \w+=|"
        r"(?:cd|ls|cat|head|tail|less|grep|rg|find|sed|awk|cp|mv|rm|ln|mkdir|touch|chmod|chown|"
        r"echo|printf|tee|dd|xxd|od|base64|strings|diff|tar|zip|unzip|gzip|curl|wget|git|pip3?|uv|npm|npx|yarn|pnpm|node|cargo|"
        r"go|make|"
        r"gcc|g\+\+|python[\d.]*|pytest|bash|sh|zsh|perl|ruby|php|env|kill|pkill|ps|lsof|strace|gdb|nc|ssh|scp|rsync|docker|nohup|"
        r"timeout|xargs|source|eval|exec|test|true|jq|sort|wc|stat|file|which)"
        r"(?:\s+(?:-|[\w./~$\"'*]+[/.*$\"'=-])|\s*$|\s*[|;&<>]|\s+\S+\s*(?:[|;&<>]|$)))|\$\(|&&|\|\||<<-?\s*['\"]?\w+",
    ),
)
_PATCH_MARKS = ("diff --git ", "+++ ", "*** Begin Patch", "@@ -")


def without_words(text: str) -> bool:
    """Tell at once of a number or a sum that it is nothing else."""
    return "--" not in text and not text.strip("0123456789 +-*().")


def language_of_look(text: str) -> str:
    """Return url, patch, path, python, shell or prose.

    Example:
        >>> [language_of_look(t) for t in ("/a/b.py", "cat x | head", "import os", "https://a.b/c", "Please look at the cat.")]
        ['path', 'shell', 'python', 'url', 'prose']
    """
    if without_words(text):
        return "prose"
    start = readable(text[:LOOKED_AT])
    found = _compiled().found(start)
    return _PATTERNS[min(found)][0] if found else "prose"


def is_patch(text: str) -> bool:
    """Tell whether a text looks like a patch; most have none of the words that every patch has.

    Example:
        >>> is_patch("*** Begin Patch"), is_patch("The patch is done.")
        (True, False)
    """
    return any(mark in text for mark in _PATCH_MARKS) and language_of_look(text) == "patch"


def patterns() -> tuple[str, ...]:
    """Return the patterns without which a text is prose."""
    return tuple(text for _, text in _PATTERNS)


@cache
def _compiled() -> PatternSet:
    return PatternSet(patterns(), ignore_case=False)
