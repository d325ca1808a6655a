"""`cp`, `mv`, `ln`, `install`, `rsync`, `scp`, `mount`: what comes to lie where, and which links lead elsewhere."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Final

from rosellm.roserlhf.guard.shell.file import act_on, read_path, write_path
from rosellm.roserlhf.guard.shell.program import Arguments
from rosellm.roserlhf.guard.shell.shell import Shell
from rosellm.roserlhf.guard.shell.table import programs
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value

_REMOTE: Final = re.compile(r"(?:[\w.-]+@)?([\w.-]+\.[\w.-]+|\d+\.\d+\.\d+\.\d+|[\w-]+)::?(?!//)(.*)", re.DOTALL)


def _places(arguments: Arguments) -> tuple[list[str], list[str]]:
    """Return sources, and the place where each goes."""
    operands = arguments.operands
    if into := arguments.values("into"):
        return operands, [posixpath.join(into[0], _name(one)) for one in operands]
    if len(operands) < 2:
        return operands, []
    sources, goal = operands[:-1], operands[-1]
    if len(sources) > 1 or goal.endswith("/") or goal.rpartition("/")[2] in (".", ".."):
        return sources, [posixpath.join(goal, _name(one)) for one in sources]
    return sources, [goal]


def _name(path: str) -> str:
    name = posixpath.basename(path.rstrip("/"))
    return "" if name in (".", "..") else name


def _copy(shell: Shell, argv: list[str]) -> Value:
    """`cp`, `install`, `mv`: sources are read (moved away), places written; known contents go along."""
    name = argv[0].rpartition("/")[2]
    arguments = Arguments(programs()["cp" if name not in ("mv", "install") else name], argv[1:])
    if name == "install" and "directory" in arguments.flags:
        return NOTHING
    sources, goals = _places(arguments)
    traits = {"recursive": "yes"} if "recursive" in arguments.flags else {}
    links = "link" in arguments.flags
    contents: list[Value | None] = []
    for source in sources:
        content = read_path(shell, source, name, **traits)
        contents.append(None if content is ANYTHING or content == ANYTHING else content)
        if name == "mv":
            act_on(shell, "delete", source, name)
    for source, goal, copied in zip(sources, goals, contents, strict=False):
        if links:
            make_link(shell, source, goal, name)
            continue
        write_path(shell, goal, name, "truncate", copied, given={**traits, "source": shell.path(source)})
        if name == "mv" and (target := shell.state.get("link", shell.path_itself(source))) is not None:
            shell.follow(shell.path_itself(goal), target)
    return NOTHING


def make_link(shell: Shell, source: str, link: str, program: str, *, symbolic: bool = False) -> None:
    """Note a link and follow it from now on; a symbolic one is relative to its own directory."""
    for place in shell.paths_themselves(link):
        if symbolic and not source.startswith("/"):
            target = shell.path(posixpath.join(posixpath.dirname(place), source))
        else:
            target = shell.path(source)
        shell.act("link", place, target, program=program)
        if symbolic and source.startswith("../") and (meant := shell.path(source)) != target:
            shell.act("link", place, meant, program=program, taken_from="working directory")  # as many mean it
        if target != place and not target.startswith(place + "/"):
            shell.follow(place, target)


def _ln(shell: Shell, argv: list[str]) -> Value:
    arguments = Arguments(programs()["ln"], argv[1:])
    sources, links = _places(arguments)
    if not links and sources:
        links = [_name(sources[0])]
    symbolic = "symbolic" in arguments.flags
    for source, link in zip(sources, links, strict=False):
        goal = link
        if shell.state.get("directory", shell.path(link)) and "itself" not in arguments.flags:
            goal = posixpath.join(link, _name(source))
        make_link(shell, source, goal, "ln", symbolic=symbolic)
        if not symbolic:
            act_on(shell, "read", source, "ln")
    return NOTHING


def _mkdir(shell: Shell, argv: list[str]) -> Value:
    for word in Arguments(programs()["mkdir"], argv[1:]).operands:
        act_on(shell, "write", word, "mkdir", mode="directory")
        shell.state.set("directory", shell.path(word), True)
    return NOTHING


def _mount(shell: Shell, argv: list[str]) -> Value:
    """`mount --bind A B`, overlays, file systems of FUSE: B shows A and hides what was there."""
    name = argv[0].rpartition("/")[2]
    arguments = Arguments(programs()["mount"], argv[1:])
    for options in arguments.values("options"):
        for word in options.split(","):
            key, _, value = word.partition("=")
            if key in ("lowerdir", "upperdir") and value:
                for place in value.split(":"):
                    act_on(shell, "read", place, f"{name} {key}")
                if arguments.operands and key == "lowerdir":
                    make_link(shell, value.split(":")[0], arguments.operands[-1], name)
    if not arguments.operands:
        shell.act("list", "/proc/mounts", name)
        return ANYTHING
    if len(arguments.operands) > 1:
        source, goal = arguments.operands[-2:]
        for place in shell.paths_themselves(goal):
            shell.act("delete", place, name, mode="shadowed")
        if "/" in source or source == ".":
            act_on(shell, "read", source, name)
            make_link(shell, source, goal, name)
    return NOTHING


def _remote(shell: Shell, argv: list[str]) -> Value:
    """`scp`, `rsync`, `sftp`: places on other hosts are fetched or written there."""
    name = argv[0].rpartition("/")[2]
    arguments = Arguments(programs()[name], argv[1:])
    sources, goals = _places(arguments)
    if name == "rsync":
        goals = [arguments.operands[-1] if source.endswith("/") else goal for source, goal in zip(sources, goals, strict=False)]
    traits = {"recursive": "yes"} if name == "rsync" or "recursive" in arguments.flags else {}
    for trait, role in (("excludes", "exclude"), ("includes", "include")):
        if given := arguments.values(role):
            traits[trait] = " ".join(given[:16])
    for file in arguments.values("read"):
        read_path(shell, file, name)
    for command in arguments.values("shell"):
        shell.evaluate(command, new=True)
    for source in sources:
        if (found := _REMOTE.fullmatch(source)) is not None and not source.startswith(("/", ".")):
            shell.act("fetch", f"{found[1]}/{found[2].lstrip('/')}", name, host=found[1])
        elif "://" in source:
            shell.read("url", source)
        else:
            read_path(shell, source, name, **traits)
    for goal in goals:
        if (found := _REMOTE.fullmatch(goal)) is not None and not goal.startswith(("/", ".")):
            shell.act("fetch", f"{found[1]}/{found[2].lstrip('/')}", f"{name} sends", host=found[1])
        else:
            write_path(shell, goal, name, "truncate", given=traits)
    if "delete" in arguments.flags:
        for goal in goals:
            act_on(shell, "delete", goal, f"{name} --delete", **traits)
    return ANYTHING


def _remove(shell: Shell, argv: list[str]) -> Value:
    """`rm`, `unlink`, `rmdir`, `shred`: a link goes, not what it points to."""
    name = argv[0].rpartition("/")[2]
    arguments = Arguments(programs()["rm"], argv[1:])
    traits = {"recursive": "yes"} if "recursive" in arguments.flags else {}
    for word in arguments.operands:
        for place in shell.paths_themselves(word):
            shell.act("delete", place, name, **traits)
            shell.forget(place)
    return NOTHING


READERS: Final[dict[str, Callable[[Shell, list[str]], Value]]] = {
    **dict.fromkeys(["cp", "mv", "install", "gcp", "gmv", "ginstall"], _copy),
    "ln": _ln,
    "mkdir": _mkdir,
    **dict.fromkeys(["mount", "bindfs", "unionfs", "fuse-overlayfs", "mount.fuse"], _mount),
    **dict.fromkeys(["scp", "rsync", "sftp"], _remote),
    **dict.fromkeys(["rm", "unlink", "rmdir", "shred", "srm", "trash", "grm"], _remove),
}
