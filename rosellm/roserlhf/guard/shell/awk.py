"""awk programs: files that they read and write, commands that they run, and what they print where that is known."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell.escapes import ansi
from rosellm.roserlhf.guard.shell.file import read_path, write_path
from rosellm.roserlhf.guard.shell.program import Arguments
from rosellm.roserlhf.guard.shell.shell import Shell
from rosellm.roserlhf.guard.shell.table import programs
from rosellm.roserlhf.guard.shell.value import ANYTHING, Value, joined, known, mapped

_TOKEN: Final = re.compile(
    r'"((?:\\.|[^"\\])*)"|([A-Za-z_]\w*)|(\d+(?:\.\d+)?)|(>>|<=|>=|==|!=|&&|\|\||\|&|\+\+|--|[-+*/%]=|[<>|=(){};,\n!~?:+*/%$\[\]-])|#[^\n]*',
    re.DOTALL,
)
_REGEX: Final = re.compile(r"(?<=[(!~,&|{;\n])\s*/(?:\\.|\[[^\]\n]*\]|[^/\\\n])+/|^\s*/(?:\\.|\[[^\]\n]*\]|[^/\\\n])+/")
_PRINT_FIELD: Final = re.compile(r"\s*(?:[^{}]*)\{\s*print\s+\$(NF|\d+)\s*;?\s*\}\s*")
_END_OF_EXPRESSION: Final = frozenset([";", "}", "\n", ")", "|", ">", ">>", "<", "|&", "{", ",", "&&", "||", "?", ":", ""])
_MOST_TOKENS: Final = 4_000
Token = tuple[str, str]
"""(kind, text): kind is `text`, `name`, `number` or `sign`."""


def _awk(shell: Shell, argv: list[str]) -> Value:
    arguments = Arguments(programs()["awk"], argv[1:])
    operands = arguments.operands
    codes = [text for file in arguments.values("patterns") for text in read_path(shell, file, "awk -f") if text != UNKNOWN]
    if not arguments.values("patterns"):
        codes, operands = operands[:1], operands[1:]
    variables = dict(one.split("=", 1) for one in arguments.values("variable") if "=" in one)
    contents: list[Value] = []
    for operand in operands:
        name, equals, value = operand.partition("=")
        if equals and name.isidentifier():
            variables[name] = ansi(value)
        else:
            contents.append(read_path(shell, operand, "awk"))
    stdin = joined(contents) if contents else (shell.stdin if shell.stdin is not None else ANYTHING)
    printed = [_Program(shell, code, variables).read(stdin) for code in codes]
    return joined(printed) if printed else ANYTHING


class _Program:
    """One awk program, read from left to right; variables keep what was last assigned."""

    def __init__(self, shell: Shell, code: str, variables: dict[str, str]) -> None:
        self.shell = shell
        self.code = code
        self.variables = dict(variables)
        self.tokens = _tokens(_REGEX.sub(' "" ', code))

    def read(self, stdin: Value) -> Value:
        """Note what the program does; return what it prints."""
        printed: list[str] = []
        at = 0
        while at < len(self.tokens):
            kind, text = self.tokens[at]
            if kind == "name" and text in ("print", "printf"):
                at = self._print(at + 1, printed, formatted=text == "printf")
            elif kind == "name" and text == "getline":
                at = self._getline(at)
            elif kind == "name" and text == "system":
                command, at = self.expression(at + 1)
                if command:
                    self.shell.evaluate(command, "awk", new=True)
            elif kind == "name" and text == "ENVIRON":
                self.shell.act("environment", self._index(at) or "*", "read")
                at += 1
            elif kind == "name" and self._sign(at + 1) == "=":
                value, at = self.expression(at + 2)
                self.variables[text] = value
            else:
                at += 1
        if (found := _PRINT_FIELD.fullmatch(self.code)) is not None:
            return mapped(lambda one: _field(one, found[1]), stdin)
        text = "\n".join(printed)
        return (text + "\n",) if printed and known((text,)) else ANYTHING

    def _sign(self, at: int) -> str:
        return self.tokens[at][1] if at < len(self.tokens) and self.tokens[at][0] == "sign" else ""

    def _index(self, at: int) -> str:
        return self.tokens[at + 2][1] if self._sign(at + 1) == "[" and at + 2 < len(self.tokens) else ""

    def expression(self, at: int) -> tuple[str, int]:
        """Concatenate what stands there; parts that are no text, number or known variable are `UNKNOWN`."""
        parts: list[str] = []
        opened = 0
        while at < len(self.tokens):
            kind, text = self.tokens[at]
            if kind == "sign":
                if text == "(":
                    opened += 1
                elif text == ")" and opened:
                    opened -= 1
                elif text in _END_OF_EXPRESSION:
                    break
                else:
                    parts.append(UNKNOWN)
            elif kind == "name":
                if text in ("getline", "print", "printf"):
                    break
                parts.append(self.variables.get(text, "" if text.islower() and self._sign(at + 1) not in ("(", "[") else UNKNOWN))
            else:
                parts.append(text)
            at += 1
        return re.sub(f"{UNKNOWN}+", UNKNOWN, "".join(parts)), at

    def _print(self, at: int, printed: list[str], *, formatted: bool) -> int:
        """`print a, b > file`, `printf form, a | command`."""
        parts: list[str] = []
        value, at = self.expression(at)
        parts.append(value)
        while self._sign(at) == ",":
            value, at = self.expression(at + 1)
            parts.append(value)
        if formatted:
            from rosellm.roserlhf.guard.shell.builtins import formatted as format_

            text = format_(
                self.shell,
                parts[0],
                [chr(int(one)) if "%c" in parts[0] and one.isdigit() and int(one) < 0x110000 else one for one in parts[1:]],
            )
        else:
            text = " ".join(parts)
        sign = self._sign(at)
        if sign in (">", ">>"):
            path, at = self.expression(at + 1)
            write_path(self.shell, path, "awk print", "truncate" if sign == ">" else "append", (text + "\n",))
        elif sign in ("|", "|&"):
            command, at = self.expression(at + 1)
            before, self.shell.stdin = self.shell.stdin, (text + "\n",)
            self.shell.evaluate(command, "awk", new=True)
            self.shell.stdin = before
        else:
            printed.append(text)
        return at

    def _getline(self, at: int) -> int:
        """`getline line < file`, `command | getline line`."""
        if self._sign(at - 1) in ("|", "|&"):
            command = self._before(at - 1)
            if command:
                self.shell.evaluate(command, "awk", new=True)
            return at + 1
        after = at + 1
        while (after < len(self.tokens) and self.tokens[after][0] in ("name", "number")) or self._sign(after) in ("$", "["):
            after += 1
        if self._sign(after) == "<":
            path, after = self.expression(after + 1)
            read_path(self.shell, path, "awk getline")
        return max(after, at + 1)

    def _before(self, at: int) -> str:
        start = at
        while start > 0 and self.tokens[start - 1][0] != "sign" and self.tokens[start - 1][1] not in ("if", "while"):
            start -= 1
        value, _ = self.expression(start)
        return value


def _tokens(code: str) -> list[Token]:
    found: list[Token] = []
    for one in _TOKEN.finditer(code):
        if len(found) >= _MOST_TOKENS:
            break
        if one[1] is not None:
            found.append(("text", ansi(one[1].replace('\\"', '"').replace("\\/", "/"))))
        elif one[2]:
            found.append(("name", one[2]))
        elif one[3]:
            found.append(("number", one[3]))
        elif one[4]:
            found.append(("sign", one[4]))
    return found


def _field(text: str, which: str) -> str:
    if text == UNKNOWN:
        return text
    lines = []
    for line in text.split("\n"):
        pieces = line.split()
        at = len(pieces) - 1 if which == "NF" else int(which[:6]) - 1
        if which == "0":
            lines.append(line)
        elif 0 <= at < len(pieces):
            lines.append(pieces[at])
        elif UNKNOWN in line:
            lines.append(UNKNOWN)
    return "\n".join(lines) + "\n"


READERS: Final[dict[str, Callable[[Shell, list[str]], Value]]] = {"awk": _awk}
