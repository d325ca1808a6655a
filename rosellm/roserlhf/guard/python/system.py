"""The system around a program: paths, working directory, environment, processes."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.python import assigning, attributes, effects, files
from rosellm.roserlhf.guard.python.fold import NOTHING
from rosellm.roserlhf.guard.python.machine import each
from rosellm.roserlhf.guard.python.value import (
    Contents,
    File,
    Place,
    Thing,
    options,
    spread,
    text,
)

if TYPE_CHECKING:
    from rosellm.roserlhf.guard.python.calling import Call


def _print(call: Call) -> Any:
    for value in call.arguments:
        if type(value) is Thing and value.name == "os.environ":
            call.machine.findings.add("environment", "*", "read", call.node)
    target = call.keywords.get("file", call.machine.output)
    for one in options(target) if target is not None else ():
        if type(one) is File:
            files.write(call, one.path, " ".join(map(text, call.arguments)) + "\n", "print")
    return None


def _redirected(call: Call) -> Any:
    """`contextlib.redirect_stdout(file)`."""
    if not call.machine.dead:
        call.machine.output = call.argument(0)
    return call.argument(0)


def _duplicated(call: Call) -> Any:
    """`os.dup2(file, 1)`."""
    source, target = call.argument(0), call.argument(1)
    if type(target) is int and target in (1, 2) and type(source) is Thing and type(source.subject) is str and not call.machine.dead:
        call.machine.output = File(source.subject, True)
    return NOTHING


def _printed(call: Call) -> Any:
    """`sys.stdout.write(text)`."""
    if type(call.machine.output) is File:
        files.write(call, call.machine.output.path, call.argument(0), "write")
    return NOTHING


def _searched(call: Call) -> Any:
    """`sys.path.insert(0, folder)`."""
    value = call.argument(1 if call.name.endswith("insert") else 0)
    for path in call.machine.paths(value):
        if path not in call.machine.folders:
            call.machine.folders.append(path)
    return None


def _joined(call: Call) -> Any:
    return spread(lambda *parts: posixpath.join(*map(text, parts)) if parts else "", *call.arguments)


def _absolute(call: Call) -> Any:
    return spread(lambda one: one if type(one) is Contents else call.machine.path(text(one)), call.argument(0, "path", ""))


def _expanded(call: Call) -> Any:
    machine = call.machine

    def expand(value: Any) -> Any:
        words = text(value)
        for name, held in machine.scene.variables.items():
            words = words.replace("${" + name + "}", held)
            if name.isalnum() or "_" in name:
                words = words.replace("$" + name, held)
        return machine.path(words) if words.startswith("~") else words.replace("$HOME", machine.scene.home)

    return spread(expand, call.argument(0, "path", ""))


def _place(call: Call) -> Any:
    return spread(lambda *parts: Place(posixpath.join(*(text(one) for one in parts)) if parts else "."), *call.arguments)


def _change_directory(call: Call) -> Any:
    for place in call.machine.paths(call.argument(0, "path"))[:1]:
        if UNKNOWN not in place:
            call.machine.enter(place)
    return None


def _get_variable(call: Call) -> Any:
    name = text(call.argument(0, "key"))
    return attributes.variable(call.machine, name, call.node, call.argument(1, "default"))


def _pop_variable(call: Call) -> Any:
    assigning.set_variable(call.machine, text(call.argument(0)), "", call.node, "unset")
    return UNKNOWN


def _set_variable(call: Call) -> Any:
    assigning.set_variable(call.machine, text(call.argument(0)), call.argument(1), call.node)
    return call.argument(1)


def _update_variables(call: Call) -> Any:
    given = call.argument(0)
    for name, value in {**(given if type(given) is dict else {}), **call.keywords}.items():
        assigning.set_variable(call.machine, text(name), value, call.node)
    return None


def _all_variables(call: Call) -> Any:
    copy = {"use": "copy"} if call.name.endswith("copy") else {}
    call.machine.findings.add("environment", "*", "read", call.node, **copy)
    return dict(call.machine.scene.variables) if copy else Thing("os.environ.items()")


def _pid(call: Call) -> Any:
    return Thing("os.getpid()", "self")


def _psutil(call: Call) -> Any:
    about = call.argument(0, "pid")
    mine = about is None or (type(about) is Thing and about.name == "os.getpid()")
    return Thing("psutil.Process()", "self" if mine else "parent" if type(about) is Thing and "ppid" in about.name else None)


def _fork(call: Call) -> Any:
    call.machine.findings.add("schedule", "fork", call.name, call.node)
    return Thing("os.fork()", "self")


def _library_of_c(call: Call) -> Any:
    value = call.argument(0)
    if type(value) is str and "/" in value:
        effects.reads(call, value, call.name)
    return Thing("ctypes.CDLL()")


def _add_argument(call: Call) -> Any:
    """`parser.add_argument("--option", default=PATH)`: remember what the option is if nobody gives it."""
    default = call.keywords.get("default")
    if type(default) in (str, Place) and default:
        flags = [text(one) for one in call.arguments]
        longest = max(flags, key=len, default="").lstrip("-").replace("-", "_")
        call.machine.options[text(call.keywords["dest"]) if "dest" in call.keywords else longest] = default
    return Thing("argparse.Action()")


def _process(call: Call) -> Any:
    """`context.Process(target=function)`."""
    call.machine.findings.add("schedule", "process", call.name, call.node)
    effects.background(call, call.argument(1, "target"))
    return Thing("multiprocessing.Process()", "self")


HANDLERS: dict[str, Callable[[Call], Any]] = {
    "contextlib.redirect_stdout": _redirected,
    "os.dup2": _duplicated,
    **each("sys.stdout.write sys.__stdout__.write", _printed),
    **each("sys.path.insert sys.path.append sys.path.extend site.addsitedir", _searched),
    **each("print", _print),
    **each("os.path.join posixpath.join", _joined),
    **each("os.path.abspath os.path.realpath os.path.normcase os.path.expanduser", _absolute),
    **each("os.path.expandvars string.Template", _expanded),
    **each("pathlib.Path anyio.Path py.path.local upath.UPath", _place),
    **each("os.environ.get os.getenv os.getenvb os.environ.setdefault", _get_variable),
    **each("os.environ.pop os.unsetenv os.environ.__delitem__", _pop_variable),
    **each("os.putenv os.environ.__setitem__", _set_variable),
    **each("os.environ.copy os.environ.items os.environ.values os.environ.keys", _all_variables),
    **each(
        "ctypes.CDLL ctypes.PyDLL ctypes.cdll.LoadLibrary ctypes.pydll.LoadLibrary ctypes.windll.LoadLibrary cffi.FFI().dlopen",
        _library_of_c,
    ),
    **each("os.fork os.forkpty pty.fork", _fork),
    "os.chdir": _change_directory,
    "os.fchdir": _change_directory,
    "os.environ.update": _update_variables,
    "os.getpid": _pid,
    "psutil.Process": _psutil,
}
"""Functions, by canonical name."""
METHODS: dict[str, Callable[[Call], Any]] = {
    "add_argument": _add_argument,
    "Process": _process,
}
"""Methods, whatever they are called on."""
