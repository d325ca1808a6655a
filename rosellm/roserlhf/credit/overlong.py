"""Lengths and truncation -> what they cost (DAPO's soft overlong punishment) or what is left out (overlong filtering)."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError, ShapeError


@torch.no_grad()
def overlong_penalty(lengths: Tensor, *, max_length: int, cache_length: int, floor: Literal["paper", "verl"] = "paper") -> Tensor:
    r"""Punish responses softly that come close to the longest allowed length; to be *added* to the outcome reward.

    .. math::
        R(y) = \begin{cases}
        0 & |y| \le L_{max} - L_{cache} \\
        \frac{(L_{max} - L_{cache}) - |y|}{L_{cache}} & L_{max} - L_{cache} < |y| \le L_{max} \\
        -1 & |y| > L_{max} \end{cases}

    `floor="verl"` leaves the last line out, as verl does (it relies on :math:`|y| \le L_{max}`): the line goes on falling. Keep
    the penalty as a reward component of its own: the outcome alone decides what dynamic sampling keeps.

    Source: Yu et al. 2025, "DAPO", Eq. 13, https://arxiv.org/abs/2503.14476 (there 20480 and 4096, rewards 1 and -1)

    Args:
        lengths: any shape, integer, ≥ 0; sampled tokens of each response.
        max_length: longest length that is not yet fully punished, ≥ 1.
        cache_length: width of the soft interval below it, in [1, max_length].
        floor: what happens beyond `max_length`.

    Returns:
        Shape of `lengths`, float32, ≤ 0.

    Raises:
        DtypeError: `lengths` is no integer tensor, or a limit no integer.
        RangeError: a length is negative, a limit out of range, or `floor` unknown.

    Example:
        >>> overlong_penalty(torch.tensor([12, 16, 18, 20, 24]), max_length=20, cache_length=4)
        tensor([ 0.0000,  0.0000, -0.5000, -1.0000, -1.0000])
    """
    checks.index(lengths, "lengths", None)
    checks.count(max_length, "max_length", at_least=1)
    checks.count(cache_length, "cache_length", at_least=1)
    checks.one_of(floor, "floor", ("paper", "verl"))
    if cache_length > max_length:
        raise checks.fail(RangeError, "cache_length", f"be at most max_length={max_length}", cache_length)
    over = (lengths.long() - (max_length - cache_length)).clamp(min=0, max=cache_length if floor == "paper" else None)
    return 0.0 - (over.double() / cache_length).float()


class OverlongFilter(NamedTuple):
    """What `overlong_filter` leaves in."""

    loss_mask: Tensor
    """`[B, T]` boolean: tokens that the loss trains; none of a truncated response."""
    scored_mask: Tensor
    """`[B]` boolean: rows that enter the statistics of their group; for `grouped_advantages`."""


@torch.no_grad()
def overlong_filter(
    truncated: Tensor,
    action_mask: Tensor,
    *,
    statistics: Literal["keep", "exclude"] = "keep",
    scored_mask: Tensor | None = None,
) -> OverlongFilter:
    r"""Leave truncated responses out of the loss; whether their rewards still enter the group's baseline is a choice.

    .. math:: m'_{it} = m_{it}\,(1 - \text{truncated}_i)

    A truncated response is unfinished, not wrong. The paper does not say whether its reward stays in the mean and deviation of the
    group. With `statistics="keep"` it stays, as in verl and TRL: the others are compared with it. With `"exclude"` it leaves
    baseline, numerator and denominator together, as if it had not been sampled. Filtering is the alternative to `overlong_penalty`.

    Source: Yu et al. 2025, "DAPO", section 3.4, https://arxiv.org/abs/2503.14476

    Args:
        truncated: `[B]`, boolean or exactly 0/1; from the recorded stop reason, not from a length.
        action_mask: `[B, T]`, boolean or exactly 0/1; the loss mask so far.
        statistics: whether truncated rows stay in the statistics.
        scored_mask: `[B]`, boolean or exactly 0/1, rows that have a reward. None: all.

    Returns:
        Loss mask `[B, T]` and scored mask `[B]`, boolean.

    Raises:
        DtypeError, ShapeError, DeviceError, MaskError: the arguments are of the wrong kind or do not fit each other.
        RangeError: `statistics` is unknown.

    Example:
        >>> overlong_filter(torch.tensor([False, True]), torch.tensor([[1, 1], [1, 1]]), statistics="exclude")
        OverlongFilter(loss_mask=tensor([[ True,  True],
                [False, False]]), scored_mask=tensor([ True, False]))
    """
    cut: Tensor = checks.mask(truncated, "truncated")
    chosen: Tensor = checks.mask(action_mask, "action_mask")
    checks.one_of(statistics, "statistics", ("keep", "exclude"))
    if chosen.ndim != 2 or cut.shape != chosen.shape[:1]:
        raise checks.fail(
            ShapeError, "truncated", "be [B] with action_mask [B, T]", f"{tuple(cut.shape)} and {tuple(chosen.shape)}"
        )
    checks.same_device(cut, "truncated", chosen, "action_mask")
    scored = torch.ones_like(cut)
    if scored_mask is not None:
        checks.tensor(scored_mask, "scored_mask")
        checks.same_shape(scored_mask, "scored_mask", cut, "truncated")
        scored = checks.mask(scored_mask, "scored_mask")
    return OverlongFilter(chosen & ~cut[:, None], scored & ~cut if statistics == "exclude" else scored)
