"""The sandbox of choice: `limits → the command line of bubblewrap`.

Root becomes an unprivileged user *first*: a user namespace that root makes is still root to the kernel, which then lets it write
to /proc/sys and counts no processes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from rosellm.roserlhf.environment.sandbox.limits import Limits
from rosellm.roserlhf.environment.sandbox.view import SCRATCH, View
from rosellm.roserlhf.errors import SandboxError

_DEVICES = ("null", "zero", "full", "random", "urandom")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": SCRATCH, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
"""All that a program finds in its environment."""


def command(program: Sequence[str], view: View, limits: Limits, *, filter_fd: int, info_fd: int) -> list[str]:
    """Build the command that runs `program` in a box.

    Args:
        program: the command inside.
        view: what it may read.
        limits: only the size of the scratch is set here, the others inside.
        filter_fd: where the system-call filter can be read.
        info_fd: where the process id of the box's first process is to be written.

    Raises:
        SandboxError: bubblewrap, or as root setpriv, is not installed.
    """
    bwrap = _installed("bwrap", "bubblewrap")
    drop = []
    if os.geteuid() == 0:
        drop = [_installed("setpriv", "util-linux"), "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]
    options = [
        "--unshare-all",
        "--unshare-user",
        "--disable-userns",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--hostname",
        "box",
    ]
    for name, value in ENVIRONMENT.items():
        options += ["--setenv", name, value]
    for folder in view.folders:
        options += ["--ro-bind", folder, folder]
    for path, target in view.links:
        options += ["--symlink", target, path]
    for path in view.hidden:
        options += ["--tmpfs", path, "--remount-ro", path]
    options += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--tmpfs", "/dev"]
    for device in _DEVICES:
        options += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    # shared memory counts as scratch: one file system, one bound; no /proc, which shows what the host is
    options += ["--symlink", SCRATCH, "/dev/shm", "--remount-ro", "/dev"]
    options += ["--size", str(limits.scratch), "--tmpfs", SCRATCH, "--remount-ro", "/", "--chdir", SCRATCH]
    return [*drop, bwrap, *options, "--seccomp", str(filter_fd), "--info-fd", str(info_fd), "--", *program]


def _installed(name: str, package: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise SandboxError(f"{name} is not installed; install the package {package}")
    return path
