"""Where a mask is true, as stretches: a large mask has a few hundred, so what holds at their ends is cheap to ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Runs:
    """Stretches of consecutive trained tokens, one entry each, in reading order."""

    row: Array
    first: Array
    """Position of the first token."""
    last: Array
    """Position of the last token."""

    @property
    def several(self) -> Array:
        """Whether a run has two tokens or more."""
        return np.asarray(self.first < self.last)


def runs_of(mask: Array) -> Runs:
    """Find the runs of a boolean mask `[B, T]` by comparing it with itself moved by one.

    Example:
        >>> import numpy as np
        >>> from rosellm.roserlhf.audit.batch.runs import runs_of
        >>> runs = runs_of(np.array([[False, True, True, False, True]]))
        >>> runs.first.tolist(), runs.last.tolist()
        ([1, 4], [2, 4])
    """
    rows, width = mask.shape
    edges = np.empty((rows, width + 1), dtype=bool)
    edges[:, 0], edges[:, width] = mask[:, 0], mask[:, -1]
    np.not_equal(mask[:, 1:], mask[:, :-1], out=edges[:, 1:width])
    places = np.flatnonzero(edges)  # a start, an end, a start, … : each row has as many of one as of the other
    starts, ends = places[::2], places[1::2]
    row = starts // (width + 1)
    before = row * (width + 1)
    return Runs(row, starts - before, ends - before - 1)
