"""Runs inside two boxes: `tests → call → plain values → solution → plain values → tests`, over one socket between them.

The tests' side never runs a byte of the solution. What comes back is built here from numbers, text and containers of them, so there
is no `__eq__` to lie with; what is none of these stands as a `Remote`, which equals nothing but itself. Standard library only.
"""

from __future__ import annotations

import builtins
import json
import os
import select
import sys
import time
import types
import unittest
from typing import Any, NoReturn

LONGEST = 8 << 20
"""Bytes of one message."""
_SCALARS = (type(None), bool, float, str)
_MUTABLE = (list, dict, set, bytearray)
_CONTAINERS: tuple[tuple[str, Any], ...] = (("list", list), ("tuple", tuple), ("set", set), ("frozenset", frozenset))
# raised here it would end a loop of the tests instead of failing it
_NOT_RAISED = (StopIteration, StopAsyncIteration)
_SUSPENDED = 0x20 | 0x80 | 0x200  # in the flags of a code object: generator, coroutine, both


class Unsupported(BaseException):
    """The tests pass something that no message can carry: they do not suit this way of testing. No test can catch it by mistake."""


class SolutionError(Exception):
    """The solution raised an exception of its own making, or gave no usable answer."""


class Remote:
    """Something of the solution that is no plain value: it can be called and asked for attributes, and equals only itself."""

    def __init__(self, link: Link, number: int) -> None:
        self.__dict__.update(_link=link, _number=number)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it in the other box."""
        return self._link.ask("call", self._number, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._link.ask("attribute", self._number, (name,), {})


class Keeper:
    """The solution's objects that the tests hold, by number."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def number(self, value: Any) -> int:
        """Keep an object."""
        self.kept.append(value)
        return len(self.kept) - 1


def encode(value: Any, keeper: Keeper | None = None) -> Any:
    """Write a value as JSON; what is not plain is kept under a number, or refused where there is no keeper."""
    if isinstance(value, _SCALARS):
        return float(value) if isinstance(value, float) else value if value is None or type(value) is bool else str(value)
    if isinstance(value, int):
        return {"int": format(int(value), "x")}  # in base 16, which Python writes at any length
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, (bytes, bytearray)):
        return {"bytearray" if isinstance(value, bytearray) else "bytes": value.hex()}
    for name, kind in _CONTAINERS:
        if isinstance(value, kind):
            return {name: [encode(item, keeper) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(key, keeper), encode(item, keeper)] for key, item in value.items()]}
    if isinstance(value, Remote):
        return {"remote": value._number}
    if keeper is None:
        raise Unsupported(f"a test passes {type(value).__name__}, which is no plain value")
    return {"remote": keeper.number(value)}


def decode(message: Any, remote: Any) -> Any:
    """Read a value; `remote` turns a number into what it stands for."""
    if not isinstance(message, dict):
        if isinstance(message, _SCALARS):
            return message
        raise ValueError("not a value")
    ((name, content),) = message.items()
    for known, kind in _CONTAINERS:
        if name == known:
            return kind(decode(item, remote) for item in content)
    if name == "dict":
        return {decode(key, remote): decode(item, remote) for key, item in content}
    if name == "int":
        return int(content, 16)
    if name == "complex":
        return complex(*map(float, content))
    if name in ("bytes", "bytearray"):
        return (bytes if name == "bytes" else bytearray).fromhex(content)
    if name == "remote":
        return remote(content)
    raise ValueError("not a value")


class Link:
    """One end of the socket: messages of a length and JSON."""

    def __init__(self, descriptor: int, seconds: float | None = None) -> None:
        self._descriptor = descriptor
        self._until = None if seconds is None else time.monotonic() + seconds
        self._broken = False
        self.used = False
        """Whether anything came back that an assertion could depend on."""
        self._waiting = select.poll()
        self._waiting.register(descriptor, select.POLLIN)

    def send(self, message: Any) -> None:
        """Write one message."""
        body = json.dumps(message).encode()
        rest = memoryview(len(body).to_bytes(4, "big") + body)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def receive(self) -> Any:
        """Read one message; None at the end."""
        header = self._exactly(4)
        size = int.from_bytes(header, "big")
        if not header or size > LONGEST:
            return None
        body = self._exactly(size)
        return json.loads(body) if body else None

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            left = None if self._until is None else 1000 * max(0.0, self._until - time.monotonic())
            if not self._waiting.poll(left):
                raise TimeoutError("the solution did not answer in time")
            part = os.read(self._descriptor, min(size, 1 << 16))
            if not part:
                return b""
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def ask(self, what: str, target: Any, args: Any, kwargs: Any) -> Any:
        """Let the other box do something and return, or raise, what came of it; changed arguments are changed here, too."""
        used, self.used = self.used, True
        request = {"what": what, "target": target, "args": encode(list(args)), "kwargs": encode(dict(kwargs))}
        answer = self._answer(request)
        raised: Any = None
        try:
            if "raised" in answer:
                raised = list(map(str, decode(answer["raised"], self._remote)))[:2]
            else:
                value, arguments = (decode(answer[name], self._remote) for name in ("value", "args"))
                changed = [(old, new) for old, new in zip(args, arguments) if isinstance(old, _MUTABLE)]  # noqa: B905
                if any(type(new) is not type(old) for old, new in changed):
                    raise ValueError("arguments changed their type")
        except Exception as error:
            raise SolutionError("no usable answer") from error
        if raised is not None:
            _raise(*raised)
        for old, new in changed:
            _refill(old, new)
        if what == "attribute" and isinstance(value, Remote):
            self.used = used  # a function that nobody has called yet
        return value

    def _answer(self, request: Any) -> Any:
        if self._broken:
            raise SolutionError("the solution's process has ended")
        self._broken = True
        try:
            self.send(request)
            answer = self.receive()
        except TimeoutError:
            raise
        except Exception as error:
            raise SolutionError("the solution's process has ended or does not answer") from error
        if answer is None:
            raise SolutionError("the solution's process has ended")
        self._broken = False
        return answer

    def _remote(self, number: Any) -> Remote:
        return Remote(self, int(number))


