"""The obvious code for advantages relative to a group, frozen: what the library is measured against. Do not speed it up.

Each method stands here twice. `..._loop` is what trainers of the field do: a dictionary from id to a list, filled row by row with
entries of a tensor, a mean and a deviation of the stacked list per group, and the advantage of each row written into a tensor, one
after the other. (Their searches through all rows once per group, which take time in proportion to the square, are left out.)
`..._list_loop` is the leanest way in plain Python: the same dictionary over lists of floats, with the way from tensor to list and
back. All take the sample deviation and put 1e-6 beside it; a group of one gets 0.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

EPS = 1e-6


def grouped_loop(rewards: Tensor, ids: Sequence[Hashable]) -> Tensor:
    """Standardise each reward in its group."""
    members = defaultdict(list)
    for row, group in enumerate(ids):
        members[group].append(rewards[row])
    mean, deviation = {}, {}
    for group, values in members.items():
        stacked = torch.stack(values)
        mean[group] = stacked.mean()
        deviation[group] = stacked.std() if len(values) > 1 else torch.ones(())
    advantages = torch.zeros_like(rewards)
    for row, group in enumerate(ids):
        advantages[row] = (rewards[row] - mean[group]) / (deviation[group] + EPS)
    return advantages


def gdpo_loop(rewards: Tensor, ids: Sequence[Hashable]) -> Tensor:
    """Standardise each of several rewards in its group, add them up, and standardise the sums over the batch."""
    sums = torch.stack([grouped_loop(column, ids) for column in rewards.T]).sum(0)
    return (sums - sums.mean()) / (sums.std() + EPS)


def gd2po_loop(rewards: Tensor, ids: Sequence[Hashable]) -> Tensor:
    """Reject rollouts whose standardised rewards have both signs, and weigh the others by the kept share of their group."""
    parts = torch.stack([grouped_loop(column, ids) for column in rewards.T], dim=1)
    kept = ~((parts > EPS).any(1) & (parts < -EPS).any(1))
    members = defaultdict(list)
    for row, group in enumerate(ids):
        members[group].append(kept[row])
    share = {group: torch.stack(values).to(parts.dtype).mean() for group, values in members.items()}
    sums, advantages = parts.sum(1), torch.zeros_like(rewards[:, 0])
    for row, group in enumerate(ids):
        if kept[row]:
            advantages[row] = share[group] * sums[row]
    return advantages


def gigpo_loop(rewards: Tensor, states: Sequence[int], trajectories: Sequence[int], tasks: Sequence[int], gamma: float) -> Tensor:
    """Add the advantages of whole trajectories in their task to those of discounted returns in their state."""
    rows_of = defaultdict(list)
    for row, trajectory in enumerate(trajectories):
        rows_of[trajectory].append(row)
    returns = torch.zeros_like(rewards)
    for rows in rows_of.values():
        running = torch.zeros_like(rewards[0])
        for row in reversed(rows):
            running = rewards[row] + gamma * running
            returns[row] = running
    totals = torch.stack([rewards[rows].sum() for rows in rows_of.values()])
    episode = grouped_loop(totals, [tasks[rows[0]] for rows in rows_of.values()])
    step = grouped_loop(returns, list(zip(tasks, states, strict=True)))
    place = {trajectory: number for number, trajectory in enumerate(rows_of)}
    advantages = torch.zeros_like(rewards)
    for row, trajectory in enumerate(trajectories):
        advantages[row] = episode[place[trajectory]] + step[row]
    return advantages


def tree_loop(rewards: Tensor, trees: Sequence[int], tasks: Sequence[int]) -> Tensor:
    """Add the advantages of leaves in their tree to those in their task."""
    return grouped_loop(rewards, trees) + grouped_loop(rewards, tasks)


def grouped_list_loop(rewards: Tensor, ids: Sequence[Hashable]) -> Tensor:
    """`grouped_loop` over lists."""
    return _tensor(_standardised(rewards.tolist(), ids), rewards)


def gdpo_list_loop(rewards: Tensor, ids: Sequence[Hashable]) -> Tensor:
    """`gdpo_loop` over lists."""
    sums = [sum(parts) for parts in zip(*(_standardised(column, ids) for column in rewards.T.tolist()), strict=True)]
    return _tensor(_standardised(sums, [0] * len(sums)), rewards)


def gd2po_list_loop(rewards: Tensor, ids: Sequence[Hashable]) -> Tensor:
    """`gd2po_loop` over lists."""
    rows = list(zip(*(_standardised(column, ids) for column in rewards.T.tolist()), strict=True))
    kept = [not (max(parts) > EPS and min(parts) < -EPS) for parts in rows]
    total: dict[Hashable, int] = defaultdict(int)
    left: dict[Hashable, int] = defaultdict(int)
    for group, keep in zip(ids, kept, strict=True):
        total[group] += 1
        left[group] += keep
    found = [left[group] / total[group] * sum(parts) if keep else 0.0 for group, parts, keep in zip(ids, rows, kept, strict=True)]
    return _tensor(found, rewards)


def gigpo_list_loop(
    rewards: Tensor, states: Sequence[int], trajectories: Sequence[int], tasks: Sequence[int], gamma: float
) -> Tensor:
    """`gigpo_loop` over lists."""
    paid = rewards.tolist()
    running: dict[int, float] = defaultdict(float)
    totals: dict[int, float] = defaultdict(float)
    task_of: dict[int, int] = {}
    returns = [0.0] * len(paid)
    for row in range(len(paid) - 1, -1, -1):
        trajectory = trajectories[row]
        running[trajectory] = returns[row] = paid[row] + gamma * running[trajectory]
        totals[trajectory] += paid[row]
        task_of[trajectory] = tasks[row]
    episode = dict(zip(totals, _standardised(list(totals.values()), list(task_of.values())), strict=True))
    step = _standardised(returns, list(zip(tasks, states, strict=True)))
    return _tensor([episode[trajectory] + part for trajectory, part in zip(trajectories, step, strict=True)], rewards)


def tree_list_loop(rewards: Tensor, trees: Sequence[int], tasks: Sequence[int]) -> Tensor:
    """`tree_loop` over lists."""
    paid = rewards.tolist()
    both = zip(_standardised(paid, trees), _standardised(paid, tasks), strict=True)
    return _tensor([intra + inter for intra, inter in both], rewards)


def _standardised(values: Sequence[float], ids: Sequence[Hashable]) -> list[float]:
    members = defaultdict(list)
    for value, group in zip(values, ids, strict=True):
        members[group].append(value)
    known = {}
    for group, found in members.items():
        mean = sum(found) / len(found)
        squares = sum([(value - mean) ** 2 for value in found])
        known[group] = mean, math.sqrt(squares / max(1, len(found) - 1)) + EPS
    advantages = []
    for value, group in zip(values, ids, strict=True):
        mean, scale = known[group]
        advantages.append((value - mean) / scale)
    return advantages


def _tensor(values: list[float], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=like.dtype)
