"""Exact arithmetic on text a model wrote: a small grammar over rational numbers, never `eval`.

`expression = term {(+|-) term}`, `term = factor {(*|/) factor}`, `factor = -factor | number | ( expression )`.
"""

from __future__ import annotations

import re
from fractions import Fraction

_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?)|([-+*/()]))")
_LONGEST = 200
_DEEPEST = 20


class ArithmeticMistake(Exception):
    """The expression cannot be evaluated; the message is meant for the one who wrote it."""


def evaluate(expression: str) -> Fraction:
    """Evaluate `+ - * /` and parentheses over decimal numbers exactly.

    Args:
        expression: at most 200 characters; nested at most 20 deep.

    Returns:
        The exact value.

    Raises:
        ArithmeticMistake: not an expression, division by zero, too long or too deep.

    Example:
        >>> evaluate("3*17+2*9")
        Fraction(69, 1)
    """
    if len(expression) > _LONGEST:
        raise ArithmeticMistake("expression too long")
    tokens, place = [], 0
    stripped = expression.rstrip()
    while place < len(stripped):
        match = _TOKEN.match(stripped, place)
        if match is None:
            raise ArithmeticMistake(f"unexpected {stripped[place]!r}")
        tokens.append(match.group(1) or match.group(2))
        place = match.end()
    value, rest = _sum(tokens, 0)
    if rest:
        raise ArithmeticMistake(f"unexpected {rest[0]!r}")
    return value


def as_text(value: Fraction) -> str:
    """Write an exact value: an integer as digits, anything else as `numerator/denominator`."""
    return str(value)


def _sum(tokens: list[str], depth: int) -> tuple[Fraction, list[str]]:
    value, rest = _product(tokens, depth)
    while rest and rest[0] in "+-":
        right, after = _product(rest[1:], depth)
        value, rest = (value + right if rest[0] == "+" else value - right), after
    return value, rest


def _product(tokens: list[str], depth: int) -> tuple[Fraction, list[str]]:
    value, rest = _factor(tokens, depth)
    while rest and rest[0] in "*/":
        right, after = _factor(rest[1:], depth)
        if rest[0] == "/" and right == 0:
            raise ArithmeticMistake("division by zero")
        value, rest = (value * right if rest[0] == "*" else value / right), after
    return value, rest


def _factor(tokens: list[str], depth: int) -> tuple[Fraction, list[str]]:
    if depth > _DEEPEST:
        raise ArithmeticMistake("nested too deep")
    if not tokens:
        raise ArithmeticMistake("incomplete expression")
    head, rest = tokens[0], tokens[1:]
    if head == "-":
        value, rest = _factor(rest, depth + 1)
        return -value, rest
    if head == "(":
        value, rest = _sum(rest, depth + 1)
        if not rest or rest[0] != ")":
            raise ArithmeticMistake("missing )")
        return value, rest[1:]
    if not head[0].isdigit():
        raise ArithmeticMistake(f"unexpected {head!r}")
    return Fraction(head), rest
