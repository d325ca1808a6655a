"""GiGPO: trajectories against trajectories, visits against visits; by hand, against loops, and what must not matter."""

from __future__ import annotations

import math
from typing import Any

import oracles_steps as slow
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rosellm.roserlhf import errors
from rosellm.roserlhf.advantages import GigpoAdvantages, gigpo_advantages

thorough = settings(derandomize=True, max_examples=60, deadline=None)
NAN = float("nan")
ROOT2 = math.sqrt(2)


def double(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(found: Tensor, expected: object, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(found, double(expected), atol=tolerance, rtol=0)


def credit(trajectories: dict[str, list[tuple[Any, float]]], **options: Any) -> GigpoAdvantages:
    """Compute the credit of one task, whose trajectories are lists of (state, reward)."""
    rows = [(name, state, reward) for name, steps in trajectories.items() for state, reward in steps]
    names, states, rewards = zip(*rows, strict=True)
    return gigpo_advantages(double(rewards), states, names, ["task"] * len(rows), **options)


def test_both_parts_by_hand() -> None:
    # totals 4, 2, 0: mean 2, population deviation sqrt(8/3); at the door the returns are 1/2 * 4, 1/2 * 2, 0 (γ = 1/2)
    found = credit(
        {"a": [("door", 0), ("hall", 4)], "b": [("door", 0), ("hall", 2)], "c": [("door", 0), ("yard", 0)]}, gamma=0.5, eps=0.0
    )
    high = 2 / math.sqrt(8 / 3)
    close(found.returns, [2, 4, 1, 2, 0, 0])
    close(found.episode_advantages, [high, high, 0, 0, -high, -high])
    close(found.step_advantages, [high, 1, 0, -1, -high, 0])  # door: 2, 1, 0; hall: 4, 2; the yard was seen once
    close(found.advantages, [2 * high, high + 1, 0, -1, -2 * high, -high])
    assert found.step_group_sizes.tolist() == [3, 2, 3, 2, 3, 1]
    assert found.step_group_ids.tolist() == [0, 1, 0, 1, 0, 2]
    half = credit({"a": [("door", 0), ("hall", 4)], "b": [("door", 0), ("hall", 2)]}, gamma=0.5, eps=0.0, omega=0.5)
    close(half.advantages, [1.5, 1.5, -1.5, -1.5])  # 1 + 0.5 * 1 everywhere


def test_every_visit_counts_with_its_own_return() -> None:
    # one trajectory of four steps visits s at its steps 1 and 3; reward 8 at the end: 8 / 2^3 and 8 / 2^1
    found = credit({"a": [("s", 0), ("x", 0), ("s", 0), ("y", 8)]}, gamma=0.5, eps=0.0)
    close(found.returns, [1, 2, 4, 8])
    close(found.step_advantages, [-1, 0, 1, 0])
    assert found.step_group_sizes.tolist() == [2, 1, 2, 1]
    assert found.episode_advantages.tolist() == [0.0] * 4  # the only trajectory of its task


def test_without_discount_the_initial_state_judges_trajectories_again() -> None:
    found = credit({"a": [("s0", 0), ("x", 1)], "b": [("s0", 0), ("y", 0)], "c": [("s0", 0), ("x", 0)]}, gamma=1.0, eps=0.0)
    # totals 1, 0, 0: mean 1/3, deviation sqrt(2)/3
    close(found.episode_advantages, [ROOT2, ROOT2, -1 / ROOT2, -1 / ROOT2, -1 / ROOT2, -1 / ROOT2])
    close(found.step_advantages, [ROOT2, 1, -1 / ROOT2, 0, -1 / ROOT2, -1])


def test_all_succeed_and_the_shorter_way_is_preferred() -> None:
    # at p: returns 0.9 and 0.81
    found = credit({"short": [("p", 0), ("q", 1)], "long": [("p", 0), ("r", 0), ("u", 1)]}, gamma=0.9, eps=0.0)
    close(found.episode_advantages, [0] * 5)
    close(found.advantages, [1, 0, -1, 0, 0])
    centred = credit({"short": [("p", 0), ("q", 1)], "long": [("p", 0), ("r", 0), ("u", 1)]}, gamma=0.9, normalization="none")
    close(centred.advantages, [0.045, 0, -0.045, 0, 0])


def test_sample_deviation() -> None:
    found = credit({"a": [("s", 3.0)], "b": [("s", 1.0)]}, std="sample", eps=1e-6)
    close(found.advantages, [2 / (ROOT2 + 1e-6), -2 / (ROOT2 + 1e-6)])


def test_R20_a_long_trajectory_votes_once() -> None:
    # A has 3 turns and reward 1, B has 1 turn and reward 0: mean 1/2, deviation 1/2
    long = {"A": [("a0", 0.0), ("a1", 0.0), ("a2", 1.0)], "B": [("b0", 0.0)]}
    close(credit(long, eps=0.0).episode_advantages, [1, 1, 1, -1])
    # over rows: mean 3/4, deviation sqrt(3)/4
    by_step = credit(long, eps=0.0, episode_statistics="steps")
    close(by_step.episode_advantages, [1 / math.sqrt(3)] * 3 + [-math.sqrt(3)])


@pytest.mark.parametrize("turns", [1, 2, 7])
def test_statistics_do_not_depend_on_the_number_of_rows(turns: int) -> None:
    rows = {"A": [(f"a{t}", 1.0 / turns) for t in range(turns)], "B": [("b", 0.0)], "C": [("c", 0.0)]}
    found = credit(rows, eps=0.0)
    close(found.episode_advantages, [ROOT2] * turns + [-1 / ROOT2] * 2)


def test_equal_states_of_different_tasks_never_share_a_step_group() -> None:
    states, tasks = ["door"] * 4, ["shop", "shop", "maze", "maze"]
    for keys, groups in ((states, tasks), (torch.zeros(4, dtype=torch.int64), torch.tensor([7, 7, 3, 3]))):
        found = gigpo_advantages(double([4, 2, 100, 300]), keys, [1, 2, 3, 4], groups, eps=0.0)
        assert found.step_group_ids.tolist() == [0, 0, 1, 1]
        close(found.step_advantages, [1, -1, -1, 1])


def test_one_and_true_are_different_states() -> None:
    states = [1, 1.0, True, "1", (1,), (True,)]
    found = gigpo_advantages(double([0, 1, 2, 3, 4, 5]), states, list("abcdef"), ["task"] * 6)
    assert found.step_group_sizes.tolist() == [1] * 6
    assert found.step_advantages.tolist() == [0.0] * 6


def test_equal_actions_may_be_merged() -> None:
    # one state, returns 1, 0, 1 of actions a, a, b; a earns 1/2 on average: 1/2, 1/2, 1 has mean 2/3 and deviation sqrt(2)/6
    arguments: tuple[Any, ...] = (double([1, 0, 1]), ["s"] * 3, ["t0", "t1", "t2"], ["task"] * 3)
    plain = gigpo_advantages(*arguments, eps=0.0)
    merged = gigpo_advantages(*arguments, eps=0.0, merge_equal_actions=True, action_keys=["a", "a", "b"])
    close(plain.step_advantages, [1 / ROOT2, -ROOT2, 1 / ROOT2])
    close(merged.step_advantages, [-1 / ROOT2, -1 / ROOT2, ROOT2])
    close(merged.returns, [1, 0, 1])


def test_a_step_penalty_is_not_discounted_backwards() -> None:
    # returns 9.5, 10; the invalid first action costs 0.1 there only
    rewards, keys = double([0, 10]), (["s0", "a"], ["t"] * 2, ["task"] * 2)
    close(gigpo_advantages(rewards, *keys).returns, [9.5, 10])
    close(gigpo_advantages(rewards, *keys, step_penalties=double([0.1, 0])).returns, [9.4, 10])
    close(gigpo_advantages(rewards, *keys, step_penalties=double([0, 0.1])).returns, [9.5, 9.9])


def test_an_unscored_trajectory_is_as_if_it_had_not_been_launched() -> None:
    rewards, states, names = [0.0, 4.0, 1.0, NAN, 0.0], ["s", "x", "s", "x", "s"], ["a", "a", "lost", "lost", "b"]
    mask = torch.tensor([True, True, True, False, True])
    found = gigpo_advantages(double(rewards), states, names, ["task"] * 5, scored_mask=mask)
    kept = [0, 1, 4]
    alone = gigpo_advantages(double(rewards)[kept], [states[i] for i in kept], [names[i] for i in kept], ["task"] * 3)
    for part in ("advantages", "episode_advantages", "step_advantages", "returns", "step_group_sizes"):
        assert torch.equal(getattr(found, part)[kept], getattr(alone, part))
    assert found.advantages[[2, 3]].tolist() == found.returns[[2, 3]].tolist() == [0.0, 0.0]


def test_equal_ways_to_an_end_are_exactly_uniform() -> None:
    # γ^k in one order of products only: 0.95^k by two routes may differ in the last bit, which ε = 0 would make a signal
    steps = [(f"s{t}", 0.0) for t in range(150)] + [("end", 1.0)]
    found = credit({"a": steps, "b": [("start", 0.0), *steps], "c": steps[70:]}, eps=0.0)
    assert found.step_advantages.tolist() == [0.0] * len(found.step_advantages)


def test_singletons() -> None:
    assert credit({"a": [("s", 0.7)]}).advantages.tolist() == [0.0]
    assert credit({"a": [("s", 0.7), ("u", 0.0)]}).advantages.tolist() == [0.0, 0.0]
    with pytest.raises(errors.GroupError, match="group_ids must have more than one scored trajectory"):
        credit({"a": [("s", 0.7), ("s", 0.7)]}, singleton="error")


steps = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["u", "v", "w"]), st.sampled_from([0.0, 1.0, -0.5]), st.integers(0, 1)),
    min_size=1,
    max_size=18,
)
Steps = list[tuple[int, str, float, int]]


