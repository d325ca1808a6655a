"""`total_variation_policy_loss` against hand arithmetic: how far a probability moved decides, not its ratio."""

from __future__ import annotations

import math

import pytest
import torch
from cases_objective import close, counted, gradient, tensor

from rosellm.roserlhf.errors import DtypeError, RangeError
from rosellm.roserlhf.losses import clipped_policy_loss, total_variation_policy_loss

ONES = tensor([[1] * 4])


def moved(now: list[float], before: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
    return tensor([now]).log().requires_grad_(), tensor([before]).log()


def test_a_token_is_dropped_when_it_moved_too_far_with_its_advantage() -> None:
    # changes +.5, +.5, -.5, -.5 with A = +, -, +, -: the first and the last went where they were pushed
    current, rollout = moved([0.75, 0.75, 0.25, 0.25], [0.25, 0.25, 0.75, 0.75])
    out = total_variation_policy_loss(current, rollout, tensor([[1.0, -1.0, 1.0, -1.0]]), ONES, aggregation="sequence_sum")
    assert out.trusted_mask.tolist() == [[False, True, True, False]]
    close(gradient(-out.loss, current), [[0.0, -3.0, 1 / 3, 0.0]])
    assert counted(out.partials["rejected_fraction"]) == (2, 4)
    assert counted(out.partials["rejected_fraction_positive"]) == counted(out.partials["rejected_fraction_negative"]) == (1, 2)
    close(out.mean_probability_change, 0.5)


def test_dropped_tokens_stay_in_the_denominator() -> None:
    current, rollout = moved([0.75, 0.5], [0.25, 0.5])
    out = total_variation_policy_loss(current, rollout, tensor([[1.0, 1.0]]), tensor([[1, 1]]))
    close(out.objective, 0.5)  # (0 + 1) / 2
    assert out.partials["objective"].count == 2


def test_a_move_exactly_as_large_as_the_bound_is_kept() -> None:
    # by 1/4 up and down, exact in binary up to the logarithm: the bounds are a rounding away on either side
    current, rollout = moved([0.5, 0.25], [0.25, 0.5])
    args = (current, rollout, tensor([[1.0, -1.0]]), tensor([[1, 1]]))
    assert total_variation_policy_loss(*args, max_increase=0.25 + 1e-15, max_decrease=0.25 + 1e-15).rejected_fraction == 0
    assert total_variation_policy_loss(*args, max_increase=0.25 - 1e-15, max_decrease=0.25 - 1e-15).rejected_fraction == 1


def test_it_is_not_a_clip_of_the_ratio() -> None:
    # 1e-4 -> 1e-3 has ratio 10 and has not moved; 0.9 -> 0.65 has ratio 0.72 and has; PPO says the opposite of both
    current, rollout = moved([1e-3, 0.65], [1e-4, 0.9])
    args = (current, rollout, tensor([[1.0, -1.0]]), tensor([[1, 1]]))
    assert total_variation_policy_loss(*args).trusted_mask.tolist() == [[True, False]]
    slopes = gradient(clipped_policy_loss(*args, clip_low=0.3, clip_high=0.3).loss, current)
    assert [slope != 0 for slope in slopes[0]] == [False, True]


def test_a_capped_ratio_has_the_gradient_of_the_cap() -> None:
    # ratios 10 and 1.5, cap 4
    current, rollout = moved([1e-3, 0.15], [1e-4, 0.1])
    args = (current, rollout, tensor([[1.0, 1.0]]), tensor([[1, 1]]))
    out = total_variation_policy_loss(*args, ratio_max=4.0, aggregation="sequence_sum")
    close(-out.token_loss.detach(), [[4.0, 1.5]])
    close(gradient(-out.loss, current), [[4.0, 1.5]])
    close(out.mean_ratio, 5.75)
    close(gradient(-total_variation_policy_loss(*args, aggregation="sequence_sum").loss, current), [[10.0, 1.5]])


def test_the_square_of_the_log_ratio_also_pulls_dropped_tokens_back() -> None:
    # l = log 3; objective -c l^2 with the gradient -2 c l
    current, rollout = moved([0.75], [0.25])
    out = total_variation_policy_loss(current, rollout, tensor([[1.0]]), tensor([[1]]), square_coefficient=1e-3)
    close(out.objective, -1e-3 * math.log(3) ** 2)
    close(gradient(-out.loss, current), [[-2e-3 * math.log(3)]])


def test_numbers_out_of_range() -> None:
    current, rollout = moved([0.5], [0.5])

    def run(**how: object) -> None:
        total_variation_policy_loss(current, rollout, tensor([[1.0]]), tensor([[1]]), **how)  # type: ignore[arg-type]

    for name in ("max_increase", "max_decrease"):
        for value in (-0.1, 1.1, math.nan):
            with pytest.raises(RangeError, match=rf"{name} must be in \[0, 1\], got"):
                run(**{name: value})
    with pytest.raises(RangeError, match=r"ratio_max must be in \(0, inf\), got 0"):
        run(ratio_max=0)
    with pytest.raises(DtypeError, match="square_coefficient must be a number"):
        run(square_coefficient="0")
