"""Statements: every one is read at least once, loops over known values round by round while there is fuel."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from rosellm.roserlhf.guard.python import (
    assigning,
    calling,
    definitions,
    detection,
    dynamic,
    expressions,
    fold,
    leaving,
    names,
    shortcuts,
)
from rosellm.roserlhf.guard.python.fold import NOTHING
from rosellm.roserlhf.guard.python.machine import Machine
from rosellm.roserlhf.guard.python.value import Contents, Klass, Scope, Thing, sources, spread, sure, text

DEEPEST_BLOCK = 60


def block(machine: Machine, body: Sequence[ast.stmt]) -> None:
    """Read statements in order; after one that leaves, the rest is read as what would not run."""
    depth = machine.depth
    for statement in body:
        function = _STATEMENTS.get(type(statement))
        if function is None:
            pass
        elif depth > DEEPEST_BLOCK:
            machine.findings.add("opaque", "nested too deep", type(statement).__name__, statement)
        else:
            machine.depth = depth + 1
            try:
                function(machine, statement)
            except RecursionError:
                machine.findings.add("opaque", "nested too deep", type(statement).__name__, statement)
            except fold.ERRORS as error:  # a value that the reader did not foresee: the statement counts as not read, others do
                machine.findings.add("opaque", "could not be read", type(error).__name__, statement)
            finally:
                machine.depth = depth
        if machine.leaving:
            rest = body[body.index(statement) + 1 :]
            if rest and id(rest[0]) not in machine.visited:
                machine.visited.add(id(rest[0]))
                unlikely(machine, rest)
            return


def unlikely(machine: Machine, body: Sequence[ast.stmt]) -> None:
    """Read statements that would not run as far as is known: what they do counts, the values that they make do not."""
    before, leaving_before, machine.dead = machine.dead, machine.leaving, True
    machine.leaving = ""
    machine.start_branch()
    for statement in body:
        block(machine, (statement,))
        machine.leaving = ""
    machine.end_branch(keep=False)
    machine.dead, machine.leaving = before, leaving_before


_HANDED_ON = frozenset(("main", "child", "atexit", "signal", "background", "hook"))
"""Parts of a program that what they call belongs to."""
_MAIN = frozenset(("main", "_main", "cli", "run_cli"))


def part(where: str, name: str) -> str:
    """Name the part of the program that a function is which is called from a part."""
    if name[:4] == "test":
        return f"test {name}"
    if where[:5] == "test " or where in _HANDED_ON:
        return where
    return "main" if name in _MAIN else f"function {name}"


def _expression(machine: Machine, node: ast.Expr) -> None:
    expressions.evaluate(machine, node.value)


def _assign(machine: Machine, node: ast.Assign) -> None:
    value = expressions.evaluate(machine, node.value)
    for target in node.targets:
        calling.bind(machine, target, value)
        if type(target) is ast.Name and target.id in definitions.READ_BY_RUNNERS:
            definitions.module_name(machine, target.id, value, node)


def _annotated(machine: Machine, node: ast.AnnAssign) -> None:
    if node.value is not None:
        calling.bind(machine, node.target, expressions.evaluate(machine, node.value))


def _augmented(machine: Machine, node: ast.AugAssign) -> None:
    now = expressions.evaluate(machine, node.target)
    value = expressions.evaluate(machine, node.value)
    found = spread(lambda a, b: fold.binary(type(node.op), a, b), now, value)
    if found is NOTHING and (read := sources(now, value)):
        found = Contents(read)
    if type(now) is Thing and now.name == "os.environ" and type(value) is dict:
        for name, held in value.items():
            assigning.set_variable(machine, text(name), held, node)
        return
    if type(now) is list and type(found) is list and not machine.dead:
        now[:] = found
        found = now
    calling.bind(machine, node.target, found)


def _delete(machine: Machine, node: ast.Delete) -> None:
    for target in node.targets:
        assigning.deleted(machine, target)


def _import(machine: Machine, node: ast.Import) -> None:
    for alias in node.names:
        module = dynamic.imported(machine, alias.name, "", node)
        if alias.asname:
            machine.assign(alias.asname, module)
        else:
            root = alias.name.partition(".")[0]
            machine.modules.add(root)
            machine.assign(root, Thing(names.canonical(root)))


def _import_from(machine: Machine, node: ast.ImportFrom) -> None:
    module = "." * node.level + (node.module or "")
    plain = node.module or ""
    dynamic.imported(machine, module if node.level else plain, "", node)
    for alias in node.names:
        if alias.name == "*":
            machine.stars.append(plain)
            continue
        full = f"{plain}.{alias.name}" if plain else alias.name
        if not names.library(plain):
            machine.findings.add(
                "import", f"{module}.{alias.name}" if not module.endswith(".") else module + alias.name, "from", node
            )
        machine.assign(alias.asname or alias.name, _constant(names.canonical(full)))


def _constant(name: str) -> Any:
    return fold.CONSTANTS.get(name, Thing(name))


def _if(machine: Machine, node: ast.If) -> None:
    since = len(machine.guards)
    test = expressions.evaluate(machine, node.test)
    detection.condition(machine, test, since, node.test, node.body[0])
    where = machine.findings.where
    inside = leaving.part_of(node.test, where)
    if sure(test):
        taken, other = (node.body, node.orelse) if test else (node.orelse, node.body)
        if other and id(other[0]) not in machine.visited:
            machine.visited.add(id(other[0]))
            machine.findings.where = inside if other is node.body else where
            unlikely(machine, other)
        machine.findings.where = inside if taken is node.body else where
        block(machine, taken)
        machine.findings.where = where
        return
    machine.start_branch()
    machine.findings.where = inside
    block(machine, node.body)
    machine.findings.where = where
    left, machine.leaving = machine.leaving, ""
    if not node.orelse:
        changes = machine.end_branch(keep=False)
        if not left:
            machine.merge(changes)
        return
    changes = machine.end_branch(keep=False)
    block(machine, node.orelse)
    if not left:
        machine.merge(changes)
    machine.leaving = left if left and machine.leaving else ""


def _for(machine: Machine, node: ast.For | ast.AsyncFor) -> None:
    values = expressions.iterate(machine, expressions.evaluate(machine, node.iter), node.iter)
    if not values and id(node.body[0]) not in machine.visited:
        machine.visited.add(id(node.body[0]))
        unlikely(machine, node.body)
    for count, value in enumerate(values):
        if count and not machine.spend():
            break
        calling.bind(machine, node.target, value)
        block(machine, node.body)
        left = machine.leaving
        machine.leaving = ""
        if left == "return":
            machine.leaving = left if count else ""
            break
        if left == "break":
            break
    block(machine, node.orelse)


def _while(machine: Machine, node: ast.While) -> None:
    for count in range(2000):
        since = len(machine.guards)
        test = expressions.evaluate(machine, node.test)
        if count == 0:
            detection.condition(machine, test, since, node.test, node.body[0])
        if sure(test) and not test:
            if not count and id(node.body[0]) not in machine.visited:
                machine.visited.add(id(node.body[0]))
                unlikely(machine, node.body)
            break
        block(machine, node.body)
        left, machine.leaving = machine.leaving, ""
        if left in ("return", "break") or (not sure(test) and count) or not machine.spend():
            break
        if node.test is not None and type(node.test) is ast.Constant and count:
            break
    block(machine, node.orelse)


def _with(machine: Machine, node: ast.With | ast.AsyncWith) -> None:
    for item in node.items:
        value = expressions.evaluate(machine, item.context_expr)
        if item.optional_vars is not None:
            calling.bind(machine, item.optional_vars, value)
    block(machine, node.body)


def _try(machine: Machine, node: ast.Try) -> None:
    block(machine, node.body)
    left, machine.leaving = machine.leaving, ""
    shortcuts.swallowed(machine, node)
    for handler in node.handlers:
        if handler.type is not None:
            expressions.evaluate(machine, handler.type)
        machine.start_branch()
        if handler.name:
            machine.assign(handler.name, Thing("exception"))
        block(machine, handler.body)
        machine.leaving = ""
        machine.merge(machine.end_branch(keep=False))
    if not left:
        block(machine, node.orelse)
    block(machine, node.finalbody)
    machine.leaving = machine.leaving or (left if not node.handlers else "")


def _function(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    made = expressions.closure(machine, node)
    value: Any = made
    for decorator in reversed(node.decorator_list):
        function = expressions.evaluate(machine, decorator)
        definitions.decorated(machine, node, function, decorator)
        if type(function) is Thing and function.name in ("atexit.register", "atexit.register()"):
            calling.call(machine, function, [made], {}, decorator)
    definitions.function(machine, node, made)
    machine.assign(node.name, value)


def _class(machine: Machine, node: ast.ClassDef) -> None:
    bases = [expressions.evaluate(machine, one) for one in node.bases]
    for word in node.keywords:
        expressions.evaluate(machine, word.value)
    for decorator in node.decorator_list:
        expressions.evaluate(machine, decorator)
    outer = machine.scope
    machine.scope = Scope({}, outer)
    try:
        block(machine, node.body)
        held = machine.scope.names
    finally:
        machine.scope = outer
    made = Klass(node.name, held, bases)
    for value in held.values():
        if type(value).__name__ == "Closure":
            value.owner = made
    definitions.klass(machine, node, made)
    machine.assign(node.name, made)


def _return(machine: Machine, node: ast.Return) -> None:
    machine.returned.append(expressions.evaluate(machine, node.value) if node.value is not None else None)
    machine.leaving = "return"


def _raise(machine: Machine, node: ast.Raise) -> None:
    if node.exc is not None:
        expressions.evaluate(machine, node.exc)
        leaving.raised(machine, node)
    machine.leaving = "return"


def _break(machine: Machine, node: ast.stmt) -> None:
    machine.leaving = "break" if type(node) is ast.Break else "continue"


def _global(machine: Machine, node: ast.Global | ast.Nonlocal) -> None:
    machine.scope.shared.update(node.names)


def _assert(machine: Machine, node: ast.Assert) -> None:
    expressions.evaluate(machine, node.test)
    shortcuts.assertion(machine, node)


def _match(machine: Machine, node: ast.Match) -> None:
    expressions.evaluate(machine, node.subject)
    for case in node.cases:
        machine.start_branch()
        block(machine, case.body)
        machine.leaving = ""
        machine.merge(machine.end_branch(keep=False))


_STATEMENTS: dict[type, Callable[[Machine, Any], None]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Delete: _delete,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Break: _break,
    ast.Continue: _break,
    ast.Global: _global,
    ast.Nonlocal: _global,
    ast.Assert: _assert,
    ast.Match: _match,
}
