"""Arguments of a program -> acts, as its row in the table says."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN, ActKind
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.shell.edits import read_edits
from rosellm.roserlhf.guard.shell.file import act_on, read_path, write_path
from rosellm.roserlhf.guard.shell.language import code_from_stdin, printed_by, script
from rosellm.roserlhf.guard.shell.path import looks_like_path
from rosellm.roserlhf.guard.shell.shell import Shell, shortened
from rosellm.roserlhf.guard.shell.table import Program
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value, joined

Dispatch = Callable[[Shell, list[str]], Value]
Roles = tuple[tuple[str, bool], ...]
"""Roles of operands in order; True: any number of them."""
_ACTS: Final[dict[str, ActKind]] = {"list": "list", "delete": "delete"}
_SAID_ELSEWHERE: Final = frozenset(["value", "name", "pattern", "exclude", "include", "workdir", "command"])
"""Roles of arguments that are no acts of their own."""
_READ: Final = frozenset(["read", "patterns", "from"])
_LISTED: Final = 16
"""Patterns of what is left out or taken in that an act keeps."""


class Arguments:
    """Arguments of one command, sorted by a program's row."""

    __slots__ = ("flags", "operands", "rest", "valued")

    def __init__(self, spec: Program, words: list[str]) -> None:
        operands: list[str] = []
        self.operands = operands
        self.valued: list[tuple[str, str, str]] = []
        """(option, role, value)."""
        self.flags: dict[str, str] = {}
        self.rest: list[str] = []
        """The words from the first operand on, for programs that run another one."""
        options, keys, before_command = spec.options, spec.keys, spec.before_command
        left = iter(words)
        for word in left:
            if word[:1] != "-" or word == "-":
                if keys and "=" in word:
                    key, _, value = word.partition("=")
                    self.valued.append((key, keys.get(key, "value"), value))
                    continue
                operands.append(word)
                if 0 <= before_command < len(operands):
                    self.rest = [word, *left]
            elif word in spec.flags:
                self._flag(spec.flags[word])
            elif (role := options.get(word)) is not None:
                if role == "rest":
                    self.rest = [*left]
                    break
                self.valued.append((word, role, next(left, "")))
                if role == "skip":
                    next(left, "")
            elif word == "--":
                self.rest = [*left]
                operands += self.rest
            elif len(word) > 2:
                self._composed(spec, word, left)

    def _composed(self, spec: Program, word: str, left: Iterator[str]) -> None:
        """Sort an option with its value in the same word, or several in one; its value may be the next word that is left."""
        options, flags = spec.options, spec.flags
        name, equals, value = word.partition("=")
        if equals and name in options:
            self.valued.append((name, options[name], value))
            return
        if equals and name in flags:
            self._flag(flags[name])
            self.valued.append((name, "value", value))
            return
        if word.startswith("--") or spec.long:
            if equals:
                self.valued.append((name, "any", value))
            return
        for place in range(1, len(word)):
            option = f"-{word[place]}"
            if option in options:
                glued = word[place + 1 :]
                self.valued.append((option, options[option], glued or next(left, "")))
                return
            if option in flags:
                self._flag(flags[option])
            elif word[place + 1 :].startswith(("/", "~/", "../")):
                self.valued.append((option, "any", word[place + 1 :]))
                return

    def _flag(self, meaning: str) -> None:
        name, _, value = meaning.partition(":")
        self.flags[name] = value or "yes"

    @property
    def coded(self) -> bool:
        """Whether an option gives the code that is run."""
        return any(role.startswith(("code:", "script:")) for _, role, _ in self.valued)

    def values(self, role: str) -> list[str]:
        """Return the values of all options of a role."""
        return [value for _, one, value in self.valued if one == role] if self.valued else []


def interpret(shell: Shell, spec: Program, argv: list[str], dispatch: Dispatch) -> Value:
    """Note what a program does with its arguments; return what it prints."""
    found = Arguments(spec, argv[1:])
    name = argv[0].rpartition("/")[2]
    if spec.verbs and found.operands:
        verb = found.operands[0]
        inner = spec.verbs.get(verb) or spec.verbs.get("*")
        if inner is not None:
            at = argv.index(verb, 1)
            for option, role, value in found.valued:
                if argv.index(value) < at if value in argv else False:
                    apply(shell, role, value, name, {}, option)
            return interpret(shell, inner, [f"{name} {verb}", *argv[1:at], *argv[at + 1 :]], dispatch)
    if not found.valued:
        return _effects(shell, spec, found, name, _traits(found) if found.flags else {}, dispatch)
    traits = _traits(found)
    directories = found.values("workdir")
    if not directories:
        return _effects(shell, spec, found, name, traits, dispatch)
    mark = shell.state.mark()
    for directory in directories:
        act_on(shell, "list", directory, name)
        shell.state.set("cwd", "", shell.paths(directory))
    try:
        return _effects(shell, spec, found, name, traits, dispatch)
    finally:
        shell.leave(mark)


