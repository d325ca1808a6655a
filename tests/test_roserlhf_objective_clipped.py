"""Dual clip and the divergence from a reference in `clipped_policy_loss`: PPO, GRPO, DAPO and Dr. GRPO as settings of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from cases_objective import close, counted, gradient, logs, tensor

from rosellm.roserlhf.errors import DtypeError, RangeError, ShapeError
from rosellm.roserlhf.losses import clipped_policy_loss

ones = tensor([[1] * 4])


def test_dual_clip_bounds_what_a_bad_token_costs() -> None:
    # A = -1, bounds 0.8 and 1.2, c = 3: the clip stops the first at -0.8, the dual clip the last two at -3
    ratios = [0.5, 1.5, 2.9, 3.1, 10.0]
    current, mask = logs([ratios]), tensor([[1] * 5])
    out = clipped_policy_loss(current, tensor([[0.0] * 5]), tensor([[-1.0] * 5]), mask, dual_clip=3.0, aggregation="sequence_sum")
    close(-out.token_loss.detach(), [[-0.8, -1.5, -2.9, -3.0, -3.0]])
    close(gradient(-out.loss, current), [[0.0, -1.5, -2.9, 0.0, 0.0]])
    assert counted(out.partials["dual_clip_fraction"]) == (2, 5)
    assert "dual_clip_fraction" not in clipped_policy_loss(current, tensor([[0.0] * 5]), tensor([[-1.0] * 5]), mask).partials


def test_dual_clip_leaves_positive_and_zero_advantages_alone() -> None:
    current = logs([[10.0, 10.0, 0.1, 4.0]])
    args = (current, tensor([[0.0] * 4]), tensor([[1.0, 0.0, -1.0, -1.0]]), ones)
    out, plain = clipped_policy_loss(*args, dual_clip=4.0), clipped_policy_loss(*args)
    assert out.token_loss.tolist() == plain.token_loss.tolist()
    assert out.partials["dual_clip_fraction"].sum == 0  # a ratio exactly on the bound is not beyond it


@pytest.mark.parametrize("bound", [1.0, 0.5, math.inf, math.nan])
def test_dual_clip_must_be_above_one(bound: float) -> None:
    with pytest.raises(RangeError, match=r"dual_clip must be in \(1, inf\), got"):
        clipped_policy_loss(logs([[1.0]]), tensor([[0.0]]), tensor([[1.0]]), tensor([[1]]), dual_clip=bound)


# ---- GRPO as printed: sequence means of the surrogate less beta * k3

LN2 = math.log(2.0)


def grpo(estimator: Any, **how: Any) -> tuple[Any, torch.Tensor]:
    """One response of two tokens with A = 1, one of one token with A = -2; the policy is at ratio 1, reference half or double."""
    current = tensor([[-1.0, -1.0], [-1.0, 0.0]], grad=True)
    reference = tensor([[-1.0 - LN2, -1.0], [-1.0 + LN2, 0.0]])  # l = log 2, 0, -log 2
    out = clipped_policy_loss(
        current,
        current.detach(),
        tensor([1.0, -2.0]),
        tensor([[1, 1], [1, 0]]),
        reference_logprobs=reference,
        kl_coefficient=0.5,
        kl_estimator=estimator,
        **how,
    )
    return out, current


@pytest.mark.filterwarnings("ignore:the expected gradient")
def test_grpo_as_printed() -> None:
    # k3 = e^-l - 1 + l: 1/2 - 1 + log 2 = 0.19315, 0, 2 - 1 - log 2 = 0.30685
    k3 = [LN2 - 0.5, 0.0, 1.0 - LN2]
    out, current = grpo("k3", aggregation="sequence_mean")
    close(-out.token_loss.detach(), [[1 - k3[0] / 2, 1.0], [-2 - k3[2] / 2, 0.0]])
    close(out.objective, ((1 - k3[0] / 2 + 1) / 2 + (-2 - k3[2] / 2)) / 2)
    # d/dl = A - beta (1 - e^-l): 1 - 1/4, 1, -2 + 1/2, weighted 1/4, 1/4, 1/2
    close(gradient(-out.loss, current), [[0.75 / 4, 1 / 4], [-1.5 / 2, 0.0]])
    close(out.partials["reference_kl"].mean(), sum(k3) / 3)
    token, _ = grpo("k3", aggregation="token")
    close(token.objective, (2 - k3[0] / 2 - 2 - k3[2] / 2) / 3)  # -0.08333, where the printed mean of means is -0.60086
    assert out.objective.item() == pytest.approx(-0.60086, abs=1e-5)


def test_the_straight_through_estimator_has_the_value_of_k3_and_the_gradient_of_k2() -> None:
    with pytest.warns(UserWarning, match=r"expected gradient of estimator='k3' as a loss is that of the forward KL"):
        k3, _ = grpo("k3")
    out, current = grpo("k3_k2_gradient")
    close(out.loss, k3.loss.item())
    # A - beta l, each over 3 tokens
    close(gradient(-out.loss, current), [[(1 - LN2 / 2) / 3, 1 / 3], [(-2 + LN2 / 2) / 3, 0.0]])


@pytest.mark.filterwarnings("ignore:the expected gradient")
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3", "k3_k2_gradient"])
def test_a_policy_far_from_the_reference_stays_finite(estimator: Any) -> None:
    current = torch.tensor([[-120.0, 0.0]], requires_grad=True)
    out = clipped_policy_loss(
        current,
        current.detach(),
        torch.zeros(1, 2),
        torch.ones(1, 2),
        reference_logprobs=torch.tensor([[0.0, -120.0]]),
        kl_coefficient=1.0,
        kl_estimator=estimator,
    )
    assert out.loss.isfinite()
    assert torch.autograd.grad(out.loss, current)[0].isfinite().all()
    assert out.partials["reference_kl_clamped_fraction"].sum == (1 if "k3" in estimator else 0)


def test_an_argument_that_nothing_reads_is_an_error() -> None:
    current, old, advantages, mask = tensor([[-1.0]], grad=True), tensor([[-1.0]]), tensor([[1.0]]), tensor([[1]])

    def run(**how: Any) -> None:
        clipped_policy_loss(current, old, advantages, mask, **how)

    with pytest.raises(RangeError, match=r"kl_coefficient must be above 0 where reference_logprobs are given, got 0\.0"):
        run(reference_logprobs=old)
    with pytest.raises(RangeError, match=r"reference_logprobs must be given with kl_coefficient and kl_estimator, got None"):
        run(kl_coefficient=0.1)
    with pytest.raises(RangeError, match=r"reference_logprobs must be given with"):
        run(kl_estimator="k2")
    with pytest.raises(RangeError, match="kl_estimator must be one of 'k1', 'k2', 'k3', 'k3_k2_gradient', got 'k4'"):
        run(reference_logprobs=old, kl_coefficient=0.1, kl_estimator="k4")
    with pytest.raises(RangeError, match=r"kl_coefficient must be in \[0, inf\), got -1"):
        run(reference_logprobs=old, kl_coefficient=-1)
    with pytest.raises(ShapeError, match="reference_logprobs must have the shape of action_mask"):
        run(reference_logprobs=old[0], kl_coefficient=0.1)
    with pytest.raises(DtypeError, match="reference_logprobs must be a floating-point tensor"):
        run(reference_logprobs=mask, kl_coefficient=0.1)


def test_the_reference_gets_no_gradient() -> None:
    reference = tensor([[-1.5]], grad=True)
    out = clipped_policy_loss(
        tensor([[-1.0]], grad=True),
        tensor([[-1.0]]),
        tensor([[1.0]]),
        tensor([[1]]),
        reference_logprobs=reference,
        kl_coefficient=0.1,
        kl_estimator="k2",
    )
    out.loss.backward()
    assert reference.grad is None


def test_token_and_sample_level_of_dapo_can_have_opposite_signs() -> None:
    # surrogates 1/2 four times, and -1 once: 1 / 5 over tokens, (1/2 - 1) / 2 over responses
    current, mask = tensor([[0.0] * 4] * 2), tensor([[1, 1, 1, 1], [1, 0, 0, 0]])
    args = (current, current, tensor([0.5, -1.0]), mask)
    close(clipped_policy_loss(*args, clip_high=0.28).objective, 0.2)
    close(clipped_policy_loss(*args, clip_high=0.28, aggregation="sequence_mean").objective, -0.25)
