"""What came back from the sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rosellm.roserlhf.record.plain import Json

Kind = Literal["bubblewrap", "landlock", "bare"]
"""What holds a program: the first two are sandboxes, `bare` is none."""
Ending = Literal["ok", "error", "timeout", "output", "memory", "cpu", "died"]
"""How a program or cell ended. `ok`: it ran to its end. `error`: it raised, or exited with a code other than 0. `memory`: it ran
into `Limits.memory` and did not catch that. `timeout`, `output`, `cpu`: stopped at that limit. `died`: its process went away, by a
signal, by `os._exit` or because it closed its channel."""


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """One program, or one cell of a session, as seen from outside.

    `timeout`, `output`, `cpu`, `died` and `seconds` are what this side observed. `ok`, `error`, `memory` and `value` are what the
    interpreter in the box reported, and the program, which shares its process, could have made it report anything else: enough to
    answer the one who wrote the program, not to pay for it. Use `unit_tests` for that.
    """

    ending: Ending
    """How it ended."""
    output: str
    """Standard output; bytes that are no UTF-8 stand as `\\xNN`."""
    errors: str
    """Standard error, a traceback included."""
    seconds: float
    """Wall time from handing over the code to its end; the start of the box is not counted."""
    kind: Kind
    """What held it."""
    state_lost: bool = False
    """The box is gone: variables and files of this and all earlier cells are lost, the next cell starts afresh."""
    value: Json = None
    """What the program left under the name `__value__`, if that is JSON."""
