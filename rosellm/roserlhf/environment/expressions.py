"""Exact arithmetic on text a model wrote: a small grammar over rational numbers, never `eval`.

```
sum     = product {(+|-) product}
product = factor {(*|/) factor}
factor  = -factor | number | ( sum )
number  = digits [. digits]            ASCII digits only
```
The bounds on length and depth bound the time, too: no power, so 200 characters can name no number of more than 200 digits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from rosellm.roserlhf.errors import RoseError

_BLANK = re.compile(r"[ \t\n]*")
_TOKEN = re.compile(r"[0-9]+(?:\.[0-9]+)?|[-+*/()]")
LONGEST = 200
"""Characters of an expression."""
DEEPEST = 20
"""Parentheses and signs inside one another."""


class ExpressionError(RoseError, ValueError):
    """The expression cannot be evaluated; the message is worded for the one who wrote it."""


def evaluate(expression: str) -> Fraction:
    """Evaluate `+ - * /` and parentheses over decimal numbers exactly.

    Args:
        expression: at most 200 characters, nested at most 20 deep.

    Returns:
        The exact value.

    Raises:
        ExpressionError: not an expression, division by zero, too long or nested too deep.

    Example:
        >>> evaluate("3*17+2*9"), evaluate("1/3 - 0.5")
        (Fraction(69, 1), Fraction(-1, 6))
    """
    if len(expression) > LONGEST:
        raise ExpressionError("expression too long")
    parser = _Parser(_tokens(expression))
    value = parser.sum(0)
    parser.end()
    return value


def as_text(value: Fraction) -> str:
    """Write an exact value: an integer as digits, anything else as `numerator/denominator`."""
    return str(value)


def _tokens(expression: str) -> list[str]:
    tokens, place = [], _skip_blank(expression, 0)
    while place < len(expression):
        match = _TOKEN.match(expression, place)
        if match is None:
            raise ExpressionError(f"unexpected {expression[place]!r}")
        tokens.append(match.group())
        place = _skip_blank(expression, match.end())
    return tokens


def _skip_blank(text: str, place: int) -> int:
    match = _BLANK.match(text, place)
    return place if match is None else match.end()


class _Parser:
    """Recursive descent over tokens; `depth` counts the factors that are being read."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens, self._place = tokens, 0

    def _peek(self) -> str | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _take(self) -> str:
        token = self._peek()
        if token is None:
            raise ExpressionError("incomplete expression")
        self._place += 1
        return token

    def end(self) -> None:
        if (token := self._peek()) is not None:
            raise ExpressionError(f"unexpected {token!r}")

    def sum(self, depth: int) -> Fraction:
        value = self._product(depth)
        while self._peek() in ("+", "-"):
            value = value + self._product(depth) if self._take() == "+" else value - self._product(depth)
        return value

    def _product(self, depth: int) -> Fraction:
        value = self._factor(depth)
        while self._peek() in ("*", "/"):
            if self._take() == "*":
                value *= self._factor(depth)
                continue
            divisor = self._factor(depth)
            if divisor == 0:
                raise ExpressionError("division by zero")
            value /= divisor
        return value

    def _factor(self, depth: int) -> Fraction:
        if depth > DEEPEST:
            raise ExpressionError("nested too deep")
        token = self._take()
        if token == "-":
            return -self._factor(depth + 1)
        if token == "(":
            value = self.sum(depth + 1)
            if self._peek() != ")":
                raise ExpressionError("missing )")
            self._take()
            return value
        if not token[0].isdigit():
            raise ExpressionError(f"unexpected {token!r}")
        return Fraction(token)
