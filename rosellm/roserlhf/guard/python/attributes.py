"""Attributes, elements and comparisons of values."""

from __future__ import annotations

import ast
import posixpath
from typing import Any

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.python import detection, fold, names, places
from rosellm.roserlhf.guard.python.fold import NOTHING
from rosellm.roserlhf.guard.python.machine import ABSENT, Machine
from rosellm.roserlhf.guard.python.value import (
    LONGEST_NAME,
    Choice,
    Closure,
    Contents,
    File,
    Instance,
    Klass,
    Method,
    Partial,
    Place,
    Thing,
    choice,
    known,
    names_in,
    spread,
    sure,
    text,
)

FRAME_ATTRIBUTES = names_in(
    "f_locals f_globals f_back f_builtins tb_frame tb_next gi_frame cr_frame ag_frame __globals__ __closure__ "
    "cell_contents func_globals func_closure __self__ f_trace gi_yieldfrom"
)
_STACKS = ("inspect.stack()", "inspect.getouterframes()", "traceback.extract_stack()", "traceback.walk_stack()")
_CLIMBING = frozenset(
    ("__class__", "__base__", "__bases__", "__mro__", "__subclasses__", "mro", "__init__", "__globals__", "__reduce__")
)
_NAMESPACES = ("__dict__", "vars()", "globals()", "locals()", "f_globals", "f_locals", "f_builtins", "__globals__", "func_globals")


def get(machine: Machine, value: Any, name: str, node: ast.AST | None = None) -> Any:
    """Return an attribute of a value."""
    kind = type(value)
    if kind is Thing:
        return of_thing(machine, value, name, node)
    if kind is Contents:
        return Method(value, name)
    if kind is File:
        return value.path if name == "name" else value if name in ("buffer", "raw") else Method(value, name)
    match value:
        case Choice():
            return spread(lambda one: get(machine, one, name, node), value)
        case Place():
            return _of_place(value, name)
        case Instance():
            found = value.names.get(name, ABSENT)
            if found is not ABSENT:
                return found
            found = of_class(value.klass, name)
            if found is ABSENT:
                return value.names if name == "__dict__" else value.klass if name == "__class__" else Method(value, name)
            if type(found) is Closure:
                return _bound(machine, value, found)
            return found
        case Klass():
            found = of_class(value, name)
            return Thing(f"{value.name}.{name}") if found is ABSENT else found
        case Closure():
            if name in FRAME_ATTRIBUTES:
                machine.findings.add("frame", f"function.{name}", "attribute", node, own="yes")
            return Thing(f"function.{name}")
        case Partial():
            return Method(value, name)
    if name in _CLIMBING:
        return Thing(f"object.{name}", type(value).__name__ if name == "__class__" else None)
    return Method(value, name)


def of_class(klass: Any, name: str, deep: int = 0) -> Any:
    """Return what a class binds a name to, `ABSENT` if nothing."""
    if type(klass) is not Klass or deep > 8:
        return ABSENT
    if name in klass.names:
        return klass.names[name]
    for base in klass.bases[:8]:
        found = of_class(base, name, deep + 1)
        if found is not ABSENT:
            return found
    return ABSENT


def _bound(machine: Machine, owner: Instance, function: Closure) -> Any:
    decorators = {fold_name(one) for one in getattr(function.node, "decorator_list", [])}
    if "staticmethod" in decorators:
        return function
    if decorators & {"property", "cached_property"}:
        from rosellm.roserlhf.guard.python import calling

        return calling.call(machine, function, [owner], {}, None)
    return Partial(function, [owner], {})


def fold_name(node: ast.AST) -> str:
    """Return the last name of a dotted expression."""
    return node.attr if type(node) is ast.Attribute else node.id if type(node) is ast.Name else ""


_PECULIAR = FRAME_ATTRIBUTES | names_in(
    "__file__ __path__ from_address co_filename co_name f_code filename function name code_context pid __name__ __builtins__"
)
"""Attributes that mean more than what they are called, whatever they are of."""
_BUILTIN = frozenset(("builtins", "object.__builtins__"))


