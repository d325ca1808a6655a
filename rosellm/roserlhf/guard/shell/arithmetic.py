"""Arithmetic of the shell: a text -> its number, or None where it takes what is not known."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Final

_TOKEN: Final = re.compile(
    r"\s*(?:(0[xX][0-9a-fA-F]+|\d+#\w+|\d+)|([A-Za-z_]\w*)|(\*\*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&|^!~?:(),=]))"
)
_LEVELS: Final = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_LARGEST: Final = 2**63
_DEEPEST: Final = 40
_OPERATORS: Final[dict[str, Callable[[int, int], int]]] = {
    "||": lambda a, b: int(bool(a) or bool(b)),
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "|": operator.or_,
    "^": operator.xor,
    "&": operator.and_,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "<<": lambda a, b: a << (b & 63),
    ">>": lambda a, b: a >> (b & 63),
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "%": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}


class _UnknownError(Exception):
    """What is asked for is not known."""


def number(text: str, variable: Callable[[str], str | None]) -> int | None:
    """Evaluate an expression without assignments; `variable(name)` returns a variable's text, or None if it is not known.

    Example:
        >>> number("0x2f + (n << 2) % 7", {"n": "3"}.get), number("m + 1", {}.get)
        (52, None)
    """
    tokens: list[str] = []
    at = 0
    text = text.replace("$", "")
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if not found or len(tokens) > 400:
            return None
        tokens.append(found[1] or found[2] or found[3])
        at = found.end()
    try:
        reading = _Reading(tokens, variable)
        value = reading.choice(0)
        return value if reading.at == len(tokens) else None
    except (_UnknownError, ZeroDivisionError, ValueError):
        return None


class _Reading:
    def __init__(self, tokens: list[str], variable: Callable[[str], str | None]) -> None:
        self.tokens, self.at, self.variable = tokens, 0, variable

    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else ""

    def choice(self, depth: int) -> int:
        if depth > _DEEPEST:
            raise _UnknownError
        value = self.level(0, depth + 1)
        if self.next() == "?":
            self.take()
            yes = self.choice(depth + 1)
            if self.take() != ":":
                raise _UnknownError
            no = self.choice(depth + 1)
            value = yes if value else no
        return value

    def level(self, level: int, depth: int) -> int:
        if level == len(_LEVELS):
            return self.power(depth)
        value = self.level(level + 1, depth)
        while self.next() in _LEVELS[level]:
            value = _OPERATORS[self.take()](value, self.level(level + 1, depth))
            if abs(value) > _LARGEST:
                raise _UnknownError
        return value

    def power(self, depth: int) -> int:
        value = self.single(depth)
        if self.next() == "**":
            self.take()
            exponent = self.power(depth + 1)
            if not 0 <= exponent <= 64 or depth > _DEEPEST:
                raise _UnknownError
            value = value**exponent
        return value

    def single(self, depth: int) -> int:
        token = self.take()
        if depth > _DEEPEST or not token:
            raise _UnknownError
        if token in ("-", "+", "!", "~"):
            value = self.single(depth + 1)
            return {"-": -value, "+": value, "!": int(not value), "~": ~value}[token]
        if token == "(":
            value = self.choice(depth + 1)
            if self.take() != ")":
                raise _UnknownError
            return value
        if token[0].isdigit():
            return _literal(token)
        if token[0].isalpha() or token[0] == "_":
            found = self.variable(token)
            return _literal(found.strip() or "0") if found is not None else _none()
        raise _UnknownError


def _none() -> int:
    raise _UnknownError


def _literal(text: str) -> int:
    base, hash_, digits = text.partition("#")
    if hash_:
        return int(digits, int(base))
    if text[:2].lower() == "0x":
        return int(text, 16)
    return int(text, 8) if len(text) > 1 and text[0] == "0" and text.isdigit() else int(text)