def _effects(shell: Shell, spec: Program, found: Arguments, name: str, traits: dict[str, str], dispatch: Dispatch) -> Value:
    operands = found.operands
    valued = found.valued
    printed = [apply(shell, role, value, name, traits, option) for option, role, value in valued] if valued else []
    coded = bool(printed) and found.coded
    if spec.script and not coded and shell.stdin is not None and (not operands or operands[0] in ("-", "/dev/stdin")):
        printed.append(code_from_stdin(shell, name, spec.script))
    if coded and "in_place" in found.flags:
        read_edits(shell, operands, [value for _, role, value in found.valued if role.startswith("code:")])
        traits = {**traits, "script": shortened(next(value for _, role, value in found.valued if role.startswith("code:")), 400)}
    if found.rest:
        if spec.before_command >= 0:
            for operand, (role, _) in zip(operands, spec.operands[:-1], strict=False):
                apply(shell, role, operand, name, traits)
            return dispatch(shell, found.rest)
        dispatch(shell, [*found.rest, UNKNOWN])
    roles = assigned(_roles(spec, found, coded) if valued or found.flags else spec.operands, len(operands))
    contents = [
        apply(shell, role, operand, name, traits) if role not in _SAID_ELSEWHERE else NOTHING
        for operand, role in zip(operands, roles, strict=False)
    ]
    if len(roles) < len(operands) or "value" in roles:
        for operand in [*operands[len(roles) :], *(o for o, role in zip(operands, roles, strict=False) if role == "value")]:
            if operand.startswith(("/", "~/", "../")):  # what a row does not know well enough
                apply(shell, "any", operand, name, traits)
    if spec.prints == "nothing":
        return NOTHING
    if spec.prints == "new name":
        return _new_name(found)
    if spec.prints == "input":
        taken = [value for role, value in zip(roles, contents, strict=False) if role == "read" or role == "edit"]
        return joined(taken) if taken else (shell.stdin if shell.stdin is not None else ANYTHING)
    said = [value for value in printed if value not in (NOTHING, ANYTHING)] if spec.script else []
    return joined(said) if said else ANYTHING


def _new_name(found: Arguments) -> Value:
    """Return the name that `mktemp` makes up: in the folder for what is temporary, or after its template."""
    name = found.operands[0] if found.operands else "tmp.XXXXXXXXXX"
    folder = next(iter(found.values("workdir")), "")
    if not folder and (not found.operands or "temporary" in found.flags):
        folder = "/tmp"
    made = pattern("X{3,}").sub(UNKNOWN, name)
    made = made if made != name else name + UNKNOWN
    return (f"{folder}/{made}" if folder else made,)


def _roles(spec: Program, found: Arguments, coded: bool) -> Roles:
    """Return the roles of the operands, as options change them; `coded`: an option gives the code that is run."""
    in_place = "in_place" in found.flags
    looks = "looks" in found.flags
    if not found.valued and not in_place and not looks:
        return spec.operands
    given = [role for _, role, _ in found.valued]
    patterned = "pattern" in given or "patterns" in given
    roles = [
        (("read" if looks else "edit") if role == "edit" or (role == "read" and in_place) else role, many)
        for role, many in spec.operands
        if not (patterned and role == "pattern") and not (coded and role.startswith("script:"))
    ]
    if "into" in given:
        roles = [(role, True) if role == "read" else (role, many) for role, many in roles if role != "write"]
    return tuple(roles)


@functools.lru_cache(256)
def assigned(roles: Roles, count: int) -> tuple[str, ...]:
    """Give each of `count` operands its role: the repeated one takes what the others leave.

    Example:
        >>> assigned((("pattern", False), ("read", True)), 3), assigned((("read", True), ("write", False)), 3)
        (('pattern', 'read', 'read'), ('read', 'read', 'write'))
    """
    many = [at for at, (_, repeated) in enumerate(roles) if repeated]
    if not many:
        return tuple(role for role, _ in roles[:count])
    before, after = roles[: many[0]], roles[many[0] + 1 :]
    middle = max(count - len(before) - len(after), 0)
    if not middle and count < len(before) + len(after):
        return tuple(role for role, _ in [*before, *after][:count])
    return tuple(role for role, _ in [*before, *[roles[many[0]]] * middle, *after])


