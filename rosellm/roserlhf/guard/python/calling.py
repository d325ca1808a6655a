"""Calls: functions of the program are read with their arguments, those of libraries are looked up in the table."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rosellm.roserlhf.guard.python import (
    apis,
    assigning,
    attributes,
    containers,
    effects,
    expressions,
    files,
    fold,
    libraries,
    services,
    statements,
)
from rosellm.roserlhf.guard.python.fold import NOTHING
from rosellm.roserlhf.guard.python.machine import DEEPEST_CALL, Machine
from rosellm.roserlhf.guard.python.value import (
    LONGEST_NAME,
    PLAIN,
    Choice,
    Closure,
    Contents,
    File,
    Instance,
    Klass,
    Method,
    Partial,
    Place,
    Scope,
    Thing,
    choice,
    known,
    sources,
    spread,
    text,
)


@dataclass(slots=True, eq=False)
class Call:
    """One call of something that the program does not define."""

    machine: Machine
    name: str
    """Canonical dotted name."""
    arguments: list[Any]
    keywords: dict[str, Any]
    node: ast.AST | None
    owner: Any = None
    """What a method is called on."""

    def argument(self, position: int, keyword: str = "", default: Any = None) -> Any:
        """Return an argument; position -1 is the object itself."""
        if position < 0:
            return self.owner
        if position < len(self.arguments):
            return self.arguments[position]
        return self.keywords.get(keyword, default)


LONGEST_DECODED = 20_000
"""Characters of what came out of a disguise that an act carries along."""


def knows(name: str) -> bool:
    """Tell whether the reader knows what a function does."""
    return name in fold.PURE or name in fold.CONSTANTS or name in libraries.HANDLERS or apis.table().find(name) is not None


def call(machine: Machine, function: Any, arguments: list[Any], keywords: dict[str, Any], node: ast.AST | None) -> Any:
    """Call a value."""
    kind = type(function)
    if kind is Thing:
        return thing(machine, function, arguments, keywords, node)
    if kind is Method:
        return _method(machine, function, arguments, keywords, node)
    if kind is Closure:
        return run(machine, function, arguments, keywords)
    match function:
        case Partial():
            return call(machine, function.function, [*function.arguments, *arguments], {**function.keywords, **keywords}, node)
        case Klass():
            return instance(machine, function, arguments, keywords)
        case Choice():
            return choice([call(machine, one, arguments, keywords, node) for one in function.options])
        case Instance():
            inner = attributes.get(machine, function, "__call__")
            return NOTHING if type(inner) is Method else call(machine, inner, arguments, keywords, node)
    return NOTHING


def thing(machine: Machine, function: Thing, arguments: list[Any], keywords: dict[str, Any], node: ast.AST | None) -> Any:
    """Call something that is known by how it is reached."""
    name = function.name
    handler = libraries.HANDLERS.get(name)
    if handler is not None:
        return handler(Call(machine, name, arguments, keywords, node, function))
    if name in fold.PURE:
        return _fold(machine, name, arguments, keywords, node)
    if name == "object.__class__" and type(function.subject) is str and function.subject in fold.PURE:
        return _fold(machine, function.subject, arguments, keywords, node)
    if arguments and type(arguments[0]) in _OWNING:
        kind, _, last = name.partition(".")
        if kind in fold.OWNERS and type(arguments[0]) is fold.OWNERS[kind]:
            return _method(machine, Method(arguments[0], last), arguments[1:], keywords, node)
    handler, api, owner = (_looked_up if len(name) <= LONGEST_NAME else _look_up)(name)
    made = Call(machine, name, arguments, keywords, node, function if owner is None else Thing(owner, function.subject))
    if handler is not None:
        return handler(made)
    return effects.of(made, api) if api is not None else effects.guess(made)


_OWNING = frozenset(fold.OWNERS.values())


def _look_up(name: str) -> tuple[Callable[[Call], Any] | None, apis.Api | None, str | None]:
    """Return what handles a dotted name, or what the table says of it; if only of its last part, the name of its owner, too."""
    if name.startswith(services.GIT):
        return services.git, None, None
    api = apis.table().find(name)
    if api is not None or "." not in name:
        return None, api, None
    owner, _, last = name.rpartition(".")
    handler = libraries.METHODS.get(last)
    api = apis.table().methods.get(last) if handler is None else None
    return handler, api, owner if handler is not None or api is not None else None


_looked_up = functools.lru_cache(2_048)(_look_up)
"""The same; it remembers the names of most programs."""


def _size(name: str, arguments: list[Any]) -> int:
    """Return about how much a function goes through, or makes."""
    if name in ("range", "bytes", "bytearray") and arguments and type(arguments[-1]) is int:
        return max(abs(one) for one in arguments if type(one) is int)
    if len(arguments) == 1:
        return len(arguments[0]) if hasattr(arguments[0], "__len__") else 0
    return sum([len(one) for one in arguments if hasattr(one, "__len__")])


_SPREAD = frozenset((Choice, Place))
_SHOWING = frozenset(("os.path.dirname", "os.path.basename", "os.fspath", "min", "max"))
"""Functions that tell something of what is not known."""


def _fold(machine: Machine, name: str, arguments: list[Any], keywords: dict[str, Any], node: ast.AST | None) -> Any:
    """Call a function that only computes."""
    if len(arguments) == 1 and type(arguments[0]) is Thing and not keywords and name not in _SHOWING:
        return text(arguments[0]) if name == "str" else Thing(f"{name}()")
    if not _SPREAD.isdisjoint(map(type, arguments)):
        plain = [spread(lambda one: one.text if type(one) is Place else one, one) for one in arguments]
        return (
            spread(lambda *each: _fold(machine, name, list(each), keywords, node), *plain)
            if any(type(one) is Choice for one in plain)
            else _fold(machine, name, plain, keywords, node)
        )
    if (PLAIN.issuperset(map(type, arguments)) or all(map(known, arguments))) and (
        not keywords or all(map(known, keywords.values()))
    ):
        if not machine.fold(_size(name, arguments)):
            return NOTHING
        found = fold.call(name, arguments, keywords)
        if name in fold.DECODERS and type(found) in (str, bytes) and len(found) > 3 and not (arguments and found == arguments[0]):
            decoded(machine, text(found), name, node)
        return found
    read = sources(*arguments)
    if name == "str" and arguments:
        return Contents(read) if read else text(arguments[0])
    if name == "sorted" and arguments and type(arguments[0]) is list:
        return arguments[0]
    if name in ("os.path.dirname", "os.path.basename") or name == "os.fspath":
        return fold.call(name, [text(arguments[0] if arguments else None)], {})
    if name in ("min", "max") and arguments:
        return choice(arguments[0][:8]) if type(arguments[0]) is list and arguments[0] else choice(arguments[:8])
    return Contents(read) if read else Thing(f"{name}()")


def decoded(machine: Machine, words: str, how: str, node: ast.AST | None) -> None:
    """Add what came out of a disguise."""
    machine.findings.add("decode", effects.short(words), how, node, text=words[:LONGEST_DECODED])


def _method(machine: Machine, function: Method, arguments: list[Any], keywords: dict[str, Any], node: ast.AST | None) -> Any:
    owner, name = function.owner, function.name
    made = Call(machine, name, arguments, keywords, node, owner)
    kind = type(owner)
    if kind is Place:
        return files.place_method(made)
    if kind is File:
        return files.file_method(made)
    if kind is Contents:
        return containers.contents_method(made)
    if kind in (list, dict, set):
        found = containers.collection_method(made)
        if found is not None:
            return found
    if kind in (Instance, Thing):
        handler = libraries.METHODS.get(name)
        if handler is not None:
            return handler(made)
        api = apis.table().methods.get(name)
        return effects.of(made, api) if api is not None else effects.guess(made)
    if Choice in map(type, arguments):
        return spread(lambda *each: fold.method(owner, name, list(each), keywords), *arguments)
    if hasattr(owner, "__len__") and not machine.fold(len(owner)):
        return NOTHING
    found = fold.method(owner, name, arguments, keywords)
    if name == "decode" and arguments and type(found) in (str, bytes):
        decoded(machine, text(found), f"decode {text(arguments[0])}", node)
    return found


def instance(machine: Machine, klass: Klass, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Make an object of a class, and read what its `__init__` does."""
    made = Instance(klass, {})
    start = attributes.of_class(klass, "__init__")
    if type(start) is Closure:
        run(machine, start, [made, *arguments], keywords)
    return made


