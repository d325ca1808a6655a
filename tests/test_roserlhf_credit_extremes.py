"""Numbers at the ends of their dtype, empty and enormous inputs, and arguments of a kind that torch only stores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rosellm.roserlhf.advantages import (
    LagrangeMultiplier,
    RunningMeanBaseline,
    cross_segment_advantages,
    discounted_returns,
    exact_state_key,
    explained_variance,
    filter_reward_conflicts,
    gd2po_advantages,
    gdpo_advantages,
    generalized_advantage_estimation,
    group_centered_advantages,
    group_standardized_advantages,
    grouped_advantages,
    leave_one_out_advantages,
    length_adaptive_lambda,
    n_step_advantages,
    overlong_penalty,
    similarity_clusters,
    skip_observation_generalized_advantage_estimation,
    text_similarity,
    tree_budget,
    turn_generalized_advantage_estimation,
    turn_values,
    v_trace,
)
from rosellm.roserlhf.errors import (
    CheckpointError,
    ConfigError,
    DeviceError,
    DtypeError,
    NonFiniteError,
    RangeError,
    RoseError,
    ShapeError,
)
from rosellm.roserlhf.masked import Partial

ROW, TWO, FOUR = torch.ones(3), torch.ones(2, 3), torch.ones(4, 3)
IDS, TURNS = torch.tensor([0, 0, 1, 1]), torch.zeros(2, 3, dtype=torch.long)
Call = Callable[[], Any]


def test_a_group_of_large_rewards_does_not_overflow() -> None:
    rewards = torch.tensor([1e38, -1e38] * 4)  # the sum of their distances from the lowest is 8e38
    torch.testing.assert_close(group_centered_advantages(rewards), rewards)
    torch.testing.assert_close(leave_one_out_advantages(rewards), rewards * (8 / 7))
    assert group_standardized_advantages(torch.tensor([3e38, -3e38])).tolist() == [1.0, -1.0]


def test_an_overflow_behind_the_end_of_an_episode_is_not_seen_n_steps_ahead() -> None:
    ends = torch.tensor([True, False, True])
    found, _ = n_step_advantages(torch.tensor([1.0, 3e38, 3e38]), torch.zeros(3), n=3, terminated=ends)
    assert found[0] == 1.0
    assert found[1] == math.inf


def test_a_turn_of_a_million_tokens_has_the_value_of_its_tokens() -> None:
    count = 10**6
    found = turn_values(torch.full((count,), 0.1), torch.zeros(count, dtype=torch.long), torch.ones(count))
    torch.testing.assert_close(found, torch.tensor([0.1]), rtol=1e-7, atol=0.0)


def test_the_factor_of_earlier_segments_is_exact_over_many_tokens() -> None:
    acts = torch.tensor([[True] + [False] * 19_999, [True] * 20_000])
    outcome, values = torch.ones(2), torch.zeros(2, 20_000)
    found, _ = cross_segment_advantages(outcome, values, torch.zeros(2, dtype=torch.long), acts, gae_lambda=0.9999)
    assert found[0, 0].item() == pytest.approx(0.9999**20_000, rel=1e-6)


def test_rows_without_tokens_have_no_turn_value_and_nothing_to_explain() -> None:
    nothing = torch.ones(2, 0)
    for reading in ("average", "last_token"):
        assert turn_values(nothing, nothing.long(), nothing, turns=2, reading=reading).isnan().all()
    assert explained_variance(torch.ones(0), torch.ones(0), torch.ones(0)).isnan()


def test_a_returned_tensor_is_not_the_one_that_was_given() -> None:
    given = torch.ones(2, 2, dtype=torch.float64, requires_grad=True)
    found = filter_reward_conflicts(given, [0, 0]).per_reward_advantages
    assert not found.requires_grad
    assert found.data_ptr() != given.data_ptr()


def test_semantic_actions_of_two_packed_episodes_do_not_meet() -> None:
    rewards, ends, nexts = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.5, 1.0]), torch.tensor([0.5, 3.0, 7.0])
    packed = skip_observation_generalized_advantage_estimation(
        rewards, ends, nexts, gae_lambda=0.5, episode_ids=torch.tensor([0, 0, 1])
    )
    for one, first, second in zip(
        packed,
        skip_observation_generalized_advantage_estimation(rewards[:2], ends[:2], nexts[:2], gae_lambda=0.5),
        skip_observation_generalized_advantage_estimation(rewards[2:], ends[2:], nexts[2:], gae_lambda=0.5),
        strict=True,
    ):
        assert torch.equal(one, torch.cat([first, second]))


def test_penalties_are_float32_whatever_the_default_dtype_is() -> None:
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        assert overlong_penalty(torch.tensor([19]), max_length=20, cache_length=4).dtype == torch.float32
    finally:
        torch.set_default_dtype(before)


def test_a_running_mean_of_the_largest_numbers_is_their_mean() -> None:
    rewards = torch.full((4,), 1e308, dtype=torch.float64)
    assert RunningMeanBaseline().advantages(rewards, ["a"] * 4).tolist() == [1e308, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("rewards", [[10**400], "12", [True], ["3"], 3])
def test_what_was_no_state_of_a_running_mean_is_refused(rewards: Any) -> None:
    with pytest.raises(CheckpointError, match="state must be what state_dict returned"):
        RunningMeanBaseline().load_state_dict({"rewards": [["a", rewards]]})


def test_a_step_that_leads_nowhere_leaves_the_multiplier_as_it_was() -> None:
    price = LagrangeMultiplier(budget=0.0, learning_rate=1e308, initial=1.0)
    with pytest.raises(RangeError, match="costs must leave the multiplier finite, got inf; take a smaller learning_rate"):
        price.update(torch.tensor([1e30]))
    for count in (-1.0, math.nan, math.inf):
        with pytest.raises(RangeError, match="costs must have a count of at least 0"):
            price.update(Partial(torch.tensor(1.0), torch.tensor(count)))
    with pytest.raises(ConfigError, match="scored_mask must be left out when costs are a Partial"):
        price.update(Partial(torch.tensor(1.0), torch.tensor(1.0)), scored_mask=torch.zeros(1))
    assert price.value == 1.0


def test_parts_of_tensors_are_states() -> None:
    number = torch.tensor([1.0 + 2.0j])
    assert exact_state_key(number.conj()) == exact_state_key(torch.tensor([1.0 - 2.0j]))
    assert exact_state_key(number.conj().imag) == exact_state_key(torch.tensor([-2.0]))
    assert exact_state_key(torch.arange(4.0)[::4]) == exact_state_key(torch.tensor([0.0]))


def in_itself() -> list[Any]:
    state: list[Any] = []
    state.append(state)
    return state


STORED = torch.ones(3, dtype=torch.uint16)
EIGHT_BITS = torch.ones(3, dtype=torch.float8_e4m3fn)
gae, turns = generalized_advantage_estimation, turn_generalized_advantage_estimation
BAD: list[tuple[Call, type[RoseError], str]] = [
    (lambda: cross_segment_advantages([1.0], FOUR, IDS, FOUR, alpha=1.0), DtypeError, "rewards must be a torch.Tensor, got list"),  # type: ignore[arg-type]
    (lambda: cross_segment_advantages(torch.ones(4, device="meta"), FOUR, IDS, FOUR, alpha=1.0), DeviceError, "rewards must be on"),
    (
        lambda: cross_segment_advantages(torch.ones(4), FOUR, IDS.to(torch.uint16), FOUR, alpha=1.0),
        DtypeError,
        r"rollout_ids must have a dtype that torch computes with, got torch.uint16; convert it by .long\(\)",
    ),
    (lambda: gae(ROW, ROW, episode_ids=STORED), DtypeError, "episode_ids must have a dtype that torch computes with"),
    (lambda: gae(ROW, ROW, terminated=STORED), DtypeError, "terminated must have a dtype that torch computes with"),
    (lambda: gae(ROW, ROW, valid_mask=EIGHT_BITS), DtypeError, "valid_mask must have a dtype that torch computes with"),
    (lambda: gae(ROW, ROW, action_mask=STORED), DtypeError, "action_mask must have a dtype that torch computes with"),
    (lambda: length_adaptive_lambda(STORED, alpha=1.0), DtypeError, "lengths must have a dtype that torch computes with"),
    (lambda: gae(EIGHT_BITS, ROW), DtypeError, "rewards must be a floating-point tensor, got torch.float8"),
    (lambda: gae(ROW, EIGHT_BITS), DtypeError, "values must be a floating-point tensor, got torch.float8"),
    (lambda: gae(ROW, ROW, gae_lambda=EIGHT_BITS), DtypeError, "gae_lambda must be a floating-point tensor, got torch.float8"),
    (
        lambda: discounted_returns(ROW, bootstrap_value=1e308),
        RangeError,
        r"bootstrap_value must be a number that torch.float32 holds, got 1e\+308; give rewards in float64",
    ),
    (
        lambda: v_trace(torch.full((3,), 1e30), ROW, ROW, rho_max=1e308),
        NonFiniteError,
        "log_ratios must give finite weights",
    ),
    (
        lambda: length_adaptive_lambda(torch.tensor([3]), alpha=1.0, dtype=torch.int64),
        DtypeError,
        r"dtype must be a floating-point torch\.dtype, got torch\.int64",
    ),
    (lambda: length_adaptive_lambda(torch.tensor([3]), alpha=1.0, dtype="float32"), DtypeError, "dtype must be a floating-point"),  # type: ignore[arg-type]
    (lambda: grouped_advantages(ROW, [0] * 3, group_size=10**59), RangeError, r"group_size must be below 2\*\*63"),
    (lambda: overlong_penalty(torch.tensor([3]), max_length=10**59, cache_length=1), RangeError, "max_length must be below"),
    (lambda: tree_budget(10**200, 1, 1), RangeError, "num_trees must be below"),
    (lambda: turn_values(TWO, TURNS, TWO, turns=10**59), RangeError, "turns must be below"),
    (lambda: turn_values(TWO, TURNS - 1, TWO), RangeError, r"turn_ids must be in \[0, inf\).*got the value -1"),
    (lambda: turn_values(TWO, TURNS, TWO, turns=True), DtypeError, "turns must be a whole number of at least 1, got True"),
    (lambda: turns(None, TWO, TURNS, TWO), DtypeError, "turn_rewards must be a torch.Tensor, got NoneType"),  # type: ignore[arg-type]
    (lambda: turns(TWO, TWO.long(), TURNS, TWO), DtypeError, "turn_values must be a floating-point tensor"),
    (lambda: turns(TWO, ROW, TURNS, TWO), ShapeError, r"turn_values must have the shape of turn_rewards \(2, 3\), got \(3,\)"),
    (lambda: turns(TWO, TWO, TURNS, TWO, turn_mask=ROW), ShapeError, "turn_mask must have the shape of turn_rewards"),
    (lambda: turns(TWO / 0, TWO, TURNS, TWO), NonFiniteError, "turn_rewards must be finite"),
    (lambda: turns(TWO, TWO / 0, TURNS, TWO), NonFiniteError, "turn_values must be finite"),
    (lambda: gdpo_advantages(TWO, [0, 0], weights=np.array(1.0)), DtypeError, "weights must be a sequence"),  # type: ignore[arg-type]
    (lambda: gd2po_advantages(TWO, [0, 0], whiten=np.ones(2)), RangeError, "whiten must be one of"),  # type: ignore[arg-type]
    (lambda: filter_reward_conflicts(TWO, [0, 0], whiten=np.ones(2)), RangeError, "whiten must be one of"),  # type: ignore[arg-type]
    (lambda: text_similarity(np.array("a")), DtypeError, "texts must be a sequence"),  # type: ignore[arg-type]
    (lambda: similarity_clusters(torch.eye(3), 0.5, group_ids=TURNS[0].to("meta")), DeviceError, "group_ids must be on"),
    (lambda: RunningMeanBaseline().advantages(ROW.to("meta"), [0] * 3), DeviceError, "rewards must hold data"),
    (lambda: RunningMeanBaseline().advantages(ROW, TURNS[0].to("meta")), DeviceError, "task_ids must hold data"),
    (lambda: LagrangeMultiplier(0.0, 1.0).update(ROW.to("meta")), DeviceError, "costs must hold data"),
    (lambda: exact_state_key(ROW.to("meta")), DeviceError, "state must hold data, got a tensor on the device meta"),
    (lambda: exact_state_key(in_itself()), DtypeError, "state must not be nested so deeply, or in itself"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_bad_input_is_refused_by_name(call: Call, error: type[RoseError], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_ids_may_be_of_a_dtype_that_torch_only_stores(dtype: torch.dtype) -> None:
    ids: Tensor = torch.tensor([5, 9, 5]).to(dtype)
    assert grouped_advantages(torch.tensor([1.0, 7.0, 3.0]), ids, scale="none").tolist() == [-1.0, 0.0, 1.0]
