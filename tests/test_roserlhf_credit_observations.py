"""Actions, observations and padding: time passes on actions, and what stands on an observation moves or is refused."""

from __future__ import annotations

from typing import Any

import oracles_credit as oracle
import pytest
import torch
from torch import Tensor

from rosellm.roserlhf import advantages as fast
from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import NonFiniteError, RangeError

NAN = float("nan")
gae = fast.generalized_advantage_estimation


def floats(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def flags(*bits: int) -> Tensor:
    return torch.tensor(bits, dtype=torch.bool)


def close(actual: Tensor, expected: Any) -> None:
    torch.testing.assert_close(actual, torch.as_tensor(expected, dtype=actual.dtype), rtol=0, atol=1e-12)


def test_R27_critic_values_at_masked_positions_do_not_leak() -> None:
    # δ = [0 + 0 - 0, 1 - 0]; A_0 = 0.95 * 1
    for junk in (100.0, NAN, float("inf")):
        masks: list[dict[str, Any]] = [{"valid_mask": flags(1, 1, 0)}, {"action_mask": flags(1, 1, 0)}]
        for mask in masks:
            advantages, targets = gae(floats(0, 1, 0), floats(0, 0, junk), gae_lambda=0.95, **mask)
            close(advantages, [0.95, 1.0, 0.0])
            close(targets, [0.95, 1.0, 0.0])


def test_R28_truncation_is_a_flag_and_not_a_width() -> None:
    """The longest row ended normally, the short one was cut; a longer row beside them changes neither."""
    for width in (5, 7):
        valid = torch.arange(width) < torch.tensor([[3], [5]])
        rewards, values = torch.zeros(2, width), torch.where(valid, torch.tensor([[1.0], [0.0]]), NAN)
        rewards[1, 4] = 1.0
        terminated = torch.zeros(2, width, dtype=torch.bool)
        terminated[1, 4] = True
        advantages, _ = gae(rewards, values, terminated=terminated, valid_mask=valid, bootstrap_value=torch.tensor([1.0, 9.0]))
        assert advantages[:, :5].tolist() == [[0.0] * 5, [1.0] * 5]


def test_R29_observation_tokens_are_not_time_steps() -> None:
    # one discount between the two actions: 0.9 * 1, not 0.9^3 = 0.729
    advantages, _ = gae(floats(0, 7, 7, 1), floats(0, 5, 5, 0), gamma=0.9, valid_mask=flags(1, 0, 0, 1))
    close(advantages, [0.9, 0, 0, 1.0])
    # an episode reward behind the last observation belongs to the last action, even at gamma 0
    advantages, _ = gae(floats(0, 0, 1), floats(0, 0, 5), gamma=0.0, action_mask=flags(1, 1, 0), terminated=flags(0, 0, 1))
    close(advantages, [0, 1, 0])


def test_R35_a_kl_term_on_tool_tokens_reaches_no_action() -> None:
    # r_t = -0.1 * KL_t on actions, + 1 at the end; the tool's KL of 10 is masked out before it becomes a reward
    mask, divergence = flags(1, 0, 1), floats(0, 10, 0)
    rewards = torch.where(mask, -0.1 * divergence, 0.0) + floats(0, 0, 1)
    close(fast.discounted_returns(rewards, action_mask=mask), [1, 0, 1])
    close(fast.discounted_returns(-0.1 * divergence + floats(0, 0, 1), valid_mask=mask), [1, 0, 1])


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
def test_observation_tokens_between_turns_change_no_action(gamma: float, lam: float) -> None:
    rewards, values = floats(0.1, -0.2, 0.3, 1.0), floats(0.4, 0.5, 0.6, 0.7)
    alone, _ = gae(rewards, values, gamma=gamma, gae_lambda=lam)
    acts = flags(0, 1, 1, 0, 0, 0, 1, 0, 1, 0)
    long_rewards, long_values = torch.zeros(10, dtype=torch.float64), torch.full((10,), 50.0, dtype=torch.float64)
    long_rewards[acts], long_values[acts] = rewards, values
    among, _ = gae(long_rewards, long_values, gamma=gamma, gae_lambda=lam, action_mask=acts)
    close(among[acts], alone)
    assert among[~acts].eq(0).all()


def test_token_gae_bridges_an_observation_as_the_paper_does() -> None:
    # r = [0, 0, ., ., 0, 1], V = [.1, .2, ., ., .4, .5], γ = 1, λ = 0.95, terminal end: δ = [.1, .2, ., ., .1, .5]
    rewards, values = floats(0, 0, 9, 9, 0, 1), floats(0.1, 0.2, 8, 8, 0.4, 0.5)
    acts = flags(1, 1, 0, 0, 1, 1)
    advantages, _ = gae(rewards * acts, values, gae_lambda=0.95, action_mask=acts, terminated=flags(0, 0, 0, 0, 0, 1))
    a5 = 1 - 0.5
    a4 = (0.5 - 0.4) + 0.95 * a5
    a1 = (0.4 - 0.2) + 0.95 * a4
    a0 = (0.2 - 0.1) + 0.95 * a1
    close(advantages, [a0, a1, 0, 0, a4, a5])
    torch.testing.assert_close(advantages, floats(0.808938, 0.74625, 0, 0, 0.575, 0.5), rtol=0, atol=1e-6)
    # at the boundary it is the semantic step: end of the action, first token of the next
    semantic, _ = fast.skip_observation_generalized_advantage_estimation(
        floats(0, 1), floats(0.2, 0.5), floats(0.4, 0.0), gae_lambda=0.0, terminated=flags(0, 1)
    )
    one_step, _ = gae(rewards * acts, values, gae_lambda=0.0, action_mask=acts, terminated=flags(0, 0, 0, 0, 0, 1))
    close(one_step[[1, 5]], semantic)


def test_rewards_of_several_observations_add_up_on_the_action_before() -> None:
    rewards, acts = floats(0, 1, 2, 4, 0, 8), flags(1, 1, 0, 0, 1, 0)
    close(fast.discounted_returns(rewards, gamma=0.0, action_mask=acts), [0, 7, 0, 0, 8, 0])
    with pytest.raises(RangeError, match=r"rewards must stand on action tokens, got the value 2\.0 at \[2\]; observation_rewards"):
        fast.discounted_returns(rewards, action_mask=acts, observation_rewards="error")


def test_a_terminal_flag_on_an_observation_ends_the_action_before() -> None:
    acts, ends = flags(1, 0, 0, 1), flags(0, 0, 1, 0)
    close(fast.discounted_returns(floats(1, 2, 0, 4), action_mask=acts, terminated=ends), [3, 0, 0, 4])
    with pytest.raises(RangeError, match=r"terminated must stand on action tokens, got the value True at \[2\]"):
        fast.discounted_returns(floats(1, 0, 0, 4), action_mask=acts, terminated=ends, observation_rewards="error")


@pytest.mark.parametrize("handling", ["move", "error"])
def test_before_the_first_action_of_its_episode_a_reward_is_an_error(handling: Any) -> None:
    message = "before the first action of its episode, got the value 1" if handling == "move" else "stand on action tokens"
    with pytest.raises(RangeError, match=message):
        fast.discounted_returns(floats(1, 0, 0), action_mask=flags(0, 1, 1), observation_rewards=handling)
    with pytest.raises(RangeError, match="terminated must " if handling == "error" else "terminated must not stand before"):
        fast.discounted_returns(
            floats(0, 0, 0), action_mask=flags(0, 1, 1), terminated=flags(1, 0, 0), observation_rewards=handling
        )
    ids = torch.tensor([4, 4, 2, 2])
    with pytest.raises(RangeError, match=message):
        gae(floats(0, 0, 1, 0), floats(0, 0, 0, 0), action_mask=flags(1, 1, 0, 1), episode_ids=ids, observation_rewards=handling)
    with pytest.raises(RangeError, match=message):
        fast.discounted_returns(floats(0, 1), action_mask=flags(0, 0), observation_rewards=handling)


def test_a_trailing_reward_belongs_to_the_terminal_action_unless_the_row_acts_again() -> None:
    ends = flags(0, 1, 0, 0)
    close(fast.discounted_returns(floats(0, 1, 2, 4), action_mask=flags(1, 1, 0, 0), terminated=ends), [7, 7, 0, 0])
    with pytest.raises(RangeError, match=r"between a terminal step and the next action, got the value 2\.0 at .*episode_ids"):
        fast.discounted_returns(floats(0, 1, 2, 4), action_mask=flags(1, 1, 0, 1), terminated=ends)
    ids = torch.tensor([0, 0, 0, 1])
    named = fast.discounted_returns(floats(0, 1, 2, 4), action_mask=flags(1, 1, 0, 1), terminated=ends, episode_ids=ids)
    close(named, [3, 3, 0, 4])


def test_padding_is_ignored_whatever_stands_there() -> None:
    rewards, values = floats(NAN, 0, 1, NAN), floats(NAN, 0.5, NAN, NAN)
    advantages, _ = gae(
        rewards,
        values,
        action_mask=torch.tensor([NAN, 1, 0, 3], dtype=torch.float64),
        valid_mask=flags(0, 1, 1, 0),
        terminated=torch.tensor([1, 0, 1, 7.0], dtype=torch.float64),
    )
    close(advantages, [0, 0.5, 0, 0])


def test_a_reward_that_is_not_a_number_is_an_error_on_an_observation_too() -> None:
    with pytest.raises(NonFiniteError, match=r"rewards must be finite.*nan at \[1\]"):
        gae(floats(0, NAN), floats(0, 0), action_mask=flags(1, 0))


def test_what_could_not_be_moved_stays_visible_without_checks() -> None:
    with checks.without_value_checks():
        returns = fast.discounted_returns(floats(1, 0, 0), gamma=0.0, action_mask=flags(0, 1, 1))
    assert returns[1].isnan()
    assert returns[2] == 0


def test_random_rows_equal_moving_by_hand() -> None:
    torch.manual_seed(0)
    for _ in range(40):
        steps = 30
        valid, acts = torch.rand(steps) < 0.8, torch.rand(steps) < 0.5
        changes = (torch.rand(steps) < 0.15).long().cumsum(0)
        rewards = torch.where(torch.rand(steps) < 0.5, torch.randn(steps), 0.0).double()
        ends = torch.zeros(steps, dtype=torch.bool)
        for episode in changes.unique():
            places = ((changes == episode) & valid).nonzero().flatten().tolist()
            while places and not acts[places[0]]:
                rewards[places.pop(0)] = 0.0
            if places and torch.rand(()) < 0.5:
                ends[places[-1]] = True
        moved, moved_ends = oracle.moved(rewards.tolist(), ends.tolist(), valid.tolist(), acts.tolist(), changes.tolist())
        values = torch.randn(steps, dtype=torch.float64)
        options: dict[str, Any] = {"gamma": 0.9, "episode_ids": changes, "bootstrap_value": 0.5}
        there = gae(rewards, values, gae_lambda=0.8, terminated=ends, valid_mask=valid, action_mask=acts, **options)
        here = gae(
            torch.tensor(moved, dtype=torch.float64),
            values,
            gae_lambda=0.8,
            terminated=torch.tensor(moved_ends),
            valid_mask=valid & acts,
            **options,
        )
        for one, other in zip(there, here, strict=True):
            close(one, other)


@pytest.mark.parametrize("call", ["discounted_returns", "reward_to_go", "n_step", "v_trace", "shaping"])
def test_every_function_reads_actions_alike(call: str) -> None:
    """Leaving observations and padding out by hand changes nothing."""
    torch.manual_seed(1)
    acts, valid = flags(0, 1, 1, 0, 1, 0, 1), flags(1, 1, 1, 1, 1, 1, 0)
    here = acts & valid
    rewards, values = torch.randn(7).double(), torch.randn(7).double()
    rewards[~here] = 0.0
    terminated = flags(0, 0, 1, 0, 0, 0, 0)
    functions: dict[str, Any] = {
        "discounted_returns": lambda r, v, **k: fast.discounted_returns(r, bootstrap_value=0.3, **k),
        "reward_to_go": lambda r, v, **k: fast.reward_to_go(r, discount="from_start", bootstrap_value=0.3, **k),
        "n_step": lambda r, v, **k: fast.n_step_advantages(r, v, n=2, bootstrap_value=0.3, **k)[0],
        "v_trace": lambda r, v, **k: fast.v_trace(v, r, v, bootstrap_value=0.3, **k)[1],
        "shaping": lambda r, v, **k: fast.potential_shaping(r, v, bootstrap_potential=0.3, **k),
    }
    rewards_there, values_there = rewards.clone(), values.clone()
    rewards_there[~valid] = NAN
    values_there[~here] = NAN
    there = functions[call](rewards_there, values_there, gamma=0.9, action_mask=acts, valid_mask=valid, terminated=terminated)
    alone = functions[call](rewards[here], values[here], gamma=0.9, terminated=terminated[here])
    close(there[here], alone)
    assert there[~here].eq(0).all()
