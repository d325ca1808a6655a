"""Statements of the shell: lists, pipelines, branches, loops, functions, groups, redirections; each gives what it prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell.arithmetic import number
from rosellm.roserlhf.guard.shell.assignment import assign, assign_plain
from rosellm.roserlhf.guard.shell.command import (
    assignments_alone,
    command,
    declare,
    expanded_command,
    plain_command,
    redirected_command,
    run_words,
    unset,
)
from rosellm.roserlhf.guard.shell.condition import condition
from rosellm.roserlhf.guard.shell.plain import Assigned, Body, ExpandedCommand, Loop, PlainCommand, Redirected
from rosellm.roserlhf.guard.shell.redirect import Redirections, redirections
from rosellm.roserlhf.guard.shell.rescue import rescue
from rosellm.roserlhf.guard.shell.shell import Shell, either, shortened
from rosellm.roserlhf.guard.shell.state import LASTING
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value, joined, known, names, one_of
from rosellm.roserlhf.guard.shell.words import fields, text

if TYPE_CHECKING:
    from tree_sitter import Node

_STOPS: Final = re.compile(rb"\s*(?:\{[^{}]*\b)?(?:exit|return|continue|break)\b[^;&|]*;?\s*\}?\s*")
_COUNTS: Final = re.compile(rb"[+]=|=\S*\$|read\b|printf -v|\b(?:cd|pushd|shift|let)\b|\(\(")
_AWAITS: Final = re.compile(rb"\\b(?:wait|fg)\\b|\\bkill\\b[^\\n;|&]*(?:\\$!|%\\d|\\$\\w|\\.pid)")
_ASSIGNS: Final = re.compile(rb"\w+(?:\[[^\]\n]*\])?\+?=")
_FIRST: Final = frozenset(["command", "pipeline", "list", "redirected_statement", "negated_command"])
_ITERATIONS: Final = 64
_TESTS: Final = frozenset(["test_command", "negated_command"])
_SUCCEEDS: Final = frozenset(["true", ":", "exit 0", "/bin/true", "/usr/bin/true", "exit", "return 0", "(exit 0)", "builtin true"])
_DECIDES: Final = re.compile(
    r"test|tox|nox|spec|jest|mocha|check|verif|grade|judge|valid|assert|make|ninja|gradle|mvn|lake|\.sh|bench|cmp|diff"
)


def execute(shell: Shell, node: Node) -> Value:
    """Read a statement: note its acts, change the shell's state, return what it prints."""
    plain = _PLAIN.get(type(node))
    if plain is not None:
        return plain(shell, node)
    kind = node.type
    reader = _READERS.get(kind)
    if reader is not None:
        if not shell.source.one_line and kind in _FIRST and _ASSIGNS.match(shell.source.data, node.start_byte):
            _assign_before(shell, node)
        return reader(shell, node)
    if kind == "ERROR":
        return rescue(shell, node)
    if not node.is_named:
        return NOTHING
    return _sequence(shell, node)


def _assign_before(shell: Shell, node: Node) -> None:
    """Read the lines of assignments that the grammar has put into the first command of a statement."""
    if node.parent is not None and node.parent.type in _FIRST:
        return
    while node.type != "command" and node.type in _FIRST and node.named_children:
        node = node.named_children[0]
    for one in assignments_alone(shell, node) if node.type == "command" else []:
        shell.at(one)
        assign(shell, one)


def _sequence(shell: Shell, node: Node) -> Value:
    printed: list[Value] = []
    children = node.children
    signs = len(children) > 1 and shell.source.data.find(b"&", node.start_byte, node.end_byte) >= 0
    for at, child in enumerate(children, 1):
        if not child.is_named:
            continue
        if signs and at < len(children) and children[at].type == "&":
            printed.append(_background(shell, child))
            continue
        found = execute(shell, child)
        if found != NOTHING:
            printed.append(found)
    if len(children) > 2 and children[-1].type == "command" and shell.source.of(children[-1]) in ("true", ":"):
        before = next((child for child in reversed(children[:-1]) if child.is_named), None)
        if before is not None:
            _note_hidden_failure(shell, before, children[-1], ";")
    return lines(printed)


