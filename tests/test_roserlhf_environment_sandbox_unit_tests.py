"""A solution passes the tests that it passes, and by no other way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sandbox_kinds import KINDS, descendants

from rosellm.roserlhf.environment.sandbox import Limits, Sandbox, Verdict, unit_tests
from rosellm.roserlhf.errors import RangeError, RecordError

SQUARE = "def f(x):\n    return x * x\n"
TESTS = """
from solution import f

def test_two():
    assert f(2) == 4

def test_three():
    assert f(3) == 9
"""


def verdict(solution: str, tests: str = TESTS, *, seconds: float = 10, **arguments: Any) -> Verdict:
    return asyncio.run(unit_tests(Sandbox(kind=KINDS[-1]), solution, tests, seconds=seconds, **arguments))


@pytest.mark.parametrize("kind", KINDS)
def test_right_half_right_and_wrong(kind: str) -> None:
    """Two tests: x² passes both, 4 passes one, 5 passes none."""

    async def play() -> list[Verdict]:
        sandbox = Sandbox(kind=kind)  # type: ignore[arg-type]
        return [await unit_tests(sandbox, solution, TESTS) for solution in (SQUARE, "def f(x): return 4", "def f(x): return 5")]

    before = descendants()
    right, half, wrong = asyncio.run(play())
    assert [found.share for found in (right, half, wrong)] == [1.0, 0.5, 0.0]
    assert right.passed == ("test_two", "test_three")
    assert half.failed == {"test_three": "AssertionError"}
    assert {found.kind for found in (right, half, wrong)} == {kind}
    assert descendants() <= before


CHEATS = {
    "exit with success": "import os\nos._exit(0)",
    "exit with success in a call": "import os\ndef f(x): os._exit(0)",
    "raise SystemExit": "def f(x): raise SystemExit(0)",
    "equal everything": "class E:\n    def __eq__(self, other): return True\ndef f(x): return E()",
    "equal everything as an int": "class E(int):\n    def __eq__(self, other): return True\ndef f(x): return E(0)",
    "end the loop that asserts": "def f(x): raise StopIteration",
    "pass for skipped": "import unittest\ndef f(x): raise unittest.SkipTest",
    "take assert away": "import builtins\nbuiltins.AssertionError = type('A', (Exception,), {})\ndef f(x): return 5",
    "replace builtins": "import builtins\nbuiltins.all = builtins.isinstance = lambda *a: True\ndef f(x): return 5",
    "patch the test runner": """
import sys
for module in list(sys.modules.values()):
    for name in ("attempt", "examine", "_tests_in", "_refill"):
        if hasattr(module, name):
            setattr(module, name, lambda *a: True)
def f(x): return 5
""",
    "print a verdict": """
import sys
print('{"passed": ["test_two", "test_three"], "failed": {}, "broken": null}', flush=True)
__value__ = {"passed": ["test_two", "test_three"], "failed": {}, "broken": None}
def f(x): return 5
""",
    "write a verdict into every channel": """
import json, os
verdict = {"passed": ["test_two", "test_three"], "failed": {}, "broken": None}
for message in (verdict, {"nonce": "", "ending": "ok", "value": verdict}):
    body = json.dumps(message).encode()
    for n in range(64):
        try: os.write(n, len(body).to_bytes(4, "big") + body)
        except OSError: pass
def f(x): return 5
""",
    "look for what is expected": """
import gc, os, sys
def f(x):
    for one in gc.get_objects():
        if isinstance(one, dict):
            for text in list(one.values()):
                if isinstance(text, str) and "f(2) == " in text:
                    return int(text.split("== ")[1].split()[0])
    for folder, _, files in os.walk("."):
        if files:
            return 4
    return int("tests" in sys.modules) * 4
""",
    "hang": "while True: pass",
    "hang in a call": "def f(x):\n    while True: pass",
    "flood": "def f(x):\n    while True: print('x' * 1000)",
    "answer with a flood": """
import os
def f(x):
    for n in range(3, 64):
        try: os.write(n, bytes(10 << 20))
        except OSError: pass
""",
    "end the process of the answers": "def f(x):\n    import sys\n    sys.modules['__main__'].__dict__['encode'] = None",
    "answer nested deeper than a stack": "def f(x):\n    v = []\n    for _ in range(900): v = [v]\n    return v",
    "define nothing": "",
    "be no Python": "def f(",
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_no_way_around_the_tests_pays(cheat: str) -> None:
    """Scored 0, never unscored: not answering must not be better than answering wrong."""
    found = verdict(CHEATS[cheat], seconds=0.5 if "hang" in cheat else 10)
    assert (found.share, found.broken, found.passed) == (0.0, None, ())


def test_tests_that_a_solution_keeps_busy_count_as_failed() -> None:
    """The loop is the tests' own, its length the solution's answer."""
    found = verdict("def f(x): return 10 ** 12", "from solution import f\nfor _ in range(f(1)): pass", seconds=0.2)
    assert (found.share, found.ending) == (0.0, "timeout")


def test_a_name_of_the_solution_does_not_shadow_the_tests_own() -> None:
    solution = SQUARE + "def all(x): return True\ndef len(x): return 0\n"
    tests = "from solution import *\nassert len('ab') == 2\nassert not all([0])\nassert f(2) == 4"
    assert verdict(solution, tests, names=["f"]).share == 1.0


def test_a_file_without_test_functions_is_one_test() -> None:
    assert verdict(SQUARE, "assert f(2) == 4\nassert f(3) == 9", names=["f"]).passed == ("tests",)
    failed = verdict(SQUARE, "assert f(2) == 5, 'not five'", names=["f"])
    assert (failed.share, failed.failed) == (0.0, {"tests": "AssertionError: not five"})


def test_cases_of_unittest_and_exceptions() -> None:
    tests = """
