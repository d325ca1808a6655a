"""Advantages from states and from reward components, worked out by plain arithmetic: `credit, scored rollouts, place -> lines`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from rosellm.roserlhf.audit.explanation.numbers import brief, listed, signed
from rosellm.roserlhf.batching.scored import ScoredRollouts
from rosellm.roserlhf.recipes.credit import Decoupled, GroupInGroup


def group_in_group(credit: GroupInGroup, scored: ScoredRollouts, place: int) -> tuple[tuple[str, ...], ...]:
    """Work out each turn of one rollout: its return, the returns of the visits of its state, and both parts of its advantage."""
    parts, told = credit.parts(scored), []
    for turn in (scored.known("turn_rollouts") == place).nonzero()[:, 0].tolist():
        visits = parts.returns[parts.step_group_ids == parts.step_group_ids[turn]].tolist()
        episode, step = float(parts.episode_advantages[turn]), float(parts.step_advantages[turn])
        told.append(
            (
                f"return G = {brief(float(parts.returns[turn]))} (gamma {credit.gamma:g}); "
                f"its state was visited {len(visits)} times, with G = {listed(visits)}",
                f"A = A_E + omega * A_S = {brief(episode)} + {credit.omega:g} * {signed(step)} "
                f"= {brief(float(parts.advantages[turn]))}",
            )
        )
    return tuple(told)


def decoupled(credit: Decoupled, scored: ScoredRollouts, place: int, names: Sequence[str]) -> tuple[str, ...]:
    """Work out the advantage of each component and their weighted sum; the last step is over the whole step of training."""
    weights = scored.known("weights").tolist()
    mine = scored.group_ids == scored.group_ids[place]
    lines, terms, total = [], [], 0.0
    for index, weight in enumerate(weights):
        column = scored.known("components")[:, index]
        value, values = float(column[place]), column[mine].tolist()
        one = _standardized(value, values)
        name = names[index] if index < len(names) else f"component {index}"
        lines.append(f"{name}: {brief(value)} among {listed(values)}: A_{index} = {brief(one)}")
        terms.append(f"{brief(weight)} * {signed(one)}")
        total += weight * one
    lines.append(f"S = {' + '.join(terms)} = {brief(total)}")
    if credit.whiten == "none":
        return (*lines, "A = S")
    return (*lines, *_whitened(credit, scored, place))


def _whitened(credit: Decoupled, scored: ScoredRollouts, place: int) -> tuple[str, ...]:
    """Work out the last step: the sum among those of all episodes, or all tokens, of the step."""
    sums = replace(credit, whiten="none")(scored).double()
    if bool((sums == sums[0]).all()):
        return ("all sums are equal: A = 0, exactly",)
    rollout = credit.whiten == "rollout"
    counts = torch.ones_like(sums) if rollout else scored.known("lengths").double()
    mean = float((counts * sums).sum() / counts.sum())
    deviation = float((counts * (sums - mean) ** 2).sum() / counts.sum()) ** 0.5
    difference = f"{brief(float(sums[place]))} - {signed(round(mean, 12))}"
    units, below = ("episodes", "(s + 1e-08)") if rollout else ("tokens", "s")
    return (
        f"over the {counts.sum():.0f} {units} of the step: mean of S = {brief(round(mean, 12))}, "
        f"standard deviation s = {brief(deviation)}",
        f"A = (S - mean) / {below} = ({difference}) / {brief(deviation)} = {brief(float(credit(scored)[place]))}",
    )


def _standardized(value: float, values: Sequence[float]) -> float:
    if max(values) == min(values):
        return 0.0
    mean = sum(values) / len(values)
    deviation: float = (sum((one - mean) ** 2 for one in values) / len(values)) ** 0.5
    return (value - mean) / (deviation + 1e-8)
