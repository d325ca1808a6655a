"""Lists, dictionaries, what was read from files, and the built-in functions that go through them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.python import apis, calling, computing, effects, expressions, fold, services
from rosellm.roserlhf.guard.python.fold import NOTHING
from rosellm.roserlhf.guard.python.machine import each
from rosellm.roserlhf.guard.python.value import (
    Choice,
    Closure,
    Contents,
    Partial,
    Thing,
    choice,
    is_key,
    known,
    put_in,
    sources,
    sure,
    text,
)

if TYPE_CHECKING:
    from rosellm.roserlhf.guard.python.calling import Call


LONGEST_CYCLE = 16_384
"""Elements that something endless is taken to have."""


def contents_method(call: Call) -> Any:
    """A method of what was read from a file, or of a value that was computed from it."""
    owner, name = call.owner, call.name
    full = f"{owner.name}().{name}"
    if name in ("replace", "sub") and len(call.arguments) >= 2:
        edit = (text(call.argument(0)), text(call.argument(1)))
        return Contents(owner.paths, (*owner.edits, edit)[:16], owner.name)
    if name in ("insert", "append", "extend") and call.arguments and not call.machine.dead:
        put_in(owner, call.arguments[-1])
        return NOTHING
    api = apis.table().find(full) or apis.table().methods.get(name)
    if api is not None:
        call.name = full if owner.name else name
        effects.of(call, api)
        return owner
    handler = services.METHODS.get(name)
    if handler is not None and name in ("execute", "executescript", "executemany", "exec_module", "load_module"):
        return handler(call)
    for one in (*call.arguments, *call.keywords.values()):
        if type(one) is Closure and id(one.node) not in call.machine.visited:
            calling.run(call.machine, one, [owner], {})
    read = sources(owner, *call.arguments, *call.keywords.values())
    return Contents(read or owner.paths, owner.edits, owner.name)


def collection_method(call: Call) -> Any:
    """A method that changes a list, dictionary or set; None if it is none."""
    owner, name, first = call.owner, call.name, call.argument(0)
    if call.machine.dead:
        return None
    match owner, name:
        case list(), "append" if len(owner) < fold.LARGEST:
            owner.append(first)
        case list(), "extend":
            owner.extend(expressions.iterate(call.machine, first)[: fold.LARGEST - len(owner)])
        case list(), "insert" if len(call.arguments) == 2:
            owner.insert(first if type(first) is int else 0, call.argument(1))
        case list(), "pop":
            return owner.pop(first if type(first) is int and -len(owner) <= first < len(owner) else -1) if owner else NOTHING
        case list(), "reverse":
            owner.reverse()
        case list(), "sort":
            if known(owner):
                owner[:] = fold.call("sorted", [owner], {}) if type(fold.call("sorted", [owner], {})) is list else owner
        case dict(), "update" if type(first) is dict:
            owner.update(first)
        case dict(), "setdefault" if is_key(first):
            return owner.setdefault(first, call.argument(1))
        case dict(), "pop" if is_key(first):
            return owner.pop(first, call.argument(1, default=NOTHING))
        case dict(), "get" if type(first) is not Choice and not known(first):
            return choice([*list(owner.values())[:6], call.argument(1)])
        case _:
            return None
    return NOTHING


def _iterable(call: Call) -> list[Any]:
    return expressions.iterate(call.machine, call.argument(0), call.node) if call.arguments else []


def _sequence(call: Call) -> Any:
    value = call.argument(0)
    if type(value) is Thing and value.name == "os.environ":
        call.machine.findings.add("environment", "*", "read", call.node, use="copy")
    if type(value) is dict and call.name == "dict":
        return {**value, **call.keywords}
    if call.name == "dict":
        pairs = [one for one in _iterable(call) if type(one) in (tuple, list) and len(one) == 2 and is_key(one[0])]
        return {**{one[0]: one[1] for one in pairs}, **call.keywords}
    found = _iterable(call)
    return tuple(found) if call.name == "tuple" else found


def _computes(function: Any) -> bool:
    """Tell whether a function does nothing but compute."""
    if type(function) is Closure:
        return type(function.node) is ast.Lambda and computing.only(function.node.body)
    return type(function) is Thing and function.name in fold.PURE and function.name not in fold.DECODERS


def _mapped(call: Call) -> Any:
    lists = [expressions.iterate(call.machine, one, call.node) for one in call.arguments[1:]]
    function = call.argument(0)
    if len(lists) == 1 and _computes(function):
        return list(computing.each(call.machine, lambda one: calling.call(call.machine, function, [one], {}, call.node), lists[0]))
    found = []
    for count, items in enumerate(zip(*lists, strict=False)):
        if count and not call.machine.spend():
            break
        found.append(calling.call(call.machine, call.argument(0), list(items), {}, call.node))
    return found


def _filtered(call: Call) -> Any:
    found = expressions.iterate(call.machine, call.argument(1), call.node)
    function = call.argument(0)
    if _computes(function):
        tests = computing.each(call.machine, lambda one: calling.call(call.machine, function, [one], {}, call.node), found)
        return [one for one, test in zip(found, tests, strict=False) if not sure(test) or test]
    kept = []
    for count, one in enumerate(found):
        if count and not call.machine.spend():
            break
        test = True if call.argument(0) is None else calling.call(call.machine, call.argument(0), [one], {}, call.node)
        if not sure(test) or test:
            kept.append(one)
    return kept


def _cycled(call: Call) -> Any:
    found = _iterable(call)
    return found * (LONGEST_CYCLE // len(found) + 1) if found else found


def _zipped(call: Call) -> Any:
    lists = [expressions.iterate(call.machine, one, call.node) for one in call.arguments]
    return list(zip(*lists, strict=False)) if lists else []


def _enumerated(call: Call) -> Any:
    start = call.argument(1, "start", 0)
    return list(enumerate(_iterable(call), start if type(start) is int else 0))


def _reversed(call: Call) -> Any:
    return list(reversed(_iterable(call)))


def _next(call: Call) -> Any:
    found = _iterable(call)
    return choice(found[:4]) if found else call.argument(1, default=NOTHING)


def _reduce(call: Call) -> Any:
    values = expressions.iterate(call.machine, call.argument(1), call.node)
    if len(call.arguments) > 2:
        values = [call.argument(2), *values]
    if not values:
        return NOTHING
    found = values[0]
    for one in values[1:]:
        if not call.machine.spend():
            return NOTHING
        found = calling.call(call.machine, call.argument(0), [found, one], {}, call.node)
    return found


def _partial(call: Call) -> Any:
    return Partial(call.argument(0), call.arguments[1:], call.keywords)


def _substituted(call: Call) -> Any:
    subject = call.argument(2, "string")
    if type(subject) is Contents:
        return Contents(subject.paths, (*subject.edits, (text(call.argument(0)), text(call.argument(1))))[:16], subject.name)
    return UNKNOWN if type(subject) is str else NOTHING


HANDLERS: dict[str, Callable[[Call], Any]] = {
    **each(
        "list tuple set frozenset dict iter collections.OrderedDict collections.deque collections.defaultdict",
        _sequence,
    ),
    **each("map itertools.starmap itertools.imap pool.map", _mapped),
    **each("re.sub re.subn regex.sub", _substituted),
    "itertools.cycle": _cycled,
    "filter": _filtered,
    "zip": _zipped,
    "itertools.zip_longest": _zipped,
    "enumerate": _enumerated,
    "reversed": _reversed,
    "next": _next,
    "functools.reduce": _reduce,
    "functools.partial": _partial,
}
"""Functions, by canonical name."""
