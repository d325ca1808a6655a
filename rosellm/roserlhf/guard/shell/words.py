"""Words of the shell -> the texts that they become: quoting, variables, substitutions, braces, splitting, tilde."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell.arithmetic import number
from rosellm.roserlhf.guard.shell.braces import expanded
from rosellm.roserlhf.guard.shell.escapes import ansi
from rosellm.roserlhf.guard.shell.parameter import parameter
from rosellm.roserlhf.guard.shell.plain import Variable, Word
from rosellm.roserlhf.guard.shell.shell import Shell
from rosellm.roserlhf.guard.shell.text import expand
from rosellm.roserlhf.guard.shell.value import ANYTHING, BLANKS, NOTHING, Value, joined, known, mapped, short, split

if TYPE_CHECKING:
    from tree_sitter import Node

LITERAL, QUOTED, SPLIT, MANY = range(4)
Segment = tuple[int, list[Value]]
"""How a part of a word came about, and its value; `MANY` has one value per field."""
_ESCAPED: Final = re.compile(r"\\(\n|[\s\S])")
_IN_QUOTES: Final = re.compile(r'\\([$`"\\\n])')
_STAR: Final = re.compile(r"\$(?:\*|\{\*\}|\{\w+\[\*\]\})")
_BLANK: Final = frozenset(BLANKS)
_FIRST_PLACE: Final = 0xF0000
_LITERALS: Final = frozenset(
    ["word", "number", "variable_name", "special_variable_name", "file_descriptor", "test_operator", "regex", "brace_expression"]
)


def fields(shell: Shell, nodes: list[Node]) -> list[Value]:
    """Expand the words of a command; nodes without a gap between them are one word."""
    found: list[Value] = []
    at, count = 0, len(nodes)
    while at < count:
        node = nodes[at]
        first, at = at, at + 1
        while at < count and nodes[at].start_byte == node.end_byte:
            node = nodes[at]
            at += 1
        if at - first > 1:
            found += word(shell, nodes[first:at])
            continue
        form = node.type
        if form == "command_name" and node.child_count == 1:
            only = node.child(0)
            if only is not None:
                node, form = only, only.type
        if form == "word" or form == "number":
            literal = shell.source.data[node.start_byte : node.end_byte].decode("utf-8", "surrogatepass")
            if "\\" not in literal and literal[:1] != "~" and "{" not in literal:
                found.append((literal,))
                continue
        found += word(shell, [node])
    return found


def fields_of(shell: Shell, words: Sequence[Word]) -> list[Value]:
    """Expand the words of a command that was read without the grammar."""
    found: list[Value] = []
    for one in words:
        if isinstance(one, str):
            found.append((one,))
        elif isinstance(one, Variable):
            found.append(in_quotes(shell, one.name))
        else:
            found += _fields(shell, [(SPLIT, [_printed_by(shell, cast("list[Node]", one.statements))])])
    return found


def in_quotes(shell: Shell, name: str) -> Value:
    """Expand `"$name"`."""
    value = parameter(shell, name)
    if isinstance(value, list):
        return joined_fields(value)
    return (short(value[0]),) if len(value) == 1 else tuple(map(short, value))


def word(shell: Shell, nodes: list[Node]) -> list[Value]:
    """Expand one word, given as the nodes that it is made of, to fields."""
    if len(nodes) == 1:
        node = nodes[0]
        form = node.type
        if form == "string":
            quoted: list[Segment] = []
            _string(shell, node, quoted)
            return quoted[0][1] if len(quoted) == 1 and quoted[0][0] == QUOTED else _fields(shell, quoted)
        if form == "raw_string":
            return [(shell.source.of(node)[1:-1],)]
    segments: list[Segment] = []
    for node in nodes:
        _segments(shell, node, segments)
    for kind, values in segments:
        if kind == LITERAL and "{" in values[0][0]:
            segments = segments[1:] if segments[0] == (QUOTED, [NOTHING]) else segments
            return [field for one in _braced(segments) for field in _fields(shell, one)]
    if len(segments) == 1 and segments[0][0] == QUOTED:
        return segments[0][1]
    return _fields(shell, segments)


def text(shell: Shell, node: Node) -> Value:
    """Expand a word where nothing is split: a value, a redirection's file."""
    if node.type == "word":
        literal = shell.source.of(node)
        if "\\" not in literal and literal[:1] != "~":
            return (literal,)
    segments: list[Segment] = []
    _segments(shell, node, segments)
    parts = []
    for kind, values in segments:
        if kind == MANY:
            parts.append(joined_fields(values))
        else:
            parts.append(values[0] if values else NOTHING)
    found = joined(parts) if parts else NOTHING
    return _tilde(shell, segments, found) if segments and segments[0][0] == LITERAL else found


def joined_fields(values: list[Value], between: str = " ") -> Value:
    """Join fields, as `"$*"` does."""
    if not values:
        return NOTHING
    return joined([part for value in values for part in ((between,), value)][1:])


