"""Divergence from a reference: sampled estimates and their expected gradients by enumeration, in the reward, exact."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import oracles_corrections as oracles
import pytest
import torch
from cases_objective import DEVICE, close, counted, gradient, raises, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rosellm.roserlhf import errors
from rosellm.roserlhf.losses import exact_kl, kl_estimate, kl_loss, kl_penalty, masked_mean

ESTIMATORS: Any = ("k1", "k2", "k3", "k3_k2_gradient")
SURPRISING = pytest.mark.filterwarnings("ignore:the expected gradient")


def test_one_token_by_hand() -> None:
    """l = -1 + 2 = 1: k1 = 1, k2 = 1 / 2, k3 = e^-1 - 1 + 1 = 0.367879."""
    current, reference = tensor([-1.0]), tensor([-2.0])
    seen = [kl_estimate(current, reference, estimator=name).item() for name in ESTIMATORS]
    close(seen, [1.0, 0.5, math.exp(-1), math.exp(-1)])


@SURPRISING
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_values_and_slopes_of_the_reference_case(estimator: Any) -> None:
    ratios = [-1.0, -0.1, 0.0, 0.1, 1.0]
    current = tensor(ratios, grad=True)
    estimate = kl_estimate(current, torch.zeros_like(current), estimator=estimator)
    close(estimate.detach(), [oracles.kl_value(ratio, estimator) for ratio in ratios])
    close(gradient(estimate.sum(), current), [oracles.kl_slope(ratio, estimator) for ratio in ratios])


# Expected gradients, by enumeration over a vocabulary of four.

THETA, REFERENCE, BEHAVIOR = [0.2, -0.4, 0.7, 0.1], [-0.3, 0.5, 0.1, 0.4], [0.6, 0.0, -0.2, 0.3]


def _kl(p: Tensor, q: Tensor) -> Tensor:
    return (p * (p.log() - q.log())).sum()


def _expected_gradient(token_loss: Callable[[Tensor], Tensor], weights: Tensor, theta: Tensor) -> Tensor:
    """Mean over sampled tokens of the derivative of a token's loss: the sampling itself is not differentiated."""
    return torch.autograd.grad((weights * token_loss(theta.log_softmax(0))).sum(), theta)[0]


def _divergences() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    theta, reference = tensor(THETA, grad=True), tensor(REFERENCE).softmax(0)
    policy = theta.softmax(0)
    reverse = torch.autograd.grad(_kl(policy, reference), theta, retain_graph=True)[0]
    forward = torch.autograd.grad(_kl(reference, policy), theta)[0]
    return theta, reference, reverse, forward


@SURPRISING
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_expected_gradient_as_a_loss(estimator: Any) -> None:
    theta, reference, reverse, forward = _divergences()
    seen = _expected_gradient(
        lambda current: kl_estimate(current, reference.log(), estimator=estimator), theta.detach().softmax(0), theta
    )
    wanted = {"k1": torch.zeros_like(reverse), "k2": reverse, "k3": forward, "k3_k2_gradient": reverse}[estimator]
    torch.testing.assert_close(seen, wanted, rtol=0, atol=1e-12)
    assert (reverse - forward).abs().max() > 0.05  # the two are far apart, so the test can tell them apart


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_with_behaviour_logprobs_every_estimator_has_the_right_expected_gradient(estimator: Any) -> None:
    """Tokens from another policy, weighted; k1 and k3 do not warn (warnings are errors here)."""
    theta, reference, reverse, _ = _divergences()
    behaviour = tensor(BEHAVIOR).softmax(0)

    def loss(current: Tensor) -> Tensor:
        return kl_loss(
            current, reference.log(), torch.ones_like(current), estimator=estimator, behaviour_logprobs=behaviour.log()
        ).token_loss

    torch.testing.assert_close(_expected_gradient(loss, behaviour, theta), reverse, rtol=0, atol=1e-12)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_expected_gradient_in_the_reward(estimator: Any) -> None:
    """The score function times minus the charge, which is not differentiated."""
    theta, reference, reverse, forward = _divergences()
    policy = theta.softmax(0)
    charge = -kl_penalty(
        torch.zeros_like(reference), policy.log(), reference.log(), torch.ones_like(reference), coefficient=1.0, estimator=estimator
    )
    assert not charge.requires_grad
    seen = _expected_gradient(lambda current: charge * current, policy.detach(), theta)
    second_moment = (policy * (policy.log() - reference.log()).square() / 2).sum()
    near = torch.autograd.grad(second_moment, theta)[0]
    wanted = {"k1": reverse, "k2": near - reverse, "k3": reverse - forward}[estimator]
    torch.testing.assert_close(seen, wanted, rtol=0, atol=1e-12)


