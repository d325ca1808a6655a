"""Padding: the width of a batch, the order of its rows and the value of a padding id change nothing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.batching.rows import Row, exclude
from rosellm.roserlhf.batching.tensors import Batch, by_length, pad
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.losses import clipped_policy_loss

PROPERTY = settings(derandomize=True, max_examples=60, deadline=None)


def row(name: str, ids: list[int], sampled: list[int], advantage: float | None = 1.0) -> Row:
    """A row whose sampled places are given; the log-probability of a token is −id / 10."""
    mask = tuple(i in sampled for i in range(len(ids)))
    logprobs = tuple(-i / 10 if m else 0.0 for i, m in zip(ids, mask, strict=True))
    return Row(name, "g", tuple(ids), mask, mask, logprobs, tuple(0 if m else -1 for m in mask), {}, advantage)


def test_a_batch_by_hand() -> None:
    batch = pad([row("a", [5, 6, 2], [1, 2], 0.5), exclude(row("b", [5, 6, 7, 8, 2], [3, 4], None), "unscored")])
    assert batch.input_ids.tolist() == [[5, 6, 2, 0, 0], [5, 6, 7, 8, 2]]
    assert batch.valid_mask.int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    assert batch.policy_mask.int().tolist() == [[0, 1, 1, 0, 0], [0, 0, 0, 1, 1]]
    assert batch.loss_mask.int().tolist() == [[0, 1, 1, 0, 0], [0, 0, 0, 0, 0]]
    assert batch.behaviour_logprobs.tolist() == [
        [0.0, pytest.approx(-0.6), pytest.approx(-0.2), 0.0, 0.0],
        pytest.approx([0, 0, 0, -0.8, -0.2]),
    ]
    assert batch.advantages[0].tolist() == [0, 0.5, 0.5, 0, 0]
    assert batch.advantages[1].isnan().all()  # training on a row without credit cannot go unnoticed


def test_types_are_those_that_are_said() -> None:
    batch = pad([row("a", [2**40], [0])])
    kinds = [batch.input_ids, batch.valid_mask, batch.policy_mask, batch.loss_mask, batch.behaviour_logprobs, batch.advantages]
    assert [t.dtype for t in kinds] == [torch.int64, torch.bool, torch.bool, torch.bool, torch.float32, torch.float32]
    assert batch.input_ids.item() == 2**40


def test_R02_no_mask_comes_from_a_padding_id() -> None:
    # padding and end of a turn share id 0 here, and it stands in the prompt, too
    batch = pad([row("a", [0, 5, 6, 0], [2, 3]), row("b", [5, 0, 6, 7, 8, 0], [3, 4, 5])])
    assert batch.policy_mask.int().tolist() == [[0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1]]
    assert batch.valid_mask.int().tolist() == [[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]]


def test_no_rows_are_no_batch() -> None:
    with pytest.raises(RangeError, match="rows must hold at least one row, got 0"):
        pad([])


def test_rows_are_sorted_by_length_and_then_by_name() -> None:
    rows = [row("c", [1, 2], [1]), row("a", [1, 2, 3], [2]), row("b", [1, 2], [1])]
    assert [r.trajectory_id for r in by_length(rows)] == ["b", "c", "a"]
    assert by_length(rows[::-1]) == by_length(rows)
    assert [r.trajectory_id for r in rows] == ["c", "a", "b"]


ROWS = st.lists(
    st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.sets(st.integers(0, 6), max_size=5), st.floats(-2, 2)),
    min_size=1,
    max_size=5,
).map(lambda drawn: [row(str(i), ids, sorted(places), advantage) for i, (ids, places, advantage) in enumerate(drawn)])


def losses(batch: Batch) -> dict[int, float]:
    """Sum of the token losses of each row under a policy that depends on the ids alone."""
    current = batch.input_ids.float() * -0.11
    out = clipped_policy_loss(current, batch.behaviour_logprobs, batch.advantages, batch.loss_mask, denominator=1.0)
    return {i: float(out.token_loss[i].sum()) for i in range(len(current))}


@PROPERTY
@given(ROWS)
def test_every_row_of_a_batch_is_the_row_alone(rows: list[Row]) -> None:
    together = pad(rows)
    width = together.input_ids.shape[1]
    assert width == max(len(r.token_ids) for r in rows)
    summed = losses(together)
    for i, one in enumerate(rows):
        alone, length = pad([one]), len(one.token_ids)
        for name in ("input_ids", "valid_mask", "policy_mask", "loss_mask", "behaviour_logprobs"):
            padded = getattr(together, name)[i]
            assert torch.equal(padded[:length], getattr(alone, name)[0])
            assert not padded[length:].any()
        assert alone.valid_mask.all()
        assert summed[i] == pytest.approx(losses(alone)[0])
    assert int(together.loss_mask.sum()) == sum(r.trained for r in rows)


@PROPERTY
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: list[Row], random: object) -> None:
    total = sum(losses(pad(rows)).values())
    assert sum(losses(pad(by_length(rows))).values()) == pytest.approx(total)
    assert sum(losses(pad(rows[::-1])).values()) == pytest.approx(total)