def of_thing(machine: Machine, value: Thing, name: str, node: ast.AST | None) -> Any:
    """Return an attribute of something that is known by how it is reached."""
    if not value.name and name not in _PECULIAR:
        return Thing("?." + name, value.subject)
    owner = value.name
    if owner in _BUILTIN:
        return value if name == "__dict__" else Thing(names.canonical(f"builtins.{name}"))
    if name in machine.options and owner.endswith((".parse_args()", ".parse_known_args()[0]")):
        return choice((machine.options[name], UNKNOWN))
    full = names.canonical(f"{owner or '?'}.{name}")
    if full in fold.CONSTANTS:
        return fold.CONSTANTS[full]
    if name not in _PECULIAR and owner != "os.DirEntry" and full != "sys.argv":
        return Thing(full if len(full) < LONGEST_NAME else "?." + name, value.subject)
    if name in FRAME_ATTRIBUTES and not (name == "__self__" and not value.name.startswith("sys.")):
        machine.findings.add("frame", full, "attribute", node, **own(machine, value))
    elif name == "__file__":
        return places.of_module(value.name or UNKNOWN, names.library(value.name))
    elif name == "__path__":
        return [posixpath.dirname(places.of_module(value.name + ".x", False))]
    elif value.name == "os.DirEntry":
        return (
            text(value.subject)
            if name == "path"
            else posixpath.basename(text(value.subject))
            if name == "name"
            else Method(value, name)
        )
    elif name == "from_address":
        machine.findings.add("frame", full, "memory", node)
    elif full == "sys.argv" or name in ("co_filename", "co_name", "f_code"):
        machine.guards.append(full if full == "sys.argv" else f"frame.{name}")
    elif name in ("filename", "function", "name", "code_context") and value.name.startswith(_STACKS):
        machine.guards.append(value.name.partition("(")[0])
    elif full.endswith(("Popen().pid", "multiprocessing.Process().pid")):
        return Thing("os.getpid()", "self")
    elif name == "__name__" and value.name and not value.name.endswith((")", "]")):
        return value.name.rpartition(".")[2]
    if name == "__builtins__":
        return Thing("builtins")
    return Thing(full if len(full) < LONGEST_NAME else "?." + name, value.subject)


def own(machine: Machine, value: Thing) -> dict[str, str]:
    """Tell what of the program itself is touched."""
    root = value.name.partition(".")[0].partition("(")[0]
    return {"root": root} if root else {}


_PLACE_PARTS = frozenset(("name", "stem", "suffix", "parent", "parents", "parts", "anchor", "root", "suffixes"))


def _of_place(value: Place, name: str) -> Any:
    if name not in _PLACE_PARTS:
        return Method(value, name)
    path = value.text
    head, tail = posixpath.split(path.rstrip("/") or "/")
    match name:
        case "name":
            return tail
        case "stem":
            return posixpath.splitext(tail)[0]
        case "suffix":
            return posixpath.splitext(tail)[1]
        case "suffixes":
            return ["." + one for one in tail.split(".")[1:]]
        case "parent":
            return Place(head or (UNKNOWN if UNKNOWN in tail else "." if path not in (".", "..") else path + "/.."))
        case "parts":
            return tuple((["/"] if path.startswith("/") else []) + [one for one in path.split("/") if one])
        case "parents":
            found: list[Any] = []
            while head and len(found) < 32:
                found.append(Place(head))
                if head == "/":
                    break
                head = posixpath.dirname(head)
            return found or [Place(".")]
    return "/" if path.startswith("/") else ""


def contents(machine: Machine, file: File) -> Any:
    """Return what a file holds: its text, if the program or a call before wrote it."""
    text_of = machine.files.get(file.path, machine.scene.files.get(file.path))
    return Contents((file.path,)) if text_of is None or file.writes else text_of


