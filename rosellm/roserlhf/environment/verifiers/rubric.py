"""A rubric: `named, weighted verifiers -> a score each, and their weighted mean`; what has no score stays None and has a cause."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.verifiers.contract import Verifier, verified
from rosellm.roserlhf.errors import RangeError, VerifierError
from rosellm.roserlhf.record import plain


@dataclass(frozen=True)
class Component:
    """One verifier of a rubric.

    Raises:
        RangeError: a negative weight.
    """

    verifier: Verifier
    """Plain or `async`."""
    weight: float = 1.0
    """Share in the total; with 0 it is recorded only."""
    seconds: float | None = None
    """Time limit of an `async` verifier; a plain one is wrapped by `isolated`."""

    def __post_init__(self) -> None:
        checks.number_in(self.weight, "weight", 0, math.inf, open_high=True)


class Scores(dict[str, float | None]):
    """Named scores as `score()` returns them, with the reason for each that is None because its verifier failed."""

    def __init__(self, scores: Mapping[str, float | None], causes: Mapping[str, str]) -> None:
        super().__init__(scores)
        self.causes = dict(causes)
        """Why a verifier gave no number, by component; a component that abstained has none."""


class Rubric:
    r"""Several verifiers of one answer.

    .. math:: \text{total} = \sum_i w_i s_i \Big/ \sum_i w_i

    The total is None as soon as one component that carries a weight is: the mean of the others would be another standard.

    Args:
        components: verifiers by the name of their reward component.
        total: name of the weighted mean among the scores.

    Raises:
        RangeError: no component carries a weight, or one has the name of the total.

    Example:
        >>> import asyncio
        >>> from rosellm.roserlhf.environment.verifiers import Component, Rubric
        >>> rubric = Rubric({
        ...     "polite": Component(lambda text: float("please" in text), weight=1.0),
        ...     "short": Component(lambda text: float(len(text) < 20), weight=3.0),
        ... })
        >>> asyncio.run(rubric.score("sit down"))
        {'polite': 0.0, 'short': 1.0, 'rubric': 0.75}
    """

    def __init__(self, components: Mapping[str, Component], *, total: str = "rubric") -> None:
        self._components, self._total = dict(components), plain.name(total, "total")
        if total in self._components:
            raise checks.fail(RangeError, "total", "be no name of a component", repr(total))
        self._weight = math.fsum(component.weight for component in self._components.values())
        if not 0 < self._weight < math.inf:
            raise checks.fail(RangeError, "components", "carry a weight", f"{self._weight:g} in {len(self._components)}")

    async def score(self, *arguments: Any, **keywords: Any) -> Scores:
        """Call every verifier with the same arguments, `async` ones together.

        Returns:
            A score for each component and their total. One whose verifier fails is None and named in `causes`; the others stand.
        """
        causes: dict[str, str] = {}

        async def one(name: str, component: Component) -> float | None:
            try:
                return await verified(component.verifier, *arguments, seconds=component.seconds, name=name, **keywords)
            except VerifierError as error:
                causes[name] = str(error)
                return None

        found = await asyncio.gather(*(one(name, component) for name, component in self._components.items()))
        scores = dict(zip(self._components, found, strict=True))
        return Scores({**scores, self._total: self._mean(scores)}, causes)

    def _mean(self, scores: Mapping[str, float | None]) -> float | None:
        terms = []
        for name, component in self._components.items():
            score = scores[name]
            if component.weight and score is None:
                return None
            terms.append(component.weight * (score or 0.0))
        return min(1.0, math.fsum(terms) / self._weight)
