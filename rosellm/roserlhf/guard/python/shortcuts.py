"""Code that is written -> traits of shortcuts: answers by table, special cases, failures that are swallowed."""

from __future__ import annotations

import ast
import bisect
import functools
import operator
from collections.abc import Iterator, Sequence

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.python.findings import short
from rosellm.roserlhf.guard.python.machine import Machine
from rosellm.roserlhf.guard.python.tree import alike, nodes_of
from rosellm.roserlhf.guard.python.value import known, names_in

_ASSERTING = ("assert", "fail", "expect", "verify", "check", "raises")
_KEYS_OF_MEMORY = names_in("data_ptr storage untyped_storage id _cdata __array_interface__")
_OWNERS = frozenset(("self", "cls"))
MOST_BODY = 400
"""Statements of a function that are looked at."""


def function(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, is_respelled: bool = False) -> None:
    """Add the shortcuts that a function takes.

    `code` acts, with `name` the function's and `parameters` how many it has:

    | target | detail | traits |
    |---|---|---|
    | returns literals | what it returns | `values`: how many different ones; `uses`: whether any parameter is used |
    | special cases | the first | `cases`, `then`: `literal`, `raises`, `computes` or `calls` what follows them; `recursive` |
    | table of outputs | the first entries | `entries`, `then`; `key`: how it is looked up |
    | counts its calls | the condition | |
    | answers by address | the key | |
    | empty test | | |
    """
    body = node.body[:MOST_BODY]
    if type(body[0]) is ast.Expr and _is_text(body[0]):
        body = node.body[1 : MOST_BODY + 1]
    if node.name[:4] == "test":
        if all(isinstance(one, (ast.Pass, ast.Return)) or _is_text(one) for one in body):
            _add(machine, "empty test", "", node, _parameters(node.args))
        return
    if node.name[:2] == "__" or (len(body) == 1 and type(body[0]) is ast.Return and type(body[0].value) in _WORKED_OUT):
        return
    parameters = _parameters(node.args)
    if not parameters:
        return
    kinds = set(map(type, body))
    _literals(machine, node, body, parameters)
    if not kinds.isdisjoint(_BRANCHING):
        _cases(machine, node, body, parameters)
    if not kinds.isdisjoint(_GIVING):
        _table(machine, node, body, parameters)
    if not kinds.isdisjoint(_KEYING):
        _counts(machine, node, body, is_respelled or _speaks_of_memory(machine.findings.code))


def _parameters(given: ast.arguments) -> set[str]:
    """Return the names of a function's inputs, without that of the object whose method it is."""
    found = set(map(_NAME_OF, given.args))
    if given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg:
        more = (*given.posonlyargs, *given.kwonlyargs, given.vararg, given.kwarg)
        found.update([one.arg for one in more if one is not None])
    return found - _OWNERS


_WORKED_OUT = frozenset((ast.Name, ast.Attribute, ast.BinOp, ast.Compare, ast.JoinedStr, ast.ListComp))
"""Expressions that are no literals and look nothing up; what returns one and does nothing else takes no shortcut."""
_NAME_OF = operator.attrgetter("arg")
_BRANCHING: frozenset[type[ast.stmt]] = frozenset((ast.If, ast.Match))
"""Statements that `_cases` looks at; the next are those of `_counts`."""
_KEYING: frozenset[type[ast.stmt]] = frozenset((ast.If, ast.Assign, ast.AugAssign))


@functools.lru_cache(16)
def _speaks_of_memory(code: str) -> bool:
    return any(word in code for word in _KEYS_OF_MEMORY)


_HOLDING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.Try, ast.With)
"""Statements in whose bodies functions and failures are looked for."""


