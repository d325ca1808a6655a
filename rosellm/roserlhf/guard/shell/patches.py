"""`patch`, `git apply`: the text of a patch, wherever it comes from, is read in the directory where it is applied."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell.file import act_on, read_path, write_path
from rosellm.roserlhf.guard.shell.program import Arguments
from rosellm.roserlhf.guard.shell.shell import Shell
from rosellm.roserlhf.guard.shell.table import programs
from rosellm.roserlhf.guard.shell.value import NOTHING, Value

_HEADER: Final = re.compile(r"(?m)^(--- |\+\+\+ |\*\*\* (?!\d|\*|Begin|End)|Index: )([^\t\n]+)(.*)$")
_GIT: Final = re.compile(r"(?m)^diff --git .*\n?")


def apply_patch(shell: Shell, texts: Value, directories: list[str]) -> None:
    """Read patches that are applied in a directory, one within the other, if several are given."""
    mark = shell.state.mark()
    for directory in directories:
        shell.state.set("cwd", "", shell.paths(directory))
    for text in texts:
        if text != UNKNOWN:
            shell.read("patch", text, *shell.disguise_of(text))
    shell.leave(mark)


def _patch(shell: Shell, argv: list[str]) -> Value:
    """`patch -d DIR -pN -i FILE`, `patch FILE PATCH`, `patch < PATCH`."""
    arguments = Arguments(programs()["patch"], argv[1:])
    texts: Value = shell.stdin or ()
    mark = shell.state.mark()
    for directory in arguments.values("workdir"):
        act_on(shell, "list", directory, "patch")
        shell.state.set("cwd", "", shell.paths(directory))
    for file in [*arguments.values("read"), *arguments.operands[1:2]]:
        texts = read_path(shell, file, "patch")
    for option, role, value in arguments.valued:
        if role == "write":
            write_path(shell, value, f"patch {option}", "truncate")
    for file in arguments.operands[:1]:
        read_path(shell, file, "patch")
        write_path(shell, file, "patch", "in place")
        texts = tuple(_HEADER.sub(lambda found, file=file: _renamed(found, file), _GIT.sub("", text)) for text in texts)  # type: ignore[misc]
    levels = next((value for value in arguments.values("levels") if value.isdigit() and len(value) < 3), "1")
    if levels != "1" and not arguments.operands:
        texts = tuple(_HEADER.sub(lambda found: _stripped(found, int(levels)), _GIT.sub("", text)) for text in texts)
    apply_patch(shell, texts, [])
    shell.leave(mark)
    return NOTHING


def _renamed(found: re.Match[str], file: str) -> str:
    return found.group() if found[2].strip() == "/dev/null" else f"{found[1]}{file}{found[3]}"


def _stripped(found: re.Match[str], levels: int) -> str:
    path = found[2].strip()
    return found.group() if path == "/dev/null" else f"{found[1]}{path.split('/', levels)[-1]}{found[3]}"


READERS: Final[dict[str, Callable[[Shell, list[str]], Value]]] = {"patch": _patch, "gpatch": _patch}
