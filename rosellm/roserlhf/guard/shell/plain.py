"""Commands in which nothing is to be expanded: their words, and the tree of a text that holds nothing else, without the grammar."""

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
_NEXT: Final = re.compile(rf"({_NAME}(?: ++{_WORD_IN})*+) *+(?:(&&|\|\|?|;|\n)[ \n]*+|\Z)", re.ASCII)
_RESERVED: Final = names(
    """if then else elif fi case esac for select while until do done in function time coproc
    declare typeset export readonly local unset unsetenv"""
)
"""Words that begin what is no simple command to the grammar."""


class Tree:
    """A node of a tree, as far as statements are read by it."""

    __slots__ = ("child_count", "children", "end_byte", "is_named", "named_children", "start_byte", "type")
    is_named: bool

    def __init__(self, kind: str, children: list[Tree], start: int, end: int) -> None:
        self.type = kind
        self.children = children
        self.named_children = [child for child in children if child.is_named]
        self.child_count = len(children)
        self.is_named = True
        self.start_byte = start
        self.end_byte = end


_NONE: Final[list[Tree]] = []


class PlainCommand(Tree):
    """A command, given as its words."""

    __slots__ = ("words",)

    def __init__(self, words: list[str], start: int, end: int) -> None:
        self.type = "command"
        self.children = self.named_children = _NONE
        self.child_count = 0
        self.is_named = True
        self.start_byte = start
        self.end_byte = end
        self.words = words


class _Sign(Tree):
    """An operator; where it stands is of no interest."""

    __slots__ = ()

    def __init__(self, sign: str) -> None:
        super().__init__(sign, [], 0, 0)
        self.is_named = False


_SIGNS: Final = {sign: _Sign(sign) for sign in ("&&", "||", "|", ";")}


def plain_words(command: bytes) -> list[str] | None:
    """Return the words of a command in which nothing is to be expanded; None of any other.

    Example:
        >>> plain_words(b"grep -n 'a b' --in='c' src/*.py"), plain_words(b"grep $x"), plain_words(b"A=1 make")
        (['grep', '-n', 'a b', '--in=c', 'src/*.py'], None, None)
    """
    return None if _PLAIN.fullmatch(command) is None else _words(command.decode())


def _words(text: str) -> list[str]:
    if "'" not in text and '"' not in text:
        return text.split()
    words: list[str] = _WORD.findall(text)
    for at, word in enumerate(words):
        if "'" not in word and '"' not in word:
            continue
        whole = word[0] in "'\"" and word.find(word[0], 1) == len(word) - 1
        words[at] = word[1:-1] if whole else _QUOTES.sub(r"\1\2", word)
    return words


def tree_of(text: str) -> Tree | None:
    """Return the tree of a text that holds nothing but plain commands in pipelines, lists and lines; None of any other.

    A list is one node with all of its parts, however long.

    Example:
        >>> [[one.type for one in tree_of(text).children] for text in ("cd a && cat b | wc -l\\n", "ls; pwd")]
        [['list'], ['command', ';', 'command']]
        >>> tree_of("cat a > b"), tree_of("if true"), tree_of("ls &&")
        (None, None, None)
    """
    if not text.isascii():
        return None
    at = _FIRST.match(text).end()  # type: ignore[union-attr]
    end = len(text)
    statements: list[Tree] = []
    parts: list[Tree] = []
    pipe: list[Tree] = []
    sign: str | None = ";"
    listed, longest = False, 0
    while at < end:
        found = _NEXT.match(text, at)
        if found is None:
            return None
        command, sign = found.groups()
        words = _words(command)
        if words[0] in _RESERVED or " ==" in command:  # an operator to the grammar
            return None
        one: Tree = PlainCommand(words, at, at + len(command))
        stop = one.end_byte
        at = found.end()
        if pipe:
            pipe.append(one)
        if sign == "|":
            pipe = pipe or [one]
            pipe.append(_SIGNS["|"])
            continue
        if pipe:
            longest = max(longest, len(pipe))
            one = Tree("pipeline", pipe, pipe[0].start_byte, stop)
            pipe = []
        if parts:
            parts.append(one)
        if sign == "&&" or sign == "||":
            listed = True
            parts = parts or [one]
            parts.append(_SIGNS[sign])
            continue
        if parts:
            one = Tree("list", parts, parts[0].start_byte, stop)
            parts = []
        statements.append(one)
        if sign == ";":
            statements.append(_SIGNS[";"])
    if pipe or parts or not statements or (listed and longest > 3):
        return None  # of `a | b | c && d` the grammar makes `a | { b | c && d; }`
    return Tree("program", statements, statements[0].start_byte, end)
