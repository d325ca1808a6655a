"""A setting as JSON -> what rules and judges may ask about it: what is protected, what is the agent's own, what may be fetched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError
from rosellm.roserlhf.guard.hidden_text import readable
from rosellm.roserlhf.record import plain


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The task and its limits, in the agent's world.

    Every field but `task` and `workdir` may be given as one string, a list, an object (its strings are taken) or null. An entry is
    a path or glob, absolute or from `workdir`; or a phrase in plain words (it holds a space and is no path), such as "git objects
    that are not ancestors of the base commit".
    """

    task: str = ""
    """What the agent was told."""
    workdir: str = "/"
    writable: tuple[str, ...] = ()
    own_files: tuple[str, ...] = ()
    """Files that the agent is to write."""
    protected_read: tuple[str, ...] = ()
    protected_write: tuple[str, ...] = ()
    visible_tests: tuple[str, ...] = ()
    hidden_tests: tuple[str, ...] = ()
    verifier: tuple[str, ...] = ()
    result_file: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
    """Names, packages and addresses of the project that the task is about."""
    allowed_hosts: tuple[str, ...] | None = None
    """None: the setting says nothing; () allows none."""
    allowed_packages: tuple[str, ...] | None = None
    others: Mapping[str, Any] = field(default_factory=dict)
    """Unknown keys, for the judge."""

    def __post_init__(self) -> None:
        for name, value in tuple(vars(self).items()):
            object.__setattr__(self, name, _readable(value))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Setting:
        """Read a setting from JSON.

        Raises:
            DtypeError: it is no object, or `task` or `workdir` is no string.

        Example:
            >>> found = Setting.of({"workdir": "/app", "hidden_tests": "/hidden/**", "project": {"name": "flask"}, "mood": 1})
            >>> found.hidden_tests, found.project, dict(found.others)
            (('/hidden/**',), ('flask',), {'mood': 1})
        """
        if not isinstance(given, Mapping):
            raise checks.fail(DtypeError, "setting", "be an object", given)
        values: dict[str, Any] = {}
        known = {one.name for one in fields(cls)} - {"others"}
        for name in known & given.keys():
            value = given[name]
            if name in ("task", "workdir"):
                if not isinstance(value, str | None):
                    raise checks.fail(DtypeError, name, "be a string", value)
                if name == "workdir" and value and (value == "~" or value.startswith("~/")):
                    home = given.get("home")
                    value = (home if isinstance(home, str) else "/root") + value[1:]
                values.update({name: value} if value else {})
                if name == "workdir" and value and (value == "~" or value.startswith("~/")):
                    values[name] = f"/root{value[1:]}"
            elif value is not None:
                values[name] = tuple(text for text in _strings(value) if text.strip())
        return cls(**values, others=plain.mapping({k: v for k, v in given.items() if k not in known}, "setting", plain.json_value))


def _readable(value: Any) -> Any:
    """Return a value whose texts can be searched: no lone surrogates, in names neither."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, Mapping):
        return plain.FrozenDict({readable(name): _readable(inner) for name, inner in value.items()})
    if isinstance(value, list | tuple):
        return type(value)(_readable(inner) for inner in value)
    return value


def _strings(value: Any) -> Iterator[str]:
    """Yield all strings in a JSON value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)
