"""Functions and classes as they are defined: special methods, hooks of test runners, shortcuts."""

from __future__ import annotations

import ast
from typing import Any

from rosellm.roserlhf.guard.python import shortcuts
from rosellm.roserlhf.guard.python.findings import short
from rosellm.roserlhf.guard.python.machine import Machine
from rosellm.roserlhf.guard.python.tree import alike, children, nodes_of
from rosellm.roserlhf.guard.python.value import Choice, Closure, Instance, Klass, Partial, Thing, known, names_in

COMPARING = names_in(
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __bool__ __len__ __contains__ __class__ __instancecheck__ "
    "__subclasscheck__ __array_ufunc__ __array_function__ __torch_function__ __float__ __int__ __index__ __abs__ "
    "__sub__ __rsub__ __round__ __iter__ __getattr__ __getattribute__ __nonzero__ __cmp__ __call__ __repr__ __str__ "
    "__array__ __array_priority__ __isclose__ __complex__"
)
ANSWERS = names_in(
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __bool__ __contains__ __instancecheck__ __subclasscheck__ __nonzero__"
)
READ_BY_RUNNERS = names_in("pytest_plugins collect_ignore collect_ignore_glob pytestmark __test__ __unittest")
"""Names of a module that test runners read."""
MODULE_HOOKS = names_in("load_tests setUpModule tearDownModule setup_module teardown_module __getattr__ __dir__")


def always(node: ast.AST) -> str | None:
    """Return what a function returns whatever it is given, in words; None if it depends on something."""
    if isinstance(node, ast.Lambda):
        return _same(node.body)
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    found = set()
    body = (
        node.body[1:]
        if node.body and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
        else node.body
    )
    for one in _own_nodes(body):
        if isinstance(one, ast.Return):
            found.add(_same(one.value))
        elif isinstance(one, (ast.Yield, ast.YieldFrom, ast.Raise)):
            return None
    if len(found) == 1:
        return found.pop()
    return "nothing" if not found else None


def _own_nodes(body: list[ast.stmt]) -> list[ast.AST]:
    """Return the nodes of a body without those of functions inside it."""
    found: list[ast.AST] = []
    todo: list[ast.AST] = list(body)
    while todo:
        one = todo.pop()
        found.append(one)
        if not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo += children(one)
    return found


def _same(value: ast.expr | None) -> str | None:
    if value is None:
        return "None"
    if isinstance(value, ast.Constant):
        return short(repr(value.value), 40).lower() if isinstance(value.value, bool) else short(repr(value.value), 40)
    if isinstance(value, ast.UnaryOp) and isinstance(value.operand, ast.Constant):
        return short(ast.unparse(value), 40)
    if (
        isinstance(value, ast.BoolOp)
        and isinstance(value.op, ast.Or)
        and any(isinstance(one, ast.Constant) and one.value is True for one in value.values)
    ):
        return "true"
    if isinstance(value, ast.Compare) and len(value.comparators) == 1 and alike(value.left, value.comparators[0]):
        return "true" if isinstance(value.ops[0], (ast.Eq, ast.Is, ast.LtE, ast.GtE)) else "false"
    return None


def _asks_kind_alone(node: ast.AST, owner: str) -> bool:
    """Tell whether a comparison asks for nothing but the other's type, and not for its own: all values of it are equal then."""
    body = node.body if isinstance(node, ast.Lambda) else None
    if isinstance(node, ast.FunctionDef):
        found = [one for one in _own_nodes(node.body) if isinstance(one, ast.Return)]
        body = found[0].value if len(found) == 1 and not any(isinstance(one, ast.If) for one in node.body) else None
    return isinstance(body, ast.expr) and _is_of_kind(body, owner)


def _is_of_kind(test: ast.expr, owner: str) -> bool:
    if isinstance(test, ast.BoolOp):
        return all(_is_of_kind(one, owner) for one in test.values)
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and len(test.args) > 0:
        if test.func.id in ("hasattr", "callable"):
            return True
        words = {getattr(one, "id", getattr(one, "attr", "")) for one in nodes_of(test.args[-1])}
        return test.func.id == "isinstance" and len(test.args) == 2 and not words & {owner, "__class__", "type", "self", "cls"}
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        other = test.comparators[0]
        if isinstance(test.ops[0], ast.IsNot):
            return isinstance(other, ast.Constant) and other.value is None
        asked = isinstance(test.left, ast.Call) and getattr(test.left.func, "id", "") == "type"
        return asked and isinstance(other, ast.Name) and other.id != owner
    return False


