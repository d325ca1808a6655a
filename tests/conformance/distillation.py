"""Adapters: distillation and preferences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rosellm.roserlhf.losses import (
    Teacher,
    distillation_advantages,
    dpo_loss,
    gather_token_logprobs,
    ipo_loss,
    logits_distillation_loss,
    multi_teacher_distillation_loss,
    reinforce_policy_loss,
)

from .case import Case, adapts, gradient, tensor

ONE = torch.ones(1, 1)


def _sampled(student: Tensor, teacher: Tensor, token: int) -> tuple[Tensor, Tensor]:
    """The advantage of one sampled token, and the direction in which ascent moves the student's logits."""
    ids = torch.tensor([[token]])
    current = gather_token_logprobs(student[None, None], ids)
    credit = distillation_advantages(current, gather_token_logprobs(teacher[None, None], ids), ONE).advantages
    loss = reinforce_policy_loss(current, credit, ONE).loss
    return credit, gradient(-loss, student)


@adapts("opd", "student_logits teacher_logits", optional_inputs="sampled_token")
def one_teacher(case: Case) -> Mapping[str, Any]:
    student, teacher = case.leaf("student_logits"), case.tensor("teacher_logits")
    exact = logits_distillation_loss(student[None, None], teacher[None, None], ONE).loss
    probabilities = student.detach().softmax(-1)
    actions = range(len(probabilities))

    def expected_policy_gradient() -> Tensor:
        return sum((probabilities[a] * _sampled(student, teacher, a)[1] for a in actions), torch.zeros_like(probabilities))

    def expected_gradient_of_k1() -> Tensor:
        """What comes of differentiating `log pi - log E` itself."""
        scores = [gradient(student.log_softmax(-1)[a], student) for a in actions]
        return sum((probabilities[a] * scores[a] for a in actions), torch.zeros_like(probabilities))

    found: dict[str, Any] = {
        "exact_reverse_kl": exact,
        "grad_exact_wrt_logits": gradient(exact, student),
        "grad": gradient(exact, student),
        "expected_policy_gradient": expected_policy_gradient,
        "expected_grad_if_k1_backpropagated": expected_gradient_of_k1,
    }
    if "sampled_token" in case.inputs:
        credit, direction = _sampled(student, teacher, case["sampled_token"])
        found |= {"sampled_k1": -credit[0, 0], "sampled_policy_gradient_direction": direction}
    return found


@adapts("mopd", "student_logits teacher_logits weights")
def several_teachers(case: Case) -> Mapping[str, Any]:
    """With the identity as head, hidden states are logits."""
    student, logits, weights = case.leaf("student_logits"), case.tensor("teacher_logits"), case.tensor("weights")
    head = torch.eye(len(student), dtype=torch.float64)
    teachers = [Teacher(f"teacher {i}", one[None, None], head) for i, one in enumerate(logits)]

    def loss(of: Tensor) -> Tensor:
        return multi_teacher_distillation_loss(of[None, None], head, teachers, ONE, weights=weights).loss

    mixture = (weights[:, None] * logits.log_softmax(-1)).sum(0)
    return {
        "loss": loss(student),
        "grad_wrt_logits": gradient(loss(student), student),
        "log_Z_geometric": mixture.logsumexp(-1),
        "optimum": mixture.softmax(-1),
        "loss_at_optimum": loss(mixture),
    }


@adapts("dpo", "chosen_logp rejected_logp ref_chosen_logp ref_rejected_logp", "beta")
def preferences(case: Case) -> Mapping[str, Any]:
    names = ("chosen_logp", "rejected_logp", "ref_chosen_logp", "ref_rejected_logp")
    one = not isinstance(case["chosen_logp"], list)
    chosen, rejected, ref_chosen, ref_rejected = (tensor([case[n]] if one else case[n]).requires_grad_() for n in names)
    beta = case["beta"]
    pairs = chosen, rejected, ref_chosen, ref_rejected
    out = dpo_loss(*pairs, beta=beta)
    by_pair = torch.stack([gradient(out.loss, chosen), gradient(out.loss, rejected)], -1)
    rewards = torch.stack([beta * (chosen - ref_chosen), beta * (rejected - ref_rejected)], -1)
    margins = (chosen - ref_chosen) - (rejected - ref_rejected)
    return {
        "h": margins[0] if one else margins,
        "loss": out.loss,
        "grad_wrt_chosen_rejected": by_pair[0] if one else by_pair,
        "implicit_rewards": rewards[0] if one else rewards,
        "loss_label_smoothing_0p1": dpo_loss(*pairs, beta=beta, label_smoothing=0.1).loss,
        "ipo_loss": ipo_loss(*pairs, beta=beta).loss,
    }
