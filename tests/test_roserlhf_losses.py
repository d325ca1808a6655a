"""The policy losses against hand arithmetic: seed checks, reference cases and properties; field reports have their own file."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import oracles_objective as oracles
import pytest
import torch
from cases_objective import DEVICE, close, counted, gradient, logs, raises, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rosellm.roserlhf import losses
from rosellm.roserlhf.errors import MaskError
from rosellm.roserlhf.losses import (
    clipped_policy_loss,
    direct_double_sided_mask,
    gather_token_logprobs,
    gspo_policy_loss,
    gspo_token_policy_loss,
    reinforce_policy_loss,
    sao_policy_loss,
    sapo_policy_loss,
    sequence_log_ratio,
)

# ---- log-probabilities of tokens


def test_targets_are_read_without_a_shift() -> None:
    # rows are distributions [1/4, 3/4] and [1/2, 1/2]
    logits = tensor([[0.0, math.log(3.0)], [5.0, 5.0]])
    close(gather_token_logprobs(logits, tensor([1, 0])), [math.log(0.75), math.log(0.5)])


def test_gradient_of_a_logprob_is_one_hot_minus_probabilities() -> None:
    logits = tensor([[0.0, math.log(3.0)]], grad=True)
    close(gradient(gather_token_logprobs(logits, tensor([1])).sum(), logits), [[-0.25, 0.25]])


def test_a_common_offset_costs_no_precision() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0]], device=DEVICE)
    moved = gather_token_logprobs(logits + 1e5, tensor([1]))
    assert moved.item() == pytest.approx(gather_token_logprobs(logits, tensor([1])).item(), abs=1e-6)


def test_float64_logits_stay_float64() -> None:
    assert gather_token_logprobs(tensor([[1.0, 2.0]]), tensor([0])).dtype == torch.float64


def test_a_bfloat16_logprob_is_evidence_with_a_stated_error() -> None:
    # near -10 bfloat16 numbers are 1/16 apart: rounding is off by up to 1/32, exp(1/32) - 1 = 3.2 %
    old = torch.tensor([[-10.03]], device=DEVICE, dtype=torch.bfloat16)
    with pytest.warns(UserWarning, match=r"old_logprobs should be float32, got torch.bfloat16.*3\.2%"):
        clipped_policy_loss(torch.tensor([[-10.03]], device=DEVICE), old, torch.ones(1, 1, device=DEVICE), tensor([[1]]))


# ---- the clipped surrogate


def test_section_23_batch() -> None:
    # log-ratios +0.1, -0.1, +0.1 at the three live positions; all ratios lie inside [0.8, 1.2], so the surrogate is ratio * A:
    #   e^.1 * 1 + e^-.1 * 1 + e^.1 * (-1/2) = 1.10517 + 0.90484 - 0.55259 = 1.45742; / 3 = 0.48581
    current = tensor([[-0.9, -0.6], [-0.1, -1.0]], grad=True)
    old, mask = tensor([[-1.0, -0.5], [-0.2, -0.7]]), tensor([[1, 1], [1, 0]])
    out = clipped_policy_loss(current, old, tensor([[1.0, 1.0], [-0.5, -0.5]]), mask, clip_low=0.2, clip_high=0.2)
    close(out.objective, 0.48580762569126107)
    close(out.loss, -0.48580762569126107)
    close(out.clip_fraction, 0.0)
    close(out.mean_ratio, 1.038393084729085)  # (2 e^.1 + e^-.1) / 3
    close(out.approximate_kl, 0.005059751395751604)  # (2 (e^.1 - 1.1) + (e^-.1 - 0.9)) / 3
    # each live token: -ratio * A / 3
    close(gradient(out.loss, current), [[-0.36839030602521583, -0.3016124726786532], [0.18419515301260794, 0.0]])


def test_clipping_uses_advantage_sign() -> None:
    # ratio 1.5 is above 1.2: a positive advantage stops at 1.2 without gradient, a negative one keeps -1.5 and its gradient;
    # ratio 0.5 is below 0.8: the positive one keeps 0.5, the negative one stops at -0.8
    current = logs([[1.5, 1.5, 0.5, 0.5]])
    out = clipped_policy_loss(current, tensor([[0.0] * 4]), tensor([[1.0, -1.0, 1.0, -1.0]]), tensor([[1, 1, 1, 1]]))
    close(out.token_loss.detach(), [[-1.2, 1.5, -0.5, 0.8]])
    close(gradient(out.loss, current), [[0.0, 1.5 / 4, -0.5 / 4, 0.0]])
    # all four are outside the interval, two by sign; the clip removed the gradient of two
    assert [out.partials[name].mean().item() for name in ("clip_fraction_positive", "clip_fraction_negative")] == [1.0, 1.0]
    assert out.clip_fraction == 1.0
    assert out.partials["clip_fraction_binding"].mean() == 0.5


def test_clip_fractions_by_sign_have_their_own_counts() -> None:
    # A > 0: one of three outside; A < 0: one of one; A = 0: outside, in the total only
    out = clipped_policy_loss(
        logs([[1.5, 1.0, 1.0, 0.5, 2.0]]), tensor([[0.0] * 5]), tensor([[1.0, 1.0, 1.0, -1.0, 0.0]]), tensor([[1] * 5])
    )
    assert out.clip_fraction.item() == pytest.approx(3 / 5)
    for name, partial in {"positive": (1, 3), "negative": (1, 1), "binding": (2, 5)}.items():
        assert counted(out.partials[f"clip_fraction_{name}"]) == partial
    none_negative = clipped_policy_loss(logs([[1.0]]), tensor([[0.0]]), tensor([[1.0]]), tensor([[1]]))
    assert none_negative.partials["clip_fraction_negative"].mean().isnan()  # nothing counted is not 0


def test_masked_observation_has_zero_gradient() -> None:
    current = tensor([[-0.5, -0.5, -0.5]], grad=True)
    out = clipped_policy_loss(current, tensor([[-0.5, -0.5, -0.5]]), tensor([[1.0, 1e30, 1.0]]), tensor([[1, 0, 1]]))
    assert gradient(out.loss, current) == [[-0.5, 0.0, -0.5]]
    assert out.loss == -1.0


def test_clip_higher_grid() -> None:
    # bounds 0.8 and 1.28, A = 1: gradient r inside, and below (where the minimum keeps the ratio); 0 above
    ratios = [0.5, 0.79, 0.9, 1.0, 1.1, 1.27, 1.29, 2.0]
    current = logs([ratios])
    out = clipped_policy_loss(
        current,
        tensor([[0.0] * 8]),
        tensor([[1.0] * 8]),
        tensor([[1] * 8]),
        clip_low=0.2,
        clip_high=0.28,
        aggregation="sequence_sum",
    )
    close(-out.token_loss.detach(), [[0.5, 0.79, 0.9, 1.0, 1.1, 1.27, 1.28, 1.28]])
    close(gradient(-out.loss, current), [[0.5, 0.79, 0.9, 1.0, 1.1, 1.27, 0.0, 0.0]])


def test_a_ratio_on_the_bound_keeps_its_gradient_and_is_not_counted() -> None:
    # 1 - 1/4 and 1 + 1/4 are exact in binary
    current = logs([[0.75, 0.75, 1.25, 1.25]])
    assert current.exp().tolist() == [[0.75, 0.75, 1.25, 1.25]]
    out = clipped_policy_loss(
        current, tensor([[0.0] * 4]), tensor([[1.0, -1.0, 1.0, -1.0]]), tensor([[1] * 4]), clip_low=0.25, aggregation="sequence_sum"
    )
    assert out.clip_fraction == 0.0
    assert gradient(-out.loss, current) == [[0.75, -0.75, 1.25, -1.25]]


def test_dr_grpo_gradient() -> None:
    # rewards [1, 0, 0, 1] minus their mean 1/2; horizon 8, 4 rows: each live token gets A / 32
    lengths, centred = [2, 4, 1, 3], [0.5, -0.5, -0.5, 0.5]
    mask = tensor([[int(t < length) for t in range(4)] for length in lengths])
    current = tensor([[-1.0] * 4] * 4, grad=True)
    out = clipped_policy_loss(current, current.detach(), tensor(centred), mask, aggregation="horizon", horizon=8)
    close(out.objective, 0.0)
    wanted = [[a / 32 if t < n else 0.0 for t in range(4)] for a, n in zip(centred, lengths, strict=True)]
    close(gradient(-out.loss, current), wanted)
    assert wanted[0][0] == 0.015625


def test_ppo_saturates_one_side_and_dis_rejects_both() -> None:
    # bounds 0.8 and 1.2: which tokens have a gradient at ratios 0.5, 1.1, 1.5
    ratios, ones, zeros = [[0.5, 1.1, 1.5]], tensor([[1] * 3]), tensor([[0.0] * 3])
    for sign, active in ((1.0, [[True, True, False]]), (-1.0, [[False, True, True]])):
        current = logs(ratios)
        out = clipped_policy_loss(current, zeros, tensor([[sign] * 3]), ones)
        assert torch.autograd.grad(out.loss, current)[0].ne(0).tolist() == active
        sao = sao_policy_loss(current, zeros, tensor([[sign] * 3]), ones, clip_low=0.2, clip_high=0.2)
        assert torch.autograd.grad(sao.loss, current)[0].ne(0).tolist() == [[False, True, False]]


def test_reinforce_has_the_gradient_of_ppo_at_ratio_one() -> None:
    current, advantages, mask = tensor([[-1.0, -2.0, -0.5]], grad=True), tensor([[2.0, -1.0, 9.0]]), tensor([[1, 1, 0]])
    out = reinforce_policy_loss(current, advantages, mask)
    close(out.loss, -(2.0 * -1.0 + -1.0 * -2.0) / 2)
    assert gradient(out.loss, current) == [[-1.0, 0.5, 0.0]]
    assert gradient(clipped_policy_loss(current, current.detach(), advantages, mask).loss, current) == [[-1.0, 0.5, 0.0]]
    assert out.approximate_kl.isnan()
    assert out.mean_ratio.isnan()
    assert out.partials["mean_ratio"].count == 0
    measured = reinforce_policy_loss(current, advantages, mask, old_logprobs=current.detach() - math.log(2.0))
    close(measured.mean_ratio, 2.0)
    close(measured.approximate_kl, 2.0 - 1.0 - math.log(2.0))


# ---- sequence ratios, GSPO


def test_sum_and_mean_of_log_ratios_are_different_objects() -> None:
    # log-ratios 0.2 - 0.1 + 0.3 = 0.4; / 3 = 0.1333
    current, old, mask = tensor([[-0.5, -1.0, -0.2]]), tensor([[-0.7, -0.9, -0.5]]), tensor([[1, 1, 1]])
    close(sequence_log_ratio(current, old, mask, length_normalize=False), [0.4])
    close(sequence_log_ratio(current, old, mask, length_normalize=True), [0.4 / 3])
    with pytest.raises(TypeError, match="length_normalize"):
        sequence_log_ratio(current, old, mask)  # type: ignore[call-arg]


def test_sequence_log_ratio_of_an_empty_row() -> None:
    current, old, mask = tensor([[1.0], [math.nan]]), tensor([[0.0], [0.0]]), tensor([[1], [0]])
    assert sequence_log_ratio(current, old, mask, length_normalize=False).tolist() == [1.0, 0.0]
    with raises(MaskError, match="action_mask.*empty mask"):
        sequence_log_ratio(current, old, mask, length_normalize=True)


def gspo(
    current: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, low: float, high: float, **how: Any
) -> losses.GspoPolicyLossOutput:
    return gspo_policy_loss(current, old, advantages, mask, clip_low=low, clip_high=high, **how)


def test_gspo_ratio_is_the_geometric_mean() -> None:
    # token ratios [4, 1] -> sqrt(4 * 1) = 2, not 2.5, 5 or 4; a one-token response with ratio 1 weighs the same
    current = logs([[4.0, 1.0], [1.0, 1.0]])
    out = gspo(current, tensor([[0.0] * 2] * 2), tensor([1.0, 1.0]), tensor([[1, 1], [1, 0]]), 0.2, 9.0)
    close(out.sequence_ratios, [2.0, 1.0])
    close(out.objective, 1.5)
    close(out.mean_sequence_ratio, 1.5)
    # d/dl = s / n / 2 responses: 2 / 2 / 2 for both tokens of the first, 1 / 1 / 2 for the second
    close(gradient(-out.loss, current), [[0.5, 0.5], [0.5, 0.0]])


GSPO_CURRENT = [[-0.5, -0.9, -1.4], [-0.3, -0.8, -0.2]]
GSPO_OLD = [[-0.6, -0.8, -1.6], [-0.25, -1.0, -0.2]]
GSPO_MASK = [[1, 1, 1], [1, 1, 0]]


@pytest.mark.parametrize(
    ("low", "high", "objective", "first"),
    [
        # log-ratios .1 - .1 + .2 = .2 / 3 and (-.05 + .2) / 2 = .075: s = [1.06894, 1.07788], A = [1, -2]
        (0.2, 0.27, -0.5434145980110083, 1.0689391057472464 / 6),  # (1.06894 - 2 * 1.07788) / 2
        (3e-4, 4e-4, -0.5776841508846315, 0.0),  # the first stops at 1.0004: (1.0004 - 2.15577) / 2
    ],
    ids=["wide", "paper"],
)
def test_gspo_objective_and_gradient(low: float, high: float, objective: float, first: float) -> None:
    current, old, mask = tensor(GSPO_CURRENT, grad=True), tensor(GSPO_OLD), tensor(GSPO_MASK)
    wanted = [[first] * 3, [-0.5389420754423158, -0.5389420754423158, 0.0]]  # -2 s / 2 tokens / 2 responses
    out = gspo(current, old, tensor([1.0, -2.0]), mask, low, high)
    close(out.sequence_ratios, [1.0689391057472464, 1.0778841508846315])
    close(out.objective, objective)
    close(gradient(-out.loss, current), wanted)
    token = gspo_token_policy_loss(current, old, tensor([1.0, -2.0]), mask, clip_low=low, clip_high=high)
    close(token.objective, objective)
    close(gradient(-token.loss, current), wanted)
    close(token.sequence_ratios, [1.0689391057472464, 1.0778841508846315])


def test_gspo_clip_by_sign_on_one_token_responses() -> None:
    # ratios 2, 2, .4, .4 with bounds .5, 1.5 and A = 1, -1, 1, -1: PPO on one token
    current = logs([[2.0], [2.0], [0.4], [0.4]])
    credit = [1.0, -1.0, 1.0, -1.0]
    out = gspo(current, tensor([[0.0]] * 4), tensor(credit), tensor([[1]] * 4), 0.5, 0.5)
    close(-out.token_loss.detach(), [[1.5], [-2.0], [0.4], [-0.5]])
    close(out.objective, -0.15)
    close(gradient(-out.loss, current), [[0.0], [-0.5], [0.1], [0.0]])
    assert out.sequence_clip_fraction == 1.0
    assert out.partials["sequence_clip_fraction_binding"].mean() == 0.5
    ppo = clipped_policy_loss(current, tensor([[0.0]] * 4), tensor(credit), tensor([[1]] * 4), clip_low=0.5)
    close(out.objective, ppo.objective.item())


def test_gspo_token_keeps_the_credit_of_a_turn() -> None:
    # s = 1: loss gradient -A / 2 tokens; averaging A first would give [1/4, 1/4]
    current = tensor([[0.0, 0.0]], grad=True)
    out = gspo_token_policy_loss(
        current, tensor([[0.0, 0.0]]), tensor([[1.0, -2.0]]), tensor([[1, 1]]), clip_low=0.2, clip_high=0.2
    )
    assert out.objective == -0.5
    assert gradient(out.loss, current) == [[-0.5, 1.0]]


def test_gspo_and_grpo_weigh_tokens_differently() -> None:
    # token ratios [4, 1], A = 1, no clip: GRPO r A / 2 = [2, 1/2]; GSPO s A / 2 = [1, 1]
    current, zeros, ones = logs([[4.0, 1.0]]), tensor([[0.0, 0.0]]), tensor([[1, 1]])
    grpo = clipped_policy_loss(current, zeros, tensor([1.0]), ones, clip_high=9.0, aggregation="sequence_mean")
    close(gradient(-grpo.loss, current), [[2.0, 0.5]])
    close(gradient(-gspo(current, zeros, tensor([1.0]), ones, 0.2, 9.0).loss, current), [[1.0, 1.0]])


def test_gspo_leaves_an_empty_response_out() -> None:
    # counting it would add ratio exp(0) = 1 times its advantage 9 to the mean: (2 + 9) / 2 = 5.5
    current, mask = tensor([[math.log(2.0)], [math.nan]], grad=True), tensor([[1], [0]])
    out = gspo(current, tensor([[0.0], [0.0]]), tensor([1.0, 9.0]), mask, 0.2, 9.0)
    close(out.objective, 2.0)
    assert out.sequence_ratios[1].isnan()
    close(out.mean_sequence_ratio, 2.0)
    assert out.partials["mean_sequence_ratio"].count == 1
    absent = gspo(current, tensor([[0.0], [0.0]]), tensor([1.0, math.nan]), mask, 0.2, 9.0)
    close(absent.objective, 2.0)


def test_gspo_and_gspo_token_agree_where_the_log_ratio_is_clamped() -> None:
    # mean log-ratio 30 > 20, A < 0: the surrogate is -e^20 and no gradient is left in either form
    current, old = tensor([[0.0, 0.0]], grad=True), tensor([[-30.0, -30.0]])
    for out in (
        gspo(current, old, tensor([-1.0]), tensor([[1, 1]]), 0.2, 0.2),
        gspo_token_policy_loss(current, old, tensor([-1.0]), tensor([[1, 1]]), clip_low=0.2, clip_high=0.2),
    ):
        close(out.loss, math.exp(20.0))
        assert gradient(out.loss, current) == [[0.0, 0.0]]
        assert out.partials["log_ratio_clamped_fraction"].sum == 1


def test_packed_gspo_indexes_its_advantages_by_id() -> None:
    # sequence 1 = tokens 0 and 2 (ratios 4, 1), sequence 0 = token 1 (ratio 1/2); the last token is padding
    current = logs([4.0, 0.5, 1.0, 1.0])
    ids, mask = tensor([1, 0, 1, -1]), tensor([1, 1, 1, 0])
    out = gspo(current, tensor([0.0] * 4), tensor([3.0, -1.0]), mask, 0.9, 9.0, sequence_ids=ids)
    close(out.sequence_ratios, [0.5, 2.0])
    close(out.objective, (0.5 * 3.0 - 2.0) / 2)
    token = gspo_token_policy_loss(
        current, tensor([0.0] * 4), tensor([-1.0, 3.0, -1.0, 0.0]), mask, clip_low=0.9, clip_high=9.0, sequence_ids=ids
    )
    close(token.objective, (0.5 * 3.0 - 2.0) / 2)
    assert token.sequence_ratios.isnan().tolist() == [True, False, False, True]  # slots in the order of the ids -1, 0, 1, none
    close(token.sequence_ratios[1:3], [0.5, 2.0])


# ---- SAPO


def test_sapo_gradient_gate_is_one_at_ratio_one() -> None:
    # p = 1/2, gate 4 * 1/4 = 1 for both temperatures: loss gradient -A / 2; surrogate 2 A / tau = [4, -1.2], mean 1.4
    current = tensor([[0.0, 0.0]], grad=True)
    out = sapo_policy_loss(
        current, tensor([[0.0, 0.0]]), tensor([[2.0, -3.0]]), tensor([[1, 1]]), tau_positive=1.0, tau_negative=5.0
    )
    close(out.objective, 1.4)
    close(-out.token_loss.detach(), [[4.0, -1.2]])
    close(gradient(out.loss, current), [[-1.0, 1.5]])
    assert out.mean_gradient_gate == 1.0


@pytest.mark.parametrize(
    ("tau_negative", "gate", "objective", "slope"),
    [
        (1.05, 0.9341398232853925, 0.04812592279348782, -0.7006048674640444),
        (5.0, 0.28041486618043227, 0.8752619344122066, -0.2103111496353242),
    ],
)
def test_a_larger_temperature_attenuates_faster(tau_negative: float, gate: float, objective: float, slope: float) -> None:
    # ratio 3/2, A = [1, -1]: token gradient gate * r * A / 2; the gate of tau = 1 at 1.5 is sech^2(1/4) = 0.940015
    current = logs([[1.5, 1.5]])
    out = sapo_policy_loss(current, tensor([[0.0, 0.0]]), tensor([[1.0, -1.0]]), tensor([[1, 1]]), tau_negative=tau_negative)
    close(out.objective, objective)
    close(gradient(-out.loss, current), [[0.7050111366047835, slope]])
    close(out.mean_gradient_gate, (0.940014848806378 + gate) / 2)
    close(out.mean_gradient_weight, 1.5 * (0.940014848806378 + gate) / 2)
    close(0.940014848806378, 1 / math.cosh(0.25) ** 2)


@pytest.mark.parametrize(
    ("tau", "largest", "at", "back"),
    [(1.0, 1.5747, 2.060, 3.466), (1.05, 1.536, 1.992, 3.290), (2.0, 1.199, 1.380, None), (5.0, 1.038, 1.075, None)],
)
def test_sapo_gradient_weight_rises_above_ratio_one(tau: float, largest: float, at: float, back: float | None) -> None:
    # one-token responses: the gradient of the token loss is minus gate times ratio
    ratios = torch.linspace(0.5, 4.0, 3501, device=DEVICE, dtype=torch.float64)
    current, ones = ratios.log()[:, None].requires_grad_(), torch.ones(3501, 1, device=DEVICE, dtype=torch.float64)
    out = sapo_policy_loss(current, torch.zeros_like(current), ones, ones, tau_positive=tau)
    weight = -torch.autograd.grad(out.token_loss.sum(), current)[0].squeeze(1)
    assert weight.max().item() == pytest.approx(largest, abs=6e-4)
    assert ratios[weight.argmax()].item() == pytest.approx(at, abs=1e-3)
    if back is not None:
        assert weight[(ratios - back).abs().argmin()].item() == pytest.approx(1.0, abs=1e-3)


def test_sapo_zero_advantage_contributes_nothing() -> None:
    current = logs([[0.5, 1.0, 3.0]])
    out = sapo_policy_loss(current, tensor([[0.0] * 3]), tensor([[0.0] * 3]), tensor([[1] * 3]))
    assert out.loss == 0.0
    assert gradient(out.loss, current) == [[0.0, 0.0, 0.0]]


def test_sapo_zero_advantage_takes_the_negative_temperature() -> None:
    out = sapo_policy_loss(logs([[1.5]]), tensor([[0.0]]), tensor([[0.0]]), tensor([[1]]), tau_negative=5.0)
    close(out.mean_gradient_gate, 0.28041486618043227)


def test_sapo_means_can_have_the_opposite_sign_of_token_means() -> None:
    # one short good response, one long bad one, ratio 1: surrogate 2 A / tau with tau 1 and 1
    current, mask = tensor([[0.0] * 4] * 2, grad=True), tensor([[1, 0, 0, 0], [1, 1, 1, 1]])
    args = (current, current.detach(), tensor([2.0, -1.0]), mask)
    assert sapo_policy_loss(*args, tau_negative=1.0).objective == 1.0  # (4 - 2) / 2
    close(sapo_policy_loss(*args, tau_negative=1.0, aggregation="token").objective, -0.8)  # (4 - 4 * 2) / 5


# ---- SAO


def test_ties_are_rejected_on_both_sides() -> None:
    # 1 - 1/4 and 1 + 1/4 are exact in binary
    ratios = tensor([0.75, 0.75 + 2**-20, 1.25 - 2**-20, 1.25])
    assert direct_double_sided_mask(ratios, clip_low=0.25, clip_high=0.25).tolist() == [False, True, True, False]


def test_double_sided_mask_of_the_papers_ranges() -> None:
    ratios = tensor([0.1, 0.21, 0.7 - 1e-9, 0.71, 3.9, 4.0, 5.9, 6.0])
    reasoning = direct_double_sided_mask(ratios, clip_low=0.3, clip_high=5.0)
    assert reasoning.tolist() == [False, False, False, True, True, True, True, False]
    coding = direct_double_sided_mask(ratios, clip_low=0.8, clip_high=3.0)
    assert coding.tolist() == [False, True, True, True, True, False, False, False]


def test_ratios_that_are_no_numbers_are_outside() -> None:
    ratios = tensor([math.nan, math.inf, -math.inf, 1.0])
    assert direct_double_sided_mask(ratios, clip_low=0.5, clip_high=0.5).tolist() == [False, False, False, True]


def test_sao_weights_at_the_boundaries() -> None:
    # bounds .75 and 1.25; with l = log r the objective of a token is f(r) * log r
    ratios = [0.5, 0.75, 0.76, 1.0, 1.2, 1.25, 1.5]
    current = logs([ratios])
    out = sao_policy_loss(
        current,
        tensor([[0.0] * 7]),
        tensor([[1.0] * 7]),
        tensor([[1] * 7]),
        clip_low=0.25,
        clip_high=0.25,
        aggregation="sequence_sum",
    )
    assert out.trusted_mask.tolist() == [[False, False, True, True, True, False, False]]
    close(gradient(-out.loss, current), [[0.0, 0.0, 0.76, 1.0, 1.2, 0.0, 0.0]])
    assert out.partials["rejected_fraction_below"].sum == 2
    assert out.partials["rejected_fraction_above"].sum == 2


def test_sao_rejected_tokens_stay_in_the_denominator() -> None:
    # ratios e^.1, e^-.3, e^1.6 (rejected), masked; bounds .7 and 1.5; J = (e^.1 * 1 * -.5 + e^-.3 * -1 * -1) / 3
    current = tensor([[-0.5, -1.0, -0.3, -2.0]], grad=True)
    rollout, advantages = tensor([[-0.6, -0.7, -1.9, -2.0]]), tensor([[1.0, -1.0, 2.0, 5.0]])
    out = sao_policy_loss(current, rollout, advantages, tensor([[1, 1, 1, 0]]), clip_low=0.3, clip_high=0.5)
    close(out.objective, 0.06274425388129805)
    close(gradient(-out.loss, current), [[0.36839030602521583, -0.24693940689390595, 0.0, 0.0]])
    assert counted(out.partials["rejected_fraction"]) == (1, 3)
    assert out.rejected_fraction.item() == pytest.approx(1 / 3)
    assert out.trusted_mask.tolist() == [[True, True, False, False]]
    attached = sao_policy_loss(
        current, rollout, advantages, tensor([[1, 1, 1, 0]]), clip_low=0.3, clip_high=0.5, detach_ratio=False
    )
    # r A (1 + l) / 3: e^.1 * (1 - .5) / 3, and 1 - 1 = 0 for the second
    close(gradient(-attached.loss, current), [[0.18419515301260792, 0.0, 0.0, 0.0]])
    close(attached.objective, out.objective.item())


def test_sao_attached_ratio_reverses_the_sign() -> None:
    # l = -2.5, ratio 1, A = 1: detached +1, attached 1 * (1 - 2.5)
    current, ones = tensor([[-2.5]], grad=True), tensor([[1]])
    for detach, wanted in ((True, 1.0), (False, -1.5)):
        out = sao_policy_loss(current, tensor([[-2.5]]), tensor([[1.0]]), ones, clip_low=0.3, clip_high=0.5, detach_ratio=detach)
        assert gradient(-out.loss, current) == [[wanted]]


def test_sao_with_everything_rejected_is_zero_not_nan() -> None:
    current = tensor([[-0.1, -0.1]], grad=True)
    out = sao_policy_loss(current, tensor([[-3.0, -3.0]]), tensor([[1.0, -1.0]]), tensor([[1, 1]]), clip_low=0.3, clip_high=0.5)
    assert out.loss == 0.0
    assert out.rejected_fraction == 1.0
    assert gradient(out.loss, current) == [[0.0, 0.0]]
    assert out.partials["objective"].count == 2


# ---- outputs and properties


def test_outputs_are_frozen_and_have_the_named_fields() -> None:
    named = {
        losses.PolicyLossOutput: {"loss", "objective", "approximate_kl", "clip_fraction", "mean_ratio"},
        losses.SaoPolicyLossOutput: {"loss", "objective", "approximate_kl", "rejected_fraction", "mean_ratio", "trusted_mask"},
        losses.GspoPolicyLossOutput: {
            "loss", "objective", "sequence_ratio_divergence", "sequence_clip_fraction", "mean_sequence_ratio", "sequence_ratios",
        },
        losses.SapoPolicyLossOutput: {
            "loss", "objective", "approximate_kl", "mean_ratio", "mean_gradient_gate", "mean_gradient_weight",
        },
        losses.ReinforcePolicyLossOutput: {"loss", "objective", "approximate_kl", "mean_ratio"},
        losses.CispoPolicyLossOutput: {"loss", "objective", "approximate_kl", "clip_fraction", "mean_ratio", "mean_weight"},
        losses.TotalVariationPolicyLossOutput: {
            "loss", "objective", "approximate_kl", "rejected_fraction", "mean_probability_change", "mean_ratio", "trusted_mask",
        },
        losses.DecoupledPolicyLossOutput: {
            "loss", "objective", "approximate_kl", "clip_fraction", "mean_ratio", "mean_behaviour_weight", "behaviour_cap_fraction",
        },
        losses.ValueLossOutput: {"loss", "objective", "clip_fraction", "explained_variance"},
    }  # fmt: skip
    for output, names in named.items():
        assert {field.name for field in dataclasses.fields(output)} == names | {"token_loss", "partials"}
    out = reinforce_policy_loss(tensor([[-1.0]]), tensor([1.0]), tensor([[1]]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        out.loss = out.objective  # type: ignore[misc]


def test_every_public_name_is_exported_and_documented() -> None:
    for name in losses.__all__:
        assert getattr(losses, name).__doc__ or name in ("Aggregation", "KlEstimator")  # a Literal cannot carry one
    functions = [name for name in losses.__all__ if name[0].islower()]
    for name in functions:
        assert f"`{name}`" in (losses.__doc__ or ""), f"{name} is missing in the index"


numbers = st.floats(-3.0, 3.0, allow_nan=False)
tokens = st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=12)
property_test = settings(derandomize=True, max_examples=60, deadline=None)


@property_test
@given(tokens, st.floats(0.0, 0.9), st.floats(0.0, 3.0))
def test_property_clipped_surrogate(data: list[tuple[float, float, float]], low: float, high: float) -> None:
    current, old, advantages = (list(column) for column in zip(*data, strict=True))
    live = tensor([current], grad=True)
    out = clipped_policy_loss(live, tensor([old]), tensor([advantages]), tensor([[1] * len(data)]), clip_low=low, clip_high=high)
    surrogate = (-out.token_loss.detach()).tolist()[0]
    for s, c, o, a in zip(surrogate, current, old, advantages, strict=True):
        assert s <= math.exp(c - o) * a + 1e-9  # a lower bound of the unclipped surrogate
    assert out.approximate_kl >= 0
    assert 0 <= out.clip_fraction <= 1
    wanted = oracles.clipped([current], [old], [advantages], [[1] * len(data)], low, high)
    close(surrogate, wanted.values[0])
    close(out.approximate_kl, oracles.mean_divergence([current], [old], [[1] * len(data)]))


@property_test
@given(tokens, st.floats(0.05, 0.9), st.floats(0.05, 3.0))
def test_property_uniform_advantages_make_both_gspo_forms_equal(
    data: list[tuple[float, float, float]], low: float, high: float
) -> None:
    current, old, advantages = (list(column) for column in zip(*data, strict=True))
    live, credit, mask = tensor([current], grad=True), tensor([advantages[0]]), tensor([[1] * len(data)])
    sequence = gspo(live, tensor([old]), credit, mask, low, high)
    token = gspo_token_policy_loss(live, tensor([old]), credit, mask, clip_low=low, clip_high=high)
    close(token.loss.item(), sequence.loss.item())
    close(gradient(token.loss, live), gradient(sequence.loss, live))


@property_test
@given(tokens)
def test_property_divergence_is_never_negative_in_float32(data: list[tuple[float, float, float]]) -> None:
    close_by = [[c, c + o * 1e-4] for c, o, _ in data]
    current, old = torch.tensor(close_by, device=DEVICE).T.contiguous()
    out = reinforce_policy_loss(current, torch.ones_like(current), torch.ones_like(current), old_logprobs=old)
    assert out.approximate_kl >= 0


@property_test
@given(tokens, st.floats(0.1, 5.0))
def test_property_sapo_gradient_is_gate_times_ratio(data: list[tuple[float, float, float]], tau: float) -> None:
    current, old, advantages = (list(column) for column in zip(*data, strict=True))
    live = tensor([current], grad=True)
    out = sapo_policy_loss(
        live, tensor([old]), tensor([advantages]), tensor([[1] * len(data)]), tau_negative=tau, aggregation="sequence_sum"
    )
    wanted = oracles.sapo([current], [old], [advantages], [[1] * len(data)], 1.0, tau)
    close(gradient(-out.loss, live), [[wanted.slopes[0][t][t] for t in range(len(data))]])
