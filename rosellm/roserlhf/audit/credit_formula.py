"""How a credit function came to one advantage: `credit, rewards of the group, place -> formula with the numbers put in`.

Known credit functions have a line of arithmetic each; of another one only its name, its input and its result can be told.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rosellm.roserlhf.advantages import group_standardized_advantages, leave_one_out_advantages

_SHOWN = 16
"""Rewards written out in a formula; of a larger group only the first few are."""


@dataclass(frozen=True)
class Formula:
    """An advantage, worked out."""

    baseline: float | None
    """What the reward was compared with; None where the credit function is not one of this package's."""
    lines: tuple[str, ...]
    """The arithmetic, to be checked by hand."""


def formula_of(credit: Callable[..., Any], rewards: Sequence[float], place: int) -> Formula:
    """Work out the advantage of one member.

    Args:
        credit: rewards of a group to advantages; arguments may be bound to it with `functools.partial`.
        rewards: of the scored members.
        place: the member's place among them.

    Example:
        >>> formula_of(leave_one_out_advantages, [1.0, 0.0, 0.5], 0).lines[-1]
        'A = R - mean of the others = 1 - 0.25 = 0.75'
    """
    function, bound = (credit.func, credit.keywords) if isinstance(credit, functools.partial) else (credit, {})
    worked_out = _KNOWN.get(function)
    if worked_out is not None:
        return worked_out(rewards, place, _arguments(function, bound))
    name = getattr(function, "__qualname__", type(function).__name__)
    return Formula(None, (f"A = {name}({_listed(rewards)})[{place}]",))


def _arguments(credit: Callable[..., Any], bound: Mapping[str, Any]) -> dict[str, Any]:
    return {name: about.default for name, about in inspect.signature(credit).parameters.items()} | dict(bound)


def _standardized(rewards: Sequence[float], place: int, arguments: Mapping[str, Any]) -> Formula:
    reward, mean, eps = rewards[place], sum(rewards) / len(rewards), arguments["eps"]
    average = f"mean = ({_summed(rewards)}) / {len(rewards)} = {brief(mean)}"
    if len({*rewards}) == 1:
        return Formula(mean, (average, "all rewards are equal: A = 0, exactly"))
    deviation = (sum((r - mean) ** 2 for r in rewards) / len(rewards)) ** 0.5
    difference = f"{brief(reward)} - {_signed(mean)}"
    value = (reward - mean) / (deviation + eps)
    return Formula(
        mean,
        (
            average,
            f"standard deviation s = sqrt(mean of (R - mean)^2) = {brief(deviation)}",
            f"A = (R - mean) / (s + {eps:g}) = ({difference}) / ({brief(deviation)} + {eps:g}) = {brief(value)}",
        ),
    )


def _leave_one_out(rewards: Sequence[float], place: int, arguments: Mapping[str, Any]) -> Formula:
    reward, others = rewards[place], [r for index, r in enumerate(rewards) if index != place]
    baseline = sum(others) / len(others)
    average = f"mean of the others = ({_summed(others)}) / {len(others)} = {brief(baseline)}"
    if len({*rewards}) == 1:
        return Formula(baseline, (average, "all rewards are equal: A = 0, exactly"))
    value = reward - baseline
    return Formula(baseline, (average, f"A = R - mean of the others = {brief(reward)} - {_signed(baseline)} = {brief(value)}"))


_KNOWN: Mapping[Callable[..., Any], Callable[[Sequence[float], int, Mapping[str, Any]], Formula]] = {
    group_standardized_advantages: _standardized,
    leave_one_out_advantages: _leave_one_out,
}


def brief(value: float) -> str:
    """Write a number with up to six significant digits."""
    return f"{value + 0.0:.6g}"  # -0.0 + 0.0 is 0.0


def _signed(value: float) -> str:
    return f"({brief(value)})" if value < 0 else brief(value)


def _summed(values: Sequence[float]) -> str:
    if len(values) > _SHOWN:
        return f"{' + '.join(map(_signed, values[:4]))} + ... {len(values)} rewards"
    return " + ".join(map(_signed, values))


def _listed(values: Sequence[float]) -> str:
    more = f", ... {len(values)} rewards" if len(values) > _SHOWN else ""
    return ", ".join(map(brief, values[:_SHOWN])) + more
