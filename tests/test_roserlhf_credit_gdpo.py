"""GDPO: rewards that stay apart until each is normalised; by hand, against loops, and under reordering."""

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
from rosellm.roserlhf.advantages import gdpo_advantages

thorough = settings(derandomize=True, max_examples=60, deadline=None)
NAN = float("nan")


def double(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(found: Tensor, expected: object, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(found, double(expected), atol=tolerance, rtol=0)


def test_sums_collapse_what_gdpo_keeps_apart() -> None:
    # sample deviation of {0, 1} is sqrt(1/2): (1 - 1/2) / sqrt(1/2) = 0.7071 per reward that differs
    half = math.sqrt(0.5)
    one = gdpo_advantages(double([[0, 0], [1, 0]]), [0, 0], whiten="none", std="sample", eps=0.0)
    both = gdpo_advantages(double([[0, 0], [1, 1]]), [0, 0], whiten="none", std="sample", eps=0.0)
    close(one, [-half, half])
    close(both, [-2 * half, 2 * half])


def test_each_step_by_hand() -> None:
    # group a: rewards (0, 4) and (2, 4): reward 0 -> -1, 1; reward 1 is uniform -> 0
    # group b: rewards (1, 0), (1, 2), (4, 4): reward 0: mean 2, deviation sqrt(2): -1, -1, 2 over 1.41421
    #                                           reward 1: mean 2, deviation sqrt(8/3): -2, 0, 2 over 1.63299
    rewards = double([[0, 4], [1, 0], [2, 4], [1, 2], [4, 4]])
    groups, root2, root = ["a", "b", "a", "b", "b"], math.sqrt(2), math.sqrt(8 / 3)
    sums = [-1.0, -1 / root2 - 3 * 2 / root, 1.0, -1 / root2, 2 / root2 + 3 * 2 / root]
    close(gdpo_advantages(rewards, groups, weights=[1.0, 3.0], whiten="none", eps=0.0), sums)
    mean = sum(sums) / 5
    deviation = math.sqrt(sum((s - mean) ** 2 for s in sums) / 5)
    close(gdpo_advantages(rewards, groups, weights=[1.0, 3.0], eps=0.0), [(s - mean) / deviation for s in sums])


def test_token_whitening_counts_a_rollout_once_per_token() -> None:
    # sums -1 and 1 with 1 and 3 tokens: mean (-1 + 3) / 4 = 1/2, variance (2.25 + 3 * 0.25) / 4 = 3/4
    rewards, lengths = double([[0], [1]]), torch.tensor([1, 3])
    found = gdpo_advantages(rewards, [0, 0], whiten="token", lengths=lengths, eps=0.0, whiten_eps=0.0)
    close(found, [-1.5 / math.sqrt(0.75), 0.5 / math.sqrt(0.75)])
    # the sample variance over tokens divides by 3: 1; in the first step (x - 1/2) / sqrt(1/2) scales sums by 1/sqrt(2): 1/2
    found = gdpo_advantages(rewards, [0, 0], whiten="token", lengths=lengths, std="sample", eps=0.0, whiten_eps=0.5)
    close(found, [-1.5 * math.sqrt(0.5), 0.5 * math.sqrt(0.5)])  # variance 1/2 + ε 1/2 = 1, inside the root


def test_readings_of_the_authors_code_and_of_trl() -> None:
    rewards = [[3.0, 1.0], [-3.0, 1.0], [0.0, 0.0], [3.0, 0.0], [2.0, 1.0], [2.0, 1.0], [1.0, 1.0], [2.0, 0.0]]
    groups, lengths = [0, 0, 0, 0, 1, 1, 1, 1], torch.tensor([1, 2, 3, 4, 1, 2, 3, 4])
    by_token = gdpo_advantages(double(rewards), groups, whiten="token", lengths=lengths, std="sample", eps=1e-6)
    by_rollout = gdpo_advantages(double(rewards), groups, std="sample", eps=1e-6)
    assert by_token[0].item() == pytest.approx(2.282526763857083, abs=1e-12)
    assert by_rollout[0].item() == pytest.approx(1.5247600976055136, abs=1e-12)
    assert by_token[3] > 0 > by_rollout[3]  # rollout 3 has 4 of the 20 tokens


def test_uniform_rewards_add_exactly_nothing() -> None:
    for constant in (0.1, 0.3, 0.9):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            rewards = torch.tensor([[constant, 0.0], [constant, 1.0], [constant, 0.0]], dtype=dtype)
            alone = gdpo_advantages(rewards[:, 1:], ["g"] * 3, eps=0.0)
            assert torch.equal(gdpo_advantages(rewards, ["g"] * 3, eps=0.0), alone)
            assert gdpo_advantages(rewards[:, :1], ["g"] * 3, eps=0.0).tolist() == [0.0, 0.0, 0.0]


def test_opposite_rewards_cancel_to_exactly_nothing() -> None:
    # the second reward is one minus the first: every sum is 0, and rounding must not be whitened into a signal
    first = double([0, 0, 1, 1, 1, 0, 1])
    assert gdpo_advantages(torch.stack([first, 1 - first], -1), [0] * 7, eps=0.0).tolist() == [0.0] * 7


def test_unscored_is_not_zero() -> None:
    rewards = double([[1, NAN], [0, 5], [NAN, 3], [NAN, NAN]])
    mask = torch.tensor([[True, False], [True, True], [False, True], [False, False]])
    # reward 0 over rollouts 0, 1: 1, -1; reward 1 over rollouts 1, 2: 1, -1; rollout 3 has none
    close(gdpo_advantages(rewards, [0] * 4, scored_mask=mask, whiten="none", eps=0.0), [1.0, 0.0, -1.0, 0.0])
    # whitening over the three scored ones: mean 0, deviation sqrt(2/3)
    close(gdpo_advantages(rewards, [0] * 4, scored_mask=mask, eps=0.0), [math.sqrt(1.5), 0.0, -math.sqrt(1.5), 0.0])
    whole = gdpo_advantages(rewards[:, 1:], [0] * 4, scored_mask=mask[:, 1], eps=0.0)
    close(whole, [0.0, 1.0, -1.0, 0.0])


rows = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 0.5, -2.0]), st.sampled_from([0.0, 1.0, 3.0]), st.integers(0, 3), st.integers(1, 5)),
    min_size=1,
    max_size=16,
)
options = st.tuples(st.sampled_from(["rollout", "token", "none"]), st.sampled_from(["population", "sample"]))


