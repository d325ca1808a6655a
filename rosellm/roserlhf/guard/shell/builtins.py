"""Builtins of the shell: directories, variables, printing, evaluation, exits, traps."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell import command as commands
from rosellm.roserlhf.guard.shell.assignment import set_variable
from rosellm.roserlhf.guard.shell.condition import of_words
from rosellm.roserlhf.guard.shell.escapes import ansi
from rosellm.roserlhf.guard.shell.file import act_on, read_content, read_path
from rosellm.roserlhf.guard.shell.language import run_shell
from rosellm.roserlhf.guard.shell.path import unlinked
from rosellm.roserlhf.guard.shell.shell import Shell, shortened
from rosellm.roserlhf.guard.shell.value import ANYTHING, BLANKS, NOTHING, Value, mapped, one_of, split

_FORMAT: Final = re.compile(r"%(?:%|[-+ #0]*(?:\d+|\*)?(?:\.(\d+|\*))?([a-zA-Z]|\([^)]*\)T))")
_AT_END: Final = frozenset(["EXIT", "0", "ERR", "DEBUG", "RETURN"])
"""Traps that run within the command that sets them."""
_NUMERIC_ESCAPE: Final = re.compile(r"\\(?:x[0-9a-fA-F]|0?[0-7]{2}|u[0-9a-fA-F])")


def _cd(shell: Shell, argv: list[str]) -> Value:
    places = [word for word in argv[1:] if word not in ("-P", "-L", "-e", "--", "-n")]
    if argv[0] == "pushd":
        shell.state.set("stack", "", (shell.cwd, shell.state.get("stack", "")))
    before = shell.cwd
    if not places:
        found: Value = (shell.state.variable("HOME")[0],)
    elif places[0] == "-":
        found = shell.state.get("var", "OLDPWD", ANYTHING)
    else:
        found = shell.paths(places[0]) if "-P" in argv else mapped(lambda cwd: unlinked(places[0], cwd), before)
        act_on(shell, "list", places[0], argv[0])
    shell.state.set("var", "OLDPWD", before)
    shell.state.set("cwd", "", one_of([path if path != UNKNOWN else f"/{UNKNOWN}" for path in found]))
    return NOTHING


def _popd(shell: Shell, argv: list[str]) -> Value:
    stack = shell.state.get("stack", "")
    if stack:
        shell.state.set("cwd", "", stack[0])
        shell.state.set("stack", "", stack[1])
    return NOTHING


def _pwd(shell: Shell, argv: list[str]) -> Value:
    return mapped(lambda path: path + "\n", shell.cwd)


def _echo(shell: Shell, argv: list[str]) -> Value:
    words = argv[1:]
    escapes, newline = False, True
    while words and words[0][:1] == "-" and re.fullmatch(r"-[neE]+", words[0]):
        escapes = escapes or "e" in words[0]
        newline = newline and "n" not in words[0]
        words = words[1:]
    text = " ".join(words)
    if escapes:
        text = _decoded(shell, text)
    if text.strip():
        shell.act("text", shortened(text, 2_000), "echo")
    return (text + "\n" if newline else text,)


def _decoded(shell: Shell, text: str) -> str:
    found = ansi(text)
    if found != text and _NUMERIC_ESCAPE.search(text) and any(c.isalnum() for c in found):
        shell.note_decoded("escapes", found)
    return found


def _printf(shell: Shell, argv: list[str]) -> Value:
    words = argv[1:]
    variable = ""
    if words[:1] == ["-v"]:
        variable, words = (words[1] if len(words) > 1 else ""), words[2:]
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        return NOTHING
    text = formatted(shell, words[0], words[1:])
    if variable:
        set_variable(shell, variable, (text,))
        return NOTHING
    if text.strip():
        shell.act("text", shortened(text, 2_000), "printf")
    return (text,)


def formatted(shell: Shell, form: str, arguments: list[str]) -> str:
    """Format as `printf` does: the format is used again while arguments are left."""
    form = _decoded(shell, form)
    parts: list[str] = []
    rest = list(arguments)[::-1]

    def filled(found: re.Match[str]) -> str:
        if found.group() == "%%":
            return "%"
        kind = found[2] or "s"
        value = rest.pop() if rest else ""
        if kind == "b":
            return _decoded(shell, value)
        if kind == "c":
            return value[:1]
        if kind in "diouxX" and value:
            return _number(value, kind)
        return value[: int(found[1])] if found[1] and found[1].isdigit() and kind == "s" else value

    for _ in range(1 + len(rest)):
        before = len(rest)
        parts.append(_FORMAT.sub(filled, form))
        if not rest or len(rest) == before:
            break
    return ansi_of_octal(shell, "".join(parts))


def ansi_of_octal(shell: Shell, text: str) -> str:
    """Decode escapes that formatting has put together (`printf "\\\\$(printf %o 47)"`)."""
    return _decoded(shell, text) if "\\" in text and _NUMERIC_ESCAPE.search(text) else text


def _number(text: str, kind: str) -> str:
    try:
        value = ord(text[1]) if text[0] in "'\"" and len(text) > 1 else int(text, 0 if not re.match(r"0\d", text) else 8)
    except ValueError:
        return UNKNOWN if UNKNOWN in text else "0"
    return {"o": f"{value:o}", "x": f"{value:x}", "X": f"{value:X}"}.get(kind, str(value))


def _read(shell: Shell, argv: list[str]) -> Value:
    """`read a b`: the variables are what the lines that come in may give."""
    names: list[str] = []
    array = ""
    words = iter(argv[1:])
    for word in words:
        if word in ("-p", "-d", "-n", "-N", "-t", "-u", "-i"):
            next(words, None)
        elif word.startswith("-") and "a" in word:
            array = next(words, "")
        elif not word.startswith("-"):
            names.append(word)
    lines = shell.lines_of(shell.stdin) if shell.stdin is not None else [UNKNOWN]
    if array:
        shell.state.set("array", array, [(word,) for line in lines[:1] for word in split(line, shell.separators)])
        return NOTHING
    for at, name in enumerate(names or ["REPLY"]):
        last = at == len(names or ["REPLY"]) - 1
        found = []
        for line in lines:
            pieces = _pieces(line, shell.separators, at if last else -1)
            found.append(pieces[at].strip() if at < len(pieces) else (UNKNOWN if UNKNOWN in line else ""))
        shell.state.set("var", name, one_of(found or [""]))
    return NOTHING


def _pieces(line: str, separators: str, most: int) -> list[str]:
    """Split a line for `read`; beyond `most` cuts it stays whole."""
    if separators == BLANKS:
        return line.split(None, most)
    if most <= 0 or not separators:
        return [line] if most == 0 or not separators else split(line, separators)
    return re.split(f"[{re.escape(separators)}]", line, maxsplit=most)


def _mapfile(shell: Shell, argv: list[str]) -> Value:
    names = [word for word in argv[1:] if word[:1].isalpha()]
    lines = shell.lines_of(shell.stdin) if shell.stdin is not None else [UNKNOWN]
    shell.state.set("array", names[-1] if names else "MAPFILE", [(line,) for line in lines])
    return NOTHING


def _eval(shell: Shell, argv: list[str]) -> Value:
    return shell.evaluate(" ".join(argv[1:]), "eval")


def _source(shell: Shell, argv: list[str]) -> Value:
    if len(argv) < 2:
        return NOTHING
    content = read_path(shell, argv[1], "source")
    shell.act("run", argv[1], "source", path=shell.path(argv[1]))
    if content == ANYTHING:
        return ANYTHING
    return run_shell(shell, content[0], argv[2:], "file", new=False)


def _exit(shell: Shell, argv: list[str]) -> Value:
    status = argv[1] if len(argv) > 1 else "?"
    shell.act("exit", status if re.fullmatch(r"-?\d{1,4}", status) else "?", argv[0])
    return NOTHING


def _set(shell: Shell, argv: list[str]) -> Value:
    words = argv[1:]
    if not words:
        shell.act("environment", "*", "read")
        return ANYTHING
    for at, word in enumerate(words):
        if word == "--" or not word.startswith(("-", "+")):
            values = words[at + (word == "--") :]
            shell.state.set("args", "", [(one,) for one in values])
            break
        if word.startswith("+") and ("e" in word or word == "+o"):
            shell.act("exit", "0", f"set {word}")
    return NOTHING


def _shift(shell: Shell, argv: list[str]) -> Value:
    count = int(argv[1]) if len(argv) > 1 and argv[1].isdigit() and len(argv[1]) < 6 else 1
    shell.state.set("args", "", shell.state.get("args", "", [])[count:])
    return NOTHING


def _alias(shell: Shell, argv: list[str]) -> Value:
    for word in argv[1:]:
        name, equals, text = word.partition("=")
        if equals:
            shell.state.set("alias", name, text)
            shell.act("define", name, f"alias {shortened(text, 80)}")
    return NOTHING


def _trap(shell: Shell, argv: list[str]) -> Value:
    words = [word for word in argv[1:] if word not in ("--",)]
    if len(words) < 2 or words[0] in ("-", "-p", "-l"):
        return NOTHING
    if "in_file" in shell.traits or not all(word.upper().removeprefix("SIG") in _AT_END for word in words[1:]):
        shell.act("schedule", shortened(words[0]), f"trap {' '.join(words[1:])}")
    elif words[0] not in shell.endings:
        shell.endings.append(words[0])
    mark = shell.state.mark()
    shell.evaluate(words[0], "trap")
    shell.leave(mark)
    return NOTHING


def _export(shell: Shell, argv: list[str]) -> Value:
    """Read `export` and its like when they come as words, as behind `command` or in computed text."""
    exported = argv[0] == "export" or any(word.startswith("-") and "x" in word for word in argv[1:])
    for word in argv[1:]:
        name, equals, text = word.partition("=")
        if name.isidentifier():
            set_variable(shell, name, (text,) if equals else shell.state.variable(name), exported=exported)
    if len(argv) == 1:
        shell.act("environment", "*", "read")
    return NOTHING


def _rest(shell: Shell, argv: list[str]) -> Value:
    """`command`, `builtin`: the words behind are the command; functions and aliases are passed over."""
    words = argv[1:]
    if words[:1] in (["-v"], ["-V"]):
        return ANYTHING
    while words and words[0] in ("-p", "--"):
        words = words[1:]
    return commands.dispatch(shell, words) if words else NOTHING


def _exec(shell: Shell, argv: list[str]) -> Value:
    words = argv[1:]
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] == "-a" else words[1:]
    return commands.dispatch(shell, words) if words else NOTHING


def _hash(shell: Shell, argv: list[str]) -> Value:
    """`hash -p PATH NAME`: the name runs that path."""
    if argv[1:2] == ["-p"] and len(argv) > 3:
        shell.act("define", argv[3], f"hash {argv[2]}")
        shell.state.set("alias", argv[3], shlex.quote(argv[2]))
    return NOTHING


def _enable(shell: Shell, argv: list[str]) -> Value:
    if "-f" in argv[:-1]:
        read_path(shell, argv[argv.index("-f") + 1], "enable")
    return NOTHING


def _nothing(shell: Shell, argv: list[str]) -> Value:
    return NOTHING


def _coproc(shell: Shell, argv: list[str]) -> Value:
    shell.act("schedule", shortened(" ".join(argv[1:])), "coproc")
    return commands.dispatch(shell, argv[1:])


READERS: Final[dict[str, Callable[[Shell, list[str]], Value]]] = {
    "cd": _cd,
    "pushd": _cd,
    "popd": _popd,
    "pwd": _pwd,
    "echo": _echo,
    "printf": _printf,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "eval": _eval,
    "source": _source,
    ".": _source,
    "exit": _exit,
    "return": _exit,
    "set": _set,
    "shift": _shift,
    "alias": _alias,
    "trap": _trap,
    "export": _export,
    "declare": _export,
    "typeset": _export,
    "local": _export,
    "readonly": _export,
    "command": _rest,
    "builtin": _rest,
    "exec": _exec,
    "test": of_words,
    "hash": _hash,
    "enable": _enable,
    "coproc": _coproc,
    **dict.fromkeys(
        ["true", "false", ":", "wait", "shopt", "sleep", "break", "continue", "jobs", "fg", "bg", "umask", "ulimit"], _nothing
    ),
}
__all__ = ["READERS", "formatted", "read_content"]
