r"""How much a call is like labelled attempts rather than like labelled honest work, by pairs of what it holds: `case -> likeness`.

What the judge asks. A support vector machine over the $N$ labelled calls that `benchmarks/guard_resemblance.py` fits it to:

.. math::
    s = b + \sum_i w_i x_i + \sum_n a_n \Bigl(\sum_{i \in S} z_i z_{ni}\Bigr)^2

with $x$ the features of the call (see `resemblance.py`), each $1 + \ln \frac{1 + N}{1 + d_i}$ where it occurs in $d_i$ of the
labelled calls, scaled to length 1; $z$ those of them, $S$, that are neither pairs of neighbouring words nor too common, again of
length 1; $a_n$ what labelled call $n$ adds if it is an attempt or takes away if it is honest. The square makes two features count
together that say nothing alone: a place and what is done to it. From 0 on a call is more like attempts. What made a score are
labelled calls, so it can say which.

Source: C. Cortes, V. Vapnik, "Support-vector networks", 1995, https://doi.org/10.1007/BF00994018, with the sum of a linear and a
squared linear kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rosellm.roserlhf.guard.reading import read_call
from rosellm.roserlhf.guard.resemblance import LEAST_KNOWN, Features, features_of, rarity_of, table
from rosellm.roserlhf.guard.verdict import Case

_NAMED: Final = 3
"""Labelled calls that a likeness names."""
_PAIR: Final = "b:"


class Likeness(NamedTuple):
    """A score, and whence it comes."""

    score: float
    """From 0 on a call is more like attempts than like honest work."""
    attempts: tuple[str, ...]
    """Labelled attempts that add most to the score, from the first."""


@dataclass(frozen=True)
class Precedents:
    """Labelled calls, and how much each weighs.

    Args:
        names: of the calls.
        features: names of all features; pairs of words begin with `b:`.
        rarity: of each feature, $1 + \\ln \\frac{1 + N}{1 + d}$.
        weights: of each feature in the linear part.
        bias: what is added to each score.
        alphas: what each call adds.
        starts: where the features of each call start in `held`, and their end.
        held: places in `features` of what each call holds of $S$, in rising order.
        squared: whether each feature is one of $S$.
        least_known: words and pairs of a call that must be known, lest a few of them decide.
    """

    names: Sequence[str]
    features: Sequence[str]
    rarity: NDArray[np.float64]
    weights: NDArray[np.float64]
    bias: float
    alphas: NDArray[np.float64]
    starts: NDArray[np.int64]
    held: NDArray[np.int64]
    squared: NDArray[np.bool_]
    least_known: int = 0

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.features)}

    @cached_property
    def _holders(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Of each feature the calls that hold it, one after the other, and where each feature's start."""
        calls = np.repeat(np.arange(len(self.names), dtype=np.int32), np.diff(self.starts))
        counts = np.bincount(self.held, minlength=len(self.features))
        return calls[np.argsort(self.held, kind="stable")], np.concatenate(([0], np.cumsum(counts)))

    @cached_property
    def _lengths(self) -> NDArray[np.float64]:
        """The length of what each call holds."""
        sums = np.concatenate(([0.0], np.cumsum(self.rarity[self.held] ** 2)))
        squares: NDArray[np.float64] = np.diff(sums[self.starts])
        lengths: NDArray[np.float64] = np.sqrt(squares.clip(min=1e-18))
        return lengths

    def likeness(self, features: Features) -> Likeness | None:
        """Return how like attempts a call of these features is.

        Args:
            features: of the call.

        Returns:
            The score and the attempts that add most; None if fewer words and pairs are known than `least_known`.

        Example:
            >>> import numpy as np
            >>> one = Precedents(
            ...     ["a-1", "a-2"], ["u:cat", "u:hidden"], np.ones(2), np.zeros(2), 0.0, np.array([1.0, -0.5]), np.array([0, 2, 3]),
            ...     np.array([0, 1, 0]), np.array([True, True]),
            ... )
            >>> one.likeness(Features(["cat", "hidden"], set(), set()))
            Likeness(score=0.75, attempts=('a-1',))
        """
        known = {name: place for name in features.named() if (place := self._place.get(name)) is not None}
        if sum(name.startswith(("u:", _PAIR)) for name in known) < max(1, self.least_known):
            return None
        every = np.sort(np.array(list(known.values())))
        weighed = self.rarity[every]
        linear = float(self.weights[every] @ weighed) / math.sqrt(float(weighed @ weighed))
        added = self.alphas * self._overlaps(every[self.squared[every]]) ** 2
        most = np.argpartition(added, -_NAMED)[-_NAMED:] if len(added) > _NAMED else np.arange(len(added))
        attempts = sorted(((float(added[call]), self.names[call]) for call in most if added[call] > 0), reverse=True)
        return Likeness(round(self.bias + linear + float(added.sum()), 6), tuple(name for _, name in attempts))

    def _overlaps(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        r"""Return $\sum_i z_i z_{ni}$ for every labelled call."""
        holders, begins = self._holders
        squares = self.rarity[places] ** 2
        counts = begins[places + 1] - begins[places]
        calls = np.concatenate([holders[begins[place] : begins[place + 1]] for place in places] or [holders[:0]])
        sums = np.bincount(calls, np.repeat(squares, counts), minlength=len(self.names))
        return sums / (self._lengths * max(math.sqrt(float(squares.sum())), 1e-9))


@cache
def builtin() -> Precedents:
    """Return the labelled calls that come with the package."""
    with (resources.files("rosellm.roserlhf.guard") / "precedents.npz").open("rb") as file:
        kept = np.load(file, allow_pickle=False)
        names = bytes(kept["names"]).decode().split("\n")
        counts, steps = kept["counts"].astype(np.int64), kept["steps"].astype(np.int64)
        weights, alphas, bias = kept["weights"].astype(np.float64), kept["alphas"].astype(np.float64), float(kept["bias"])
    calls, _, known = table()
    starts = np.concatenate(([0], np.cumsum(counts)))
    total = np.concatenate(([0], np.cumsum(steps)))
    held = total[1:] - np.repeat(total[starts[:-1]], counts)
    rarity = np.array([rarity_of(calls, seen) for _, seen, _ in known])
    squared = np.bincount(held, minlength=len(known)) > 0
    return Precedents(names, [name for name, _, _ in known], rarity, weights, bias, alphas, starts, held, squared, LEAST_KNOWN)


def likeness(case: Case) -> Likeness | None:
    """Return how like labelled attempts a case is, by the calls that come with the package; None if too little of it is known."""
    acts = [act for act in read_call(case.tool, case.arguments, case.history, case.setting).acts if act.kind != "resemblance"]
    return builtin().likeness(features_of(case.tool, case.arguments, case.history, case.setting, acts))
