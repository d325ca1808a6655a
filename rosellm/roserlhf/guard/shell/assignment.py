"""Assignments and what they do to the environment of programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rosellm.roserlhf.guard.shell.arithmetic import number
from rosellm.roserlhf.guard.shell.parameter import parameter
from rosellm.roserlhf.guard.shell.plain import Assigned
from rosellm.roserlhf.guard.shell.shell import Shell, shortened
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value, joined, known
from rosellm.roserlhf.guard.shell.words import fields, joined_fields, text, tilde

if TYPE_CHECKING:
    from tree_sitter import Node

_ENVIRONMENT: Final = re.compile(
    r"(?:PATH|LD_\w+|PYTHON\w*|PYTEST_\w+|NODE_\w+|RUBY\w+|PERL5\w*|JAVA_\w+|_JAVA_OPTIONS|MAVEN_\w+|GRADLE_\w+|GO[A-Z]+|"
    r"RUST\w*|CARGO_\w+"
    r"|BASH_ENV|ENV|SHELL|PROMPT_COMMAND|IFS|GIT_\w+|PIP_\w+|UV_\w+|npm_config_\w+|CC|CXX|CFLAGS|LDFLAGS|MAKEFLAGS|CI|HOME|"
    r"PS4|GCONV_PATH)"
)


def assign(shell: Shell, node: Node, *, exported: bool = False, quiet: bool = False) -> tuple[str, Value]:
    """Read `name=value`, `name+=value`, `name[i]=value`, `name=(...)`; return the name and its value."""
    name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
    name = shell.source.of(name_node) if name_node is not None else ""
    adds = shell.source.data.find(b"+=", node.start_byte, node.end_byte) >= 0 and "+=" in [one.type for one in node.children]
    if value_node is not None and value_node.type == "array":
        values = fields(shell, value_node.named_children)
        before = shell.state.get("array", name, []) if adds else []
        shell.state.set("array", name, [*before, *values][:4096])
        return name, values[0] if values else NOTHING
    _begin(shell, name)
    value = _with_homes(shell, text(shell, value_node) if value_node is not None else NOTHING)
    return name, set_variable(shell, name, value, adds=adds, exported=exported, quiet=quiet)


def assign_plain(shell: Shell, node: Assigned) -> None:
    """Read an assignment that was read without the grammar."""
    _begin(shell, node.name)
    value: Value = (node.text,)
    if node.variable:
        found = parameter(shell, node.variable)
        before = joined_fields(found) if isinstance(found, list) else found
        value = joined([before, value]) if node.text else before
    set_variable(shell, node.name, _with_homes(shell, value))


def _begin(shell: Shell, name: str) -> None:
    if name.islower() and shell.state.get("var", name) is None:
        shell.state.set("var", name, NOTHING)  # such a name comes from no environment: `p=$p/x` starts with nothing


def _with_homes(shell: Shell, value: Value) -> Value:
    if len(value) == 1 and ":~" in value[0]:
        return (":".join(tilde(shell, one) if one.startswith("~") else one for one in value[0].split(":")),)
    return value


def set_variable(
    shell: Shell, name: str, value: Value, *, adds: bool = False, exported: bool = False, quiet: bool = False
) -> Value:
    """Set a variable or an element; note it where programs see it."""
    state = shell.state
    if name.endswith("]") and "[" in name:
        array, _, index = name[:-1].partition("[")
        _set_element(shell, array, index, value, adds=adds)
        return value
    if adds:
        before = state.get("var", name)
        value = joined([before if before is not None else NOTHING, value])
    state.set("var", name, value)
    if state.get("array", name) is not None:
        state.drop("array", name)
    if not quiet and (exported or state.get("exported", name) or _ENVIRONMENT.fullmatch(name)):
        shell.act("environment", name, f"set {shortened(value[0])}")
    if exported:
        state.set("exported", name, True)
    return value


def _set_element(shell: Shell, name: str, index: str, value: Value, *, adds: bool) -> None:
    def variable(one: str) -> str | None:
        found = shell.state.get("var", one)
        return found[0] if found is not None and known(found) else None

    at = number(index, variable)
    array = list(shell.state.get("array", name, []))
    if at is None or not 0 <= at < 4096 or (shell.state.get("array", name) is None and not index.strip().isdigit()):
        shell.state.set("var", f"{name}[{index}]", value)
        return
    array += [NOTHING] * (at + 1 - len(array))
    array[at] = joined([array[at], value]) if adds else value
    shell.state.set("array", name, array)


def forget(shell: Shell, name: str) -> None:
    """`unset NAME`."""
    shell.state.set("var", name, NOTHING)
    shell.state.drop("array", name)
    if _ENVIRONMENT.fullmatch(name):
        shell.act("environment", name, "set ")


__all__ = ["ANYTHING", "assign", "forget", "set_variable"]
