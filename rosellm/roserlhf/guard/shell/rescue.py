"""Text that the grammar cannot read -> its statements and, at last, its words, so that no error hides what stands in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rosellm.roserlhf.guard.shell.file import act_on
from rosellm.roserlhf.guard.shell.path import looks_like_path
from rosellm.roserlhf.guard.shell.shell import Shell, shortened
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value, names

if TYPE_CHECKING:
    from tree_sitter import Node

_WORD: Final = re.compile(r"""(?:\\[\s\S]|'[^'\n]*'|"[^"\n]*"|[^\s;&|<>()"'`\\])+""")
_QUOTES: Final = re.compile(r"""['"\\]""")
_MOST: Final = 500


def rescue(shell: Shell, node: Node) -> Value:
    """Read what the grammar could not."""
    shell.at(node)
    found = shell.source.of(node)
    if not found.strip():
        return NOTHING
    for child in node.named_children:
        if child.type in _STATEMENTS:
            shell.run(child)
    shell.at(node)
    words_of(shell, found)
    return ANYTHING


_STATEMENTS: Final = names(
    """command list pipeline redirected_statement subshell compound_statement if_statement while_statement for_statement
    case_statement function_definition variable_assignment
    declaration_command test_command do_group ERROR negated_command command_substitution"""
)


def words_of(shell: Shell, found: str) -> None:
    """Note the paths among the words of a text that has no grammar."""
    shell.act("opaque", shortened(found), "syntax")
    for count, word in enumerate(_WORD.finditer(found)):
        if count > _MOST:
            break
        plain = _QUOTES.sub("", word.group())
        if looks_like_path(plain):
            act_on(shell, "read", plain, "", unknown_program="yes")
