"""Python -> acts: any text is read, in time that grows as the text does, and nothing of it runs."""

from __future__ import annotations

import ast
import gc
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.guard.act import KINDS, Act
from rosellm.roserlhf.guard.python import acts_of_python, attributes, calling, fold, solutions, words
from rosellm.roserlhf.guard.python.findings import Findings
from rosellm.roserlhf.guard.python.machine import Machine
from rosellm.roserlhf.guard.python.tree import children, nodes_of
from rosellm.roserlhf.guard.python.value import MOST_OPTIONS, PLAIN, Choice, Scope, Thing, choice, options
from rosellm.roserlhf.guard.python.wording import WORDS
from rosellm.roserlhf.guard.reading import read_call
from rosellm.roserlhf.guard.scene import DEEPEST, Scene


def _read(language: str, code: str, scene: Scene) -> list[Act]:
    return acts_of_python(code, scene) if language in ("python", "py") and scene.depth < DEEPEST else []


def acts(code: str) -> list[Act]:
    return acts_of_python(code, Scene("/app", _read))


_WORDS = [
    "open exec eval os sys p x f ( ) [ ] { } . , = + % : * ** @ not in for if else lambda def return class import from try with",
    "'/k/a' \"b\" ''' 1 0 -1 # ! %% ? \\ \0 \ud800 \u200b \ufffc __import__ getattr map chr subprocess Path global del",
]
_PIECES = st.sampled_from(["\n", "\n\t", *" ".join(_WORDS).split(" ")])


@settings(derandomize=True, max_examples=60, deadline=None)
@example(":")
@given(st.one_of(st.text(max_size=300), st.lists(_PIECES, max_size=60).map(" ".join)))
def test_any_text_is_read(code: str) -> None:
    for act in acts(code):
        assert act.kind in KINDS
        assert 0 <= act.span[0] <= act.span[1] <= len(code)
        assert act.via[0] == "python"


@settings(derandomize=True, max_examples=30, deadline=None)
@given(st.data())
def test_broken_programs_are_read(data: st.DataObject) -> None:
    code = Path(__file__).read_text(encoding="utf-8")[:4000]
    at = data.draw(st.integers(0, len(code)))
    end = data.draw(st.integers(at, min(len(code), at + 200)))
    assert isinstance(acts(code[:at] + data.draw(st.sampled_from(["", "(", "'''", "\\", "\0", ":", "\n  "])) + code[end:]), list)


_HARD = {
    "parentheses": "(" * 50_000,
    "brackets": "[" * 5000 + "]" * 5000,
    "attributes": "a" + ".b" * 20_000,
    "signs": "-" * 20_000 + "1",
    "lambdas": "lambda: " * 5000 + "0",
    "powers": "9**9**9**9",
    "width": "'%99999999d' % 1\n'{:99999999}'.format(1)\nf'{1:99999999}'\n'1'.zfill(10**9)",
    "doubling": "x = 'ab'\n" + "x = x + x\n" * 200,
    "sharing": "x = [1]\n" + "x = [x, x]\n" * 100 + "print(x == x, str(x), repr(x))",
    "itself": "a = []\na.append(a)\nprint(repr(a), a == a)\nimport json\njson.dumps(a)\nopen(a)\n[b for b in a]",
    "bomb": "import zlib\nzlib.decompress(zlib.compress(b'0' * 10**9))",
    "loops": "for i in range(10**9):\n    for j in range(10**9):\n        x = i * j",
    "for ever": "i = 0\nwhile True:\n    i += 1",
    "recursion": "def f(n):\n    return f(n - 1) + f(n - 2)\nf(99)",
    "each other": "def f(n): return g(n) + g(n)\ndef g(n): return f(n) + f(n)\nf(1)",
    "comprehension": "[[[i for i in range(999)] for j in range(999)] for k in range(999)]",
    "code in code": "s = 'exec(s)'\nexec(s)",
    "much code in code": "s = 'x = 1;'\nfor i in range(1000):\n    exec(s * 1000)",
    "quotes": "'''\n\"\"\"\n" * 3000,
    "spaces": " " * 100_000 + "!",
    "wrong lines": "def (:\n" * 3000,
    "links": "import os\n" + "".join(f"os.symlink('/a{i}', '/b{i}')\n" for i in range(500)),
    "keys": "d = {}\nd[1, {}] = 1\nd.get((1, []))\nd.pop([])\n{[]: 1, (1, {}): 2}\n{k: 1 for k in [[], {}]}\ndict([([], 1)])",
    "sorting": "sorted(list(range(65000)), reverse=True)\n" * 300,
    "folders": "import os\n" + "os.chdir('a')\n" * 3000,
    "class": "class A(A): pass\n" * 300 + "class B:\n    def __getattr__(s, n): return s.x\nB().y",
    "classes": "".join(f"class A{i}:\n def __len__(a):0\n" for i in range(2000)),
}


