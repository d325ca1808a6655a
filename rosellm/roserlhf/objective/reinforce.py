"""The score-function objective: advantage times log-probability, no ratio and no clip."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from rosellm.roserlhf.masked import Partial, fraction, partial
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.aggregation import Aggregation, weighing
from rosellm.roserlhf.objective.layout import Layout
from rosellm.roserlhf.objective.outputs import ReinforcePolicyLossOutput, finish
from rosellm.roserlhf.objective.ratios import bounded, divergence


def reinforce_policy_loss(
    current_logprobs: Tensor,
    advantages: Tensor,
    action_mask: Tensor,
    *,
    old_logprobs: Tensor | None = None,
    max_log_ratio: float = 20.0,
    aggregation: Aggregation = "token",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> ReinforcePolicyLossOutput:
    r"""Maximise the advantage-weighted log-probability of what was sampled.

    .. math:: J = \frac{1}{D} \sum_t m_t w_t A_t \ell_t, \qquad \frac{\partial J}{\partial \ell_t} = \frac{w_t A_t}{D}

    The policy gradient only if the samples come from the policy that is trained: there is no importance weight, so use one update
    per batch. Its gradient equals that of `clipped_policy_loss` at ratio 1. The value is not a return and may have any sign. A
    discount in front of later steps (the factor of the exact gradient of a discounted return) is, as nearly everywhere, left out:
    put it into the advantages if it is wanted. Default: `aggregation="token"`.

    With the second result of `v_trace` as advantages this is the policy gradient of V-trace (IMPALA): its importance weight, the
    truncated ratio, is already a factor of `pg_advantages`, so a token of an off-policy batch needs no other; the contexts stay
    those that the other policy visited. Likewise any advantage may carry a weight of its own. With advantages of 1 and a mask of
    the successful responses it is their negative log-likelihood: the term that VAPO adds, times 0.1, to the policy loss.

    Source: Williams 1992, https://doi.org/10.1007/BF00992696; the V-trace policy gradient Espeholt et al. 2018 (IMPALA), Section
    4.2, https://arxiv.org/abs/1802.01561

    Args:
        current_logprobs: `[..., T]`, floating point.
        advantages: one per token, per row (`[...]` or `[..., 1]`, where rows are sequences) or per packed sequence; detached.
        action_mask: same shape as `current_logprobs`, boolean or exactly 0/1. Masked values may be anything.
        old_logprobs: recorded behaviour log-probabilities, only for the diagnostics; without them those are NaN.
        max_log_ratio: bound on the absolute log-ratio of the diagnostics, above 0.
        aggregation: how tokens are weighed; see `aggregate`.
        denominator: of the whole optimizer step, from `step_denominator`; default: this call's own.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        `ReinforcePolicyLossOutput`.

    Raises:
        MaskError: the mask is not 0/1, or empty without a denominator (`empty mask`).
        NonFiniteError: NaN or infinity at a live position; the message names the argument.
        RangeError, ShapeError, DtypeError, DeviceError: a number is out of range, or the tensors do not fit together.

    Example:
        >>> reinforce_policy_loss(torch.tensor([[-1.0, -2.0]]), torch.tensor([2.0]), torch.ones(1, 2)).loss
        tensor(3.)
    """
    mask = inputs.token_mask(action_mask, current_logprobs)
    inputs.positive_number(max_log_ratio, "max_log_ratio")
    how = weighing(mask, aggregation, denominator, layout)
    current = inputs.current(current_logprobs, mask)
    credit = inputs.token_advantages(advantages, "advantages", mask, how.sequences)
    core = finish(credit * current, mask, how, _statistics(current, old_logprobs, mask, max_log_ratio))
    return ReinforcePolicyLossOutput(
        loss=core.loss,
        objective=core.objective,
        approximate_kl=core.mean("approximate_kl"),
        mean_ratio=core.mean("mean_ratio"),
        token_loss=core.token_loss,
        partials=core.partials,
    )


def _statistics(current: Tensor, old_logprobs: Tensor | None, mask: Tensor, max_log_ratio: float) -> dict[str, Partial]:
    if old_logprobs is None:
        return dict.fromkeys(("approximate_kl", "mean_ratio", "log_ratio_clamped_fraction"), Partial.nothing(current))
    ratios = bounded(current.detach() - inputs.recorded(old_logprobs, "old_logprobs", mask), max_log_ratio)
    return {
        "approximate_kl": partial(divergence(ratios.log), mask),
        "mean_ratio": partial(ratios.value, mask),
        "log_ratio_clamped_fraction": fraction(ratios.clamped, mask),
    }
