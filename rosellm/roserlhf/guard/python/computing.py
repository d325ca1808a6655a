"""Expressions that only compute, applied to each element of a long sequence: what payloads are decoded by."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rosellm.roserlhf.guard.python.machine import Machine
from rosellm.roserlhf.guard.python.tree import children
from rosellm.roserlhf.guard.python.value import names_in

MOST_NODES = 60
"""Nodes of an expression that counts as one that only computes."""
CHEAPER = 8
"""Expressions inside one that only computes which cost as much fuel as one elsewhere."""
_CALLED = names_in("chr ord int str len bytes hex abs min max bool")
_KINDS = {
    ast.Name: 2,
    ast.Constant: 1,
    ast.BinOp: 2,
    ast.UnaryOp: 2,
    ast.BoolOp: 2,
    ast.Compare: 1,
    ast.IfExp: 1,
    ast.Subscript: 2,
    ast.Slice: 1,
    ast.Tuple: 2,
    ast.Call: 1,
}
"""What may stand in such an expression: how many nodes it is with its operator or context; a comparison has some of its own."""


def only(*nodes: ast.expr) -> bool:
    """Tell whether expressions do nothing but compute from constants and names."""
    count = 0
    todo: list[ast.AST] = list(nodes)
    while todo:
        one = todo.pop()
        size = _KINDS.get(type(one), 0)
        if not size:
            return False
        if type(one) is ast.Call:
            if type(one.func) is not ast.Name or one.func.id not in _CALLED or one.keywords:
                return False
        elif type(one) is ast.Compare:
            size += len(one.ops)
        count += size
        if count >= MOST_NODES:
            return False
        todo += children(one)
    return True


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