def _fields(shell: Shell, segments: list[Segment]) -> list[Value]:
    """Put the segments of a word together; split what is not quoted."""
    if len(segments) == 1 and segments[0][0] == SPLIT:
        value = segments[0][1][0]
        separators = shell.separators
        if len(value) > 1 or (_BLANK if separators is BLANKS else frozenset(separators)).isdisjoint(value[0]):
            return [value] if value != NOTHING else []
    done: list[Value] = []
    parts: list[Value] = []
    there = False
    for kind, values in segments:
        if kind in (LITERAL, QUOTED):
            parts.append(values[0])
            there = True
            continue
        separators = shell.separators if kind == SPLIT and len(values[0]) == 1 else ""
        if separators and not set(separators).isdisjoint(values[0][0]) and known(values[0]):
            only = values[0][0]
            pieces: list[Value] = [(piece,) for piece in split(only, separators)]
            before, after = only[0] in separators, only[-1] in separators
        else:
            pieces, before, after = values, False, False
        if before and (parts or there):
            done.append(joined(parts or [NOTHING]))
            parts, there = [], False
        for count, piece in enumerate(pieces):
            if count:
                done.append(joined(parts or [NOTHING]))
                parts = []
            parts.append(piece)
            there = there or piece != NOTHING
        if after and parts:
            done.append(joined(parts))
            parts, there = [], False
    if there:
        done.append(joined(parts))
    if done and segments[0][0] == LITERAL:
        done[0] = _tilde(shell, segments, done[0])
    return done


def _tilde(shell: Shell, segments: list[Segment], value: Value) -> Value:
    if not segments or segments[0][0] != LITERAL or not segments[0][1][0][0].startswith("~"):
        return value
    return mapped(lambda text: tilde(shell, text), value)


def tilde(shell: Shell, text: str) -> str:
    """Expand a leading `~`."""
    user, slash, rest = text[1:].partition("/")
    if user == "":
        return shell.state.variable("HOME")[0] + slash + rest
    if user in ("+", "-"):
        return (shell.cwd[0] if user == "+" else UNKNOWN) + slash + rest
    if user == "root":
        return "/root" + slash + rest
    return f"/home/{user}{slash}{rest}" if user.isidentifier() else text


def _braced(segments: list[Segment]) -> list[list[Segment]]:
    """Expand braces; parts that are no literal text stand in as one character each."""
    template = "".join(values[0][0] if kind == LITERAL else chr(_FIRST_PLACE + at) for at, (kind, values) in enumerate(segments))
    found: list[list[Segment]] = []
    for one in expanded(template):
        parts: list[Segment] = []
        for character in re.split(f"([{chr(_FIRST_PLACE)}-{chr(_FIRST_PLACE + len(segments))}])", one):
            if character and _FIRST_PLACE <= ord(character[0]) <= _FIRST_PLACE + len(segments):
                parts.append(segments[ord(character[0]) - _FIRST_PLACE])
            elif character:
                parts.append((LITERAL, [(character,)]))
        found.append(parts)
    return found


def _segments(shell: Shell, node: Node, into: list[Segment]) -> None:
    kind = node.type
    if kind in _LITERALS:
        literal = shell.source.of(node)
        into.append((LITERAL, [(_ESCAPED.sub(_unescaped, literal) if "\\" in literal else literal,)]))
    elif kind in ("concatenation", "command_name"):
        for child in node.children:
            _segments(shell, child, into)
    elif (reader := _READERS.get(kind)) is not None:
        reader(shell, node, into)
    elif kind == "$":
        if shell.source.of(node) == "$$":
            into.append((QUOTED, [("self",)]))
    else:
        literal = shell.source.of(node)
        into += [(SPLIT, [value]) for value in [expand(shell, literal, quoted=False)]]


def _unescaped(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]


def _raw(shell: Shell, node: Node, into: list[Segment]) -> None:
    into.append((QUOTED, [(shell.source.of(node)[1:-1],)]))


def _ansi(shell: Shell, node: Node, into: list[Segment]) -> None:
    plain = shell.source.of(node)[2:-1]
    decoded = ansi(plain)
    if "\\" in plain and any(c.isalnum() for c in decoded) and re.search(r"\\[xuU0-7]", plain):
        shell.note_decoded("escapes", decoded)
    into.append((QUOTED, [(decoded,)]))


