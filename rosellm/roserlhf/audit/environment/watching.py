"""What an environment must leave alone: `a block of code -> what it printed, and whose global random state it changed`."""

from __future__ import annotations

import itertools
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

SHOWN = 200
"""Characters of what was printed that are kept."""


_SEEDS = itertools.count(2_718_281_828)


@dataclass
class Seen:
    """What was seen; complete when the block has ended."""

    printed: str = ""
    """Beginning of what went to standard output."""
    complained: str = ""
    """Beginning of what went to standard error."""
    random: list[str] = field(default_factory=list)
    """Libraries whose global random state is another than before."""


@contextmanager
def watched() -> Iterator[Seen]:
    """Watch a block: descriptors 1 and 2, so that what C code and children print is seen, too, and every global random state.

    Those states are first set to what no program sets them to, so that seeding shows as much as drawing.
    """
    seen, before = Seen(), _disturb()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        kept = [_redirect(stream, number, file) for stream, number, file in ((sys.stdout, 1, output), (sys.stderr, 2, errors))]
        try:
            yield seen
        finally:
            for stream, number, old in zip((sys.stdout, sys.stderr), (1, 2), kept, strict=True):
                stream.flush()
                os.dup2(old, number)
                os.close(old)
            seen.printed, seen.complained = _beginning(output), _beginning(errors)
            seen.random = [name for name, state in _states().items() if before.get(name, state) != state]


def _redirect(stream: IO[str], number: int, file: IO[bytes]) -> int:
    stream.flush()
    kept = os.dup(number)
    os.dup2(file.fileno(), number)
    return kept


def _beginning(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(SHOWN).decode("utf-8", "replace")


def _disturb() -> dict[str, Any]:
    seed = next(_SEEDS)
    random.seed(seed)
    for library, setting in (("numpy.random", "seed"), ("torch", "manual_seed")):
        if library in sys.modules:
            getattr(sys.modules[library], setting)(seed)
    return _states()


def _states() -> dict[str, Any]:
    states: dict[str, Any] = {"random": random.getstate()}
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is not None:
        states["numpy.random"] = repr(numpy.get_state(legacy=False)["state"])
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        states["torch"] = torch.get_rng_state().numpy().tobytes()
    return states
