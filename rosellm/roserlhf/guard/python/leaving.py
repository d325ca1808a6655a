"""Exits that the caller takes as the outcome."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from rosellm.roserlhf.guard.python.apis import Api
from rosellm.roserlhf.guard.python.fold import NOTHING
from rosellm.roserlhf.guard.python.machine import Machine
from rosellm.roserlhf.guard.python.value import sure

if TYPE_CHECKING:
    from rosellm.roserlhf.guard.python.calling import Call


def status(value: Any) -> str:
    """Return the exit status that a value gives, `?` if it is computed."""
    if value is None or value is False or (type(value) is int and value == 0):
        return "0"
    if value is True:
        return "1"
    if type(value) is int:
        return str(value)
    return "1" if type(value) is str and sure(value) else "?"


def call(call: Call, api: Api) -> Any:
    """Add an exit."""
    place = api.places[0]
    value = call.argument(place.position, place.keyword)
    add(call.machine, "1" if call.name == "os.abort" else status(value), call.name, call.node)
    return NOTHING


def raised(machine: Machine, node: ast.Raise) -> None:
    """Add the exit of `raise SystemExit`."""
    exception = node.exc
    name = exception.func if isinstance(exception, ast.Call) else exception
    words = getattr(name, "id", getattr(name, "attr", ""))
    if words in ("SystemExit", "KeyboardInterrupt", "Exit"):
        value = (
            ast.literal_eval(exception.args[0])
            if isinstance(exception, ast.Call) and exception.args and type(exception.args[0]) is ast.Constant
            else None
        )
        computed = isinstance(exception, ast.Call) and exception.args and type(exception.args[0]) is not ast.Constant
        add(machine, "?" if computed else status(value), f"raise {words}", node)
    elif words in ("SkipTest", "Skipped"):
        machine.findings.add("code", "skips test", f"raise {words}", node)


def add(machine: Machine, code: str, how: str, node: ast.AST | None) -> None:
    """Add an exit with that status."""
    where = machine.findings.where
    place = "at import" if where == "import" else where
    machine.findings.add("exit", code, f"{how}, {place}", node, function=how)


def part_of(test: ast.expr, where: str) -> str:
    """Name the part of the program that a condition guards: `main`, or a child after `fork`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and _is_fork(test.operand):
        return "child"
    if isinstance(test, ast.Compare) and len(test.comparators) == 1 and isinstance(test.ops[0], ast.Eq):
        names = {one.id for one in (test.left, test.comparators[0]) if isinstance(one, ast.Name)}
        values = [one.value for one in (test.left, test.comparators[0]) if isinstance(one, ast.Constant)]
        if "__name__" in names and "__main__" in values:
            return "main"
        if values == [0] and _is_fork(test.left):
            return "child"
    return where


def _is_fork(node: ast.expr) -> bool:
    if isinstance(node, ast.NamedExpr):
        node = node.value
    if isinstance(node, ast.Call):
        return getattr(node.func, "attr", getattr(node.func, "id", "")) in ("fork", "forkpty")
    return isinstance(node, ast.Name) and node.id in ("pid", "child", "child_pid", "cpid")
