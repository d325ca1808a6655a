"""Acts found in one piece of Python, each once, with where in the text it stands and in which part of the program."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from rosellm.roserlhf.guard.act import Act, ActKind
from rosellm.roserlhf.guard.python.value import STAR

MOST_ACTS = 4000
LONGEST_TARGET = 400
"""Characters of a shortened target or detail."""


def short(text: str, most: int = LONGEST_TARGET) -> str:
    """Cut a text in the middle."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]} … {text[-most // 3 :]}"


@dataclass(slots=True)
class Findings:
    """Collects acts."""

    code: str
    shift: int = 0
    """Characters that were put before the text to make it parse."""
    length: int = 1 << 62
    """Of the text as it was given; lines that were mended may be longer."""
    where: str = "import"
    """Part of the program that is being read; every act carries it as a trait."""
    acts: list[Act] = field(default_factory=list)
    _seen: set[tuple[str, str, str, str]] = field(default_factory=set)
    _starts: list[int] = field(default_factory=list)
    _lines: list[str] = field(default_factory=list)
    _plain: bool = True

    def add(self, kind: ActKind, target: str, detail: str = "", node: ast.AST | None = None, **traits: str) -> None:
        """Add an act unless it is there already."""
        if STAR in target or STAR in detail:
            target, detail = target.replace(STAR, "*"), detail.replace(STAR, "*")
        key = (kind, target, detail, self.where)
        if key in self._seen or len(self.acts) >= MOST_ACTS:
            return
        self._seen.add(key)
        span = self.span(node) if node is not None else (0, 0)
        self.acts.append(Act(kind, target, detail, span=span, via=("python",), traits={"where": self.where, **traits}))

    def decoded(self, words: str) -> str:
        """Return how words were hidden that the program has decoded; empty if they were not."""
        hidden = (act for act in self.acts[-200:] if act.kind == "decode" and len(act.target) > 7)
        return next((act.detail for act in hidden if act.target.strip() in words), "")

    def at(self, kind: ActKind, target: str, detail: str, span: tuple[int, int]) -> None:
        """Add an act whose place is known already."""
        if len(self.acts) < MOST_ACTS:
            span = min(span[0], self.length), min(span[1], self.length)
            self.acts.append(Act(kind, target, detail, span=span, via=("python",), traits={"where": self.where}))

    def adopt(self, acts: Iterable[Act], node: ast.AST | None, *disguises: str, **traits: str) -> None:
        """Add acts of code inside this code."""
        span = self.span(node) if node is not None else (0, 0)
        for act in acts:
            if len(self.acts) >= MOST_ACTS:
                return
            inner = {**act.traits, **traits, "outer": self.where}
            self.acts.append(replace(act, span=span, via=("python", *disguises, *act.via), traits=inner))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return where a node stands."""
        line = getattr(node, "lineno", None)
        if line is None:
            return (0, 0)
        end_line = getattr(node, "end_lineno", None) or line
        end = getattr(node, "end_col_offset", None) or 0
        return self.offset(line, getattr(node, "col_offset", 0)), self.offset(end_line, end)

    def offset(self, line: int, column: int) -> int:
        """Return the index of a character, given its line from 1 and its column in UTF-8 bytes."""
        if not self._starts:
            self._index()
        line = min(line, len(self._starts))
        if not self._plain:
            column = len(self._lines[line - 1].encode("utf-8", "replace")[:column].decode("utf-8", "ignore"))
        return min(max(0, self._starts[line - 1] + column - self.shift), self.length)

    def position(self, index: int) -> int:
        """Return the line from 1 of a character."""
        if not self._starts:
            self._index()
        return bisect_right(self._starts, index)

    def _index(self) -> None:
        # Python ends lines at \n, \r\n and \r alone
        self._lines = self.code.replace("\r\n", "\n\0").replace("\r", "\n").replace("\n\0", "\r\n").split("\n")
        self._plain = self.code.isascii()
        at = 0
        for line in self._lines:
            self._starts.append(at)
            at += len(line) + 1

    def source(self, node: ast.AST, most: int = 120) -> str:
        """Return the text of a node, shortened."""
        start, end = self.span(node)
        return short(self.code[start + self.shift : end + self.shift], most)