def test_expected_values() -> None:
    theta, reference, _, _ = _divergences()
    policy = theta.detach().softmax(0)
    means = {n: (policy * kl_estimate(policy.log(), reference.log(), estimator=n)).sum().item() for n in ESTIMATORS}
    exact = _kl(policy, reference).item()
    assert means["k1"] == pytest.approx(exact, abs=1e-15)
    assert means["k3"] == means["k3_k2_gradient"] == pytest.approx(exact, abs=1e-15)
    assert abs(means["k2"] - exact) > 1e-3
    assert exact_kl(theta.detach(), reference.log()).item() == pytest.approx(exact, abs=1e-15)


def test_expected_values_of_four_tokens() -> None:
    policy, reference = tensor([0.3, -0.2, 0.1, 0.6]).softmax(0), tensor([-0.1, 0.4, 0.2, 0.0]).softmax(0)
    means = [(policy * kl_estimate(policy.log(), reference.log(), estimator=n)).sum().item() for n in ("k1", "k2", "k3")]
    assert means == pytest.approx([0.103954, 0.100476, 0.103954], abs=1e-6)


# As a loss.


def test_loss_by_hand() -> None:
    """l = 1 and -1, one masked: k2 1/2 and 1/2, mean 1/2, gradient l / 2; the straight-through value is k3: e^-1 and e - 2."""
    current, reference, mask = tensor([[-1.0, -3.0, 5.0]], grad=True), tensor([[-2.0, -2.0, math.nan]]), tensor([[1, 1, 0]])
    squared, straight = kl_loss(current, reference, mask, estimator="k2"), kl_loss(current, reference, mask)
    close([squared.loss.item(), straight.loss.item()], [0.5, (math.exp(-1) + math.e - 2) / 2])
    for out in (squared, straight):
        close(gradient(out.loss, current), [[0.5, -0.5, 0.0]])
        assert out.token_loss[0, 2] == 0
        assert out.objective == -out.loss
        assert not out.objective.requires_grad
        close(out.kl, out.loss.item())


@SURPRISING
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("weighted", [False, True])
@settings(derandomize=True, max_examples=25, deadline=None)
@given(
    rows=st.lists(st.lists(st.tuples(*[st.floats(-6, 0)] * 3, st.integers(0, 1)), min_size=3, max_size=3), min_size=1, max_size=3)
)
def test_loss_equals_the_oracle(estimator: Any, weighted: bool, rows: list[list[tuple[float, float, float, int]]]) -> None:
    current, reference, behaviour, mask = (tensor([[token[k] for token in row] for row in rows]) for k in range(4))
    current.requires_grad_()
    live = [token for row in rows for token in row if token[3]]
    out = kl_loss(
        current,
        reference,
        mask,
        estimator=estimator,
        behaviour_logprobs=behaviour if weighted else None,
        denominator=float(max(len(live), 1)),
    )
    found = [
        [oracles.kl_value_and_slope(c - r, c - b if weighted else None, estimator) if m else (0.0, 0.0) for c, r, b, m in row]
        for row in rows
    ]
    close(out.token_loss.detach(), [[value for value, _ in row] for row in found])
    close(gradient(out.loss, current), [[slope / max(len(live), 1) for _, slope in row] for row in found])
    close(counted(out.partials["kl"]), (sum(value for row in found for value, _ in row), float(len(live))))


def test_importance_weighted_k3_of_the_reference_case() -> None:
    ratios, weights = [0.2, -0.3], [1.1051709180756477, 0.9048374180359595]
    current = tensor([ratios], grad=True)
    behaviour = current.detach() - tensor([weights]).log()
    out = kl_loss(current, torch.zeros_like(current), tensor([[1, 1]]), estimator="k3", behaviour_logprobs=behaviour)
    close(out.token_loss.detach(), [[0.020700683575441445, 0.04511411471342247]])
    close(gradient(out.token_loss.sum(), current), [[w * ratio for w, ratio in zip(weights, ratios, strict=True)]])
    close(out.partials["mean_ratio"].mean(), sum(weights) / 2)


