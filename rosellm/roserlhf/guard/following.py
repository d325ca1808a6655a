"""A path -> where it leads, component by component as the kernel goes: links that are known, and those of `/proc` and `/dev`."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from rosellm.roserlhf.guard.act import UNKNOWN

MOST_LINKS = 32
"""Links of one path that are followed."""
_PROCESS = re.compile(r"^/proc/([^/]+)(?:/task/[^/]+)?/(root|cwd)$")
_OWN = frozenset(("self", "thread-self"))
_NEVER_LEFT = frozenset(("..", "**"))
"""Components that `..` does not take back."""


def followed(path: str, workdir: str, links: Mapping[str, str]) -> str:
    """Return where a path leads; `..` after a part that only running would tell stays.

    The root of any process is the root; its working directory is known of the own process alone.

    Args:
        path: absolute, or relative to something unknown.
        workdir: of the process that would follow it.
        links: absolute path to absolute path, or to one from the link's directory.

    Example:
        >>> ways = ("/tmp/h/../x", "/proc/self/cwd/../e", "/dev/fd/../root/e", "/a/..")
        >>> [followed(one, "/app", {"/tmp/h": "/eval"}) for one in ways]
        ['/x', '/e', '/e', '/']
    """
    if not links and "/.." not in path and not path.startswith(("/proc/", "/dev/fd")) and "//" not in path and "/./" not in path:
        return path.removesuffix("/.").rstrip("/") or "/"  # nothing to follow, as in most paths
    is_rooted = path.startswith("/")
    done: list[str] = []
    todo = path.split("/")[::-1]
    follow = MOST_LINKS
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if done == ["dev", "fd"]:
                done = ["proc", "self"]
            elif done and UNKNOWN not in done[-1] and done[-1] not in _NEVER_LEFT:
                done.pop()
            elif done or not is_rooted:
                done.append(part)
            continue
        done.append(part)
        goal = _goal("/" + "/".join(done), workdir, links, bool(todo)) if is_rooted and follow else None
        if goal is not None:
            follow -= 1
            todo += goal.split("/")[::-1]
            done = [] if goal.startswith("/") else done[:-1]
    return ("/" if is_rooted else "") + "/".join(done) or "/"


def _goal(place: str, workdir: str, links: Mapping[str, str], goes_on: bool) -> str | None:
    """Return what a link points to; None if no link is known there."""
    if place in links:
        return posixpath.normpath(links[place]) if links[place] != place else None
    found = _PROCESS.match(place) if place.startswith("/proc/") else None
    if found is None or not (found[1] in _OWN or goes_on):
        return None
    if found[2] == "root":
        return "/"
    return workdir if found[1] in _OWN else None
