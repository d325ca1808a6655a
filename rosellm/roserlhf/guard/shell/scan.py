"""A shell text before it is parsed: here-documents taken out, and what the grammar misreads spelled as it reads it.

One pass over the quotes and brackets. Every character keeps its place, but for those that are put in, whose places are noted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_GLUED: Final = re.compile(r"\$(?<=[\w/.:@%+,}~-]\$)[A-Za-z_]\w*")
"""A variable within a word."""
_BRACES: Final = re.compile(
    r"""\{(?<![^\s;&|(]\{)(?=(?:[^\s;&|<>(){}'"\\,.$]|\.(?!\.)|\\.|\$(?![{(])|'[^']*'|"[^"]*"|\$\{[^{}]*\}|\$\([^()]*\))*(?:,|\.\.))"""
)
"""A word that starts with a group that braces expand."""
_TOKEN: Final = re.compile(
    r"""\\[\s\S] | \$'(?:[^'\\]|\\[\s\S])*' | '[^']*'
    | " | ` | \$\(\( | \$\( | \$\{ | \(\( | <<< | <<-? | [()}\n] | (?<![^\s;&|])\#
    | """
    + f"{_GLUED.pattern} | {_BRACES.pattern}",
    re.VERBOSE,
)
_DELIMITER: Final = re.compile(r"""[ \t]*((?:\\[^\n]|'[^'\n]*'|"[^"\n]*"|[^\s;&|<>()'"\\`])+)""")
_QUOTING: Final = re.compile(r"""[\\'"]""")
_BREAKS: Final = re.compile(r"[\s;&|<>()]|\Z|\\\n")
_FAR: Final = 256
"""Characters of a word before a variable among which another one is looked for."""
DEEPEST: Final = 120
"""Brackets and quotes within each other that are followed."""
_BRACKETS: Final = frozenset(['"', "`", "$((", "$(", "${", "((", "(", ")", "}"])
"""What may begin or end what the text is inside of."""
_MANY: Final = 2
"""Pipes in a pipeline from which on the grammar may read on in the next line."""
_OPEN: Final = frozenset("|&({\\")
"""What a line may end with that goes on in the next."""
_NESTS: Final = frozenset("'\"`\\#{")
"""What may begin that in which parentheses are letters, or what nests otherwise."""
_WORDS: Final = frozenset(["", "(", "`"])
"""What words are inside of where they are not quoted."""


@dataclass(frozen=True, slots=True)
class HereDocument:
    """The body of a here-document."""

    body: str
    start: int
    """Where the body starts in the command."""
    quoted: bool
    """The delimiter was quoted: nothing in the body is expanded."""


@dataclass(slots=True)
class Scanned:
    """A text that is ready to be parsed."""

    text: str
    documents: dict[int, HereDocument]
    """By the position of their `<<` in the text as it was given."""
    inserted: list[int]
    """Positions of characters that were put in."""
    removed: list[int]
    """Positions before which a character was taken out, once for each."""


@dataclass(slots=True)
class _Edits:
    """Changes of a text, in order."""

    text: str
    pieces: list[str] = field(default_factory=list)
    inserted: list[int] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    done: int = 0
    """What stands before was taken over."""
    length: int = 0

    def replace(self, start: int, end: int, by: str) -> None:
        """Put as many other characters in the place of some."""
        self.pieces += (self.text[self.done : start], by)
        self.length += end - self.done
        self.done = end

    def insert(self, at: int, letters: str) -> None:
        """Put characters in."""
        self.pieces += (self.text[self.done : at], letters)
        self.length += at - self.done
        self.inserted += range(self.length, self.length + len(letters))
        self.length += len(letters)
        self.done = at

    def remove(self, start: int, end: int) -> None:
        """Take characters out."""
        self.pieces.append(self.text[self.done : start])
        self.length += start - self.done
        self.removed += [self.length] * (end - start)
        self.done = end

    def whole(self) -> str:
        """Return the changed text."""
        return "".join([*self.pieces, self.text[self.done :]]) if self.pieces else self.text


def scan(text: str) -> Scanned | None:
    """Blank out here-documents and respell what would be misread; None if brackets are nested too deeply.

    Example:
        >>> scan("cat <<E | {wc,-l}\\nbody\\nE\\n\\\\ls /$a/$b/c").text
        'cat <_  | ""{wc,-l}\\n      \\n ls /$a/${b}/c'
    """
    if _stays(text):
        return Scanned(text, {}, [], [])
    documents: dict[int, HereDocument] = {}
    edits = _Edits(text)
    pending: list[tuple[int, str, bool, bool]] = []
    inside = [""]
    at = ended = 0
    while found := _TOKEN.search(text, at):
        token, start, at = found.group(), found.start(), found.end()
        if token in _BRACKETS:
            _nest(inside, token)
        elif token == "\n":
            if start > ended and inside[-1] in _WORDS and _ends_pipeline(text, ended, start, inside[-1]):
                edits.replace(start, at, ";")
            if text[start - 1 : start] not in _OPEN:
                ended = at
            if pending:
                body = at
                for place, delimiter, quoted, tabs in pending:
                    end, at = _end_of_document(text, at, delimiter, tabs)
                    documents[place] = HereDocument(_body(text[body:end], tabs), body, quoted)
                    body = at
                edits.replace(start + 1, at, " " * (at - start - 2) + "\n" if at > start + 1 else "")
                pending.clear()
                ended = at
        elif token in ("<<", "<<-") and inside[-1] not in ('"', "(("):
            if not (word := _DELIMITER.match(text, at)):
                continue
            pending.append((start, _QUOTING.sub("", word[1]), bool(_QUOTING.search(word[1])), token == "<<-"))
            at = word.end()
            edits.replace(start, at, "<_".ljust(at - start))
        elif token == "#" and inside[-1] != '"':
            if start > ended and text[start - 1] == " " and inside[-1] in _WORDS and _ends_pipeline(text, ended, start, inside[-1]):
                edits.replace(start - 1, start, ";")
            ended = at = text.find("\n", at)
            if at < 0:
                break
        elif token == "{" or (token[0] == "$" and (token[1:2].isalpha() or token[1:2] == "_")) or token[0] == "\\":
            if inside[-1] in _WORDS:
                _respell(text, token, start, edits)
        elif not _nest(inside, token):
            at = start + 1
        if len(inside) > DEEPEST:
            return None
    return Scanned(edits.whole(), documents, edits.inserted, edits.removed)


def _stays(text: str) -> bool:
    """Tell of most texts that nothing in them is taken out or respelled, and that they are not nested too deeply.

    Quotes nest only with brackets or backquotes between them, so that there are at most twice as many levels as of these.
    """
    if "<<" in text or "\\\n" in text or "\n\\" in text:
        return False
    if ("\n" in text or "#" in text) and text.count("|") >= _MANY and (">" in text or "<" in text):
        return False
    if 2 * (text.count("(") + text.count("`") + text.count("${")) >= DEEPEST - 2 and not _shallow(text):
        return False
    return not ("$" in text and _GLUED.search(text)) and not ("{" in text and _BRACES.search(text))


def _ends_pipeline(text: str, start: int, end: int, inside: str) -> bool:
    """Tell whether a line ends a pipeline after which the grammar reads on in the next one, if anything there is redirected."""
    line = text[start:end].rstrip()
    line = line[line.rfind(";") + 1 :]
    if line.count("|") - 2 * line.count("||") < _MANY or line[-1:] in _OPEN or text[end : end + 2] in ("\n;", "\n|", "\n&"):
        return False
    return not (inside == "(" and "=(" in text) and not (line.endswith(")") and "esac" in text)


def _shallow(text: str) -> bool:
    """Tell of a text in which nothing but parentheses nests that they do not nest too deeply."""
    if not _NESTS.isdisjoint(text):
        return False
    depth = 0
    for part in text.split(")"):
        depth += part.count("(")
        if depth >= DEEPEST - 2:
            return False
        depth = max(depth - 1, 0)
    return True


def _respell(text: str, token: str, start: int, edits: _Edits) -> None:
    """Respell `{cat,x}` (taken for a group), `$b` in `/$a/$b/c` (cut off), `\\cat` first in a line (taken for the line before).

    A line that goes on within a word is put together.
    """
    if token == "{":
        edits.insert(start, '""')
    elif token[0] == "$":
        if "$" not in text[max(0, start - _FAR) : start].rpartition(" ")[2]:
            return
        edits.insert(start + 1, "{")
        edits.insert(start + len(token), "}")
    elif token == "\\\n":
        if not _BREAKS.match(text, max(start - 1, 0), start) and not _BREAKS.match(text, start + 2):
            edits.remove(start, start + 2)
    elif text[start - 1 : start] == "\n" and text[start - 2 : start - 1] != "\\" and (token[1].isalnum() or token[1] in "_/."):
        edits.replace(start, start + 1, " ")


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