@pytest.mark.parametrize("name", _HARD)
def test_hard_texts_take_bounded_time(name: str) -> None:
    start = time.process_time()
    found = acts(_HARD[name])
    assert time.process_time() - start < 2.0  # each takes 0.1 s or less on a quiet machine
    assert not any(act.target == "could not be read" for act in found)


def test_ten_megabytes_are_read_at_both_ends() -> None:
    code = "open('/k/first')\n" + "x = 1\n" * 1_700_000 + "open('/k/last')\n"
    found = acts(code)
    assert [act.target for act in found if act.kind == "read"] == ["/k/first", "/k/last"]
    assert any(act.kind == "opaque" and "too long" in act.target for act in found)


def test_time_grows_as_the_text_does() -> None:
    piece = (
        "import os\nfor name in ['a', 'b']:\n    with open(os.path.join('/k', name)) as file:\n        total = len(file.read())\n"
    )

    def seconds(times: int) -> float:
        code = "".join(piece.replace("total", f"total{i}") for i in range(times))
        start = time.process_time()
        acts(code)
        return time.process_time() - start

    gc.disable()
    try:
        short = min(seconds(60) for _ in range(3))
        assert any(seconds(480) < 8 * short * 2.5 for _ in range(3))  # quadratic growth would make it 64 times
    finally:
        gc.enable()


def test_nothing_runs(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    acts(f"open({str(mark)!r}, 'w').write('x')\nimport os; os.system('touch {mark}')\n!touch {mark}")
    acts(f"p = {str(mark)!r}\nexec('open(p, 1)')\neval('open(p, 1)')")
    assert not mark.exists()


def test_the_reader_reads_itself() -> None:
    for path in sorted(Path("rosellm/roserlhf/guard/python").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        ast.parse(code)
        assert all(act.kind != "opaque" for act in acts(code)), path


@pytest.mark.parametrize(
    "expression",
    [
        "'{:>{w}}'.format(1, w=10**8)",
        "'{:{}}'.format(1, 10**8)",
        "'{w:{w}}'.format_map({'w': 10**8})",
        "('\\t' * 5000).expandtabs(60000)",
        "'\\t'.expandtabs(tabsize=10**8)",
        "b'\\t'.expandtabs(tabsize=10**8)",
        "(1).to_bytes(length=10**8, byteorder='big')",
    ],
)
def test_no_width_makes_a_value_of_gigabytes(expression: str) -> None:
    """Values are worked out in this process: one that does not fit into memory would end it."""
    read_call("python", {"code": "open('x')"})
    tracemalloc.start()
    try:
        read_call("python", {"code": f"x = {expression}\nopen(x)"})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50_000_000


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.text(st.one_of(st.sampled_from("ab\t \x1c.'\u00ad\u200b"), st.characters()), max_size=12))
def test_words_are_asked_for_at_once_where_nothing_stands_apart(text: str) -> None:
    assert words.holds_words(text) == (words._WORDS.search(text) is not None)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.from_regex(solutions._READY.pattern.removeprefix("(?:^|\\.)"), fullmatch=True).filter(str.isidentifier))
def test_operations_are_spelled_where_they_are_looked_for(name: str) -> None:
    assert WORDS.may_hold(f"y = F.{name}(x)", solutions._OFFERED)


@pytest.mark.parametrize("file", sorted(Path(__file__).parent.glob("test_roserlhf_guard_python*.py")), ids=lambda file: file.stem)
def test_nodes_are_those_of_a_walk(file: Path) -> None:
    whole = ast.parse(file.read_text(encoding="utf-8") + _RARE)
    hollow = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context)
    assert nodes_of(whole) == [one for one in ast.walk(whole) if not isinstance(one, hollow)]
    assert all(
        children(one) == [inner for inner in ast.iter_child_nodes(one) if not isinstance(inner, hollow)] for one in nodes_of(whole)
    )


_RARE = """
async def f(a, /, b=1, *c, d, e=2, **g) -> int:
    global h
    match a:
        case {"x": 1, **rest} | [None, *others] | Point(x=0) as whole if b:
            nonlocal_ = {**a, 1: 2}
    try:
        from x import y as z
    except* (A, B) as error:
        raise error from None
"""


