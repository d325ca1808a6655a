"""DPPO with total variation: a token is dropped when its probability, not its ratio, has moved too far the way it is pushed."""

from __future__ import annotations

import math
from typing import Unpack

from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.masked import fraction, partial, select
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.aggregation import Aggregation, weighing
from rosellm.roserlhf.objective.layout import Layout
from rosellm.roserlhf.objective.outputs import TotalVariationPolicyLossOutput, finish
from rosellm.roserlhf.objective.ratios import bounded, divergence


def total_variation_policy_loss(
    current_logprobs: Tensor,
    rollout_logprobs: Tensor,
    advantages: Tensor,
    action_mask: Tensor,
    *,
    max_increase: float = 0.2,
    max_decrease: float = 0.2,
    ratio_max: float | None = None,
    square_coefficient: float = 0.0,
    max_log_ratio: float = 20.0,
    aggregation: Aggregation = "token",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> TotalVariationPolicyLossOutput:
    r"""Maximise the importance-weighted surrogate of the tokens whose probability is still near where it was sampled.

    .. math::
        k_t = \begin{cases}
            \pi_\theta(x_t) - \mu(x_t) \le d_+ & A_t > 0 \\
            \pi_\theta(x_t) - \mu(x_t) \ge -d_- & A_t < 0
        \end{cases}, \qquad
        J = \frac{1}{D} \sum_t m_t w_t \big( k_t \rho_t A_t - c \log^2 \rho_t \big)

    The difference of the two probabilities bounds the total variation between the policies as far as one sampled token shows it. A
    ratio interval is not that: of a token with probability 1e-4 it forbids a move that changes nothing, and it lets one with 0.9
    fall to 0.73. A token that moved against its advantage keeps its gradient. One exactly on a bound is kept; dropped tokens stay
    in the denominator. A rare token may have a large ratio within the bounds: `ratio_max` caps the weight.

    Defaults: those of prime-rl's default loss, which divides by all loss tokens and takes `rollout_logprobs` from the sampler
    (never recomputed); it adds the square of the log-ratio on all tokens with `square_coefficient=1e-3` (0 here, as in the paper)
    and caps nothing. verl (`dppo_tv`) uses its `clip_ratio` options as the bounds and the gradient `min(rho, 20) A` in place of
    `rho A`: `ratio_max=20.0`; only its loss value differs then, which it takes times the log-probability.

    Source: the binary total-variation mask of DPPO, https://arxiv.org/abs/2602.04879; prime-rl, `trainer/rl/loss.py`,
    https://github.com/PrimeIntellect-ai/prime-rl

    Args:
        current_logprobs: `[..., T]`, floating point.
        rollout_logprobs: same shape: log-probabilities recorded by the engine that sampled; detached.
        advantages: one per token, per row (`[...]` or `[..., 1]`, where rows are sequences) or per packed sequence; detached.
        action_mask: same shape as `current_logprobs`, boolean or exactly 0/1. Masked values may be anything.
        max_increase: how much a probability may rise where the advantage is positive, in [0, 1]; 1 drops nothing.
        max_decrease: how much it may fall where the advantage is negative, in [0, 1].
        ratio_max: cap of the weight, above 0; a capped token has the gradient of the cap. Default: none.
        square_coefficient: of the squared log-ratio, at least 0, on every live token, dropped ones included.
        max_log_ratio: bound on the absolute log-ratio, above 0; infinity leaves 88 in float32.
        aggregation: how tokens are weighed; see `aggregate`.
        denominator: of the whole optimizer step, from `step_denominator`; default: this call's own.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        `TotalVariationPolicyLossOutput`; partials `rejected_fraction_positive` and `rejected_fraction_negative` count among tokens
        of one sign of the advantage.

    Raises:
        MaskError: the mask is not 0/1, or empty without a denominator (`empty mask`).
        NonFiniteError: NaN or infinity at a live position; the message names the argument.
        RangeError, ShapeError, DtypeError, DeviceError: a number is out of range, or the tensors do not fit together.

    Example:
        >>> current, rollout = torch.tensor([[0.9, 2e-4]]).log(), torch.tensor([[0.6, 1e-4]]).log()
        >>> out = total_variation_policy_loss(current, rollout, torch.ones(1, 2), torch.ones(1, 2))
        >>> out.trusted_mask, out.token_loss
        (tensor([[False,  True]]), tensor([[-0.0000, -2.0000]]))
    """
    mask = inputs.token_mask(action_mask, current_logprobs)
    checks.number_in(max_increase, "max_increase", 0.0, 1.0)
    checks.number_in(max_decrease, "max_decrease", 0.0, 1.0)
    if ratio_max is not None:
        inputs.positive_number(ratio_max, "ratio_max")
    checks.number_in(square_coefficient, "square_coefficient", 0.0, math.inf, open_high=True)
    inputs.positive_number(max_log_ratio, "max_log_ratio")
    how = weighing(mask, aggregation, denominator, layout)
    current = inputs.current(current_logprobs, mask)
    rollout = inputs.recorded(rollout_logprobs, "rollout_logprobs", mask)
    credit = inputs.token_advantages(advantages, "advantages", mask, how.sequences)

    ratios = bounded(current - rollout, max_log_ratio)
    moved = current.detach().exp() - rollout.exp()
    up, down = credit > 0, credit < 0
    rejected = (up & (moved > max_increase)) | (down & (moved < -max_decrease))
    weight = ratios.value if ratio_max is None else ratios.value.detach().clamp(max=ratio_max) * (1.0 + current - current.detach())
    objective = select(weight, ~rejected) * credit - square_coefficient * ratios.log.square()

    statistics = {
        "approximate_kl": partial(divergence(ratios.log), mask),
        "rejected_fraction": fraction(rejected, mask),
        "rejected_fraction_positive": fraction(rejected, mask & up),
        "rejected_fraction_negative": fraction(rejected, mask & down),
        "mean_probability_change": partial(moved.abs(), mask),
        "mean_ratio": partial(ratios.value, mask),
        "log_ratio_clamped_fraction": fraction(ratios.clamped, mask),
    }
    core = finish(objective, mask, how, statistics)
    return TotalVariationPolicyLossOutput(
        loss=core.loss,
        objective=core.objective,
        approximate_kl=core.mean("approximate_kl"),
        rejected_fraction=core.mean("rejected_fraction"),
        mean_probability_change=core.mean("mean_probability_change"),
        mean_ratio=core.mean("mean_ratio"),
        trusted_mask=mask & ~rejected,
        token_loss=core.token_loss,
        partials=core.partials,
    )
