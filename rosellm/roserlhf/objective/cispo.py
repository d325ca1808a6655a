"""CISPO: the importance weight is clipped and held constant, so that every token keeps a gradient."""

from __future__ import annotations

import math
from typing import Unpack

from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.masked import fraction, partial
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.aggregation import Aggregation, weighing
from rosellm.roserlhf.objective.layout import Layout
from rosellm.roserlhf.objective.outputs import CispoPolicyLossOutput, finish
from rosellm.roserlhf.objective.ratios import bounded, divergence, outside


def cispo_policy_loss(
    current_logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    action_mask: Tensor,
    *,
    ratio_max: float,
    ratio_min: float = 0.0,
    max_log_ratio: float = 20.0,
    aggregation: Aggregation = "token",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> CispoPolicyLossOutput:
    r"""Maximise the log-probability of what was sampled, weighted by a clipped and constant importance ratio.

    .. math::
        J = \frac{1}{D} \sum_t m_t w_t\, \operatorname{sg}[\operatorname{clip}(\rho_t, c_{\min}, c_{\max})]\, A_t \ell_t, \qquad
        \frac{\partial J}{\partial \ell_t} = \frac{w_t}{D} \operatorname{clip}(\rho_t, c_{\min}, c_{\max}) A_t

    Nothing is dropped: a token whose ratio is clipped still has the gradient of the clipped weight, where PPO has none and SAO
    rejects it. The value is not a return (`reinforce_policy_loss`). The ratio is bounded before the exponential, so that one of
    any size is clipped and not infinite.

    **The bounds are absolute**, and that is where peers differ: TRL caps at its `epsilon_high` itself (5.0, say) with no lower
    bound, which is `ratio_max=5.0`; verl and slime clip to `[1 - low, 1 + high]`, which is `ratio_min=1 - low, ratio_max=1 + high`,
    and the paper writes its bounds so, too, with the lower one so far off that it never acts, `ratio_min=0`. It prints no value
    for the upper one, so there is no default. Default: `aggregation="token"`, as printed.

    Source: MiniMax 2025 (MiniMax-M1), the objective of CISPO, https://arxiv.org/abs/2506.13585

    Args:
        current_logprobs: `[..., T]`, floating point.
        old_logprobs: same shape: recorded behaviour log-probabilities (or proximal ones); detached.
        advantages: one per token, per row (`[...]` or `[..., 1]`, where rows are sequences) or per packed sequence; detached.
        action_mask: same shape as `current_logprobs`, boolean or exactly 0/1. Masked values may be anything.
        ratio_max: largest weight, above 0; infinity leaves the ratio as it is.
        ratio_min: smallest weight, in [0, ratio_max].
        max_log_ratio: bound on the absolute log-ratio, above 0; infinity leaves 88 in float32.
        aggregation: how tokens are weighed; see `aggregate`.
        denominator: of the whole optimizer step, from `step_denominator`; default: this call's own.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        `CispoPolicyLossOutput`; a ratio on a bound is not counted as clipped.

    Raises:
        MaskError: the mask is not 0/1, or empty without a denominator (`empty mask`).
        NonFiniteError: NaN or infinity at a live position; the message names the argument.
        RangeError, ShapeError, DtypeError, DeviceError: a number is out of range, or the tensors do not fit together.

    Example:
        >>> current, old = torch.tensor([[0.5, 4.0]]).log().requires_grad_(), torch.zeros(1, 2)
        >>> out = cispo_policy_loss(current, old, torch.ones(1, 2), torch.ones(1, 2), ratio_max=1.2)
        >>> torch.autograd.grad(out.loss, current)[0], out.clip_fraction
        (tensor([[-0.2500, -0.6000]]), tensor(0.5000))
    """
    mask = inputs.token_mask(action_mask, current_logprobs)
    inputs.positive_number(ratio_max, "ratio_max")
    checks.number_in(ratio_min, "ratio_min", 0.0, ratio_max, open_high=ratio_max == math.inf)
    inputs.positive_number(max_log_ratio, "max_log_ratio")
    how = weighing(mask, aggregation, denominator, layout)
    current = inputs.current(current_logprobs, mask)
    old = inputs.recorded(old_logprobs, "old_logprobs", mask)
    credit = inputs.token_advantages(advantages, "advantages", mask, how.sequences)

    ratios = bounded((current - old).detach(), max_log_ratio)
    weight = ratios.value.clamp(ratio_min, ratio_max)

    statistics = {
        "approximate_kl": partial(divergence(ratios.log), mask),
        "clip_fraction": fraction(outside(ratios.value, (ratio_min, ratio_max)), mask),
        "clip_fraction_below": fraction(ratios.value < ratio_min, mask),
        "clip_fraction_above": fraction(ratios.value > ratio_max, mask),
        "mean_ratio": partial(ratios.value, mask),
        "mean_weight": partial(weight, mask),
        "log_ratio_clamped_fraction": fraction(ratios.clamped, mask),
    }
    core = finish(weight * credit * current, mask, how, statistics)
    return CispoPolicyLossOutput(
        loss=core.loss,
        objective=core.objective,
        approximate_kl=core.mean("approximate_kl"),
        clip_fraction=core.mean("clip_fraction"),
        mean_ratio=core.mean("mean_ratio"),
        mean_weight=core.mean("mean_weight"),
        token_loss=core.token_loss,
        partials=core.partials,
    )
