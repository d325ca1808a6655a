"""Paths as Python means them -> absolute ones: working directory, `~`, `..`, links that are known."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.following import followed
from rosellm.roserlhf.guard.python.value import STAR

LONGEST = 4096
_SCHEME = re.compile(r"^(?:file://(?:localhost)?|sqlite(?:\+\w+)?:///|duckdb:///|jar:file:)", re.IGNORECASE)


def absolute(path: str, workdir: str, home: str, links: Mapping[str, str]) -> str:
    """Resolve a path; one that starts with an unknown part stays as it is."""
    path = path[:LONGEST]
    if "\0" in path:
        path = path.replace("\0", "")
    if ":" in path:
        path = _SCHEME.sub("", path)
    first = path[:1]
    if first == "~":
        user, slash, rest = path.partition("/")
        path = (home if user == "~" else f"/home/{user[1:]}" if user != "~root" else "/root") + slash + rest
        first = path[:1]
    if first != "/" and first != UNKNOWN:
        path = f"{workdir}/{path}" if workdir and not workdir.endswith("/") else workdir + path
    return followed(path.replace(STAR, "*") if STAR in path else path, workdir, links)


def of_module(name: str, standard: bool) -> str:
    """Return the file of a module, whose folder only running would tell."""
    inner = name.replace(".", "/")
    return f"{UNKNOWN}/{inner}{UNKNOWN}.py" if standard or "." in name else f"{UNKNOWN}/{inner}/__init__.py"
