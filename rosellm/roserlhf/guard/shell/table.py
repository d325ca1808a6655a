"""The tables of programs (TOML) -> what their arguments mean."""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell.wildcard import compiled

TABLES: Final = ("files", "text", "archives", "wrappers", "code", "network", "tests", "system")
_KEYS: Final = frozenset(["names", "operands", "options", "flags", "prints", "long", "verbs", "keys", "then"])


@dataclass(frozen=True, slots=True)
class Program:
    """What the arguments of a program mean."""

    name: str
    operands: tuple[tuple[str, bool], ...]
    """Roles of its operands in order; True: any number of them."""
    options: dict[str, str]
    """Role of the value of each option that takes one, `-x` or `--name`."""
    flags: dict[str, str]
    """What options without a value change: `recursive`, `in_place`, `delete`, or a trait `name:value`."""
    prints: str
    """`input`: what it reads, or part of it; `new name`: what it makes; `nothing`; or nothing that is known."""
    long: bool
    """Its long options have one dash."""
    verbs: dict[str, Program] = field(default_factory=dict)
    """Subcommands; `*`: all others."""
    keys: dict[str, str] = field(default_factory=dict)
    """Role of the value in operands `key=value`."""
    script: str = ""
    """Language of the script that an operand names or the input holds."""
    before_command: int = -1
    """How many operands stand before a command that the rest of the words are; -1: there is none."""


@functools.cache
def programs() -> dict[str, Program]:
    """Load the tables: programs by name."""
    found: dict[str, Program] = {}
    folder = importlib.resources.files("rosellm.roserlhf.guard.shell") / "programs"
    for name in TABLES:
        for entry in tomllib.loads((folder / f"{name}.toml").read_text("utf-8"))["program"]:
            found.update({one: _program(one, entry) for one in entry["names"].split()})
    return found


def _program(name: str, entry: dict[str, Any]) -> Program:
    unknown = entry.keys() - _KEYS
    if unknown:
        raise ValueError(f"table of programs: {name} must not have the keys {sorted(unknown)}")
    operands = tuple((role.removesuffix("*"), role.endswith("*")) for role in entry.get("operands", "").split())
    options, flags = _pairs(entry.get("options", "")), _pairs(entry.get("flags", ""))
    if odd := [word for word in (*options, *flags) if word[0] != "-" or len(word) == 1]:
        raise ValueError(f"table of programs: options of {name} must start with a dash and be longer, {odd} do not")
    if both := [word for word in flags if options.get(word) == "rest"]:
        raise ValueError(f"table of programs: options of {name} cannot be flags and end the options, {both} do")
    verbs = {verb: _program(verb, inner) for verbs, inner in entry.get("verbs", {}).items() for verb in verbs.split()}
    return Program(
        name=name,
        operands=operands,
        options=options,
        flags=flags,
        prints=entry.get("prints", ""),
        long=entry.get("long", False),
        verbs=verbs,
        keys=_pairs(entry.get("keys", "")),
        script=next((role[7:] for role, _ in operands if role.startswith("script:")), ""),
        before_command=len(operands) - 1 if operands and operands[-1][0] == "command" else -1,
    )


def _pairs(text: str) -> dict[str, str]:
    """Read `-a=read --bc=write -d,-e=value`."""
    found: dict[str, str] = {}
    for pair in text.split():
        names, _, role = pair.rpartition("=")
        found.update(dict.fromkeys(names.split(","), role))
    return found


def program_of(glob: str, names: Iterable[str]) -> list[str]:
    """Return the programs whose names a glob, or a name with unknown parts, may stand for."""
    known_part = glob.replace(UNKNOWN, "*")
    if len(glob) > 64 or not any(c.isalnum() for c in known_part):
        return []
    pattern = compiled(known_part)
    return [name for name in names if pattern is not None and pattern.fullmatch(name)]
