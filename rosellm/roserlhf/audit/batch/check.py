"""One check: what it is called, what it needs, and how it reads the profile of a batch.

A check looks at the profile (numbers per row, on the host) first and returns at once if they are in order; only then may it go back
to the tensors of the batch for evidence, which is slow and waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from torch import Tensor

from rosellm.roserlhf.audit.batch.inputs import Batch
from rosellm.roserlhf.audit.batch.profile import Profile
from rosellm.roserlhf.audit.batch.runs import Array
from rosellm.roserlhf.audit.findings import Finding

Seen: TypeAlias = Profile[Array]
"""The profile after it was read back."""

SHOWN = 8
"""How many places an item of evidence shows."""


@dataclass(frozen=True)
class Check:
    """A detector, and the names that it can give."""

    names: tuple[str, ...]
    """The `check` of its findings."""
    needs: tuple[str, ...]
    """Arguments without which it is not made; see `Batch.given`."""
    find: Callable[[Batch, Seen], Iterable[Finding]]
    """Yields what it finds, usually nothing."""

    def lacks(self, batch: Batch) -> str | None:
        """Name the arguments that are missing; None: it can be made."""
        missing = [need for need in self.needs if not batch.given(need)]
        return "needs " + " and ".join(missing) if missing else None


class CannotTellError(Exception):
    """Raised by a check whose arguments are there but say too little; the report lists it as not checked, with this reason."""


def rows_where(flags: Array) -> list[int]:
    """Indices of the rows for which something holds."""
    return [int(row) for row in np.flatnonzero(flags)]


def places(flags: Tensor) -> list[list[int]]:
    """Return the first few `[row, position]` at which a token flag is set."""
    return [list(map(int, place)) for place in flags.nonzero()[:SHOWN].tolist()]


def pairs(row: Array, place: Array) -> list[list[int]]:
    """Return the first few of some `[row, position]`."""
    return [[int(r), int(p)] for r, p in zip(row[:SHOWN], place[:SHOWN], strict=True)]


def some(total: int, of: int, what: str) -> str:
    """Write `3 of 8 rows`.

    Example:
        >>> from rosellm.roserlhf.audit.batch.check import some
        >>> some(3, 8, "row"), some(1, 1, "row")
        ('3 of 8 rows', '1 of 1 row')
    """
    return f"{total} of {of} {what}" + ("" if of == 1 else "s")
