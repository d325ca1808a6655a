"""Expressions -> values, constants folded."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.python import attributes, calling, computing, detection, fold, names
from rosellm.roserlhf.guard.python.fold import NOTHING
from rosellm.roserlhf.guard.python.machine import ABSENT, DEEPEST_EXPRESSION, Machine
from rosellm.roserlhf.guard.python.source import UNKNOWN_NAME
from rosellm.roserlhf.guard.python.value import (
    FROM_FILES,
    Choice,
    Closure,
    Contents,
    File,
    Instance,
    Place,
    Scope,
    Thing,
    choice,
    is_key,
    options,
    put_in,
    sources,
    spread,
    sure,
    text,
)

MOST_ELEMENTS = fold.LARGEST
_WRITTEN = frozenset((str, bytes))
"""Kinds of values that an expression can be written as."""
_CONSTANT, _NAME, _STARRED, _BINARY = ast.Constant, ast.Name, ast.Starred, ast.BinOp


def evaluate(machine: Machine, node: ast.AST | None) -> Any:
    """Return the value of an expression, and note what it does."""
    kind = type(node)
    if kind is _CONSTANT:
        value = node.value  # type: ignore[union-attr]
        return value if type(value) is not str or UNKNOWN_NAME not in value else value.replace(UNKNOWN_NAME, UNKNOWN)
    depth = machine.depth
    if depth > DEEPEST_EXPRESSION:
        if kind is _NAME or kind in _EXPRESSIONS:
            _too_deep(machine, node)
        return NOTHING
    if kind is _NAME:  # holds no other expression
        machine.fuel -= 1
        name = node.id  # type: ignore[union-attr]
        scope: Scope | None = machine.scope
        while scope is not None:
            bound = scope.names
            if name in bound:
                value = bound[name]
                return value if value is not ABSENT else unbound(machine, name)
            scope = scope.parent
        return Thing(name) if name in names.BUILTINS else unbound(machine, name)
    function = _EXPRESSIONS.get(kind)
    if function is None:
        return NOTHING
    machine.fuel -= 1
    machine.depth = depth + 1
    try:
        return function(machine, node)
    finally:
        machine.depth = depth


def _too_deep(machine: Machine, node: ast.AST | None) -> None:
    if node is None or id(node) in machine.visited:
        return
    machine.findings.add("opaque", "nested too deep", type(node).__name__, node)
    for one in ast.walk(node):
        machine.visited.add(id(one))
        if type(one) is ast.Constant and type(one.value) is str and "/" in one.value:
            machine.findings.add("read", machine.path(one.value), "?", one, guess="yes")


_GIVEN = frozenset((UNKNOWN_NAME, "__name__", "__file__"))
"""Names that every program has."""


def unbound(machine: Machine, name: str) -> Any:
    """Return what a name means that the program does not bind."""
    if name in names.BUILTINS:
        return Thing(name)
    if name in _GIVEN:
        if name == UNKNOWN_NAME:
            return UNKNOWN
        return Thing(name) if name == "__name__" else machine.scene.variables.get(name, machine.path("") + "/" + UNKNOWN)
    for star in machine.stars:
        found = names.canonical(f"{star}.{name}")
        if calling.knows(found):
            return Thing(found)
    if name in names.MEANT:
        return Thing(names.MEANT[name])
    return Thing(f"{machine.stars[0]}.{name}" if machine.stars else "")


def _attribute(machine: Machine, node: ast.Attribute) -> Any:
    value = evaluate(machine, node.value)
    return (attributes.of_thing if type(value) is Thing else attributes.get)(machine, value, node.attr, node)


def _binary(machine: Machine, node: ast.BinOp) -> Any:
    chain = [node]
    left = node.left
    while type(left) is _BINARY:
        chain.append(left)
        left = left.left
    value = evaluate(machine, left)
    if len(chain) > 1:
        chain.reverse()
    for one in chain:
        right = evaluate(machine, one.right)
        kind = type(one.op)
        if type(value) is Choice or type(right) is Choice:
            found = spread(lambda a, b, kind=kind: fold.binary(kind, a, b), value, right)
        else:
            found = fold.binary(kind, value, right)
        if found is NOTHING and (type(value) in FROM_FILES or type(right) in FROM_FILES) and (read := sources(value, right)):
            found = Contents(read)
            for part in (value, right):
                if type(part) is Contents:
                    found.edits += part.edits
                else:
                    put_in(found, part)
        value = found
    if type(value) in _WRITTEN:
        machine.findings.fold(node, value)
    return value


def _joined(machine: Machine, node: ast.JoinedStr) -> Any:
    parts: list[Any] = []
    is_choice = False
    for part in node.values:
        if type(part) is _CONSTANT and type(part.value) is str:
            parts.append(part.value.replace(UNKNOWN_NAME, UNKNOWN) if UNKNOWN_NAME in part.value else part.value)
        elif type(part) is ast.FormattedValue:
            value = evaluate(machine, part.value)
            spec = text(evaluate(machine, part.format_spec)) if part.format_spec else ""
            if type(value) is Choice:
                piece = spread(lambda one, part=part, spec=spec: fold.formatted(one, part.conversion, spec), value)
                is_choice = is_choice or type(piece) is Choice
            else:
                piece = fold.formatted(value, part.conversion, spec)
            parts.append(piece)
    joined = spread(lambda *pieces: "".join(pieces), *parts) if is_choice else "".join(parts)
    if not fold.small(joined):
        return UNKNOWN
    if type(joined) is str:
        machine.findings.fold(node, joined)
    return joined


def _elements(machine: Machine, nodes: list[ast.expr]) -> list[Any]:
    values: list[Any] = []
    for one in nodes:
        if type(one) is ast.Starred:
            inner = evaluate(machine, one.value)
            values.extend(inner if type(inner) in (list, tuple) else iterate(machine, inner, one))
        else:
            values.append(evaluate(machine, one))
    return values


def _list(machine: Machine, node: ast.List | ast.Set) -> Any:
    return _elements(machine, node.elts)


def _tuple(machine: Machine, node: ast.Tuple) -> Any:
    return tuple(_elements(machine, node.elts))


def _dict(machine: Machine, node: ast.Dict) -> Any:
    found: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        held = evaluate(machine, value)
        if key is None:
            if type(held) is dict:
                found.update(held)
            elif type(held) is Thing and held.name == "os.environ":
                machine.findings.add("environment", "*", "read", node, use="copy")
            continue
        name = evaluate(machine, key)
        if is_key(name):
            found[name] = held
    return found


def _unary(machine: Machine, node: ast.UnaryOp) -> Any:
    value = evaluate(machine, node.operand)
    if not sure(value):
        return value if type(value) is Thing and value.name == "?seen" else NOTHING
    try:
        match node.op:
            case ast.Not():
                return not value
            case ast.USub():
                return -value
            case ast.Invert():
                return ~value
    except fold.ERRORS:
        return NOTHING
    return value


def _boolean(machine: Machine, node: ast.BoolOp) -> Any:
    values = [evaluate(machine, one) for one in node.values]
    is_and = type(node.op) is ast.And
    for value in values[:-1]:
        if type(value) in (Closure, Place, File, Instance):
            decided = True
        elif sure(value):
            decided = bool(value)
        else:
            return choice([one for one in values if one is not None and one is not NOTHING and one != ""] or [NOTHING])
        if decided != is_and:
            return value
    return values[-1]


def _compare(machine: Machine, node: ast.Compare) -> Any:
    left = evaluate(machine, node.left)
    if type(node.left) is ast.Name and type(left) is str:
        machine.findings.fold(node.left, left)
    outcome: Any = True
    for kind, right_node in zip(node.ops, node.comparators, strict=True):
        right = evaluate(machine, right_node)
        if type(left) is Thing or type(right) is Thing:
            known_guards = len(machine.guards)
            attributes.compared(machine, left, type(kind), right, node)
            if len(machine.guards) > known_guards:
                return detection.seen(machine.guards[-1])
            if type(left) is Thing and left.name == "?seen":
                return left
            outcome = NOTHING
        elif outcome is not True or not (sure(left) and sure(right)):
            outcome = NOTHING
        else:
            try:
                outcome = fold.COMPARE[type(kind)](left, right)
            except fold.ERRORS:
                outcome = NOTHING
            if outcome is False:
                return False
        left = right
    return outcome


def _conditional(machine: Machine, node: ast.IfExp) -> Any:
    since = len(machine.guards)
    test = evaluate(machine, node.test)
    detection.condition(machine, test, since, node.test, node.body)
    if sure(test):
        taken, other = (node.body, node.orelse) if test else (node.orelse, node.body)
        if id(other) not in machine.visited:
            machine.visited.add(id(other))
            before, machine.dead = machine.dead, True
            evaluate(machine, other)
            machine.dead = before
        return evaluate(machine, taken)
    return choice((evaluate(machine, node.body), evaluate(machine, node.orelse)))


def _subscript(machine: Machine, node: ast.Subscript) -> Any:
    owner = evaluate(machine, node.value)
    if type(node.slice) is ast.Slice:
        bounds = [None if one is None else evaluate(machine, one) for one in (node.slice.lower, node.slice.upper, node.slice.step)]
        found = spread(lambda one: _sliced(one, bounds), owner)
    else:
        index = evaluate(machine, node.slice)
        if type(owner) is Choice or type(index) is Choice:
            found = spread(lambda one, at: attributes.item(machine, one, at, node), owner, index)
        else:
            found = attributes.item(machine, owner, index, node)
    if type(found) in _WRITTEN:
        machine.findings.fold(node, found)
    return found


def _sliced(owner: Any, bounds: list[Any]) -> Any:
    if type(owner) in (Contents, File):
        return owner
    if type(owner) is str and not sure(owner) and not (bounds[0] is None and bounds[1] is None):
        return UNKNOWN
    if type(owner) not in (str, bytes, list, tuple) or not all(one is None or type(one) is int for one in bounds):
        return owner if type(owner) is Thing and owner.name == "sys.argv" else NOTHING if type(owner) is not list else owner
    try:
        return owner[slice(*bounds)]
    except ValueError:
        return NOTHING


def _lambda(machine: Machine, node: ast.Lambda) -> Any:
    return closure(machine, node)


def closure(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Closure:
    """Make a function of its definition."""
    given = node.args
    defaults = [evaluate(machine, one) for one in given.defaults] if given.defaults else []
    keywords = {}
    if given.kwonlyargs:
        for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
            if default is not None:
                keywords[one.arg] = evaluate(machine, default)
    made = Closure(node, machine.scope, defaults, keywords)
    if id(node) not in machine.visited:
        machine.waiting.append((made, machine.findings.where))
    return made


def _comprehension(machine: Machine, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Any:
    found: list[Any] = []
    outer = machine.scope
    machine.scope = Scope({}, outer)
    try:
        computes = machine.computes.get(node)
        if computes is None:
            computes = machine.computes[node] = _only_computes(node)
        if computes:
            _compute(machine, node, found)
        else:
            _generate(machine, node, 0, found)
    finally:
        machine.scope = outer
    if type(node) is ast.DictComp:
        return {key: value for key, value in found if is_key(key)}
    return found


def _only_computes(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> bool:
    if len(node.generators) != 1 or isinstance(node, ast.DictComp):
        return False
    return computing.only(node.elt, *node.generators[0].ifs)


def _compute(machine: Machine, node: Any, found: list[Any]) -> None:
    """Go through a comprehension that only computes: equal elements give equal results."""
    generator = node.generators[0]
    values = iterate(machine, evaluate(machine, generator.iter), generator.iter)

    def result(value: Any) -> list[Any]:
        calling.bind(machine, generator.target, value)
        tests = [evaluate(machine, one) for one in generator.ifs]
        return [] if any(sure(test) and not test for test in tests) else [evaluate(machine, node.elt)]

    for one in computing.each(machine, result, values):
        found.extend(one)


def _generate(machine: Machine, node: Any, level: int, found: list[Any]) -> None:
    if level == len(node.generators):
        if type(node) is ast.DictComp:
            found.append((evaluate(machine, node.key), evaluate(machine, node.value)))
        else:
            found.append(evaluate(machine, node.elt))
        return
    generator = node.generators[level]
    for count, value in enumerate(iterate(machine, evaluate(machine, generator.iter), generator.iter)):
        if len(found) >= MOST_ELEMENTS or (count and not machine.spend()):
            break
        calling.bind(machine, generator.target, value)
        tests = [evaluate(machine, one) for one in generator.ifs]
        if any(sure(test) and not test for test in tests):
            continue
        _generate(machine, node, level + 1, found)


def iterate(machine: Machine, value: Any, node: ast.AST | None = None) -> list[Any]:
    """Return the elements of a value."""
    if type(value) is list:
        return value[:MOST_ELEMENTS]
    if type(value) is Thing:
        return [attributes.element(machine, value, node)]
    found: list[Any] = []
    for one in options(value):
        match one:
            case list() | tuple():
                found.extend(one)
            case str() if not sure(one):
                found.append(UNKNOWN)
            case str() | bytes() | set() | dict():
                found.extend(one)
            case Contents():
                found.append(one)
            case File():
                found.append(attributes.contents(machine, one))
            case Thing():
                found.append(attributes.element(machine, one, node))
            case _:
                found.append(NOTHING)
    return found[:MOST_ELEMENTS]


def _walrus(machine: Machine, node: ast.NamedExpr) -> Any:
    value = evaluate(machine, node.value)
    calling.bind(machine, node.target, value)
    return value


def _inner(machine: Machine, node: Any) -> Any:
    return evaluate(machine, node.value)


def _yield(machine: Machine, node: ast.Yield | ast.YieldFrom) -> Any:
    value = evaluate(machine, node.value)
    machine.returned.append([value] if type(node) is ast.Yield else value)
    return NOTHING


def _call(machine: Machine, node: ast.Call) -> Any:
    function = evaluate(machine, node.func)
    arguments: list[Any] = []
    for one in node.args:
        kind = type(one)
        if kind is _CONSTANT:
            value = one.value  # type: ignore[attr-defined]
            arguments.append(value if type(value) is not str or UNKNOWN_NAME not in value else value.replace(UNKNOWN_NAME, UNKNOWN))
        elif kind is _STARRED:
            inner = evaluate(machine, one.value)  # type: ignore[attr-defined]
            arguments.extend(inner if type(inner) in (list, tuple) else [inner])
        else:
            value = evaluate(machine, one)
            arguments.append(value)
            if kind is _NAME and type(value) is str:
                machine.findings.fold(one, value)
    keywords: dict[str, Any] = {}
    for word in node.keywords:
        value = evaluate(machine, word.value)
        if word.arg is not None:
            keywords[word.arg] = value
        elif type(value) is dict:
            keywords.update({key: held for key, held in value.items() if type(key) is str})
    found = (calling.thing if type(function) is Thing else calling.call)(machine, function, arguments, keywords, node)
    if type(found) in _WRITTEN:
        machine.findings.fold(node, found)
    return found


_EXPRESSIONS: dict[type, Callable[[Machine, Any], Any]] = {
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.JoinedStr: _joined,
    ast.List: _list,
    ast.Set: _list,
    ast.Tuple: _tuple,
    ast.Dict: _dict,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Subscript: _subscript,
    ast.Lambda: _lambda,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.NamedExpr: _walrus,
    ast.Await: _inner,
    ast.Starred: _inner,
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
    ast.Call: _call,
    ast.FormattedValue: _inner,
}
