"""Masking selects: what is left out changes neither a value nor a gradient."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.errors import MaskError
from rosellm.roserlhf.masked import Partial, at_least_float32, fraction, masked_mean, masked_sum, partial, select

RUBBISH = [math.nan, math.inf, -math.inf, 1e38]


@pytest.mark.parametrize("rubbish", RUBBISH, ids=str)
def test_what_is_left_out_reaches_neither_value_nor_gradient(rubbish: float) -> None:
    values = torch.tensor([[1.0, rubbish], [3.0, rubbish]], requires_grad=True)
    mask = torch.tensor([[True, False], [True, False]])
    assert masked_mean(values, mask) == 2.0
    assert masked_sum(values, mask, dim=0).tolist() == [4.0, 0.0]
    (slope,) = torch.autograd.grad(masked_mean(values, mask), values)
    assert slope.tolist() == [[0.5, 0.0], [0.5, 0.0]]


def test_selecting_before_an_overflow_keeps_the_gradient_finite() -> None:
    values = torch.tensor([1000.0, 0.0], requires_grad=True)
    (slope,) = torch.autograd.grad(select(values, torch.tensor([False, True])).exp().sum(), values)
    assert slope.tolist() == [0.0, 1.0]


def test_select_fills_with_a_constant() -> None:
    assert select(torch.tensor([5.0, math.nan]), torch.tensor([True, False]), 7.0).tolist() == [5.0, 7.0]


def test_the_sum_of_nothing_is_a_zero_in_the_graph() -> None:
    values = torch.tensor([math.nan], requires_grad=True)
    total = masked_sum(values, torch.tensor([False]))
    assert total == 0
    assert torch.autograd.grad(total, values)[0].tolist() == [0.0]
    with pytest.raises(MaskError, match="empty mask"):
        masked_mean(values, torch.tensor([False]))


def test_half_precision_is_summed_in_float32() -> None:
    ones = torch.ones(4096, dtype=torch.bfloat16)
    assert masked_mean(ones, ones).dtype == torch.float32
    assert masked_sum(ones, ones.bool()) == 4096
    assert at_least_float32(torch.tensor([1])).dtype == torch.float32
    assert at_least_float32(torch.ones(1, dtype=torch.float64)).dtype == torch.float64


def test_partials_add_and_divide_once() -> None:
    one = partial(torch.tensor([4.0, math.nan], requires_grad=True), torch.tensor([True, False]))
    two = partial(torch.tensor([0.0, 0.0, 0.0]), torch.tensor([True, True, True]))
    assert (one + two).mean() == 1.0
    assert not one.sum.requires_grad
    assert Partial.nothing(torch.zeros(2)).mean().isnan()
    assert (two + Partial.nothing(torch.zeros(2))).mean() == 0.0
    assert fraction(torch.tensor([True, True, False]), torch.tensor([True, False, True])).mean() == 0.5


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.booleans(), st.sampled_from(RUBBISH)), min_size=1))
def test_property_masked_mean_is_the_mean_of_what_is_selected(data: list[tuple[float, bool, float]]) -> None:
    kept = [value for value, on, _ in data if on]
    values = torch.tensor([value if on else rubbish for value, on, rubbish in data], dtype=torch.float64)
    mask = torch.tensor([on for _, on, _ in data])
    if kept:
        assert masked_mean(values, mask).item() == pytest.approx(math.fsum(kept) / len(kept), rel=1e-9, abs=1e-9)
    else:
        with pytest.raises(MaskError, match="empty mask"):
            masked_mean(values, mask)