@pytest.mark.parametrize("estimator", ["k2", "k3_k2_gradient"])
def test_loss_takes_every_layout(estimator: Any) -> None:
    """Sequences [1, 3] and [2]: mean of sequence means over padded rows, over boundaries and over positions."""
    padded = kl_loss(
        tensor([[-1.0, -3.0], [-2.0, math.inf]]),
        tensor([[-2.0] * 2] * 2),
        tensor([[1, 1], [1, 0]]),
        estimator=estimator,
        aggregation="sequence_mean",
    )
    packed, reference, ones = tensor([-1.0, -3.0, -2.0]), tensor([-2.0] * 3), tensor([1, 1, 1])
    for layout in ({"cu_seqlens": tensor([0, 2, 3])}, {"position_ids": tensor([0, 1, 0])}, {"sequence_ids": tensor([4, 4, 1])}):
        out = kl_loss(packed, reference, ones, estimator=estimator, aggregation="sequence_mean", **layout)  # type: ignore[arg-type]
        close(out.loss, padded.loss.item())


def test_gradients_by_finite_differences() -> None:
    current, reference, behaviour = tensor([[-1.0, -2.5]], grad=True), tensor([[-1.5, -1.0]]), tensor([[-0.8, -2.0]])
    ones = torch.ones_like(reference)
    assert torch.autograd.gradcheck(lambda c: kl_loss(c, reference, ones, estimator="k2").loss, (current,))
    attached = functools.partial(kl_loss, action_mask=ones, estimator="k3", behaviour_logprobs=behaviour)
    assert torch.autograd.gradcheck(lambda c: attached(c, reference).loss, (current,))
    logits, other = tensor([[0.3, -0.2, 1.0]], grad=True), tensor([[0.1, 0.4, -0.5]])
    assert torch.autograd.gradcheck(lambda z: exact_kl(z, other, temperature=0.7), (logits,))


# The warning.


@pytest.mark.parametrize(("estimator", "truth"), [("k1", "is 0"), ("k3", r"forward KL\(ref \|\| pi\)")])
def test_differentiating_a_surprising_estimator_warns_where_it_is_called(estimator: Any, truth: str) -> None:
    current, reference, ones = tensor([[-1.0]], grad=True), tensor([[-2.0]]), tensor([[1]])
    for call in (
        lambda: kl_loss(current, reference, ones, estimator=estimator),
        lambda: kl_estimate(current, reference, estimator=estimator),
    ):
        with pytest.warns(UserWarning, match=truth) as caught:
            call()
        assert caught[0].filename == __file__


def test_the_warning_comes_once_per_line_that_calls() -> None:
    current, reference, ones = tensor([[-1.0]], grad=True), tensor([[-2.0]]), tensor([[1]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        warnings.simplefilter("default")
        for _ in range(3):
            kl_loss(current, reference, ones, estimator="k3")
    assert len(caught) == 1


def test_measuring_does_not_warn() -> None:
    current, reference, ones = tensor([[-1.0]], grad=True), tensor([[-2.0]]), tensor([[1]])
    kl_loss(current.detach(), reference, ones, estimator="k3")
    with torch.no_grad():
        kl_loss(current, reference, ones, estimator="k1")
    kl_loss(current, reference, ones)


# In the reward.


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_penalty_equals_the_oracle(estimator: Any) -> None:
    rewards, behaviour, reference = [[0.5, 0.0, 1.0], [0.0, 2.0, 0.0]], [[-1.0, -2.0, -0.5], [-3.0, -1.0, -1.0]], [[-2.0] * 3] * 2
    mask = [[1, 0, 1], [1, 1, 0]]
    seen = kl_penalty(tensor(rewards), tensor(behaviour), tensor(reference), tensor(mask), coefficient=0.3, estimator=estimator)
    close(seen, oracles.kl_charged(rewards, behaviour, reference, mask, 0.3, estimator))


def test_R35_environment_tokens_add_no_kl() -> None:
    """Action, tool, action with log-ratios 0, 10, 0 and coefficient 0.1: the returns of the actions are 1, the mean KL is 0."""
    behaviour, reference, mask = tensor([-1.0, -1.0, -1.0]), tensor([-1.0, -11.0, -1.0]), tensor([True, False, True])
    rewards = kl_penalty(tensor([0.0, 0.0, 1.0]), behaviour, reference, mask, coefficient=0.1)
    returns = rewards.flip(0).cumsum(0).flip(0)
    assert returns[mask].tolist() == [1.0, 1.0]
    assert masked_mean(kl_estimate(behaviour, reference, mask, estimator="k1"), mask) == 0


def test_penalty_leaves_other_rewards_as_they_are() -> None:
    rewards, junk = tensor([1.0, 7.0, math.nan]), tensor([-1.0, math.nan, math.inf])
    seen = kl_penalty(rewards, junk, tensor([-2.0, -2.0, -2.0]), tensor([1, 0, 0]), coefficient=0.5)
    assert seen[:2].tolist() == [0.5, 7.0]
    assert seen[2].isnan()


# Field reports and extremes.


@SURPRISING
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("value", "wanted"), [(-120.0, math.expm1(20.0) - 20), (120.0, 119.0)])
@pytest.mark.filterwarnings("ignore:current_logprobs should be float32", "ignore:reference_logprobs should be float32")
def test_R32_k3_is_bounded_before_the_exponential(dtype: torch.dtype, value: float, wanted: float) -> None:
    current, zero, ones = tensor([[value]], grad=True, dtype=dtype), tensor([[0.0]], dtype=dtype), tensor([[1]])
    out = kl_loss(current, zero, ones, estimator="k3")
    assert out.loss.item() == pytest.approx(wanted, rel=1e-6)
    assert gradient(out.loss, current) == [[0.0 if value < 0 else 1.0]]
    assert counted(out.partials["log_ratio_clamped_fraction"]) == (float(value < 0), 1.0)
    straight = kl_loss(current, zero, ones)
    assert straight.loss == out.loss
    assert gradient(straight.loss, current) == [[value]]  # the penalty does not let go where it is needed most


def test_R32_values_within_ten_are_unchanged() -> None:
    ratios = torch.linspace(-10, 10, 401, device=DEVICE)
    seen = kl_estimate(ratios, torch.zeros_like(ratios), estimator="k3")
    wanted = torch.expm1(-ratios.double()) + ratios.double()
    torch.testing.assert_close(seen.double(), wanted, rtol=1e-6, atol=1e-6)


def test_R33_sign_and_direction_of_the_penalty() -> None:
    """A larger coefficient lowers the chance of a token that the reference finds less likely; swapped, k3 would be 0.71828."""
    current, reference, ones = tensor([[-1.0]], grad=True), tensor([[-2.0]]), tensor([[1]])
    assert gradient(kl_loss(current, reference, ones).loss, current)[0][0] > 0
    charged = [
        kl_penalty(tensor([0.0]), tensor([-1.0]), tensor([-2.0]), tensor([1]), coefficient=beta).item() for beta in (0.1, 0.5)
    ]
    assert charged == [-0.1, -0.5]
    assert kl_estimate(reference, current, estimator="k3").item() == pytest.approx(0.71828, abs=1e-5)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.floats(-60, 60, width=32), min_size=1, max_size=20))
