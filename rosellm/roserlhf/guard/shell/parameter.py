"""`${...}`: parameters and what can be done to them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell.arithmetic import number
from rosellm.roserlhf.guard.shell.shell import Shell
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value, known, mapped
from rosellm.roserlhf.guard.shell.wildcard import compiled

_HEAD: Final = re.compile(r"([#!]?)([A-Za-z_]\w*|\d+|[@*#?$!-])(?:\[([^\]]*)\])?([\s\S]*)")
_USUAL: Final = {"SHELL": ("/bin/bash",), "BASH": ("/bin/bash",), "OSTYPE": ("linux-gnu",), "MACHTYPE": ("x86_64-pc-linux-gnu",)}
_PATH: Final = ("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",)
"""Only where letters are cut out of it: as a list of directories it is not known."""
_COMPUTED: Final = frozenset(["PWD", "BASHPID"])
_DEFAULT: Final = re.compile(r"(:?[-=?+])([\s\S]*)")


def parameter(shell: Shell, inner: str, depth: int = 0) -> Value | list[Value]:
    """Expand what stands between `${` and `}`.

    Returns:
        its value; for `$@`, `$*` and whole arrays a list, one value per field.
    """
    if inner.isascii() and inner.isidentifier():
        known_now = shell.state.known
        if ("array", inner) not in known_now and inner not in _COMPUTED:
            plain: Value | None = known_now.get(("var", inner))
            return plain or _USUAL.get(inner) or ANYTHING
    if inner == "#":
        return (str(len(shell.state.get("args", "", []))),)
    found = _HEAD.fullmatch(inner)
    if not found:
        return ANYTHING
    mark, name, index, rest = found.groups()
    if mark == "#" and not rest:
        return _length(shell, name, index)
    if mark == "!":
        if rest in ("*", "@"):
            return [(one,) for one in shell.state.names("var") if one.startswith(name)]
        if index in ("@", "*"):
            return [(str(at),) for at in range(len(shell.state.get("array", name, [])))]
        value = _plain(shell, name, index)
        if isinstance(value, list) or value is None or not known(value):
            return ANYTHING
        return parameter(shell, value[0] + rest, depth + 1) if depth < 8 and _HEAD.fullmatch(value[0] + rest) else ANYTHING
    value = _plain(shell, name, index)
    if rest and (default := _DEFAULT.fullmatch(rest)):
        return _defaulted(shell, name, value, default[1], default[2], depth)
    if value is None and rest and name == "PATH":
        value = _PATH
    if value is None:
        return ANYTHING
    if not rest:
        return value
    change = _change(shell, rest, depth)
    if isinstance(value, list):
        if rest[0] == ":":
            return _sliced_fields(shell, value, rest[1:])
        return [mapped(change, one) for one in value]
    return mapped(change, value)


def _plain(shell: Shell, name: str, index: str | None) -> Value | list[Value] | None:
    """Return a parameter's value; None if it is not set, or not known to be."""
    state = shell.state
    if name in ("@", "*"):
        return list(state.get("args", "", []))
    if name.isdigit():
        if name == "0":
            return state.get("var", "0", ("bash",))  # type: ignore[no-any-return]
        args = state.get("args", "", [])
        return args[int(name) - 1] if int(name) <= len(args) else NOTHING
    if name == "PWD":
        return shell.cwd
    if not (name[0].isalpha() or name[0] == "_"):
        return {"$": ("self",), "#": (str(len(state.get("args", "", []))),), "!": ("$!",)}.get(name, ANYTHING)
    if name in ("BASHPID",):
        return ("self",)
    array = state.get("array", name)
    if index is None:
        return state.get("var", name, _USUAL.get(name)) if array is None else (array[0] if array else NOTHING)
    if index in ("@", "*"):
        return (
            list(array) if array is not None else ([state.get("var", name)] if state.get("var", name) is not None else [ANYTHING])
        )
    if array is None:
        return state.get("var", f"{name}[{index}]") or (state.get("var", name) if index == "0" else None)
    at = number(index, lambda one: _one(shell, one))
    if at is None:
        return tuple(text for value in array[:64] for text in value) or NOTHING
    return array[at] if -len(array) <= at < len(array) else NOTHING


def _one(shell: Shell, name: str) -> str | None:
    value: Value | None = shell.state.get("var", name)
    return value[0] if value is not None and known(value) else None


def _length(shell: Shell, name: str, index: str | None) -> Value:
    value = _plain(shell, name, index)
    if isinstance(value, list):
        return (str(len(value)),)
    return (str(len(value[0])),) if value is not None and len(value) == 1 and known(value) else ANYTHING


