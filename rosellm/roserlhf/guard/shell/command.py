"""Simple commands: words -> the program, builtin, function or alias that they name, and what it does."""

from __future__ import annotations

import functools
import itertools
import operator
import re
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell.assignment import assign, forget, set_variable
from rosellm.roserlhf.guard.shell.language import run_file, unknown_program
from rosellm.roserlhf.guard.shell.plain import ExpandedCommand, PlainCommand, Redirected, plain_words
from rosellm.roserlhf.guard.shell.program import interpret
from rosellm.roserlhf.guard.shell.redirect import has_effect, into_file, redirections
from rosellm.roserlhf.guard.shell.shell import Shell, either, shortened
from rosellm.roserlhf.guard.shell.syntax import Source
from rosellm.roserlhf.guard.shell.table import program_of, programs
from rosellm.roserlhf.guard.shell.value import NOTHING, Value, names
from rosellm.roserlhf.guard.shell.words import fields, fields_of

if TYPE_CHECKING:
    from tree_sitter import Node

Reader = Callable[[Shell, list[str]], Value]
READERS: Final[dict[str, Reader]] = {}
"""Programs and builtins that are read by a function of their own, by name."""
_VERSIONED: Final = re.compile(
    r"(python|pypy|pip|ruby|perl|node|php|lua|gcc|g\+\+|clang|clang\+\+|java|go|vim)(?:-?\d[\d.]*)(?:-config)?"
)
_BIN: Final = re.compile(r"(?:/usr(?:/local)?|/opt/[\w.+-]+|[\w./~+-]*/(?:\.?venv|env|miniconda3|conda))?/s?bin/[^/]+")
_ALIASES: Final = {"python": "python", "pypy": "python", "[": "test", "gawk": "awk", "mawk": "awk", "nawk": "awk", "gsed": "sed"}
_QUIET: Final = names(
    """cd echo printf test [ true false : export set unset local declare typeset readonly read shift return exit break continue
    pushd popd dirs alias unalias let wait shopt sleep command builtin eval . source"""
)
MOST_WORDS: Final = 4_000
"""Words of one command that are read."""


def command(shell: Shell, node: Node, redirects: Sequence[Node] = ()) -> Value:
    """Read a simple command with its redirections."""
    source = shell.source
    start, end = node.start_byte, node.end_byte
    plain = plain_words(source.data[start:end])
    if plain is not None:
        shell.span = source.where(start, end)
        if not redirects:
            return dispatch(shell, plain[:MOST_WORDS])
        if not plain[-1].isdigit() or redirects[0].start_byte != end:
            return _redirected(shell, [(word,) for word in plain], redirects)
    words: list[Node] = []
    before: list[tuple[str, Value]] = []
    inner = list(redirects)
    mark = shell.state.mark()
    shell.span = source.where(start, end)
    children = node.children
    alone = 0
    if children and not source.one_line and children[0].type == "variable_assignment":
        alone = max([one.end_byte for one in assignments_alone(shell, node)], default=0)
    for child in children:
        kind = child.type
        if kind == "variable_assignment":
            if child.end_byte > alone:
                before.append(assign(shell, child, quiet=True))
        elif kind in ("file_redirect", "herestring_redirect"):
            inner.append(child)
        elif kind == "number" and redirects and child.end_byte == redirects[0].start_byte:
            continue  # `0< file`: a descriptor, which the grammar takes for a word
        else:
            words.append(child)
    found = fields(shell, words)
    if before:
        shell.leave(mark)  # they hold for this command alone
    return _redirected(shell, found, inner, before) if inner else run_words(shell, found, before)


def plain_command(shell: Shell, node: PlainCommand) -> Value:
    """Read a command in which nothing is to be expanded."""
    shell.span = shell.source.where(node.start_byte, node.end_byte)
    return dispatch(shell, node.words[:MOST_WORDS])


def expanded_command(shell: Shell, node: ExpandedCommand) -> Value:
    """Read a command that was read without the grammar."""
    shell.span = shell.source.where(node.start_byte, node.end_byte)
    return run_words(shell, fields_of(shell, node.words))


