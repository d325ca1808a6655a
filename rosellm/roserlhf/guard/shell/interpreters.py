"""Programs that run code: shells and Python, and scripts of any language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell import command as commands
from rosellm.roserlhf.guard.shell.file import act_on, read_content, read_path
from rosellm.roserlhf.guard.shell.language import code_from_stdin, printed_by, run_shell, script, unknown_program
from rosellm.roserlhf.guard.shell.program import Arguments
from rosellm.roserlhf.guard.shell.shell import Shell
from rosellm.roserlhf.guard.shell.table import programs
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value, joined

_SHELL_VALUES: Final = frozenset(["-o", "+o", "-O", "+O", "--rcfile", "--init-file"])
_PYTHON_VALUES: Final = frozenset(["-X", "-W", "--check-hash-based-pycs"])
_RUNS_SCRIPT: Final = frozenset(
    ["pdb", "cProfile", "profile", "trace", "runpy", "coverage", "line_profiler", "memory_profiler", "kernprof"]
)


def _shell(shell: Shell, argv: list[str]) -> Value:
    """`sh -c CODE`, `sh SCRIPT`, `... | sh`."""
    words = argv[1:]
    code = False
    while words and words[0][:1] in "-+" and len(words[0]) > 1:
        word, words = words[0], words[1:]
        if word == "--":
            break
        if word in ("--rcfile", "--init-file") and words:
            content = read_path(shell, words[0], argv[0])
            if content != ANYTHING:
                shell.evaluate(content[0], "file")
        if word in _SHELL_VALUES:
            words = words[1:]
        elif not word.startswith("--"):
            code = code or "c" in word
            if word == "-s":
                return _from_stdin(shell, argv[0], words)
    if code:
        return (
            run_shell(shell, words[0], words[2:], *shell.disguise_of(words[0]), called=(words[1:2] or ["bash"])[0])
            if words
            else NOTHING
        )
    if not words or words[0] in ("-", "/dev/stdin"):
        return _from_stdin(shell, argv[0], words[1:])
    return script(shell, argv[0], words, "shell")


def _from_stdin(shell: Shell, name: str, arguments: list[str]) -> Value:
    if shell.stdin is None:
        return NOTHING
    printed: list[Value] = []
    stdin, shell.stdin = shell.stdin, None
    try:
        for code in stdin:
            if UNKNOWN in code and not code.replace(UNKNOWN, "").strip():
                shell.act("opaque", f"{name} runs what comes through a pipe")
                return ANYTHING
            printed.append(run_shell(shell, code, arguments, *shell.disguise_of(code)))
    finally:
        shell.stdin = stdin
    return joined(printed or [NOTHING])


def _python(shell: Shell, argv: list[str]) -> Value:
    """`python -c CODE`, `python -m MODULE`, `python SCRIPT`, `python < CODE`."""
    words = argv[1:]
    while words and words[0].startswith("-") and len(words[0]) > 1:
        word, words = words[0], words[1:]
        if word in _PYTHON_VALUES:
            words = words[1:]
        elif word.startswith("--") or word[1] in "XW":
            continue
        elif "m" in word.partition("c")[0]:
            rest = word.partition("m")[2]
            return _python_module(shell, [rest, *words] if rest else words)
        elif "c" in word:
            glued = word.partition("c")[2]
            return _python_code(shell, [glued, *words] if glued else words)
    if not words or words[0] in ("-", "/dev/stdin"):
        return code_from_stdin(shell, "python", "python")
    return script(shell, "python", words, "python")


def _python_code(shell: Shell, words: list[str]) -> Value:
    if not words:
        return NOTHING
    unknown_program(shell, "python", words[1:])
    return printed_by(shell, "python", words[0], *shell.disguise_of(words[0]))


def _python_module(shell: Shell, words: list[str]) -> Value:
    if not words:
        return NOTHING
    module = words[0]
    shell.act("import", module, "python -m")
    if module in ("timeit",):
        for word in words[1:]:
            if not word.startswith("-"):
                shell.read("python", word)
        return ANYTHING
    if module in _RUNS_SCRIPT:
        rest = [word for word in words[1:] if word != "run"]
        while rest and rest[0].startswith("-") and rest[0] != "-m":
            rest = rest[2:] if rest[0] in ("-o", "-s") else rest[1:]
        return _python(shell, ["python", *rest]) if rest else ANYTHING
    if (file := shell.file(shell.path(module.replace(".", "/") + ".py"))) is not None:
        read_content(shell, shell.path(module.replace(".", "/") + ".py"), file)
    return commands.dispatch(shell, [module.rpartition(".")[2] if module == "pip._internal.cli" else module, *words[1:]])


def _busybox(shell: Shell, argv: list[str]) -> Value:
    return commands.dispatch(shell, argv[1:]) if len(argv) > 1 else NOTHING


def _linker(shell: Shell, argv: list[str]) -> Value:
    """`/lib64/ld-linux-x86-64.so.2 PROGRAM ARGS`: the loader runs a program."""
    words = argv[1:]
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] in ("--library-path", "--preload", "--audit", "--argv0") else words[1:]
    return commands.dispatch(shell, words) if words else NOTHING


def _flock(shell: Shell, argv: list[str]) -> Value:
    """`flock FILE COMMAND`, `flock FILE -c CODE`."""
    words = Arguments(programs()["flock"], argv[1:]).rest[1:]
    if words[:1] and words[0] in ("-c", "--command"):
        return shell.evaluate(words[1], new=True) if len(words) > 1 else NOTHING
    return commands.dispatch(shell, words) if words else NOTHING


READERS: Final[dict[str, Callable[[Shell, list[str]], Value]]] = {
    **dict.fromkeys(["sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "rbash", "mksh", "csh", "tcsh", "yash"], _shell),
    "python": _python,
    "ipython": _python,
    "flock": _flock,
    **dict.fromkeys(["busybox", "toybox"], _busybox),
    **dict.fromkeys(["ld-linux-x86-64.so.2", "ld-linux.so.2", "ld.so", "ld-musl-x86_64.so.1", "ld-linux-aarch64.so.1"], _linker),
}
__all__ = ["READERS", "act_on", "code_from_stdin", "script"]
