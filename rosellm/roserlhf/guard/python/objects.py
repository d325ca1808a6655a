"""Objects that answer a call from what an earlier one left in them -> `code` acts, `keeps results`."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from rosellm.roserlhf.guard.python.findings import Findings
from rosellm.roserlhf.guard.python.tree import nodes_of


def program(findings: Findings, body: Sequence[ast.stmt], makes: frozenset[str]) -> None:
    """Objects that are called and answer from what an earlier call left in them."""
    for owner in (one for one in body if isinstance(one, ast.ClassDef)):
        names = {owner.name} | {
            target.id
            for one in body
            if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call) and _last(one.value.func) == owner.name
            for target in one.targets
            if isinstance(target, ast.Name)
        }
        for method in (one for one in owner.body if isinstance(one, ast.FunctionDef) and one.name != "__init__"):
            kept = _left_in(method, makes)
            for name in sorted(names) if kept else ():
                findings.add("code", "keeps results", f"{name}.{kept}", method, name=name, by="name")


def _left_in(method: ast.FunctionDef, makes: frozenset[str]) -> str:
    """Return the attribute of itself that a method fills under a condition, or answers from early; room that is made is none."""
    own = method.args.args[0].arg if method.args.args else ""
    stored, answered = set(), set()
    for one in nodes_of(method):
        if not isinstance(one, ast.If):
            continue
        for inner in (part for statement in (*one.body, *one.orelse) for part in nodes_of(statement)):
            if isinstance(inner, ast.Return) and inner.value is not None:
                answered.add(_attribute(inner.value, own))
    early = answered - {""}
    for one in nodes_of(method):
        if isinstance(one, ast.Assign) and not (isinstance(one.value, ast.Call) and _last(one.value.func) in makes):
            stored |= {_attribute(target, own) for target in one.targets}
        elif isinstance(one, ast.Return) and one.value is not None and isinstance(one.value, ast.Subscript):
            answered.add(_attribute(one.value, own))
    conditional = any(
        isinstance(one, ast.If) and own in {name.id for name in nodes_of(one.test) if isinstance(name, ast.Name)}
        for one in method.body
    )
    return next(iter(sorted((stored & (early | (answered if conditional else set()))) - {""})), "")


def _attribute(node: ast.expr, own: str) -> str:
    """Return the attribute of an object that an expression is, or is a part of."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            node = node.func.value
        else:
            break
    return node.attr if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == own else ""


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
