"""All functions and methods whose meaning a table cannot hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rosellm.roserlhf.guard.python import containers, dynamic, files, services, system
from rosellm.roserlhf.guard.python.value import Place

if TYPE_CHECKING:
    from rosellm.roserlhf.guard.python.calling import Call

HANDLERS: dict[str, Callable[[Call], Any]] = {
    **files.HANDLERS,
    **containers.HANDLERS,
    **services.HANDLERS,
    **system.HANDLERS,
    "inspect.getmodule": lambda call: call.argument(0),
    "os.getcwd": lambda call: call.machine.scene.workdir,
    "pathlib.Path.cwd": lambda call: Place(call.machine.scene.workdir),
    "pathlib.Path.home": lambda call: Place(call.machine.scene.home),
    "tempfile.gettempdir": lambda call: "/tmp",
    **dynamic.HANDLERS,
}
"""Functions, by canonical name."""
METHODS: dict[str, Callable[[Call], Any]] = {**services.METHODS, **system.METHODS, **dynamic.METHODS}
"""Methods, whatever they are called on."""
