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


def moved(
    rewards: Sequence[float], terminated: Sequence[bool], valid: Sequence[bool], acts: Sequence[bool], ids: Sequence[int]
) -> tuple[list[float], list[bool]]:
    """Give what stands on an observation to the last action before it that has the same id."""
    paid, ends = [0.0] * len(rewards), [False] * len(rewards)
    for t in range(len(rewards)):
        if valid[t] and (rewards[t] != 0 or terminated[t]):
            owner = max(s for s in range(t + 1) if valid[s] and acts[s] and ids[s] == ids[t])
            paid[owner] += rewards[t]
            ends[owner] = ends[owner] or terminated[t]
    return paid, ends


def n_step(
    rewards: Sequence[float],
    values: Sequence[float],
    n: int,
    gamma: float,
    valid: Sequence[bool],
    terminated: Sequence[bool],
    bootstrap: Sequence[float],
    ids: Sequence[int] | None = None,
) -> list[float]:
    """n rewards, then the value of the step that comes next, or what follows the episode."""
    result = [0.0] * len(rewards)
    for steps in episodes_of(valid, terminated, ids):
        after = 0.0 if terminated[steps[-1]] else bootstrap[0 if ids is None else ids[steps[-1]]]
        for place, t in enumerate(steps):
            ahead = steps[place : place + n]
            value = values[steps[place + n]] if place + n < len(steps) else after
            result[t] = sum(gamma**k * rewards[s] for k, s in enumerate(ahead)) + gamma ** len(ahead) * value - values[t]
    return result


def v_trace(
    ratios: Sequence[float],
    rewards: Sequence[float],
    values: Sequence[float],
    gamma: float,
    thresholds: tuple[float, float, float],
    valid: Sequence[bool],
    terminated: Sequence[bool],
    bootstrap: Sequence[float],
    ids: Sequence[int] | None = None,
) -> tuple[list[float], list[float]]:
    """The definition as a sum over later errors, each weighed by the product of the truncated ratios before it."""
    rho_max, c_max, pg_rho_max = thresholds
    targets, advantages = [0.0] * len(rewards), [0.0] * len(rewards)
    for steps in episodes_of(valid, terminated, ids):
        after = 0.0 if terminated[steps[-1]] else bootstrap[0 if ids is None else ids[steps[-1]]]
        nexts = [*(values[s] for s in steps[1:]), after]
        for place, t in enumerate(steps):
            total, weight = values[t], 1.0
            for later in range(place, len(steps)):
                s = steps[later]
                total += weight * min(rho_max, ratios[s]) * (rewards[s] + gamma * nexts[later] - values[s])
                weight *= gamma * min(c_max, ratios[s])
            targets[t] = total
        behind = [*(targets[s] for s in steps[1:]), after]
        for place, t in enumerate(steps):
            advantages[t] = min(pg_rho_max, ratios[t]) * (rewards[t] + gamma * behind[place] - values[t])
    return targets, advantages


def from_start(
    rewards: Sequence[float],
    gamma: float,
    valid: Sequence[bool],
    terminated: Sequence[bool],
    bootstrap: Sequence[float],
    ids: Sequence[int] | None = None,
) -> list[float]:
    """Every reward discounted by its own place in the episode."""
    result = [0.0] * len(rewards)
    for steps in episodes_of(valid, terminated, ids):
        after = 0.0 if terminated[steps[-1]] else bootstrap[0 if ids is None else ids[steps[-1]]]
        for place, t in enumerate(steps):
            later = range(place, len(steps))
            result[t] = sum(gamma**k * rewards[steps[k]] for k in later) + gamma ** len(steps) * after
    return result
