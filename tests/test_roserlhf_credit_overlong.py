"""Long and truncated responses: a soft penalty with its corners, and a filter that says who stays in the statistics."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rosellm.roserlhf.advantages import grouped_advantages, overlong_filter, overlong_penalty
from rosellm.roserlhf.errors import DtypeError, MaskError, RangeError, RoseError, ShapeError


@pytest.mark.parametrize(
    ("length", "paper", "verl"),
    [
        (0, 0.0, 0.0),
        (16384, 0.0, 0.0),  # 20480 - 4096: the first piece is closed
        (16385, -1 / 4096, -1 / 4096),
        (18432, -0.5, -0.5),
        (20480, -1.0, -1.0),
        (20481, -1.0, -4097 / 4096),
        (24576, -1.0, -2.0),
    ],
)
def test_the_three_pieces(length: int, paper: float, verl: float) -> None:
    for dtype in (torch.int32, torch.int64):
        lengths = torch.tensor([[length]], dtype=dtype)
        assert overlong_penalty(lengths, max_length=20480, cache_length=4096).tolist() == [[paper]]
        assert overlong_penalty(lengths, max_length=20480, cache_length=4096, floor="verl").tolist() == [[verl]]


def test_the_cache_may_be_everything() -> None:
    assert overlong_penalty(torch.tensor([0, 2, 4]), max_length=4, cache_length=4).tolist() == [0.0, -0.5, -1.0]


@pytest.mark.parametrize(
    ("lengths", "limits", "error", "message"),
    [
        (torch.tensor([1.0]), {}, DtypeError, "lengths must be an integer tensor"),
        (torch.tensor([-1]), {}, RangeError, "lengths must be in"),
        ([1], {}, DtypeError, "lengths must be a torch.Tensor"),
        (torch.tensor([1]), {"max_length": 0}, RangeError, "max_length must be at least 1"),
        (torch.tensor([1]), {"cache_length": 0}, RangeError, "cache_length must be at least 1"),
        (torch.tensor([1]), {"cache_length": 5}, RangeError, "cache_length must be at most max_length=4, got 5"),
        (torch.tensor([1]), {"max_length": 4.0}, DtypeError, "max_length must be a whole number"),
        (torch.tensor([1]), {"floor": "none"}, RangeError, "floor must be one of 'paper', 'verl'"),
    ],
)
def test_bad_lengths_are_named(lengths: Any, limits: dict[str, Any], error: type[RoseError], message: str) -> None:
    with pytest.raises(error, match=message):
        overlong_penalty(lengths, **{"max_length": 4, "cache_length": 2, **limits})


TRUNCATED, MASK = torch.tensor([0, 1, 0]), torch.tensor([[1, 1], [1, 1], [1, 0]])


def test_truncated_rows_leave_the_loss_and_their_rewards_stay_or_go() -> None:
    rewards = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    kept, excluded = overlong_filter(TRUNCATED, MASK), overlong_filter(TRUNCATED, MASK, statistics="exclude")
    for found in (kept, excluded):
        assert found.loss_mask.int().tolist() == [[1, 1], [0, 0], [1, 0]]
    # with it the mean is 1/3, without it 1/2
    with_it = grouped_advantages(rewards, [0, 0, 0], scored_mask=kept.scored_mask, scale="none")
    assert with_it.tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3])
    without = grouped_advantages(rewards, [0, 0, 0], scored_mask=excluded.scored_mask, scale="none")
    assert without.tolist() == [0.5, 0.0, -0.5]


def test_rejected_members_leave_baseline_numerator_and_denominator_together() -> None:
    # members 1 and 0.5 remain of {1, 7, 0.5}: mean 0.75; loss over 2 + 1 tokens as if the second had never been sampled
    rewards, ids = torch.tensor([1.0, 7.0, 0.5]), ["t"] * 3
    found = overlong_filter(TRUNCATED, MASK, statistics="exclude")
    advantages = grouped_advantages(rewards, ids, scored_mask=found.scored_mask, scale="none")
    alone = grouped_advantages(rewards[[0, 2]], ids[:2], scale="none")
    assert advantages[[0, 2]].equal(alone)
    tokens = advantages[:, None].expand(3, 2)[found.loss_mask]
    assert (tokens.sum() / found.loss_mask.sum()).item() == pytest.approx((2 * 0.25 + 1 * -0.25) / 3)


def test_what_was_not_scored_stays_unscored() -> None:
    for statistics, expected in (("keep", [False, True, True]), ("exclude", [False, False, True])):
        found = overlong_filter(TRUNCATED, MASK, statistics=statistics, scored_mask=torch.tensor([0, 1, 1]))  # type: ignore[arg-type]
        assert found.scored_mask.tolist() == expected


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"truncated": torch.tensor([0, 2, 0])}, MaskError, "truncated must be boolean or exactly 0/1"),
        ({"truncated": torch.tensor([0, 1])}, ShapeError, "truncated must be"),
        ({"action_mask": torch.ones(3)}, ShapeError, "truncated must be"),
        ({"action_mask": torch.full((3, 2), 0.5)}, MaskError, "action_mask must be boolean"),
        ({"truncated": [0, 1, 0]}, DtypeError, "truncated must be a torch.Tensor"),
        ({"statistics": "drop"}, RangeError, "statistics must be one of 'keep', 'exclude'"),
        ({"scored_mask": torch.ones(2)}, ShapeError, "scored_mask must have the shape of truncated"),
    ],
    ids=str,
)
def test_bad_masks_are_named(change: dict[str, Any], error: type[RoseError], message: str) -> None:
    given_: dict[str, Any] = {"truncated": TRUNCATED, "action_mask": MASK, **change}
    with pytest.raises(error, match=message):
        overlong_filter(given_.pop("truncated"), given_.pop("action_mask"), **given_)
