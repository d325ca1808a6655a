"""Text of a cell -> parsed Python, the commands of notebooks in it, and what could not be parsed."""

from __future__ import annotations

import ast
import bisect
import itertools
import re
import warnings
from dataclasses import dataclass, field

from rosellm.roserlhf.guard.act import UNKNOWN

LONGEST = 120_000
"""Characters that are parsed; of a longer text, the first and the last half of this."""
TRIES = 4
"""Times that a block is parsed, each time without one more line that is wrong."""
_SHIFT = "if 1:\n"
UNKNOWN_NAME = "_unknown_"
FAILURES = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError, TypeError)
_MAGIC = re.compile(r"^([ \t]*+)(?:(\w[\w, \t]*+=)[ \t]*+)?(!{1,2}|%{1,2})(?=[\w./~$({\"'-])(.*)$", re.MULTILINE)
_HELP = re.compile(r"^[ \t]*+(?:\?{1,2}([\w.]++)|([\w.]++)\?{1,2})[ \t]*+$", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*+```.*$", re.MULTILINE)
_OLD_PRINT = re.compile(r"^([ \t]*)(print|exec)[ \t]+([\"'\w(].*)$")
STRINGS = re.compile(
    r"\"\"\"[^\"\\]*+(?:(?:\\.|\"(?!\"\"))[^\"\\]*+)*+\"\"\"|'''[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*+'''"
    r"|\"[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+\"|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'|#[^\n]*+",
    re.DOTALL,
)
_TOP = re.compile(r"^(?=[^\s#)\]}])(?!(?:else|elif|except|finally)\b)", re.MULTILINE)


@dataclass(slots=True)
class Magic:
    """A command of a notebook."""

    sign: str
    """`!`, `!!`, `%`, `%%`, `?`."""
    line: str
    body: str
    """Rest of the cell, for `%%`."""
    span: tuple[int, int]


@dataclass(slots=True)
class Source:
    """A cell, read as far as can be."""

    text: str
    """What was parsed; of the same length as the cell's text, but for `shift`."""
    shift: int = 0
    body: list[ast.stmt] = field(default_factory=list)
    magics: list[Magic] = field(default_factory=list)
    lost: list[tuple[str, tuple[int, int], str]] = field(default_factory=list)
    """Text, place and reason of what could not be read."""


def read(code: str) -> Source:
    """Parse a cell."""
    if len(code) > LONGEST:
        return _long(code)
    source = Source(code.replace(UNKNOWN, UNKNOWN_NAME) if UNKNOWN in code else code)
    if "!" in code or "%" in code or "?" in code or "```" in code:
        _take_magics(source)
    if "\0" in source.text:
        source.text = source.text.replace("\0", " ")
    _parse(source)
    return source


def _long(code: str) -> Source:
    """Read the first and the last part of a text that is too long."""
    half = LONGEST // 2
    cut, rest = code.rfind("\n", 0, half) + 1 or half, code.find("\n", len(code) - half) + 1 or len(code) - half
    middle = code[cut:rest]
    source = Source(code[:cut])
    _take_magics(source)
    _parse(source)
    tail = Source(code[rest:])
    _parse(tail)
    for statement in tail.body:
        ast.increment_lineno(statement, len(code))
    source.body += tail.body
    source.lost += [(middle, (cut, rest), f"{len(middle)} characters are too long to read")]
    source.lost += [(text, (a + rest, b + rest), why) for text, (a, b), why in tail.lost]
    return source


def parse(text: str) -> list[ast.stmt]:
    """Parse Python without the warnings of its compiler.

    Raises:
        FAILURES: it is no Python.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text).body


def _take_magics(source: Source) -> None:
    """Replace the lines of a notebook's commands by constants, of the same length."""
    text = source.text
    first = text.lstrip()
    if first.startswith("%%"):
        start = len(text) - len(first)
        line, _, body = first.partition("\n")
        source.magics.append(Magic("%%", line[2:].strip(), body, (start, len(text))))
        if line[2:].split(" ")[0].strip() not in _PYTHON_CELLS:
            source.text = " " * len(text)
            return
        source.text = text = " " * start + "0" + " " * (len(line) - 1) + text[start + len(line) :]
    if "!" in text or "%" in text:
        parts, at = [], 0
        for found in _MAGIC.finditer(text):
            indent, assigned, sign, line = found[1], found[2] or "", found[3], found[4]
            if sign[0] == "%" and not _is_magic(text, found):
                continue
            end = found.end()
            while line.endswith("\\") and end < len(text):
                stop = text.find("\n", end + 1)
                stop = len(text) if stop < 0 else stop
                line, end = line[:-1] + " " + text[end + 1 : stop], stop
            if found.start() < at:
                continue
            source.magics.append(Magic(sign, line.strip(), "", (found.start(3), end)))
            kept = f"{indent}{assigned}0"
            parts += [
                text[at : found.start()],
                kept,
                re.sub(r"[^\n]", " ", text[found.start() + len(kept) : end]).replace("\n", " "),
            ]
            at = end
        if parts:
            source.text = text = "".join(parts) + text[at:]
    if "?" in text:
        for found in _HELP.finditer(text):
            source.magics.append(Magic("?", found[1] or found[2], "", found.span()))
        source.text = text = _HELP.sub(lambda found: " " * len(found[0]), text)
    if "```" in text:
        source.text = _FENCE.sub(lambda found: " " * len(found[0]), text)


_PYTHON_CELLS = frozenset({"time", "timeit", "capture", "prun", "python", "python3", "python2", "pypy", "memit", "mprun", "lprun"})


def _is_magic(text: str, found: re.Match[str]) -> bool:
    """Tell a magic from the remainder of a division that a line was broken before."""
    before = text[: found.start()].rstrip()[-1:]
    return before not in ("\\", "(", ",", "[") and (found[4][:1].isalpha() or found[3] == "%%")


def _parse(source: Source) -> None:
    """Parse the whole; where it is no Python, without the lines that are wrong; at last each block for itself."""
    text = source.text
    if text.lstrip("\n")[:1] in (" ", "\t") and text.strip():
        source.shift, source.text = len(_SHIFT), _SHIFT + text
    starts: list[int] = []
    for _ in range(TRIES):
        try:
            source.body = parse(source.text)
        except SyntaxError as error:
            if source.shift:
                source.shift, source.text = 0, text
            starts = starts or _starts(source.text)
            if not _repair(source, starts, error.lineno or 1):
                break
        except FAILURES:
            break
        else:
            return
    source.shift = 0
    _blocks(source, starts or _starts(source.text))


def _starts(text: str) -> list[int]:
    """Return where top-level statements start, and the end."""
    inside = [found.span() for found in STRINGS.finditer(text)]
    starts, at = [0], 0
    for found in _TOP.finditer(text):
        while at < len(inside) and inside[at][1] <= found.start():
            at += 1
        if found.start() and not (at < len(inside) and inside[at][0] < found.start()):
            starts.append(found.start())
    return [*starts, len(text)]


def _repair(source: Source, starts: list[int], line: int) -> bool:
    """Take the lines that are wrong out of the block with a line; False if that changes nothing."""
    lines = source.text.split("\n")
    index = sum(len(one) + 1 for one in lines[: line - 1])
    at = max(0, bisect.bisect_right(starts, min(index, len(source.text) - 1)) - 1)
    start, end = starts[at], starts[at + 1] if at + 1 < len(starts) else len(source.text)
    block = source.text[start:end]
    _, mended = _mended(source, block, start)
    source.text = source.text[:start] + mended + source.text[end:]
    for later in range(at + 1, len(starts)):
        starts[later] += len(mended) - len(block)
    return mended != block


def _blocks(source: Source, starts: list[int]) -> None:
    """Parse each top-level statement for itself."""
    line = 0
    for start, end in itertools.pairwise(starts):
        block = source.text[start:end]
        body, _ = _mended(source, block, start)
        for statement in body if line else ():
            ast.increment_lineno(statement, line)
        source.body += body
        line += block.count("\n")


def _mended(source: Source, block: str, at: int) -> tuple[list[ast.stmt], str]:
    """Parse a block, without the lines that are wrong; return what is left of its text, too."""
    lines = block.split("\n")
    why = "is no Python"
    for _ in range(TRIES):
        text = "\n".join(lines)
        try:
            return parse(text), text
        except SyntaxError as error:
            line = error.lineno
        except FAILURES as error:
            why = type(error).__name__
            break
        if line is None or not 0 < line <= len(lines) or not lines[line - 1].strip():
            break
        lines[line - 1] = _mend(source, lines, line - 1, at)
    source.lost.append((block, (at, at + len(block)), why))
    return [], "\n" * block.count("\n")


def _mend(source: Source, lines: list[str], index: int, at: int) -> str:
    """Rewrite a statement of old Python; take out any other line that is wrong."""
    line = lines[index]
    old = _OLD_PRINT.match(line)
    if old:
        return f"{old[1]}{old[2]}({old[3].rstrip()})"
    start = at + sum(len(one) + 1 for one in lines[:index])
    source.lost.append((line, (start, start + len(line)), "is no Python"))
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}if 0:" if line.rstrip().endswith(":") else indent + "0" + " " * (len(line) - len(indent) - 1)