import unittest
from solution import f

class Cases(unittest.TestCase):
    def setUp(self):
        self.two = 2

    def test_value(self):
        self.assertEqual(f(self.two), 1)

    def test_raises(self):
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            f(0)

    def test_wrong(self):
        self.assertEqual(f(1), 3)
"""
    found = verdict("def f(x): return 2 // x", tests)
    assert found.passed == ("Cases.test_raises", "Cases.test_value")
    assert found.failed == {"Cases.test_wrong": "AssertionError: 2 != 3"}


def test_objects_of_the_solution_can_be_used_and_arguments_changed() -> None:
    solution = """
class Stack:
    def __init__(self, items): self.items = list(items)
    def push(self, item): self.items.append(item)
    def pop(self): return self.items.pop()
def sort(items, seen, counts):
    items.sort(); seen.add(1); counts["n"] = 2
"""
    tests = """
from solution import Stack, sort
stack = Stack((1, 2))
stack.push({"a": [3.5, None]})
assert stack.pop() == {"a": [3.5, None]} and stack.items == [1, 2]
assert stack != Stack((1, 2)) and stack == stack
items, seen, counts = [3, 1, 2], set(), {}
assert sort(items, seen, counts) is None
assert (items, seen, counts) == ([1, 2, 3], {1}, {"n": 2})
"""
    found = verdict(solution, tests)
    assert found.share == 1.0, found.failed


@pytest.mark.parametrize(
    "tests", ["assert f(lambda: 1)", "try:\n    f(open('x', 'w'))\nexcept Exception: pass", "assert (", "'\0'"]
)
def test_tests_that_are_none_say_nothing_about_a_solution(tests: str) -> None:
    found = verdict(SQUARE, tests, names=["f"])
    assert found.share is None
    assert found.broken


def test_files_are_there_for_the_tests_alone() -> None:
    solution = "import os\ndef f(): return os.listdir()"
    found = verdict(solution, "import os\nassert f() == [] and open('cases').read() == '7'", names=["f"], files={"cases": "7"})
    assert found.share == 1.0, found.failed


def test_bad_arguments() -> None:
    with pytest.raises(RecordError, match="names"):
        verdict(SQUARE, names=["f()"])
    with pytest.raises(RecordError, match="solution"):
        verdict(None)  # type: ignore[arg-type]
    with pytest.raises(RangeError, match="seconds"):
        verdict(SQUARE, seconds=0)


def test_many_at_once_and_a_small_box() -> None:
    async def play() -> list[float | None]:
        sandbox = Sandbox(Limits(processes=2, memory=64 << 20), kind=KINDS[0])
        solutions = [f"def f(x): return x * x + {n % 2}" for n in range(6)]
        return [found.share for found in await asyncio.gather(*(unit_tests(sandbox, one, TESTS) for one in solutions))]

    assert asyncio.run(play()) == [1.0, 0.0] * 3


_CASE = "import unittest\nclass T(unittest.TestCase):\n    "
NO_TESTS = {
    "async": "async def test_a():\n    assert f(1) == 2",
    "a generator": "def test_a():\n    assert f(1) == 2\n    yield",
    "a class that is no TestCase": "class TestF:\n    def test_a(self):\n        assert f(1) == 2",
    "async in a plain TestCase": f"{_CASE}async def test_a(self):\n        assert f(1) == 2",
    "never called": "def check(candidate):\n    assert candidate(1) == 2",
    "only as a program": "if __name__ == '__main__':\n    assert f(1) == 2",
    "under another name": f"{_CASE}def runTest(self):\n        assert f(1) == 2",
    "empty": "",
}


@pytest.mark.parametrize("tests", NO_TESTS.values(), ids=NO_TESTS)
def test_tests_that_any_solution_would_pass_are_broken(tests: str) -> None:
    found = verdict("def f(x): return 'garbage'", f"from solution import f\n{tests}", names=["f"])
    assert (found.share, found.passed) == (None, ())


def test_what_a_test_returns_is_no_assertion() -> None:
    tests = """
import functools, unittest
from solution import f
def check(wanted):
    assert f(1) == wanted
test_partial = functools.partial(check, 2)
def test_returned():
    return f(1) == 2
class T(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.wanted = 2
    def test_equal(self):
        self.assertEqual(f(1), self.wanted)
    def test_returned(self):
        return f(1) == self.wanted
class A(unittest.IsolatedAsyncioTestCase):
    async def test_equal(self):
        self.assertEqual(f(1), 2)
"""
    assert verdict("def f(x): return x + 1", tests).passed == ("test_partial", "T.test_equal", "A.test_equal")
    wrong = verdict("def f(x): return x", tests)
    assert wrong.passed == ()
    assert wrong.failed["test_returned"] == "TypeError: a test must assert, not return bool"