def _traits(found: Arguments) -> dict[str, str]:
    """Return what flags and filters say of every path that the program takes."""
    traits = {name: value for name, value in found.flags.items() if name in ("recursive", "mode", "names", "force", "as")}
    given = {role for _, role, _ in found.valued} if found.valued else ()
    for trait, role in (("excludes", "exclude"), ("includes", "include")):
        if role in given:
            traits[trait] = " ".join(found.values(role)[:_LISTED])
    return traits


def apply(shell: Shell, role: str, text: str, program: str, traits: dict[str, str], option: str = "") -> Value:
    """Note what a program does with one argument; return the content that it reads, if any."""
    if role == "value" and option and len(text) > 1 and text.startswith(("/", "~/", "../")):
        role = "any"  # an option that is not known well enough
    if role in _SAID_ELSEWHERE or not text:
        return NOTHING
    detail = f"{program} {option}" if option else program
    if role in _READ:
        return read_path(shell, text, detail, **traits)
    if role == "tree":
        return read_path(shell, text, detail, **{**traits, "recursive": "yes"})
    if role == "write" or role == "into" or role == "append":
        write_path(shell, text, detail, "append" if role == "append" else "truncate", given=traits)
    elif role == "edit":
        content = read_path(shell, text, detail, **traits)
        write_path(shell, text, detail, "in place", given=traits)
        return content
    elif role == "touch":
        act_on(shell, "write", text, detail, **{"mode": "touch", **traits})
    elif role == "mode":
        act_on(shell, "write", text, detail, **{"mode": "attributes", **traits})
    elif role in _ACTS:
        act_on(shell, _ACTS[role], text, detail, **traits)
        if role == "delete":
            _forget(shell, text)
    elif role.startswith("code:"):
        return printed_by(shell, role[5:], text, *shell.disguise_of(text))
    elif role.startswith("script:"):
        return script(shell, program, [text], role[7:])
    elif role == "shell":
        return shell.evaluate(text, new=True)
    elif role in ("url", "query", "path", "patch"):
        shell.read(role, text)
    elif role == "host":
        shell.act("fetch", text, detail)
    elif role == "package":
        shell.act("install", text, detail)
    elif role == "text":
        shell.act("text", shortened(text, 2_000), detail)
    elif role == "env":
        name, equals, value = text.partition("=")
        shell.act("environment", name, f"set {shortened(value)}" if equals else "read")
    elif role == "process":
        shell.act("process", text, detail)
    elif role == "module":
        shell.act("import", text, detail)
    elif role == "run":
        shell.act("run", text, "", path=shell.path(text))
        act_on(shell, "read", text, detail, **traits)
    elif role in _ROLES:
        _ROLES[role](shell, text, detail, traits)
    elif role == "any" and "://" in text:
        shell.read("url", text)
    elif role == "any" and looks_like_path(text):
        act_on(shell, "read", text, detail, **{**traits, "unknown_option": "yes"})
    return NOTHING


def _tests(shell: Shell, text: str, detail: str, traits: dict[str, str]) -> None:
    path = text.partition("::")[0]
    act_on(shell, "read", path, detail, **{**traits, "run": "yes"})


def _plugin(shell: Shell, text: str, detail: str, traits: dict[str, str]) -> None:
    if not text.startswith("no:"):
        shell.act("import", text, detail)


def _volume(shell: Shell, text: str, detail: str, traits: dict[str, str]) -> None:
    source = next((part.partition("=")[2] for part in text.split(",") if part.startswith(("src=", "source="))), text.split(":")[0])
    if source.startswith(("/", ".", "~")):
        act_on(shell, "read", source, detail, recursive="yes")


def _make(shell: Shell, text: str, detail: str, traits: dict[str, str]) -> None:
    for content in read_path(shell, text, detail, run="yes"):
        if content != UNKNOWN:
            shell.read("makefile", content, "file", in_file=shell.path(text))


def _process(shell: Shell, text: str, detail: str, traits: dict[str, str]) -> None:
    shell.act("process", text, detail)


def _make_code(shell: Shell, text: str, detail: str, traits: dict[str, str]) -> None:
    shell.read("makefile", text)


_ROLES: Final[dict[str, Callable[[Shell, str, str, dict[str, str]], None]]] = {
    "tests": _tests,
    "plugin": _plugin,
    "volume": _volume,
    "make": _make,
    "make-code": _make_code,
    "container": _process,
    "service": _process,
}


def _forget(shell: Shell, text: str) -> None:
    for path in shell.paths(text):
        shell.forget(path)
