"""The clipped surrogate of PPO: token ratios, one saturated side per sign of the advantage; GRPO's divergence from a reference."""

from __future__ import annotations

import math
from typing import Unpack, get_args

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.masked import Partial, fraction, partial
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.aggregation import Aggregation, weighing
from rosellm.roserlhf.objective.kl import KlEstimator, TokenKl, token_kl, warn_of_gradient
from rosellm.roserlhf.objective.layout import Layout
from rosellm.roserlhf.objective.outputs import PolicyLossOutput, finish
from rosellm.roserlhf.objective.ratios import bounded, clip_fractions, clipped_surrogate, divergence


def clipped_policy_loss(
    current_logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    action_mask: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float | None = None,
    dual_clip: float | None = None,
    reference_logprobs: Tensor | None = None,
    kl_coefficient: float = 0.0,
    kl_estimator: KlEstimator = "k3",
    max_log_ratio: float = 20.0,
    aggregation: Aggregation = "token",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> PolicyLossOutput:
    r"""Maximise the clipped surrogate of PPO, less a divergence from a reference if one is given.

    .. math::
        s_t = \min\big(\rho_t A_t,\ \operatorname{clip}(\rho_t, 1-\epsilon_l, 1+\epsilon_h) A_t\big), \qquad
        \rho_t = \exp(\ell_t - \ell_t^{\text{behaviour}}), \qquad
        \text{loss} = -\frac{1}{D} \sum_t m_t w_t \big(s_t - \beta\, k(\ell_t - \ell_t^{\text{reference}})\big)

    A positive advantage stops adding gain above the upper bound, a negative one below the lower bound; the other tail keeps its
    gradient, so clipping does not bound the divergence. `dual_clip` bounds the tail of negative advantages,
    `s = max(s, c A)` with c > 1: a token that became c times as likely and was bad adds no more loss, and no gradient. A ratio
    exactly on a bound of the clip keeps its full gradient and is not counted as clipped. The log-ratio is bounded only against
    overflow; beyond the bound there is no gradient, and `log_ratio_clamped_fraction` counts the tokens (stale or corrupt data:
    reject them). At ratio 1 with centred advantages the loss is 0 while its gradient is not.

    The methods that are settings of this function:

    | method | clip | aggregation | divergence |
    |---|---|---|---|
    | PPO | 0.2 | `token` | none, or in the reward |
    | GRPO as printed | 0.2 | `sequence_mean` | `kl_coefficient=0.04`, `kl_estimator="k3"` |
    | DAPO | 0.2, 0.28 ("clip-higher") | `token` | none |
    | Dr. GRPO's code | 0.2 | `horizon` (as printed: `sequence_sum`) | none |

    The two aggregations of GRPO's readings can differ in sign. `dual_clip` is off, as in slime and OpenRLHF; verl has it on
    with 3. `k3` has the gradient of the *forward* divergence and says so in a warning: `"k3_k2_gradient"` has its value and the
    gradient of KL(current || reference); see `kl_estimate`.

    Source: Schulman et al. 2017 (PPO), Eq. 7, https://arxiv.org/abs/1707.06347; Ye et al. 2020 (dual clip),
    https://arxiv.org/abs/1912.09729; Shao et al. 2024 (GRPO), Eq. 3 and 4, https://arxiv.org/abs/2402.03300; Yu et al. 2025 (DAPO),
    Eq. 10 and 12, https://arxiv.org/abs/2503.14476; Liu et al. 2025 (Dr. GRPO), https://arxiv.org/abs/2503.20783

    Args:
        current_logprobs: `[..., T]`, floating point: log-probabilities under the policy that is trained.
        old_logprobs: same shape: recorded behaviour log-probabilities (or proximal ones); detached.
        advantages: one per token, per row (`[...]` or `[..., 1]`, where rows are sequences) or per packed sequence; detached.
        action_mask: same shape as `current_logprobs`, boolean or exactly 0/1: the loss mask. Masked values may be anything.
        clip_low: offset below 1, in [0, 1).
        clip_high: offset above 1, at least 0. Default: `clip_low`.
        dual_clip: the bound c for negative advantages, above 1. Default: off.
        reference_logprobs: same shape: log-probabilities of the reference; detached. With `kl_coefficient` and only with it.
        kl_coefficient: beta, at least 0.
        kl_estimator: `k1`, `k2`, `k3` or `k3_k2_gradient`; see `kl_estimate`.
        max_log_ratio: bound on the absolute log-ratio and on the exponent of k3, above 0; infinity leaves 88 in float32.
        aggregation: how tokens are weighed; see `aggregate`.
        denominator: of the whole optimizer step, from `step_denominator`; default: this call's own.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        `PolicyLossOutput`; partials `clip_fraction_positive` and `clip_fraction_negative` count among tokens of one sign of the
        advantage, `clip_fraction_binding` the tokens whose gradient the clip removed, `dual_clip_fraction` (with `dual_clip`) those
        that stand strictly beyond it; `reference_kl` and `reference_kl_clamped_fraction` come with a reference.

    Raises:
        MaskError: the mask is not 0/1, or empty without a denominator (`empty mask`).
        NonFiniteError: NaN or infinity at a live position; the message names the argument.
        RangeError: `clip_low must be in [0, 1), got 1.5`; the same for the other numbers. A reference without a coefficient, a
            coefficient without a reference.
        ShapeError, DtypeError, DeviceError: the tensors do not fit together.

    Warns:
        UserWarning: `kl_estimator` is k1 or k3 and `current_logprobs` requires a gradient.

    Example:
        >>> current, old = torch.tensor([[1.5, 0.5]]).log(), torch.zeros(1, 2)
        >>> out = clipped_policy_loss(current, old, torch.ones(1, 2), torch.ones(1, 2))
        >>> out.token_loss, out.clip_fraction
        (tensor([[-1.2000, -0.5000]]), tensor(1.))
    """
    mask = inputs.token_mask(action_mask, current_logprobs)
    bounds = inputs.ratio_bounds(clip_low, clip_low if clip_high is None else clip_high)
    inputs.positive_number(max_log_ratio, "max_log_ratio")
    if dual_clip is not None:
        checks.number_in(dual_clip, "dual_clip", 1.0, math.inf, open_low=True, open_high=True)
    how = weighing(mask, aggregation, denominator, layout)
    current = inputs.current(current_logprobs, mask)
    old = inputs.recorded(old_logprobs, "old_logprobs", mask)
    credit = inputs.token_advantages(advantages, "advantages", mask, how.sequences)
    penalty = _penalty(current, reference_logprobs, kl_coefficient, kl_estimator, max_log_ratio, mask)

    ratios = bounded(current - old, max_log_ratio)
    ratio = ratios.value
    objective = clipped_surrogate(ratio, credit, bounds)
    statistics = {
        "approximate_kl": partial(divergence(ratios.log), mask),
        **clip_fractions("clip_fraction", ratio, bounds, credit, mask),
        "mean_ratio": partial(ratio, mask),
        "log_ratio_clamped_fraction": fraction(ratios.clamped, mask),
    }
    if dual_clip is not None:
        negative = credit < 0
        objective = torch.where(negative, torch.maximum(objective, dual_clip * credit), objective)
        statistics["dual_clip_fraction"] = fraction(negative & (ratio > dual_clip), mask)
    if penalty is not None:
        objective = objective - kl_coefficient * penalty.value
        statistics |= _penalty_statistics(penalty, mask)

    core = finish(objective, mask, how, statistics)
    return PolicyLossOutput(
        loss=core.loss,
        objective=core.objective,
        approximate_kl=core.mean("approximate_kl"),
        clip_fraction=core.mean("clip_fraction"),
        mean_ratio=core.mean("mean_ratio"),
        token_loss=core.token_loss,
        partials=core.partials,
    )


def _penalty(
    current: Tensor,
    reference_logprobs: Tensor | None,
    coefficient: float,
    estimator: KlEstimator,
    max_log_ratio: float,
    mask: Tensor,
) -> TokenKl | None:
    """Estimate the divergence from the reference of each token; an argument that nothing would read is an error."""
    checks.number_in(coefficient, "kl_coefficient", 0.0, math.inf, open_high=True)
    checks.one_of(estimator, "kl_estimator", get_args(KlEstimator))
    if reference_logprobs is None:
        if coefficient != 0 or estimator != "k3":
            got = f"kl_coefficient={coefficient!r} and kl_estimator={estimator!r}"
            raise checks.fail(RangeError, "reference_logprobs", "be given with kl_coefficient and kl_estimator", f"None with {got}")
        return None
    if coefficient == 0:
        raise checks.fail(RangeError, "kl_coefficient", "be above 0 where reference_logprobs are given", coefficient)
    reference = inputs.recorded(reference_logprobs, "reference_logprobs", mask)
    warn_of_gradient(estimator, current, stacklevel=3)
    return token_kl(current - reference, estimator, max_log_ratio)


def _penalty_statistics(penalty: TokenKl, mask: Tensor) -> dict[str, Partial]:
    return {"reference_kl": partial(penalty.value, mask), "reference_kl_clamped_fraction": fraction(penalty.clamped, mask)}
