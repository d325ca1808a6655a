"""Slow, obvious credit: plain Python floats, one row at a time, each advantage as its own sum."""

from __future__ import annotations

from collections.abc import Sequence


def episodes_of(valid: Sequence[bool], terminated: Sequence[bool], ids: Sequence[int] | None = None) -> list[list[int]]:
    """Return the existing steps of each episode: it ends at a terminal step, at a change of id and at the end of the row."""
    episodes: list[list[int]] = []
    current: list[int] = []
    for t in range(len(valid)):
        if not valid[t]:
            continue
        if current and ids is not None and ids[current[-1]] != ids[t]:
            episodes.append(current)
            current = []
        current.append(t)
        if terminated[t]:
            episodes.append(current)
            current = []
    return [*episodes, current] if current else episodes


def discounted_returns(
    rewards: Sequence[float], gamma: float, valid: Sequence[bool], terminated: Sequence[bool], bootstrap: float
) -> list[float]:
    returns = [0.0] * len(rewards)
    for steps in episodes_of(valid, terminated):
        after = 0.0 if terminated[steps[-1]] else bootstrap
        for place, t in enumerate(steps):
            later = steps[place:]
            returns[t] = sum(gamma**k * rewards[s] for k, s in enumerate(later)) + gamma ** len(later) * after
    return returns


def advantages(
    rewards: Sequence[float],
    values: Sequence[float],
    gamma: float,
    lambdas: Sequence[float],
    valid: Sequence[bool],
    terminated: Sequence[bool],
    bootstrap: Sequence[float],
    ids: Sequence[int] | None = None,
) -> list[float]:
    """Generalised advantage estimates; `bootstrap` is indexed by episode id, or holds the row's one value."""
    result = [0.0] * len(rewards)
    for steps in episodes_of(valid, terminated, ids):
        after = 0.0 if terminated[steps[-1]] else bootstrap[0 if ids is None else ids[steps[-1]]]
        next_values = [*(values[s] for s in steps[1:]), after]
        errors = [rewards[s] + gamma * v - values[s] for s, v in zip(steps, next_values, strict=True)]
        for place, t in enumerate(steps):
            weight = 1.0
            for later in range(place, len(steps)):
                result[t] += weight * errors[later]
                weight *= gamma * lambdas[steps[later]]
    return result


def action_advantages(
    rewards: Sequence[float],
    ends: Sequence[float],
    nexts: Sequence[float],
    gamma: float,
    lam: float,
    valid: Sequence[bool],
    terminated: Sequence[bool],
) -> list[float]:
    """Skip-observation estimates: the error of an action reads its own pair of values, nothing of its neighbours."""
    result = [0.0] * len(rewards)
    for steps in episodes_of(valid, terminated):
        errors = [rewards[s] + (0.0 if terminated[s] else gamma * nexts[s]) - ends[s] for s in steps]
        for place, t in enumerate(steps):
            result[t] = sum((gamma * lam) ** k * error for k, error in enumerate(errors[place:]))
    return result


def leave_one_out(rewards: Sequence[float]) -> list[float]:
    others = [[r for k, r in enumerate(rewards) if k != i] for i in range(len(rewards))]
    return [r - sum(o) / len(o) for r, o in zip(rewards, others, strict=True)]


def standardized(rewards: Sequence[float], eps: float) -> list[float]:
    mean = sum(rewards) / len(rewards)
    deviation = (sum((r - mean) ** 2 for r in rewards) / len(rewards)) ** 0.5
    return [0.0 if max(rewards) == min(rewards) else (r - mean) / (deviation + eps) for r in rewards]
