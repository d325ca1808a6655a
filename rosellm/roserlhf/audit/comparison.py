"""What was recorded against what was recomputed: `pairs of values, in the order of cause and effect → counts, first difference`.

Where the same bits are to be expected, equal means bit for bit. On another machine the arithmetic rounds otherwise, and training is
chaotic: a difference in the last bit of a log-probability is some 1e-6 in the first step after a checkpoint and can be 1e-1 in the
tenth. So each quantity has an allowed difference, relative to values above 1, that grows with the steps and soon ends: what cannot
be compared is neither equal nor different.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

QUANTITIES = (
    "checkpoint",
    "record",
    "row",
    "reward",
    "advantage",
    "update",
    "denominator",
    "learning rate",
    "current log-probability",
    "loss",
    "gradient norm",
    "metric",
    "counted metric",
    "weights",
)
"""What is compared, in the order of cause and effect."""

DRIFTING: Mapping[str, float] = {"current log-probability": 1e-4, "loss": 1e-6, "gradient norm": 1e-4, "metric": 1e-4}
"""What rounding may change on another machine in the first step after a checkpoint; it is about a tenth of that."""
GROWTH = 5.0
"""From step to step that difference grows by up to this factor: each update starts from weights that are a little off."""
STEPS = 5
"""After so many steps it says nothing any more."""
HASHES = frozenset({"counted metric", "weights"})
"""What one rounding changes altogether: hashes of weights, and counts of tokens beyond a bound, for one may lie at the bound."""
ADVANTAGES = 1e-12
"""Rewards are sums of recorded numbers, the same everywhere; advantages are float64 means and roots of them."""


@dataclass(frozen=True)
class Tolerance:
    """How much may differ: not a bit where the run was made, elsewhere what rounding explains."""

    elsewhere: bool
    """Whether another machine, or another version of a package, made the run."""
    checkpoint: int
    """Step of the checkpoint that the replay starts from."""

    def allowed(self, quantity: str, step: int) -> float | None:
        """Return the largest difference that counts as equal, 0 for not a bit; None if the quantity cannot be compared."""
        if not self.elsewhere:
            return 0.0
        if quantity in HASHES:
            return None
        if quantity in DRIFTING:
            steps = step - self.checkpoint
            return DRIFTING[quantity] * GROWTH ** (steps - 1) if steps <= STEPS else None
        return ADVANTAGES if quantity == "advantage" else 0.0


@dataclass(frozen=True)
class Difference:
    """One value that is not what was recorded; None where a part of the place is not defined."""

    step: int
    """Training step."""
    quantity: str
    """What differs."""
    recorded: Any
    """As it stands in the run folder."""
    recomputed: Any
    """As the replay finds it."""
    _: KW_ONLY
    update: int | None = None
    """Optimizer update of the step."""
    trajectory_id: str | None = None
    """Record."""
    turn: int | None = None
    """Turn of the token."""
    position: int | None = None
    """Place of the token among all ids of the record's context, from 0."""
    token_id: int | None = None
    """The token."""

    def __str__(self) -> str:
        place = [f"step {self.step}"]
        for name, value in (("update", self.update), ("trajectory", self.trajectory_id), ("turn", self.turn)):
            place += [] if value is None else [f"{name} {value!r}"]
        if self.position is not None:
            place.append(f"position {self.position} (token {self.token_id})")
        return f"{', '.join(place)}: {self.quantity} recorded as {self.recorded!r}, recomputed as {self.recomputed!r}"


@dataclass(frozen=True)
class Compared:
    """One line of the table."""

    quantity: str
    """One of `QUANTITIES`."""
    allowed: float | None
    """Largest difference that counted as equal, in the last step where it was compared; 0: not a bit; None: nowhere compared."""
    compared: int
    """Values held against each other."""
    incomparable: int
    """Values that cannot be compared here: neither equal nor different."""
    differing: int
    """Those beyond what is allowed."""
    largest: float | None
    """Largest difference of two numbers, allowed or not, relative to values above 1; None where there were no two."""
    first: Difference | None
    """The first beyond what is allowed."""


