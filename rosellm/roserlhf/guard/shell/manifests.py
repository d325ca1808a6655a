"""Commands that set one value in a manifest: `npm pkg set`, `jq '.a = 1' f > g`, `yq -i`, `crudini --set`: read as its content."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Final

from rosellm.roserlhf.guard.content.substituted import patch_of
from rosellm.roserlhf.guard.shell.file import act_on, read_path, write_path
from rosellm.roserlhf.guard.shell.shell import Shell
from rosellm.roserlhf.guard.shell.value import ANYTHING, Value

_MOST: Final = 40
_VERBS: Final = ("set", "delete", "rm", "get", "ls", "list", "fix")
_ASSIGNED: Final = re.compile(
    r"""\b(?:this|data|obj|json|doc|root|\$)\.([A-Za-z_][\w.\[\]"'-]{0,120}?)\s*=\s*("(?:[^"\\]|\\.)*"|'[^']*'|[\w.-]+)"""
)
_SET: Final = re.compile(r"""\.([A-Za-z_][\w.\[\]"'-]{0,120}?)\s*(?:\||\+|//)?=\s*("(?:[^"\\]|\\.)*"|'[^']*'|[\w.-]+)""")

_OBJECT: Final = re.compile(r"\|?=\s*(\{[^\n]{2,400}\})")


def set_in_manifest(shell: Shell, name: str, verb: str, operands: Sequence[str]) -> None:
    """Read `npm pkg set scripts.test=x`, `npm set-script test x`, `composer config scripts.test x`, `npm config se"
    "t script-shell x`."""
    file = "composer.json" if name == "composer" else "package.json" if verb in ("pkg", "set-script") else ".npmrc"
    words = list(operands)
    what = words.pop(0) if verb in ("pkg", "config") and words[:1] and words[0] in _VERBS else ""
    if what in ("get", "ls", "list"):
        act_on(shell, "read", file, f"{name} {verb}")
        return
    pairs: dict[str, str] = {}
    while words and len(pairs) < _MOST:
        key, equals, value = words.pop(0).partition("=")
        if not equals:
            value = words.pop(0) if words else ""
        pairs[("scripts." if verb == "set-script" else "") + key] = value
    write_path(shell, file, f"{name} {verb}", "in place")
    _define(shell, file, pairs)


def _define(shell: Shell, file: str, pairs: dict[str, str]) -> None:
    """Read values by dotted keys as the content of their file."""
    for path in shell.paths(file)[:4]:
        if file.endswith(".json"):
            shell.read("patch", patch_of(path, [("", json.dumps(_nested(pairs), indent=1))]))
            shell.read(path, json.dumps(_nested(pairs)))
        else:
            shell.read(path, "".join(f"{key} = {value}\n" for key, value in pairs.items()))


def _nested(pairs: dict[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs.items():
        inner = found
        parts = [part for part in re.split(r"[.\[\]]+", key) if part]
        for part in parts[:-1]:
            after = inner.setdefault(part, {})
            inner = after if isinstance(after, dict) else {}
        if parts:
            inner[parts[-1]] = value
    return found


def set_by_query(shell: Shell, file: str, code: str) -> None:
    """Read what a query of `jq` or `yq` assigns as content of the file that it is asked of."""
    if changed := _OBJECT.search(code):
        for path in shell.paths(file)[:4]:
            shell.read("patch", patch_of(path, [("", changed[1])]))
    found = {one[1].replace('"', ""): one[2].strip("\"'") for one in _SET.finditer(code)}
    if found:
        _define(shell, file, found)


def _ini(shell: Shell, argv: list[str]) -> Value:
    """`crudini --set FILE SECTION KEY VALUE`."""
    words = [word for word in argv[1:] if not word.startswith("-")]
    if not words:
        return ANYTHING
    read_path(shell, words[0], argv[0])
    if "--set" in argv or "--del" in argv or "--merge" in argv:
        write_path(shell, words[0], argv[0], "in place")
        if len(words) > 3:
            for path in shell.paths(words[0])[:4]:
                shell.read(path, f"[{words[1]}]\n{words[2]} = {words[3]}\n")
    return ANYTHING


def _json(shell: Shell, argv: list[str]) -> Value:
    """`json -I -f FILE -e 'this.scripts.test = "x"'`: changes a file in place by JavaScript."""
    value: Value = ANYTHING
    files = [argv[place + 1] for place, word in enumerate(argv[:-1]) if word in ("-f", "--file")]
    codes = [argv[place + 1] for place, word in enumerate(argv[:-1]) if word in ("-e", "-E")]
    for file in files:
        value = read_path(shell, file, argv[0])
        if any(word.startswith("-I") or word == "--in-place" for word in argv):
            write_path(shell, file, argv[0], "in place")
            found = {one[1]: one[2].strip("\"'") for code in codes for one in _ASSIGNED.finditer(code)}
            if found:
                _define(shell, file, found)
    return value


def _put(shell: Shell, argv: list[str]) -> Value:
    """`dasel put -f FILE -v VALUE KEY`, `toml set FILE KEY VALUE`, `tomlq -i`, `plutil -replace KEY -string VALUE FILE`."""
    words = [word for word in argv[1:] if not word.startswith("-")]
    file = next((word for word in words if re.search(r"\.(json|toml|ya?ml|xml|plist|ini|cfg)$", word)), "")
    if not file or not {"put", "set", "-replace", "-insert", "delete"} & set(argv):
        return ANYTHING
    write_path(shell, file, argv[0], "in place")
    value = argv[argv.index("-v") + 1] if "-v" in argv[:-1] else words[-1]
    key = next((word for word in reversed(words) if word not in (file, value, "put", "set", "delete", "string")), "")
    if key:
        _define(shell, file, {key.lstrip("."): value})
    return ANYTHING


READERS: Final[dict[str, Callable[[Shell, list[str]], Value]]] = {
    "crudini": _ini,
    "json": _json,
    **dict.fromkeys(["dasel", "toml", "plutil", "toml-cli"], _put),
}
