"""Corrections of single tokens by name: TIS and IcePop."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.objective.layout import Layout
from rosellm.roserlhf.objective.mismatch.bounds import mismatch_correction
from rosellm.roserlhf.objective.mismatch.correction import MismatchCorrection


def tis(
    proximal_logprobs: Tensor, behaviour_logprobs: Tensor, action_mask: Tensor, *, cap: float = 2.0, **layout: Unpack[Layout]
) -> MismatchCorrection:
    r"""Truncate token ratios from above: `min(rho, cap)` (truncated importance sampling).

    Default: cap 2, as in verl and slime. For one ratio per sequence, `mismatch_correction` with a sequence level.

    Source: Yao et al. 2025 (TIS), https://fengyao.notion.site/off-policy-rl

    Args:
        proximal_logprobs, behaviour_logprobs, action_mask, layout: as in `mismatch_correction`.
        cap: at least 1.

    Returns:
        `MismatchCorrection`; nothing is rejected.

    Raises:
        RangeError: `ratio_max must be in [1, inf)`, for the cap; the rest as in `mismatch_correction`.

    Example:
        >>> tis(torch.tensor([[4.0, 0.1]]).log(), torch.zeros(1, 2), torch.ones(1, 2)).weights
        tensor([[2.0000, 0.1000]])
    """
    checks.known_keywords(layout, Layout.__annotations__)
    return mismatch_correction(
        proximal_logprobs, behaviour_logprobs, action_mask, level="token", action="truncate", ratio_max=cap, **layout
    )


def icepop(
    proximal_logprobs: Tensor,
    behaviour_logprobs: Tensor,
    action_mask: Tensor,
    *,
    ratio_min: float = 0.5,
    ratio_max: float = 5.0,
    **layout: Unpack[Layout],
) -> MismatchCorrection:
    r"""Keep the token ratio inside a closed interval and reject the token outside it (IcePop).

    Defaults: 0.5 and 5, of Ring-1T; GLM-5 uses 0.5 and 2.

    Source: Ling Team 2025 (Ring-1T), https://arxiv.org/abs/2510.18855; GLM-5 report, https://arxiv.org/abs/2602.15763

    Args:
        proximal_logprobs, behaviour_logprobs, action_mask, layout: as in `mismatch_correction`.
        ratio_min, ratio_max: the interval, around 1.

    Returns:
        `MismatchCorrection`.

    Raises:
        NonFiniteError, MaskError, RangeError, ArgumentError, ShapeError, DtypeError, DeviceError: as in `mismatch_correction`.

    Example:
        >>> icepop(torch.tensor([[6.0, 2.0, 0.1]]).log(), torch.zeros(1, 3), torch.ones(1, 3)).weights
        tensor([[0., 2., 0.]])
    """
    checks.known_keywords(layout, Layout.__annotations__)
    return mismatch_correction(
        proximal_logprobs,
        behaviour_logprobs,
        action_mask,
        level="token",
        action="mask",
        ratio_min=ratio_min,
        ratio_max=ratio_max,
        **layout,
    )
