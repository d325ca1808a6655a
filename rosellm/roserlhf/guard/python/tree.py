"""Nodes of a syntax tree in the order of `ast.walk`, several times as fast: without its generators, operators and contexts."""

from __future__ import annotations

import ast
from typing import Any

from rosellm.roserlhf.guard.python.value import names_in


def nodes_of(node: ast.AST) -> list[ast.AST]:
    """Return a node and all below it, level by level; operators, contexts and ignored types hold nothing and are left out.

    Example:
        >>> [type(one).__name__ for one in nodes_of(ast.parse("a + 1").body[0])]
        ['Expr', 'BinOp', 'Name', 'Constant']
    """
    found = [node]
    for one in found:  # grows meanwhile
        for name in _FIELDS[type(one)]:
            value = getattr(one, name, None)
            if not value:
                continue
            if type(value) is not list:
                found.append(value)
            else:
                found += value if name not in _MIXED else filter(None, value)
    return found


def children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes right below a node; operators, contexts and ignored types are left out.

    Example:
        >>> [type(one).__name__ for one in children(ast.parse("f(a + 1, b)").body[0].value)]
        ['Name', 'BinOp', 'Name']
    """
    found: list[ast.AST] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name, None)
        if not value:
            continue
        if type(value) is not list:
            found.append(value)
        else:
            found += value if name not in _MIXED else filter(None, value)
    return found


def alike(first: ast.AST, second: ast.AST) -> bool:
    """Tell whether two trees are written alike: of the same nodes, names and constants all through.

    Example:
        >>> left, *others = ast.parse("f(a, 1); f( a,1 ); f(a, 1.0); f(a); f(b, 1)").body
        >>> [alike(left, one) for one in others]
        [True, False, False, False]
    """
    todo: list[tuple[Any, Any]] = [(first, second)]
    while todo:
        one, other = todo.pop()
        kind = type(one)
        if kind is not type(other):
            return False
        if kind is list:
            if len(one) != len(other):
                return False
            todo.extend(zip(one, other, strict=True))
        elif isinstance(one, ast.AST):
            todo.extend((getattr(one, name, None), getattr(other, name, None)) for name in one._fields)
        elif one is not other and repr(one) != repr(other):
            return False
    return True


class Trees:
    """The nodes of trees that several readers go through, listed once for all of them."""

    def __init__(self) -> None:
        self._nodes: dict[ast.AST, list[ast.AST]] = {}

    def of(self, node: ast.AST) -> list[ast.AST]:
        """Return `nodes_of` a node; the list is not to be changed."""
        found = self._nodes.get(node)
        if found is None:
            found = self._nodes[node] = nodes_of(node)
        return found


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """Fields of each kind of node that hold nodes, lists of them, or nothing."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        without = _HOLDS_NONE if kind.__name__ == "TypeAlias" else _HOLDS_WORDS
        names = () if kind in _WORDS_ALONE else tuple(field for field in kind._fields if field not in without)
        self[kind] = names
        return names


_HOLDS_NONE = names_in(
    "ctx op ops type_comment type_ignores id attr arg lineno kind is_async module level asname conversion simple rest kwd_attrs "
    "tag str"
)
_HOLDS_WORDS = _HOLDS_NONE | {"name"}
_WORDS_ALONE = frozenset((ast.Constant, ast.MatchSingleton, ast.Global, ast.Nonlocal))
_MIXED = frozenset(("keys", "kw_defaults"))
"""Fields whose lists hold None, too."""
_FIELDS = _Fields()
