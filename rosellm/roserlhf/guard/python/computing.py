"""Expressions that only compute, applied to each element of a long sequence: what payloads are decoded by."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rosellm.roserlhf.guard.python.machine import Machine
from rosellm.roserlhf.guard.python.value import names_in

MOST_NODES = 60
"""Nodes of an expression that counts as one that only computes."""
CHEAPER = 8
"""Expressions inside one that only computes which cost as much fuel as one elsewhere."""
_CALLED = names_in("chr ord int str len bytes hex abs min max bool")
_KINDS = (
    ast.Name,
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.Subscript,
    ast.Slice,
    ast.Tuple,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.Load,
)


def only(*nodes: ast.expr) -> bool:
    """Tell whether expressions do nothing but compute from constants and names."""
    todo: list[ast.AST] = list(nodes)
    for _ in range(MOST_NODES):
        if not todo:
            return True
        one = todo.pop()
        if isinstance(one, ast.Call):
            if not isinstance(one.func, ast.Name) or one.func.id not in _CALLED or one.keywords:
                return False
        elif not isinstance(one, _KINDS):
            return False
        todo.extend(ast.iter_child_nodes(one))
    return False


def each(machine: Machine, function: Callable[[Any], Any], values: Iterable[Any]) -> Iterator[Any]:
    """Yield what a function that only computes gives for each value, as long as there is fuel; for equal ones it is asked once."""
    known: dict[tuple[type, Any], Any] = {}
    for count, value in enumerate(values):
        key = (type(value), value) if type(value) in (int, str) else None
        if key is None or key not in known:
            if count and not machine.spend():
                return
            before = machine.fuel
            found = function(value)
            machine.fuel = before - (before - machine.fuel) // CHEAPER
            if key is not None:
                known[key] = found
        else:
            found = known[key]
        yield found