def _background(shell: Shell, node: Node) -> Value:
    """Read what is put into the background: a subshell that runs beside the rest."""
    shell.at(node)
    awaited = _AWAITS.search(shell.source.data, node.end_byte) is not None
    shell.act("schedule", shortened(shell.source.of(node)), "&", **({"awaited": "yes"} if awaited else {}))
    mark = shell.state.mark()
    beside, shell.beside = shell.beside, True
    printed = execute(shell, node)
    shell.beside = beside
    shell.leave(mark)
    return printed


def _chain(node: Node, redirects: list[Node]) -> list[tuple[str, Node, list[Node]]]:
    """Return the parts of `a && b || c`, each with the operator before it and redirections that the grammar put around them all.

    A long chain nests to the left and is read without recursion. `a && b > c` comes as `(a && b) > c`, which is not what it means.
    """
    found: list[tuple[str, Node, list[Node]]] = []
    while True:
        kind = node.type
        if kind == "list" and (count := node.child_count) >= 3:
            children = node.children
            for at in range(count - 2 if count % 2 else count - 3, 0, -2):
                found.append((children[at].type, children[at + 1], redirects))
                redirects = []
            node = children[0]
        elif kind == "redirected_statement" and (body := node.child_by_field_name("body")) is not None and body.type == "list":
            redirects = [*[child for child in node.children if child.start_byte != body.start_byte], *redirects]
            node = body
        else:
            found.append(("", node, redirects))
            return found[::-1]


def _list(shell: Shell, node: Node, redirects: list[Node] | None = None) -> Value:
    """Read `a && b`, `a || b`."""
    chain = _chain(node, redirects or [])
    state = shell.state
    start = state.mark()  # of the part that is read last
    printed: list[Value] = []
    previous = node
    for at, (operator, part, around) in enumerate(chain):
        if operator == "||":
            before = lines(printed)
            other = _or(shell, previous, part, start, around)
            printed = [either([before, other]) if before != other else other]
        elif operator == "&&" and previous.type in _TESTS:
            mark = state.mark()
            printed.append(_with(shell, part, around))
            state.join([state.back(mark), {}])
        else:
            start = state.mark()
            if at + 1 < len(chain) and chain[at + 1][0] == "&":
                printed.append(_background(shell, part))
            else:
                found = _with(shell, part, around) if around else execute(shell, part)
                if found != NOTHING:
                    printed.append(found)
        previous = part
    return lines(printed)


def _with(shell: Shell, node: Node, redirects: list[Node]) -> Value:
    """Read a statement with redirections that the grammar put elsewhere."""
    if not redirects:
        return execute(shell, node)
    if node.type == "command":
        return command(shell, node, redirects)
    if node.type == "list":
        return _list(shell, node, redirects)
    if node.type == "pipeline":
        return _pipeline(shell, node, redirects)
    if node.type == "redirected_statement":
        return _redirected(shell, node, redirects)
    return _around(shell, node, redirects)


def lines(printed: list[Value]) -> Value:
    """Put together what several commands print; what is not known is a line of its own."""
    if len(printed) == 1:
        return printed[0]
    found = [one for one in printed if one != NOTHING]
    if len(found) < 2:
        return found[0] if found else NOTHING
    return joined([(UNKNOWN + "\n",) if one == ANYTHING else one for one in found])


def _or(shell: Shell, left: Node, right: Node, start: int, redirects: list[Node]) -> Value:
    """Read the right side of `a || b`, which runs where `a` did not do what it was to do."""
    _note_hidden_failure(shell, left, right, "||")
    state = shell.state
    if _STOPS.fullmatch(shell.source.data[right.start_byte : right.end_byte][:300]):
        mark = state.mark()
        printed = _with(shell, right, redirects)
        state.back(mark)
        return printed
    done = state.back(start, keep=frozenset(["link", "file"]))
    mark = state.mark()
    printed = _with(shell, right, redirects)
    state.join([done, state.back(mark)])
    return printed


