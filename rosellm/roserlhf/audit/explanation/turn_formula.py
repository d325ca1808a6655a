"""Advantages from states and from reward components, worked out by plain arithmetic: `credit, scored rollouts, place -> lines`."""

from __future__ import annotations

from collections.abc import Sequence

from rosellm.roserlhf.audit.explanation.numbers import brief, listed, signed
from rosellm.roserlhf.batching.scored import ScoredRollouts
from rosellm.roserlhf.recipes.credit import Decoupled, GroupInGroup


def group_in_group(credit: GroupInGroup, scored: ScoredRollouts, place: int) -> tuple[tuple[str, ...], ...]:
    """Work out each turn of one rollout: its return, the returns of the visits of its state, and both parts of its advantage."""
    group = scored.group_ids[scored.known("turn_rollouts")].tolist()
    states = list(zip(group, scored.known("turn_states").tolist(), strict=True))
    rollouts = scored.known("turn_rollouts").tolist()
    returns = _returns(scored.known("turn_rewards").tolist(), rollouts, credit.gamma)
    mine = scored.group_ids == scored.group_ids[place]
    episode = _relative(float(scored.rewards[place]), scored.rewards[mine].tolist(), credit)
    told = []
    for turn, rollout in enumerate(rollouts):
        if rollout != place:
            continue
        visits = [value for value, state in zip(returns, states, strict=True) if state == states[turn]]
        step = _relative(returns[turn], visits, credit)
        told.append(
            (
                f"return G = {brief(returns[turn])} (gamma {credit.gamma:g}); "
                f"its state was visited {len(visits)} times, with G = {listed(visits)}",
                f"A = A_E + omega * A_S = {brief(episode)} + {credit.omega:g} * {signed(step)} "
                f"= {brief(episode + credit.omega * step)}",
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
    over = "episodes" if credit.whiten == "rollout" else "tokens"
    return (*lines, f"A = {brief(float(credit(scored)[place]))}: S standardised over all {over} of the step")


def _returns(rewards: Sequence[float], rollouts: Sequence[int], gamma: float) -> list[float]:
    """Discounted sum of what follows each turn in its own rollout."""
    returns = list(rewards)
    for turn in reversed(range(len(returns) - 1)):
        if rollouts[turn] == rollouts[turn + 1]:
            returns[turn] += gamma * returns[turn + 1]
    return returns


def _relative(value: float, values: Sequence[float], credit: GroupInGroup) -> float:
    if credit.normalization == "std":
        return _standardized(value, values)
    return 0.0 if max(values) == min(values) else value - sum(values) / len(values)


def _standardized(value: float, values: Sequence[float]) -> float:
    if max(values) == min(values):
        return 0.0
    mean = sum(values) / len(values)
    deviation: float = (sum((one - mean) ** 2 for one in values) / len(values)) ** 0.5
    return (value - mean) / (deviation + 1e-8)
