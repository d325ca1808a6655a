"""What a program in the sandbox may use up."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from rosellm.roserlhf import checks

MiB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one box; those of a process hold for each of its processes.

    Raises:
        DtypeError: a bound that is no number.
        RangeError: a bound that leaves nothing.

    Example:
        >>> Limits(seconds=2).memory // 2**20
        512
    """

    seconds: float = 10.0
    """Wall time of one program, or of one cell of a session."""
    cpu_seconds: int = 60
    """Processor time of one process over its whole life."""
    memory: int = 512 * MiB
    """Address space of one process, in bytes. All processes together can take `processes` times as much."""
    processes: int = 16
    """Processes and threads at one time, the interpreter itself included."""
    open_files: int = 64
    """File descriptors of one process."""
    file_size: int = 8 * MiB
    """Bytes of one file."""
    scratch: int = 32 * MiB
    """Bytes of all files together."""
    output: int = MiB
    """Bytes that one program or cell may write to its standard output and error; more ends it."""

    def __post_init__(self) -> None:
        checks.number_in(self.seconds, "seconds", 0, math.inf, open_low=True, open_high=True)
        lowest = {"memory": 64 * MiB, "processes": 2, "open_files": 16}
        for bound in fields(self):
            if bound.name != "seconds":
                checks.count(getattr(self, bound.name), bound.name, at_least=lowest.get(bound.name, 1))
