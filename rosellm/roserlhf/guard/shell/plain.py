"""Texts in which next to nothing is to be expanded: the words of a command, and the tree of a text, without the grammar.

A tree holds commands in pipelines, lists and lines, loops over words, assignments, and commands whose output goes into a file.
"""

from __future__ import annotations

import re
from typing import Final

from rosellm.roserlhf.guard.shell.value import names

_NAME: Final = r"[A-Za-z][\w./-]*+"
_BARE: Final = r"[\w./:=,@%+*-]"
_QUOTED: Final = r"""(?:'[^'\\\n\x80-\xff]*'|"[^"\\$`\n\x80-\xff]*")"""
_WORD_IN: Final = rf"(?:{_BARE}++|{_QUOTED}{_BARE}*+)(?:{_QUOTED}{_BARE}*+)*+"
_PLAIN: Final = re.compile(f"{_NAME}(?: ++{_WORD_IN})*+".encode())
_WORD: Final = re.compile(_WORD_IN, re.ASCII)
_QUOTES: Final = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_FIRST: Final = re.compile(r"[ \n]*+")
_VARIABLE: Final = r"[A-Za-z_]\w*+"
_SIMPLE: Final = r"[\w./*][\w./*-]*+"
_WORD_OR: Final = rf"""(?:{_WORD_IN}|"\${_VARIABLE}")"""
_WORDS: Final = re.compile(_WORD_OR, re.ASCII)
_END: Final = r"(?:(&&|\|\|?|;|\n)[ \n]*+|\Z|(?=\)))"
_TAIL: Final = rf" *+(?:{_END}|(?<= )(?:(\$\()[ \n]*+|(>>?) *+({_SIMPLE}) *+{_END}))"
_NEXT: Final = re.compile(rf"({_NAME}(?: ++{_WORD_OR})*+){_TAIL}", re.ASCII)
_FURTHER: Final = re.compile(rf"((?: ++{_WORD_OR})*+){_TAIL}", re.ASCII)
_LOOP: Final = re.compile(rf"for ++({_VARIABLE}) ++in((?: ++{_SIMPLE})++) *+[;\n][ \n]*+(do)[ \n]++", re.ASCII)
_ASSIGNED: Final = re.compile(
    rf"(({_VARIABLE})=(?:({_SIMPLE})|\$({_VARIABLE})((?:[./-][\w./*-]*+)?))) *+(?:(;)[ \n]*+|\Z|(?=\)))", re.ASCII
)
_TEXT: Final = re.compile(
    rf"""(?:{_BARE}++|[ \n;|)]++|{_QUOTED}|"\${_VARIABLE}"|(?<==)\${_VARIABLE}|\$\(|&&|(?<= )>>?)*+""", re.ASCII
)
"""What a text of such statements is made of, and some others; it is told at once of most texts that they are of something else."""
_ALONE: Final = frozenset(["redirected_statement", "variable_assignment"])
"""Statements of which the grammar makes something else in lists and pipelines."""
_JOINS: Final = frozenset(["&&", "||", "|"])
_LONG: Final = 2_000
"""Characters of a text of which it does not pay to look through it before."""
_DEEPEST: Final = 8
"""Loops and substitutions within each other."""
_RESERVED: Final = names(
    """if then else elif fi case esac for select while until do done in function time coproc
    declare typeset export readonly local unset unsetenv"""
)
"""Words that begin what is no simple command to the grammar."""


class Tree:
    """A node of a tree, as far as statements are read by it."""

    __slots__ = ("child_count", "children", "end_byte", "named_children", "start_byte", "type")
    is_named = True

    def __init__(self, kind: str, children: list[Tree], start: int, end: int) -> None:
        self.type = kind
        self.children = children
        self.named_children = [child for child in children if child.is_named]
        self.child_count = len(children)
        self.start_byte = start
        self.end_byte = end


class _Leaf(Tree):
    """A node that is read by what it holds, not by its children."""

    __slots__ = ()
    children: list[Tree] = []  # noqa: RUF012 -- nothing is ever put into it
    named_children = children
    child_count = 0


class PlainCommand(_Leaf):
    """A command, given as its words."""

    __slots__ = ("words",)
    type = "command"

    def __init__(self, words: list[str], start: int, end: int) -> None:
        self.words = words
        self.start_byte = start
        self.end_byte = end


