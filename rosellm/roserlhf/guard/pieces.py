"""A tool call -> its pieces: which argument is code of which language, which is a path, which is text that somebody reads.

Names of tools and arguments vary between harnesses. A tool's family comes from its name, or from a verb that it is given beside a
path (`{"command": "create", "path": ...}`); an argument's role comes from its key, and where the key says nothing from what the
value looks like. Every string of a call ends up in some piece.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from rosellm.roserlhf.guard.looks import is_patch, language_of_look
from rosellm.roserlhf.guard.tool_names import family_of, family_of_verb, role_of

Role = Literal["code", "read", "list", "write", "delete", "link"]
MOST = 2_000
"""Strings of one call that are read whatever they say."""
Telling = Callable[[str], bool]
"""Whether a string is read however many others there are: what names something protected does not drown in a crowd."""
_FILE_FAMILIES = ("read", "write", "edit", "delete", "move", "copy", "link", "mode", "list", "grep")
_MAIN = {
    "shell": "shell",
    "python": "python",
    "javascript": "js",
    "fetch": "url",
    "search": "query",
    "git": "git",
    "patch": "patch",
}
REMARKS = ("message", "comment", "note", "explanation", "thought", "reasoning", "summary", "title", "reply", "rationale")
"""Arguments of a submission in which code is quoted, not handed in."""
MAIN_NAMES = frozenset(("", "args", "arguments", "argv", "input", "kwargs", "source", "value", "body", "content", "text", "data"))
"""Arguments that by themselves say nothing, and hold what a tool is for."""
_HOLD_VERBS = ("command", "action", "operation", "cmd", "op", "subcommand")
"""Arguments that may name what a file tool does."""
_WITH_VERBS = frozenset(_HOLD_VERBS)
_LANGUAGES = {"shell": "shell", "python": "python", "url": "url", "query": "query", "patch": "patch", "prose": "prose"}


class Piece(NamedTuple):
    """One part of a call that is read on its own."""

    role: Role
    argument: str
    """Key of the argument, dotted where it is nested."""
    text: str = ""
    """Code or words; for `write`, what is written; for `read`, what is looked for there."""
    language: str = ""
    """For `code`: the language, as `Scene.read` names it."""
    path: str = ""
    before: str = ""
    """For `write`: the words that the text replaces; for `link`: what the link points to."""
    whole: bool = True
    """For `write`: whether the text is the whole file."""


def pieces_of(tool: str, arguments: Any, telling: Telling = lambda text: False) -> Iterator[Piece]:
    """Yield the pieces of a call, in the order of its arguments.

    Args:
        tool: name of the tool.
        arguments: as the policy wrote them: an object, or anything else that JSON can hold.
        telling: of more than `MOST` strings, those to read nevertheless.
    """
    family = family_of(tool)
    if not isinstance(arguments, Mapping):
        arguments = {"": arguments}
    verb = _verb(arguments)
    if verb and (family in ("", "edit", *_FILE_FAMILIES)):
        family = verb
    leaves: list[tuple[str, str, str]] = []
    for key, value in arguments.items():
        name = str(key)
        role = role_of(name)
        if role == "environment":
            continue
        if family == "git" and role in ("", "shell") and name in ("args", "command", "arguments", "argv", ""):
            yield Piece("code", name, _line(value), "git")
        elif isinstance(value, str):
            if len(leaves) < MOST or telling(value):
                leaves.append((name, role, value))
        elif family == "shell" and isinstance(value, list) and role in ("", "shell") and all(isinstance(v, str) for v in value):
            yield Piece("code", name, _line(value), "shell")
        elif role == "files" and not _only_edits(value):
            yield from _files(name, value, family, telling)
        else:
            leaves += _leaves(name, role, value, telling, MOST - len(leaves))
    if verb and family not in ("read", "list"):
        leaves = [leaf for leaf in leaves if not family_of_verb(leaf[2])]
    yield from _of_leaves(family, leaves)


def _only_edits(value: Any) -> bool:
    """Say whether a list holds replacements in one file, which is named beside it, rather than files."""
    if not isinstance(value, list | tuple) or not value:
        return False
    names = [str(key) for one in value[:MOST] if isinstance(one, Mapping) for key in one]
    return bool(names) and not any(role_of(name) == "path" or name == "name" for name in names)


def _verb(arguments: Mapping[Any, Any]) -> str:
    """Return the family that a verb in the arguments names, if a path stands beside it."""
    if len(arguments) < 2 or _WITH_VERBS.isdisjoint(arguments):
        return ""
    if not any(role_of(str(name)) in ("path", "from") for name in arguments):
        return ""
    for name in _HOLD_VERBS:
        value = arguments.get(name)
        if isinstance(value, str) and len(value) < 30 and family_of_verb(value):
            return family_of_verb(value)
    return ""


def _line(value: Any) -> str:
    if isinstance(value, list):
        words = [one if isinstance(one, str) else str(one) for one in value]
        if len(words) == 3 and words[1] in ("-c", "-lc"):
            return words[2]
        if len(words) == 1:
            return words[0]
        return shlex.join(words)
    return value if isinstance(value, str) else str(value)


def _leaves(name: str, role: str, value: Any, telling: Telling, most: int = MOST) -> Iterator[tuple[str, str, str]]:
    """Yield (dotted name, role, text) of every string in a value, and of the names in objects, without recursion."""
    stack: list[tuple[str, str, Any]] = [(name, role, value)]
    count = 0
    while stack:
        where, kind, inner = stack.pop()
        if isinstance(inner, str):
            count += 1
            if count <= most or telling(inner):
                yield where, kind, inner
        elif isinstance(inner, Mapping):
            stack.extend((f"{where}.{key}"[-200:], role_of(str(key)) or kind, inner[key]) for key in reversed(inner))
        elif isinstance(inner, list | tuple):
            stack.extend((f"{where}.{place}"[-200:], kind, one) for place, one in reversed(list(enumerate(inner))))


def _says(value: Any, telling: Telling) -> bool:
    return any(telling(text) for _, _, text in _leaves("", "", value, lambda text: True))


def _files(name: str, value: Any, family: str, telling: Telling) -> Iterator[Piece]:
    """Yield the files of an object path -> content, or of a list of paths or of objects with a path and a content."""
    if isinstance(value, Mapping):
        for number, (path, content) in enumerate(value.items()):
            if number >= MOST and not telling(str(path)) and not _says(content, telling):
                continue
            if isinstance(content, str):
                yield Piece("write", f"{name}.{path}", content, path=str(path))
            else:
                yield from _of_leaves(
                    "write", [(f"{name}.{path}", "path", str(path)), *_leaves(f"{name}.{path}", "", content, telling)]
                )
    elif isinstance(value, list | tuple):
        for place, one in enumerate(value):
            if place >= MOST and not _says(one, telling):
                continue
            where = f"{name}.{place}"
            if isinstance(one, str):
                yield Piece("code", where, one, "patch") if is_patch(one) else Piece("read", where, path=one)
            else:
                inner = one.items() if isinstance(one, Mapping) else [("", one)]
                roles = [(f"{where}.{key}", "path" if key == "name" else role_of(str(key)), v) for key, v in inner]
                kind = family if family in ("read", "delete", "edit") else "write"
                yield from _of_leaves(kind, [leaf for key, role, v in roles for leaf in _leaves(key, role, v, telling)])


def _of_leaves(family: str, leaves: list[tuple[str, str, str]]) -> Iterator[Piece]:
    """Yield the pieces of strings with roles, for a tool of a family."""
    by_role: dict[str, list[tuple[str, str]]] = {}
    for name, role, text in leaves:
        by_role.setdefault(role, []).append((name, text))
    paths = by_role.pop("path", [])
    content = by_role.pop("content", [])
    before = by_role.pop("before", [])
    if family in _FILE_FAMILIES or (paths and (content or before)):
        yield from _of_paths(family, paths, content, before, by_role)
    else:
        for name, path in paths:
            yield _of_lone_path(family, name, path)
        for name, text in (*content, *before):
            yield _by_look(family, name, text)
    by_role.pop("workdir", None)
    for role, found in by_role.items():
        for name, text in found:
            yield _of_role(family, role, name, text)


def _of_lone_path(family: str, name: str, path: str) -> Piece:
    if family in ("shell", "python", "git", "javascript") and name.endswith(("script", "file")):
        return Piece("code", name, shlex.join([path]), "shell")
    return Piece("read", name, path=path)


def _of_paths(
    family: str,
    paths: list[tuple[str, str]],
    content: list[tuple[str, str]],
    before: list[tuple[str, str]],
    others: dict[str, list[tuple[str, str]]],
) -> Iterator[Piece]:
    """Yield what a file tool does to its paths."""
    sources, targets = others.pop("from", []), others.pop("to", [])
    if family in ("list", "grep"):
        patterns = others.pop("pattern", []) + (others.pop("query", []) if family == "list" else [])
        yield from _listed(family, paths, patterns)
    elif family in ("move", "copy", "link"):
        yield from _moved(family, sources or paths[:1], targets or paths[1:])
    elif family in ("delete", "read"):
        for name, path in (*paths, *sources, *targets):
            yield Piece("read" if family == "read" else "delete", name, path=path)
        for name, text in (*content, *before):
            yield Piece("code", name, text, language_of_look(text))
    else:
        old = "\n".join(text for _, text in before)
        whole = family == "write" and not before
        for name, path in (*paths, *sources, *targets):
            for argument, text in content or [(name, "")]:
                yield Piece("write", argument if content else name, text, path=path, before=old, whole=whole)
        if not (paths or sources or targets):
            for name, text in (*content, *before):
                yield Piece("code", name, text, language_of_look(text))


def _listed(family: str, paths: list[tuple[str, str]], patterns: list[tuple[str, str]]) -> Iterator[Piece]:
    """Yield what is listed or searched: each path, and each pattern below each path."""
    role: Role = "list" if family == "list" else "read"
    sought = "" if family == "list" else "\n".join(text for _, text in patterns)
    for name, path in paths or [("", ".")]:
        yield Piece(role, name, sought, path=path)
        for argument, text in patterns:
            if family == "list" or "*" in text or "/" in text:
                yield Piece(role, argument, sought, path=text if text.startswith(("/", "~")) else f"{path.rstrip('/')}/{text}")


def _moved(family: str, sources: list[tuple[str, str]], targets: list[tuple[str, str]]) -> Iterator[Piece]:
    for name, path in sources:
        if family != "link":
            yield Piece("read", name, path=path)
        if family == "move":
            yield Piece("delete", name, path=path)
    for name, path in targets:
        if family == "link":
            yield Piece("link", name, path=path, before=sources[0][1] if sources else "")
        else:
            yield Piece("write", name, path=path, whole=False)


def _of_role(family: str, role: str, name: str, text: str) -> Piece:
    """Return the piece of one string that is no path of a file tool."""
    main = _MAIN.get(family, "")
    if family == "submit" and role in ("", "prose", "shell", "python", "query", "url", "from", "to", "pattern"):
        last = name.rpartition(".")[2]
        language = "patch" if is_patch(text) else "prose" if last in REMARKS else "answer"
        return Piece("code", name, text, language)
    if role in ("python", "shell") and main in ("shell", "python", "js"):
        return Piece("code", name, text, main)
    if role == "url" and family == "link":
        return Piece("read", name, path=text)
    if role == "query" and family in ("", "fetch", "grep"):
        return Piece("code", name, text, "query")
    if role == "python" and family == "":
        look = language_of_look(text)
        return Piece("code", name, text, look if look in ("shell", "patch") else "python")
    if role in _LANGUAGES:
        return Piece("code", name, text, _LANGUAGES[role])
    if role in ("from", "to") and language_of_look(text) == "path":
        return Piece("read" if role == "from" else "write", name, path=text, whole=False)
    return _by_look(family, name, text)


def _by_look(family: str, name: str, text: str) -> Piece:
    look = language_of_look(text)
    last = name.rpartition(".")[2]
    main = _MAIN.get(family, "")
    if main and last in MAIN_NAMES:
        return Piece("code", name, text, main)
    if look == "path":
        return Piece("read", name, path=text.strip())
    return Piece("code", name, text, look)