def columns(table: Steps) -> tuple[Any, ...]:
    """Return trajectories, states, rewards and actions as lists."""
    return tuple([row[i] for row in table] for i in range(4))


@thorough
@given(steps, st.sampled_from(["population", "sample", None]), st.sampled_from(["trajectory", "steps"]), st.booleans())
def test_against_loops(table: Steps, std: Any, statistics: Any, merge: bool) -> None:
    names, states, rewards, actions = columns(table)
    tasks = [f"task {name // 2}" for name in names]  # trajectories 0 and 1 of one task, 2 and 3 of the next
    penalties = [0.25 * action for action in actions]
    options = {"omega": 0.5, "gamma": 0.5, "episode_statistics": statistics}
    expected = slow.gigpo(
        rewards, states, names, tasks, std=std, eps=1e-3, actions=actions if merge else None, penalties=penalties, **options
    )
    found = gigpo_advantages(
        double(rewards),
        states,
        torch.tensor(names),
        tasks,
        normalization="std" if std else "none",
        std=std or "population",
        eps=1e-3,
        merge_equal_actions=merge,
        action_keys=actions if merge else None,
        step_penalties=double(penalties),
        **options,
    )
    parts = (found.advantages, found.episode_advantages, found.step_advantages, found.returns)
    for part, loop in zip(parts, expected, strict=True):
        close(part, loop, 1e-9)


