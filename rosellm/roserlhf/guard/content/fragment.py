"""Lines cut out of a Python file -> the same lines in a frame that a parser accepts."""

from __future__ import annotations

import textwrap

HEADING = "\x01"
"""Begins a line that is not part of the text: the function or class that a hunk stands in, as the patch names it."""

_BLANK = ("", "\n", " ", "\t")


def framed(lines: str) -> tuple[str, int]:
    """Return lines that may begin deep inside a block, with blocks opened before them, and how many characters these take.

    Example:
        >>> framed("        return 1\\n\\n    def f(self):\\n        return 2\\n")
        ('if 1:\\n    return 1\\n\\ndef f(self):\\n    return 2\\n', 6)
        >>> framed("\\x01def f(a):\\n    if a:\\n")
        ('def f(a):\\n    if a:\\n        pass\\n', 10)
    """
    heading = ""
    if lines.startswith(HEADING):
        heading, _, lines = lines[1:].partition("\n")
    text = dedented(lines)
    first = next((line for line in text.split("\n") if line.strip()), "")
    indent = len(first) - len(first.lstrip())
    frame = "".join(" " * depth + "if 1:\n" for depth in range(0, indent, 4))
    text = text.rstrip("\n") + "\n" + _rest(text) if text.strip() else text
    if heading and first and lines.lstrip("\n")[:1] in (" ", "\t") and text != lines:
        return f"{heading}\n{textwrap.indent(frame + text, '    ')}", len(heading) + 1 + len(textwrap.indent(frame, "    "))
    return frame + text, len(frame)


def dedented(text: str) -> str:
    """Return what `textwrap.dedent` does; most texts begin in the first column and have no line of blanks, and stay as they are.

    Example:
        >>> dedented("    a\\n  b\\n"), dedented("a\\n  b\\n")
        ('  a\\nb\\n', 'a\\n  b\\n')
    """
    if text[:1] not in _BLANK and text[-1] not in " \t" and " \n" not in text and "\t\n" not in text:
        return text
    return textwrap.dedent(text)


def _rest(text: str) -> str:
    """Return what the last line needs: a block its body, a decorator its function."""
    last = text.rstrip().rpartition("\n")[2]
    bare = last.lstrip()
    indent = last[: len(last) - len(bare)]
    if bare.startswith("@"):
        return f"{indent}def _rest(): pass\n"
    return f"{indent}    pass\n" if bare.endswith(":") and not bare.startswith("#") else ""
