"""Sampled distillation: sign, detaching, and its expectation against the exact gradient by enumeration."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from cases_objective import DEVICE, close, counted, gradient, raises, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rosellm.roserlhf.advantages import discounted_returns
from rosellm.roserlhf.errors import MaskError, NonFiniteError, RangeError, ShapeError
from rosellm.roserlhf.losses import (
    clipped_policy_loss,
    distillation_advantages,
    gather_token_logprobs,
    logits_distillation_loss,
    reinforce_policy_loss,
)

STUDENT, TEACHER = [0.3, -0.2, 0.1, 0.6], [-0.1, 0.4, 0.2, 0.0]
ONE = torch.ones(1, dtype=torch.bool, device=DEVICE)


def sampled_gradient(student: Tensor, teacher: Tensor, token: int) -> Tensor:
    """Gradient of the policy-gradient loss at the logits `[V]`, if this token was sampled."""
    own, expert = (gather_token_logprobs(logits[None], torch.tensor([token], device=DEVICE)) for logits in (student, teacher))
    credit = distillation_advantages(own, expert, ONE).advantages
    return torch.autograd.grad(reinforce_policy_loss(own, credit, ONE).loss, student)[0]


def test_R63_the_signal_is_teacher_minus_student_and_carries_no_gradient() -> None:
    # -(-0.1 - -2.0) = -1.9: the token becomes less likely; swapped +1.9
    student, teacher = tensor([[-0.1, -2.0]], grad=True), tensor([[-2.0, -0.1]], grad=True)
    out = distillation_advantages(student, teacher, tensor([[1, 1]]))
    close(out.advantages, [[-1.9, 1.9]])
    assert not out.advantages.requires_grad
    assert counted(out.partials["reverse_kl"]) == (0.0, 2.0)
    loss = reinforce_policy_loss(student, out.advantages, tensor([[1, 1]])).loss
    at_student, at_teacher = torch.autograd.grad(loss, [student, teacher], allow_unused=True)
    close(at_student, [[0.95, -0.95]])  # -A / 2
    assert at_teacher is None


def test_one_sampled_token() -> None:
    # k1 = 0.50154; the gradient of -A log pi at the logits is k1 (1[v = 3] - pi), its negative is the direction of ascent
    student, teacher = tensor(STUDENT, grad=True), tensor(TEACHER)
    close(
        -sampled_gradient(student, teacher, 3), [0.13285498234380447, 0.080580620087098, 0.10877245974450503, -0.32220806217540726]
    )


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_the_expected_policy_gradient_is_the_exact_gradient(temperature: float) -> None:
    student, teacher = tensor(STUDENT, grad=True), tensor(TEACHER)
    odds = torch.softmax(student.detach() / temperature, -1)
    # sampled at a temperature, both models score at it: their logits are divided
    tempered, expert = (student / temperature).detach().requires_grad_(), teacher / temperature
    expected = sum(odds[token] * sampled_gradient(tempered, expert, token) for token in range(4)) / temperature
    exact = torch.autograd.grad(logits_distillation_loss(student[None], teacher[None], ONE, temperature=temperature).loss, student)[
        0
    ]
    torch.testing.assert_close(expected, exact, rtol=0, atol=1e-12)
    if temperature == 1.0:
        close(-exact, [-0.05233993367048661, 0.12891948232146566, 0.06558539269937991, -0.14216494137672675])


@given(st.lists(st.tuples(st.floats(-8, 8), st.floats(-8, 8)), min_size=2, max_size=6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_unbiased_for_any_two_models(pairs: list[tuple[float, float]]) -> None:
    student, teacher = tensor([a for a, _ in pairs], grad=True), tensor([b for _, b in pairs])
    odds = torch.softmax(student.detach(), -1)
    expected = sum(odds[token] * sampled_gradient(student, teacher, token) for token in range(len(pairs)))
    exact = torch.autograd.grad(logits_distillation_loss(student[None], teacher[None], ONE).loss, student)[0]
    torch.testing.assert_close(expected, exact, rtol=0, atol=1e-12)


def test_differentiating_the_samples_gives_something_else() -> None:
    # E[grad k1] = sum_v grad pi_v = 0; E[grad k3] is the gradient pi - E of the forward divergence
    student, teacher = tensor(STUDENT, grad=True), tensor(TEACHER)
    odds = torch.softmax(student.detach(), -1)

    def log_ratio() -> Tensor:
        return torch.log_softmax(student, -1) - torch.log_softmax(teacher, -1)

    close(gradient((odds * log_ratio()).sum(), student), [0.0] * 4)
    forward = logits_distillation_loss(student[None], teacher[None], ONE, direction="forward").loss
    close(gradient((odds * (torch.exp(-log_ratio()) - 1 + log_ratio())).sum(), student), gradient(forward, student))


def test_two_positions_and_the_distribution_of_the_second_depends_on_the_first() -> None:
    # With a discount of 1 the sampled form is the gradient of the KL of whole sequences: here all 4 sequences of 2 tokens
    generator = torch.Generator().manual_seed(3)
    first, second = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((2,), (2, 2)))
    experts = (torch.tensor([0.4, -0.9], dtype=torch.float64), torch.tensor([[0.1, 0.7], [-1.2, 0.3]], dtype=torch.float64))
    first.requires_grad_()
    second.requires_grad_()
    own = torch.log_softmax(first, -1)[:, None] + torch.log_softmax(second, -1)  # [a, b]
    expert = torch.log_softmax(experts[0], -1)[:, None] + torch.log_softmax(experts[1], -1)
    exact = torch.autograd.grad((own.exp() * (own - expert)).sum(), [first, second])
    found = [torch.zeros_like(first), torch.zeros_like(second)]
    for a in range(2):
        for b in range(2):
            current = torch.stack([torch.log_softmax(first, -1)[a], torch.log_softmax(second[a], -1)[b]])[None]
            teacher = torch.stack([torch.log_softmax(experts[0], -1)[a], torch.log_softmax(experts[1][a], -1)[b]])[None]
            mask = torch.ones(1, 2, dtype=torch.bool)
            credit = distillation_advantages(current, teacher, mask).advantages
            future = discounted_returns(credit, gamma=1.0, valid_mask=mask)
            loss = reinforce_policy_loss(current, future, mask, aggregation="sequence_sum").loss
            probability = current.detach().sum().exp()
            for total, grad in zip(found, torch.autograd.grad(loss, [first, second]), strict=True):
                total += probability * grad
    torch.testing.assert_close(tuple(found), exact, rtol=0, atol=1e-12)


def test_it_adds_to_the_advantages_of_a_task() -> None:
    # task advantage 1, distillation 2 * -(-1.0 - -1.5) = -1: they cancel
    student, mask = tensor([[-1.0]], grad=True), tensor([[1]])
    credit = distillation_advantages(student, tensor([[-1.5]]), mask, coefficient=2.0).advantages
    out = clipped_policy_loss(student, student.detach(), tensor([[1.0]]) + credit, mask)
    assert gradient(out.loss, student) == [[0.0]]


def test_a_coefficient_scales_the_credit_and_not_the_statistic() -> None:
    out = distillation_advantages(tensor([[-1.0]]), tensor([[-3.0]]), tensor([[1]]), coefficient=0.25)
    close(out.advantages, [[-0.5]])
    assert counted(out.partials["reverse_kl"]) == (2.0, 1.0)


@pytest.mark.parametrize("filler", [math.nan, math.inf, -math.inf, 1e30])
def test_masked_positions_may_hold_anything(filler: float) -> None:
    out = distillation_advantages(tensor([[-1.0, filler]]), tensor([[-2.0, filler]]), tensor([[1, 0]]))
    assert out.advantages.tolist() == [[-1.0, 0.0]]
    assert counted(out.partials["reverse_kl"]) == (1.0, 1.0)


def test_probability_zero_is_floored_and_counted() -> None:
    out = distillation_advantages(
        tensor([[-1.0, -1.0, -1.0]]), tensor([[-math.inf, -60.0, -2.0]]), tensor([[1, 1, 1]]), teacher_floor=-50
    )
    assert out.advantages.tolist() == [[-49.0, -49.0, -1.0]]
    assert counted(out.partials["teacher_floored_fraction"]) == (2.0, 3.0)


def test_an_empty_mask_gives_zeros() -> None:
    out = distillation_advantages(tensor([[-1.0]]), tensor([[-2.0]]), tensor([[0]]))
    assert out.advantages.tolist() == [[0.0]]
    assert out.partials["reverse_kl"].mean().isnan()


def test_half_precision_is_evidence_with_a_stated_error() -> None:
    with pytest.warns(UserWarning, match="student_logprobs should be float32"):
        out = distillation_advantages(torch.tensor([[-1.0]], device=DEVICE).bfloat16(), tensor([[-2.0]]), tensor([[1]]))
    assert out.advantages.dtype == torch.float64


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"coefficient": -1.0}, RangeError, "coefficient"),
        ({"coefficient": math.inf}, RangeError, "coefficient"),
        ({"teacher_floor": -math.inf}, RangeError, "teacher_floor"),
        ({"student_logprobs": [[-math.inf]]}, NonFiniteError, "student_logprobs must be finite"),
        ({"teacher_logprobs": [[math.nan]]}, NonFiniteError, "teacher_logprobs must be a number or minus infinity"),
        ({"teacher_logprobs": [[math.inf]]}, NonFiniteError, "teacher_logprobs must be a number or minus infinity"),
        ({"teacher_logprobs": [[-1.0, -1.0]]}, ShapeError, "teacher_logprobs must have the shape of action_mask"),
        ({"action_mask": [[2]]}, MaskError, "action_mask"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], error: type[Exception], match: str) -> None:
    arguments: dict[str, Any] = {"student_logprobs": [[-1.0]], "teacher_logprobs": [[-2.0]], "action_mask": [[1]]} | change
    arguments = {name: tensor(value) if isinstance(value, list) else value for name, value in arguments.items()}
    with raises(error, match):
        distillation_advantages(**arguments)