def item(machine: Machine, owner: Any, index: Any, node: ast.AST | None) -> Any:
    """Return an element of a value."""
    match owner:
        case dict():
            try:
                if known(index):
                    return owner.get(index, NOTHING)
            except TypeError:
                return NOTHING
            return choice(list(owner.values())[:8]) if owner else NOTHING
        case str() | bytes() | list() | tuple():
            if type(index) is slice:
                return fold.method(owner, "__getitem__", [index], {})
            if type(index) is int:
                if type(owner) is str and not sure(owner):
                    return UNKNOWN
                return owner[index] if -len(owner) <= index < len(owner) else NOTHING
            return choice(owner[:8]) if owner and type(owner) in (list, tuple) else UNKNOWN if type(owner) is str else NOTHING
        case Contents():
            return owner
        case Thing():
            return _item_of_thing(machine, owner, index, node)
        case Instance() | Klass():
            return NOTHING
    return NOTHING


def _item_of_thing(machine: Machine, owner: Thing, index: Any, node: ast.AST | None) -> Any:
    key = text(index) if type(index) in (str, bytes) else ""
    if owner.name == "os.environ":
        return variable(machine, key or UNKNOWN, node)
    if owner.name == "sys.modules":
        machine.findings.add("frame", f"sys.modules[{key or UNKNOWN!r}]", "sys.modules", node)
        return Thing(names.canonical(key)) if key else NOTHING
    if owner.name == "builtins":
        return get(machine, owner, key, node)
    if key and owner.name.endswith(_NAMESPACES):
        base = owner.name.removesuffix("vars()").removesuffix("__dict__").rstrip(".")
        if owner.name in ("globals()", "locals()"):
            found = machine.lookup(key)
            if found is not ABSENT:
                return found
            return Thing("builtins") if key == "__builtins__" else Thing(names.canonical(key) if key in names.STANDARD else "")
        if type(owner.subject) is Thing:
            return get(machine, owner.subject, key, node)
        if base != owner.name:
            return get(machine, Thing(base), key, node)
        if key in ("__builtins__", "builtins"):
            return Thing("builtins")
        if key in names.STANDARD or key in names.BUILTINS:
            return Thing(names.canonical(key))
    full = f"{owner.name}[{key!r}]" if key and len(key) < 40 else f"{owner.name}[]"
    return Thing(full if owner.name and len(full) < LONGEST_NAME else "?[]", owner.subject)


def variable(machine: Machine, name: str, node: ast.AST | None, default: Any = None, how: str = "read") -> Any:
    """Read an environment variable."""
    machine.findings.add("environment", name, how, node)
    value = machine.scene.variables.get(name)
    if value is not None:
        return value
    if name in detection.LOOKING:
        machine.guards.append(name)
        return detection.seen(name)
    if name == "HOME":
        return machine.scene.home
    if name == "PWD":
        return machine.scene.workdir
    return choice((default, UNKNOWN)) if type(default) in (str, Place) and default else UNKNOWN


def element(machine: Machine, owner: Thing, node: ast.AST | None) -> Any:
    """Return what iterating over a thing gives."""
    if owner.name == "os.environ" or owner.name.startswith("os.environ."):
        machine.findings.add("environment", "*", "read", node)
    elif owner.name == "sys.modules" or owner.name.startswith("sys.modules."):
        machine.findings.add("frame", "sys.modules", "all", node)
    elif owner.name == "psutil.process_iter()":
        return Thing("psutil.Process()")
    elif owner.name == "psutil.Process().parents()":
        return Thing("psutil.Process()", "parent")
    elif owner.name == "psutil.Process().children()":
        return Thing("psutil.Process()", owner.subject)
    name = owner.name + "[]" if owner.name and len(owner.name) < LONGEST_NAME else "?[]"
    return Thing(name, owner.subject if type(owner.subject) in (str, Place) else None)


def compared(machine: Machine, left: Any, kind: type[ast.cmpop], right: Any, node: ast.AST) -> None:
    """Note a comparison that tells whether a test is looking."""
    if kind in (ast.In, ast.NotIn) and type(right) is Thing and right.name in ("sys.modules", "os.environ", "sys.argv"):
        target = f"{right.name}[{text(left)!r}]" if right.name != "sys.argv" else "sys.argv"
        if right.name == "sys.modules" or text(left) in detection.LOOKING:
            machine.findings.add("detect", target, "in", node)
            machine.guards.append(target)
    elif type(left) is Thing and left.name == "__name__" and (kind is ast.NotEq) == (right == "__main__"):
        machine.guards.append("__name__")
