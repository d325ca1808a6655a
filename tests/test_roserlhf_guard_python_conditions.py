"""What readers of Python ask first, before they look closer, admits whatever they find."""

from __future__ import annotations

import ast
import itertools
import re

import pytest

from rosellm.roserlhf.guard.python import acts_of_python, apis, computing, learning, solutions, tree
from rosellm.roserlhf.guard.python.wording import WORDS
from rosellm.roserlhf.guard.scene import Scene

SCENE = Scene("/app", lambda *_: [])


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    ("first", "second"),
    list(
        itertools.combinations_with_replacement(
            [
                "a",
                "a.b",
                "b",
                "f(a)",
                "f(a, 1)",
                "f(a, 1.0)",
                "f(a, True)",
                "f(a, '1')",
                "f(a, b'1')",
                "f(a, k=1)",
                "f(a, *k)",
                "[a, 1]",
                "(a, 1)",
                "{a: 1}",
                "{**a}",
                "a[1:]",
                "a[:1]",
                "a + b",
                "a - b",
                "a < b",
                "a < b < c",
                "lambda a: a",
                "u'1'",
                "'1'",
                "...",
                "0.0",
                "-0.0",
                "1e309",
                "f'{a}'",
                "f'{a!r}'",
                "[x for x in a if b]",
                "[x for x in a]",
            ],
            2,
        )
    ),
)
def test_trees_are_alike_that_are_dumped_alike(first: str, second: str) -> None:
    one, other = _expression(first), _expression(second)
    assert tree.alike(one, other) == (ast.dump(one) == ast.dump(other))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        "[[]]",
        "[{}]",
        "[{[]}]",
        "[[], []]",
        "[()]",
        "{1: 2}",
        "{**a}",
        "[0]",
        "[[[0]]]",
        "[*[]]",
        "[{*[]}]",
        "[{'[]': []}]",
    ],
)
def test_a_collection_is_hollow_that_is_written_with_brackets_alone(text: str) -> None:
    node = _expression(text)
    assert solutions._is_hollow(node) == (not ast.unparse(node).strip("[]{}"))


@pytest.mark.parametrize("name", sorted(solutions._HASHES | solutions._AS_TEXT | {"hexdigest", "my_digest_of"}))
def test_every_key_of_a_table_is_spelled(name: str) -> None:
    for call in (f"{name}(x)", f"lib.{name}(x)", f"x.{name}()", f"f'{{{name}(x)}}'"):
        assert WORDS.may_hold(f"def f(x):\n    return T[{call}]", solutions._KEYED)


@pytest.mark.parametrize("name", sorted(solutions._NAMING))
def test_every_function_that_takes_a_name_is_spelled(name: str) -> None:
    assert WORDS.may_hold(f"{name}(x, 'a' + 'b')", solutions._NAMED)


@pytest.mark.parametrize("name", sorted(solutions._LIBRARIES))
def test_every_library_is_spelled(name: str) -> None:
    for program in (f"y={name}.linalg.norm(x)", f"from {name}.nn import softmax", f"y=-({name}).sort(x)", f"f'{{{name}.sort(x)}}'"):
        assert all(WORDS.may_hold(program, words) for words in (solutions._OWNED, solutions._OFFERED))


@pytest.mark.parametrize(
    "text",
    [
        "self.training",
        "not model.training",
        "is_training",
        "train",
        "mode == 'train'",
        "mode == 'eval' 'uation'",
        "'is_' 'eval' in a",
        "mode == 'trai' 'ning'",
        "'\\train' in a",
        "'\\x74rain' == a",
        "b'train' == a",
        "f'{train}'",
        "f(train=1)",
        "x.is_eval()",
        "eval_mode[0]",
        "a and (b or deterministic)",
        "(lambda inference: 1)",
        "[train for a in b]",
        "flags['inference']",
        "a < train",
    ],
)
def test_every_condition_on_evaluation_is_looked_at(text: str) -> None:
    test = _expression(text)
    assert learning._may_name_evaluation(test) or not learning._EVALUATES.search(ast.unparse(test))


@pytest.mark.parametrize(
    "text",
    [
        "self.training",
        "x += 1",
        "x +=  2",
        "class A(Tensor): pass",
        "f(\n a.b.Tensor\t)",
        "f(\vndarray\x1c,",
        "f(\x1ffloat\v)",
        "f(xTensor)",
        "def item(self)",
        "def items(self)",
        "__array_ufunc__",
        "__eq__",
        "return (",
        "return f(",
        "partial(",
        "def mean",
        "def means",
    ],
)
def test_what_tells_of_models_is_found_alike_by_both_engines(text: str) -> None:
    assert (learning._HINTS in WORDS.found(text)) == (re.search(learning._TELLING, text) is not None)


@pytest.mark.parametrize("terms", range(20, 40))
def test_nodes_that_compute_are_counted_with_their_operators(terms: int) -> None:
    node = _expression(" + ".join(["1"] * terms))
    assert computing.only(node) == (sum(1 for _ in ast.walk(node)) < computing.MOST_NODES)


@pytest.mark.parametrize("text", ["a", "a[0]", "(a, b)", "-a", "a < b <= c", "a and b", "len(a)", "a[b:c]", "a if b else c"])
def test_nodes_that_compute_are_counted_with_their_contexts(text: str) -> None:
    for others in range(computing.MOST_NODES + 1):
        nodes = [_expression(text), *[_expression("1")] * others]
        count = sum(sum(1 for _ in ast.walk(node)) for node in nodes)
        assert computing.only(*nodes) == (count < computing.MOST_NODES)


def test_every_beginning_in_the_table_is_found() -> None:
    for starts in apis.table().starts.values():
        for start, _ in starts:
            assert "." not in start or apis.table().find(f"{start}x") is not None


@pytest.mark.parametrize(
    "program",
    [
        "def f(x):\n    if f.known is None:\n        f.known = str(x)\n    return f.known\n",
        "import functools\n\n@functools.lru_cache(None)\ndef f(x):\n    return str(x)\n",
        "def f(x, known={}):\n    known[x] = str(x)\n    return known[x]\n",
        "known = {}\n\ndef f(x):\n    known[x] = str(x)\n    return known[x]\n",
    ],
)
def test_functions_that_keep_results_are_looked_at(program: str) -> None:
    assert [act.target for act in acts_of_python(program, SCENE) if act.target == "keeps results"]