def _string(shell: Shell, node: Node, into: list[Segment]) -> None:
    """Read a quoted string; the grammar leaves out some blanks, which are taken from the text."""
    children = node.children
    if len(children) == 3:
        only = children[1]
        form = only.type
        if form == "string_content":
            content = shell.source.of(only)
            into.append((QUOTED, [(_IN_QUOTES.sub(_unescaped, content) if "\\" in content else content,)]))
            return
        if form == "simple_expansion" and children[2].type == '"' and only.end_byte == node.end_byte - 1:
            variable = shell.source.of(only)
            if variable[0] == "$" and only.start_byte == node.start_byte + 1:  # nothing beside it, no blank either
                value = parameter(shell, variable[1:])
                if not isinstance(value, list):
                    into.append((QUOTED, [joined([NOTHING, value])]))
                    return
    parts: list[Value] = []
    at = node.start_byte + 1
    many: tuple[int, list[Value]] | None = None
    inner = [child for child in children if child.is_named and child.type != "string_content"]
    for child in inner:
        start = child.start_byte  # to which the grammar counts blanks that stand before it
        while start < child.end_byte and shell.source.data[start] in b" \t\r\n":
            start += 1
        parts.append((_in_quotes(shell, at, start),))
        found: list[Segment] = []
        _segments(shell, child, found)
        for kind, values in found:
            if kind == MANY and many is None and not _STAR.fullmatch(shell.source.of(child)):
                many = (len(parts), values)
                parts.append(NOTHING)
            else:
                parts.append(values[0] if kind != MANY and values else joined_fields(values, shell.separators[:1]))
        at = child.end_byte
    end = node.end_byte - 1 if children[-1].type == '"' and not children[-1].is_missing and len(children) > 1 else node.end_byte
    parts.append((_in_quotes(shell, at, max(at, end)),))
    if many is None:
        into.append((QUOTED, [joined(parts)]))
        return
    before, after = joined(parts[: many[0]] or [NOTHING]), joined(parts[many[0] :])
    into += [(QUOTED, [before])] if before != NOTHING else []
    into.append((MANY, many[1]))
    into += [(QUOTED, [after])] if after != NOTHING else []


def _in_quotes(shell: Shell, start: int, end: int) -> str:
    if start >= end:
        return ""
    literal = shell.source.data[start:end].decode("utf-8", "replace")
    return _IN_QUOTES.sub(_unescaped, literal) if "\\" in literal else literal


def _variable(shell: Shell, node: Node, into: list[Segment]) -> None:
    name = shell.source.of(node).lstrip()[1:]
    _of_parameter(shell, name, into)


def _expansion(shell: Shell, node: Node, into: list[Segment]) -> None:
    _of_parameter(shell, shell.source.of(node).lstrip()[2:-1], into)


def _of_parameter(shell: Shell, inner: str, into: list[Segment]) -> None:
    found = parameter(shell, inner)
    into.append((MANY, found) if isinstance(found, list) else (SPLIT, [found]))


def _substitution(shell: Shell, node: Node, into: list[Segment]) -> None:
    """`$(...)` and backticks: what the commands inside print."""
    if shell.source.data.find(b"\\", node.start_byte, node.end_byte) >= 0:
        text = shell.source.of(node).lstrip()
        if text.startswith("`"):
            from rosellm.roserlhf.guard.shell.text import substituted

            into.append((SPLIT, [substituted(shell, re.sub(r"\\([$`\\])", r"\1", text[1:-1]))]))
            return
    into.append((SPLIT, [_printed_by(shell, node.named_children)]))


def _printed_by(shell: Shell, statements: list[Node]) -> Value:
    span, stdin, program = shell.span, shell.stdin, shell.program
    mark = shell.state.mark()
    printed = shell.run(statements[0]) if len(statements) == 1 else joined([shell.run(one) for one in statements] or [NOTHING])
    shell.leave(mark)
    shell.span, shell.stdin, shell.program = span, stdin, program
    return mapped(_printed, printed)


def _printed(text: str) -> str:
    text = text.rstrip("\n")
    return UNKNOWN if UNKNOWN in text and not text.replace(UNKNOWN, "").strip() else text


def _process(shell: Shell, node: Node, into: list[Segment]) -> None:
    """`<(...)`: a file whose content is what the commands print."""
    found: list[Segment] = []
    _substitution(shell, node, found)
    path = f"/dev/fd/{63 - len(shell.state.names('file'))}"
    printed = found[0][1][0]
    shell.state.set("file", path, printed[0] if known(printed) else None)
    into.append((QUOTED, [(path,)]))


def _arithmetic(shell: Shell, node: Node, into: list[Segment]) -> None:
    inner = shell.source.of(node).lstrip()
    inner = inner[3:-2] if inner.startswith("$((") else inner[2:-1]
    for child in node.named_children:
        if child.type in ("command_substitution",):
            _segments(shell, child, [])
    found = number(inner, lambda name: _one(shell, name))
    into.append((SPLIT, [(str(found),) if found is not None else ANYTHING]))


def _one(shell: Shell, name: str) -> str | None:
    value: Value | None = shell.state.get("var", name)
    return value[0] if value is not None and known(value) else None


def _extglob(shell: Shell, node: Node, into: list[Segment]) -> None:
    into.append((LITERAL, [(re.sub(r"[?*+@!]\([^()]*\)", "*", shell.source.of(node)),)]))


_READERS: Final[dict[str, Callable[[Shell, Node, list[Segment]], None]]] = {
    "raw_string": _raw,
    "ansi_c_string": _ansi,
    "ansii_c_string": _ansi,
    "string": _string,
    "translated_string": lambda shell, node, into: _string(shell, node.children[-1], into),
    "simple_expansion": _variable,
    "expansion": _expansion,
    "command_substitution": _substitution,
    "process_substitution": _process,
    "arithmetic_expansion": _arithmetic,
    "extglob_pattern": _extglob,
}
