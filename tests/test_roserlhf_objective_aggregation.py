"""The five aggregations and the denominators of a whole step, on numbers that can be checked by hand."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest
import torch
from cases_objective import DEVICE, raises, tensor
from torch import Tensor

from rosellm.roserlhf.errors import DtypeError, MaskError, RangeError, ShapeError
from rosellm.roserlhf.losses import Aggregation, aggregate, rollout_denominators, step_denominator
from rosellm.roserlhf.objective.segments import dense, present

VALUES = [[1.0, 2.0, 3.0, 0.0], [4.0, 0.0, 0.0, 0.0], [9.0, 9.0, 9.0, 9.0]]
MASK = [[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("aggregation", "extra", "wanted"),
    [
        ("token", {}, 10 / 4),
        ("sequence_mean", {}, (6 / 3 + 4) / 2),  # the empty third row is no sequence
        ("sequence_sum", {}, (6 + 4) / 2),
        ("horizon", {"horizon": 4}, 10 / 4 / 3),  # the empty row counts: a constant of the sampling
        ("rollout", {"rollout_ids": [5, 5, 6]}, 10 / 4),  # rows 0 and 1 are one rollout
        ("rollout", {"rollout_ids": [5, 6, 6]}, (2 + 4) / 2),
    ],
)
def test_ragged_rows_with_an_empty_one(aggregation: Aggregation, extra: dict[str, Any], wanted: float) -> None:
    if "rollout_ids" in extra:
        extra = {"rollout_ids": tensor(extra["rollout_ids"])}
    seen = aggregate(tensor(VALUES), tensor(MASK), aggregation=aggregation, **extra)
    assert seen.item() == pytest.approx(wanted, rel=1e-15)


def test_token_and_sequence_means_can_differ_in_sign() -> None:
    # (4 * .5 - 1) / 5 = .2 against (.5 - 1) / 2 = -.25
    surrogate, mask = tensor([[0.5] * 4, [-1.0, 0.0, 0.0, 0.0]]), tensor([[1] * 4, [1, 0, 0, 0]])
    assert aggregate(surrogate, mask, aggregation="token").item() == pytest.approx(0.2)
    assert aggregate(surrogate, mask, aggregation="sequence_mean") == -0.25


def test_local_means_do_not_average_to_the_global_one() -> None:
    # rows {0} and {1, 2}: local token means 2 and 4 average to 3, the global mean is 10 / 4
    values, mask = tensor(VALUES), tensor(MASK)
    ranks = [(values[:1], mask[:1]), (values[1:], mask[1:])]
    assert sum(aggregate(*rank, aggregation="token").item() for rank in ranks) / 2 == 3.0
    whole = step_denominator([mask[:1], mask[1:]], "token")
    assert sum(aggregate(*rank, aggregation="token", denominator=whole).item() for rank in ranks) == 2.5


def test_denominators_count_what_the_aggregation_divides_by() -> None:
    masks = [tensor(MASK), tensor([[1, 0, 0, 0]])]
    assert step_denominator(masks, "token") == 5
    assert step_denominator(masks, "sequence_mean") == step_denominator(masks, "sequence_sum") == 3
    assert step_denominator(masks, "horizon") == 4
    ids = [tensor([7, 7, 8]), tensor([9])]
    assert step_denominator(masks, "rollout", rollout_ids=ids) == 2
    assert step_denominator(masks, "token").dtype == torch.int64
    assert step_denominator([], "token") == 0
    assert step_denominator(iter(masks), "token") == 5


def test_packed_masks_count_sequences_by_id() -> None:
    # one row with sequences 0 (2 live), 1 (all masked), 2 (1 live), and padding; ids start anew in the second micro-batch
    masks = [tensor([[1, 1, 0, 0, 1, 0]]), tensor([[1, 1]])]
    ids = [tensor([[0, 0, 1, 1, 2, -1]]), tensor([[0, 1]])]
    assert step_denominator(masks, "sequence_mean", sequence_ids=ids) == 2 + 2
    assert step_denominator(masks, "horizon", sequence_ids=ids) == 3 + 2


def test_a_rollout_over_two_micro_batches_counts_once() -> None:
    # rollout 7 has tokens 1, 2 | 3, rollout 8 the token 10: mean of means (2 + 10) / 2 = 6, wherever it is cut
    values, masks = [tensor([[1.0, 2.0]]), tensor([[3.0], [10.0]])], [tensor([[1, 1]]), tensor([[1], [1]])]
    ids = [tensor([7]), tensor([7, 8])]
    with pytest.raises(RangeError, match=r"rollout_ids must keep every rollout in one micro-batch.*2 rollouts in 3 pieces; use r"):
        step_denominator(masks, "rollout", rollout_ids=ids)
    parts = [
        aggregate(one, mask, aggregation="rollout", denominator=denominator)
        for one, mask, denominator in zip(values, masks, rollout_denominators(masks, ids), strict=True)
    ]
    assert sum(part.item() for part in parts) == 6.0
    whole = aggregate(
        tensor([[1.0, 2.0], [3.0, 0.0], [10.0, 0.0]]),
        tensor([[1, 1], [1, 0], [1, 0]]),
        aggregation="rollout",
        rollout_ids=tensor([7, 7, 8]),
    )
    assert whole == 6.0


def test_rollout_denominators_ignore_what_is_masked() -> None:
    denominators = rollout_denominators([tensor([[1, 0, 1]])], [tensor([[4, -9, 2]])])
    assert denominators[0].tolist() == [[2, 1, 2]]


def test_numbers_and_tensors_are_the_same_denominator() -> None:
    values, mask = tensor(VALUES), tensor(MASK)
    seen = {
        aggregate(values, mask, aggregation="token", denominator=denominator).item()
        for denominator in (5, 5.0, tensor(5), tensor(5.0), torch.tensor(5), torch.tensor(5.0, dtype=torch.float64))
    }
    assert seen == {2.0}


def test_an_empty_mask_needs_a_denominator() -> None:
    values, mask = tensor([[math.nan, 1.0]], grad=True), tensor([[0, 0]])
    with raises(MaskError, match="action_mask must select at least one position, got an empty mask; pass denominator="):
        aggregate(values, mask, aggregation="token")
    zero = aggregate(values, mask, aggregation="token", denominator=3)
    assert zero == 0
    assert torch.autograd.grad(zero, values)[0].tolist() == [[0.0, 0.0]]


def test_a_globally_empty_step_is_refused() -> None:
    mask = tensor([[0, 0]])
    assert step_denominator([mask], "token") == 0
    with raises(RangeError, match="denominator must be positive and finite"):
        aggregate(tensor([[1.0, 1.0]]), mask, aggregation="token", denominator=step_denominator([mask], "token"))


def test_half_precision_is_summed_in_float32() -> None:
    # 4096 ones: bfloat16 sums stop growing at 256
    values = torch.ones(1, 4096, device=DEVICE, dtype=torch.bfloat16)
    seen = aggregate(values, torch.ones_like(values), aggregation="sequence_sum")
    assert seen.dtype == torch.float32
    assert seen == 4096


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"aggregation": "mean"}, RangeError, "aggregation must be one of 'token'.*got 'mean'"),
        ({"aggregation": "horizon"}, RangeError, 'horizon must be given for aggregation="horizon", got None'),
        ({"aggregation": "horizon", "horizon": 0}, RangeError, r"horizon must be in \(0, inf\), got 0"),
        (
            {"aggregation": "token", "horizon": 8},
            RangeError,
            "horizon must be given only for aggregation=\"horizon\", got.*'token'",
        ),
        (
            {"aggregation": "rollout"},
            RangeError,
            'rollout_ids must be given for aggregation="rollout", got None; use "sequence_mean"',
        ),
        ({"denominator": 0}, RangeError, r"denominator must be in \(0, inf\), got 0"),
        ({"denominator": -2.0}, RangeError, "denominator must be in"),
        ({"denominator": math.nan}, RangeError, "denominator must be in"),
        ({"denominator": True}, DtypeError, "denominator must be a number"),
        ({"denominator": [[2, 2, 2, 2]] * 3}, ShapeError, "denominator must be one number for aggregation='token'"),
        ({"sequence_ids": [0, 1, 2]}, ShapeError, r"sequence_ids must have the shape of the tokens \(3, 4\), got \(3,\)"),
        ({"sequence_ids": [[0.0] * 4] * 3}, DtypeError, "sequence_ids must be an integer tensor"),
        ({"sequence_ids": [[-1] * 4] * 3}, RangeError, r"sequence_ids must be in \[0, inf\) wherever its mask is true"),
        (
            {"rollout_ids": [0, 1], "aggregation": "rollout"},
            ShapeError,
            r"rollout_ids must have the shape of the tokens \(3, 4\) or of the",
        ),
    ],
    ids=str,
)
def test_bad_aggregation_arguments(how: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments = {"aggregation": "token"} | {key: tensor(value) if isinstance(value, list) else value for key, value in how.items()}
    with raises(error, match=message):
        aggregate(tensor(VALUES), tensor(MASK), **cast("Any", arguments))


def test_bad_denominator_arguments() -> None:
    mask = tensor([[1, 1]])
    with pytest.raises(RangeError, match="mode must be one of"):
        step_denominator([mask], cast("Any", "mean"))
    with pytest.raises(RangeError, match='rollout_ids must be given for mode="rollout"'):
        step_denominator([mask], "rollout")
    with pytest.raises(ShapeError, match=r"rollout_ids must have one tensor per mask \(1\), got 2"):
        step_denominator([mask], "rollout", rollout_ids=[tensor([1]), tensor([2])])
    with pytest.raises(ShapeError, match=r"sequence_ids\[0\] must have the shape"):
        step_denominator([mask], "sequence_mean", sequence_ids=[tensor([1])])
    with raises(MaskError, match=r"masks\[1\] must be boolean or exactly 0/1"):
        step_denominator([mask, tensor([[0.5]])], "token")
    with pytest.raises(ShapeError, match=r"masks\[0\] must have at least 1 dimension"):
        step_denominator([tensor(1)], "token")


@pytest.mark.parametrize("ids", [[5, -3, 5, 2**40, -3], [0], [], [[3, 3], [1, 3]]], ids=str)
def test_dense_ids_are_ranks_among_the_distinct(ids: list[Any]) -> None:
    given: Tensor = torch.tensor(ids, dtype=torch.int64, device=DEVICE)
    ranks = {value: rank for rank, value in enumerate(sorted(set(given.flatten().tolist())))}
    assert dense(given).flatten().tolist() == [ranks[value] for value in given.flatten().tolist()]
    assert present(given) == sum(value >= 0 for value in ranks)
