"""The correction itself: a level, an action and two bounds."""

from __future__ import annotations

import math
from typing import Literal, Unpack, get_args

import torch
import torch.distributed as dist
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.masked import select
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.layout import Layout
from rosellm.roserlhf.objective.mismatch.correction import MismatchCorrection, correction
from rosellm.roserlhf.objective.mismatch.levels import Level, sequences_of, statistic
from rosellm.roserlhf.objective.ratios import bounded

Action = Literal["truncate", "mask"]
"""What happens to a ratio outside the bounds."""


def mismatch_correction(
    proximal_logprobs: Tensor,
    behaviour_logprobs: Tensor,
    action_mask: Tensor,
    *,
    level: Level,
    action: Action,
    ratio_max: float,
    ratio_min: float = 0.0,
    bounds: Literal["closed", "open"] = "closed",
    weight: Literal["ratio", "one"] = "ratio",
    segment_ids: Tensor | None = None,
    max_log_ratio: float = 20.0,
    context_group: dist.ProcessGroup | None = None,
    **layout: Unpack[Layout],
) -> MismatchCorrection:
    r"""Weigh tokens by a bounded importance ratio between the trainer's policy and the one that sampled.

    .. math::
        \log\rho_t = \ell_t^{\text{proximal}} - \ell_t^{\text{behaviour}}, \qquad
        \log\rho_i = \frac{1}{n_i} \sum_t m_{it} \log\rho_{it} \ \text{ or } \ \sum_t m_{it} \log\rho_{it}, \qquad
        w = \begin{cases} \operatorname{clip}(\rho, \rho_{\min}, \rho_{\max}) & \text{truncate} \\
        \rho\ \mathbb 1[\rho_{\min} \le \rho \le \rho_{\max}] & \text{mask} \end{cases}

    The ratio of a sequence or segment is given to each of its tokens. The product is the density ratio of the sampled tokens and
    leaves any bound within a few hundred tokens; the geometric mean is comparable across lengths and is not a density ratio. Ratios
    are compared as logarithms, so a product over thousands of tokens cannot overflow; the exponential is bounded by
    `max_log_ratio` before it is taken. A token that is rejected alone still counts in the ratio of its sequence. All rejected:
    every weight is 0. Nothing live: nothing is counted.

    Source: Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training" (TIS),
    https://fengyao.notion.site/off-policy-rl; the segment level ROLL, https://github.com/alibaba/ROLL

    Args:
        proximal_logprobs: `[..., T]`, floating point: the trainer's log-probabilities before this update; detached.
        behaviour_logprobs: same shape: recorded by the engine that sampled, of the distribution it sampled from; detached.
        action_mask: same shape, boolean or exactly 0/1: the loss mask. Masked values may be anything.
        level: whose ratio is bounded.
        action: what happens outside the bounds.
        ratio_max: upper bound, an absolute ratio of at least 1; infinity switches it off.
        ratio_min: lower bound, an absolute ratio in [0, 1].
        bounds: whether a ratio exactly on a bound is kept; `open` is for `mask` alone.
        weight: with `mask`, the weight of what is kept: its ratio, or 1 (a filter).
        segment_ids: integers shaped like the tokens, for `segment`: equal ids in one sequence are one segment, for example a turn.
            Default: each run of consecutive live tokens, which a token excluded inside a turn would split.
        max_log_ratio: bound on the absolute log-ratio that is exponentiated, above 0; infinity leaves 88 in float32.
        context_group: the ranks that hold parts of the same sequences (context parallelism); not for `segment`. Every rank calls
            with the same sequences in the same order.
        layout: which tokens are one sequence (default: a row); see `Layout`.

    Returns:
        `MismatchCorrection`.

    Raises:
        NonFiniteError: NaN or infinity at a live position; a sampled token cannot have a log-probability of minus infinity.
        MaskError: the mask is not 0/1.
        RangeError: bounds that do not contain 1, or an option that would not act.
        ArgumentError, ShapeError, DtypeError, DeviceError: the arguments do not fit together.

    Example:
        >>> proximal, behaviour = torch.tensor([[4.0, 1.0, 0.25]]).log(), torch.zeros(1, 3)
        >>> mismatch_correction(proximal, behaviour, torch.ones(1, 3), level="token", action="truncate", ratio_max=2.0).weights
        tensor([[2.0000, 1.0000, 0.2500]])
    """
    mask = inputs.token_mask(action_mask, proximal_logprobs, "proximal_logprobs")
    _check_options(level, action, bounds, weight, segment_ids)
    _check_bounds(ratio_min, ratio_max, bounds)
    inputs.positive_number(max_log_ratio, "max_log_ratio")
    proximal = inputs.recorded(proximal_logprobs, "proximal_logprobs", mask)
    behaviour = inputs.recorded(behaviour_logprobs, "behaviour_logprobs", mask)
    sequences = sequences_of(mask, layout, context_group)
    of_level = statistic(proximal - behaviour, mask, level, sequences, segment_ids, context_group)

    ratios = bounded(of_level.log, max_log_ratio)
    below, above = _outside(of_level.log, ratio_min, ratio_max, bounds)
    if action == "truncate":
        kept, weights = torch.ones_like(below), ratios.value.clamp(ratio_min, ratio_max)
    else:
        kept, weights = ~(below | above), ratios.value if weight == "ratio" else torch.ones_like(ratios.value)
    keep_mask = mask & of_level.spread(kept)
    statistics = {
        "ratio": ratios.value,
        "chi_square": ratios.value.square() - 1.0,
        "below_fraction": below.to(ratios.value.dtype),
        "above_fraction": above.to(ratios.value.dtype),
        "log_ratio_clamped_fraction": ratios.clamped.to(ratios.value.dtype),
    }
    partials = {f"{level}_{name}": of_level.counted(value) for name, value in statistics.items()}
    return correction(select(of_level.spread(weights), keep_mask), keep_mask, partials, mask, sequences)


def _outside(log: Tensor, ratio_min: float, ratio_max: float, bounds: str) -> tuple[Tensor, Tensor]:
    """Tell which log-ratios are below and above the interval."""
    low, high = math.log(ratio_min) if ratio_min > 0 else -math.inf, math.log(ratio_max)
    if bounds == "open":
        return log <= low, log >= high
    return log < low, log > high


def _check_options(level: Level, action: Action, bounds: str, weight: str, segment_ids: Tensor | None) -> None:
    """Refuse unknown readings, and options that the others leave without effect."""
    checks.one_of(level, "level", get_args(Level))
    checks.one_of(action, "action", get_args(Action))
    checks.one_of(bounds, "bounds", ("closed", "open"))
    checks.one_of(weight, "weight", ("ratio", "one"))
    if action == "truncate" and bounds == "open":
        raise checks.fail(RangeError, "bounds", 'be "closed" for action="truncate"', repr(bounds), fix="a clamp has no open end")
    if action == "truncate" and weight == "one":
        raise checks.fail(RangeError, "weight", 'be "ratio" for action="truncate"', repr(weight), fix="nothing would be left")
    if segment_ids is not None and level != "segment":
        raise checks.fail(RangeError, "segment_ids", 'be given only for level="segment"', f"level={level!r}")


def _check_bounds(ratio_min: float, ratio_max: float, bounds: str) -> None:
    """Require an interval that contains 1, so that data of the same policy is never touched."""
    checks.number_in(ratio_min, "ratio_min", 0.0, 1.0, open_high=bounds == "open")
    checks.number_in(ratio_max, "ratio_max", 1.0, math.inf, open_low=bounds == "open")
