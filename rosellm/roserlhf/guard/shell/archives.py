"""`tar`, `zip`, `unzip`, `cpio`, `7z`: what is packed is read, what is unpacked is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell.file import act_on, read_path, write_path
from rosellm.roserlhf.guard.shell.program import Arguments, assigned
from rosellm.roserlhf.guard.shell.shell import Shell
from rosellm.roserlhf.guard.shell.table import programs
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value

_EXEC: Final = "exec="


def _tar(shell: Shell, argv: list[str]) -> Value:
    """`tar cf A FILES`, `tar -xOf A`, with `-C` before the files that it is for."""
    words = argv[1:]
    if words and not words[0].startswith("-") and set(words[0]) <= set("cxtruvfzjJZkpPOmwhlaA"):
        words = [f"-{words[0]}", *words[1:]]
    arguments = Arguments(programs()["tar"], words)
    mode = next((one for one in ("create", "extract", "list") if one in arguments.flags), "list")
    archives = arguments.values("archive")
    for command in [*arguments.values("shell"), *arguments.values("compress")]:
        shell.evaluate(command, "tar", new=True)
    for action in arguments.values("checkpoint"):
        if action.startswith(_EXEC):
            shell.evaluate(action.removeprefix(_EXEC), "tar", new=True)
    for archive in archives:
        if mode == "create":
            if archive != "-":
                write_path(shell, archive, "tar", "truncate")
        elif archive != "-":
            read_path(shell, archive, f"tar {mode}")
    mark = shell.state.mark()
    for directory in arguments.values("workdir"):
        shell.state.set("cwd", "", shell.paths(directory))
    traits = {"recursive": "yes"}
    if given := arguments.values("exclude"):
        traits["excludes"] = " ".join(given[:16])
    if mode == "create":
        for operand in arguments.operands:
            read_path(shell, operand, "tar", **traits)
        for file in arguments.values("names"):
            for line in shell.lines_of(read_path(shell, file, "tar -T")):
                read_path(shell, line, "tar", **traits)
    elif mode == "extract" and "stdout" not in arguments.flags:
        write_path(shell, f"{shell.cwd[0]}/{UNKNOWN}", "tar extract", "truncate", given={"archive": " ".join(archives)[:200]})
    shell.leave(mark)
    return ANYTHING


def _zip(shell: Shell, argv: list[str]) -> Value:
    arguments = Arguments(programs()["zip"], argv[1:])
    for operand in arguments.operands[:1]:
        if operand != "-":
            write_path(shell, operand, "zip", "truncate")
    traits = {"recursive": "yes"} if "recursive" in arguments.flags else {}
    for operand in arguments.operands[1:]:
        read_path(shell, operand, "zip", **traits)
    if not arguments.operands[1:] and shell.stdin is not None:
        for line in shell.lines_of(shell.stdin):
            read_path(shell, line, "zip")
    return ANYTHING


def _unzip(shell: Shell, argv: list[str]) -> Value:
    name = argv[0].rpartition("/")[2]
    arguments = Arguments(programs()["unzip"], argv[1:])
    for operand in arguments.operands[:1]:
        read_path(shell, operand, name)
    if "stdout" not in arguments.flags and arguments.operands:
        directory = (arguments.values("workdir") or [shell.cwd[0]])[0]
        write_path(shell, f"{directory}/{UNKNOWN}", name, "truncate", given={"archive": arguments.operands[0][:200]})
    return ANYTHING


def _seven(shell: Shell, argv: list[str]) -> Value:
    words = [word for word in argv[2:] if not word.startswith("-")]
    for role, word in zip(assigned((("archive", False), ("file", True)), len(words)), words, strict=False):
        if argv[1:2] and argv[1][0] in "aud":
            if role == "archive":
                write_path(shell, word, "7z", "truncate")
            else:
                read_path(shell, word, "7z", recursive="yes")
        elif role == "archive":
            read_path(shell, word, "7z")
            write_path(shell, f"{shell.cwd[0]}/{UNKNOWN}", "7z", "truncate", given={"archive": word[:200]})
    return ANYTHING


def _cpio(shell: Shell, argv: list[str]) -> Value:
    """`... | cpio -o`, `cpio -p DIR`: the names of what is packed come through the pipe."""
    arguments = Arguments(programs()["cpio"], argv[1:])
    if "extract" in arguments.flags:
        for file in arguments.values("archive"):
            read_path(shell, file, "cpio")
        return ANYTHING
    for line in shell.lines_of(shell.stdin) if shell.stdin is not None else []:
        read_path(shell, line, "cpio")
    for operand in arguments.operands:
        write_path(shell, operand, "cpio", "truncate")
    return ANYTHING


def _dd(shell: Shell, argv: list[str]) -> Value:
    content: Value = shell.stdin if shell.stdin is not None else ANYTHING
    pairs = dict(word.split("=", 1) for word in argv[1:] if "=" in word)
    if "if" in pairs:
        content = read_path(shell, pairs["if"], "dd")
    if "of" in pairs:
        write_path(shell, pairs["of"], "dd", "truncate", None if content == ANYTHING else content)
        return NOTHING
    return content


def _tee(shell: Shell, argv: list[str]) -> Value:
    """`tee`: what comes in goes to files and on."""
    arguments = Arguments(programs()["tee"], argv[1:])
    content = shell.stdin if shell.stdin is not None else ANYTHING
    for operand in arguments.operands:
        write_path(shell, operand, argv[0].rpartition("/")[2], "append" if "append" in arguments.flags else "truncate", content)
    return NOTHING if argv[0].endswith("sponge") else content


def _split(shell: Shell, argv: list[str]) -> Value:
    arguments = Arguments(programs()["split"], argv[1:])
    for operand in arguments.operands[:1]:
        read_path(shell, operand, argv[0])
    for option in arguments.values("shell"):
        shell.evaluate(option, new=True)
    prefix = arguments.operands[1] if len(arguments.operands) > 1 else "x"
    act_on(shell, "write", f"{prefix}{UNKNOWN}", argv[0], mode="truncate")
    return ANYTHING


READERS: Final[dict[str, Callable[[Shell, list[str]], Value]]] = {
    **dict.fromkeys(["tar", "gtar", "bsdtar", "star"], _tar),
    "zip": _zip,
    **dict.fromkeys(["unzip", "bsdunzip", "unrar", "jar"], _unzip),
    **dict.fromkeys(["7z", "7za", "7zr", "rar"], _seven),
    "cpio": _cpio,
    "dd": _dd,
    **dict.fromkeys(["tee", "sponge"], _tee),
    **dict.fromkeys(["split", "csplit"], _split),
}