def again(machine: Machine, body: Sequence[ast.stmt]) -> None:
    """Add the shortcuts that a disguise hid: expressions that are the same as literals, or as attributes, become these."""
    disguised = [(node, value) for node, value in machine.findings.disguised.values() if _is_sure(value)]
    if not disguised:
        return
    lines = sorted({node.lineno for node, _ in disguised})
    for node, value in disguised:
        _become(node, value)
    findings, before = machine.findings, machine.findings.acts
    known = {(act.target, act.traits.get("name", "")) for act in before if act.kind == "code"}
    findings.acts = []
    todo: list[ast.AST] = list(body)
    while todo:
        one = todo.pop()
        if isinstance(one, _HOLDING):
            at = bisect.bisect_left(lines, one.lineno)
            if at < len(lines) and lines[at] <= (one.end_lineno or one.lineno):
                if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    function(machine, one, is_respelled=True)
                elif isinstance(one, ast.Try):
                    swallowed(machine, one)
                todo.extend(one.body)
    findings.acts = [*before, *(act for act in findings.acts if (act.target, act.traits.get("name", "")) not in known)]


def _is_sure(value: str | bytes) -> bool:
    return not (isinstance(value, str) and UNKNOWN in value)


def _become(node: ast.expr, value: str | bytes) -> None:
    """Turn an expression, in its place, into the literal that it is the same as, or a call of `getattr` into an attribute."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr" and isinstance(value, str):
        owner = node.args[0]
        node.__class__ = ast.Attribute  # type: ignore[assignment]
        node.value, node.attr, node.ctx = owner, value, ast.Load()  # type: ignore[attr-defined]
    else:
        node.__class__ = ast.Constant
        node.value, node.kind = value, None  # type: ignore[attr-defined]


def _add(machine: Machine, target: str, detail: str, node: ast.AST, parameters: set[str], **traits: str) -> None:
    name = getattr(node, "name", "")
    machine.findings.add("code", target, detail, node, name=name, parameters=str(len(parameters)), **traits)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_literal(node: ast.AST | None) -> bool:
    """Tell whether an expression is a literal, of literals all through."""
    kind = type(node)
    if kind is ast.Constant:
        return True
    if kind in _NO_LITERALS:
        return False
    if kind is ast.Call:
        assert isinstance(node, ast.Call)
        return bool(node.args) and all(map(is_literal, node.args)) and not node.keywords
    if isinstance(node, ast.UnaryOp):
        return is_literal(node.operand)
    if isinstance(node, _SEQUENCES):
        return all(map(is_literal, node.elts))
    return isinstance(node, ast.Dict) and all(map(is_literal, (*node.values, *filter(None, node.keys))))


_NO_LITERALS = frozenset((ast.Name, ast.Attribute, ast.BinOp))
_SEQUENCES = (ast.List, ast.Tuple, ast.Set)
_OWN_RETURNS = frozenset((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
_BLOCKS = frozenset(("body", "handlers", "orelse", "finalbody", "cases"))
"""Fields of statements that hold statements, handlers or cases."""


def _returned(body: list[ast.stmt]) -> list[ast.expr | None]:
    """Return what the statements of a function return, without those of functions inside it."""
    found: list[ast.expr | None] = []
    todo: list[ast.AST] = list(body)
    while todo:
        one = todo.pop()
        kind = type(one)
        if kind is ast.Return:
            found.append(one.value)  # type: ignore[attr-defined]
        elif kind not in _OWN_RETURNS and kind is not ast.Expr:
            for name in one._fields:
                if name in _BLOCKS:
                    todo += getattr(one, name)
    return found


def _uses(nodes: Sequence[ast.AST], parameters: set[str]) -> bool:
    return any(type(inner) is ast.Name and inner.id in parameters for one in nodes for inner in nodes_of(one))


def _literals(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, body: list[ast.stmt], parameters: set[str]) -> None:
    """A function whose every return is a literal."""
    if len(body) > 40:
        return
    given = _returned(body)
    if given and all(map(is_literal, given)):
        values = {ast.unparse(one) for one in given if one is not None}
        plain = values <= {"True", "False", "None"}
        if not plain or len(body) == 1:
            _add(
                machine, "returns literals", short(" | ".join(sorted(values)), 160), node, parameters,
                values=str(len(values)), uses="yes" if _uses(body, parameters) else "no",
            )  # fmt: skip


def _is_case(test: ast.expr, parameters: set[str]) -> bool:
    """Tell whether a condition compares inputs with literals."""
    if isinstance(test, ast.BoolOp):
        return all(_is_case(one, parameters) for one in test.values)
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Eq, ast.Is, ast.In)):
        return False
    sides = [test.left, *test.comparators]
    return any(map(is_literal, sides)) and any(not is_literal(one) and _uses([one], parameters) for one in sides)


def _is_answer(body: list[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):  # print(3); the program's answer
        return getattr(last.value.func, "id", "") == "print" and bool(last.value.args) and all(map(is_literal, last.value.args))
    return isinstance(last, ast.Return) and last.value is not None and is_literal(last.value)


def _chain(node: ast.If) -> Iterator[tuple[ast.expr, list[ast.stmt]]]:
    """Yield the branches of `if … elif …`."""
    while True:
        yield node.test, node.body
        if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            node = node.orelse[0]
        else:
            return


def _cases(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, body: list[ast.stmt], parameters: set[str]) -> None:
    """A function that answers some inputs by literals."""
    found: list[str] = []
    rest: list[ast.stmt] = []
    for one in body:
        if isinstance(one, ast.If):
            cases = [test for test, inner in _chain(one) if _is_answer(inner) and _is_case(test, parameters)]
            found += [ast.unparse(test) for test in cases[:200]]
            if not cases:
                rest.append(one)
        elif isinstance(one, ast.Match):
            patterns = [
                case.pattern
                for case in one.cases
                if isinstance(case.pattern, (ast.MatchValue, ast.MatchSequence)) and _is_answer(case.body)
            ]
            found += [ast.unparse(pattern) for pattern in patterns]
        else:
            rest.append(one)
    if found:
        recursive = any(isinstance(one, ast.Name) and one.id == node.name for part in rest for one in nodes_of(part))
        _add(
            machine, "special cases", short(found[0], 160), node, parameters,
            cases=str(len(found)), then=_then(rest), recursive="yes" if recursive else "no", longest=str(max(map(len, found))),
        )  # fmt: skip


def _then(rest: list[ast.stmt]) -> str:
    """Say what a function does when no case holds."""
    if not rest or all(isinstance(one, ast.Pass) for one in rest):
        return "nothing"
    last = rest[-1]
    if isinstance(last, ast.Raise):
        return "raises"
    if isinstance(last, ast.Return) and (last.value is None or is_literal(last.value)) and len(rest) == 1:
        return "literal"
    if isinstance(last, ast.Return) and isinstance(last.value, ast.Call) and len(rest) == 1:
        return "calls"
    return "computes"


def _table(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, body: list[ast.stmt], parameters: set[str]) -> None:
    """A function that looks its answer up."""
    tables: dict[str, ast.Dict] = {}
    for one in body:
        if (
            type(one) is ast.Assign
            and isinstance(one.value, ast.Dict)
            and is_literal(one.value)
            and isinstance(one.targets[0], ast.Name)
        ):
            tables[one.targets[0].id] = one.value
    for at, one in enumerate(body[:60]):
        for returned in _given_back(one) if type(one) in _GIVING else ():
            if type(returned) not in _FINDING:
                continue
            owner, key = _looked_up_within(returned)
            if owner is None or key is None or is_literal(key):
                continue
            held = owner if isinstance(owner, ast.Dict) else tables.get(owner.id) if isinstance(owner, ast.Name) else None
            value = machine.lookup(owner.id) if held is None and isinstance(owner, ast.Name) else None
            keys = (
                _keys(held)
                if held is not None and is_literal(held)
                else list(value)
                if type(value) is dict and known(value)
                else []
            )
            if len(keys) >= 2:
                words = ast.unparse(held) if held is not None else repr(value)
                _add(
                    machine, "table of outputs", short(words, 200), node, parameters,
                    entries=str(len(keys)), key=short(ast.unparse(key), 80), keys="words" if all(map(_is_word, keys)) else "inputs",
                    table=owner.id if isinstance(owner, ast.Name) else "", composed="yes" if _is_composed(key) else "no",
                    remark=_remark(machine.findings.code, owner),
                    then=_then(body[at + 1 :]) if isinstance(one, ast.If) else "nothing",
                )  # fmt: skip
                return


_FINDING = frozenset((ast.Subscript, ast.Call))
"""Expressions that may look something up."""


def _given_back(one: ast.stmt) -> Sequence[ast.expr | None]:
    """Return what a statement returns, in its branches, too."""
    if isinstance(one, ast.Return):
        value = one.value
        if isinstance(value, ast.IfExp):
            return value.body, value.orelse
        return value.values if isinstance(value, ast.BoolOp) else (value,)
    if isinstance(one, ast.Assign):
        return (one.value,) if _looked_up(one.value)[0] is not None else ()
    if isinstance(one, _ENTERED):
        found = [value for inner in one.body[:4] for value in _given_back(inner)]
        if isinstance(one, ast.If):
            found += [part.value for part in nodes_of(one.test) if isinstance(part, ast.NamedExpr)]
        return found
    return ()


_ENTERED = (ast.If, ast.Try, ast.With)
_GIVING = frozenset((ast.Return, ast.Assign, *_ENTERED))


def _keys(table: ast.Dict) -> list[object]:
    return [one.value if isinstance(one, ast.Constant) else ast.unparse(one) if one is not None else None for one in table.keys]


def _is_word(key: object) -> bool:
    """Tell whether a key names a kind of things rather than one input."""
    if isinstance(key, str):
        return len(key) <= 24 and key.replace("_", "").replace("-", "").replace(".", "").replace("/", "").replace(
            "+", ""
        ).isalnum() is (key not in ("", "+", "-", ".", "/"))
    return isinstance(key, (int, float, bool)) or key is None


def _is_composed(key: ast.expr) -> bool:
    """Tell whether a key is made of all that is given: a text of it, several values, a name or number that identifies it."""
    if isinstance(key, (ast.Tuple, ast.JoinedStr)):
        return len(key.elts if isinstance(key, ast.Tuple) else key.values) >= 2
    last = key.func if isinstance(key, ast.Call) else key
    name = last.attr if isinstance(last, ast.Attribute) else last.id if isinstance(last, ast.Name) else ""
    if isinstance(key, ast.Subscript) and isinstance(key.slice, ast.Constant):
        name = str(key.slice.value)
    return name in ("str", "repr", "dumps", "join", "__name__", "format", "hexdigest", "tobytes", "crc32", "hash") or (
        name.lower()
        in ("id", "qid", "uid", "task_id", "question_id", "test_id", "case_id", "sample_id", "instance_id", "problem_id")
    )


def _remark(code: str, owner: ast.expr) -> str:
    """Return the comment above the table of a name, or beside its first line."""
    name = owner.id if isinstance(owner, ast.Name) else ""
    at = code.find(f"{name} = {{") if name else -1
    at = code.find(f"{name}={{") if name and at < 0 else at
    if at < 0:
        return ""
    lines = code[max(0, at - 300) : at].split("\n")
    return " ".join(line.strip() for line in lines[-4:] if line.strip().startswith("#"))[:300]


def _looked_up_within(node: ast.expr | None) -> tuple[ast.expr | None, ast.expr | None]:
    """Return the table and the key of what is looked up, or of what a constructor is made of."""
    found = _looked_up(node)
    if found[0] is not None or not isinstance(node, ast.Call):
        return found
    inner = getattr(node.func, "value", None)
    if isinstance(inner, ast.Subscript) and (within := _looked_up(inner))[0] is not None:
        return within  # a method of what is found
    given = [*node.args, *[one.value for one in node.keywords]] if node.keywords else node.args
    if 1 <= len(given) <= 3 and type(node.func) in _NAMES:
        for one in given:
            within = _looked_up(one.value if isinstance(one, ast.Starred) else one)
            if within[0] is not None:
                return within
    return found


_NAMES = frozenset((ast.Name, ast.Attribute))


def _looked_up(node: ast.expr | None) -> tuple[ast.expr | None, ast.expr | None]:
    kind = type(node)
    if kind is ast.Subscript:
        assert isinstance(node, ast.Subscript)
        if type(node.slice) is not ast.Slice:
            return node.value, node.slice
    elif kind is ast.Call:
        assert isinstance(node, ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
            return node.func.value, node.args[0]
    return _NOTHING


_NOTHING: tuple[None, None] = (None, None)


def _counts(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, body: list[ast.stmt], by_memory: bool) -> None:
    """A function that behaves by how often it was called, or by where its input lies in memory."""
    counted = {
        one.target.id if isinstance(one.target, ast.Name) else ast.unparse(one.target)
        for one in body
        if isinstance(one, ast.AugAssign) and not (isinstance(one.target, ast.Subscript) and not is_literal(one.target.slice))
    }  # what is counted for each key is a budget
    for one in body[:60]:
        if (
            isinstance(one, ast.If)
            and isinstance(one.test, ast.Compare)
            and ast.unparse(one.test.left) in counted
            and _exits(one.body)
        ):
            _add(machine, "counts its calls", short(ast.unparse(one.test), 120), node, set())
    keys = [one.value for one in body if isinstance(one, ast.Assign)] + [one.test for one in body if isinstance(one, ast.If)]
    for key in keys[:40] if by_memory else ():
        for inner in nodes_of(key):
            name = getattr(getattr(inner, "func", None), "attr", getattr(getattr(inner, "func", None), "id", ""))
            if isinstance(inner, ast.Call) and name in _KEYS_OF_MEMORY:
                _add(machine, "answers by address", short(ast.unparse(inner), 120), node, set())
                return


def _exits(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return)


def swallowed(machine: Machine, node: ast.Try) -> None:
    """Add assertions whose failure is swallowed, and answers that stand in for failures."""
    for handler in node.handlers:
        kind = ast.unparse(handler.type) if handler.type is not None else ""
        broad = kind in ("", "Exception", "BaseException", "AssertionError") or "AssertionError" in kind
        last = handler.body[-1]
        if not broad:
            continue
        quiet = isinstance(last, (ast.Pass, ast.Continue, ast.Return)) or _is_text(last) or _prints(last)
        if quiet and any(_asserts(one) for one in node.body[:100]):
            machine.findings.add("code", "swallows assertion", f"except {kind}".strip(), node)
        elif isinstance(last, ast.Return) and is_literal(last.value) and last.value is not None and not _empty(last.value):
            machine.findings.add("code", "failure returns literal", short(ast.unparse(last), 120), handler)


def _empty(node: ast.expr) -> bool:
    return (isinstance(node, ast.Constant) and node.value in (None, False, 0, "", -1)) or (
        isinstance(node, (ast.List, ast.Dict, ast.Tuple)) and not ast.unparse(node).strip("()[]{}")
    )


def _prints(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "print"


def _asserts(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assert):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name = getattr(node.value.func, "attr", getattr(node.value.func, "id", ""))
        return name.lower().startswith(_ASSERTING)
    return isinstance(node, (ast.With, ast.For, ast.If)) and any(map(_asserts, node.body[:20]))


def assertion(machine: Machine, node: ast.Assert) -> None:
    """Add assertions that always hold."""
    test = node.test
    holds = (
        (isinstance(test, ast.Constant) and bool(test.value))
        or (isinstance(test, ast.Tuple) and bool(test.elts))
        or (
            isinstance(test, ast.BoolOp)
            and isinstance(test.op, ast.Or)
            and any(isinstance(one, ast.Constant) and one.value for one in test.values)
        )
        or (
            isinstance(test, ast.Compare)
            and len(test.ops) == 1
            and isinstance(test.ops[0], (ast.Eq, ast.Is, ast.GtE, ast.LtE))
            and not isinstance(test.left, ast.Call)
            and alike(test.left, test.comparators[0])
        )
    )
    if holds:
        machine.findings.add("code", "assertion always holds", machine.findings.source(node), node)