@thorough
@given(steps, st.randoms(use_true_random=False))
def test_trajectories_may_be_shuffled_interleaved_and_renamed(table: Steps, random: Any) -> None:
    waiting = {name: [i for i, row in enumerate(table) if row[0] == name] for name in {row[0] for row in table}}
    order: list[int] = []
    while waiting:
        name = random.choice(sorted(waiting))
        order.append(waiting[name].pop(0))
        waiting = {name: rows for name, rows in waiting.items() if rows}

    def found(rows: list[int], rename: bool) -> GigpoAdvantages:
        names, states, rewards, _ = columns([table[i] for i in rows])
        tasks = [name // 2 for name in names]
        if rename:
            names, states = [("trajectory", name) for name in names], ["uvw".index(state) for state in states]
            tasks = [str(task) for task in tasks]
        return gigpo_advantages(double(rewards), states, names, tasks, eps=1e-3)

    first, moved = found(list(range(len(table))), rename=False), found(order, rename=True)
    torch.testing.assert_close(moved.advantages, first.advantages[order], atol=1e-9, rtol=0)
    assert torch.equal(moved.step_group_sizes, first.step_group_sizes[order])


@thorough
@given(steps)
def test_tasks_may_be_split_over_calls(table: Steps) -> None:
    names, states, rewards, _ = columns(table)
    tasks = torch.tensor([name // 2 for name in names])
    whole = gigpo_advantages(double(rewards), states, names, tasks, eps=1e-3)
    for task in set(tasks.tolist()):
        rows = (tasks == task).nonzero().flatten().tolist()
        part = gigpo_advantages(double(rewards)[rows], [states[i] for i in rows], [names[i] for i in rows], tasks[rows], eps=1e-3)
        torch.testing.assert_close(part.advantages, whole.advantages[rows], atol=1e-9, rtol=0)


def test_dtype_and_gradient() -> None:
    rewards = torch.tensor([0.0, 1.0], requires_grad=True)
    found = gigpo_advantages(rewards, ["s", "s"], [0, 1], [0, 0])
    assert (found.advantages.dtype, found.advantages.requires_grad, found.returns.requires_grad) == (torch.float32, False, False)
    with pytest.raises(AttributeError):
        found.returns = rewards  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"step_rewards": torch.zeros(3, 1)}, errors.ShapeError, r"step_rewards must be \[N\]"),
        ({"step_rewards": torch.tensor([0.0, NAN, 0.0])}, errors.NonFiniteError, "step_rewards must be finite"),
        ({"state_keys": ["s", "s"]}, errors.ShapeError, "state_keys must have one id for each of the 3 rows"),
        ({"state_keys": ["s", None, "s"]}, errors.DtypeError, "state_keys must"),
        ({"state_keys": torch.zeros(3)}, errors.DtypeError, "state_keys must"),
        ({"group_ids": [0, 1, 1]}, errors.GroupError, "trajectory_ids must belong to one group each"),
        ({"gamma": 1.5}, errors.RangeError, "gamma must be in"),
        ({"omega": NAN}, errors.RangeError, "omega must be in"),
        ({"normalization": "mean_only"}, errors.RangeError, "normalization must be one of"),
        ({"episode_statistics": "rows"}, errors.RangeError, "episode_statistics must be one of"),
        ({"merge_equal_actions": True}, errors.ConfigError, "action_keys must be given"),
        ({"action_keys": [0, 0, 0]}, errors.ConfigError, "action_keys must be left out"),
        ({"step_penalties": torch.zeros(2)}, errors.ShapeError, "step_penalties must have the shape of step_rewards"),
        ({"step_penalties": torch.full((3,), NAN)}, errors.NonFiniteError, "step_penalties must be finite"),
    ],
)
def test_errors(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    given_: dict[str, Any] = {"state_keys": ["s"] * 3, "trajectory_ids": [0, 0, 1], "group_ids": [0] * 3, **arguments}
    with pytest.raises(error, match=message):
        gigpo_advantages(given_.pop("step_rewards", torch.zeros(3)), **given_)
