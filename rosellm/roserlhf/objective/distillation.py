"""Log-probabilities of the sampled tokens under student and teacher -> advantages: distillation as a policy gradient."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import NonFiniteError
from rosellm.roserlhf.masked import Partial, at_least_float32, fraction, partial, select
from rosellm.roserlhf.objective import inputs


class DistillationAdvantages(NamedTuple):
    """What `distillation_advantages` returns."""

    advantages: Tensor
    """`[..., T]`, detached, 0 where masked."""
    partials: dict[str, Partial]
    """Addable: `reverse_kl` (the k1 estimate, of either sign, without the coefficient) and `teacher_floored_fraction`."""


def distillation_advantages(
    student_logprobs: Tensor,
    teacher_logprobs: Tensor,
    action_mask: Tensor,
    *,
    coefficient: float = 1.0,
    teacher_floor: float = -100.0,
) -> DistillationAdvantages:
    r"""Credit every sampled token with how much likelier the teacher finds it than the student.

    .. math:: A_t = -c\,\big(\log\pi(a_t) - \max(\log E(a_t),\, f)\big)

    A score-function signal: give it to `reinforce_policy_loss` or a clipped loss, alone or added to the advantages of a task. The
    expected gradient is then minus that of `c KL(student || teacher)`, which `reverse_kl_distillation_loss` computes exactly. It
    must not be differentiated itself, so it is detached: the gradient of the sampled `log π - log E` (k1) has mean zero, and that
    of the sampled k3 is in expectation the one of the *forward* KL(teacher || student). Both are found in public code.

    Only the divergence at the token itself is credited, as usual. What the token does to later divergences is left out; to include
    it, discount the result as rewards: `discounted_returns(A, gamma=..., valid_mask=action_mask)` (tinker-cookbook's
    `kl_discount_factor`, 0 there too). With several teachers pass `sum_i w_i log E_i`, with weights that sum to 1.

    Which student: the behaviour log-probabilities, recorded by the sampler, are the common choice (tinker-cookbook, slime); at the
    first update they equal the current ones. Teachers score with the temperature at which the student sampled.

    Source: Thinking Machines Lab 2025, "On-Policy Distillation", https://thinkingmachines.ai/blog/on-policy-distillation/

    Args:
        student_logprobs: `[..., T]`, floating point: behaviour or current log-probabilities of the sampled tokens.
        teacher_logprobs: `[..., T]`: of the same tokens; minus infinity is probability 0.
        action_mask: `[..., T]`, boolean or exactly 0/1. Masked positions may hold anything.
        coefficient: c, at least 0.
        teacher_floor: f, lowest log-probability that a teacher may give, below 0; where it acts is counted.

    Returns:
        `DistillationAdvantages`, float32 or float64. An empty mask gives zeros.

    Raises:
        NonFiniteError: NaN or plus infinity at a live position, or a student log-probability of minus infinity.
        MaskError, RangeError, ShapeError, DtypeError, DeviceError: the arguments do not fit together.

    Example:
        >>> distillation_advantages(torch.tensor([[-0.1, -2.0]]), torch.tensor([[-2.0, -0.1]]), torch.ones(1, 2)).advantages
        tensor([[-1.9000,  1.9000]])
    """
    mask = inputs.token_mask(action_mask, student_logprobs, "student_logprobs")
    checks.number_in(coefficient, "coefficient", 0.0, math.inf, open_high=True)
    checks.number_in(teacher_floor, "teacher_floor", -math.inf, 0.0, open_low=True, open_high=True)
    student = inputs.recorded(student_logprobs, "student_logprobs", mask)
    checks.floating(teacher_logprobs, "teacher_logprobs")
    checks.same_shape(teacher_logprobs, "teacher_logprobs", mask, "action_mask")
    teacher = select(at_least_float32(teacher_logprobs.detach()), mask)
    requirement = "be a number or minus infinity wherever its mask is true"
    checks.each("teacher_logprobs", requirement, lambda: (teacher, ~(teacher < math.inf)), NonFiniteError)
    reverse_kl = select(student - teacher.clamp(min=teacher_floor), mask)
    floored = fraction(teacher < teacher_floor, mask)
    return DistillationAdvantages(
        select(-coefficient * reverse_kl, mask), {"reverse_kl": partial(reverse_kl, mask), "teacher_floored_fraction": floored}
    )
