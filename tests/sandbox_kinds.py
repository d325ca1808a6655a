"""The sandboxes of this machine, and the processes that tests leave: shared by the tests of the sandbox."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rosellm.roserlhf.environment.sandbox import Kind, Sandbox
from rosellm.roserlhf.errors import SandboxError

SANDBOXES: tuple[Kind, ...] = ("bubblewrap", "landlock")


def works(kind: Kind) -> bool:
    """Tell whether this machine has it."""
    try:
        Sandbox(kind=kind)
    except SandboxError:
        return False
    return True


KINDS = tuple(kind for kind in SANDBOXES if works(kind)) or SANDBOXES[:1]
"""What to test: all that work here. Without any the tests run all the same, and fail with the name of the package to install."""


def parents() -> Iterator[tuple[int, int]]:
    """List all processes with their parents."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            yield int(entry), int(stat.rpartition(")")[2].split()[1])


def descendants(root: int | None = None) -> set[int]:
    """Processes that come from this one, or from `root`, however far."""
    found, children = {root or os.getpid()}, list(parents())
    for _ in range(20):
        found |= {pid for pid, parent in children if parent in found}
    return found - {root or os.getpid()}


def alive(pids: set[int]) -> set[int]:
    """Those that still run, zombies included."""
    return {pid for pid in pids if os.path.exists(f"/proc/{pid}")}
