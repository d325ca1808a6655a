"""Slow, obvious credit for several rewards, steps and trees: plain Python floats, one group, one row, one token at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

Scores = Sequence[float]
Ids = Sequence[Hashable]


def deviation(values: Scores, std: str) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - (std == "sample")))


def relative(values: Scores, std: str | None, eps: float) -> list[float]:
    """Return each value minus the mean, divided by (std + eps) unless `std` is None; a uniform group is exactly 0."""
    if max(values) == min(values):
        return [0.0] * len(values)
    mean = sum(values) / len(values)
    divisor = 1.0 if std is None else deviation(values, std) + eps
    return [(value - mean) / divisor for value in values]


def by_group(values: Scores, groups: Ids, rule: Callable[[Scores], Scores]) -> list[float]:
    result = [0.0] * len(values)
    for group in set(groups):
        members = [i for i in range(len(values)) if groups[i] == group]
        for i, advantage in zip(members, rule([values[i] for i in members]), strict=True):
            result[i] = advantage
    return result


def whitened(sums: Scores, kept: Sequence[bool], whiten: str, lengths: Sequence[int], std: str, eps: float) -> list[float]:
    if whiten == "none":
        return [value if keep else 0.0 for value, keep in zip(sums, kept, strict=True)]
    copies = lengths if whiten == "token" else [1] * len(sums)
    seen = [sums[i] for i in range(len(sums)) if kept[i] for _ in range(copies[i])]
    if not seen or max(seen) == min(seen):
        return [0.0] * len(sums)
    mean, spread = sum(seen) / len(seen), deviation(seen, std)
    divisor = math.sqrt(spread**2 + eps) if whiten == "token" else spread + eps
    return [(value - mean) / divisor if keep else 0.0 for value, keep in zip(sums, kept, strict=True)]


def per_reward(rewards: Sequence[Scores], groups: Ids, std: str, eps: float) -> list[list[float]]:
    columns = [by_group(list(column), groups, lambda r: relative(r, std, eps)) for column in zip(*rewards, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def weighted_sums(advantages: Sequence[Scores], weights: Scores) -> list[float]:
    return [sum(w * a for w, a in zip(weights, row, strict=True)) for row in advantages]


def keeps(row: Scores, weights: Scores, conflict_filter: str, threshold: float, rule: str, eps: float, tolerance: float) -> bool:
    parts = [w * a for w, a in zip(weights, row, strict=True)]
    mixed = any(part > tolerance for part in parts) and any(part < -tolerance for part in parts)
    if conflict_filter == "hard":
        return not mixed
    below = signal_to_noise(row, weights, eps) < threshold
    return not (mixed and below) if rule == "code" else not below


def signal_to_noise(row: Scores, weights: Scores, eps: float) -> float:
    parts = [w * a for w, a in zip(weights, row, strict=True)]
    size = sum(abs(part) for part in parts) + eps
    return abs(sum(parts)) / size if size > 0 else 0.0


def query_weights(kept: Sequence[bool], groups: Ids) -> list[float]:
    return by_group([float(keep) for keep in kept], groups, lambda group: [sum(group) / len(group)] * len(group))


def step_returns(rewards: Scores, trajectories: Ids, gamma: float) -> list[float]:
    result = []
    for i, trajectory in enumerate(trajectories):
        later = [rewards[j] for j in range(i, len(rewards)) if trajectories[j] == trajectory]
        result.append(sum(gamma**k * reward for k, reward in enumerate(later)))
    return result


def gigpo(
    rewards: Scores,
    states: Ids,
    trajectories: Ids,
    groups: Ids,
    *,
    omega: float,
    gamma: float,
    std: str | None,
    eps: float,
    episode_statistics: str,
    actions: Ids | None = None,
    penalties: Scores | None = None,
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Return advantages, episode advantages, step advantages and returns; `std=None` subtracts the mean only."""
    rows = range(len(rewards))
    totals = [sum(rewards[j] for j in rows if trajectories[j] == trajectories[i]) for i in rows]
    first = [i for i in rows if trajectories.index(trajectories[i]) == i]
    voters = first if episode_statistics == "trajectory" else list(rows)
    votes = by_group([totals[i] for i in voters], [groups[i] for i in voters], lambda r: relative(r, std, eps))
    episode = [votes[voters.index(first[[trajectories[j] for j in first].index(trajectories[i])])] for i in rows]

    returns = [
        value - p for value, p in zip(step_returns(rewards, trajectories, gamma), penalties or [0.0] * len(rewards), strict=True)
    ]
    compared, cells = returns, list(zip(groups, states, strict=True))
    if actions is not None:
        choices = list(zip(cells, actions, strict=True))
        compared = by_group(returns, choices, lambda r: [r[0]] * len(r) if max(r) == min(r) else [sum(r) / len(r)] * len(r))
    step = by_group(compared, cells, lambda r: relative(r, std, eps))
    return [e + omega * s for e, s in zip(episode, step, strict=True)], episode, step, returns


def token_weights(
    advantages: Scores, own: Sequence[int], parents: Sequence[int], shared: Sequence[int], prefix: str
) -> tuple[list[int], list[float]]:
    """Return, for every sampled token (leaf after leaf), in how many rows it is trained and the sum of its coefficients."""
    paths: dict[int, list[tuple[int, int]]] = {}

    def path(leaf: int) -> list[tuple[int, int]]:
        if leaf not in paths:
            before = path(parents[leaf])[: shared[leaf]] if parents[leaf] >= 0 else []
            paths[leaf] = before + [(leaf, k) for k in range(own[leaf])]
        return paths[leaf]

    count = {(leaf, k): 0 for leaf in range(len(own)) for k in range(own[leaf])}
    coefficient = dict.fromkeys(count, 0.0)
    for leaf in range(len(own)):
        for token in path(leaf) if prefix == "all_leaves" else [(leaf, k) for k in range(own[leaf])]:
            count[token] += 1
            coefficient[token] += advantages[leaf]
    return list(count.values()), list(coefficient.values())


def components(similarity: Sequence[Scores], threshold: float) -> list[set[int]]:
    """Return the connected components of the pairs at or above the threshold, in order of their first member."""
    left, found = list(range(len(similarity))), []
    while left:
        cluster, front = {left[0]}, [left[0]]
        while front:
            here = front.pop()
            near = [j for j in left if j not in cluster and max(similarity[here][j], similarity[j][here]) >= threshold]
            cluster.update(near)
            front += near
        left = [j for j in left if j not in cluster]
        found.append(cluster)
    return found
