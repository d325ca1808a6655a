"""`sed`, `ed`, `ex`, `vim`: scripts that read, write and run, and what they print."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell.edits import read_edits
from rosellm.roserlhf.guard.shell.escapes import ansi
from rosellm.roserlhf.guard.shell.file import act_on, read_path, write_path
from rosellm.roserlhf.guard.shell.program import Arguments
from rosellm.roserlhf.guard.shell.shell import Shell, shortened
from rosellm.roserlhf.guard.shell.substitution import edited
from rosellm.roserlhf.guard.shell.table import programs
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value, joined, mapped

_FILE: Final = re.compile(r"(?:^|[;{}\n/\d$])[ \t]*([rRwW])[ \t]+([^\n;}]+)")
_FLAG_W: Final = re.compile(r"[/|,#@!:][gpIMi\d]*w[ \t]+([^\n;}]+)")
_RUNS: Final = re.compile(r"(?:^|[;{}\n\d$/])[ \t]*e[ \t]+([^\n]+)")
_EX: Final = re.compile(
    r"^[:\s]*(?:sil(?:ent)?!?\s+)?(?:[%.,$\d']*)(args?|argadd|e(?:dit)?|r(?:ead)?|w(?:rite)?|sav(?:eas)?|x|wq|so(?:urce)?|"
    r"sp(?:lit)?|vs(?:plit)?"
    r"|tabe(?:dit)?|vi(?:ew)?|f(?:ile)?|new|diffs?|vimgrep|luafile|pyf(?:ile)?)(!?)(?:\s+(.*))?$"
)
_BANG: Final = re.compile(r"^[:\s]*(?:sil(?:ent)?!?\s+)?(?:[%.,$\d']*)(?:(?:r(?:ead)?|w(?:rite)?)\s+)?!\s*(.+)$")
_PLACES: Final = re.compile(r"^[:\s]*set?(?:l|local)?\s+pa(?:th)?\s*[+^]?=\s*(\S+)")
_FOUND: Final = re.compile(r"^[:\s]*(?:sil(?:ent)?!?\s+)?(?:tab|s)?fin?d?!?\s+(\S+)")
_PY: Final = re.compile(r"^[:\s]*(?:py(?:thon)?[3x]?|lua|perl|ruby)\s+(.+)$", re.DOTALL)
_VIM_CALL: Final = re.compile(r"(?:readfile|glob|expand|writefile|delete|system)\s*\(\s*['\"]([^'\"]+)['\"]")


def _sed(shell: Shell, argv: list[str]) -> Value:
    arguments = Arguments(programs()["sed"], argv[1:])
    codes = arguments.values("pattern")
    files = arguments.operands
    given = [role for _, role, _ in arguments.valued]
    for file in arguments.values("patterns"):
        codes += [text for text in read_path(shell, file, "sed -f") if text != UNKNOWN]
    if "pattern" not in given and "patterns" not in given:
        codes, files = files[:1], files[1:]
    for code in codes:
        _script(shell, code)
    in_place = "in_place" in arguments.flags or any(word.startswith("--in-place") for word in argv)
    extended = "extended" in arguments.flags
    contents: list[Value] = []
    unseen: list[str] = []
    for file in files:
        content = read_path(shell, file, "sed -i" if in_place else "sed")
        if in_place:
            changed = mapped(lambda text: edited(text, codes, extended=extended), content)
            traits = {"script": shortened("; ".join(codes), 400)}
            write_path(shell, file, "sed -i", "in place", None if changed == ANYTHING else changed, given=traits)
            unseen += [file] if changed in (ANYTHING, content) else []
        contents.append(content)
    if in_place:
        read_edits(shell, unseen, codes)
        return NOTHING
    value = joined(contents) if contents else (shell.stdin if shell.stdin is not None else ANYTHING)
    return mapped(lambda text: edited(text, codes, extended=extended), value)


def _script(shell: Shell, code: str) -> None:
    if " " not in code and "\t" not in code:
        return  # whatever reads, writes or runs has a blank before what it names
    for found in _FILE.finditer(code):
        if found[1] in "rR":
            read_path(shell, found[2].strip(), f"sed {found[1]}")
        else:
            write_path(shell, found[2].strip(), f"sed {found[1]}", "truncate")
    for found in _FLAG_W.finditer(code):
        write_path(shell, found[1].strip(), "sed w", "truncate")
    for found in _RUNS.finditer(code):
        shell.evaluate(found[1], "sed", new=True)


def _vim(shell: Shell, argv: list[str]) -> Value:
    """`vim -c COMMAND`, `ex FILE <<< COMMANDS`, `ed`."""
    name = argv[0].rpartition("/")[2]
    words = argv[1:]
    quiet = name in ("view", "vimdiff", "less")
    commands: list[str] = []
    files: list[str] = []
    while words:
        word, words = words[0], words[1:]
        if word in ("-c", "--cmd", "-S", "-s", "-u", "-U", "-T", "-i", "-w", "-W") and word not in _FLAGS.get(name, ()) and words:
            value, words = words[0], words[1:]
            if word in ("-c", "--cmd"):
                commands.append(value)
            elif word in ("-S", "-s", "-u", "-U") and value not in ("NONE", "NORC", "DEFAULTS"):
                commands += [line for text in read_path(shell, value, name) for line in text.split("\n") if line != UNKNOWN]
        elif word.startswith("+"):
            commands.append(word[1:])
        elif not word.startswith("-") or word == "-":
            files.append(word)
    if shell.stdin is not None and name in ("ed", "ex", "red", "vim", "vi"):
        commands += [line for line in shell.lines_of(shell.stdin) if line != UNKNOWN]
    for file in files:
        read_path(shell, file, name)
        if not quiet and any(
            re.match(r"[:\s]*(?:[%.,$\d]*w(?:q|rite|n|a)?|x|up|sil\S* (?:w|x)\S*)!?\s*(?:\||$)", one) for one in commands
        ):
            write_path(shell, file, name, "in place", given={"script": shortened("; ".join(commands), 400)})
            read_edits(shell, [file], commands)
    places = [place for one in commands[:500] if (found := _PLACES.match(one)) for place in found[1].split(",")]
    for command in commands[:500]:
        _ex_command(shell, name, command)
        if places and (found := _FOUND.match(command)) is not None:
            for place in places[:16]:
                read_path(shell, f"{place.rstrip('/')}/{found[1]}", f"{name} find")
    return ANYTHING


_FLAGS: Final = {"ed": ("-s",), "ex": ("-s",), "red": ("-s",)}


def _ex_command(shell: Shell, name: str, command: str) -> None:
    for part in command.split("|") if "!" not in command else [command]:
        if (found := _BANG.match(part)) is not None:
            shell.evaluate(found[1], name, new=True)
        elif (found := _PY.match(part)) is not None:
            shell.read("python" if part.lstrip(": ").startswith("py") else part.lstrip(": ").split(None, 1)[0], found[1], name)
        elif (found := _EX.match(part)) is not None and found[3]:
            for path in found[3].split():
                if found[1].startswith(("w", "sav", "x")) and found[1] != "wincmd":
                    write_path(shell, path, f"{name} {found[1]}", "truncate")
                elif found[1] in ("so", "source"):
                    read_path(shell, path, f"{name} source")
                elif not path.startswith(("+", "|")):
                    read_path(shell, path, f"{name} {found[1]}")
        for found in _VIM_CALL.finditer(part):
            act_on(shell, "read", ansi(found[1]), f"{name} function")


READERS: Final[dict[str, Callable[[Shell, list[str]], Value]]] = {
    "sed": _sed,
    **dict.fromkeys(["vim", "vi", "nvim", "ex", "ed", "red", "view", "gvim", "rvim", "vimdiff"], _vim),
}
