"""Token values -> one value per turn; values and returns -> how well the critic explains them."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.masked import at_least_float32, select


@torch.no_grad()
def turn_values(
    values: Tensor,
    turn_ids: Tensor,
    action_mask: Tensor,
    *,
    reading: Literal["average", "last_token"] = "average",
    turns: int | None = None,
) -> Tensor:
    r"""Read one value per turn from the values of its tokens.

    .. math::
        \text{average: } V_k = \frac{1}{n_k}\sum_{t:\,k(t)=k} V_t,\qquad \text{last\_token: } V_k = V_{\max\{t:\,k(t)=k\}}

    A turn without an unmasked token has no value: NaN stands there, so leave it out with the `turn_mask` of
    :func:`turn_generalized_advantage_estimation`. What the mask leaves out is not read.

    Source: the two granularities that are compared with token values in Hou et al. 2026, "Single-Rollout Asynchronous
    Optimization", appendix, https://arxiv.org/abs/2607.07508 (both were worse than token values there).

    Args:
        values: `[..., T]`, floating point, value at each token.
        turn_ids: `[..., T]`, integer, turn of each token wherever `action_mask` is true, from 0.
        action_mask: `[..., T]`, boolean or exactly 0/1, true where the policy sampled the token.
        reading: which of the two.
        turns: number K of turns; None: the largest id that is read, plus 1 (which waits for an accelerator).

    Returns:
        `[..., K]`, detached; float32, or float64 for float64 `values`.

    Raises:
        DtypeError, ShapeError, DeviceError, MaskError: an argument is not what it should be; without `turns`, no token is unmasked.
        RangeError: an unmasked id is negative or not below `turns`.
        NonFiniteError: a value that is read is NaN or infinite.

    Example:
        >>> values, ids = torch.tensor([1.0, 3.0, 9.0, 5.0]), torch.tensor([0, 0, 0, 1])
        >>> turn_values(values, ids, torch.tensor([True, True, False, True]))
        tensor([2., 5.])
    """
    checks.one_of(reading, "reading", ("average", "last_token"))
    checks.floating(values, "values")
    checks.at_least_rank(values, 1, "values")
    checks.tensor(turn_ids, "turn_ids")
    checks.same_shape(turn_ids, "turn_ids", values, "values")
    checks.tensor(action_mask, "action_mask")
    checks.same_shape(action_mask, "action_mask", values, "values")
    chosen: Tensor = checks.mask(action_mask, "action_mask")
    if turns is None:
        checks.integer(turn_ids, "turn_ids")
        checks.selects_something(chosen, "action_mask", fix="or say how many turns there are")
        checks.index(turn_ids, "turn_ids", None, chosen)
        turns = int(select(turn_ids, chosen).max()) + 1
    checks.count(turns, "turns", at_least=1)
    checks.index(turn_ids, "turn_ids", turns, chosen)
    checks.finite(values, "values", where=chosen)
    # a float32 sum over a turn of a million tokens is wrong by a percent
    read = select(values.double(), chosen)
    known = chosen & (turn_ids >= 0) & (turn_ids < turns)
    ids = torch.where(known, turn_ids.long(), turns)  # the last column takes what is not read
    empty = read.new_zeros((*values.shape[:-1], turns + 1))
    count = empty.scatter_add(-1, ids, known.to(read.dtype))
    dtype = at_least_float32(values).dtype
    if reading == "average" or not values.shape[-1]:
        return (empty.scatter_add(-1, ids, read) / count)[..., :turns].to(dtype)
    places = torch.arange(values.shape[-1], device=values.device).expand_as(ids)
    last = torch.zeros_like(empty, dtype=torch.long).scatter_reduce(-1, ids, places, "amax")
    return torch.where(count > 0, read.gather(-1, last), float("nan"))[..., :turns].to(dtype)


@torch.no_grad()
def explained_variance(values: Tensor, returns: Tensor, mask: Tensor) -> Tensor:
    r"""Measure which share of the variance of the returns a critic explains.

    .. math:: \text{EV} = 1 - \frac{\operatorname{Var}(R - V)}{\operatorname{Var}(R)}

    1 is a perfect critic up to a constant, 0 as good as a constant, below 0 worse. Undefined, and NaN, where the returns are
    all equal or fewer than two are selected; exactly so, not by a small threshold.

    Args:
        values, returns: same shape, floating point.
        mask: same shape, boolean or exactly 0/1: what is measured; elsewhere nothing is read.

    Returns:
        0-d tensor, float64, detached.

    Raises:
        DtypeError, ShapeError, DeviceError, MaskError: an argument is not what it should be.
        NonFiniteError: NaN or infinity at a selected position.

    Example:
        >>> returns, values = torch.tensor([1.0, 0.0, 1.0, 1.0]), torch.tensor([0.75, 0.25, 0.5, 1.0])
        >>> round(explained_variance(values, returns, torch.ones(4, dtype=torch.bool)).item(), 4)
        0.5833
    """
    checks.floating(values, "values")
    checks.floating(returns, "returns")
    checks.same_shape(returns, "returns", values, "values")
    checks.tensor(mask, "mask")
    checks.same_shape(mask, "mask", values, "values")
    chosen: Tensor = checks.mask(mask, "mask")
    checks.finite(values, "values", where=chosen)
    checks.finite(returns, "returns", where=chosen)
    if not values.numel():
        return torch.full((), float("nan"), dtype=torch.float64, device=values.device)
    count, wanted = chosen.sum(), select(returns.double(), chosen)
    errors = wanted - select(values.double(), chosen)
    if not values.numel():
        return torch.full((), float("nan"), dtype=torch.float64, device=values.device)
    varies = select(returns.double(), chosen, float("-inf")).amax() > select(returns.double(), chosen, float("inf")).amin()

    def squares(numbers: Tensor) -> Tensor:
        return select(numbers - numbers.sum() / count, chosen).square().sum()

    return torch.where(varies, 1 - squares(errors) / squares(wanted), float("nan"))