class ExpandedCommand(_Leaf):
    """A command, given as its words, of which some are to be expanded."""

    __slots__ = ("words",)
    type = "command"

    def __init__(self, words: list[Word], start: int, end: int) -> None:
        self.words = words
        self.start_byte = start
        self.end_byte = end


class Redirected(_Leaf):
    """A command whose output goes into a file."""

    __slots__ = ("command", "operator", "target")
    type = "redirected_statement"

    def __init__(self, command: PlainCommand | ExpandedCommand, operator: str, target: str, end: int) -> None:
        self.command = command
        self.operator = operator
        self.target = target
        self.start_byte = command.start_byte
        self.end_byte = end


class Assigned(_Leaf):
    """`name=text`, or `name=$variable` with a text behind it."""

    __slots__ = ("name", "text", "variable")
    type = "variable_assignment"

    def __init__(self, name: str, variable: str, text: str, start: int, end: int) -> None:
        self.name = name
        self.variable = variable
        self.text = text
        self.start_byte = start
        self.end_byte = end


class Body(_Leaf):
    """`do ...; done`."""

    __slots__ = ("statements",)
    type = "do_group"

    def __init__(self, statements: list[Tree], start: int, end: int) -> None:
        self.statements = statements
        self.start_byte = start
        self.end_byte = end


class Loop(_Leaf):
    """`for name in words; do ...; done`."""

    __slots__ = ("body", "name", "words")
    type = "for_statement"

    def __init__(self, name: str, words: list[str], body: Body, start: int) -> None:
        self.name = name
        self.words = words
        self.body = body
        self.start_byte = start
        self.end_byte = body.end_byte