def _defaulted(
    shell: Shell, name: str, value: Value | list[Value] | None, how: str, operand: str, depth: int
) -> Value | list[Value]:
    from rosellm.roserlhf.guard.shell.text import expand

    empty = value is None or (how[0] == ":" and value in (NOTHING, [])) or value == []
    kind = how[-1]
    if kind == "+":
        return NOTHING if empty and value is not None else expand(shell, operand, quoted=False, depth=depth + 1)
    if not empty and value is not None:
        return value
    if kind == "?":
        return ANYTHING
    found = expand(shell, operand, quoted=False, depth=depth + 1)
    if kind == "=":
        shell.state.set("var", name, found)
    return found


def _change(shell: Shell, rest: str, depth: int) -> Callable[[str], str]:
    """Return the function of an operator; what it does to texts that are not known wholly is not known, but for affixes."""
    from rosellm.roserlhf.guard.shell.text import expand

    def operand(text: str) -> str:
        return expand(shell, text, quoted=False, depth=depth + 1)[0]

    if rest[0] in "#%":
        twice = rest[:2] in ("##", "%%")
        pattern = operand(rest[2 if twice else 1 :])
        return lambda text: _trimmed(text, pattern, rest[0], longest=twice)
    if rest[0] == "/":
        every, anchor = rest[:2] == "//", rest[1:2] if rest[1:2] in ("#", "%") else ""
        body = rest[2 if every or anchor else 1 :]
        cut = _unescaped_slash(body)
        old, new = operand(body[:cut]), operand(body[cut + 1 :])
        return lambda text: _replaced(text, old, new, every=every, anchor=anchor)
    if rest[0] == ":":
        return lambda text: _sliced(shell, text, rest[1:])
    if rest[0] in "^,":
        first = str.upper if rest[0] == "^" else str.lower
        return first if rest[:2] in ("^^", ",,") else lambda text: first(text[:1]) + text[1:]
    if rest in ("@U", "@L", "@u"):
        return {"@U": str.upper, "@L": str.lower, "@u": str.capitalize}[rest]
    if rest == "@P" or rest == "@E":
        from rosellm.roserlhf.guard.shell.escapes import ansi

        return ansi
    return lambda text: text if rest.startswith("@") else UNKNOWN


def _unescaped_slash(text: str) -> int:
    found = re.search(r"(?<!\\)/", text)
    return found.start() if found else len(text)


def _sliced(shell: Shell, text: str, bounds: str) -> str:
    start, length = _bounds(shell, bounds)
    if start is None or UNKNOWN in text:
        return UNKNOWN
    begin = max(len(text) + start, 0) if start < 0 else start
    if length is None:
        return text[begin:]
    return text[begin : begin + length] if length >= 0 else text[begin : len(text) + length]


def _sliced_fields(shell: Shell, values: list[Value], bounds: str) -> list[Value]:
    start, length = _bounds(shell, bounds)
    if start is None:
        return values
    begin = max(start - 1, 0)
    return values[begin:] if length is None else values[begin : begin + max(length, 0)]


def _bounds(shell: Shell, bounds: str) -> tuple[int | None, int | None]:
    first, colon, second = bounds.partition(":")
    start = number(first.strip() or "0", lambda name: _one(shell, name))
    length = number(second, lambda name: _one(shell, name)) if colon else None
    return (None, None) if colon and length is None else (start, length)


def _trimmed(text: str, glob: str, side: str, *, longest: bool) -> str:
    """Take a pattern off the start (`#`) or the end (`%`)."""
    if not any(c in glob for c in "*?["):
        if side == "#":
            return text.removeprefix(glob)
        return text.removesuffix(glob) if glob else text
    if glob == "*/" + glob[2:] and side == "#" and not any(c in glob[2:] for c in "*?[") and len(glob) == 2:
        return text.rpartition("/")[2] if longest else (text.partition("/")[2] if "/" in text else text)
    pattern = compiled(glob, "longest" if longest else "shortest")
    if pattern is None or len(text) > 10_000:
        return UNKNOWN
    cuts = range(len(text) + 1)
    if side == "#":
        found = pattern.match(text)
        return text[found.end() :] if found else text
    for cut in cuts if longest else reversed(cuts):
        if len(text) - cut <= 400 and pattern.fullmatch(text[cut:]):
            return text[:cut]
    return text


def _replaced(text: str, old: str, new: str, *, every: bool, anchor: str) -> str:
    if not old:
        return text
    if not any(c in old for c in "*?[\\"):
        if anchor:
            if anchor == "#":
                return new + text[len(old) :] if text.startswith(old) else text
            return text[: len(text) - len(old)] + new if text.endswith(old) else text
        return text.replace(old, new) if every else text.replace(old, new, 1)
    pattern = compiled(old.replace("\\", ""), "longest")
    if pattern is None or anchor:
        return UNKNOWN
    parts: list[str] = []
    at = 0
    for found in pattern.finditer(text):
        if found.end() > found.start():
            parts += [text[at : found.start()], new]
            at = found.end()
            if not every:
                break
    return "".join([*parts, text[at:]])
