"""Redirections: what goes in from files, here-documents and strings; what comes out into files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell.file import read_path, write_path
from rosellm.roserlhf.guard.shell.shell import Shell, either
from rosellm.roserlhf.guard.shell.text import expand
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value, joined
from rosellm.roserlhf.guard.shell.words import fields, text

if TYPE_CHECKING:
    from tree_sitter import Node

_OUT: Final = {">": "truncate", ">|": "truncate", ">>": "append", "&>": "truncate", "&>>": "append", ">&": "truncate"}
_PRINTED: Final = frozenset(["", "1", "&"])
"""Descriptors of the standard output."""
_SOURCES: Final = 4
"""Files whose content a written file may hold that its act names."""
_SOCKETS: Final = ("/dev/tcp/", "/dev/udp/")


@dataclass(slots=True)
class Redirections:
    """Redirections of one command."""

    shell: Shell
    words: list[Value] = field(default_factory=list)
    """Words that stand behind a redirection's file: arguments of the command."""
    outputs: list[tuple[str, str, str]] = field(default_factory=list)
    """(path, how it is opened, descriptor) of files that take output."""
    printed: Value = NOTHING
    """Content of a file that is read by `$(< file)`."""
    start: int = 0
    """Acts noted before this command."""
    stdin: Value | None = None
    """The standard input outside."""
    span: tuple[int, int] = (0, 0)
    """The part of the text that was read outside."""

    def __enter__(self) -> Redirections:
        return self

    def __exit__(self, *_: object) -> None:
        self.shell.stdin, self.shell.span = self.stdin, self.span

    def out(self, printed: Value) -> Value:
        """Send output where it goes; return what is still printed."""
        if not self.outputs:
            return printed
        read = dict.fromkeys([act.target for act in self.shell.acts[self.start :] if act.kind == "read"])
        source = {"source": " ".join(list(read)[:_SOURCES])} if read else None
        left = printed
        for path, mode, descriptor in self.outputs:
            if descriptor in _PRINTED:
                write_path(self.shell, path, self.shell.program, mode, printed, descriptor, source)
                left = NOTHING
            else:
                write_path(self.shell, path, self.shell.program, mode, None, descriptor)
        return left


def has_effect(shell: Shell, node: Node) -> bool:
    """Tell whether a redirection may do anything; `2>/dev/null` and `2>&1`, the most usual ones, do not where they stand alone."""
    written = shell.source.data[node.start_byte : node.end_byte]
    return written != b"2>/dev/null" and (written != b"2>&1" or ("descriptor", "1") in shell.state.known)


def redirections(shell: Shell, nodes: Sequence[Node]) -> Redirections:
    """Open redirections; the standard input inside the block is what they say."""
    program = shell.program
    found = Redirections(shell, start=len(shell.acts), stdin=shell.stdin, span=shell.span)
    for node in nodes:
        kind = node.type
        if kind == "file_redirect":
            _file(shell, node, found)
        elif kind == "herestring_redirect":
            word = node.named_children[-1] if node.named_children else None
            shell.stdin = joined([text(shell, word), ("\n",)]) if word is not None else NOTHING
        elif node.is_named:
            found.words += fields(shell, [node])
    shell.program = program
    return found


def into_file(shell: Shell, operator: str, target: str) -> Redirections:
    """Open a file that takes the output of a command."""
    found = Redirections(shell, start=len(shell.acts), stdin=shell.stdin, span=shell.span)
    _open(shell, operator, "", target, found)
    return found


def _file(shell: Shell, node: Node, found: Redirections) -> None:
    children = node.children
    source = shell.source
    descriptor, operator = "", ">"
    for child in children:
        if not child.is_named:
            operator = child.type
            break
    if children[0].type == "file_descriptor":
        descriptor = source.of(children[0])
    destinations = node.children_by_field_name("destination")
    document = None
    if operator == "<" and source.documents:
        document = source.documents.get(source.position(node.start_byte + len(descriptor)))
    first = 1
    if len(destinations) > 1:
        while first < len(destinations) and destinations[first].start_byte == destinations[first - 1].end_byte:
            first += 1
        found.words += fields(shell, destinations[first:])
    if document is not None:
        shell.stdin = (document.body,) if document.quoted else expand(shell, document.body, quoted=True)
        return
    if not destinations:
        return
    target = text(shell, destinations[0]) if first == 1 else joined([text(shell, one) for one in destinations[:first]])
    for one in target:
        _open(shell, operator, descriptor, one, found)
    if operator == "<" and len(target) > 1:
        shell.stdin = either((shell.file(shell.path(one)) or UNKNOWN,) for one in target)


def _open(shell: Shell, operator: str, descriptor: str, target: str, found: Redirections) -> None:
    if target.startswith(_SOCKETS):
        host = target.split("/")[3:5]
        shell.act("fetch", ":".join(host), target.split("/")[2], via_device="yes")
        shell.stdin = ANYTHING
        return
    if operator in (">&", "<&", "<&-", ">&-") and (not target or target.rstrip("-").isdigit() or target == "-"):
        _duplicate(shell, operator, descriptor, target.rstrip("-"), found)
        return
    if operator in ("<", "<>", "<&"):
        content = read_path(shell, target, shell.program, stdin="yes")
        if descriptor in ("", "0"):
            shell.stdin = content
            found.printed = content
        else:
            shell.state.set("descriptor", descriptor, target)
        if operator != "<>":
            return
    mode = _OUT.get(operator, "truncate")
    if descriptor not in ("", "1", "2"):
        shell.state.set("descriptor", descriptor, target)
    found.outputs.append((target, mode, "&" if operator.startswith("&") else descriptor))


def _duplicate(shell: Shell, operator: str, descriptor: str, source: str, found: Redirections) -> None:
    """`2>&1`, `<&7`: a descriptor becomes another one."""
    opened = shell.state.get("descriptor", source)
    if opened and operator == "<&" and descriptor in ("", "0"):
        shell.stdin = read_path(shell, opened, shell.program, stdin="yes")
    elif opened and operator == ">&":
        found.outputs.append((opened, "append", descriptor))
    elif operator == ">&" and source == "2" and descriptor in ("", "1"):
        found.outputs.append(("/dev/stderr", "append", descriptor))
