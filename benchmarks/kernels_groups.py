"""Advantages relative to a group against the obvious loops of `kernels_loops.py`, which find groups by a dictionary.

Methods per rollout take 100,000 rollouts in groups of 8 (10,000 are reported), GiGPO 100,000 steps of 10,000 trajectories in groups
of 8. Members of a group are adjacent, as rollouts come; rows in random order are reported. Ids are integer tensors for the library
and lists of integers, made beforehand, for the loops. Times are in float32; that both sides give the same is seen in float64,
where rounding in a nearly uniform group cannot look like a difference.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import kernels_loops as loops
import torch
from kernels_measure import Results, entry, medians_ms
from torch import Tensor

from rosellm.roserlhf.advantages import gd2po_advantages, gdpo_advantages, gigpo_advantages, grouped_advantages, tree_advantages
from rosellm.roserlhf.credit.identifiers import integer_ids

ROWS, GROUP, STEPS_PER_TRAJECTORY, STATES_PER_TASK, REWARDS, GAMMA = 100_000, 8, 10, 40, 3, 0.95
TIMES_FASTER, TIME_OF_TEN_TIMES = 20.0, 12.0


@dataclass(frozen=True)
class Method:
    """One method: its inputs, rewards first, and the three ways to its advantages."""

    inputs: Callable[[int], tuple[Tensor, ...]]
    ours: Callable[..., Tensor]
    loop: Callable[..., Tensor]
    list_loop: Callable[..., Tensor]


def one_reward(rows: int) -> tuple[Tensor, ...]:
    """A reward and a group per rollout."""
    return torch.randn(rows, generator=_generator()), torch.arange(rows) // GROUP


def several_rewards(rows: int) -> tuple[Tensor, ...]:
    """Several rewards and a group per rollout; the first is a success, which is the same for all in some groups."""
    rewards = torch.randn(rows, REWARDS, generator=_generator())
    rewards[:, 0] = (rewards[:, 0] > 0).float()
    return rewards, torch.arange(rows) // GROUP


def leaves(rows: int) -> tuple[Tensor, ...]:
    """A reward, a tree and a task per leaf: two trees of four leaves."""
    return torch.randn(rows, generator=_generator()), torch.arange(rows) // (GROUP // 2), torch.arange(rows) // GROUP


def steps(rows: int) -> tuple[Tensor, ...]:
    """A reward, a state, a trajectory and a task per step; trajectories have different lengths, tasks states of their own."""
    generator, count = _generator(), rows // STEPS_PER_TRAJECTORY
    further = torch.randint(count, (rows - count,), generator=generator)
    trajectories = torch.cat([torch.arange(count), further]).sort().values
    states = torch.randint(STATES_PER_TASK, (rows,), generator=generator)
    return torch.randn(rows, generator=generator), states, trajectories, trajectories // GROUP


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


METHODS: dict[str, Method] = {
    "grouped": Method(
        one_reward,
        lambda rewards, ids: grouped_advantages(rewards, ids, std="sample", eps=loops.EPS),
        loops.grouped_loop,
        loops.grouped_list_loop,
    ),
    "gdpo": Method(
        several_rewards,
        lambda rewards, ids: gdpo_advantages(rewards, ids, std="sample", eps=loops.EPS),
        loops.gdpo_loop,
        loops.gdpo_list_loop,
    ),
    "gd2po": Method(
        several_rewards,
        lambda rewards, ids: gd2po_advantages(rewards, ids, std="sample", eps=loops.EPS).advantages,
        loops.gd2po_loop,
        loops.gd2po_list_loop,
    ),
    "gigpo": Method(
        steps,
        lambda *rows: gigpo_advantages(*rows, gamma=GAMMA, std="sample", eps=loops.EPS).advantages,
        functools.partial(loops.gigpo_loop, gamma=GAMMA),
        functools.partial(loops.gigpo_list_loop, gamma=GAMMA),
    ),
    "tree": Method(
        leaves,
        lambda rewards, trees, tasks: tree_advantages(rewards, trees, tasks, std="sample", eps=loops.EPS).advantages,
        loops.tree_loop,
        loops.tree_list_loop,
    ),
}


def difference(method: Method, rows: int) -> float:
    """Largest difference that the library has from either loop."""
    rewards, *ids = method.inputs(rows)
    listed = [part.tolist() for part in ids]
    ours = method.ours(rewards.double(), *ids)
    found = [loop(rewards.double(), *listed) for loop in (method.loop, method.list_loop)]
    return max(float((ours - theirs).abs().max()) for theirs in found)


def against_loops(name: str, rows: int, times_faster: float | None) -> Results:
    """Time one method against both of its loops."""
    method = METHODS[name]
    rewards, *ids = method.inputs(rows)
    listed = [part.tolist() for part in ids]
    of_loop, of_lists, of_ours = medians_ms(
        2,
        (
            lambda: method.loop(rewards, *listed),
            lambda: method.list_loop(rewards, *listed),
            lambda: method.ours(rewards, *ids),
        ),
    )
    size = f"{name}_{rows}"
    return {
        f"{size}_times_faster_than_loop": entry(of_loop / of_ours, at_least=times_faster),
        f"{size}_times_faster_than_list_loop": entry(of_lists / of_ours),
        f"{size}_ms": entry(of_ours),
        f"{size}_loop_ms": entry(of_loop),
        f"{size}_list_loop_ms": entry(of_lists),
    }


def growth(name: str) -> Results:
    """Time ten times the rows, adjacent and in random order."""
    method = METHODS[name]
    small, large = method.inputs(ROWS), method.inputs(10 * ROWS)
    few, many, few_mixed, many_mixed = medians_ms(
        9, [functools.partial(method.ours, *rows) for rows in (small, large, _mixed(small), _mixed(large))]
    )
    return {
        f"{name}_{10 * ROWS}_of_{ROWS}_time": entry(many / few, at_most=TIME_OF_TEN_TIMES),
        f"{name}_{ROWS}_random_order_ms": entry(few_mixed),
        f"{name}_random_order_{10 * ROWS}_of_{ROWS}_time": entry(many_mixed / few_mixed),
    }


def _mixed(rows: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    order = torch.randperm(len(rows[0]), generator=_generator())
    return tuple(part[order] for part in rows)


def of_method(name: str) -> Results:
    """Everything about one method."""
    found = against_loops(name, ROWS, TIMES_FASTER)
    if name != "gigpo":
        found |= against_loops(name, ROWS // 10, None)
    return found | {f"{name}_difference_from_loops": entry(difference(METHODS[name], ROWS // 10), at_most=1e-6)} | growth(name)


def grouped() -> Results:
    """One reward per rollout, standardised."""
    return of_method("grouped")


def gdpo() -> Results:
    """Three rewards per rollout."""
    return of_method("gdpo")


def gd2po() -> Results:
    """Three rewards per rollout, conflicts rejected."""
    return of_method("gd2po")


def tree() -> Results:
    """Leaves of trees."""
    return of_method("tree")


def gigpo() -> Results:
    """Steps of trajectories; state keys that are no small integers are reported."""
    rewards, states, *rest = steps(ROWS)
    hashes = torch.randint(-(2**62), 2**62, (STATES_PER_TASK,), generator=_generator())[states]
    texts = [f"room {state}" for state in states.tolist()]
    pairs = [(state, f"room {state}") for state in states.tolist()]
    of_hashes, of_texts, of_pairs = medians_ms(
        5,
        (
            lambda: METHODS["gigpo"].ours(rewards, hashes, *rest),
            lambda: integer_ids(texts, "state_keys"),
            lambda: integer_ids(pairs, "state_keys"),
        ),
    )
    return of_method("gigpo") | {
        f"gigpo_{ROWS}_keys_of_64_bits_ms": entry(of_hashes),
        f"gigpo_{ROWS}_keys_from_strings_ms": entry(of_texts),
        f"gigpo_{ROWS}_keys_from_tuples_ms": entry(of_pairs),
    }


BENCHMARKS: list[Callable[[], Results]] = [grouped, gdpo, gd2po, gigpo, tree]