@thorough
@given(rows, options)
def test_against_loops(table: list[tuple[float, float, int, int]], option: tuple[Any, Any]) -> None:
    whiten, std = option
    rewards, groups, lengths = [list(row[:2]) for row in table], [row[2] for row in table], [row[3] for row in table]
    parts = slow.per_reward(rewards, groups, std, 1e-3)
    expected = slow.whitened(slow.weighted_sums(parts, [2.0, 0.5]), [True] * len(table), whiten, lengths, std, 1e-3)
    found = gdpo_advantages(
        double(rewards),
        groups,
        weights=torch.tensor([2.0, 0.5]),
        whiten=whiten,
        lengths=torch.tensor(lengths) if whiten == "token" else None,
        std=std,
        eps=1e-3,
        whiten_eps=None if whiten == "none" else 1e-3,
    )
    close(found, expected, 1e-9)


@thorough
@given(rows, st.randoms(use_true_random=False))
def test_order_and_names_of_groups_do_not_matter(table: list[tuple[float, float, int, int]], random: Any) -> None:
    order = random.sample(range(len(table)), len(table))
    rewards, groups = double([row[:2] for row in table]), [row[2] for row in table]
    moved = gdpo_advantages(rewards[order], [("task", str(groups[i])) for i in order], eps=1e-3)
    torch.testing.assert_close(moved, gdpo_advantages(rewards, torch.tensor(groups), eps=1e-3)[order], atol=1e-9, rtol=0)


@thorough
@given(rows)
def test_without_whitening_groups_may_be_split_over_calls(table: list[tuple[float, float, int, int]]) -> None:
    rewards, groups = double([row[:2] for row in table]), torch.tensor([row[2] for row in table])
    whole = gdpo_advantages(rewards, groups, whiten="none", eps=1e-3)
    for group in set(groups.tolist()):
        part = gdpo_advantages(rewards[groups == group], groups[groups == group], whiten="none", eps=1e-3)
        torch.testing.assert_close(part, whole[groups == group], atol=1e-9, rtol=0)


def test_dtype_and_gradient() -> None:
    rewards = torch.tensor([[0.0], [1.0]], requires_grad=True)
    assert gdpo_advantages(rewards, [0, 0]).dtype == torch.float32
    assert gdpo_advantages(rewards.detach().half(), [0, 0]).dtype == torch.float32
    assert not gdpo_advantages(rewards, [0, 0]).requires_grad


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"rewards": torch.zeros(3)}, errors.ShapeError, r"rewards must be \[N, K\]"),
        ({"rewards": torch.zeros(3, 2, dtype=torch.int64)}, errors.DtypeError, "rewards must be a floating-point"),
        ({"rewards": torch.tensor([[0.0, NAN]] * 3)}, errors.NonFiniteError, "rewards must be finite"),
        ({"group_ids": [0, 0]}, errors.ShapeError, "group_ids must have one id for each of the 3 rows"),
        ({"weights": [1.0]}, errors.ShapeError, "weights must be one number for each of the 2 rewards"),
        ({"weights": [1.0, NAN]}, errors.RangeError, "weights must be in"),
        ({"whiten": "batch"}, errors.RangeError, "whiten must be one of"),
        ({"whiten": "token"}, errors.ConfigError, "lengths must be given with whiten='token'"),
        ({"lengths": torch.ones(3, dtype=torch.int64)}, errors.ConfigError, "lengths must be left out unless whiten='token'"),
        ({"whiten": "token", "lengths": torch.tensor([1, -1, 2])}, errors.RangeError, "lengths must be in"),
        ({"whiten": "none", "whiten_eps": 0.1}, errors.ConfigError, "whiten_eps must be left out"),
        ({"eps": -1.0}, errors.RangeError, "eps must be in"),
        ({"std": "unbiased"}, errors.RangeError, "std must be one of"),
        ({"group_ids": [0, 0, 1], "singleton": "error"}, errors.GroupError, "rewards must have more than one scored member"),
        ({"scored_mask": torch.ones(2, dtype=torch.bool)}, errors.ShapeError, "scored_mask must have the shape"),
    ],
)
def test_errors(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gdpo_advantages(**{"rewards": torch.zeros(3, 2), "group_ids": [0, 0, 0], **arguments})
