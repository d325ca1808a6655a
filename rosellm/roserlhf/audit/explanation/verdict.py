"""What the objective did with one token: `its gradient + the objective's own statistics -> Verdict`, for any objective.

Two sources, neither of which knows the objective's name. The derivative says *whether* a gradient is left and how large it is
against `ratio x advantage`. The partials say *why*: a partial called `..._fraction...` counts how often something holds, so its
value on a part of the row in which all tokens agree is the answer for each of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rosellm.roserlhf.audit.explanation.numbers import brief
from rosellm.roserlhf.audit.explanation.update_gradient import RowGradient, call
from rosellm.roserlhf.batching.tensors import pad
from rosellm.roserlhf.trainer.recipe import PolicyObjective

_TOLERANCE = 1e-4
"""Relative rounding within which a weight counts as equal to the ratio; both are float32."""
_MARK = "_fraction"
_ABOUT_THE_BATCH = "empty_batch_fraction"
_CAPPED = frozenset({"clip_fraction_above", "clip_fraction_below"})
"""Statistics of objectives whose clip changes the weight and removes no gradient."""


@dataclass(frozen=True)
class Verdict:
    """Clip, trust interval or gate, as this token met it."""

    words: str
    """In one line."""
    gradient: bool
    """Whether any gradient is left."""
    weight: float | None
    """What multiplies the advantage in the token's derivative: the ratio inside a clip interval; None where the advantage is 0."""
    holds: tuple[str, ...]
    """The objective's statistics that count this token, such as `clip_fraction` and `clip_fraction_binding`."""


def verdicts(
    one: RowGradient, objective: PolicyObjective, denominator: float, interval: tuple[float, float] | None
) -> list[Verdict]:
    """Judge every trained token of a row, in order.

    Args:
        one: the row in the update.
        objective: the recipe's.
        denominator: of the update.
        interval: ratios that the recipe's options `clip_low` and `clip_high` allow; None if it has no such options.
    """
    if one.row.advantage is None:
        return []
    advantages = one.row.token_advantages()
    places = [index for index, live in enumerate(one.row.loss_mask) if live]
    holds = _Statistics(objective, one, denominator).of(places)
    judged = []
    shares = [None] * len(one.row.loss_mask) if one.weight is None else one.weight.tolist()
    columns = list(zip(one.ratio.tolist(), one.derivative.tolist(), shares, strict=True))
    for place in places:
        (ratio, slope, share), advantage = columns[place], advantages[place]
        weight = -slope / (share * advantage) if share and advantage else None
        names = tuple(sorted(holds[place]))
        words = _removed(advantage, ratio, names, interval) if slope == 0 else _left(advantage, ratio, weight, names, interval)
        judged.append(Verdict(words, slope != 0, weight, names))
    return judged


def _removed(advantage: float, ratio: float, names: tuple[str, ...], interval: tuple[float, float] | None) -> str:
    if advantage == 0:
        return "the advantage is 0"
    if any("log_ratio_clamped" in name for name in names):
        return "log-ratio beyond its bound"
    if any(name.endswith("_binding") for name in names):
        side = _sequence_side(advantage > 0, interval) if _of_sequence(names) else _side(ratio, interval)
        return f"clip binds: {side}, {_sign(advantage)}"
    if names:
        return max(names, key=len).replace(_MARK, "").replace("_", " ")
    return "the objective leaves no gradient"


def _left(
    advantage: float, ratio: float, weight: float | None, names: tuple[str, ...], interval: tuple[float, float] | None
) -> str:
    if _CAPPED.intersection(names) and weight is not None:
        return f"weight capped at {brief(weight)}"
    if any("clip" in name for name in names):
        side = _sequence_side(advantage < 0, interval) if _of_sequence(names) else _side(ratio, interval)
        return f"not binding: {side}, {_sign(advantage)}"
    if weight is None or not math.isfinite(weight):
        return "gradient kept"
    if is_the_ratio(weight, ratio):
        return "inside" if interval else "weight = ratio"
    return f"weight {brief(weight)}"


def is_the_ratio(weight: float, ratio: float) -> bool:
    """Tell whether a weight, which went through float32, is the ratio."""
    return abs(weight - ratio) <= _TOLERANCE * abs(ratio)


def _side(ratio: float, interval: tuple[float, float] | None) -> str:
    if interval is None or interval[0] <= ratio <= interval[1]:  # a clip by something else than this token's own ratio
        return "outside"
    return f"above {brief(interval[1])}" if ratio > interval[1] else f"below {brief(interval[0])}"


def _of_sequence(names: tuple[str, ...]) -> bool:
    """Whether the ratio that was clipped is that of the whole sequence, whatever the token's own is."""
    return any(name.startswith("sequence_clip") for name in names)


def _sequence_side(above: bool, interval: tuple[float, float] | None) -> str:
    """The side follows from the sign of the advantage and whether the clip binds."""
    if interval is None:
        return "its sequence outside"
    return f"its sequence above {brief(interval[1])}" if above else f"its sequence below {brief(interval[0])}"


def _sign(advantage: float) -> str:
    return "A > 0" if advantage > 0 else "A < 0"


class _Statistics:
    """Asks the objective about parts of one row until all tokens of a part agree.

    What is counted among tokens of one sign of the advantage says nothing about the others; statistics of a whole sequence are
    settled by the first question, which is about the whole row.
    """

    def __init__(self, objective: PolicyObjective, one: RowGradient, denominator: float) -> None:
        self._objective, self._denominator = objective, denominator
        batch = pad([one.row])
        self._behaviour, self._advantages = batch.behaviour_logprobs, batch.advantages
        self._current: Tensor = one.current[None]

    def of(self, places: list[int]) -> dict[int, set[str]]:
        """Return the names of the statistics that hold at each place."""
        found: dict[int, set[str]] = {place: set() for place in places}
        self._ask(places, None, found)
        return found

    @torch.no_grad()
    def _ask(self, places: list[int], open_names: set[str] | None, found: dict[int, set[str]]) -> None:
        if not places:
            return
        part = slice(places[0], places[-1] + 1)
        current, behaviour = self._current[:, part], self._behaviour[:, part]
        mask = torch.zeros_like(current, dtype=torch.bool)
        mask[0, [place - places[0] for place in places]] = True
        partials = call(self._objective, current, behaviour, self._advantages[:, part], mask, self._denominator).partials
        undecided = set()
        for name, one in partials.items():
            if _MARK not in name or name == _ABOUT_THE_BATCH or (open_names is not None and name not in open_names):
                continue
            total, count = float(one.sum), float(one.count)
            if total == count > 0:
                for place in places:
                    if _counts(name, float(self._advantages[0, place])):
                        found[place].add(name)
            elif 0 < total < count:
                undecided.add(name)
        if undecided and len(places) > 1:
            half = len(places) // 2
            self._ask(places[:half], undecided, found)
            self._ask(places[half:], undecided, found)


def _counts(name: str, advantage: float) -> bool:
    """Tell whether a statistic counts tokens with such an advantage: those called after a sign count only its tokens."""
    if name.endswith("_positive"):
        return advantage > 0
    return advantage < 0 if name.endswith("_negative") else True
