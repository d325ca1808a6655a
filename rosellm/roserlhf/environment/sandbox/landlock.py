"""The sandbox without bubblewrap: `limits → the command line of the launcher beside this file`, for kernels with Landlock."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rosellm.roserlhf.environment.sandbox.bubblewrap import ENVIRONMENT
from rosellm.roserlhf.environment.sandbox.limits import Limits
from rosellm.roserlhf.environment.sandbox.view import SCRATCH, View

_LAUNCHER = Path(__file__).with_name("landlock_launcher.py")


def command(program: Sequence[str], view: View, limits: Limits, *, filter_fd: int, info_fd: int) -> list[str]:
    """Build the command that runs `program` in a box; arguments as in `bubblewrap.command`."""
    plan = {
        "program": list(program),
        "environment": ENVIRONMENT,
        "readable": [*view.folders, *(path for path, _ in view.links), "/etc/ld.so.cache"],
        "hidden": [*view.hidden, *_others(view)],
        "scratch": SCRATCH,
        "size": limits.scratch,
        "filter_fd": filter_fd,
        "info_fd": info_fd,
    }
    return [sys.executable, "-I", "-S", "-B", str(_LAUNCHER), json.dumps(plan)]


def _others(view: View) -> list[str]:
    """List the folders at the top that nothing in the box needs, so that not even their names remain."""
    needed = {f"/{path.split('/')[1]}" for path in (*view.folders, *(path for path, _ in view.links), "/etc", "/dev", SCRATCH)}
    tops = sorted(f"/{name}" for name in os.listdir("/"))
    return [path for path in tops if path not in needed and os.path.isdir(path) and not os.path.islink(path)]
