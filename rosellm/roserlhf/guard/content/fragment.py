"""Lines cut out of a Python file -> the same lines in a frame that a parser accepts."""

from __future__ import annotations

import textwrap


def framed(lines: str) -> tuple[str, int]:
    """Return lines that may begin deep inside a block, with blocks opened before them, and how many characters these take.

    Example:
        >>> framed("        return 1\\n\\n    def f(self):\\n        return 2\\n")
        ('if 1:\\n    return 1\\n\\ndef f(self):\\n    return 2\\n', 6)
    """
    text = textwrap.dedent(lines)
    first = next((line for line in text.split("\n") if line.strip()), "")
    indent = len(first) - len(first.lstrip())
    frame = "".join(" " * depth + "if 1:\n" for depth in range(0, indent, 4))
    return frame + text, len(frame)
