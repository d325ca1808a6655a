"""`value_loss` against hand arithmetic, and its explained variance from partials."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from cases_objective import close, counted, gradient, tensor
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.errors import ArgumentError, DtypeError, RangeError, ShapeError
from rosellm.roserlhf.losses import merged_explained_variance, value_loss
from rosellm.roserlhf.metrics import merge

RETURNS, OLD, ONES = tensor([[1.5, 1.5, 0.0]]), tensor([[0.5, 0.5, 0.5]]), tensor([[1] * 3])


def values() -> torch.Tensor:
    return tensor([[1.0, 0.0, 2.0]], grad=True)


def test_half_the_mean_squared_error() -> None:
    # errors -.5, -1.5, 2: (.25 + 2.25 + 4) / 2 / 3; the gradient is the error over 3
    at = values()
    out = value_loss(at, RETURNS, ONES)
    close(out.loss, 1.0833333333333333)
    close(out.objective, -1.0833333333333333)
    close(gradient(out.loss, at), [[-0.5 / 3, -0.5, 2 / 3]])
    assert out.clip_fraction.isnan()
    assert "value_clip_fraction" not in out.partials


def test_the_larger_of_two_errors_counts() -> None:
    # old .5, clip .2: values stop at .7, .3, .7; squares .64 > .25, 1.44 < 2.25, .49 < 4
    at = values()
    out = value_loss(at, RETURNS, ONES, old_values=OLD, clip=0.2)
    close(2 * out.token_loss.detach(), [[0.64, 2.25, 4.0]])
    close(out.loss, 1.1483333333333334)
    close(gradient(out.loss, at), [[0.0, -0.5, 2 / 3]])  # the first went far enough towards its return
    assert counted(out.partials["value_clip_fraction"]) == (1, 3)
    assert out.clip_fraction.item() == pytest.approx(1 / 3)


def test_a_value_inside_the_clip_keeps_all_of_its_gradient() -> None:
    at = tensor([[0.6]], grad=True)
    out = value_loss(at, tensor([[1.5]]), tensor([[1]]), old_values=tensor([[0.5]]), clip=0.2)
    close(gradient(out.loss, at), [[-0.9]])
    assert out.clip_fraction == 0.0


def test_targets_and_old_values_get_no_gradient() -> None:
    returns, old = RETURNS.clone().requires_grad_(), OLD.clone().requires_grad_()
    value_loss(values(), returns, ONES, old_values=old, clip=0.2).loss.backward()
    assert returns.grad is None
    assert old.grad is None


def test_one_return_per_row() -> None:
    at = tensor([[1.0, 2.0], [0.0, 0.0]], grad=True)
    out = value_loss(at, tensor([1.0, 3.0]), tensor([[1, 1], [1, 0]]))
    close(out.token_loss.detach(), [[0.0, 0.5], [4.5, 0.0]])


def test_explained_variance_is_that_of_the_whole_step() -> None:
    # returns 1, 3 | 5, 7 with errors 1, -1 | 1, -1: Var[R] = 5, Var[R - V] = 1
    first, second = _half([0.0, 4.0], [1.0, 3.0]), _half([4.0, 8.0], [5.0, 7.0])
    close(first.explained_variance, 0.0)  # Var[R] = 1 in each half
    close(merged_explained_variance(merge([first.partials, second.partials])), 1 - 1 / 5)


def test_partials_of_something_else_have_no_explained_variance() -> None:
    with pytest.raises(
        ArgumentError, match=r"partials must be those of value_loss, with mean_return, .* got none named mean_return"
    ):
        merged_explained_variance({})


def _half(now: list[float], wanted: list[float]) -> Any:
    return value_loss(tensor([now]), tensor([wanted]), tensor([[1, 1]]), denominator=4)


def test_explained_variance_of_good_constant_and_bad_critics() -> None:
    returns = tensor([[1.0, 2.0, 3.0]])
    assert value_loss(returns, returns, ONES).explained_variance == 1.0
    close(value_loss(returns + 5, returns, ONES).explained_variance, 1.0)  # an offset costs nothing
    assert value_loss(tensor([[7.0] * 3]), returns, ONES).explained_variance.abs() < 1e-9
    close(value_loss(tensor([[3.0, 2.0, 1.0]]), returns, ONES).explained_variance, -3.0)  # errors -2, 0, 2


def test_explained_variance_is_undefined_where_returns_are_equal() -> None:
    for constant in (0.0, 0.1, 1e6):
        assert value_loss(values(), tensor([[constant] * 3]), ONES).explained_variance.isnan()
    assert value_loss(values(), RETURNS, tensor([[0] * 3]), denominator=3).explained_variance.isnan()


def test_explained_variance_survives_a_large_mean_in_float32() -> None:
    returns = torch.tensor([[1e6, 1e6 + 1, 1e6 + 2]])
    out = value_loss(returns + torch.tensor([[0.5, 0.0, -0.5]]), returns, torch.ones(1, 3))
    assert out.explained_variance.item() == pytest.approx(1 - 0.25, rel=1e-4)


def test_an_argument_that_nothing_reads_is_an_error() -> None:
    with pytest.raises(RangeError, match=r"old_values must be given for clip=0\.2, got None"):
        value_loss(values(), RETURNS, ONES, clip=0.2)
    with pytest.raises(RangeError, match="clip must be given with old_values, got None"):
        value_loss(values(), RETURNS, ONES, old_values=OLD)
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(RangeError, match=r"clip must be in \(0, inf\), got"):
            value_loss(values(), RETURNS, ONES, old_values=OLD, clip=wrong)
    with pytest.raises(ShapeError, match="old_values must have the shape of action_mask"):
        value_loss(values(), RETURNS, ONES, old_values=OLD[0], clip=0.2)
    with pytest.raises(DtypeError, match="old_values must be a floating-point tensor"):
        value_loss(values(), RETURNS, ONES, old_values=ONES, clip=0.2)


numbers = st.floats(-5.0, 5.0, allow_nan=False)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=8), st.floats(0.01, 3.0))
def test_property_a_clip_never_lowers_the_loss(rows: list[tuple[float, float, float]], clip: float) -> None:
    now, wanted, old = (tensor([list(column)]) for column in zip(*rows, strict=True))
    mask = torch.ones_like(now)
    plain, clipped = value_loss(now, wanted, mask), value_loss(now, wanted, mask, old_values=old, clip=clip)
    assert (clipped.token_loss >= plain.token_loss).all()
    spread = wanted.var(correction=0)
    if spread > 1e-6:
        close(plain.explained_variance, 1 - ((wanted - now).var(correction=0) / spread).item())
