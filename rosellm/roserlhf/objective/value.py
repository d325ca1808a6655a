"""The critic's loss: half the squared error to fixed returns, with PPO's clip on how far a value may move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.masked import Partial, at_least_float32, fraction, named, partial, select
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.aggregation import Aggregation, weighing
from rosellm.roserlhf.objective.layout import Layout
from rosellm.roserlhf.objective.outputs import ValueLossOutput, finish


def value_loss(
    values: Tensor,
    returns: Tensor,
    action_mask: Tensor,
    *,
    old_values: Tensor | None = None,
    clip: float | None = None,
    aggregation: Aggregation = "token",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> ValueLossOutput:
    r"""Minimise half the squared error of the values.

    .. math::
        L = \frac{1}{D} \sum_t m_t w_t\, \tfrac{1}{2} \max\big((V_t - R_t)^2,\
            (V_t^{\text{old}} + \operatorname{clip}(V_t - V_t^{\text{old}}, -c, c) - R_t)^2\big)

    Without `clip` it is half the mean squared error, whose gradient is `V - R`. With it the larger error counts: a value that moved
    further than `c` towards its return has no gradient left, one that moved away keeps all of it.

    **The factor 1/2 is in**, as in verl and OpenRLHF; slime leaves it out, so its coefficient of the value loss is half of the one
    here. verl's clip is 0.5, slime's 0.2; there is no default, since the clip has the unit of the returns. Returns are targets, so
    they are detached; make them from unwhitened advantages. Default: `aggregation="token"`.

    Source: Schulman et al. 2017 (PPO), Eq. 9, https://arxiv.org/abs/1707.06347; the clip is that of the authors' code,
    https://github.com/openai/baselines

    Args:
        values: `[..., T]`, floating point: of the critic that is trained.
        returns: value targets: one per token, per row (`[...]` or `[..., 1]`, where rows are sequences) or per packed sequence;
            detached.
        action_mask: same shape as `values`, boolean or exactly 0/1: the tokens whose values are trained. Masked values may be
            anything.
        old_values: same shape as `values`, from before the update; detached. With `clip` and only with it.
        clip: how far a value may move from its old one, above 0.
        aggregation: how tokens are weighed; see `aggregate`.
        denominator: of the whole optimizer step, from `step_denominator`; default: this call's own.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        `ValueLossOutput`; its partials merge over micro-batches and ranks, and `merged_explained_variance` reads them.

    Raises:
        MaskError: the mask is not 0/1, or empty without a denominator (`empty mask`).
        NonFiniteError: NaN or infinity at a live position; the message names the argument.
        RangeError: `old_values must be given for clip=0.2, got None`, or a number is out of range.
        ShapeError, DtypeError, DeviceError: the tensors do not fit together.

    Example:
        >>> values, returns = torch.tensor([[1.0, 0.0, 2.0]]), torch.tensor([[1.5, 1.5, 0.0]])
        >>> value_loss(values, returns, torch.ones(1, 3)).loss  # (0.25 + 2.25 + 4) / 2 / 3
        tensor(1.0833)
        >>> old = torch.full((1, 3), 0.5)
        >>> out = value_loss(values, returns, torch.ones(1, 3), old_values=old, clip=0.2)
        >>> out.token_loss, out.clip_fraction
        (tensor([[0.3200, 1.1250, 2.0000]]), tensor(0.3333))
    """
    mask = inputs.token_mask(action_mask, values, "values")
    how = weighing(mask, aggregation, denominator, layout)
    now = _values(values, "values", mask)
    target = inputs.token_advantages(returns, "returns", mask, how.sequences)
    error = (now - target).square()
    clipped = _clipped_error(now, target, old_values, clip, mask)
    worse = error if clipped is None else torch.maximum(error, clipped)

    statistics = _variance_parts(now.detach(), target, mask)
    if clipped is not None:
        statistics["value_clip_fraction"] = fraction(clipped > error, mask)
    core = finish(-0.5 * worse, mask, how, statistics)
    return ValueLossOutput(
        loss=core.loss,
        objective=core.objective,
        clip_fraction=core.mean("value_clip_fraction") if clipped is not None else core.loss.new_full((), torch.nan),
        explained_variance=merged_explained_variance(core.partials),
        token_loss=core.token_loss,
        partials=core.partials,
    )


def _values(values: Tensor, argument: str, mask: Tensor) -> Tensor:
    checks.finite(values, argument, where=mask)
    return select(at_least_float32(values), mask)


def _clipped_error(values: Tensor, returns: Tensor, old_values: Tensor | None, clip: float | None, mask: Tensor) -> Tensor | None:
    if clip is None:
        if old_values is not None:
            raise checks.fail(RangeError, "clip", "be given with old_values", None, fix="nothing else reads them")
        return None
    checks.number_in(clip, "clip", 0.0, float("inf"), open_low=True, open_high=True)
    if old_values is None:
        raise checks.fail(RangeError, "old_values", f"be given for clip={clip!r}", None)
    checks.floating(old_values, "old_values")
    checks.same_shape(old_values, "old_values", mask, "action_mask")
    old = _values(old_values.detach(), "old_values", mask)
    return (old + (values - old).clamp(-clip, clip) - returns).square()


def _variance_parts(values: Tensor, returns: Tensor, mask: Tensor) -> dict[str, Partial]:
    error = (returns - values).double()
    return {
        "mean_value": partial(values, mask),
        "mean_return": partial(returns.double(), mask),
        "return_square": partial(returns.double().square(), mask),
        "value_error": partial(error, mask),
        "value_error_square": partial(error.square(), mask),
    }


def merged_explained_variance(partials: Mapping[str, Partial]) -> Tensor:
    r"""Return how much of the variance of the returns the values explain, from partials of any number of calls.

    .. math:: 1 - \frac{\operatorname{Var}[R - V]}{\operatorname{Var}[R]}

    1 for a perfect critic, 0 for one that knows the mean alone, negative for a worse one; a constant offset of all values costs
    nothing. NaN where no token was counted or all returns are equal, where it is undefined. A mean of the explained variances of
    micro-batches would be another number. Not weighed by the aggregation: every live token counts once.

    Args:
        partials: of `value_loss`, added over micro-batches and ranks (`metrics.merge`, `metrics.over_ranks`).

    Returns:
        0-d float64 tensor on the device of the partials; nothing is read on the host.

    Raises:
        ArgumentError: these are not partials of `value_loss`.

    Example:
        >>> values, returns = torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([[1.0, 3.0, 5.0]])
        >>> out = value_loss(values, returns, torch.ones(1, 3))
        >>> merged_explained_variance(out.partials)  # errors 0, 1, 1: variance 2/9; returns: variance 8/3
        tensor(0.9167, dtype=torch.float64)
    """
    names = ("mean_return", "return_square", "value_error", "value_error_square")
    returns, squares, errors, error_squares = named(partials, names, "value_loss")
    spread, left = _variance(returns, squares), _variance(errors, error_squares)
    return 1.0 - left / spread.masked_fill(spread == 0, torch.nan)


def _variance(values: Partial, squares: Partial) -> Tensor:
    """Population variance; exactly 0 where rounding is all that is left of it."""
    square = squares.mean()
    variance = square - values.mean().square()
    return variance.masked_fill(variance <= 1e-14 * square, 0.0)