@dataclass
class _Count:
    allowed: float | None = None
    compared: int = 0
    incomparable: int = 0
    differing: int = 0
    largest: float | None = None
    first: Difference | None = None


@dataclass
class Comparison:
    """Holds values against each other; call it in the order of cause and effect.

    Example:
        >>> here = Comparison(Tolerance(elsewhere=False, checkpoint=0))
        >>> here.value("loss", 1, 0.25, 0.25, update=0), here.value("loss", 1, 0.25, 0.5, update=1)
        (True, False)
        >>> print(here.first)
        step 1, update 1: loss recorded as 0.25, recomputed as 0.5
    """

    tolerance: Tolerance
    first: Difference | None = None
    """The first difference of all."""
    _counts: dict[str, _Count] = field(default_factory=dict)

    def value(self, quantity: str, step: int, recorded: Any, recomputed: Any, *, name: str = "", **place: Any) -> bool:
        """Hold two values against each other; return whether they are equal as far as they can be compared.

        Args:
            quantity: one of `QUANTITIES`.
            step: training step.
            recorded, recomputed: numbers are equal within what is allowed; anything else is equal or not.
            name: of one among several values of the quantity.
            place: the rest of a `Difference`.
        """
        count, allowed = self._counts.setdefault(quantity, _Count()), self.tolerance.allowed(quantity, step)
        if allowed is None:
            count.incomparable += 1
            return True
        count.compared, count.allowed = count.compared + 1, allowed
        distance = _distance(recorded, recomputed)
        if distance is not None:
            count.largest = max(distance, count.largest or 0.0)
        equal = _same_bits(recorded, recomputed) if allowed == 0 or distance is None else distance <= allowed
        if not equal:
            self._differs(count, Difference(step, name or quantity, recorded, recomputed, **place))
        return equal

    def numbers(
        self, quantity: str, step: int, recorded: Sequence[float], recomputed: Sequence[float], places: Sequence[Mapping[str, Any]]
    ) -> None:
        """Hold two columns of float32 numbers of one length against each other, each number with its place."""
        one, other = (np.asarray(column, dtype=np.float32) for column in (recorded, recomputed))
        if np.array_equal(one.view(np.int32), other.view(np.int32)) and not self.tolerance.elsewhere:
            count = self._counts.setdefault(quantity, _Count(0.0, largest=0.0))
            count.compared += len(one)
            return
        for was, now, place in zip(one.tolist(), other.tolist(), places, strict=True):
            self.value(quantity, step, was, now, **place)

    def differs(self, quantity: str, difference: Difference) -> None:
        """Enter a difference that was found otherwise."""
        count = self._counts.setdefault(quantity, _Count(0.0))
        count.compared += 1
        self._differs(count, difference)

    def table(self) -> tuple[Compared, ...]:
        """Return a line for every quantity that came up."""
        return tuple(Compared(name, **vars(self._counts[name])) for name in QUANTITIES if name in self._counts)

    def _differs(self, count: _Count, difference: Difference) -> None:
        count.differing += 1
        count.first = count.first or difference
        self.first = self.first or difference


def leaves(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Open nested mappings and lists: yield (path, value)."""
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield from leaves(value, f"{path}.{name}" if path else str(name))
    elif isinstance(values, (list, tuple)):
        for index, value in enumerate(values):
            yield from leaves(value, f"{path}[{index}]")
    else:
        yield path, values


def _distance(recorded: Any, recomputed: Any) -> float | None:
    """Difference of two numbers relative to values above 1; None if one of them is no number, infinite if one is not finite."""
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (recorded, recomputed)):
        return None
    if _same_bits(recorded, recomputed):
        return 0.0
    distance = abs(recorded - recomputed) / max(1.0, abs(recorded))
    return math.inf if math.isnan(distance) else distance


def _same_bits(one: Any, other: Any) -> bool:
    if type(one) is float and type(other) is float:
        return struct.pack("<d", one) == struct.pack("<d", other)
    return bool(one == other)
