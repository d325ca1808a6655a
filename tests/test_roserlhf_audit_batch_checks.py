"""Hand-made batches, small enough to see what is wrong, and the smallest change that makes each of them right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf import group_standardized_advantages, leave_one_out_advantages
from rosellm.roserlhf.audit import Finding, Report, check_batch
from rosellm.roserlhf.audit.batch.derivation import batch_wide, relative_to
from rosellm.roserlhf.audit.batch.device_profile import measure_ids
from rosellm.roserlhf.audit.batch.host_profile import measure_on_host
from rosellm.roserlhf.audit.batch.normalisation import readings


def check(**arguments: Any) -> Report:
    """Call check_batch with lists for tensors."""
    tensors: dict[str, Any] = {
        name: torch.tensor(value) if isinstance(value, list) and name != "group_ids" else value for name, value in arguments.items()
    }
    return check_batch(**tensors)


def found(report: Report, name: str) -> Finding:
    matches = [finding for finding in report.findings if finding.check == name]
    assert len(matches) == 1, str(report)
    return matches[0]


def test_R01_a_mask_sliced_in_the_wrong_space_loses_the_first_token() -> None:
    # tokens p0 p1 p2 r0 r1 in prediction space: p1 p2 r0 r1 are scored, r0 and r1 were sampled
    scored = [[math.nan, math.nan, -0.4, -1.1, math.nan]]
    right = check(action_mask=[[False, False, True, True, False]], old_logprobs=scored)
    wrong = check(action_mask=[[False, False, False, True, True]], old_logprobs=scored)
    assert right.findings == ()
    assert found(wrong, "mask_shifted").evidence["direction"] == "right"
    assert [finding.check for finding in wrong.at_least("warning")] == ["mask_shifted"]


@pytest.mark.parametrize(("by", "direction"), [(1, "right"), (-1, "left")])
def test_a_mask_that_was_rolled_round_the_edge_of_full_rows_is_shifted(by: int, direction: str) -> None:
    sampled = torch.arange(9) > torch.tensor([[3], [5], [4]])  # all three end at the edge
    old = torch.where(sampled, -0.7, 0.0)
    assert check(action_mask=sampled, old_logprobs=old).findings == ()
    finding = found(check(action_mask=sampled.roll(by, 1), old_logprobs=old), "mask_shifted")
    assert (finding.evidence["direction"], finding.evidence["rows"]) == (direction, [0, 1, 2])


@pytest.mark.parametrize(("by", "side"), [(1, "right"), (-1, "left")])
def test_current_log_probabilities_one_position_off_are_named(by: int, side: str) -> None:
    old = -3 * torch.rand(4, 12, generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(12) > 2).expand(4, 12)
    report = check(action_mask=mask, old_logprobs=old, current_logprobs=old.roll(by, 1), lag=0, before_update=True)
    finding = found(report, "ratio_not_one_when_fresh")
    assert finding.evidence["current_logprobs too far"] == side
    assert "one position too far" in finding.cause


def test_R02_padding_with_the_stop_id_is_not_a_dropped_stop_token() -> None:
    # the first reply was cut, the second ended; 2 is both the stop and the padding id
    ids, mask = [[5, 6, 2, 2, 2], [5, 6, 7, 8, 2]], [[True, True, False, False, False], [True] * 5]
    assert check(input_ids=ids, action_mask=mask, stop_ids=[2]).worst == "info"
    dropped = check(
        input_ids=[[5, 2, 9, 6, 2]], action_mask=[[True, False, False, True, False]], stop_ids=[2], valid_mask=[[True] * 5]
    )
    assert found(dropped, "stop_tokens_dropped").severity == "warning"


def test_R04_a_mask_of_advantages_is_named() -> None:
    finding = found(check(action_mask=[[2.0, -1.0, 0.0]]), "mask_values")
    assert finding.severity == "error"
    assert finding.evidence["values"] == [2.0, -1.0]


def test_R11_a_constant_factor_between_log_probabilities_is_a_temperature() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(400, generator=generator)  # two tokens share the mass: log-odds z become z / T exactly
    tempered, plain = torch.nn.functional.logsigmoid(logits / 0.5)[None], torch.nn.functional.logsigmoid(logits)[None]
    report = check(action_mask=[[True] * 400], old_logprobs=tempered, current_logprobs=plain, lag=0, temperature=0.5)
    finding = found(report, "temperature_mismatch")
    assert finding.evidence["T of old_logprobs"] == pytest.approx(0.5, rel=1e-3)
    assert finding.severity == "error"


def test_the_hand_worked_case_of_R11() -> None:
    # logits [0, ln 3], T = 0.5: 9/10 after T, 3/4 without it; log-odds ln 9 = 2 ln 3
    old, current = math.log(0.9), math.log(0.75)
    assert old == pytest.approx(-0.10536, abs=1e-5)
    assert current == pytest.approx(-0.28768, abs=1e-5)
    assert math.log(9) / math.log(3) == pytest.approx(1 / 0.5)


@pytest.mark.parametrize("missing", [math.nan, 0.0])
def test_R13_a_token_without_a_log_probability_is_named_with_its_place(missing: float) -> None:
    report = check(action_mask=[[True] * 3], old_logprobs=[[-0.7, missing, -0.2]], current_logprobs=[[-0.7, -3.0, -0.2]])
    finding = found(report, "logprob_filler" if missing == 0 else "logprob_nonfinite")
    assert finding.severity == "error"
    assert finding.evidence["positions"] == [[0, 1]]


def test_R15_bfloat16_evidence_is_named_with_its_bound() -> None:
    old = torch.linspace(-12, -0.01, 64)[None].bfloat16()
    finding = found(check(action_mask=[[True] * 64], old_logprobs=old), "logprob_bf16")
    assert finding.evidence["error bound"] == pytest.approx(12 / 512)  # 8 bits of mantissa: half a unit is 2^-9 of the number
    assert check(action_mask=[[True] * 64], old_logprobs=torch.linspace(-12, -0.01, 64)[None]).findings == ()


def test_R16_one_group_per_rollout_is_named_and_one_task_per_group_is_not() -> None:
    rewards: Any = {"action_mask": [[True]] * 4, "rewards": [1.0, 0.0, 1.0, 0.0]}
    alone = check(**rewards, group_ids=["a", "b", "c", "d"], advantages=[1.0, 0.0, 1.0, 0.0])
    assert {finding.check for finding in alone.at_least("warning")} == {"groups_singleton", "advantage_grouping"}
    assert check(**rewards, group_ids=["a"] * 4, advantages=[1.0, -1.0, 1.0, -1.0]).findings == ()


def test_R17_a_group_of_one_among_others_is_information() -> None:
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0])
    advantages = torch.cat([group_standardized_advantages(rewards[:4]), torch.zeros(1)])
    report = check(action_mask=[[True]] * 5, rewards=rewards, advantages=advantages, group_ids=["a"] * 4 + ["b"])
    assert report.worst == "info"
    kept = check(
        action_mask=[[True]] * 5,
        rewards=rewards,
        advantages=advantages + rewards.new_tensor([0, 0, 0, 0, 1]),
        group_ids=["a"] * 4 + ["b"],
    )
    assert found(kept, "advantage_in_uniform_group").evidence["rows"] == [4]


def test_R18_a_rounding_residue_is_not_an_advantage() -> None:
    rewards = torch.tensor([0.35] * 8 + [0.0, 1.0])
    naive = (rewards[:8] - rewards[:8].mean()) / (rewards[:8].std() + 1e-12)
    assert naive.abs().max() > 0.1
    arguments: Any = {"action_mask": [[True]] * 10, "rewards": rewards, "group_ids": ["a"] * 8 + ["b"] * 2}
    report = check(**arguments, advantages=torch.cat([naive, torch.tensor([-1.0, 1.0])]))
    assert found(report, "advantage_in_uniform_group").severity == "error"
    assert check(**arguments, advantages=torch.tensor([0.0] * 8 + [-1.0, 1.0])).worst == "info"


def test_R20_a_long_trajectory_that_votes_three_times_is_named() -> None:
    # A has 3 rows and reward 1, B one row and reward 0: over rows +0.577 and -1.732, over rollouts +1 and -1
    arguments: Any = {
        "action_mask": [[True]] * 4,
        "rewards": [1.0, 1.0, 1.0, 0.0],
        "group_ids": ["x"] * 4,
        "rollout_ids": ["A"] * 3 + ["B"],
    }
    wrong = check_batch(**arguments, advantages=[0.57735, 0.57735, 0.57735, -1.73205])
    assert "rows instead of rollouts" in found(wrong, "advantage_grouping").summary
    assert check_batch(**arguments, advantages=[1.0, 1.0, 1.0, -1.0]).findings == ()


def test_R42_lag_counts_from_the_oldest_token() -> None:
    versions = torch.tensor([[7] * 57 + [8] * 71])
    report = check(action_mask=[[True] * 128], versions=versions, current_version=9, lag=1)
    assert found(report, "lag_understated").evidence == {"rows": [0], "declared": [1.0], "by oldest token": [2]}
    assert check(action_mask=[[True] * 128], versions=versions, current_version=9, lag=2).findings == ()


def test_R43_a_ratio_of_exactly_one_on_stale_data_is_named() -> None:
    arguments: Any = {"action_mask": [[True]], "current_logprobs": [[-1.0]]}
    assert found(check(**arguments, old_logprobs=[[-1.0]], lag=2), "ratio_one_while_stale").severity == "error"
    assert check(**arguments, old_logprobs=[[-2.0]], lag=2).findings == ()
    assert check(**arguments, old_logprobs=[[-1.0]], lag=0).findings == ()


def test_R58_an_unscored_member_that_counts_as_zero_is_named() -> None:
    # rewards 1, failed, 0, 1: with the failure as 0 the mean is 1/2, without it 2/3
    arguments: Any = {"action_mask": [[True]] * 4, "group_ids": ["x"] * 4, "scored": [True, False, True, True]}
    wrong = check(**arguments, rewards=[1.0, 0.0, 0.0, 1.0], advantages=[0.5, -0.5, -0.5, 0.5])
    assert found(wrong, "unscored_as_zero").evidence["rows"] == [1]
    right = check(**arguments, rewards=[1.0, math.nan, 0.0, 1.0], advantages=[1 / 3, 0.0, -2 / 3, 1 / 3])
    assert right.findings == ()


@pytest.mark.parametrize(("loss", "name"), [(2.0, "mean of the token means of 2 micro-batches"), (0.5, "divided again")])
def test_R23_the_two_slips_of_accumulation_are_told_apart(loss: float, name: str) -> None:
    # micro-batch 1 has token losses [4], micro-batch 2 [0, 0, 0]: the mean over tokens is 1
    arguments: Any = {"action_mask": [[True, False, False], [True] * 3], "token_loss": [[4.0, math.nan, math.nan], [0.0] * 3]}
    report = check(**arguments, loss=loss, aggregation="token", micro_batches=(1, 1))
    assert any(name in other for other in found(report, "aggregation_mismatch").evidence["also equal to"])
    assert check(**arguments, loss=1.0, aggregation="token", micro_batches=(1, 1)).findings == ()


def test_a_given_denominator_is_what_counts() -> None:
    arguments: Any = {"action_mask": [[True, True]], "token_loss": [[4.0, 2.0]], "aggregation": "token", "denominator": 12.0}
    assert check(**arguments, loss=0.5).findings == ()  # 6 / 12: the step has other micro-batches
    assert found(check(**arguments, loss=3.0), "aggregation_mismatch").severity == "error"


def test_readings_against_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand(4, 6, generator=generator) < 0.6
    losses = torch.randn(4, 6, generator=generator)
    from rosellm.roserlhf.audit.batch.inputs import Batch

    batch = Batch(mask=mask, token_loss=losses)
    numbers = readings(batch, measure_on_host(batch))
    rows = [[float(x) for x, m in zip(row, flags, strict=True) if m] for row, flags in zip(losses, mask, strict=True)]
    live = [row for row in rows if row]
    assert numbers["mean over tokens"] == pytest.approx(sum(map(sum, live)) / sum(map(len, live)))
    assert numbers["mean over sequences of token means"] == pytest.approx(sum(sum(row) / len(row) for row in live) / len(live))
    assert numbers["mean over sequences of token sums"] == pytest.approx(sum(map(sum, live)) / len(live))
    assert numbers["mean over all positions, padding and context included"] == pytest.approx(sum(map(sum, live)) / 24)


GROUPS = st.lists(st.lists(st.integers(0, 8), min_size=2, max_size=6), min_size=1, max_size=5)


@given(GROUPS, st.sampled_from(["standardized", "leave one out", "centred"]), st.sampled_from([1.0, -1.0, 3.5]))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_advantages_of_the_library_are_relative_to_their_groups(groups: list[list[int]], kind: str, factor: float) -> None:
    makers: dict[str, Any] = {
        "standardized": group_standardized_advantages,
        "leave one out": leave_one_out_advantages,
        "centred": lambda rewards: rewards - rewards.mean(),
    }
    tensors = [torch.tensor(group, dtype=torch.float64) / 8 for group in groups]
    advantages = np.concatenate([factor * makers[kind](tensor).numpy() for tensor in tensors])
    rewards = np.concatenate([tensor.numpy() for tensor in tensors])
    parts = np.concatenate([np.full(len(group), index) for index, group in enumerate(groups)])
    informative = sum(len(set(group)) > 1 for group in groups)
    fit = relative_to(parts, rewards, advantages)
    if informative == 0:
        assert fit is None
    else:
        assert fit is not None
        assert (fit.parts, fit.sign) == (informative, 1 if factor > 0 else -1)


def test_rewards_with_one_baseline_are_batch_wide_and_other_numbers_are_not() -> None:
    rewards = np.array([0.0, 1.0, 3.0, 0.5])
    for advantages in (rewards, rewards - 0.3, (rewards - rewards.mean()) / rewards.std()):
        assert batch_wide(rewards, advantages) is not None
    assert batch_wide(rewards, np.array([1.0, 0.0, 2.0, 5.0])) is None


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16])
def test_a_negative_id_shows_in_every_width(dtype: torch.dtype) -> None:
    ids = torch.tensor([[1, 2, 3, 4], [1, -100, 3, 4], [30_000, 2, 3, 4]]).to(dtype)
    assert (measure_ids(ids) < 0).tolist() == [False, True, False]
    assert (measure_ids(ids[:, ::2]) < 0).tolist() == [False, False, False]


def test_ids_beyond_32_bits_are_not_called_negative() -> None:
    report = check(action_mask=[[True, True]], input_ids=[[2**31 + 5, 2**40]])
    assert report.findings == ()


def test_a_loss_over_a_horizon_is_not_judged_for_the_horizon_is_not_known() -> None:
    arguments: Any = {"action_mask": [[True, True]], "token_loss": [[4.0, 2.0]], "aggregation": "horizon", "loss": 0.5}
    for denominator in ({}, {"denominator": 1.0}):
        report = check(**arguments, **denominator)
        assert report.findings == ()
        assert "horizon" in report.not_checked["aggregation_mismatch"]


def test_rows_are_rollouts_where_no_rollouts_are_named() -> None:
    arguments: Any = {
        "action_mask": [[True, True], [True, False]],
        "token_loss": [[4.0, 2.0], [1.0, 0.0]],
        "aggregation": "rollout",
    }
    assert check(**arguments, loss=2.0).findings == ()
    assert check(**arguments, loss=1.0, denominator=4.0).findings == ()
    assert found(check(**arguments, loss=7 / 3), "aggregation_mismatch").severity == "error"


def test_a_few_tokens_that_an_update_moved_far_are_no_fault() -> None:
    old = torch.full((8, 40), -1.0)
    current = old - 0.01
    current[:4, 3] -= 2.0
    for before, severity in ((None, "warning"), (False, "info")):
        report = check(
            action_mask=torch.ones(8, 40, dtype=torch.bool), old_logprobs=old, current_logprobs=current, before_update=before
        )
        assert found(report, "history_retokenised").severity == severity


def test_sampled_ids_per_row_are_compared_in_order() -> None:
    arguments: Any = {"input_ids": [[1, 5, 6, 9, 7]], "action_mask": [[False, True, True, False, True]]}
    assert check_batch(**arguments, sampled_ids=[[5, 6, 7]]).findings == ()
    finding = found(check_batch(**arguments, sampled_ids=[[5, 8]]), "history_retokenised")
    assert finding.evidence == {"rows": [0], "first difference": [1], "lengths": [[3, 2]]}
