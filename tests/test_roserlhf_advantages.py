"""The credit estimators against arithmetic that is written out; every example can be redone on paper."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from rosellm.roserlhf import advantages as door
from rosellm.roserlhf.advantages import (
    broadcast_turn_advantages,
    discounted_returns,
    generalized_advantage_estimation,
    group_standardized_advantages,
    leave_one_out_advantages,
    skip_observation_generalized_advantage_estimation,
)

NAN, INF = float("nan"), float("inf")
HALF = [torch.bfloat16, torch.float16]
FLOATS = [torch.float32, torch.float64, *HALF]


def floats(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def flags(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.bool)


def close(actual: Tensor, *expected: float) -> None:
    torch.testing.assert_close(actual, floats(*expected).to(actual.dtype), rtol=1e-6, atol=1e-6)


# --- returns ----------------------------------------------------------------------------------------------------------------------


def test_truncation_keeps_its_bootstrap_and_termination_does_not() -> None:
    rewards, gamma = torch.tensor([1.0, 2.0]), 0.5
    # cut: 2 + .5 * 10 = 7, then 1 + .5 * 7 = 4.5
    assert discounted_returns(rewards, gamma=gamma, bootstrap_value=torch.tensor(10.0)).tolist() == [4.5, 7.0]
    # ended: 2, then 1 + .5 * 2 = 2; the bootstrap value is not read
    for bootstrap in (torch.tensor(10.0), torch.tensor(NAN), None):
        ended = discounted_returns(rewards, gamma=gamma, terminated=flags(0, 1), bootstrap_value=bootstrap)
        assert ended.tolist() == [2.0, 2.0]


def test_without_terminal_and_bootstrap_zero_follows_the_end() -> None:
    assert discounted_returns(torch.tensor([1.0, 2.0]), gamma=0.5).tolist() == [2.0, 2.0]
    advantages, targets = generalized_advantage_estimation(torch.tensor([1.0, 2.0]), torch.zeros(2), gamma=0.5)
    assert advantages.tolist() == targets.tolist() == [2.0, 2.0]


def test_padding_inside_a_row_is_absent_time() -> None:
    # the hole costs no discount: 1 + .5 * 2 = 2, not 1 + .5 * .5 * 2
    rewards = torch.tensor([1.0, NAN, 2.0, INF])
    returns = discounted_returns(rewards, gamma=0.5, valid_mask=flags(1, 0, 1, 0), bootstrap_value=torch.tensor(4.0))
    # after the last valid step: 2 + .5 * 4 = 4, then 1 + .5 * 4 = 3
    assert returns.tolist() == [3.0, 0.0, 4.0, 0.0]


def test_a_terminal_flag_in_absent_time_ends_nothing() -> None:
    rewards, hole = torch.tensor([1.0, 0.0, 2.0]), flags(1, 0, 1)
    terminated = torch.tensor([0.0, NAN, 1.0])
    assert discounted_returns(rewards, gamma=0.5, terminated=terminated, valid_mask=hole).tolist() == [2.0, 0.0, 2.0]
    assert discounted_returns(rewards, gamma=0.5, terminated=flags(0, 1, 1), valid_mask=hole).tolist() == [2.0, 0.0, 2.0]


def test_a_terminal_step_inside_a_row_starts_a_new_episode() -> None:
    # 1 + .5 * 2 | 4 + .5 * 8
    returns = discounted_returns(torch.tensor([1.0, 2.0, 4.0, 8.0]), gamma=0.5, terminated=flags(0, 1, 0, 1))
    assert returns.tolist() == [2.0, 2.0, 8.0, 8.0]


def test_a_row_without_a_valid_step_is_zero() -> None:
    empty = torch.zeros(2, 3, dtype=torch.bool)
    nothing = torch.full((2, 3), NAN)
    boot = torch.full((2,), NAN)
    assert discounted_returns(nothing, valid_mask=empty, bootstrap_value=boot).eq(0).all()
    for result in generalized_advantage_estimation(nothing, nothing, valid_mask=empty, bootstrap_value=boot):
        assert result.eq(0).all()
    for result in skip_observation_generalized_advantage_estimation(nothing, nothing, nothing, valid_mask=empty):
        assert result.eq(0).all()


def test_a_number_bootstraps_every_row() -> None:
    rewards = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    expected = [[4.5, 7.0], [2.5, 5.0]]
    for ten in (10, 10.0, torch.tensor(10.0), torch.tensor([10.0, 10.0])):
        assert discounted_returns(rewards, gamma=0.5, bootstrap_value=ten).tolist() == expected


# --- generalised advantage estimation ---------------------------------------------------------------------------------------------

REWARDS, VALUES = floats(0.0, 0.5, 1.0), floats(0.2, 0.4, 0.6)


def test_gae_with_a_true_end() -> None:
    # δ2 = 1 − .6 = .4, δ1 = .5 + .99 * .6 − .4 = .694, δ0 = .99 * .4 − .2 = .196; A1 = .694 + .9405 * .4, A0 = .196 + .9405 * A1
    advantages, targets = generalized_advantage_estimation(
        REWARDS, VALUES, gamma=0.99, gae_lambda=0.95, terminated=flags(0, 0, 1), bootstrap_value=floats(0.8)[0]
    )
    close(advantages, 1.2025231, 1.0702, 0.4)
    close(targets, 1.4025231, 1.4702, 1.0)


def test_gae_with_a_time_limit() -> None:
    # only δ2 changes: 1 + .99 * .8 − .6 = 1.192
    advantages, targets = generalized_advantage_estimation(
        REWARDS, VALUES, gamma=0.99, gae_lambda=0.95, bootstrap_value=floats(0.8)[0]
    )
    close(advantages, 1.903078978, 1.815076, 1.192)
    close(targets, 2.103078978, 2.215076, 1.792)


def test_gae_of_lambda_one_is_return_minus_value() -> None:
    advantages, targets = generalized_advantage_estimation(REWARDS, VALUES, gamma=0.9, terminated=flags(0, 0, 1))
    returns = discounted_returns(REWARDS, gamma=0.9, terminated=flags(0, 0, 1))
    close(returns, 1.26, 1.4, 1.0)  # 1, .5 + .9 * 1, .9 * 1.4
    close(advantages, 1.06, 1.0, 0.4)
    torch.testing.assert_close(targets, returns)


def test_gae_of_lambda_zero_is_the_temporal_difference_error() -> None:
    # .9 * .4 − .2, .5 + .9 * .6 − .4, 1 − .6
    advantages, _ = generalized_advantage_estimation(REWARDS, VALUES, gamma=0.9, gae_lambda=0.0, terminated=flags(0, 0, 1))
    close(advantages, 0.16, 0.64, 0.4)


def test_gae_is_the_finite_mixture_of_n_step_advantages() -> None:
    rewards, values, gamma, lam = [0.3, -0.2, 1.0, 0.5], [0.1, 0.2, 0.3, 0.4], 0.9, 0.7
    advantages, _ = generalized_advantage_estimation(
        floats(*rewards), floats(*values), gamma=gamma, gae_lambda=lam, terminated=flags(0, 0, 0, 1)
    )
    mixtures = []
    for t in range(4):
        horizon = 4 - t
        n_step = [
            sum(gamma**k * rewards[t + k] for k in range(n)) + (gamma**n * values[t + n] if n < horizon else 0.0) - values[t]
            for n in range(1, horizon + 1)
        ]
        # the weights 1−λ, (1−λ)λ, ... stop; what is left, λ^(N−1), rests on the Monte Carlo term
        weights = [(1 - lam) * lam ** (n - 1) for n in range(1, horizon)] + [lam ** (horizon - 1)]
        mixtures.append(sum(w * a for w, a in zip(weights, n_step, strict=True)))
    close(advantages, *mixtures)
    close(advantages, 0.7438187, 0.57749, 1.123, 0.1)


def test_crossing_padding_carries_value_and_advantage() -> None:
    dense = generalized_advantage_estimation(REWARDS, VALUES, gamma=0.9, gae_lambda=0.8, bootstrap_value=floats(2.0)[0])
    holes = flags(0, 1, 0, 0, 1, 1, 0)
    sparse = generalized_advantage_estimation(
        floats(NAN, 0.0, INF, 7.0, 0.5, 1.0, NAN),
        floats(7.0, 0.2, NAN, -INF, 0.4, 0.6, 100.0),
        gamma=0.9,
        gae_lambda=0.8,
        valid_mask=holes,
        bootstrap_value=floats(2.0)[0],
    )
    for with_holes, without in zip(sparse, dense, strict=True):
        assert with_holes[holes].equal(without)
        assert with_holes[~holes].eq(0).all()


def test_R27_values_on_masked_positions_do_not_leak() -> None:
    rewards, mask = torch.tensor([0.0, 1.0, 0.0]), flags(1, 1, 0)
    for junk in (100.0, NAN):
        # A1 = 1, A0 = .95 * 1; a first advantage above 1 would be the leak
        advantages, _ = generalized_advantage_estimation(rewards, torch.tensor([0.0, 0.0, junk]), gae_lambda=0.95, valid_mask=mask)
        close(advantages, 0.95, 1.0, 0.0)


def test_R28_the_end_of_a_row_is_not_its_padded_width() -> None:
    # A: three actions, cut by a limit where the value was 1. B: five actions, ended with reward 1. C: a longer row beside them.
    def run(width: int, rows: int) -> Tensor:
        rewards, values = torch.zeros(rows, width), torch.zeros(rows, width)
        lengths = torch.tensor([3, 5, width])[:rows]
        valid = torch.arange(width) < lengths.unsqueeze(-1)
        terminated = torch.zeros(rows, width, dtype=torch.bool)
        values[0, :3], rewards[1, 4], terminated[1, 4] = 1.0, 1.0, True
        bootstrap = torch.tensor([1.0, 0.0, 3.0])[:rows]
        return generalized_advantage_estimation(
            rewards, values, terminated=terminated, valid_mask=valid, bootstrap_value=bootstrap
        )[0]

    assert run(5, 2).tolist() == [[0.0] * 5, [1.0] * 5]
    assert run(8, 3)[:2, :5].tolist() == [[0.0] * 5, [1.0] * 5]


def test_R29_observation_tokens_cost_no_discount() -> None:
    # one discount from action to action: .9; 0.729 would be three
    advantages, _ = generalized_advantage_estimation(
        torch.tensor([0.0, 7.0, 7.0, 1.0]), torch.tensor([0.0, 5.0, 5.0, 0.0]), gamma=0.9, valid_mask=flags(1, 0, 0, 1)
    )
    close(advantages, 0.9, 0.0, 0.0, 1.0)


def test_R29_a_reward_after_the_last_observation_belongs_to_the_last_action() -> None:
    # one entry per action: the reward that arrives after the observation is that of the action, and γ = 0 cannot discount it away
    advantages, _ = skip_observation_generalized_advantage_estimation(
        torch.tensor([0.0, 1.0]), torch.zeros(2), torch.zeros(2), gamma=0.0, terminated=flags(0, 1)
    )
    assert advantages.tolist() == [0.0, 1.0]


def test_two_packed_episodes_do_not_exchange_credit() -> None:
    # first: A1 = 2 − .25 = 1.75, A0 = 1 + .9 * .25 − .5 + .72 * 1.75 = 1.985
    # second, cut before a state of value .5: A1 = 1 + .45 − .6 = .85, A0 = .9 * .6 − .3 + .72 * .85 = .852
    packed: dict[str, Any] = {
        "gamma": 0.9,
        "gae_lambda": 0.8,
        "terminated": flags(0, 1, 0, 0),
        "episode_ids": torch.tensor([0, 0, 1, 1]),
    }
    rewards, values = floats(1, 2, 0, 1), floats(0.5, 0.25, 0.3, 0.6)
    advantages, _ = generalized_advantage_estimation(rewards, values, bootstrap_value=floats(0.0, 0.5), **packed)
    close(advantages, 1.985, 1.75, 0.852, 0.85)


def test_a_packed_episode_ends_where_the_id_changes() -> None:
    # neither is terminal: A = r + bootstrap of its own id, with V = 0 and λ = γ = 1; ids need not be sorted
    rewards, values, ids = torch.tensor([1.0, 2.0, NAN, 4.0]), torch.zeros(4), torch.tensor([1, 1, 77, 0])
    shared: dict[str, Any] = {"valid_mask": flags(1, 1, 0, 1), "episode_ids": ids}
    advantages, _ = generalized_advantage_estimation(rewards, values, bootstrap_value=torch.tensor([16.0, 8.0]), **shared)
    assert advantages.tolist() == [11.0, 10.0, 0.0, 20.0]
    # without bootstrap 0 follows each end, and any ids will do
    advantages, _ = generalized_advantage_estimation(rewards, values, valid_mask=flags(1, 1, 0, 1), episode_ids=ids - 1000)
    assert advantages.tolist() == [3.0, 2.0, 0.0, 4.0]


def test_packed_bootstrap_tables_per_row_and_for_the_batch() -> None:
    rewards, values = torch.zeros(2, 3), torch.zeros(2, 3)
    per_row, _ = generalized_advantage_estimation(
        rewards, values, episode_ids=torch.tensor([[0, 0, 1], [0, 1, 1]]), bootstrap_value=torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    )
    whole, _ = generalized_advantage_estimation(
        rewards, values, episode_ids=torch.tensor([[0, 0, 1], [2, 3, 3]]), bootstrap_value=torch.tensor([1.0, 2.0, 3.0, 4.0])
    )
    number, _ = generalized_advantage_estimation(
        rewards, values, episode_ids=torch.tensor([[0, 0, 1], [0, 1, 1]]), bootstrap_value=1
    )
    assert per_row.tolist() == whole.tolist() == [[1.0, 1.0, 2.0], [3.0, 4.0, 4.0]]
    assert number.tolist() == [[1.0] * 3] * 2


def test_lambda_may_differ_by_row_and_by_step() -> None:
    rewards, values = torch.ones(2, 3), torch.zeros(2, 3)
    for lam in (torch.tensor([0.0, 0.5]), torch.tensor([[0.0], [0.5]]), torch.tensor([[0.0] * 3, [0.5, 0.5, NAN]])):
        # δ = 1 everywhere; the last λ weighs nothing and is not read
        advantages, _ = generalized_advantage_estimation(rewards, values, gae_lambda=lam)
        assert advantages.tolist() == [[1.0, 1.0, 1.0], [1.75, 1.5, 1.0]]
    per_step, _ = generalized_advantage_estimation(torch.ones(3), torch.zeros(3), gae_lambda=torch.tensor([0.5, 0.25, 0.0]))
    assert per_step.tolist() == [1.625, 1.25, 1.0]  # 1 + .5 * (1 + .25 * 1)


def test_a_critic_takes_its_targets_from_its_own_lambda() -> None:
    rewards, values, done = floats(0, 0, 1), floats(0.3, 0.4, 0.5), flags(0, 0, 1)
    advantages, mixed = generalized_advantage_estimation(rewards, values, gae_lambda=0.9, terminated=done)
    _, targets = generalized_advantage_estimation(rewards, values, gae_lambda=1.0, terminated=done)
    close(advantages, 0.595, 0.55, 0.5)
    close(targets, 1.0, 1.0, 1.0)
    close(mixed, 0.895, 0.95, 1.0)


def test_zero_values_leave_the_discounted_outcome() -> None:
    # A_t = (γλ)^(distance to the end) * 1 with γλ = .72
    advantages, _ = generalized_advantage_estimation(
        floats(0, 0, 0, 0, 1), floats(0, 0, 0, 0, 0), gamma=0.9, gae_lambda=0.8, terminated=flags(0, 0, 0, 0, 1)
    )
    close(advantages, *(0.72**k for k in (4, 3, 2, 1, 0)))


# --- over semantic actions --------------------------------------------------------------------------------------------------------

ACTIONS = (floats(0.0, 0.1, 1.0), floats(0.2, 0.5, 0.8), floats(0.4, 0.9, 7.0))


def test_skip_observation_true_terminal_removes_the_bootstrap() -> None:
    # δ = .9 * .4 − .2, .1 + .9 * .9 − .5, 1 − .8 = .16, .41, .2; A1 = .41 + .72 * .2, A0 = .16 + .72 * .554
    advantages, targets = skip_observation_generalized_advantage_estimation(
        *ACTIONS, gamma=0.9, gae_lambda=0.8, terminated=flags(0, 0, 1)
    )
    close(advantages, 0.55888, 0.554, 0.2)
    close(targets, 0.75888, 1.054, 1.0)
    # nothing is read after a terminal action
    nexts = floats(0.4, 0.9, NAN)
    same, _ = skip_observation_generalized_advantage_estimation(
        *ACTIONS[:2], nexts, gamma=0.9, gae_lambda=0.8, terminated=flags(0, 0, 1)
    )
    assert same.equal(advantages)


def test_skip_observation_time_limit_keeps_the_bootstrap() -> None:
    # δ2 = 1 + .9 * 7 − .8 = 6.5
    advantages, _ = skip_observation_generalized_advantage_estimation(*ACTIONS, gamma=0.9, gae_lambda=0.8)
    close(advantages, 3.8248, 5.09, 6.5)


def test_skip_observation_lambda_zero_is_the_one_step_error() -> None:
    advantages, _ = skip_observation_generalized_advantage_estimation(
        *ACTIONS, gamma=0.9, gae_lambda=0.0, terminated=flags(0, 0, 1)
    )
    close(advantages, 0.16, 0.41, 0.2)


def test_skip_observation_padding_is_absent_and_no_terminal() -> None:
    holes = flags(1, 0, 1, 1, 0)
    padded = [floats(x[0], NAN, x[1], x[2], INF) for x in (action.tolist() for action in ACTIONS)]
    dense = skip_observation_generalized_advantage_estimation(*ACTIONS, gamma=0.9, gae_lambda=0.8)
    sparse = skip_observation_generalized_advantage_estimation(
        *padded, gamma=0.9, gae_lambda=0.8, valid_mask=holes, terminated=flags(0, 1, 0, 0, 1)
    )
    for with_holes, without in zip(sparse, dense, strict=True):
        assert with_holes[holes].equal(without)
        assert with_holes[~holes].eq(0).all()


def test_skip_observation_equals_token_gae_where_the_two_values_coincide() -> None:
    rewards, values = floats(0.0, 0.1, 1.0), floats(0.2, 0.5, 0.8)
    nexts = floats(0.5, 0.8, 3.0)  # the next action's value, and after the last one the bootstrap
    by_action = skip_observation_generalized_advantage_estimation(rewards, values, nexts, gamma=0.9, gae_lambda=0.8)
    by_step = generalized_advantage_estimation(rewards, values, gamma=0.9, gae_lambda=0.8, bootstrap_value=nexts[-1])
    for a, b in zip(by_action, by_step, strict=True):
        torch.testing.assert_close(a, b)


# --- groups -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("group", [[0.35] * 8, [0.3] * 6, [0.1] * 3, [1 / 3] * 7, [100.1] * 16, [0.9] * 8, [0.0] * 4, [-1e4] * 5])
@pytest.mark.parametrize("eps", [1e-8, 0.0])
def test_R18_uniform_groups_are_exactly_zero(dtype: torch.dtype, group: list[float], eps: float) -> None:
    rewards = torch.tensor(group, dtype=dtype)
    assert group_standardized_advantages(rewards, eps=eps).eq(0).all()
    assert leave_one_out_advantages(rewards).eq(0).all()
    # beside a group with a signal, and along another dimension
    mixed = torch.stack([rewards, torch.arange(len(group)).to(dtype)], dim=-1)
    assert group_standardized_advantages(mixed, dim=0, eps=eps)[:, 0].eq(0).all()
    assert leave_one_out_advantages(mixed, dim=0)[:, 0].eq(0).all()


def test_R18_a_lone_outlier_stays_of_order_one() -> None:
    # seven at distance −d/8 and one at 7d/8 with σ = d √7/8: −1/√7 and √7
    advantages = group_standardized_advantages(torch.tensor([0.35] * 7 + [0.95]))
    close(advantages, *[-1 / math.sqrt(7)] * 7, math.sqrt(7))
    close(leave_one_out_advantages(torch.tensor([1.0, 0.0, 0.0, 0.0])), 1.0, -1 / 3, -1 / 3, -1 / 3)


def test_R17_a_group_of_one() -> None:
    assert group_standardized_advantages(torch.tensor([1.0])).tolist() == [0.0]
    assert group_standardized_advantages(torch.tensor([[0.7], [-3.0]])).tolist() == [[0.0], [0.0]]
    with pytest.raises(ValueError, match="group_size"):
        leave_one_out_advantages(torch.tensor([1.0]))
    # one group of one does not touch the group of four beside it when each is given on its own
    assert group_standardized_advantages(torch.tensor([1.0, 0.0, 0.0, 1.0])).tolist() == [1.0, -1.0, -1.0, 1.0]


def test_R19_the_standard_deviation_is_that_of_the_population() -> None:
    # mean 2.5, σ = √1.25; the sample version would be smaller by √(3/4)
    close(group_standardized_advantages(floats(1, 2, 3, 4)), -1.3416407865, -0.4472135955, 0.4472135955, 1.3416407865)
    close(group_standardized_advantages(floats(0, 1)), -1.0, 1.0)
    sample = floats(1, 2, 3, 4)
    sample = (sample - sample.mean()) / sample.std()
    torch.testing.assert_close(group_standardized_advantages(floats(1, 2, 3, 4)) * math.sqrt(3 / 4), sample)


def test_standardized_groups_by_hand() -> None:
    # mean .2, σ = √(.2 * .8) = .4: (1 − .2)/.4 = 2 and −.2/.4 = −.5
    close(group_standardized_advantages(floats(1, 0, 0, 0, 0), eps=0.0), 2.0, -0.5, -0.5, -0.5, -0.5)
    # eps outside the root: .5 / (.5 + 1e-6)
    close(
        group_standardized_advantages(floats(1, 0, 0, 1), eps=1e-6),
        0.999998000004,
        -0.999998000004,
        -0.999998000004,
        0.999998000004,
    )
    # a spread of 2^-20: 2^-21 / (2^-21 + 1e-6) = .32288; eps inside the root would give .00477
    close(group_standardized_advantages(floats(1, 1 + 2**-20), eps=1e-6), -0.32287727563903873, 0.32287727563903873)


def test_standardized_groups_ignore_shift_and_scale_and_leave_one_out_only_shift() -> None:
    rewards = floats(1.0, 2.0, 4.0)
    moved = rewards * 10 - 3
    torch.testing.assert_close(group_standardized_advantages(moved, eps=0.0), group_standardized_advantages(rewards, eps=0.0))
    torch.testing.assert_close(leave_one_out_advantages(rewards - 3), leave_one_out_advantages(rewards))
    torch.testing.assert_close(leave_one_out_advantages(moved), 10 * leave_one_out_advantages(rewards))


@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1e10, 1e30])
def test_standardized_groups_survive_squares_that_do_not_fit(scale: float) -> None:
    # in float32 the square of 1e-30 is 0 and that of 1e30 is infinite
    close(group_standardized_advantages(torch.tensor([1.0, 0.0, 0.0, 1.0]) * scale, eps=0.0), 1.0, -1.0, -1.0, 1.0)


def test_leave_one_out_by_hand() -> None:
    # 0 − 3/2, 1 − 2/2, 2 − 1/2
    assert leave_one_out_advantages(torch.tensor([0.0, 1.0, 2.0])).tolist() == [-1.5, 0.0, 1.5]
    # the others of 3: (−1 + .5 + 2.5)/3 = 2/3
    rewards = floats(3.0, -1.0, 0.5, 2.5)
    close(leave_one_out_advantages(rewards), 7 / 3, -3.0, -1.0, 5 / 3)
    torch.testing.assert_close(leave_one_out_advantages(rewards), (rewards - rewards.mean()) * 4 / 3)


def test_leave_one_out_gradient_is_unbiased_and_the_group_mean_shrinks_it() -> None:
    # three arms, groups of three: the expectation over all 27 groups, exactly
    probabilities = floats(0.2, -0.1, 0.5).softmax(0)
    arms = floats(1.0, 0.0, 2.0)
    scores = torch.eye(3, dtype=torch.float64) - probabilities  # d log π(a) / d logits, one row per arm
    exact = (probabilities * arms) @ scores
    unbiased, shrunk = torch.zeros_like(exact), torch.zeros_like(exact)
    for group in product(range(3), repeat=3):
        chosen = torch.tensor(group)
        weight = probabilities[chosen].prod()
        unbiased += weight * (leave_one_out_advantages(arms[chosen]) @ scores[chosen]) / 3
        shrunk += weight * ((arms[chosen] - arms[chosen].mean()) @ scores[chosen]) / 3
    close(exact, -0.06375863149182762, -0.2869280351407268, 0.35068666663255443)
    torch.testing.assert_close(unbiased, exact)
    torch.testing.assert_close(shrunk, exact * 2 / 3)


# --- turns ------------------------------------------------------------------------------------------------------------------------


def test_turn_advantages_reach_the_tokens_of_their_turn() -> None:
    # one value per turn: δ1 = 1 − .6 = .4, δ0 = .2 + .6 − .5 = .3, A0 = .3 + .95 * .4 = .68; an observation stands between them
    by_turn, _ = generalized_advantage_estimation(floats(0.2, 1.0), floats(0.5, 0.6), gae_lambda=0.95, terminated=flags(0, 1))
    tokens = broadcast_turn_advantages(by_turn, torch.tensor([0, 0, 0, 1, 1, 1]), flags(1, 1, 0, 1, 1, 1))
    close(tokens, 0.68, 0.68, 0.0, 0.4, 0.4, 0.4)


def test_masked_turn_ids_are_not_read_and_unmasked_ones_must_exist() -> None:
    turns = torch.tensor([[0.5, -2.0], [1.0, NAN]])
    ids = torch.tensor([[-1, 1, 99], [0, 0, -(2**40)]])
    tokens = broadcast_turn_advantages(turns, ids, torch.tensor([[0, 1, 0], [1, 1, 0]]))
    assert tokens.tolist() == [[0.0, -2.0, 0.0], [1.0, 1.0, 0.0]]
    for bad in (2, -1):
        with pytest.raises(ValueError, match=rf"turn_ids must be in \[0, 2\).*got the value {bad} at \[0, 1\]; an invalid turn"):
            broadcast_turn_advantages(turns, torch.full((2, 3), bad), torch.tensor([[0, 1, 0], [0, 0, 0]]))


# --- what all of them promise -----------------------------------------------------------------------------------------------------


def every_estimator(rewards: Tensor) -> list[Tensor]:
    values = rewards / 2
    ids = torch.zeros(rewards.shape, dtype=torch.long)
    return [
        discounted_returns(rewards, bootstrap_value=values[..., 0]),
        *generalized_advantage_estimation(rewards, values, bootstrap_value=values[..., 0], gae_lambda=values.detach().sigmoid()),
        *skip_observation_generalized_advantage_estimation(rewards, values, values),
        leave_one_out_advantages(rewards),
        group_standardized_advantages(rewards),
        broadcast_turn_advantages(rewards, ids, torch.ones_like(ids)),
    ]


@pytest.mark.parametrize("dtype", FLOATS)
def test_half_precision_comes_back_in_float32_and_float64_stays(dtype: torch.dtype) -> None:
    exact = every_estimator(torch.tensor([[1.0, 0.5, 0.25], [0.0, 2.0, 4.0]], dtype=torch.float64))
    for result, reference in zip(every_estimator(reference_input().to(dtype)), exact, strict=True):
        assert result.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        # these inputs are exact in every dtype but λ, a sigmoid, is not
        torch.testing.assert_close(result.double(), reference, rtol=1e-2, atol=1e-2)


def reference_input() -> Tensor:
    return torch.tensor([[1.0, 0.5, 0.25], [0.0, 2.0, 4.0]])


def test_half_precision_is_summed_in_float32() -> None:
    # 300 times 1: bfloat16 would stop counting at 256
    assert discounted_returns(torch.ones(300, dtype=torch.bfloat16))[0].item() == 300.0


def test_evidence_carries_no_gradient() -> None:
    for result in every_estimator(reference_input().requires_grad_()):
        assert not result.requires_grad
        assert result.grad_fn is None


def test_inputs_are_not_changed() -> None:
    rewards = reference_input()
    before = rewards.clone()
    every_estimator(rewards)
    assert rewards.equal(before)


def test_any_leading_shape_is_batch() -> None:
    rewards = torch.arange(24.0).view(2, 3, 4).sin()
    for batched, flat in zip(every_estimator(rewards), every_estimator(rewards.view(6, 4)), strict=True):
        assert batched.view(6, 4).equal(flat)
    for batched, row in zip(every_estimator(rewards), every_estimator(rewards[1, 2]), strict=True):
        assert batched[1, 2].equal(row)
    for batched in every_estimator(rewards[:0]):
        assert batched.shape == (0, 3, 4)


def test_masks_may_be_booleans_or_exact_numbers() -> None:
    rewards, values = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.5, 0.5])
    results = [
        generalized_advantage_estimation(
            rewards,
            values,
            gamma=0.5,
            valid_mask=torch.tensor([1, 0, 1], dtype=dtype),
            terminated=torch.tensor([0, 0, 1], dtype=dtype),
        )[0].tolist()
        for dtype in (torch.bool, torch.uint8, torch.int64, torch.float32, torch.bfloat16)
    ]
    assert all(result == results[0] for result in results)


def test_the_door_lists_all_it_exports() -> None:
    exported = {name for name, value in vars(door).items() if callable(value)}
    assert exported == set(door.__all__)
    for name in door.__all__:
        assert name in (door.__doc__ or "")
        assert getattr(door, name).__doc__
