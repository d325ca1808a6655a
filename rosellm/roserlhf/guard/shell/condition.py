"""`[ ... ]`, `[[ ... ]]`, `test`: paths that are looked at."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final

from rosellm.roserlhf.guard.shell.file import act_on
from rosellm.roserlhf.guard.shell.shell import Shell
from rosellm.roserlhf.guard.shell.value import NOTHING, Value
from rosellm.roserlhf.guard.shell.words import text

if TYPE_CHECKING:
    from tree_sitter import Node

_FILES: Final = re.compile(r"-[abcdefghkprsuwxGLNOS]")
_DETECTED: Final = re.compile(r"\$\{?((?:CI|PYTEST\w*|GITHUB_ACTIONS|TEST\w*|GRAD\w+|VERIF\w+|EVAL\w*|HARNESS\w*|BATS\w*)\b)")


def condition(shell: Shell, node: Node) -> Value:
    """Read a test: files that it asks about are listed, not read."""
    shell.at(node)
    stack: list[Node] = [node]
    count = 0
    while stack and count < 2_000:
        one = stack.pop()
        count += 1
        if one.type == "unary_expression" and len(one.children) == 2:
            operator, operand = one.children
            if _FILES.fullmatch(shell.source.of(operator)) and operand.type not in ("binary_expression", "unary_expression"):
                for path in text(shell, operand):
                    act_on(shell, "list", path, f"test {shell.source.of(operator)}")
                continue
        if one.type in ("command_substitution", "string", "concatenation"):
            text(shell, one)
            continue
        stack += one.named_children
    words = shell.source.of(node)
    if "$" in words and (found := _DETECTED.search(words)) is not None:
        shell.act("detect", found[1], "condition")
    return NOTHING


def of_words(shell: Shell, argv: list[str]) -> Value:
    """Read `test ...` given as words."""
    for operator, operand in itertools.pairwise(argv[1:]):
        if _FILES.fullmatch(operator):
            act_on(shell, "list", operand, f"test {operator}")
    return NOTHING
