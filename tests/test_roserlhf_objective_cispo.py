"""`cispo_policy_loss` against hand arithmetic: clipped constant weights, no token without a gradient."""

from __future__ import annotations

import math

import pytest
import torch
from cases_objective import close, counted, gradient, logs, tensor

from rosellm.roserlhf.errors import DtypeError, RangeError
from rosellm.roserlhf.losses import cispo_policy_loss, clipped_policy_loss, reinforce_policy_loss

RATIOS, CREDIT, ONES, ZEROS = [[0.5, 1.0, 1.5, 4.0]], tensor([[1.0, -1.0, 1.0, -1.0]]), tensor([[1] * 4]), tensor([[0.0] * 4])


def test_every_token_keeps_the_gradient_of_its_clipped_weight() -> None:
    # cap 1.2: weights .5, 1, 1.2, 1.2; the objective is the mean of weight * A * log r:
    # (.5 * -.693147 - 0 + 1.2 * .405465 - 1.2 * 1.386294) / 4
    current = logs(RATIOS)
    out = cispo_policy_loss(current, ZEROS, CREDIT, ONES, ratio_max=1.2)
    close(out.objective, -0.380892173473511)
    close(gradient(-out.loss, current), [[0.125, -0.25, 0.3, -0.3]])
    close(out.mean_weight, (0.5 + 1.0 + 1.2 + 1.2) / 4)
    close(out.mean_ratio, 7.0 / 4)
    assert counted(out.partials["clip_fraction"]) == counted(out.partials["clip_fraction_above"]) == (2, 4)
    assert out.partials["clip_fraction_below"].sum == 0


def test_the_bounds_are_absolute() -> None:
    # clipping to [1 - low, 1 + high] with 0.2, 0.2 is ratio_min=0.8, ratio_max=1.2
    current = logs(RATIOS)
    out = cispo_policy_loss(current, ZEROS, CREDIT, ONES, ratio_min=0.8, ratio_max=1.2, aggregation="sequence_sum")
    close(gradient(-out.loss, current), [[0.8, -1.0, 1.2, -1.2]])
    assert counted(out.partials["clip_fraction_below"]) == (1, 4)


def test_a_ratio_on_a_bound_is_not_clipped() -> None:
    out = cispo_policy_loss(
        logs([[0.5, 1.25]]), tensor([[0.0] * 2]), tensor([[1.0] * 2]), tensor([[1] * 2]), ratio_min=0.5, ratio_max=1.25
    )
    assert out.clip_fraction == 0.0


def test_a_ratio_of_any_size_is_clipped_not_infinite() -> None:
    # float32: exp(1000) overflows; its weight is the cap and the token still learns
    current = torch.tensor([[0.0, -1000.0]], requires_grad=True)
    out = cispo_policy_loss(current, torch.tensor([[-1000.0, 0.0]]), torch.ones(1, 2), torch.ones(1, 2), ratio_max=1.2)
    assert torch.autograd.grad(-out.loss, current)[0].tolist() == pytest.approx(torch.tensor([[0.6, math.exp(-20) / 2]]))
    assert out.partials["log_ratio_clamped_fraction"].sum == 2
    assert out.mean_ratio.isfinite()


def test_at_ratio_one_it_is_reinforce() -> None:
    current = tensor([[-1.0, -0.3, -2.0, -0.1]], grad=True)
    out = cispo_policy_loss(current, current.detach(), CREDIT, ONES, ratio_max=1.2)
    plain = reinforce_policy_loss(current, CREDIT, ONES)
    close(out.loss, plain.loss.item())
    slopes = gradient(out.loss, current)
    assert slopes == gradient(plain.loss, current)
    close(slopes, gradient(clipped_policy_loss(current, current.detach(), CREDIT, ONES).loss, current))


def test_bounds_must_make_an_interval() -> None:
    def run(**bounds: object) -> None:
        cispo_policy_loss(ZEROS, ZEROS, CREDIT, ONES, **bounds)  # type: ignore[arg-type]

    with pytest.raises(RangeError, match=r"ratio_min must be in \[0, 1.2\], got 1.5"):
        run(ratio_max=1.2, ratio_min=1.5)
    with pytest.raises(RangeError, match=r"ratio_max must be in \(0, inf\), got 0"):
        run(ratio_max=0)
    with pytest.raises(DtypeError, match="ratio_max must be a number"):
        run(ratio_max=None)
    with pytest.raises(TypeError, match="ratio_max"):
        run()
    run(ratio_max=math.inf)
