"""`decoupled_policy_loss` and `log_linear_proximal` against hand arithmetic."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from cases_objective import close, counted, gradient, raises, tensor

from rosellm.roserlhf.errors import DtypeError, RangeError, ShapeError
from rosellm.roserlhf.losses import clipped_policy_loss, decoupled_policy_loss, log_linear_proximal

BEHAVIOR, PROXIMAL = tensor([[-1.0, -0.5, -2.0, -1.0]]), tensor([[-0.8, -0.6, -0.1, -1.0]])
CREDIT, ONES = tensor([[1.0, -1.0, 1.0, 1.0]]), tensor([[1] * 4])


def loss(**how: Any) -> tuple[Any, torch.Tensor]:
    current = tensor([[-0.7, -0.9, -0.1, -0.6]], grad=True)
    return decoupled_policy_loss(current, PROXIMAL, BEHAVIOR, CREDIT, ONES, clip_low=0.2, clip_high=0.2, **how), current


def test_a_stale_token_is_masked_and_stays_in_the_denominator() -> None:
    # b = e^.2, e^-.1, e^1.9 = 6.69, 1; surrogates e^.1, -.8, 1, 1.2; (1.22140 * 1.10517 - .90484 * .8 + 0 + 1.2) / 4
    out, current = loss(behaviour_cap=5.0)
    close(out.objective, 0.45649721828680884)
    close(gradient(-out.loss, current), [[0.3374647018940008, 0.0, 0.0, 0.0]])
    assert counted(out.partials["behaviour_cap_fraction"]) == (1, 4)
    close(out.mean_behaviour_weight, (1.2214027581601699 + 0.9048374180359596 + 1.0) / 4)
    close(out.partials["mean_behaviour_ratio"].mean(), (1.2214027581601699 + 0.9048374180359596 + 6.6858944422792685 + 1.0) / 4)


def test_without_a_cap_one_stale_token_outweighs_the_batch() -> None:
    out, _ = loss()
    close(out.objective, 2.127970828856626)
    assert out.behaviour_cap_fraction == 0.0


def test_a_truncated_weight_is_the_cap() -> None:
    out, current = loss(behaviour_cap=5.0, cap="truncate")
    close(out.objective, 0.45649721828680884 + 5.0 / 4)
    close(gradient(-out.loss, current), [[0.3374647018940008, 0.0, 5.0 / 4, 0.0]])


def test_a_weight_on_the_cap_is_kept() -> None:
    zeros = tensor([[0.0]])
    out = decoupled_policy_loss(zeros, zeros, zeros, tensor([[1.0]]), tensor([[1]]), clip_low=0.2, clip_high=0.2, behaviour_cap=1.0)
    assert out.objective == 1.0
    assert out.behaviour_cap_fraction == 0.0


def test_where_proximal_is_behaviour_it_is_ppo() -> None:
    current = tensor([[-0.7, -0.9, -0.1, -0.6]], grad=True)
    out = decoupled_policy_loss(current, BEHAVIOR, BEHAVIOR, CREDIT, ONES, clip_low=0.2, clip_high=0.3, behaviour_cap=5.0)
    plain = clipped_policy_loss(current, BEHAVIOR, CREDIT, ONES, clip_low=0.2, clip_high=0.3)
    close(out.loss, plain.loss.item())
    assert gradient(out.loss, current) == gradient(plain.loss, current)
    assert out.clip_fraction == plain.clip_fraction


def test_no_evidence_gets_a_gradient() -> None:
    proximal, behaviour, credit = evidence = [part.clone().requires_grad_() for part in (PROXIMAL, BEHAVIOR, CREDIT)]
    current = tensor([[-0.7, -0.9, -0.1, -0.6]], grad=True)
    decoupled_policy_loss(current, proximal, behaviour, credit, ONES, clip_low=0.2, clip_high=0.2).loss.backward()
    assert [one.grad for one in evidence] == [None] * 3


def test_a_cap_that_is_none() -> None:
    with pytest.raises(RangeError, match="behaviour_cap must be given for cap='truncate', got None"):
        loss(cap="truncate")
    with pytest.raises(RangeError, match="cap must be one of 'mask', 'truncate', got 'clip'"):
        loss(cap="clip", behaviour_cap=2.0)
    with pytest.raises(RangeError, match=r"behaviour_cap must be in \(0, inf\), got 0"):
        loss(behaviour_cap=0)
    with pytest.raises(ShapeError, match="behaviour_logprobs must have the shape of action_mask"):
        decoupled_policy_loss(PROXIMAL, PROXIMAL, BEHAVIOR[0], CREDIT, ONES, clip_low=0.2, clip_high=0.2)


# ---- the interpolated proximal policy


def test_the_share_is_the_age_of_the_token() -> None:
    # versions 2, 4, 6 with proximal 6 and current 7: shares 4/5, 2/3, 0; current is one above behaviour
    behaviour, current = tensor([-2.0, -2.0, -2.0]), tensor([-1.0, -1.0, -1.0], grad=True)
    found = log_linear_proximal(behaviour, current, tensor([2, 4, 6]), 6, 7)
    close(found, [-2 + 4 / 5, -2 + 2 / 3, -2.0])
    assert not found.requires_grad


def test_equal_versions_are_the_behaviour_policy() -> None:
    found = log_linear_proximal(tensor([-2.0, -3.0]), tensor([-1.0, -1.0]), 5, 5, 5)
    assert found.tolist() == [-2.0, -3.0]


def test_versions_broadcast_and_masked_rubbish_stays_where_it_is() -> None:
    behaviour, current = tensor([[math.nan, -2.0], [-2.0, -2.0]]), tensor([[0.0, 0.0], [0.0, 0.0]])
    found = log_linear_proximal(behaviour, current, tensor([[-1], [0]]), 1, 2)
    close(found[0, 1], -2 + 2 * 2 / 3)
    close(found[1], [-1.0, -1.0])
    assert found[0, 0].isnan()


def test_versions_out_of_order() -> None:
    with raises(RangeError, match="proximal_versions must lie between behaviour_versions and current_versions, got the value 3"):
        log_linear_proximal(tensor([-1.0]), tensor([-1.0]), 4, 3, 5)
    with raises(RangeError, match="proximal_versions must lie between"):
        log_linear_proximal(tensor([-1.0]), tensor([-1.0]), 1, 6, 5)
    with pytest.raises(DtypeError, match=r"current_versions must be an integer or a tensor of integers, got 5\.0"):
        log_linear_proximal(tensor([-1.0]), tensor([-1.0]), 1, 4, 5.0)  # type: ignore[arg-type]
    with pytest.raises(DtypeError, match="behaviour_versions must be an integer tensor"):
        log_linear_proximal(tensor([-1.0]), tensor([-1.0]), tensor([1.0]), 4, 5)
    with pytest.raises(ShapeError, match=r"behaviour_versions must broadcast to \(1,\), got \(2,\)"):
        log_linear_proximal(tensor([-1.0]), tensor([-1.0]), tensor([1, 2]), 4, 5)
