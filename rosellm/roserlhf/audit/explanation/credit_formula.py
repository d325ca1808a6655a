"""How a credit function came to one rollout's advantages: `credit, scored rollouts, place -> formula with the numbers put in`.

Known credit functions have a line of arithmetic each; of another one only its name, its input and its result can be told.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rosellm.roserlhf.advantages import group_centered_advantages, group_standardized_advantages, leave_one_out_advantages
from rosellm.roserlhf.audit.explanation.numbers import brief, listed, signed, summed
from rosellm.roserlhf.audit.explanation.turn_formula import decoupled, group_in_group
from rosellm.roserlhf.batching.scored import Credit, PerGroup, ScoredRollouts
from rosellm.roserlhf.recipes.credit import Decoupled, GroupInGroup, Overlong


@dataclass(frozen=True)
class Formula:
    """An advantage, worked out."""

    baseline: float | None
    """What the reward was compared with; None where it is not one number, or the credit function is not one of this package's."""
    lines: tuple[str, ...]
    """The arithmetic, to be checked by hand."""
    turns: tuple[tuple[str, ...], ...] = ()
    """What it goes on with for each turn, where turns have advantages of their own."""


def formula_of(credit: Credit, scored: ScoredRollouts, place: int, names: Sequence[str] = ()) -> Formula:
    """Work out the advantages of one rollout.

    Args:
        credit: of the recipe.
        scored: rollouts of the step, as it was given them.
        place: the rollout's place among them.
        names: of the reward components.

    Example:
        >>> from rosellm.roserlhf.batching.scored import PerGroup, ScoredRollouts
        >>> scored = ScoredRollouts.of(torch.tensor([1.0, 0.0, 0.5]), torch.tensor([0, 0, 0]))
        >>> formula_of(PerGroup(leave_one_out_advantages), scored, 0).lines[-1]
        'A = R - mean of the others = 1 - 0.25 = 0.75'
    """
    if isinstance(credit, Overlong):
        return _overlong(credit, scored, place, names)
    if isinstance(credit, Decoupled):
        return Formula(None, decoupled(credit, scored, place, names))
    if isinstance(credit, GroupInGroup):
        rewards, mine = _group(scored, place)
        episode = _standardized(rewards, mine, {"eps": 1e-8}) if credit.normalization == "std" else _centered(rewards, mine, {})
        lines = tuple(line.replace("A = ", "A_E = ") for line in episode.lines)
        return Formula(episode.baseline, lines, group_in_group(credit, scored, place))
    rewards, mine = _group(scored, place)
    if isinstance(credit, PerGroup):
        return group_formula(credit.function, rewards, mine)
    return Formula(None, (f"A = {_name(credit)}({listed(rewards)})[{mine}]",))


def group_formula(function: Callable[..., Any], rewards: Sequence[float], place: int) -> Formula:
    """Work out the advantage of one member of a group.

    Args:
        function: rewards of a group to advantages; arguments may be bound to it with `functools.partial`.
        rewards: of the scored members.
        place: the member's place among them.
    """
    inner, bound = (function.func, function.keywords) if isinstance(function, functools.partial) else (function, {})
    worked_out = _KNOWN.get(inner)
    if worked_out is not None:
        return worked_out(rewards, place, _arguments(inner, bound))
    return Formula(None, (f"A = {_name(inner)}({listed(rewards)})[{place}]",))


def _group(scored: ScoredRollouts, place: int) -> tuple[list[float], int]:
    """Rewards of the group and the place of the rollout in it."""
    members = scored.group_ids == scored.group_ids[place]
    return scored.rewards[members].tolist(), int(members[:place].sum())


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _arguments(credit: Callable[..., Any], bound: Mapping[str, Any]) -> dict[str, Any]:
    return {name: about.default for name, about in inspect.signature(credit).parameters.items()} | dict(bound)


def _overlong(credit: Overlong, scored: ScoredRollouts, place: int, names: Sequence[str]) -> Formula:
    penalties = credit.penalties(scored)
    length, penalty, reward = (float(column[place]) for column in (scored.known("lengths"), penalties, scored.rewards))
    line = (
        f"penalty of {length:.0f} sampled tokens (0 up to {credit.max_length - credit.cache_length}, -1 from {credit.max_length}) "
        f"= {brief(penalty)}, so R = {brief(reward)} + {signed(penalty)} = {brief(reward + penalty)}"
    )
    formula = formula_of(credit.credit, replace(scored, rewards=scored.rewards + penalties), place, names)
    return replace(formula, lines=(line, *formula.lines))


def _standardized(rewards: Sequence[float], place: int, arguments: Mapping[str, Any]) -> Formula:
    reward, mean, eps = rewards[place], sum(rewards) / len(rewards), arguments["eps"]
    average = f"mean = ({summed(rewards)}) / {len(rewards)} = {brief(mean)}"
    if len({*rewards}) == 1:
        return Formula(mean, (average, "all rewards are equal: A = 0, exactly"))
    deviation = (sum((r - mean) ** 2 for r in rewards) / len(rewards)) ** 0.5
    difference = f"{brief(reward)} - {signed(mean)}"
    value = (reward - mean) / (deviation + eps)
    return Formula(
        mean,
        (
            average,
            f"standard deviation s = sqrt(mean of (R - mean)^2) = {brief(deviation)}",
            f"A = (R - mean) / (s + {eps:g}) = ({difference}) / ({brief(deviation)} + {eps:g}) = {brief(value)}",
        ),
    )


def _centered(rewards: Sequence[float], place: int, arguments: Mapping[str, Any]) -> Formula:
    reward, mean = rewards[place], sum(rewards) / len(rewards)
    average = f"mean = ({summed(rewards)}) / {len(rewards)} = {brief(mean)}"
    if len({*rewards}) == 1:
        return Formula(mean, (average, "all rewards are equal: A = 0, exactly"))
    return Formula(mean, (average, f"A = R - mean = {brief(reward)} - {signed(mean)} = {brief(reward - mean)}"))


def _leave_one_out(rewards: Sequence[float], place: int, arguments: Mapping[str, Any]) -> Formula:
    reward, others = rewards[place], [r for index, r in enumerate(rewards) if index != place]
    baseline = sum(others) / len(others)
    average = f"mean of the others = ({summed(others)}) / {len(others)} = {brief(baseline)}"
    if len({*rewards}) == 1:
        return Formula(baseline, (average, "all rewards are equal: A = 0, exactly"))
    value = reward - baseline
    return Formula(baseline, (average, f"A = R - mean of the others = {brief(reward)} - {signed(baseline)} = {brief(value)}"))


_KNOWN: Mapping[Callable[..., Any], Callable[[Sequence[float], int, Mapping[str, Any]], Formula]] = {
    group_centered_advantages: _centered,
    group_standardized_advantages: _standardized,
    leave_one_out_advantages: _leave_one_out,
}
