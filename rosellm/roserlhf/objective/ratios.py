"""Current and behaviour log-probabilities -> importance ratios of tokens and sequences, and how far they are from one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import MaskError
from rosellm.roserlhf.masked import Partial, fraction
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.segments import segments


@dataclass(frozen=True)
class Ratios:
    """Importance ratios and the log-ratios that made them, bounded against overflow; differentiable."""

    log: Tensor
    """Log-ratio, clamped to plus or minus the bound: no gradient flows beyond it."""
    value: Tensor
    """`exp(log)`."""
    clamped: Tensor
    """Boolean: the bound acted here."""


def bounded(log_ratio: Tensor, max_log_ratio: float) -> Ratios:
    """Bound log-ratios so that the exponential stays finite, remembering where that was needed."""
    limit = representable(max_log_ratio, log_ratio.dtype)
    log = log_ratio.clamp(-limit, limit)
    return Ratios(log, log.exp(), log_ratio.detach().abs() > limit)


def representable(max_log_ratio: float, dtype: torch.dtype) -> float:
    """Return the bound, or what the type can exponentiate (88 in float32): beyond it a gradient would be 0 times infinity."""
    return min(max_log_ratio, float(math.floor(math.log(torch.finfo(dtype).max))))


def divergence(log_ratio: Tensor) -> Tensor:
    """Return `rho - 1 - log rho`, never negative: the k3 estimate of KL(old || current) from samples of the old policy."""
    log = log_ratio.detach()
    return (torch.expm1(log) - log).clamp(min=0.0)  # the clamp only repairs rounding


def outside(ratio: Tensor, bounds: tuple[float, float]) -> Tensor:
    """Tell which ratios are strictly outside the closed interval."""
    ratio_min, ratio_max = bounds
    return (ratio < ratio_min) | (ratio > ratio_max)


def clip_fractions(
    name: str,
    ratio: Tensor,
    bounds: tuple[float, float],
    advantages: Tensor,
    among: Tensor,
    count: Callable[[Tensor, Tensor], Partial] = fraction,
) -> dict[str, Partial]:
    """Count ratios outside the interval, among all and by the sign of the advantage, and where the clip left no gradient."""
    ratio_min, ratio_max = bounds
    left, up, down = outside(ratio, bounds), advantages > 0, advantages < 0
    return {
        name: count(left, among),
        f"{name}_positive": count(left, among & up),
        f"{name}_negative": count(left, among & down),
        f"{name}_binding": count(((ratio > ratio_max) & up) | ((ratio < ratio_min) & down), among),
    }


def clipped_surrogate(ratio: Tensor, advantages: Tensor, bounds: tuple[float, float]) -> Tensor:
    """Return `min(r A, clip(r) A)`; a ratio on a bound keeps its gradient."""
    return torch.minimum(ratio * advantages, ratio.clamp(*bounds) * advantages)


def sequence_log_ratio(
    current_logprobs: Tensor,
    old_logprobs: Tensor,
    action_mask: Tensor,
    *,
    length_normalize: bool,
) -> Tensor:
    r"""Reduce the token log-ratios of each row to one log-ratio of the sequence; the caller names which one.

    .. math::
        \Delta_i^{\text{sum}} = \sum_t m_{it} (\ell_{it} - \ell_{it}^{\text{behaviour}}), \qquad
        \Delta_i^{\text{mean}} = \Delta_i^{\text{sum}} / n_i

    The exponential of the sum is the true importance ratio of the sampled sequence and explodes or vanishes with its length. The
    exponential of the mean is the geometric mean of the token ratios (GSPO): comparable across lengths, but not a density ratio.
    They are different objects, so there is no default. A row without tokens has sum 0; its mean is undefined and an error. Nothing
    is clamped here.

    Source: Zheng et al. 2025 (GSPO), Eq. 7, https://arxiv.org/abs/2507.18071

    Args:
        current_logprobs: `[..., T]`, floating point; differentiable.
        old_logprobs: same shape; detached.
        action_mask: same shape, boolean or exactly 0/1; masked values are ignored, NaN and infinity included.
        length_normalize: True for the mean, False for the sum.

    Returns:
        `[...]`, one per row, float32 at least.

    Raises:
        MaskError: the mask is not 0/1, or a row is empty and the mean is asked for (`empty mask`).
        ShapeError, DtypeError, NonFiniteError: the arguments do not fit together, or a live value is not finite.

    Example:
        >>> current, old = torch.tensor([[4.0, 1.0]]).log(), torch.zeros(1, 2)
        >>> sequence_log_ratio(current, old, torch.ones(1, 2), length_normalize=True).exp()
        tensor([2.])
    """
    mask = inputs.token_mask(action_mask, current_logprobs)
    checks.flag(length_normalize, "length_normalize")
    difference = inputs.current(current_logprobs, mask) - inputs.recorded(old_logprobs, "old_logprobs", mask)
    rows = segments(mask, None)
    if not length_normalize:
        return rows.sum(difference)
    lengths = rows.lengths()
    requirement = "select a position in every row (an empty mask has no mean)"
    checks.each("action_mask", requirement, lambda: (lengths, lengths == 0), MaskError, fix="leave the row out")
    return rows.sum(difference) / lengths