def _note_hidden_failure(shell: Shell, left: Node, right: Node, how: str) -> None:
    """Note that a failure of what decides (tests, builds, checks) is made to read as success."""
    words = shell.source.of(right).strip()
    inside = "in_file" in shell.traits or shell.scene.depth > 0  # at the prompt itself it only says so
    if words not in _SUCCEEDS and not (words.startswith("echo ") and inside):
        return
    hidden = shell.source.of(left)
    if _DECIDES.search(hidden):
        shell.at(right)
        shell.act("exit", "0", f"{how} {words.split()[0]}", hides=shortened(hidden))


def _pipeline(shell: Shell, node: Node, redirects: list[Node] | None = None) -> Value:
    stdin = shell.stdin
    printed: Value = NOTHING
    state = shell.state
    children = [child for child in node.named_children if child.type != "comment"]
    last = children[-1] if children and redirects else None
    for child in children:
        mark = state.mark()
        printed = _with(shell, child, redirects or []) if child is last else execute(shell, child)
        state.back(mark, keep=LASTING)
        shell.stdin = printed
    shell.stdin = stdin
    return printed


def _subshell(shell: Shell, node: Node) -> Value:
    mark = shell.state.mark()
    printed = _sequence(shell, node)
    shell.leave(mark)
    return printed


def _group(shell: Shell, node: Node) -> Value:
    if node.children and node.children[0].type == "((":
        return _arithmetic_statement(shell, node)
    return _sequence(shell, node)


def _arithmetic_statement(shell: Shell, node: Node) -> Value:
    evaluate_arithmetic(shell, shell.source.of(node)[2:-2])
    return NOTHING


_ASSIGNMENT: Final = re.compile(r"\s*(?:(\w+)\s*([-+*/%]?)=(?!=)\s*([^,]*)|(?:\+\+|--)?(\w+)\s*(\+\+|--)?)\s*")


def evaluate_arithmetic(shell: Shell, expression: str) -> int | None:
    """Evaluate `((...))`, its assignments included; return the last value."""
    value: int | None = None

    def variable(name: str) -> str | None:
        found = shell.state.get("var", name)
        return found[0] if found is not None and known(found) else None

    for part in expression.split(","):
        found = _ASSIGNMENT.fullmatch(part)
        if found and found[1]:
            value = number(f"{found[1]}{found[2]}({found[3]})" if found[2] else found[3], variable)
            shell.state.set("var", found[1], (str(value),) if value is not None else ANYTHING)
        elif found and ("++" in part or "--" in part):
            value = number(f"{found[4]}{'+' if '++' in part else '-'}1", variable)
            shell.state.set("var", found[4], (str(value),) if value is not None else ANYTHING)
        else:
            value = number(part, variable)
    return value


def _if(shell: Shell, node: Node) -> Value:
    """Read all branches, each from the state after its condition."""
    state = shell.state
    branches: list[dict[tuple[str, str], object]] = []
    printed: list[Value] = []
    parts: list[list[Node]] = [[]]
    otherwise = False
    for child in node.children:
        if child.type in ("elif_clause", "else_clause"):
            parts.append([child])
            otherwise = otherwise or child.type == "else_clause"
        elif child.type == "then":
            parts.append([])
        elif child.is_named:
            parts[-1].append(child)
    for one in parts[0]:
        execute(shell, one)
    for part in parts[1:]:
        mark = state.mark()
        printed += [execute(shell, one) for one in part]
        branches.append(state.back(mark))
    state.join(branches if otherwise else [*branches, {}])
    return either(printed or [NOTHING]) if len(printed) < 8 else ANYTHING


def _while(shell: Shell, node: Node) -> Value:
    state = shell.state
    mark = state.mark()
    printed = _sequence(shell, node)
    state.join([state.back(mark), {}])
    return printed


def _repeated(read: Callable[[Shell, Any], Value]) -> Callable[[Shell, Any], Value]:
    """Give what stands in a loop the trait `loop`."""

    def reader(shell: Shell, node: Any) -> Value:
        before, shell.traits = shell.traits, {**shell.traits, "loop": "yes"}
        try:
            return read(shell, node)
        finally:
            shell.traits = before

    return reader


