"""Acts found in one piece of Python, each once, with where in the text it stands and in which part of the program."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from operator import add

from rosellm.roserlhf.guard.act import UNKNOWN, Act, ActKind
from rosellm.roserlhf.guard.python.value import STAR

MOST_ACTS = 4000
MOST_FOLDED = 2000
LONGEST_FOLDED = 8_000
"""Characters of a value that is written in the place of the expression that gives it."""
LONGEST_RESPELLED = 20_000
LONGEST_TARGET = 400
"""Characters of a shortened target or detail."""

_GETATTR = re.compile(r"\bgetattr\(([A-Za-z_]\w*(?:\.\w+)*), *['\"]([A-Za-z_]\w*)['\"]\)")


def short(text: str, most: int = LONGEST_TARGET) -> str:
    """Cut a text in the middle."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]} … {text[-most // 3 :]}"


def _is_whole(value: str | bytes) -> bool:
    return not (isinstance(value, str) and (UNKNOWN in value or STAR in value))


_PLAIN_KINDS = frozenset((ast.Name, ast.JoinedStr))
"""Expressions that disguise nothing though they are the same as a literal."""


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
    argument: str = ""
    """Argument of the call that the text is, see `Scene`; every act names it."""
    acts: list[Act] = field(default_factory=list)
    _seen: set[tuple[str, str, str, str]] = field(default_factory=set)
    _starts: list[int] = field(default_factory=list)
    _lines: list[str] = field(default_factory=list)
    disguised: dict[int, tuple[ast.expr, str | bytes]] = field(default_factory=dict)
    """Expressions that are the same as a literal and more than a name or a format, with their values."""
    _plain: bool = True
    _folded: dict[tuple[int, int, int, int], str | bytes] = field(default_factory=dict)
    _placed: dict[tuple[int, int], str | bytes] = field(default_factory=dict)

    def add(self, kind: ActKind, target: str, detail: str = "", node: ast.AST | None = None, **traits: str) -> None:
        """Add an act unless it is there already."""
        if STAR in target or STAR in detail:
            target, detail = target.replace(STAR, "*"), detail.replace(STAR, "*")
        where, acts = self.where, self.acts
        key = (kind, target, detail, where)
        if key in self._seen or len(acts) >= MOST_ACTS:
            return
        self._seen.add(key)
        span = self.span(node) if node is not None else (0, 0)
        acts.append(Act(kind, target, detail, self.argument, span, ("python",), {"where": where, **traits}))

    def decoded(self, words: str) -> str:
        """Return how words were hidden that the program has decoded; empty if they were not."""
        hidden = (act for act in self.acts[-200:] if act.kind == "decode" and len(act.target) > 7)
        return next((act.detail for act in hidden if act.target.strip() in words), "")

    def at(self, kind: ActKind, target: str, detail: str, span: tuple[int, int]) -> None:
        """Add an act whose place is known already."""
        if len(self.acts) < MOST_ACTS:
            span = min(span[0], self.length), min(span[1], self.length)
            self.acts.append(Act(kind, target, detail, self.argument, span, ("python",), {"where": self.where}))

    def adopt(self, acts: Iterable[Act], node: ast.AST | None, *disguises: str, **traits: str) -> None:
        """Add acts of code inside this code."""
        span = self.span(node) if node is not None else (0, 0)
        for act in acts:
            if len(self.acts) >= MOST_ACTS:
                return
            inner = {**act.traits, **traits, "outer": self.where}
            self.acts.append(Act(act.kind, act.target, act.detail, self.argument, span, ("python", *disguises, *act.via), inner))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return where a node stands."""
        try:
            line, start, end_line, end = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        except AttributeError:  # a kind of nodes that have no place
            return (0, 0)
        starts = self._starts or self._index()
        if self._plain and end_line <= len(starts) and not self.shift:
            start += starts[line - 1]
            end += starts[end_line - 1]
            most = self.length
            return (start if start < most else most), (end if end < most else most)
        return self.offset(line, start), self.offset(end_line, end)

    def offset(self, line: int, column: int) -> int:
        """Return the index of a character, given its line from 1 and its column in UTF-8 bytes."""
        starts = self._starts or self._index()
        if line > len(starts):
            line = len(starts)
        if not self._plain:
            column = len(self._lines[line - 1].encode("utf-8", "replace")[:column].decode("utf-8", "ignore"))
        at = starts[line - 1] + column - self.shift
        return self.length if at > self.length else at if at > 0 else 0

    def position(self, index: int) -> int:
        """Return the line from 1 of a character."""
        return bisect_right(self._starts or self._index(), index)

    def _index(self) -> list[int]:
        # Python ends lines at \n, \r\n and \r alone
        self._lines = self.code.replace("\r\n", "\n\0").replace("\r", "\n").replace("\n\0", "\r\n").split("\n")
        self._plain = self.code.isascii()
        ends = accumulate(map(len, self._lines), initial=0)
        self._starts = list(map(add, ends, range(len(self._lines))))
        return self._starts

    def fold(self, node: ast.expr, value: str | bytes) -> None:
        """Remember that an expression is the same as a literal."""
        if type(node) not in _PLAIN_KINDS and len(self.disguised) < MOST_FOLDED:
            self.disguised[id(node)] = (node, value)
        if len(value) <= LONGEST_FOLDED and len(self._folded) < MOST_FOLDED:
            self._folded[node.lineno, node.col_offset, node.end_lineno, node.end_col_offset] = value  # type: ignore[index]

    def fold_at(self, span: tuple[int, int], value: str | bytes) -> None:
        """Remember that what stands in a place of the parsed text is the same as a plainer literal."""
        if len(self._placed) < MOST_FOLDED:
            self._placed[max(0, span[0] - self.shift), max(0, span[1] - self.shift)] = value

    def folded(self) -> list[tuple[tuple[int, int], str | bytes]]:
        """Return the places and values of expressions that are the same as literals, in order, none inside another one."""
        if not self._folded and not self._placed:
            return []
        places = {
            (self.offset(line, column), self.offset(end_line, end_column)): value
            for (line, column, end_line, end_column), value in self._folded.items()
            if self._placed or _is_whole(value)
        }
        if not places and not self._placed:
            return []
        found: list[tuple[tuple[int, int], str | bytes]] = []
        last = 0
        for (start, end), value in sorted((self._placed | places).items(), key=lambda one: (one[0][0], -one[0][1])):
            if last <= start < end and _is_whole(value):
                last = end
                found.append(((start, end), value))
        return found

    def respelled(self, folded: Iterable[tuple[tuple[int, int], str | bytes]]) -> str:
        """Return the code with literals in the place of expressions that are the same; empty if there are none."""
        parts, at = [], 0
        for (start, end), value in folded:
            parts += [self.code[at + self.shift : start + self.shift], repr(value)]
            at = end
        code = "".join([*parts, self.code[at + self.shift :]])[:LONGEST_RESPELLED] if parts else ""
        return _GETATTR.sub(r"\1.\2", code) if "getattr(" in code else code

    def source(self, node: ast.AST, most: int = 120) -> str:
        """Return the text of a node, shortened."""
        start, end = self.span(node)
        return short(self.code[start + self.shift : end + self.shift], most)
