"""SAO: direct double-sided importance sampling, which drops both tails of the token ratio."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.masked import fraction, partial, select
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.aggregation import Aggregation, weighing
from rosellm.roserlhf.objective.layout import Layout
from rosellm.roserlhf.objective.outputs import SaoPolicyLossOutput, finish
from rosellm.roserlhf.objective.ratios import bounded, divergence


def direct_double_sided_mask(ratios: Tensor, *, clip_low: float, clip_high: float) -> Tensor:
    r"""Keep the tokens whose importance ratio lies strictly inside the trusted interval.

    .. math:: k_t = \mathbb 1\,[\,1-\epsilon_l < \rho_t < 1+\epsilon_h\,]

    Both tails go, whatever the sign of the advantage; PPO's clip saturates one of them. A ratio exactly on a bound is rejected: the
    formula is strict, although the paper's prose prints a closed interval. NaN and infinity lie outside. Where the bound is not a
    binary fraction the tie is decided by rounding (`1 - 0.8` is just below 0.2).

    Source: Hou et al. 2026 (SAO), Eq. 3, https://arxiv.org/abs/2607.07508

    Args:
        ratios: importance ratios (not their logarithms), any shape, floating point.
        clip_low: offset below 1, in [0, 1).
        clip_high: offset above 1, at least 0; the paper uses up to 5.

    Returns:
        Boolean tensor of the same shape.

    Raises:
        RangeError: `clip_low must be in [0, 1), got 1.5`.
        DtypeError: `ratios` is not floating point.

    Example:
        >>> direct_double_sided_mask(torch.tensor([0.75, 0.76, 1.25]), clip_low=0.25, clip_high=0.25)
        tensor([False,  True, False])
    """
    checks.floating(ratios, "ratios")
    ratio_min, ratio_max = inputs.ratio_bounds(clip_low, clip_high)
    return (ratios > ratio_min) & (ratios < ratio_max)


def sao_policy_loss(
    current_logprobs: Tensor,
    rollout_logprobs: Tensor,
    advantages: Tensor,
    action_mask: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    detach_ratio: bool = True,
    max_log_ratio: float = 20.0,
    aggregation: Aggregation = "token",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> SaoPolicyLossOutput:
    r"""Maximise the importance-weighted log-probability of the tokens inside the trusted interval.

    .. math::
        J = \frac{1}{D} \sum_t m_t w_t\, f(\rho_t) A_t \ell_t, \qquad
        f(\rho) = \begin{cases} \rho & 1-\epsilon_l < \rho < 1+\epsilon_h \\ 0 & \text{otherwise} \end{cases}

    Rejected tokens contribute exactly 0 and stay in the denominator, so the size of an update does not depend on how many were
    rejected. The paper does not say whether `f` is detached. Detached (default), a trusted token has the gradient
    `rho * A`, an importance-weighted policy gradient. `detach_ratio=False` is the literal derivative
    `rho * A * (1 + logprob)`, which reverses its sign where the log-probability is below -1: a research switch.

    Default: `aggregation="token"`, the mean over tokens as printed. The paper's intervals are `sao_reasoning` and `sao_coding`.

    Source: Hou et al. 2026 (SAO), Eq. 3, https://arxiv.org/abs/2607.07508; the same `f` in the GLM-5 report, Eq. 3-5,
    https://arxiv.org/abs/2602.15763

    Args:
        current_logprobs: `[..., T]`, floating point.
        rollout_logprobs: same shape: log-probabilities recorded by the engine that sampled; detached.
        advantages: one per token, per row (`[...]` or `[..., 1]`, where rows are sequences) or per packed sequence; detached.
        action_mask: same shape as `current_logprobs`, boolean or exactly 0/1. Masked values may be anything.
        clip_low: offset below 1, in [0, 1).
        clip_high: offset above 1, at least 0.
        detach_ratio: whether the weight is a constant.
        max_log_ratio: bound on the absolute log-ratio, above 0; infinity leaves 88 in float32.
        aggregation: how tokens are weighed; see `aggregate`.
        denominator: of the whole optimizer step, from `step_denominator`; default: this call's own.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        `SaoPolicyLossOutput`.

    Raises:
        MaskError: the mask is not 0/1, or empty without a denominator (`empty mask`).
        NonFiniteError: NaN or infinity at a live position; the message names the argument.
        RangeError, ShapeError, DtypeError, DeviceError: a number is out of range, or the tensors do not fit together.

    Example:
        >>> logprobs = torch.tensor([[-1.0, -1.0]])
        >>> rollout, ones = torch.tensor([[-1.0, -3.0]]), torch.ones(1, 2)
        >>> out = sao_policy_loss(logprobs, rollout, ones, ones, clip_low=0.3, clip_high=5.0)
        >>> out.loss, out.trusted_mask
        (tensor(0.5000), tensor([[ True, False]]))
    """
    mask = inputs.token_mask(action_mask, current_logprobs)
    ratio_min, ratio_max = inputs.ratio_bounds(clip_low, clip_high)
    inputs.positive_number(max_log_ratio, "max_log_ratio")
    checks.flag(detach_ratio, "detach_ratio")
    how = weighing(mask, aggregation, denominator, layout)
    current = inputs.current(current_logprobs, mask)
    rollout = inputs.recorded(rollout_logprobs, "rollout_logprobs", mask)
    credit = inputs.token_advantages(advantages, "advantages", mask, how.sequences)

    ratios = bounded(current - rollout, max_log_ratio)
    ratio = ratios.value
    trusted = direct_double_sided_mask(ratio, clip_low=clip_low, clip_high=clip_high) & mask
    weight = select(ratio.detach() if detach_ratio else ratio, trusted)
    objective = weight * credit * current

    statistics = {
        "approximate_kl": partial(divergence(ratios.log), mask),
        "rejected_fraction": fraction(~trusted, mask),
        "rejected_fraction_below": fraction(ratio <= ratio_min, mask),
        "rejected_fraction_above": fraction(ratio >= ratio_max, mask),
        "mean_ratio": partial(ratio, mask),
        "log_ratio_clamped_fraction": fraction(ratios.clamped, mask),
    }
    core = finish(objective, mask, how, statistics)
    return SaoPolicyLossOutput(
        loss=core.loss,
        objective=core.objective,
        approximate_kl=core.mean("approximate_kl"),
        rejected_fraction=core.mean("rejected_fraction"),
        mean_ratio=core.mean("mean_ratio"),
        trusted_mask=trusted,
        token_loss=core.token_loss,
        partials=core.partials,
    )


def sao_reasoning(
    current_logprobs: Tensor,
    rollout_logprobs: Tensor,
    advantages: Tensor,
    action_mask: Tensor,
    *,
    detach_ratio: bool = True,
    max_log_ratio: float = 20.0,
    aggregation: Aggregation = "token",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> SaoPolicyLossOutput:
    """Call `sao_policy_loss` with the paper's interval for reasoning with tools, 0.7 < ratio < 6: clip_low=0.3, clip_high=5.0.

    Source: Hou et al. 2026 (SAO), experiments, https://arxiv.org/abs/2607.07508

    Args:
        current_logprobs, rollout_logprobs, advantages, action_mask, detach_ratio, max_log_ratio, aggregation, denominator, layout:
            as in `sao_policy_loss`.

    Returns:
        `SaoPolicyLossOutput`.

    Raises:
        MaskError, NonFiniteError, RangeError, ShapeError, DtypeError, DeviceError: as in `sao_policy_loss`.

    Example:
        >>> ratios, ones = torch.tensor([[0.6, 0.8, 5.0, 7.0]]), torch.ones(1, 4)
        >>> sao_reasoning(ratios.log(), torch.zeros(1, 4), ones, ones).trusted_mask
        tensor([[False,  True,  True, False]])
    """
    checks.known_keywords(layout, Layout.__annotations__)
    return sao_policy_loss(
        current_logprobs,
        rollout_logprobs,
        advantages,
        action_mask,
        clip_low=0.3,
        clip_high=5.0,
        detach_ratio=detach_ratio,
        max_log_ratio=max_log_ratio,
        aggregation=aggregation,
        denominator=denominator,
        **layout,
    )


def sao_coding(
    current_logprobs: Tensor,
    rollout_logprobs: Tensor,
    advantages: Tensor,
    action_mask: Tensor,
    *,
    detach_ratio: bool = True,
    max_log_ratio: float = 20.0,
    aggregation: Aggregation = "token",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> SaoPolicyLossOutput:
    """Call `sao_policy_loss` with the paper's interval for coding, 0.2 < ratio < 4: clip_low=0.8, clip_high=3.0.

    Source: Hou et al. 2026 (SAO), experiments, https://arxiv.org/abs/2607.07508

    Args:
        current_logprobs, rollout_logprobs, advantages, action_mask, detach_ratio, max_log_ratio, aggregation, denominator, layout:
            as in `sao_policy_loss`.

    Returns:
        `SaoPolicyLossOutput`.

    Raises:
        MaskError, NonFiniteError, RangeError, ShapeError, DtypeError, DeviceError: as in `sao_policy_loss`.

    Example:
        >>> ratios, ones = torch.tensor([[0.1, 0.25, 3.0, 5.0]]), torch.ones(1, 4)
        >>> sao_coding(ratios.log(), torch.zeros(1, 4), ones, ones).trusted_mask
        tensor([[False,  True,  True, False]])
    """
    checks.known_keywords(layout, Layout.__annotations__)
    return sao_policy_loss(
        current_logprobs,
        rollout_logprobs,
        advantages,
        action_mask,
        clip_low=0.8,
        clip_high=3.0,
        detach_ratio=detach_ratio,
        max_log_ratio=max_log_ratio,
        aggregation=aggregation,
        denominator=denominator,
        **layout,
    )
