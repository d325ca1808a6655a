"""Preference losses: hand arithmetic, extreme margins, gradients, sums of tokens, micro-batches, bad input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import oracles_distillation as oracles
import pytest
import torch
from cases_objective import DEVICE, close, counted, gradient, raises, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rosellm.roserlhf.errors import MaskError, NonFiniteError, RangeError, ShapeError
from rosellm.roserlhf.losses import PreferenceLossOutput, dpo_loss, ipo_loss, response_logprobs

LOSSES: dict[str, Callable[..., PreferenceLossOutput]] = {
    "dpo": dpo_loss,
    "dpo, smoothed": lambda *pairs, **how: dpo_loss(*pairs, label_smoothing=0.1, **how),
    "ipo": ipo_loss,
}


def pairs(margins: list[float], *, grad: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pairs whose policy prefers the chosen response by these log-ratios."""
    zero = tensor([0.0] * len(margins))
    return tensor(margins, grad=grad), zero.clone().requires_grad_(grad), zero, zero


def test_one_pair() -> None:
    # h = (-10 + 11) - (-12 + 11.5) = 1.5; loss = ln(1 + e^-.15) = .620957; gradient = -+ .1 sigma(-.15) = -+ .046257
    batch = [tensor([x], grad=True) for x in (-10.0, -12.0, -11.0, -11.5)]
    out = dpo_loss(*batch)
    close(out.loss, 0.6209570477895321)
    slopes = torch.autograd.grad(out.loss, batch, allow_unused=True)
    close(slopes[0], [-0.04625701546562505])
    close(slopes[1], [0.04625701546562505])
    assert slopes[2] is None
    assert slopes[3] is None
    close(out.chosen_reward, 0.1)
    close(out.rejected_reward, -0.05)
    close(out.margin, 0.15)
    assert out.accuracy == 1
    # .9 ln(1 + e^-.15) + .1 ln(1 + e^.15)
    close(dpo_loss(*batch, label_smoothing=0.1).loss, 0.6359570477895321)
    # (1.5 - 5)^2 and its slope 2 (1.5 - 5)
    out = ipo_loss(*batch)
    close(out.loss, 12.25)
    close(gradient(out.loss, batch[0]), [-7.0])


