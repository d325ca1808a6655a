"""Files of a program: open, `pathlib`, `os` functions on files, loading and saving of objects."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.python import attributes, effects, fold
from rosellm.roserlhf.guard.python.fold import NOTHING
from rosellm.roserlhf.guard.python.machine import each
from rosellm.roserlhf.guard.python.value import (
    STAR,
    Contents,
    File,
    Place,
    Thing,
    choice,
    known,
    options,
    sources,
    text,
)

if TYPE_CHECKING:
    from rosellm.roserlhf.guard.python.calling import Call


LONGEST_FILE = 1 << 16
_WRITING = frozenset("wax+")
"""Letters of a mode in which a file is written."""


def _open(call: Call) -> Any:
    """`open` and its like."""
    target = call.arguments[0] if call.arguments else call.keywords.get("file")
    mode = "r" if len(call.arguments) == 1 and not call.keywords else text(call.argument(1, "mode", "r"))
    if mode == "r" and type(target) is str:
        found = effects.reads(call, target, call.name)
        return File(found[0]) if found else NOTHING
    made: list[Any] = []
    for one in options(target):
        if type(one) is int or (type(one) is Thing and one.name == "os.open()"):
            made.append(File(text(one.subject), True) if type(one) is Thing and type(one.subject) is str else NOTHING)
            continue
        if type(one) is Contents:
            effects.reads(call, UNKNOWN, call.name, "write" if set(mode) & set("wax") else "read", **effects.origin(one))
            made.append(File(UNKNOWN))
            continue
        writes = not _WRITING.isdisjoint(mode) or UNKNOWN in mode
        for path in effects.reads(call, one, call.name, "write", mode=mode) if writes else ():
            _opened(call, path, mode)
            made.append(File(path, True))
        if not writes or "+" in mode or UNKNOWN in mode:
            made += [File(path, writes) for path in effects.reads(call, one, call.name)]
    return choice(made) if made else NOTHING


def _opened(call: Call, path: str, mode: str) -> None:
    machine = call.machine
    if machine.dead or (path in machine.files and "a" in mode):
        return
    machine.files[path] = "" if "w" in mode or "x" in mode else machine.scene.files.get(path, UNKNOWN + "\n")


def write(call: Call, path: str, content: Any, detail: str) -> None:
    """Note what is written to a file."""
    machine = call.machine
    traits = effects.origin(content)
    if traits:
        machine.findings.add("write", path, detail, call.node, **traits)
        machine.changes.setdefault(path, []).extend(effects.replacements(content))
    if not machine.dead:
        piece = "\n".join(map(text, content)) if type(content) in (list, tuple) else text(content)
        held = machine.files.get(path, "")
        if len(held) < LONGEST_FILE:
            machine.files[path] = (held + piece)[:LONGEST_FILE]


def file_method(call: Call) -> Any:
    """A method of an open file."""
    file = call.owner
    match call.name:
        case "read" | "readline" | "readall" | "readinto" | "read1" | "getvalue":
            return attributes.contents(call.machine, file)
        case "readlines":
            return [attributes.contents(call.machine, file)]
        case "write" | "writelines":
            write(call, file.path, call.argument(0), "write")
            return NOTHING
        case "truncate":
            call.machine.findings.add("delete", file.path, "truncate", call.node)
        case "__enter__" | "detach" | "reconfigure":
            return file
        case "fileno":
            return Thing("fileno()", file.path)
    return NOTHING


def place_method(call: Call) -> Any:
    """A method of a `pathlib` path."""
    machine, path, name = call.machine, call.owner.text, call.name
    call.name = f"pathlib.Path.{name}"
    match name:
        case "open":
            call.arguments = [call.owner, *call.arguments]
            return _open(call)
        case "read_text" | "read_bytes":
            found = effects.reads(call, call.owner, call.name)
            return attributes.contents(machine, File(found[0])) if found else NOTHING
        case "write_text" | "write_bytes":
            content = call.argument(0, "data")
            for one in effects.reads(call, call.owner, call.name, "write", **effects.origin(content)):
                machine.files.pop(one, None)
                write(call, one, content, call.name)
            return NOTHING
        case "unlink" | "rmdir":
            effects.reads(call, call.owner, call.name, "delete")
        case "touch" | "mkdir" | "chmod" | "lchmod":
            effects.reads(call, call.owner, call.name, "write")
        case "rename" | "replace" | "move" | "move_into":
            found = effects.reads(call, call.owner, call.name, "delete", moved="yes")
            effects.reads(call, call.argument(0, "target"), call.name, "write", **{"from": " ".join(found)})
            for new in machine.paths(call.argument(0, "target"))[:1]:
                if found and found[0] in machine.files and not machine.dead:
                    machine.files[new] = machine.files.pop(found[0])
            return call.argument(0, "target")
        case "copy" | "copy_into":
            found = effects.reads(call, call.owner, call.name)
            effects.reads(call, call.argument(0, "target"), call.name, "write", **{"from": " ".join(found)})
        case "symlink_to" | "hardlink_to" | "link_to":
            effects.link(call, call.owner, call.argument(0, "target"))
        case "exists" | "is_file" | "is_dir" | "stat" | "lstat" | "is_symlink" | "samefile" | "owner" | "group":
            effects.reads(call, call.owner, call.name, "list", stat="yes")
        case "readlink":
            effects.reads(call, call.owner, call.name, "list", stat="yes")
            return Place(UNKNOWN)
        case "iterdir":
            effects.reads(call, call.owner, call.name, "list")
            return [Place(posixpath.join(path, STAR))]
        case "glob" | "rglob":
            return _globbed(call, text(call.argument(0, "pattern")), name == "rglob")
        case "walk":
            effects.reads(call, call.owner, call.name, "list", recursive="yes")
            return [(Place(posixpath.join(path, STAR * 2)), [STAR], [STAR])]
        case _:
            return _place_value(call, path, name)
    return NOTHING


def _globbed(call: Call, pattern: str, deep: bool) -> Any:
    full = posixpath.join(call.owner.text, STAR * 2 if deep else "", pattern.replace("*", STAR))
    effects.reads(call, Place(full), call.name, "list", glob="yes")
    return [Place(full)]


def _place_value(call: Call, path: str, name: str) -> Any:
    first = text(call.argument(0)) if call.arguments else ""
    match name:
        case "joinpath" | "__truediv__":
            return Place(posixpath.join(path, *(text(one) for one in call.arguments)))
        case "resolve" | "absolute" | "expanduser":
            return Place(call.machine.path(path))
        case "with_suffix":
            return Place(posixpath.splitext(path)[0] + first)
        case "with_name":
            return Place(posixpath.join(posixpath.dirname(path), first))
        case "with_stem":
            return Place(posixpath.join(posixpath.dirname(path), first + posixpath.splitext(path)[1]))
        case "as_posix" | "__str__" | "__fspath__":
            return path
        case "as_uri":
            return "file://" + call.machine.path(path)
        case "relative_to":
            return Place(path.removeprefix(first).lstrip("/") or ".")
    return NOTHING


def _archived(call: Call) -> Any:
    """`shutil.make_archive(name, format, root_dir, base_dir)`: a folder goes into a file."""
    base, kind = text(call.argument(0, "base_name")), text(call.argument(1, "format", ""))
    root, inner = call.argument(2, "root_dir"), call.argument(3, "base_dir")
    if root is not None or inner is not None:
        place = posixpath.join(text(root) if root is not None else ".", text(inner) if inner is not None else "")
        effects.reads(call, Place(place), call.name, recursive="yes")
    ending = {"gztar": ".tar.gz", "bztar": ".tar.bz2", "xztar": ".tar.xz"}.get(kind, f".{kind}")
    effects.reads(call, Place(base + ending), call.name, "write")
    return base + ending


def _os_open(call: Call) -> Any:
    flags = call.argument(1, "flags", 0)
    writes = type(flags) is not int or flags & 3
    found = effects.reads(call, call.argument(0, "path"), call.name, "write", mode="os.open") if writes else []
    if type(flags) is not int or flags & 3 != 1:
        found += effects.reads(call, call.argument(0, "path"), call.name)
    return Thing("os.open()", found[0] if found else None)


def _os_read(call: Call) -> Any:
    found = call.argument(0)
    return Contents((found.subject,)) if type(found) is Thing and type(found.subject) is str else NOTHING


def _os_write(call: Call) -> Any:
    found = call.argument(0)
    if type(found) is Thing and type(found.subject) is str:
        write(call, found.subject, call.argument(1), "os.write")
    return NOTHING


def _listed(call: Call) -> Any:
    value = call.argument(0, "path", ".")
    found: list[Any] = []
    for one in options(value):
        effects.reads(call, one, call.name, "list")
        base = text(one)
        found.append(STAR if call.name == "os.listdir" else Thing("os.DirEntry", posixpath.join(base, STAR)))
    return found


def _walked(call: Call) -> Any:
    value = call.argument(0, "top", ".")
    found = []
    for one in options(value):
        effects.reads(call, one, call.name, "list", recursive="yes")
        found.append((posixpath.join(text(one), STAR * 2), [STAR], [STAR]))
    return found


def _glob(call: Call) -> Any:
    root = call.keywords.get("root_dir")
    found: list[Any] = []
    for one in options(call.argument(0, "pathname")):
        pattern = (posixpath.join(text(root), text(one)) if root is not None else text(one)).replace("*", STAR)
        effects.reads(call, Place(pattern), call.name, "list", glob="yes")
        found.append(pattern)
    return found


def _dumped(call: Call) -> Any:
    """`json.dump` and its like: an object into a file."""
    target, content = call.argument(1, "fp" if call.name.startswith("json") else "stream"), call.argument(0)
    for one in options(target):
        if type(one) is File:
            words = json.dumps(content) if known(content) and call.name.startswith("json") and _jsonable(content) else content
            write(call, one.path, words, call.name)
        elif type(one) in (str, Place):
            effects.reads(call, one, call.name, "write", **effects.origin(content))
    return NOTHING


def _jsonable(value: Any) -> bool:
    try:
        json.dumps(value)
    except fold.ERRORS:
        return False
    return True


def _loaded(call: Call) -> Any:
    """`json.load` and its like: an open file into an object."""
    value = call.argument(0)
    if type(value) in (str, Place):
        found = effects.reads(call, value, call.name)
        return Contents(tuple(found) or (UNKNOWN,))
    if call.name.startswith(("pickle", "marshal", "dill", "cloudpickle")):
        call.machine.findings.add("decode", effects.short(" ".join(sources(value)) or UNKNOWN), call.name, call.node)
    if type(value) is File:
        held = attributes.contents(call.machine, value)
        return (
            fold.call("json.loads", [held], {})
            if type(held) is str and call.name == "json.load"
            else held
            if type(held) is Contents
            else NOTHING
        )
    return Contents(sources(value)) if sources(value) else NOTHING


def _buffer(call: Call) -> Any:
    value = call.argument(0)
    return Contents(sources(value), name=call.name)


HANDLERS: dict[str, Callable[[Call], Any]] = {
    **each("open codecs.open io.open os.fdopen tempfile.NamedTemporaryFile io.TextIOWrapper io.BufferedReader", _open),
    **each("os.listdir os.scandir", _listed),
    **each("os.walk os.fwalk", _walked),
    **each("glob.glob glob.glob0 glob.glob1", _glob),
    **each("json.dump pickle.dump yaml.dump yaml.safe_dump toml.dump marshal.dump dill.dump tomli_w.dump plistlib.dump", _dumped),
    **each(
        "json.load pickle.load yaml.load yaml.safe_load tomllib.load tomli.load marshal.load csv.reader csv.DictReader", _loaded
    ),
    **each("yaml.full_load yaml.unsafe_load csv.writer csv.DictWriter orjson.loads ujson.load simplejson.load", _loaded),
    **each("io.BytesIO io.StringIO io.BufferedRandom", _buffer),
    "shutil.make_archive": _archived,
    "os.open": _os_open,
    "os.read": _os_read,
    "os.pread": _os_read,
    "os.write": _os_write,
    "os.pwrite": _os_write,
}
"""Functions, by canonical name."""
