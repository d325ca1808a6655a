"""Exact arithmetic: against Python's own rationals, and against everything that is no arithmetic."""

from __future__ import annotations

import ast
import contextlib
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.environment import expressions
from rosellm.roserlhf.environment.expressions import DEEPEST, LONGEST, ExpressionError, as_text, evaluate

PROPERTY = settings(derandomize=True, max_examples=60, deadline=None)
NUMBERS = st.integers(0, 10**6).map(str) | st.tuples(st.integers(0, 999), st.integers(0, 999)).map(lambda p: f"{p[0]}.{p[1]}")
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: (
        st.tuples(inner, st.sampled_from([" + ", "-", "*", " / "]), inner).map("".join)
        | inner.map(lambda text: f"({text})")
        | inner.map(lambda text: f"-{text}")
    ),
    max_leaves=8,
)


class Exact(ast.NodeVisitor):
    """The oracle: Python's parser, Python's `Fraction`."""

    def visit_Expression(self, node: ast.Expression) -> Fraction:
        return self.value(node.body)

    def value(self, node: ast.expr) -> Fraction:
        match node:
            case ast.Constant(value=int() | float()):
                return Fraction(ast.unparse(node))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.value(operand)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self.value(left), self.value(right)
                return (
                    a + b
                    if isinstance(op, ast.Add)
                    else a - b
                    if isinstance(op, ast.Sub)
                    else a * b
                    if isinstance(op, ast.Mult)
                    else a / b
                )
        raise AssertionError(ast.dump(node))


@PROPERTY
@given(EXPRESSIONS)
def test_every_expression_has_the_value_that_python_gives_it(expression: str) -> None:
    if len(expression) > LONGEST:
        with pytest.raises(ExpressionError, match="expression too long"):
            evaluate(expression)
        return
    try:
        expected: Fraction | None = Exact().visit(ast.parse(expression, mode="eval"))
    except ZeroDivisionError:
        expected = None
    if expected is None:
        with pytest.raises(ExpressionError, match="division by zero"):
            evaluate(expression)
    else:
        assert evaluate(expression) == expected


@pytest.mark.parametrize(
    ("expression", "value", "text"),
    [
        ("3*17+2*9", Fraction(69), "69"),
        ("2+3*4-5", Fraction(9), "9"),
        ("10-4-3", Fraction(3), "3"),  # from the left
        ("12/4/3", Fraction(1), "1"),
        ("0.1+0.2", Fraction(3, 10), "3/10"),  # exact, as no float is
        ("1/3", Fraction(1, 3), "1/3"),
        ("--2", Fraction(2), "2"),
        ("2*-3", Fraction(-6), "-6"),
        (" ( 1 +\t2 )\n* 3 ", Fraction(9), "9"),
        ("007", Fraction(7), "7"),
    ],
)
def test_by_hand(expression: str, value: Fraction, text: str) -> None:
    assert evaluate(expression) == value
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("", "incomplete expression"),
        ("   ", "incomplete expression"),
        ("1+", "incomplete expression"),
        ("(1", "missing )"),
        ("1)", "unexpected ')'"),
        ("()", "unexpected ')'"),
        ("1 2", "unexpected '2'"),
        ("1  x", "unexpected 'x'"),
        ("1.", "unexpected '.'"),
        (".5", "unexpected '.'"),
        ("1e9", "unexpected 'e'"),
        ("1_000", "unexpected '_'"),
        ("0x10", "unexpected 'x'"),
        ("1//2", "unexpected '/'"),
        ("9**9**9", "unexpected '*'"),
        ("+1", "unexpected '+'"),
        ("1/0", "division by zero"),
        ("1/(2-2)", "division by zero"),
        ("__import__('os').system('true')", "unexpected '_'"),
        ("(lambda: 1)()", "unexpected 'l'"),
        ("[1][0]", "unexpected '['"),
        ("1 if 1 else 2", "unexpected 'i'"),
        ("٣*٢", "unexpected '٣'"),  # digits, to Unicode
        ("１+１", "unexpected '１'"),
        ("3²", "unexpected '²'"),
        ("1\u00a0+\u20031", "unexpected '\\xa0'"),
        ("\ud800", "unexpected '\\ud800'"),
        ("1\x00", "unexpected '\\x00'"),
        ("(" * 100 + "1" + ")" * 100, "expression too long"),
        ("(" * 90 + "1" + ")" * 90, "nested too deep"),
        ("-" * 150 + "1", "nested too deep"),
        ("1" * 10**5, "expression too long"),
        ("(" * 10**5, "expression too long"),
    ],
)
def test_what_is_no_arithmetic_is_said_to_be_none(expression: str, complaint: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        evaluate(expression)
    assert str(raised.value) == complaint


def test_the_bounds_are_where_they_are_said_to_be() -> None:
    assert evaluate("(" * DEEPEST + "1" + ")" * DEEPEST) == 1
    with pytest.raises(ExpressionError, match="nested too deep"):
        evaluate("(" * (DEEPEST + 1) + "1" + ")" * (DEEPEST + 1))
    assert evaluate("1" * LONGEST) == int("1" * LONGEST)
    with pytest.raises(ExpressionError, match="expression too long"):
        evaluate("1" * (LONGEST + 1))


@pytest.mark.parametrize(
    "expression",
    [
        "9" * 66 + "*" + "9" * 66 + "*" + "9" * 66,
        "/".join(["9999999"] * 25),
        "1/3+" * 49 + "1",
        "*".join("9" * 100),
        "-(" * 10 + "1" + ")" * 10,
    ],
)
def test_the_largest_numbers_take_no_time(expression: str) -> None:
    start = time.process_time()
    assert len(as_text(evaluate(expression))) <= 2 * LONGEST + 2
    assert time.process_time() - start < 0.5


@PROPERTY
@given(st.text(st.sampled_from("0123456789.+-*/() e_x٣"), max_size=30) | st.text(max_size=30))
def test_any_text_is_a_value_or_a_complaint(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        assert isinstance(evaluate(text), Fraction)


def test_nothing_is_ever_evaluated_as_code() -> None:
    tree = ast.parse(Path(expressions.__file__).read_text(encoding="utf-8"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not names & {"eval", "exec", "compile", "__import__", "getattr"}
