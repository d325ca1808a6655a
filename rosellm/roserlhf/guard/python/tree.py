"""Nodes of a syntax tree in the order of `ast.walk`, several times as fast: without its generators, operators and contexts."""

from __future__ import annotations

import ast


def nodes_of(node: ast.AST) -> list[ast.AST]:
    """Return a node and all below it, level by level; operators, contexts and ignored types hold nothing and are left out.

    Example:
        >>> [type(one).__name__ for one in nodes_of(ast.parse("a + 1").body[0])]
        ['Expr', 'BinOp', 'Name', 'Constant']
    """
    found = [node]
    for one in found:  # grows meanwhile
        kind = type(one)
        names = _inner.get(kind)
        if names is None:
            names = _inner[kind] = (
                () if kind is ast.Constant else tuple(field for field in kind._fields if field not in _HOLDS_NONE)
            )
        for name in names:
            value = getattr(one, name, None)
            if isinstance(value, list):
                found += [inner for inner in value if isinstance(inner, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


_HOLDS_NONE = frozenset(("ctx", "op", "ops", "type_comment", "type_ignores", "id", "attr", "arg", "lineno", "kind", "is_async"))
_inner: dict[type[ast.AST], tuple[str, ...]] = {}
"""Fields of a kind of node that may hold nodes."""
