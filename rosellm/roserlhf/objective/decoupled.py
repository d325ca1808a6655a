"""Decoupled PPO: clip against the proximal policy, correct for the behaviour policy with a separate constant weight."""

from __future__ import annotations

import math
from typing import Literal, Unpack, get_args

from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.masked import fraction, partial
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.aggregation import Aggregation, weighing
from rosellm.roserlhf.objective.layout import Layout
from rosellm.roserlhf.objective.outputs import DecoupledPolicyLossOutput, finish
from rosellm.roserlhf.objective.ratios import bounded, clip_fractions, clipped_surrogate, divergence

Cap = Literal["mask", "truncate"]
"""What happens to a behaviour weight above its cap: it becomes 0, or the cap."""


def decoupled_policy_loss(
    current_logprobs: Tensor,
    proximal_logprobs: Tensor,
    behaviour_logprobs: Tensor,
    advantages: Tensor,
    action_mask: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    behaviour_cap: float | None = None,
    cap: Cap = "mask",
    max_log_ratio: float = 20.0,
    aggregation: Aggregation = "token",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> DecoupledPolicyLossOutput:
    r"""Maximise PPO's surrogate around the proximal policy for tokens that an older behaviour policy sampled.

    .. math::
        J = \frac{1}{D} \sum_t m_t w_t\, b_t
            \min\big(u_t A_t,\ \operatorname{clip}(u_t, 1-\epsilon_l, 1+\epsilon_h) A_t\big), \qquad
        u = \frac{\pi_\theta}{\pi_{\text{prox}}}, \quad
        b = \operatorname{sg}\Big[\frac{\pi_{\text{prox}}}{\pi_{\text{behaviour}}}\Big]

    The clip keeps the update near the policy from before it, however old the data is; clipping against the behaviour policy would
    hold stale tokens where they were sampled. Where proximal and behaviour agree this is `clipped_policy_loss`.

    A weight above `behaviour_cap` is set to 0 (`cap="mask"`, AReaL's default, with a cap of 5) or to the cap (`"truncate"`); one
    exactly on it is kept. A masked token stays in the denominator, as in AReaL, so that the size of an update does not depend on
    how stale the data is. Without a cap one stale token can outweigh a batch. Beware of AReaL's setting without any rejection: it
    drops the weight altogether. Default: `aggregation="token"`; the clip is 0.2 on both sides there.

    Source: Fu et al. 2025 (AReaL), the decoupled objective, https://arxiv.org/abs/2505.24298; the objective Hilton et al. 2021,
    https://arxiv.org/abs/2110.00641

    Args:
        current_logprobs: `[..., T]`, floating point: of the policy that is trained.
        proximal_logprobs: same shape: of the policy before this update, recomputed or from `log_linear_proximal`; detached.
        behaviour_logprobs: same shape: recorded by the engine that sampled; detached.
        advantages: one per token, per row (`[...]` or `[..., 1]`, where rows are sequences) or per packed sequence; detached.
        action_mask: same shape as `current_logprobs`, boolean or exactly 0/1. Masked values may be anything.
        clip_low: offset below 1, in [0, 1).
        clip_high: offset above 1, at least 0.
        behaviour_cap: largest behaviour weight, above 0. Default: none.
        cap: `"mask"` or `"truncate"`.
        max_log_ratio: bound on both absolute log-ratios, above 0; infinity leaves 88 in float32.
        aggregation: how tokens are weighed; see `aggregate`.
        denominator: of the whole optimizer step, from `step_denominator`; default: this call's own.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        `DecoupledPolicyLossOutput`; the diagnostics named as in `PolicyLossOutput` are of `u`.

    Raises:
        MaskError: the mask is not 0/1, or empty without a denominator (`empty mask`).
        NonFiniteError: NaN or infinity at a live position; the message names the argument.
        RangeError: a number is out of range, or `cap="truncate"` without a cap.
        ShapeError, DtypeError, DeviceError: the tensors do not fit together.

    Example:
        >>> zeros, ones = torch.zeros(1, 2), torch.ones(1, 2)
        >>> behaviour = torch.tensor([[0.5, 0.1]]).log()  # proximal probability 1: weights 2 and 10
        >>> out = decoupled_policy_loss(zeros, zeros, behaviour, ones, ones, clip_low=0.2, clip_high=0.2, behaviour_cap=5.0)
        >>> out.token_loss, out.behaviour_cap_fraction
        (tensor([[-2., -0.]]), tensor(0.5000))
    """
    mask = inputs.token_mask(action_mask, current_logprobs)
    bounds = inputs.ratio_bounds(clip_low, clip_high)
    limit = _limit(behaviour_cap, cap)
    inputs.positive_number(max_log_ratio, "max_log_ratio")
    how = weighing(mask, aggregation, denominator, layout)
    current = inputs.current(current_logprobs, mask)
    proximal = inputs.recorded(proximal_logprobs, "proximal_logprobs", mask)
    behaviour = inputs.recorded(behaviour_logprobs, "behaviour_logprobs", mask)
    credit = inputs.token_advantages(advantages, "advantages", mask, how.sequences)

    ratios, behaviour_ratios = bounded(current - proximal, max_log_ratio), bounded(proximal - behaviour, max_log_ratio)
    over = behaviour_ratios.value > limit
    weight = behaviour_ratios.value.masked_fill(over, 0.0) if cap == "mask" else behaviour_ratios.value.clamp(max=limit)

    statistics = {
        "approximate_kl": partial(divergence(ratios.log), mask),
        **clip_fractions("clip_fraction", ratios.value, bounds, credit, mask),
        "mean_ratio": partial(ratios.value, mask),
        "mean_behaviour_ratio": partial(behaviour_ratios.value, mask),
        "mean_behaviour_weight": partial(weight, mask),
        "behaviour_cap_fraction": fraction(over, mask),
        "log_ratio_clamped_fraction": fraction(ratios.clamped, mask),
        "behaviour_log_ratio_clamped_fraction": fraction(behaviour_ratios.clamped, mask),
    }
    core = finish(weight * clipped_surrogate(ratios.value, credit, bounds), mask, how, statistics)
    return DecoupledPolicyLossOutput(
        loss=core.loss,
        objective=core.objective,
        approximate_kl=core.mean("approximate_kl"),
        clip_fraction=core.mean("clip_fraction"),
        mean_ratio=core.mean("mean_ratio"),
        mean_behaviour_weight=core.mean("mean_behaviour_weight"),
        behaviour_cap_fraction=core.mean("behaviour_cap_fraction"),
        token_loss=core.token_loss,
        partials=core.partials,
    )


def _limit(behaviour_cap: float | None, cap: str) -> float:
    checks.one_of(cap, "cap", get_args(Cap))
    if behaviour_cap is None:
        if cap != "mask":
            raise checks.fail(RangeError, "behaviour_cap", f"be given for cap={cap!r}", None)
        return math.inf
    inputs.positive_number(behaviour_cap, "behaviour_cap")
    return behaviour_cap