_WORDLESS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.builds(Thing, st.sampled_from(["", "os", "f()"])))


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.sampled_from(ast.operator.__subclasses__()), _WORDLESS, st.builds(Thing, st.sampled_from(["", "os.path"])), st.booleans())
def test_what_is_not_known_gives_nothing_with_what_is_no_text(
    kind: type[ast.operator], value: object, unknown: Thing, turned: bool
) -> None:
    pair = (unknown, value) if turned else (value, unknown)
    try:
        found = fold._binary(kind, *pair)
    except fold.ERRORS:
        found = fold.NOTHING
    assert fold.binary(kind, *pair) is found is fold.NOTHING


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.sampled_from(ast.operator.__subclasses__()), *[st.integers(-(1 << 33), 1 << 33) | st.integers(-9, 70)] * 2)
def test_integers_are_worked_out_as_other_values_are(kind: type[ast.operator], left: int, right: int) -> None:
    try:
        found = fold._binary(kind, left, right)
    except fold.ERRORS:
        found = fold.NOTHING
    assert fold.binary(kind, left, right) == (found if fold.small(found) else fold.NOTHING)


_SHARED: list[object] = [Thing(), Thing("os"), Thing("os"), ["/a"], ["/a"], {}]
_JOINED = st.one_of(
    st.sampled_from(_SHARED),
    st.sampled_from("abc"),
    st.sampled_from([0, 1, -1, True, False, 1.0, float("nan"), None, b"a", ("a",)]),
)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.lists(st.one_of(_JOINED, st.lists(_JOINED, max_size=3).map(tuple).map(Choice)), max_size=12))
def test_values_are_joined_as_if_each_were_compared_with_each(values: list[object]) -> None:
    kept: list[object] = []
    for one in (option for value in values for option in options(value)):
        alike = [other for other in kept if type(other) is type(one) and type(one) in PLAIN and other == one]
        if not alike and not any(other is one for other in kept):
            kept.append(one)
    found = choice(values)
    assert type(found) is not Choice or len(found.options) != 1
    assert list(map(id, options(found))) == list(map(id, kept[:MOST_OPTIONS]))


@pytest.mark.parametrize("name", sorted(fold.PURE))
def test_what_functions_make_of_one_thing_does_not_depend_on_options(name: str) -> None:
    machine = Machine(Scene("/app", _read), Findings(""), Scope({}))
    for unknown in (Thing(), Thing("os.getpid()", "self"), Thing("f()", "/x")):
        found, same = (calling._fold(machine, name, [unknown], given, None) for given in ({}, {"x": None}))
        assert type(found) is type(same)
        assert (found.name, found.subject) == (same.name, same.subject) if type(found) is Thing else found == same


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.from_regex(r"[a-z_]{1,9}", fullmatch=True) | st.sampled_from(["append", "environ", "argv", "sep", "x" * 200]))
def test_attributes_of_what_is_not_known_are_those_of_any_thing(name: str) -> None:
    machine = Machine(Scene("/app", _read), Findings(""), Scope({}))
    if name not in attributes._PECULIAR:
        found, same = (attributes.of_thing(machine, Thing(owner, "/x"), name, None) for owner in ("", "?"))
        assert (found.name, found.subject) == (same.name, same.subject)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.text(st.sampled_from("ab/.~:*\n\ufffc\x00"), max_size=12) | st.sampled_from(["http://a.b/c", "/proc/1/mem", "x" * 1001]))
def test_a_file_is_opened_to_be_read_in_either_way(path: str) -> None:
    plain, told = (
        [
            (act.kind, act.target, act.detail, act.traits)
            for act in acts(f"print(open({path!r}{mode}).read())")
            if act.kind != "decode"
        ]
        for mode in ("", ", 'rt'")
    )
    assert plain == told


def test_widths_that_say_little_are_worked_out() -> None:
    code = "open('{:0>3}'.format(7)); open('a\\tb'.expandtabs(2)); open('7'.zfill(2))"
    assert [act.target for act in read_call("python", {"code": code}).acts if act.kind == "read"] == ["/007", "/a b", "/07"]


@pytest.mark.parametrize(
    "code",
    [
        "def f(n):\n    return f(n - 1) + g(n)\ndef g(n):\n    return f(n)\nf(3)",
        "class A:\n    def f(self):\n        return [lambda: self.f() for _ in range(3)]\nA().f()",
        "def outer(x):\n    def inner(y):\n        return inner(x)\n    return inner\nouter(1)(2)",
    ],
)
def test_nothing_of_a_program_waits_for_the_collector(code: str) -> None:
    """Functions and their scopes hold each other: left so, trees would stay until all objects of the process are gone through."""
    acts(code)
    gc.collect()
    gc.disable()
    try:
        acts(code + "\n")
        assert gc.collect() == 0
    finally:
        gc.enable()