def test_k3_is_never_negative(ratios: list[float]) -> None:
    near = torch.tensor([*ratios, *(r * 1e-6 for r in ratios)], device=DEVICE)
    for estimator in ("k3", "k3_k2_gradient"):
        assert (kl_estimate(near, torch.zeros_like(near), estimator=estimator) >= 0).all()


def test_huge_finite_log_ratios_stay_finite() -> None:
    current = torch.tensor([[-1e30, 1e30]], device=DEVICE, requires_grad=True)
    out = kl_loss(current, torch.zeros_like(current), torch.ones_like(current))
    assert out.loss.isfinite()
    assert torch.autograd.grad(out.loss, current)[0].isfinite().all()


@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf, 1e30])
def test_masked_positions_hold_anything(junk: float) -> None:
    current, reference = tensor([[-1.0, junk]], grad=True), tensor([[-2.0, junk]])
    out = kl_loss(current, reference, tensor([[1, 0]]), behaviour_logprobs=tensor([[-1.0, junk]]))
    close(gradient(out.loss, current), [[1.0, 0.0]])
    close(kl_estimate(current.detach(), reference, tensor([[1, 0]]), estimator="k1"), [[1.0, 0.0]])
    logits = tensor([[0.3, 0.1], [junk, junk]], grad=True)
    exact = exact_kl(logits, tensor([[0.0, 0.0], [junk, junk]]), tensor([1, 0]))
    assert exact[1] == 0
    seen = torch.autograd.grad(exact.sum(), logits)[0]
    assert seen.isfinite().all()
    assert seen[1].tolist() == [0.0, 0.0]


# The exact sum.


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("support", [[1, 1, 1, 1], [1, 0, 1, 1], [0, 0, 1, 0]])
def test_exact_kl_equals_the_oracle(temperature: float, support: list[int]) -> None:
    logits = tensor([z if kept else math.nan for z, kept in zip(THETA, support, strict=True)], grad=True)
    reference = tensor([z if kept else -math.inf for z, kept in zip(REFERENCE, support, strict=True)])
    seen = exact_kl(logits, reference, temperature=temperature, support=tensor(support))
    close(seen.detach(), oracles.kl_exact(THETA, REFERENCE, temperature, support))
    slopes = torch.autograd.grad(seen, logits)[0]
    assert slopes.isfinite().all()
    assert all(slope == 0 for slope, kept in zip(slopes.tolist(), support, strict=True) if not kept)