def redirected_command(shell: Shell, node: Redirected) -> Value:
    """Read a command whose output goes into a file."""
    one = node.command
    shell.span = shell.source.where(one.start_byte, one.end_byte)
    words = fields_of(shell, one.words)
    shell.program = words[0][0].rpartition("/")[2]
    with into_file(shell, node.operator, node.target) as redirected:
        return redirected.out(run_words(shell, words))


def _redirected(
    shell: Shell, words: list[Value], redirects: Sequence[Node], before: list[tuple[str, Value]] | None = None
) -> Value:
    """Read a command given as expanded words with its redirections."""
    span = shell.span
    shell.program = words[0][0].rpartition("/")[2] if words else ""
    if True not in [has_effect(shell, one) for one in redirects]:
        return run_words(shell, words, before)
    with redirections(shell, redirects) as redirected:
        shell.span = span
        return redirected.out(run_words(shell, [*words, *redirected.words] if redirected.words else words, before))


def assignments_alone(shell: Shell, node: Node) -> list[Node]:
    """Return the assignments in front of a command that stand on lines of their own: the grammar takes them for the command's."""
    found: list[Node] = []
    last = 0
    for child in node.children:
        if child.type != "variable_assignment" or (following := child.next_sibling) is None:
            break
        found.append(child)
        if following.start_point.row != child.end_point.row and b"\n" in shell.source.data[
            child.end_byte : following.start_byte
        ].replace(b"\\\n", b""):
            last = len(found)
    return found[:last]


def run_words(shell: Shell, words: list[Value], before: list[tuple[str, Value]] | None = None) -> Value:
    """Read a command given as expanded words, once per alternative."""
    if not words:
        return NOTHING
    if before:
        return _with_variables(shell, words, before)
    words = words[:MOST_WORDS]
    if len(max(words, key=len)) == 1:
        return dispatch(shell, [word[0] for word in words])
    most = max(map(len, words))
    printed: list[Value] = []
    for at in range(most):
        if at and not shell.again():
            shell.act("opaque", "a command with too many alternatives")
            break
        printed.append(dispatch(shell, [word[min(at, len(word) - 1)] for word in words]))
    return either(printed)


def _with_variables(shell: Shell, words: list[Value], before: list[tuple[str, Value]]) -> Value:
    """Read a command with assignments in front of it, which hold for this command alone."""
    outside = {name: shell.state.get("var", name) for name, _ in before}
    for name, value in before:
        shell.act("environment", name, f"set {shortened(value[0])}")
        shell.state.set("var", name, value)
    printed = run_words(shell, words)
    if words[0] not in (("eval",), (".",), ("source",), ("export",), (":",)):
        for name, was in outside.items():
            if was is None:
                shell.state.drop("var", name)
            else:
                shell.state.set("var", name, was)
    return printed


def dispatch(shell: Shell, argv: list[str]) -> Value:
    """Read a command given as texts; return what it prints."""
    if not argv or not argv[0]:
        argv = [*itertools.dropwhile(operator.not_, argv)]
        if not argv:
            return NOTHING
    name = argv[0]
    span, program, traits = shell.span, shell.program, shell.traits
    try:
        if shell.state.renames:
            function = shell.state.get("function", name)
            if function is not None and traits.get("in_function") != name:
                return _call(shell, name, function, argv[1:])
            if (alias := shell.state.get("alias", name)) is not None and shell.again():
                shell.state.drop("alias", name)
                return shell.evaluate(f"{alias} {shlex.join(argv[1:])}")
        shell.program = called = known_as(name)
        if "/" in name:
            return _placed_program(shell, called, argv)
        if called not in _QUIET:
            shell.note_program(argv)
        if (reader := READERS.get(called)) is not None:
            return reader(shell, argv)
        if (spec := programs().get(called)) is not None:
            return interpret(shell, spec, argv, dispatch)
        if UNKNOWN in called or "*" in name or "?" in name or "[" in name:
            return _unknown_name(shell, name, argv)
        return unknown_program(shell, called, argv[1:])
    finally:
        shell.span, shell.program, shell.traits = span, program, traits


