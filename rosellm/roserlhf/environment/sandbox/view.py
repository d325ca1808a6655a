"""What a program in the sandbox sees of the file system: `this machine → interpreter, system folders, folders hidden in them`."""

from __future__ import annotations

import glob
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import SandboxError

SCRATCH = "/tmp"
"""Where the program works: its own file system, gone with the box."""
_PACKAGE = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class View:
    """The read-only part of a box. Nothing else of the machine is readable in it."""

    python: str
    """The interpreter that runs the programs, with its standard library alone."""
    folders: tuple[str, ...]
    """Real folders that are readable."""
    links: tuple[tuple[str, str], ...]
    """Symbolic links at the top, as (path, target)."""
    hidden: tuple[str, ...]
    """Folders within `folders` that appear empty: installed packages, this one above all."""


def view_of(python: str | None) -> View:
    """Work out what the interpreter needs.

    Args:
        python: path of the interpreter; None takes the first of the system's and the running one that an unprivileged user may run.

    Raises:
        SandboxError: no such interpreter.
    """
    candidates = ["/usr/bin/python3", "/usr/local/bin/python3", f"{sys.base_prefix}/bin/python3"] if python is None else [python]
    usable = [path for path in candidates if _runnable(path)]
    if not usable:
        fix = "install the package python3"
        raise checks.fail(SandboxError, "python", "be an interpreter that any user may run", ", ".join(candidates), fix=fix)
    prefix = str(Path(os.path.realpath(usable[0])).parents[1])
    top = [path for path in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32") if os.path.isdir(path)]
    folders = [path for path in top if not os.path.islink(path)]
    if not _within(prefix, folders):
        folders.append(prefix)
    links = tuple((path, os.readlink(path)) for path in top if os.path.islink(path))
    return View(usable[0], tuple(folders), links, tuple(_hidden(folders, prefix)))


def _runnable(path: str) -> bool:
    """Tell whether the user that the sandbox becomes can run it; root itself could, whatever the permissions."""
    real = Path(os.path.realpath(path))
    if not os.access(real, os.X_OK) or real.is_dir():
        return False
    return os.geteuid() != 0 or all(place.stat().st_mode & 0o001 for place in (real, *real.parents))


def _within(path: str, folders: list[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _hidden(folders: list[str], prefix: str) -> list[str]:
    found = {"/usr/src", str(_PACKAGE)} | ({"/usr/local"} if not _within(prefix, ["/usr/local"]) else set())
    for root in {"/usr", "/usr/local", prefix}:
        for name in ("site-packages", "dist-packages"):
            found.update(glob.glob(f"{glob.escape(root)}/lib*/python3*/{name}"))
    inside = sorted(path for path in found if _within(path, folders) and os.path.isdir(path) and not os.path.islink(path))
    return [path for path in inside if not _within(path, [other for other in inside if other != path])]