def run(machine: Machine, function: Closure, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Read the body of a function with its arguments; a further time only while there is fuel."""
    node, findings = function.node, machine.findings
    if machine.calls >= DEEPEST_CALL or (id(node) in machine.visited and not machine.spend(2)):
        return NOTHING
    machine.visited.add(id(node))
    outer, returned, leaving, where = machine.scope, machine.returned, machine.leaving, findings.where
    machine.scope = Scope(_bound(machine, function, arguments, keywords), function.scope)
    machine.returned, machine.leaving = [], ""
    machine.calls += 1
    try:
        if isinstance(node, ast.Lambda):
            return expressions.evaluate(machine, node.body)
        findings.where = statements.part(where, node.name)
        statements.block(machine, node.body)
        found = machine.returned
        if len(found) > 1 and list in map(type, found):
            return [one for inner in found for one in (inner if type(inner) is list else [inner])]
        return choice(found) if found else None
    finally:
        machine.calls -= 1
        machine.scope, machine.returned, machine.leaving, findings.where = outer, returned, leaving, where


_FIXTURES = frozenset(("monkeypatch", "mocker"))
"""Parameters that a test runner fills in."""


def _bound(machine: Machine, function: Closure, arguments: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """Bind parameters; those that nothing is known of stay unknown."""
    names_of = function.node.args
    positional = [*names_of.posonlyargs, *names_of.args] if names_of.posonlyargs else names_of.args
    bound: dict[str, Any] = {}
    for one in [*positional, *names_of.kwonlyargs] if names_of.kwonlyargs else positional:
        name = one.arg
        bound[name] = Thing(name) if name in _FIXTURES else NOTHING
    if not (arguments or keywords or function.defaults or function.keyword_defaults or names_of.vararg or names_of.kwarg):
        return bound
    if function.defaults:
        for one, value in zip(positional[-len(function.defaults) :], function.defaults, strict=False):
            bound[one.arg] = value
    if function.keyword_defaults:
        bound.update(function.keyword_defaults)
    if not arguments and not keywords:  # read without a call: nothing says that a caller leaves an option out
        for name, value in bound.items():
            if value is None or value is False:
                bound[name] = NOTHING
    for one, value in zip(positional, arguments, strict=False):
        bound[one.arg] = value
    extra = {}
    for name, value in keywords.items():
        if name in bound:
            bound[name] = value
        else:
            extra[name] = value
    if names_of.vararg:
        bound[names_of.vararg.arg] = tuple(arguments[len(positional) :])
    if names_of.kwarg:
        bound[names_of.kwarg.arg] = extra
    return bound


def bind(machine: Machine, target: ast.AST, value: Any) -> None:
    """Bind the target of an assignment, loop or `with`."""
    kind = type(target)
    if kind is ast.Name:
        name: str = target.id  # type: ignore[attr-defined]
        machine.assign(name, value)
        if type(value) is Thing and "." in value.name:
            machine.saved[name] = value.name
    elif kind in (ast.Tuple, ast.List):
        assert isinstance(target, (ast.Tuple, ast.List))
        _unpack(machine, target.elts, value)
    elif kind is ast.Starred:
        assert isinstance(target, ast.Starred)
        bind(machine, target.value, value)
    elif kind is ast.Attribute:
        assert isinstance(target, ast.Attribute)
        assigning.attribute(machine, target, value)
    elif kind is ast.Subscript:
        assert isinstance(target, ast.Subscript)
        assigning.element(machine, target, value)


def _unpack(machine: Machine, targets: list[ast.expr], value: Any) -> None:
    if type(value) is Choice:
        value = value.options[0]
    if type(value) in (list, tuple, str, bytes) and ast.Starred not in map(type, targets):
        values = list(value)
        if len(values) == len(targets):
            for target, one in zip(targets, values, strict=True):
                bind(machine, target, one)
            return
    if type(value) in (list, tuple):
        star = next((i for i, one in enumerate(targets) if type(one) is ast.Starred), len(targets))
        after = len(targets) - star - 1
        for at, target in enumerate(targets):
            if at == star:
                bind(machine, target, list(value[star : len(value) - after] if after else value[star:]))
            else:
                index = at if at < star else at - len(targets)
                bind(machine, target, value[index] if -len(value) <= index < len(value) else NOTHING)
        return
    for target in targets:
        bind(
            machine,
            target,
            value if type(value) is Contents else expressions.iterate(machine, value)[0] if type(value) is Thing else NOTHING,
        )