@functools.lru_cache(1024)
def known_as(name: str) -> str:
    """Return the name under which a program is known: without its directory and version.

    Example:
        >>> known_as("/usr/bin/python3.11"), known_as("[")
        ('python', 'test')
    """
    name = name.rpartition("/")[2].removesuffix(".exe")
    if (found := _VERSIONED.fullmatch(name)) is not None:
        name = found[1]
    return _ALIASES.get(name, name)


def _placed_program(shell: Shell, called: str, argv: list[str]) -> Value:
    """Read a command whose program is given with a directory."""
    name = argv[0]
    if called not in _QUIET:
        shell.note_program(argv, path=shell.path(name))
    here = not name.startswith(UNKNOWN) and not _BIN.fullmatch(name)
    if here and (content := shell.file(shell.path(name))) is not None:
        return run_file(shell, shell.path(name), content, argv[1:])
    if (reader := READERS.get(called)) is not None:
        return reader(shell, argv)
    if not here and (spec := programs().get(called)) is not None:
        return interpret(shell, spec, argv, dispatch)
    if UNKNOWN in called or (not here and any(c in name for c in "*?[")):
        return _unknown_name(shell, name, argv)
    return unknown_program(shell, called, argv[1:])


def _unknown_name(shell: Shell, name: str, argv: list[str]) -> Value:
    """Read a command whose name is computed, or a glob, as every program that it may be."""
    if name.replace(UNKNOWN, "") == "" and len(argv) > 1 and (known_as(argv[1]) in READERS or known_as(argv[1]) in programs()):
        return dispatch(shell, argv[1:])
    shell.act("opaque", f"program {shortened(name)}")
    found = [one for one in program_of(name.rpartition("/")[2], [*programs(), *READERS]) if one != name][:3]
    return either([dispatch(shell, [one, *argv[1:]]) for one in found] or [unknown_program(shell, name, argv[1:])])


def _call(shell: Shell, name: str, function: tuple[Source, Node], arguments: list[str]) -> Value:
    source, body = function
    before = shell.state.get("args", "")
    shell.state.set("args", "", [(one,) for one in arguments])
    span = source.span
    if source is not shell.source:
        source.span = source.span or shell.span
    try:
        return shell.call(source, body)
    finally:
        source.span = span
        shell.state.set("args", "", before or [])


def declare(shell: Shell, node: Node) -> Value:
    """Read `export`, `declare`, `local`, `readonly` with assignments."""
    shell.at(node)
    verb = node.children[0].type if node.children else "declare"
    options = [shell.source.of(child) for child in node.named_children if child.type == "word"]
    exported = verb == "export" or any(one.startswith("-") and "x" in one for one in options)
    for child in node.named_children:
        if child.type == "variable_assignment":
            name, value = assign(shell, child, exported=exported)
            if any(one.startswith("-") and "n" in one for one in options):
                shell.state.set("var", name, shell.state.variable(value[0]))
        elif child.type == "variable_name" and exported:
            name = shell.source.of(child)
            value = shell.state.variable(name)
            set_variable(shell, name, value, exported=True)
        elif child.type in ("concatenation", "string", "simple_expansion", "expansion", "raw_string", "command_substitution"):
            for field in fields(shell, [child]):
                name, equals, text = field[0].partition("=")
                if equals and name.isidentifier():
                    set_variable(shell, name, (text,), exported=exported)
    if not node.named_children or options in (["-p"], ["-x"]):
        shell.act("environment", "*", "read")
    return NOTHING


def unset(shell: Shell, node: Node) -> Value:
    """Read `unset`."""
    shell.at(node)
    functions = any(shell.source.of(child) == "-f" for child in node.named_children)
    for field in fields(shell, node.named_children):
        for name in field:
            if name.startswith("-"):
                continue
            shell.state.drop("function", name)
            if not functions:
                forget(shell, name)
    return NOTHING
