"""Assignments to attributes and elements: patches of modules, variables of the environment, state of own objects."""

from __future__ import annotations

import ast
from typing import Any

from rosellm.roserlhf.guard.python import definitions, expressions, names
from rosellm.roserlhf.guard.python.findings import short
from rosellm.roserlhf.guard.python.machine import Machine
from rosellm.roserlhf.guard.python.value import (
    Choice,
    Closure,
    Contents,
    File,
    Instance,
    Klass,
    Partial,
    Thing,
    is_key,
    known,
    put_in,
    text,
)


def attribute(machine: Machine, target: ast.Attribute, value: Any) -> None:
    """Bind an attribute."""
    owner = expressions.evaluate(machine, target.value)
    set_attribute(machine, owner, target.attr, value, target)


def set_attribute(machine: Machine, owner: Any, name: str, value: Any, node: ast.AST | None) -> None:
    """Bind an attribute of a value."""
    if name == "source":
        _cell(machine, value, node)
    match owner:
        case Thing() if owner.name:
            patch(machine, names.canonical(f"{owner.name}.{name}"), value, node)
        case Instance():
            if not machine.dead:
                owner.names[name] = value
        case Klass():
            if not machine.dead:
                owner.names[name] = value
            definitions.special(machine, owner.name, name, value, node)
        case Choice():
            for one in owner.options:
                set_attribute(machine, one, name, value, node)
        case Contents():
            machine.findings.add("patch", f"{owner.name or '?'}().{name}", described(value), node, data="yes")


def element(machine: Machine, target: ast.Subscript, value: Any) -> None:
    """Bind an element."""
    owner = expressions.evaluate(machine, target.value)
    index = expressions.evaluate(machine, target.slice) if type(target.slice) is not ast.Slice else None
    set_element(machine, owner, index, value, target)


def set_element(machine: Machine, owner: Any, index: Any, value: Any, node: ast.AST | None) -> None:
    """Bind an element of a value."""
    if index == "source":
        _cell(machine, value, node)
    match owner:
        case Contents():
            if not machine.dead:
                put_in(owner, value)
        case dict():
            if not machine.dead and is_key(index):
                owner[index] = value
        case list():
            if not machine.dead and type(index) is int and -len(owner) <= index < len(owner):
                owner[index] = value
        case Thing():
            key = text(index)
            if owner.name == "os.environ":
                set_variable(machine, key, value, node)
            elif owner.name == "sys.modules":
                patch(machine, f"sys.modules[{key!r}]", value, node)
            elif owner.name == "globals()":
                machine.assign(key, value)
            elif owner.name.endswith(("__dict__", "vars()", "f_locals", "f_globals", "__globals__")):
                base = owner.name.removesuffix(".__dict__")
                if type(owner.subject) is Thing:
                    base = owner.subject.name
                patch(
                    machine,
                    names.canonical(f"{base}.{key}")
                    if base != owner.name or type(owner.subject) is Thing
                    else f"{owner.name}[{key!r}]",
                    value,
                    node,
                )
            elif owner.name == "builtins":
                patch(machine, key, value, node)
            elif owner.name.startswith(("sys.modules", "sys._getframe", "gc.get", "inspect.", "sys.meta_path", "sys.path")):
                patch(machine, f"{owner.name}[{key!r}]", value, node)


def _cell(machine: Machine, value: Any, node: ast.AST | None) -> None:
    """Read what becomes the source of a notebook's cell: it is run with the notebook."""
    code = "".join(value) if type(value) is list and all(type(one) is str for one in value) else value
    if type(code) is str and "\n" in code.strip():
        machine.nested("python", code, node, "cell", in_file=f"{machine.scene.workdir.rstrip('/')}/cell.ipynb")


def set_variable(machine: Machine, name: str, value: Any, node: ast.AST | None, how: str = "set") -> None:
    """Set an environment variable."""
    machine.findings.add("environment", name, f"{how} {short(text(value))}".strip(), node)
    if how == "set":
        machine.set_variable(name, text(value))


def patch(machine: Machine, target: str, value: Any, node: ast.AST | None, **traits: str) -> None:
    """Add the act of replacing something of a library."""
    if target.startswith(("?.", "?[", "?(")) or target == "?":
        if value is not None and type(value) in (Closure, Partial):
            machine.findings.add("patch", target, described(value), node, unknown="yes", **traits)
        return
    if "()" in target and not target.startswith(("sys.", "gc.", "inspect.", "globals")) and type(value) not in (Closure, Klass):
        traits["object"] = "yes"
    if type(value) is Thing and value.name == target:
        traits["restores"] = "yes"
    traits.update(definitions.nature(machine, value))
    machine.findings.add("patch", target, described(value), node, **traits)
    if target == "sys.stdout" and type(value) is File and not machine.dead:
        machine.output = value
    elif target == "sys.path" and type(value) in (list, tuple):
        machine.folders += [path for path in machine.paths(value) if path not in machine.folders]
    last = target.rpartition(".")[2]
    if last.startswith("__") and last.endswith("__"):
        definitions.special(machine, target.rpartition(".")[0], last, value, node)


def described(value: Any) -> str:
    """Return what replaces something, in words."""
    match value:
        case Closure():
            body = value.node.body
            words = ast.unparse(body) if isinstance(body, ast.expr) else value.node.name if hasattr(value.node, "name") else ""
            return short(f"lambda: {words}" if type(value.node) is ast.Lambda else words, 120)
        case Klass():
            return f"class {value.name}"
        case Thing():
            return value.name or "?"
        case File():
            return value.path
        case Instance():
            return f"{value.klass.name}()"
        case Partial():
            return described(value.function)
    return short(repr(value), 120) if known(value) else "?"


def deleted(machine: Machine, target: ast.AST) -> None:
    """Read a `del`."""
    if type(target) is ast.Name:
        machine.assign(target.id, Thing())
    elif type(target) is ast.Attribute:
        owner = expressions.evaluate(machine, target.value)
        if type(owner) is Thing and owner.name:
            machine.findings.add("patch", names.canonical(f"{owner.name}.{target.attr}"), "deleted", target)
    elif type(target) is ast.Subscript:
        owner = expressions.evaluate(machine, target.value)
        index = expressions.evaluate(machine, target.slice)
        if type(owner) is Thing and owner.name == "os.environ":
            set_variable(machine, text(index), "", target, "unset")
        elif type(owner) is Thing and owner.name in ("sys.modules", "builtins"):
            machine.findings.add("patch", f"{owner.name}[{text(index)!r}]", "deleted", target)
        elif type(owner) is dict and is_key(index) and not machine.dead:
            owner.pop(index, None)
