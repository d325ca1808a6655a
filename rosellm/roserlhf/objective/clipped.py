"""The clipped surrogate of PPO: token ratios, one saturated side per sign of the advantage."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from rosellm.roserlhf.masked import fraction, partial
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.aggregation import Aggregation, weighing
from rosellm.roserlhf.objective.layout import Layout
from rosellm.roserlhf.objective.outputs import PolicyLossOutput, finish
from rosellm.roserlhf.objective.ratios import bounded, clip_fractions_by_sign, divergence, outside


def clipped_policy_loss(
    current_logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    action_mask: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float | None = None,
    max_log_ratio: float = 20.0,
    aggregation: Aggregation = "token",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> PolicyLossOutput:
    r"""Maximise the clipped surrogate of PPO.

    .. math::
        s_t = \min\big(\rho_t A_t,\ \operatorname{clip}(\rho_t, 1-\epsilon_l, 1+\epsilon_h) A_t\big), \qquad
        \rho_t = \exp(\ell_t - \ell_t^{\text{behaviour}}), \qquad \text{loss} = -\frac{1}{D} \sum_t m_t w_t s_t

    A positive advantage stops adding gain above the upper bound, a negative one below the lower bound; the other tail keeps its
    gradient, so clipping does not bound the divergence. A ratio exactly on a bound keeps its full gradient and is not counted as
    clipped. The log-ratio is bounded only against overflow; beyond the bound there is no gradient, and `log_ratio_clamped_fraction`
    counts the tokens (stale or corrupt data: reject them). At ratio 1 with centred advantages the loss is 0 while its gradient is
    not.

    Defaults: `aggregation="token"`, the mean over timesteps of PPO and over tokens of DAPO; GRPO as printed uses `sequence_mean`,
    Dr. GRPO's code `horizon`. `clip_high=None` means `clip_low`; DAPO's "clip-higher" is 0.2, 0.28.

    Source: Schulman et al. 2017 (PPO), Eq. 7, https://arxiv.org/abs/1707.06347; Yu et al. 2025 (DAPO), Eq. 10 and 12,
    https://arxiv.org/abs/2503.14476

    Args:
        current_logprobs: `[..., T]`, floating point: log-probabilities under the policy that is trained.
        old_logprobs: same shape: recorded behaviour log-probabilities (or proximal ones); detached.
        advantages: one per token, per row (`[...]` or `[..., 1]`, where rows are sequences) or per packed sequence; detached.
        action_mask: same shape as `current_logprobs`, boolean or exactly 0/1: the loss mask. Masked values may be anything.
        clip_low: offset below 1, in [0, 1).
        clip_high: offset above 1, at least 0.
        max_log_ratio: bound on the absolute log-ratio, above 0; infinity switches it off.
        aggregation: how tokens are weighed; see `aggregate`.
        denominator: of the whole optimizer step, from `step_denominator`; default: this call's own.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        `PolicyLossOutput`; partials `clip_fraction_positive` and `clip_fraction_negative` count among tokens of one sign of the
        advantage, `clip_fraction_binding` the tokens whose gradient the clip removed.

    Raises:
        MaskError: the mask is not 0/1, or empty without a denominator (`empty mask`).
        NonFiniteError: NaN or infinity at a live position; the message names the argument.
        RangeError: `clip_low must be in [0, 1), got 1.5`; the same for the other numbers.
        ShapeError, DtypeError, DeviceError: the tensors do not fit together.

    Example:
        >>> current, old = torch.tensor([[1.5, 0.5]]).log(), torch.zeros(1, 2)
        >>> out = clipped_policy_loss(current, old, torch.ones(1, 2), torch.ones(1, 2))
        >>> out.token_loss, out.clip_fraction
        (tensor([[-1.2000, -0.5000]]), tensor(1.))
    """
    mask = inputs.token_mask(action_mask, current_logprobs)
    bounds = inputs.ratio_bounds(clip_low, clip_low if clip_high is None else clip_high)
    inputs.positive_number(max_log_ratio, "max_log_ratio")
    how = weighing(mask, aggregation, denominator, layout)
    current = inputs.current(current_logprobs, mask)
    old = inputs.recorded(old_logprobs, "old_logprobs", mask)
    credit = inputs.token_advantages(advantages, "advantages", mask, how.sequences)

    ratios = bounded(current - old, max_log_ratio)
    ratio = ratios.value
    surrogate = torch.minimum(ratio * credit, ratio.clamp(*bounds) * credit)

    statistics = {
        "approximate_kl": partial(divergence(ratios.log), mask),
        "clip_fraction": fraction(outside(ratio, bounds), mask),
        **clip_fractions_by_sign("clip_fraction", ratio, bounds, credit, mask),
        "mean_ratio": partial(ratio, mask),
        "log_ratio_clamped_fraction": fraction(ratios.clamped, mask),
    }
    core = finish(surrogate, mask, how, statistics)
    return PolicyLossOutput(
        loss=core.loss,
        objective=core.objective,
        approximate_kl=core.mean("approximate_kl"),
        clip_fraction=core.mean("clip_fraction"),
        mean_ratio=core.mean("mean_ratio"),
        token_loss=core.token_loss,
        partials=core.partials,
    )