def nature(machine: Machine, value: Any) -> dict[str, str]:
    """Return traits of what replaces something: `always` with what it returns, `calls` if it goes on to the original."""
    traits: dict[str, str] = {}
    if type(value) is Partial:
        value = value.function
    if type(value) is Closure:
        traits["value"] = "function"
        same = always(value.node)
        if same is not None:
            traits["always"] = same
        for one in nodes_of(value.node):
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in machine.saved:
                traits["calls"] = machine.saved[one.func.id]
                break
    elif type(value) in (Klass, Instance):
        traits["value"] = "class" if type(value) is Klass else "object"
    elif type(value) is Thing:
        traits["value"] = "name"
    elif known(value):
        traits["value"] = "constant"
    return traits


_VALUES = names_in(
    "int float str bytes list tuple dict set frozenset complex Decimal decimal.Decimal fractions.Fraction datetime.timedelta"
)
_LOOSENS = names_in(
    "abs isclose round lower upper casefold strip split startswith endswith issubset issuperset any sorted search match "
    "fullmatch int set"
)


def _is_loose(node: ast.AST) -> bool:
    """Tell whether a comparison of values holds for near ones, too, and asks for no type of its own."""
    found = nodes_of(node)
    called = {getattr(one.func, "attr", getattr(one.func, "id", "")) for one in found if isinstance(one, ast.Call)}
    signs = [op for one in found if isinstance(one, ast.Compare) for op in one.ops]
    ordered = any(isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In)) for op in signs)
    return bool(called & _LOOSENS) and (ordered or not {"abs", "int"} & called)


def special(machine: Machine, owner: str, name: str, value: Any, node: ast.AST | None, **traits: str) -> None:
    """Add the definition of a special method, with what it always answers if it does."""
    if name not in COMPARING:
        return
    if type(value) is Choice:
        value = value.options[0]
    if type(value) is Closure:
        same = always(value.node) or ("true" if name in ANSWERS and _asks_kind_alone(value.node, owner) else None)
        detail = f"always {same}" if same is not None else "compares" if name in ANSWERS else "computes"
        if same is None and name in ("__eq__", "__ne__") and traits.get("bases", "") in _VALUES and _is_loose(value.node):
            detail = f"is looser than that of {traits['bases']}"
    elif value is None:
        detail = "None"
    elif type(value) is Thing and value.name:
        detail = f"is {value.name}"
    else:
        detail = f"is {short(str(value), 40)}" if known(value) else "computes"
    if name in (
        "__repr__",
        "__str__",
        "__iter__",
        "__len__",
        "__call__",
        "__int__",
        "__float__",
        "__index__",
    ) and not detail.startswith("always"):
        return
    machine.findings.add("define", name, detail, node, owner=owner, **traits)


def klass(machine: Machine, node: ast.ClassDef, made: Klass) -> None:
    """Add the special methods of a class."""
    _unpickled(machine, node, made)
    bases = " ".join(_name(one) for one in made.bases)
    traits = {"bases": bases} if bases else {}
    for name, value in made.names.items():
        if name in COMPARING:
            special(machine, made.name, name, value, getattr(value, "node", node), **traits)


def _unpickled(machine: Machine, node: ast.ClassDef, made: Klass) -> None:
    """Read what runs when an object of the class is loaded: the function and arguments that `__reduce__` gives."""
    from rosellm.roserlhf.guard.python import calling

    for name in ("__reduce__", "__reduce_ex__"):
        value = made.names.get(name)
        if type(value) is Closure and id(value.node) not in machine.visited:
            with machine.inside("hook"):
                given = calling.run(machine, value, [Instance(made, {})], {})
                if type(given) is tuple and len(given) > 1 and type(given[1]) is tuple:
                    calling.call(machine, given[0], list(given[1]), {}, node)


def _name(value: Any) -> str:
    return value.name if type(value) in (Thing, Klass) and value.name else "?"


def function(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, made: Closure) -> None:
    """Add hooks of test runners, and shortcuts that a function takes."""
    if node.name[:7] == "pytest_" or (node.name in MODULE_HOOKS and machine.scope.parent is None):
        same = always(node)
        machine.findings.add("define", node.name, f"always {same}" if same is not None else "hook", node, hook="yes")
    shortcuts.function(machine, node)


def module_name(machine: Machine, name: str, value: Any, node: ast.AST) -> None:
    """Add a name of a module that test runners read."""
    machine.findings.add("define", name, short(repr(value), 80) if known(value) else "?", node, hook="yes")


def decorated(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, function: Any, decorator: ast.expr) -> None:
    """Add what decorators make of a function: fixtures for all tests, skips, hooks."""
    words = machine.findings.source(decorator, 120)
    if "fixture" in words and "autouse" in words:
        machine.findings.add("define", node.name, "autouse fixture", decorator, hook="yes")
    elif "hookimpl" in words or "hookwrapper" in words:
        machine.findings.add("define", node.name, short(words, 60), decorator, hook="yes")
    elif "mark.skip" in words or "mark.xfail" in words or "expectedFailure" in words:
        machine.findings.add("code", "skips test", words, decorator)
