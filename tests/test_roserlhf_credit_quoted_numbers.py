"""Numbers worked out by hand or quoted by the sources of the methods, beyond those of `tests/data/reference_cases.json`."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from rosellm.roserlhf.advantages import (
    batch_standardized_advantages,
    filter_reward_conflicts,
    gdpo_advantages,
    generalized_advantage_estimation,
    gigpo_advantages,
    group_standardized_advantages,
    grouped_advantages,
    length_adaptive_lambda,
    overlong_penalty,
    reward_to_go,
    tree_advantages,
    variance_optimal_baseline,
)


def double(*numbers: Any) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def near(found: Tensor, expected: list[float], within: float = 1e-6) -> None:
    torch.testing.assert_close(found, double(*expected), atol=within, rtol=0.0)


# one observation between the second and the third action; a decay of 0.9 * 0.8 = 0.72 per step
OBSERVED = torch.tensor([True, True, False, True, True])
ENDS = torch.tensor([False, False, False, False, True])


def test_an_observation_is_skipped_and_not_a_step_of_value_zero() -> None:
    rewards, values = double(0, 0, 0, 0, 1), double(0.1, 0.2, float("nan"), 0.3, 0.4)
    skipped, _ = generalized_advantage_estimation(rewards, values, gamma=0.9, gae_lambda=0.8, terminated=ENDS, action_mask=OBSERVED)
    # 1 - .4; .36 - .3 + .72 * .6; .27 - .2 + .72 * .492; .18 - .1 + .72 * .42424
    near(skipped, [0.3854528, 0.42424, 0.0, 0.492, 0.6])
    a_step, _ = generalized_advantage_estimation(rewards, values.nan_to_num(0.0), gamma=0.9, gae_lambda=0.8, terminated=ENDS)
    near(a_step[OBSERVED], [0.259606, 0.249453, 0.492, 0.6])  # the estimator of those who multiply by the mask


def test_token_gae_of_two_actions_with_an_observation_of_two_tokens() -> None:
    acts = torch.tensor([True, True, False, False, True, True])
    found, _ = generalized_advantage_estimation(
        double(0, 0, 0, 0, 0, 1), double(0.1, 0.2, 9, 9, 0.4, 0.5), gae_lambda=0.95, action_mask=acts
    )
    near(found, [0.8089375, 0.74625, 0.0, 0.0, 0.575, 0.5])


def test_a_row_that_is_all_masked_is_zero() -> None:
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    nan = torch.full((2, 3), float("nan"))
    masks: list[dict[str, Any]] = [{"valid_mask": nothing}, {"action_mask": nothing}]
    for mask in masks:
        rewards = nan if "valid_mask" in mask else torch.zeros(2, 3)
        for result in generalized_advantage_estimation(rewards, nan, bootstrap_value=torch.full((2,), float("nan")), **mask):
            assert torch.equal(result, torch.zeros(2, 3))


def test_the_two_conventions_of_the_reward_to_go() -> None:
    rewards = double(1, 0, 2)
    near(reward_to_go(rewards, gamma=0.9), [2.62, 1.8, 2.0])  # 1 + .81 * 2, .9 * 2, 2
    near(reward_to_go(rewards, gamma=0.9, discount="from_start"), [2.62, 1.62, 1.62])  # times 1, .9, .81


def test_group_mean_over_the_deviation_of_the_batch() -> None:
    # raw rewards 1 0 1 1: mean 3/4, sample variance (1/16 * 3 + 9/16) / 3 = 1/4
    found = grouped_advantages(double(1, 0, 1, 1), [0, 0, 1, 1], scale="batch_std", std="sample", eps=1e-4)
    near(found, [0.5 / 0.5001, -0.5 / 0.5001, 0.0, 0.0])


@pytest.mark.parametrize(("reward", "size"), [(0.9, 8), (0.1, 8), (0.3, 6), (0.1, 3)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_uniform_groups_that_are_noise_elsewhere_are_exactly_zero(reward: float, size: int, dtype: torch.dtype) -> None:
    rewards = torch.full((size,), reward, dtype=dtype)
    assert not grouped_advantages(rewards, [0] * size, std="sample", eps=0.0).any()
    assert not group_standardized_advantages(rewards, eps=0.0).any()
    assert not gdpo_advantages(rewards.unsqueeze(-1).expand(-1, 2), [0] * size, eps=0.0).any()
    assert not tree_advantages(rewards, [0] * size, [0] * size, eps=0.0).advantages.any()
    assert not gigpo_advantages(rewards, [0] * size, list(range(size)), [0] * size, eps=0.0).advantages.any()
    assert not batch_standardized_advantages(rewards, torch.ones(size), eps=0.0).any()


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("std", ["population", "sample"])
def test_whitening_no_token_or_one_gives_zero(kept: int, std: Any) -> None:
    mask = torch.arange(3) < kept
    assert not batch_standardized_advantages(torch.tensor([2.0, float("nan"), 3.0]), mask, std=std).any()


def test_the_raw_reward_of_a_tree_of_one_leaf_is_not_added() -> None:
    # across the task 1 0 1: (1 - 2/3) / (1/sqrt 3 + 1e-6); authors' code adds the raw 1 and gets 1.57735
    found = tree_advantages(double(1, 0, 1), ["a", "a", "b"], ["q"] * 3, std="sample", eps=1e-6)
    near(found.advantages[2:], [0.577349], 5e-7)
    assert found.intra_advantages[2] == 0


def test_a_task_of_one_trajectory_leaks_no_raw_reward() -> None:
    for steps in (1, 2):
        found = gigpo_advantages(double(*[5.0] * steps), list(range(steps)), [0] * steps, ["q"] * steps, std="sample", eps=1e-6)
        assert not found.episode_advantages.any()


def test_the_soft_punishment_at_its_ends() -> None:
    lengths = torch.tensor([16384, 18432, 20480, 20481])
    limits: dict[str, Any] = {"max_length": 20480, "cache_length": 4096}
    torch.testing.assert_close(overlong_penalty(lengths, **limits), torch.tensor([0.0, -0.5, -1.0, -1.0]))
    torch.testing.assert_close(overlong_penalty(lengths, **limits, floor="verl"), torch.tensor([0.0, -0.5, -1.0, -1.000244140625]))


@pytest.mark.parametrize(("larger", "kept"), [(8.9, False), (9.1, True)])
def test_two_rewards_at_threshold_point_eight_need_nine_to_one(larger: float, kept: bool) -> None:
    found = filter_reward_conflicts(double([larger, -1.0], [-1.0, larger]), ["q", "q"], conflict_filter="snr")
    assert found.keep_mask.tolist() == [kept, kept]


def test_paper_and_code_part_where_a_rollout_has_no_signal() -> None:
    parts = double([0.0, 0.0], [1.0, 1.0])
    paper, code = (filter_reward_conflicts(parts, [0, 0], conflict_filter="snr", rule=rule) for rule in ("paper", "code"))
    assert paper.keep_mask.tolist() == [False, True]
    assert paper.query_weights.tolist() == [0.5, 0.5]
    assert code.keep_mask.tolist() == [True, True]
    assert code.query_weights.tolist() == [1.0, 1.0]


def test_weights_multiply_normalised_advantages_and_two_groups_whiten_together() -> None:
    rewards = double([0, 0], [1, 0], [0, 0], [1, 1])
    # per reward (-1, 0) (1, 0) (-1, -1) (1, 1); with weights 1 and 2 the sums are -1, 1, -3, 3 with variance 20/4
    sums = gdpo_advantages(rewards * double(7, 100), [0, 0, 1, 1], weights=[1.0, 2.0], eps=0.0, whiten="none")
    near(sums, [-1, 1, -3, 3], 1e-12)
    near(gdpo_advantages(rewards, [0, 0, 1, 1], weights=[1.0, 2.0], eps=0.0), [x / math.sqrt(5) for x in (-1, 1, -3, 3)], 1e-12)


def test_what_is_left_of_the_first_token_under_a_lambda_by_length() -> None:
    length = torch.tensor([100_000])
    for alpha, expected in ((1.5, math.exp(-1 / 1.5)), (0.05, math.exp(-20))):
        weight = length_adaptive_lambda(length, alpha=alpha, dtype=torch.float64) ** (length - 1)
        torch.testing.assert_close(weight, double(expected), rtol=3e-3, atol=0.0)


def test_the_best_constant_of_a_bandit_is_not_its_mean_reward() -> None:
    logits, rewards = double(0.2, -0.1, 0.5), double(1, 0, 2)
    p = logits.softmax(0)
    scores = torch.eye(3, dtype=torch.float64) - p

    def trace_of_the_variance(b: float) -> float:
        samples = scores * (rewards - b).unsqueeze(-1)
        return float(p @ samples.square().sum(-1) - (p @ samples).square().sum())

    best = float(variance_optimal_baseline(rewards, scores.square().sum(-1), weights=p))
    mean = float(p @ rewards)
    assert [best, mean] == pytest.approx([1.0, 1.19706], abs=1e-5)
    found = [trace_of_the_variance(b) for b in (0.0, mean, best)]
    assert found == pytest.approx([0.8565, 0.2345, 0.2094], abs=5e-5)
