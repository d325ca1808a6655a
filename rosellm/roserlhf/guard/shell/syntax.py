"""Text of a shell command -> its tree (tree-sitter's bash grammar), prepared by `scan` beforehand; linear, never raises."""

from __future__ import annotations

import bisect
import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from rosellm.roserlhf.errors import missing_extra
from rosellm.roserlhf.guard.shell.plain import tree_of
from rosellm.roserlhf.guard.shell.scan import HereDocument, scan

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_CONTINUED: Final = re.compile(r"\|[ \t\n]+")
_ENDS: Final = re.compile(r"[;\n&]|\|\|")
_NOTHING_BETWEEN: Final = re.compile(r"(?>\|\||&&|\|&|[;&|])\s*+(?:\|\||&&|\|)|\(\)")
"""Two signs between which a command is missing, and what a function without a body begins with."""
_WIDE: Final = re.compile(r"[^\x00-\x7f]")
_ASCII: Final = bytes([*range(128), *b"," * 64, *b"." * 64])
"""What the grammar is shown of a byte. Its scanner looks letters up in C's tables for ASCII, wherever that leads, the end of the
process included; a letter of another alphabet is part of a word and of nothing else, as `.,` is."""
MOST_PIPES: Final = 1_500
"""The grammar's time grows with the square of a pipeline's length."""
MOST_ODD: Final = 1_500
"""And with the square of signs that fit nothing: brackets without their other, `<` and `>` (those of documents aside), `||` after
`||`, functions without a body."""


@dataclass(slots=True)
class Source:
    """A piece of shell text with its tree."""

    text: str
    data: bytes
    documents: dict[int, HereDocument]
    """By the position of their `<<`."""
    root: Node
    span: tuple[int, int] | None = None
    """Where this text comes from in the call's argument, if its own positions are not that argument's."""
    ascii: bool = True
    """Bytes are characters of the text as it was given."""
    one_line: bool = False
    """There is no line break in it."""
    inserted: list[int] = field(default_factory=list)
    """Characters that the text has beyond what was given, in order."""
    removed: list[int] = field(default_factory=list)
    """Characters before which one was taken out, once for each."""
    _wide: list[int] = field(default_factory=list)
    """Bytes at which characters of more than one byte start."""
    _surplus: list[int] = field(default_factory=list)
    """Bytes that these and all before have beyond one each."""

    def position(self, byte: int) -> int:
        """Turn a position in bytes into one in characters of the text as it was given."""
        if self.ascii:
            return byte
        at = self._characters(byte)
        return at - bisect.bisect_left(self.inserted, at) + bisect.bisect_right(self.removed, at)

    def _characters(self, byte: int) -> int:
        if len(self.text) == len(self.data):
            return byte
        if not self._wide:
            surplus = 0
            for found in _WIDE.finditer(self.text):
                self._wide.append(found.start() + surplus)
                surplus += len(found.group().encode("utf-8", "surrogatepass")) - 1
                self._surplus.append(surplus)
        at = bisect.bisect_left(self._wide, byte)
        return byte - (self._surplus[at - 1] if at else 0)

    def where(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the call's argument of bytes of this text."""
        if self.span is not None:
            return self.span
        return (start, end) if self.ascii else (self.position(start), self.position(end))

    def of(self, node: Node) -> str:
        """Return a node's text."""
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "surrogatepass")


@functools.cache
def _parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ModuleNotFoundError as error:
        raise missing_extra(error) from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(text: str, span: tuple[int, int] | None = None) -> Source | None:
    """Parse a command; None if it is nested too deeply.

    Raises:
        MissingExtraError: tree-sitter is not installed.
    """
    text = text.replace("\0", " ").replace("\r\n", " \n")
    if text.count("|") <= MOST_PIPES and (tree := tree_of(text)) is not None:
        return Source(text, text.encode(), {}, cast("Node", tree), span)
    scanned = scan(text)
    if scanned is None:
        return None
    bare = scanned.text
    if bare.count("|") > MOST_PIPES and max(part.count("|") for part in _ENDS.split(_CONTINUED.sub("|", bare))) > MOST_PIPES:
        return None
    odd = (abs(bare.count("(") - bare.count(")")), bare.count("<") + bare.count(">"), len(_NOTHING_BETWEEN.findall(bare)))
    if max(odd) > MOST_ODD:
        return None
    data = bare.encode("utf-8", "surrogatepass")
    plain = len(bare) == len(data)
    return Source(
        text=bare,
        data=data,
        documents=scanned.documents,
        root=_parser().parse(data if plain else data.translate(_ASCII)).root_node,
        span=span,
        one_line="\n" not in bare,
        ascii=plain and not scanned.inserted and not scanned.removed,
        inserted=scanned.inserted,
        removed=scanned.removed,
    )
