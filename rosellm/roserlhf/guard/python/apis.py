"""The table of what functions do: `apis.toml`."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call holds a target: position, -1 for the object itself, and keyword."""

    position: int
    keyword: str = ""


@dataclass(frozen=True, slots=True)
class Api:
    """What a function does."""

    kind: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """All functions."""

    exact: dict[str, Api]
    starts: dict[str, tuple[tuple[str, Api], ...]]
    """Beginnings of dotted names, by what stands before their first dot."""
    methods: dict[str, Api]

    def find(self, name: str) -> Api | None:
        """Return what a function of that dotted name does."""
        found = self.exact.get(name)
        if found is None and "." in name:
            for start, api in self.starts.get(name[: name.index(".")], ()):
                if name.startswith(start) and "." not in name[len(start) :]:
                    return api
        return found


def _places(text: str) -> tuple[Place, ...]:
    found = []
    for one in text.split(","):
        position, _, keyword = one.partition(":")
        found.append(Place(-1 if position == "self" else int(position), keyword))
    return tuple(found)


def _entries(table: dict[str, Any]) -> dict[str, Api]:
    found = {}
    for kind, names in table.items():
        for entry in names.split():
            name, _, places = entry.partition("@")
            found[name] = Api(kind, _places(places or "0"))
    return found


@functools.cache
def table() -> Table:
    """Read the table, once."""
    data = tomllib.loads((Path(__file__).parent / "apis.toml").read_text(encoding="utf-8"))
    functions = _entries(data["functions"])
    starts: dict[str, tuple[tuple[str, Api], ...]] = {}
    for name, api in functions.items():
        if name.endswith("*"):
            root = name.partition(".")[0]
            starts[root] = (*starts.get(root, ()), (name[:-1], api))
    return Table({name: api for name, api in functions.items() if not name.endswith("*")}, starts, _entries(data["methods"]))