class Variable:
    """`"$name"`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Printed:
    """`$(...)`."""

    __slots__ = ("statements",)

    def __init__(self, statements: list[Tree]) -> None:
        self.statements = statements


Word = str | Variable | Printed
"""A word of a command."""


class _Sign(Tree):
    """An operator; where it stands is of no interest."""

    __slots__ = ()
    is_named = False

    def __init__(self, sign: str) -> None:
        super().__init__(sign, [], 0, 0)


_SIGNS: Final = {sign: _Sign(sign) for sign in ("&&", "||", "|", ";")}


def plain_words(command: bytes) -> list[str] | None:
    """Return the words of a command in which nothing is to be expanded; None of any other.

    Example:
        >>> plain_words(b"grep -n 'a b' --in='c' src/*.py"), plain_words(b"grep $x"), plain_words(b"A=1 make")
        (['grep', '-n', 'a b', '--in=c', 'src/*.py'], None, None)
    """
    if _PLAIN.fullmatch(command) is None:
        return None
    text = command.decode()
    return _words(text) if "'" in text or '"' in text else text.split()


def _words(text: str) -> list[str]:
    if "'" not in text and '"' not in text:
        return text.split()
    return [_bare(word) if "'" in word or '"' in word else word for word in _WORD.findall(text)]


def _bare(word: str) -> str:
    """Return a word without its quotes."""
    whole = word[0] in "'\"" and word.find(word[0], 1) == len(word) - 1
    return word[1:-1] if whole else _QUOTES.sub(r"\1\2", word)


def _words_or(text: str) -> list[Word]:
    """Return words of which some may be variables in quotes."""
    return [
        Variable(word[2:-1]) if word[:2] == '"$' else _bare(word) if "'" in word or '"' in word else word
        for word in _WORDS.findall(text)
    ]


def tree_of(text: str) -> Tree | None:
    """Return the tree of a text that holds nothing but what is said above; None of any other.

    A list is one node with all of its parts, however long.

    Example:
        >>> [[one.type for one in tree_of(text).children] for text in ("cd a && cat b | wc -l\\n", "ls; pwd", 'cat "$a" > b')]
        [['list'], ['command', ';', 'command'], ['redirected_statement']]
        >>> tree_of("cat a < b"), tree_of("if true"), tree_of("ls &&")
        (None, None, None)
    """
    if not text.isascii() or (len(text) < _LONG and _TEXT.fullmatch(text) is None):
        return None
    reader = _Reader(text)
    try:
        statements = reader.statements("")
    except _OtherError:
        return None
    if reader.longest > 3 and reader.mixed:
        return None  # of `a | b | c && d` the grammar makes `a | { b | c && d; }`, and it goes on in the next line for a `> file`
    return Tree("program", statements, statements[0].start_byte, len(text))


class _OtherError(Exception):
    """The text holds something else than what is read here."""


class _Reader:
    """Where a text is read, and what stands behind the statement that was read last."""

    __slots__ = ("at", "depth", "longest", "mixed", "sign", "stop", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at: int = _FIRST.match(text).end()  # type: ignore[union-attr]
        self.sign: str | None = None
        self.stop = 0
        """The end of the last `done`."""
        self.depth = 0
        self.longest = 0
        """Commands and signs of the longest pipeline."""
        self.mixed = False
        """Whether there is a list, or output into a file."""

    def statements(self, closing: str) -> list[Tree]:
        """Read statements up to what closes them, `done` or `)`, or up to the end of the text; their signs only there."""
        text, end = self.text, len(self.text)
        statements: list[Tree] = []
        parts: list[Tree] = []
        pipe: list[Tree] = []
        closed = not closing
        self.depth += 1
        while self.at < end and self.depth <= _DEEPEST:
            one = self.statement()
            if one is None:
                closed = closing == "done"
                break
            sign = self.sign
            if pipe or parts or sign in _JOINS:
                stop = one.end_byte
                if one.type in _ALONE:
                    raise _OtherError
                if pipe:
                    pipe.append(one)
                if sign == "|":
                    pipe = pipe or [one]
                    pipe.append(_SIGNS["|"])
                    continue
                if pipe:
                    self.longest = max(self.longest, len(pipe))
                    one = Tree("pipeline", pipe, pipe[0].start_byte, stop)
                    pipe = []
                if parts:
                    parts.append(one)
                if sign == "&&" or sign == "||":
                    self.mixed = True
                    parts = parts or [one]
                    parts.append(_SIGNS[sign])
                    continue
                if parts:
                    one = Tree("list", parts, parts[0].start_byte, stop)
                    parts = []
            statements.append(one)
            if sign == ";" and not closing:
                statements.append(_SIGNS[";"])
            if closing == ")" and text.startswith(")", self.at):
                closed = True
                break
        if not closed or pipe or parts or not statements:
            raise _OtherError
        self.depth -= 1
        return statements

    def statement(self) -> Tree | None:
        """Read a command, an assignment or a loop; None: `done`."""
        start = self.at
        if self.text.startswith("for ", start):
            return self.loop()
        found = _NEXT.match(self.text, start)
        if found is None:
            return self.assignment()
        command, sign, opened, operator, target, last = found.groups()
        if command.partition(" ")[0] in _RESERVED:
            if command != "done" or opened or operator:
                raise _OtherError
            self.at, self.stop, self.sign = found.end(), found.end(1), sign
            return None
        self.at, end = found.end(), found.end(1)
        if " ==" in command:  # an operator to the grammar
            raise _OtherError
        expanded: list[Word] | None = _words_or(command) if '"$' in command else None
        while opened:
            if expanded is None:
                expanded = [*_words(command)]
            expanded.append(Printed(self.statements(")")))
            found = _FURTHER.match(self.text, self.at + 1)
            if found is None or " ==" in found[1]:
                raise _OtherError
            further, sign, opened, operator, target, last = found.groups()
            if further:
                expanded += _words_or(further)
            self.at, end = found.end(), found.end(1)
        one = PlainCommand(_words(command), start, end) if expanded is None else ExpandedCommand(expanded, start, end)
        self.sign = sign
        if operator is None:
            return one
        self.sign, self.mixed = last, True
        return Redirected(one, operator, target, found.end(5))

    def assignment(self) -> Tree:
        """Read an assignment."""
        found = _ASSIGNED.match(self.text, self.at)
        if found is None:
            raise _OtherError
        one = Assigned(found[2], found[4] or "", found[3] or found[5] or "", self.at, found.end(1))
        self.at = found.end()
        self.sign = found[6]
        return one

    def loop(self) -> Tree:
        """Read a loop over words."""
        start = self.at
        found = _LOOP.match(self.text, start)
        if found is None:
            raise _OtherError
        self.at = found.end()
        statements = self.statements("done")
        return Loop(found[1], found[2].split(), Body(statements, found.start(3), self.stop), start)