def _refill(old: Any, new: Any) -> None:
    if isinstance(old, (list, bytearray)):
        old[:] = new
    else:
        old.clear()
        old.update(new)


def _raise(name: str = "", text: str = "") -> NoReturn:
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, _NOT_RAISED):
        try:
            error = kind(text)
        except TypeError:  # those of Unicode want more than a text
            error = SolutionError(f"{name}: {text}")
        raise error
    raise SolutionError(f"{name}: {text}")


def serve(descriptor: int, source: str) -> None:
    """The solution's side: run it as a module, then answer until nobody asks any more."""
    link, keeper = Link(descriptor), Keeper()
    solution = types.ModuleType("solution")
    sys.modules["solution"] = solution
    failure: BaseException | None = None
    try:
        exec(compile(source, "solution.py", "exec"), solution.__dict__)  # noqa: S102 - in the box
    except BaseException as error:  # noqa: BLE001 - every call will be told
        failure = error
    try:
        while (request := link.receive()) is not None:
            try:
                if failure is not None:
                    raise failure
                answer = _answered(request, solution, keeper)
            except BaseException as error:  # noqa: BLE001 - it is the answer
                answer = {"raised": {"list": [type(error).__name__, str(error)[:1000]]}}
            link.send(answer)
    finally:
        os.close(descriptor)  # so that nobody waits for an answer


def _answered(request: Any, solution: types.ModuleType, keeper: Keeper) -> Any:
    args = decode(request["args"], keeper.kept.__getitem__)
    kwargs = decode(request["kwargs"], keeper.kept.__getitem__)
    target: Any = solution if request["target"] is None else keeper.kept[request["target"]]
    value = getattr(target, args[0]) if request["what"] == "attribute" else target(*args, **kwargs)
    changed = [encode(item, keeper) if isinstance(item, _MUTABLE) else None for item in args]
    return {"value": encode(value, keeper), "args": {"list": changed}}


class _Solution(types.ModuleType):
    """The module `solution` as the tests see it: every name is asked for in the other box."""

    def __init__(self, link: Link) -> None:
        super().__init__("solution")
        self._link = link

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._link.ask("attribute", None, (name,), {})


def examine(descriptor: int, tests: str, names: list[str], seconds: float) -> dict[str, Any]:
    """The tests' side: run them and say which passed; `broken` if they are no tests of this kind."""
    link = Link(descriptor, seconds)
    solution = _Solution(link)
    sys.modules["solution"] = solution
    module = types.ModuleType("tests")
    sys.modules["tests"] = module
    passed: list[str] = []
    failed: dict[str, str] = {}

    def attempt(name: str, run: Any) -> bool:
        try:
            _nothing(run())
        except Unsupported:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, this test did not pass
            failed[name] = f"{type(error).__name__}: {error}"[:500].rstrip(": ")
            return False
        passed.append(name)
        return True

    def whole() -> None:
        module.__dict__.update({name: getattr(solution, name) for name in names})
        exec(code, module.__dict__)  # noqa: S102 - in the box

    try:
        code = compile(tests, "tests.py", "exec")
    except (SyntaxError, ValueError) as error:
        return {"passed": [], "failed": {}, "broken": f"{type(error).__name__}: {error}"[:500]}
    try:
        if attempt("tests", whole) and (found := _tests_in(module)):
            passed.clear()
            for name, run in found.items():
                attempt(name, run)
        if not (failed or link.used):
            raise Unsupported("the tests ask nothing of the solution")
    except Unsupported as error:
        return {"passed": [], "failed": {}, "broken": str(error)}
    return {"passed": passed, "failed": failed, "broken": None}


def _tests_in(module: types.ModuleType) -> dict[str, Any]:
    """Collect what is to be called; what looks like a test and would not be run as one makes the tests unsuitable."""
    found: dict[str, Any] = {}
    for name, value in vars(module).items():
        if isinstance(value, type) and value.__module__ == "tests":
            is_case = issubclass(value, unittest.TestCase)
            for method in unittest.defaultTestLoader.getTestCaseNames(value) if is_case or name.startswith("Test") else ():
                if not is_case:
                    raise Unsupported(f"{name}.{method} is no test: {name} is no unittest.TestCase")
                is_async = issubclass(value, getattr(unittest, "IsolatedAsyncioTestCase", ()))
                found[f"{name}.{method}"] = _case(value, method, is_async)
        elif name.startswith("test") and callable(value) and not isinstance(value, (type, Remote)):
            found[name] = _runs_when_called(value, name)
    return found


def _case(kind: Any, method: str, is_async: bool) -> Any:
    case = kind(method)
    if not is_async:
        test = _runs_when_called(getattr(case, method), f"{kind.__name__}.{method}")
        setattr(case, method, lambda: _nothing(test()))

    def run() -> None:
        kind.setUpClass()
        try:
            case.debug()
        finally:
            kind.tearDownClass()

    return run


def _runs_when_called(test: Any, name: str) -> Any:
    code = getattr(getattr(test, "__func__", test), "__code__", None)
    if code is not None and code.co_flags & _SUSPENDED:
        raise Unsupported(f"{name} is async or a generator: a call does not run it")
    return test


def _nothing(result: Any) -> None:
    if result is not None:
        raise TypeError(f"a test must assert, not return {type(result).__name__}")