def test_exact_kl_of_equal_distributions_is_zero_and_half_precision_is_upcast() -> None:
    logits = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).to(DEVICE, torch.bfloat16)
    seen = exact_kl(logits, logits)
    assert seen.dtype == torch.float32
    assert (seen == 0).all()
    assert (exact_kl(logits, logits + 1e-2) >= 0).all()


def test_gradient_of_the_exact_sum_is_that_of_the_straight_through_mean() -> None:
    theta, reference, reverse, _ = _divergences()
    torch.testing.assert_close(torch.autograd.grad(exact_kl(theta, reference.log()), theta)[0], reverse, rtol=0, atol=1e-12)


def test_optimum_of_the_regularised_reward() -> None:
    """pi* = ref exp(r / beta) / Z: with these rewards and beta 0.7 the value is beta log Z = 1.411354 and the gradient vanishes."""
    reference, rewards, beta = tensor([0.5, 0.3, 0.2]), tensor([1.0, 2.0, 0.0]), 0.7
    logits = (reference.log() + rewards / beta).requires_grad_()
    policy = logits.softmax(0)
    close(policy.detach(), [0.2778163059036854, 0.6955521078362171, 0.02663158626009746])
    value = (policy * rewards).sum() - beta * exact_kl(logits, reference.log())
    assert value.item() == pytest.approx(1.4113535812868867, abs=1e-12)
    close(gradient(value, logits), [0.0, 0.0, 0.0])


# Bad input.


def test_bad_input_is_named() -> None:
    logprobs, ones = tensor([[-1.0, -2.0]]), tensor([[1, 1]])
    with raises(errors.RangeError, "estimator must be one of 'k1', 'k2'"):
        kl_estimate(logprobs, logprobs, estimator="k4")  # type: ignore[arg-type]
    with raises(errors.RangeError, "estimator must be one of 'k1', 'k2', 'k3', got 'k3_k2_gradient'"):
        kl_penalty(logprobs, logprobs, logprobs, ones, coefficient=0.1, estimator="k3_k2_gradient")  # type: ignore[arg-type]
    with raises(errors.RangeError, "coefficient must be in"):
        kl_penalty(logprobs, logprobs, logprobs, ones, coefficient=-0.1)
    with raises(errors.NonFiniteError, "reference_logprobs must be finite"):
        kl_loss(logprobs, tensor([[-1.0, -math.inf]]), ones)
    with raises(errors.NonFiniteError, "behaviour_logprobs must be finite"):
        kl_loss(logprobs, logprobs, ones, behaviour_logprobs=tensor([[-1.0, -math.inf]]))
    with raises(errors.NonFiniteError, "rewards must be finite"):
        kl_penalty(tensor([[math.nan, 0.0]]), logprobs, logprobs, ones, coefficient=0.1)
    with raises(errors.MaskError, "empty mask"):
        kl_loss(logprobs, logprobs, tensor([[0, 0]]))
    with raises(errors.ArgumentError, "did you mean sequence_ids"):
        kl_loss(logprobs, logprobs, ones, sequence_id=ones)  # type: ignore[call-arg]
    with raises(errors.MaskError, "support must select a token at every live position"):
        exact_kl(logprobs, logprobs, support=tensor([[0, 0]]))
    with raises(errors.ShapeError, "support must have the shape of logits"):
        exact_kl(logprobs, logprobs, support=ones[0])
    with raises(errors.NonFiniteError, "logits must be finite"):
        exact_kl(tensor([[0.0, -math.inf]]), logprobs)
    with raises(errors.RangeError, "temperature must be in"):
        exact_kl(logprobs, logprobs, temperature=0.0)


def test_an_empty_micro_batch_with_a_denominator_is_a_zero_in_the_graph() -> None:
    current = tensor([[-1.0, -2.0]], grad=True)
    out = kl_loss(current, current.detach(), tensor([[0, 0]]), denominator=4.0)
    assert out.loss == 0
    assert gradient(out.loss, current) == [[0.0, 0.0]]


@SURPRISING
@pytest.mark.parametrize("estimator", ["k3", "k3_k2_gradient"])
def test_compiles_without_a_break(estimator: Any) -> None:
    current, reference = torch.randn(2, 5, device=DEVICE, requires_grad=True), torch.randn(2, 5, device=DEVICE)
    ones = torch.ones(2, 5, dtype=torch.bool, device=DEVICE)
    call = functools.partial(
        kl_loss, reference_logprobs=reference, action_mask=ones, estimator=estimator, behaviour_logprobs=reference
    )
    compiled = torch.compile(lambda c: call(c).loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(current), call(current).loss)