def _for(shell: Shell, node: Node) -> Value:
    name = node.child_by_field_name("variable")
    body = node.child_by_field_name("body")
    if name is None or body is None:
        return _sequence(shell, node)
    variable = shell.source.of(name)
    shell.at(node)
    values = fields(shell, node.children_by_field_name("value"))
    if not any(child.type == "in" for child in node.children):
        values = list(shell.state.get("args", "", []))
    return _turns(shell, variable, [one for value in values for one in value] or [""], body)


def _plain_for(shell: Shell, node: Loop) -> Value:
    shell.span = shell.source.where(node.start_byte, node.end_byte)
    return _turns(shell, node.name, node.words, cast("Node", node.body))


def _plain_body(shell: Shell, node: Body) -> Value:
    return lines([execute(shell, cast("Node", one)) for one in node.statements])


def _turns(shell: Shell, variable: str, flat: list[str], body: Node) -> Value:
    """Read the body of a loop with what its variable is in turn, or with all of it at once."""
    if len(flat) == 1:
        shell.state.set("var", variable, (flat[0],))
        found = execute(shell, body)
        return found if len(found) == 1 else either([found])
    if len(flat) <= _ITERATIONS and _COUNTS.search(shell.source.data, body.start_byte, body.end_byte):
        printed: list[Value] = []
        for one in flat:
            if not shell.again():
                break
            shell.state.set("var", variable, (one,))
            printed.append(execute(shell, body))
        return joined(printed)
    for start in range(0, len(flat), _ITERATIONS):
        if start and not shell.again():
            break
        shell.state.set("var", variable, one_of(flat[start : start + _ITERATIONS]))
        found = execute(shell, body)
    return either([found])


def _c_for(shell: Shell, node: Node) -> Value:
    """Read `for ((...; ...; ...))`, turn by turn while the condition is known."""
    body = node.child_by_field_name("body")
    if body is None:
        return _sequence(shell, node)
    head = shell.source.data[node.start_byte : body.start_byte].decode("utf-8", "replace")
    inner = head.partition("((")[2].rpartition("))")[0].split(";")
    if len(inner) != 3:
        return execute(shell, body)
    evaluate_arithmetic(shell, _plain(shell, inner[0]))
    printed: list[Value] = []
    for _ in range(_ITERATIONS):
        held = evaluate_arithmetic(shell, _plain(shell, inner[1])) if inner[1].strip() else None
        if held == 0 or (printed and (held is None or not shell.again())):
            break
        printed.append(execute(shell, body))
        evaluate_arithmetic(shell, _plain(shell, inner[2]))
    return joined(printed) if printed else NOTHING


def _plain(shell: Shell, expression: str) -> str:
    from rosellm.roserlhf.guard.shell.text import expand

    return expand(shell, expression, quoted=True)[0] if "{" in expression else expression


def _case(shell: Shell, node: Node) -> Value:
    state = shell.state
    branches: list[dict[tuple[str, str], object]] = []
    printed: list[Value] = []
    subject = node.child_by_field_name("value")
    if subject is not None:
        shell.at(subject)
        text(shell, subject)
    for item in node.named_children:
        if item.type != "case_item":
            continue
        mark = state.mark()
        values = {child.start_byte for child in item.children_by_field_name("value")}
        printed += [execute(shell, child) for child in item.named_children if child.start_byte not in values]
        branches.append(state.back(mark))
    state.join(branches)
    return either(printed) if 0 < len(printed) < 8 else NOTHING


def _function(shell: Shell, node: Node) -> Value:
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name is None or body is None:
        return _sequence(shell, node)
    called = shell.source.of(name)
    shell.at(node)
    if called in _SHADOWED:
        shell.act("define", called, f"shell function {shortened(shell.source.of(body), 80)}")
    shell.state.set("function", called, (shell.source, body))
    mark = shell.state.mark()
    steps, shell.traits = shell.steps, {**shell.traits, "in_function": called}
    arguments = shell.state.get("args", "")
    if _is_called(shell, called, node.end_byte):
        shell.traits = {name: value for name, value in shell.traits.items() if name != "in_function"}
        return NOTHING
    shell.state.set("args", "", [ANYTHING] * 9)
    execute(shell, body)
    shell.state.back(mark)
    if arguments is not None:
        shell.state.set("args", "", arguments)
    shell.state.set("function", called, (shell.source, body))
    shell.steps = steps
    shell.traits = {name: value for name, value in shell.traits.items() if name != "in_function"}
    return NOTHING


