"""The credit of the recipes once more, as plain loops over plain numbers: `rollouts -> advantages`.

Each hand computation is written from the formula alone and shares no code with what it checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from rosellm.roserlhf.advantages import group_centered_advantages, group_standardized_advantages, leave_one_out_advantages
from rosellm.roserlhf.batching.scored import PerGroup
from rosellm.roserlhf.recipes.credit import Decoupled, GroupInGroup, Overlong
from rosellm.roserlhf.trajectory import Trajectory

_EPS = 1e-8
Advantage = float | tuple[float, ...]


@dataclass(frozen=True)
class HandRollout:
    """One rollout that is compared with others, in plain numbers."""

    group: Any
    """What it is about: the task and the prompt."""
    total: float
    """Weighted sum of its reward components."""
    components: tuple[float, ...]
    """Unweighted, in the order of the weights."""
    turns: tuple[float, ...]
    """What each turn was paid, weighted."""
    states: tuple[Any, ...]
    """In which each turn began; one that is not known equals no other."""
    length: int
    """Sampled tokens."""

    @classmethod
    def of(cls, trajectory: Trajectory, group: Any, total: float, weights: Mapping[str, float]) -> HandRollout:
        """Read a record."""
        paid, before, states = [], trajectory.initial_state_hash, []
        sums = dict.fromkeys(weights, 0.0)
        for turn in range(len(trajectory.actions)):
            states.append(object() if before is None else before)
            found = trajectory.transitions[turn].reward_components if turn < len(trajectory.transitions) else {}
            before = trajectory.transitions[turn].state_hash if turn < len(trajectory.transitions) else None
            reward = 0.0
            for name, weight in weights.items():
                reward += weight * (found.get(name) or 0.0)
                sums[name] += found.get(name) or 0.0
            paid.append(reward)
        length = sum(len(action.token_ids) for action in trajectory.actions)
        return cls(group, total, tuple(sums.values()), tuple(paid), tuple(states), length)


def hand_standardized(rewards: Sequence[float]) -> list[float]:
    """Distance from the mean in population standard deviations."""
    if max(rewards) == min(rewards):
        return [0.0] * len(rewards)
    mean = math.fsum(rewards) / len(rewards)
    deviation = math.sqrt(math.fsum((r - mean) ** 2 for r in rewards) / len(rewards))
    return [(r - mean) / (deviation + _EPS) for r in rewards]


def hand_centered(rewards: Sequence[float]) -> list[float]:
    """Distance from the mean."""
    if max(rewards) == min(rewards):
        return [0.0] * len(rewards)
    return [r - math.fsum(rewards) / len(rewards) for r in rewards]


def hand_leave_one_out(rewards: Sequence[float]) -> list[float]:
    """Distance from the mean of the others."""
    if len(rewards) < 2:
        return [0.0] * len(rewards)
    return [r - math.fsum(o for j, o in enumerate(rewards) if j != i) / (len(rewards) - 1) for i, r in enumerate(rewards)]


def _in_groups(keys: Sequence[Any], values: Sequence[float], one: Callable[[Sequence[float]], list[float]]) -> list[float]:
    """Apply a computation to the values of each key."""
    found = [0.0] * len(values)
    for key in dict.fromkeys(keys):
        places = [i for i, other in enumerate(keys) if other == key]
        for i, value in zip(places, one([values[i] for i in places]), strict=True):
            found[i] = value
    return found


def _per_group(one: Callable[[Sequence[float]], list[float]], rollouts: Sequence[HandRollout]) -> list[float]:
    return _in_groups([r.group for r in rollouts], [r.total for r in rollouts], one)


def _overlong(credit: Overlong, inner: Hand, rollouts: Sequence[HandRollout]) -> Sequence[Advantage]:
    shaped = []
    for rollout in rollouts:
        penalty = (credit.max_length - credit.cache_length - rollout.length) / credit.cache_length
        shaped.append(replace(rollout, total=rollout.total + max(-1.0, min(0.0, penalty))))
    return inner(shaped)


def _decoupled(credit: Decoupled, weights: Sequence[float], rollouts: Sequence[HandRollout]) -> list[float]:
    groups, sums = [r.group for r in rollouts], [0.0] * len(rollouts)
    for k, weight in enumerate(weights):
        for i, value in enumerate(_in_groups(groups, [r.components[k] for r in rollouts], hand_standardized)):
            sums[i] += weight * value
    if credit.whiten == "none":
        return sums
    if credit.whiten == "rollout":
        return hand_standardized(sums)
    tokens = [value for value, rollout in zip(sums, rollouts, strict=True) for _ in range(rollout.length)]
    if max(tokens) == min(tokens):
        return [0.0] * len(sums)
    mean = math.fsum(tokens) / len(tokens)
    variance = math.fsum((value - mean) ** 2 for value in tokens) / len(tokens)
    return [(value - mean) / math.sqrt(variance + _EPS) for value in sums]


def _group_in_group(credit: GroupInGroup, rollouts: Sequence[HandRollout]) -> list[tuple[float, ...]]:
    one = hand_standardized if credit.normalization == "std" else hand_centered
    episode = _per_group(one, rollouts)
    places, keys, returns = [], [], []
    for i, rollout in enumerate(rollouts):
        for t, state in enumerate(rollout.states):
            places.append(i)
            keys.append((rollout.group, state))
            returns.append(sum(credit.gamma**k * reward for k, reward in enumerate(rollout.turns[t:])))
    step = _in_groups(keys, returns, one)
    found: list[tuple[float, ...]] = [() for _ in rollouts]
    for i, value in zip(places, step, strict=True):
        found[i] += (episode[i] + credit.omega * value,)
    return found


Hand = Callable[[Sequence[HandRollout]], Sequence[Advantage]]
HANDS: Mapping[Any, Callable[[Sequence[float]], list[float]]] = MappingProxyType(
    {
        group_centered_advantages: hand_centered,
        group_standardized_advantages: hand_standardized,
        leave_one_out_advantages: hand_leave_one_out,
    }
)
"""The hand computation of each credit function of one group's rewards."""


def hand_of(credit: Any, weights: Mapping[str, float]) -> Hand | None:
    """Return the hand computation of a recipe's credit; None if there is none."""
    if isinstance(credit, PerGroup):
        one = HANDS.get(credit.function)
        return None if one is None else partial(_per_group, one)
    if isinstance(credit, Overlong):
        inner = hand_of(credit.credit, weights)
        return None if inner is None else partial(_overlong, credit, inner)
    if isinstance(credit, Decoupled):
        return partial(_decoupled, credit, tuple(weights.values()))
    return partial(_group_in_group, credit) if isinstance(credit, GroupInGroup) else None