def test_equal_margins_give_log_2_and_are_not_correct() -> None:
    out = dpo_loss(*pairs([0.0, 0.0]))
    close(out.loss, math.log(2))
    assert out.accuracy == 0
    assert counted(dpo_loss(*pairs([0.0, 1.0, -1.0])).partials["accuracy"]) == (1.0, 3.0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_R60_large_margins_are_finite(dtype: torch.dtype) -> None:
    # beta h = -100, 0, 100: losses 100, ln 2, e^-100; slopes by the margin -.1 sigma(-beta h) = -.1, -.05, ~0
    chosen = torch.tensor([-1000.0, 0.0, 1000.0], dtype=dtype, device=DEVICE, requires_grad=True)
    zero = torch.zeros(3, dtype=dtype, device=DEVICE)
    out = dpo_loss(chosen, zero, zero, zero)
    assert out.pair_loss[:2].tolist() == pytest.approx([100.0, 0.6931471805599453], rel=1e-6)
    assert 0 <= out.pair_loss[2] <= 1e-30
    slopes = torch.autograd.grad(out.pair_loss.sum(), chosen)[0].tolist()
    assert slopes == pytest.approx([-0.1, -0.05, 0.0], abs=1e-8)
    smoothed = dpo_loss(chosen, zero, zero, zero, label_smoothing=0.1)
    assert smoothed.pair_loss.tolist() == pytest.approx([90.0, 0.6931471805599453, 10.0], rel=1e-6)


def test_R60_in_half_precision_it_says_what_rounding_costs() -> None:
    chosen, zero = torch.tensor([-1000.0, 1000.0], device=DEVICE).bfloat16(), torch.zeros(2, device=DEVICE)
    with pytest.warns(UserWarning, match=r"policy_chosen_logprobs should be float32, got torch.bfloat16: .* off by up to 2,"):
        out = dpo_loss(chosen, zero, zero, zero)
    assert out.pair_loss.dtype == torch.float32
    assert out.pair_loss.isfinite().all()


@given(st.floats(-300, 300), st.floats(0.01, 3), st.floats(0, 0.49))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_against_the_formula(difference: float, beta: float, smoothing: float) -> None:
    batch = pairs([difference], grad=True)
    out = dpo_loss(*batch, beta=beta, label_smoothing=smoothing)
    loss, slope = oracles.dpo(beta * difference, smoothing)
    assert out.loss.item() == pytest.approx(loss, rel=1e-9, abs=1e-12)
    at_chosen, at_rejected = torch.autograd.grad(out.loss, batch[:2])
    assert at_chosen.item() == pytest.approx(beta * slope, rel=1e-9, abs=1e-12)
    assert at_rejected.item() == -at_chosen.item()


def test_smoothing_has_a_finite_optimum() -> None:
    # sigma(beta h) = 1 - eps, so h = ln(9) / beta for eps = .1
    batch = pairs([math.log(9) / 0.1], grad=True)
    close(gradient(dpo_loss(*batch, label_smoothing=0.1).loss, batch[0]), [0.0])
    # and IPO's is 1 / (2 beta)
    batch = pairs([5.0], grad=True)
    close(gradient(ipo_loss(*batch).loss, batch[0]), [0.0])


@pytest.mark.parametrize("name", LOSSES)
def test_gradcheck(name: str) -> None:
    chosen, rejected = tensor([0.3, -2.0, 4.0], grad=True), tensor([0.1, 1.0, -0.7], grad=True)
    reference = tensor([0.2, 0.2, 0.2])
    assert torch.autograd.gradcheck(lambda a, b: LOSSES[name](a, b, reference, -reference).pair_loss, (chosen, rejected))


@pytest.mark.parametrize("name", LOSSES)
def test_micro_batches_add_up_in_any_order(name: str) -> None:
    batch = pairs([0.3, -2.0, 4.0, 0.0, 1.0], grad=True)
    whole = LOSSES[name](*batch)
    wanted = torch.autograd.grad(whole.loss, batch[:2])
    total = [torch.zeros_like(part) for part in wanted]
    partials: dict[str, Any] = {}
    for chosen in ([4, 0], [], [3], [1, 2]):
        out = LOSSES[name](*(part[chosen] for part in batch), denominator=5)
        for sum_, grad in zip(total, torch.autograd.grad(out.loss, batch[:2]), strict=True):
            sum_ += grad
        partials = {key: partials[key] + part if partials else part for key, part in out.partials.items()}
    torch.testing.assert_close(tuple(total), wanted)
    for key, partial in whole.partials.items():
        assert counted(partials[key]) == pytest.approx(counted(partial)), key
    torch.testing.assert_close(LOSSES[name](*batch, denominator=torch.tensor(5)).loss, whole.loss)


def test_an_empty_micro_batch_is_a_zero_in_the_graph() -> None:
    batch = pairs([], grad=True)
    out = dpo_loss(*batch, denominator=4)
    assert out.loss == 0
    assert torch.autograd.grad(out.loss, batch[0])[0].shape == (0,)
    assert out.accuracy.isnan()
    with raises(RangeError, "policy_chosen_logprobs must hold at least one pair, got none; pass denominator="):
        dpo_loss(*batch)


def test_responses_are_sums_or_means_of_their_tokens() -> None:
    tokens, mask = tensor([[-1.0, -2.0, math.nan], [-4.0, 7.0, -8.0]], grad=True), tensor([[1, 1, 0], [1, 0, 1]])
    close(response_logprobs(tokens, mask).detach(), [-3.0, -12.0])
    close(response_logprobs(tokens, mask, reduction="mean").detach(), [-1.5, -6.0])
    assert gradient(response_logprobs(tokens, mask).sum(), tokens) == [[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    assert gradient(response_logprobs(tokens, mask, reduction="mean").sum(), tokens) == [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]


def test_responses_packed_in_a_row() -> None:
    tokens, mask = tensor([-1.0, -2.0, math.inf, -4.0, -8.0]), tensor([1, 1, 0, 1, 1])
    boundaries = tensor([0, 3, 5])
    close(response_logprobs(tokens, mask, cu_seqlens=boundaries), [-3.0, -12.0])
    close(response_logprobs(tokens, mask, position_ids=tensor([0, 1, 2, 0, 1]), num_sequences=2), [-3.0, -12.0])
    close(response_logprobs(tokens, mask, sequence_ids=tensor([1, 1, 1, 0, 0]), num_sequences=2), [-12.0, -3.0])
    with raises(RangeError, "num_sequences must be given with sequence_ids or position_ids"):
        response_logprobs(tokens, mask, sequence_ids=tensor([1, 1, 1, 0, 0]))
    with raises(RangeError, "horizon must not be given"):
        response_logprobs(tokens, mask, horizon=3.0)


def test_a_response_without_tokens_is_an_error() -> None:
    with raises(MaskError, "select a token of every response"):
        response_logprobs(tensor([[-1.0], [-1.0]]), tensor([[1], [0]]))
    with raises(RangeError, "reduction must be one of 'sum', 'mean'"):
        response_logprobs(tensor([[-1.0]]), tensor([[1]]), reduction="average")  # type: ignore[arg-type]
    with raises(NonFiniteError, "token_logprobs must be finite"):
        response_logprobs(tensor([[math.nan]]), tensor([[1]]))


@pytest.mark.parametrize("name", LOSSES)
def test_each_is_one_graph(name: str) -> None:
    torch.compiler.reset()
    batch = pairs([0.3, -2.0])
    compiled = torch.compile(lambda *parts: LOSSES[name](*parts).loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*batch), LOSSES[name](*batch).loss)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"beta": 0.0}, RangeError, "beta"),
        ({"label_smoothing": 0.5}, RangeError, "label_smoothing"),
        ({"denominator": 0}, RangeError, "denominator"),
        ({"denominator": tensor([1.0, 2.0])}, ShapeError, "denominator must be one number"),
        (
            {"policy_chosen_logprobs": tensor([[0.0]])},
            ShapeError,
            r"policy_chosen_logprobs must have shape \[B\].*response_logprobs",
        ),
        ({"reference_rejected_logprobs": tensor([0.0, 1.0])}, ShapeError, "reference_rejected_logprobs must have the shape of"),
        ({"reference_chosen_logprobs": tensor([math.nan])}, NonFiniteError, "reference_chosen_logprobs must be finite"),
        ({"policy_rejected_logprobs": tensor([-math.inf])}, NonFiniteError, "policy_rejected_logprobs must be finite"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], error: type[Exception], match: str) -> None:
    names = ("policy_chosen_logprobs", "policy_rejected_logprobs", "reference_chosen_logprobs", "reference_rejected_logprobs")
    with raises(error, match):
        dpo_loss(**({name: tensor([0.0]) for name in names} | change))
