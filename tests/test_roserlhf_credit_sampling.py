"""DAPO's dynamic sampling: a group is kept when some of its scored members succeeded and some did not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rosellm.roserlhf.advantages import dynamic_sampling_mask, grouped_advantages
from rosellm.roserlhf.errors import DtypeError, NonFiniteError, RangeError, RoseError, ShapeError

NAN = float("nan")


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.float32, torch.float64])
def test_all_right_and_all_wrong_are_left_out(dtype: torch.dtype) -> None:
    correct = torch.tensor([[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 1]]).to(dtype)
    keep = dynamic_sampling_mask(correct.flatten(), torch.arange(4).repeat_interleave(4))
    assert keep.view(4, 4).all(1).tolist() == [False, False, True, True]
    assert (keep.numel(), int(keep.sum())) == (16, 8)  # generated, trained


def test_ragged_groups_in_any_order() -> None:
    correct = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    assert dynamic_sampling_mask(correct, ["a", "b", "a", "c", "c", "b"]).tolist() == [False, False, False, True, True, False]


def test_a_rollout_alone_is_never_kept() -> None:
    assert dynamic_sampling_mask(torch.tensor([1.0, 0.0]), ["a", "b"]).tolist() == [False, False]
    assert dynamic_sampling_mask(torch.tensor([1.0, 0.5]), ["a", "b"], rule="not_uniform").tolist() == [False, False]


def test_unscored_members_are_not_counted_and_not_kept() -> None:
    # a: one right, one not scored -> nothing to compare; b: one right, one wrong, one not scored
    rewards, ids = torch.tensor([1.0, NAN, 1.0, 0.0, NAN]), ["a", "a", "b", "b", "b"]
    keep = dynamic_sampling_mask(rewards, ids, scored_mask=~rewards.isnan())
    assert keep.tolist() == [False, False, True, True, False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_R18_a_uniform_group_of_any_value_is_left_out(dtype: torch.dtype) -> None:
    ids = torch.arange(2, 65).repeat_interleave(torch.arange(2, 65))
    uniform = torch.full((len(ids),), 0.35, dtype=dtype)
    assert not dynamic_sampling_mask(uniform, ids, rule="not_uniform").any()
    uniform[0] = 0.36
    assert dynamic_sampling_mask(uniform, ids, rule="not_uniform").sum() == 2  # the first group, of size 2


def test_a_length_penalty_must_not_be_in_the_outcome() -> None:
    # all four succeeded: the group is out by its outcome, and would be in by the shaped reward
    outcome, penalty, ids = torch.ones(4), torch.tensor([0.0, -0.5, 0.0, 0.0]), [0] * 4
    assert not dynamic_sampling_mask(outcome, ids).any()
    assert dynamic_sampling_mask(outcome + penalty, ids, rule="not_uniform").all()
    with pytest.raises(RangeError, match=r"rewards must be exactly 0 or 1 .*got the value 0.5 at \[1\]; rule='not_uniform'"):
        dynamic_sampling_mask(outcome + penalty, ids)


def test_what_is_left_out_has_no_advantage() -> None:
    rewards = torch.randint(0, 2, (60,), generator=torch.Generator().manual_seed(0)).float()
    ids = torch.randint(0, 20, (60,), generator=torch.Generator().manual_seed(1))
    keep = dynamic_sampling_mask(rewards, ids)
    assert keep.equal(grouped_advantages(rewards, ids) != 0)
    assert keep.equal(dynamic_sampling_mask(rewards, ids, rule="not_uniform"))


@pytest.mark.parametrize(
    ("rewards", "options", "error", "message"),
    [
        (torch.tensor([1.0, NAN]), {}, NonFiniteError, "rewards must be finite wherever a row is scored"),
        (torch.tensor([1, 0]), {}, DtypeError, "rewards must be a floating-point tensor"),
        (torch.tensor([True, False]), {"rule": "not_uniform"}, DtypeError, "rewards must be a floating-point tensor"),
        ([1.0, 0.0], {}, DtypeError, "rewards must be a torch.Tensor"),
        (torch.tensor([1.0]), {}, ShapeError, "group_ids must have one id for each of the 1 rows"),
        (torch.tensor([1.0, 0.0]), {"rule": "std"}, RangeError, "rule must be one of 'some_correct', 'not_uniform'"),
    ],
)
def test_bad_input_is_named(rewards: Any, options: dict[str, Any], error: type[RoseError], message: str) -> None:
    with pytest.raises(error, match=message):
        dynamic_sampling_mask(rewards, [0, 0], **options)
