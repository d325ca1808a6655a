"""Text of a shell command -> its tree (tree-sitter's bash grammar), here-documents taken out beforehand; linear, never raises."""

from __future__ import annotations

import bisect
import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rosellm.roserlhf.errors import missing_extra

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_TOKEN: Final = re.compile(
    r"""\\[\s\S] | \$'(?:[^'\\]|\\[\s\S])*' | '[^']*'
    | " | ` | \$\(\( | \$\( | \$\{ | \(\( | <<< | <<-? | [()}\n] | (?<![^\s;&|()])\#""",
    re.VERBOSE,
)
_DELIMITER: Final = re.compile(r"""[ \t]*((?:\\[^\n]|'[^'\n]*'|"[^"\n]*"|[^\s;&|<>()'"\\`])+)""")
_CONTINUED: Final = re.compile(r"\|[ \t\n]+")
_ENDS: Final = re.compile(r"[;\n&]|\|\|")
_WIDE: Final = re.compile(r"[^\x00-\x7f]")
_QUOTING: Final = re.compile(r"""[\\'"]""")
DEEPEST: Final = 120
"""Brackets and quotes within each other that are followed."""
MOST_PIPES: Final = 1_500
"""The grammar's time grows with the square of a pipeline's length."""


@dataclass(frozen=True, slots=True)
class HereDocument:
    """The body of a here-document."""

    body: str
    start: int
    """Where the body starts in the command."""
    quoted: bool
    """The delimiter was quoted: nothing in the body is expanded."""


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
    """Bytes are characters."""
    _wide: list[int] = field(default_factory=list)
    """Bytes at which characters of more than one byte start."""
    _surplus: list[int] = field(default_factory=list)
    """Bytes that these and all before have beyond one each."""

    def position(self, byte: int) -> int:
        """Turn a position in bytes into one in characters."""
        if self.ascii:
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
    scanned = _without_documents(text)
    if scanned is None:
        return None
    bare, documents = scanned
    if bare.count("|") > MOST_PIPES and max(part.count("|") for part in _ENDS.split(_CONTINUED.sub("|", bare))) > MOST_PIPES:
        return None
    data = bare.encode("utf-8", "surrogatepass")
    return Source(
        text=bare, data=data, documents=documents, root=_parser().parse(data).root_node, span=span, ascii=len(bare) == len(data)
    )


def _without_documents(text: str) -> tuple[str, dict[int, HereDocument]] | None:
    """Blank out here-documents, so that every other character stays where it was; None if brackets are nested too deeply."""
    documents: dict[int, HereDocument] = {}
    pieces: list[str] = []
    done = 0
    pending: list[tuple[int, str, bool, bool]] = []
    inside = [""]
    at = 0
    while found := _TOKEN.search(text, at):
        token, at = found.group(), found.end()
        if token == "\n" and pending:
            body = at
            for place, delimiter, quoted, tabs in pending:
                end, at = _end_of_document(text, at, delimiter, tabs)
                documents[place] = HereDocument(_body(text[body:end], tabs), body, quoted)
                body = at
            pieces += [text[done : found.end()], " " * (at - found.end() - 1), "\n" if at > found.end() else ""]
            done = at
            pending.clear()
        elif token in ("<<", "<<-") and inside[-1] not in ('"', "(("):
            if not (word := _DELIMITER.match(text, at)):
                continue
            pending.append((found.start(), _QUOTING.sub("", word[1]), bool(_QUOTING.search(word[1])), token == "<<-"))
            pieces += [text[done : found.start()], "<_".ljust(word.end() - found.start())]
            done = at = word.end()
        elif token == "#" and inside[-1] != '"':
            at = text.find("\n", at)
            if at < 0:
                break
        elif not _nest(inside, token):
            at = found.start() + 1
        if len(inside) > DEEPEST:
            return None
    return ("".join([*pieces, text[done:]]) if documents or pending else text), documents


def _nest(inside: list[str], token: str) -> bool:
    """Follow what the text is inside of; False: the token is no token in there, go on behind its first character."""
    here = inside[-1]
    if (here == '"' and token[0] in "'#") or (here == '"' and token.startswith("$'")):
        return False
    if token in ('"', "`"):
        inside.pop() if here == token else inside.append(token)
    elif token == "(" and here != '"':
        inside.append("(")
    elif token in ("$(", "${", "$((") or (token == "((" and here != '"'):
        inside.append({"$(": "(", "${": "{", "$((": "((", "((": "(("}[token])
    elif (token == ")" and here == "(") or (token == "}" and here == "{"):
        inside.pop()
    elif token == ")" and here == "((":
        inside[-1] = "("
    return True


def _end_of_document(text: str, start: int, delimiter: str, tabs: bool) -> tuple[int, int]:
    """Return where a here-document's body ends, and where the line of its delimiter does."""
    at = start
    while at < len(text):
        stop = text.find("\n", at)
        stop = len(text) if stop < 0 else stop
        line = text[at:stop]
        if (line.lstrip("\t") if tabs else line) == delimiter:
            return at, min(stop + 1, len(text))
        at = stop + 1
    return len(text), len(text)


def _body(body: str, tabs: bool) -> str:
    return "\n".join(line.lstrip("\t") for line in body.split("\n")) if tabs else body


def closing(text: str, start: int) -> int:
    """Return the end of the `$(...)`, `${...}`, or backquoted part that starts there; the end of the text if it stays open."""
    inside = [""]
    at = start
    while found := _TOKEN.search(text, at):
        at = found.end()
        if not _nest(inside, found.group()):
            at = found.start() + 1
        if len(inside) == 1:
            return at
    return len(text)