_SHADOWED: Final = names(
    """cd test exit diff cmp python python3 pytest make npm node go cargo git grep bash sh timeout kill trap return
    true false set"""
)


def _is_called(shell: Shell, name: str, end: int) -> bool:
    """Tell whether a function's name stands again behind its definition: then it is read where it is called."""
    return (
        re.search(rb"(?<![\w./-])" + re.escape(name.encode("utf-8", "replace")) + rb"(?![\w./-])", shell.source.data[end:])
        is not None
    )


def _negated(shell: Shell, node: Node) -> Value:
    return _sequence(shell, node)


def _comment(shell: Shell, node: Node) -> Value:
    shell.at(node)
    words = shell.source.of(node).lstrip("#!").strip()
    if words:
        shell.act("text", shortened(words, 2000), "comment")
    return NOTHING


def _redirected(shell: Shell, node: Node, further: list[Node] | None = None) -> Value:
    """Read `body < in > out`; words behind a redirection's file belong to the command."""
    body = node.child_by_field_name("body")
    redirects = [child for child in node.children if body is None or child.start_byte != body.start_byte] + (further or [])
    if body is not None and body.type in ("command", "list", "pipeline"):
        return _with(shell, body, redirects)
    return _around(shell, body if body is not None else node, redirects, empty=body is None)


def _around(shell: Shell, node: Node, redirects: list[Node], *, empty: bool = False) -> Value:
    """Read a group, a loop or nothing with redirections around it."""
    shell.at(node)
    shell.program = "" if empty else node.type.partition("_")[0]
    with redirections(shell, redirects) as found:
        printed = found.printed if empty else execute(shell, node)
        if empty and found.words:
            printed = run_words(shell, found.words)
        return found.out(printed)


def _assignments(shell: Shell, node: Node) -> Value:
    shell.at(node)
    for child in [node] if node.type == "variable_assignment" else node.named_children:
        if child.type == "variable_assignment":
            assign(shell, child)
    return NOTHING


def _plain_assignment(shell: Shell, node: Assigned) -> Value:
    shell.span = shell.source.where(node.start_byte, node.end_byte)
    assign_plain(shell, node)
    return NOTHING


def _redirect_alone(shell: Shell, node: Node) -> Value:
    """`$(< file)`."""
    shell.at(node)
    shell.program = "<"
    with redirections(shell, [node]) as found:
        return found.printed


_READERS: Final[dict[str, Callable[[Shell, Node], Value]]] = {
    "program": _sequence,
    "list": _list,
    "pipeline": _pipeline,
    "command": command,
    "redirected_statement": _redirected,
    "subshell": _subshell,
    "compound_statement": _group,
    "do_group": _sequence,
    "if_statement": _if,
    "while_statement": _repeated(_while),
    "for_statement": _repeated(_for),
    "c_style_for_statement": _repeated(_c_for),
    "case_statement": _case,
    "function_definition": _function,
    "negated_command": _negated,
    "test_command": condition,
    "declaration_command": declare,
    "unset_command": unset,
    "variable_assignment": _assignments,
    "variable_assignments": _assignments,
    "comment": _comment,
    "file_redirect": _redirect_alone,
    "herestring_redirect": _redirect_alone,
}
_PLAIN: Final[dict[type, Callable[[Shell, Any], Value]]] = {
    PlainCommand: plain_command,
    ExpandedCommand: expanded_command,
    Redirected: redirected_command,
    Assigned: _plain_assignment,
    Body: _plain_body,
    Loop: _repeated(_plain_for),
}
"""Statements of a text that was read without the grammar."""
__all__ = ["Redirections", "execute"]
