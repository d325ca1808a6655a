"""Advantages of every token of a batch -> the same, standardised over the whole batch."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.statistics import StdKind, check_std, group_statistics
from rosellm.roserlhf.masked import at_least_float32, select

EpsPlacement = Literal["inside_root", "outside_root", "variance_floor"]


@torch.no_grad()
def batch_standardized_advantages(
    advantages: Tensor,
    mask: Tensor,
    *,
    std: StdKind = "population",
    eps: float = 1e-8,
    eps_placement: EpsPlacement = "inside_root",
) -> Tensor:
    r"""Standardise advantages over all selected tokens of the batch (REINFORCE++; elsewhere called whitening).

    .. math::
        \hat A_t = \frac{A_t - \bar A}{s},\qquad
        s = \sqrt{v + \epsilon}\ \text{ or }\ \sqrt v + \epsilon\ \text{ or }\ \sqrt{\max(v, \epsilon)}

    :math:`\bar A` and the variance v are taken over the selected positions, each with weight 1: **a rollout weighs as many times as
    it has tokens**, so long rollouts move the mean and the variance. To weigh every rollout once, pass one advantage per rollout
    and broadcast afterwards. Value targets are formed before, from the advantages as they were.

    REINFORCE++ feeds it the return of token-level rewards (the KL penalty included); its baseline variant feeds the rewards minus
    their group's mean (`grouped_advantages(..., scale="none")`), broadcast to tokens. There the tokens of a uniform group are 0
    before and, after the batch's mean is removed, no longer 0: that is the published method.

    | reading | `std` | `eps_placement`, `eps` |
    |---|---|---|
    | this library | population | inside_root, 1e-8 |
    | OpenRLHF (the authors) | population | variance_floor, 1e-8 |
    | verl `masked_whiten` | sample | inside_root, 1e-8; an error for 0 or 1 tokens |

    Degenerate cases: with no or one selected position, and where all selected advantages are equal (largest = smallest), the
    result is exactly 0. The statistics are those of what is passed: several micro-batches or ranks must be standardised together.

    Source: Hu et al. 2025, "REINFORCE++", https://arxiv.org/abs/2501.03262

    Args:
        advantages: any shape, floating point; what the mask leaves out is never read.
        mask: same shape, boolean or exactly 0/1; the loss mask of the batch.
        std: divisor n, or n - 1.
        eps: ≥ 0; a variance, or a deviation where `eps_placement` puts it outside the root.
        eps_placement: where `eps` enters.

    Returns:
        Shape of `advantages`, detached, 0 where the mask is false; float32, or float64 for float64 `advantages`.

    Raises:
        DtypeError: `advantages` is not floating point.
        ShapeError, DeviceError: `mask` does not fit.
        MaskError: `mask` is not 0/1.
        NonFiniteError: NaN or infinity at a selected position.
        RangeError: an option is unknown, or `eps` is negative.

    Example:
        >>> mask = torch.tensor([True, True, True, False])
        >>> batch_standardized_advantages(torch.tensor([1.0, 2.0, 4.0, 9.0]), mask)  # mean 7/3, variance 14/9
        tensor([-1.0690, -0.2673,  1.3363,  0.0000])
    """
    checks.floating(advantages, "advantages")
    checks.tensor(mask, "mask")
    checks.same_shape(mask, "mask", advantages, "advantages")
    chosen: Tensor = checks.mask(mask, "mask")
    checks.finite(advantages, "advantages", where=chosen)
    check_std(std)
    checks.number_in(eps, "eps", 0.0, float("inf"), open_high=True)
    checks.one_of(eps_placement, "eps_placement", ("inside_root", "outside_root", "variance_floor"))
    batch = group_statistics(
        advantages.flatten(), torch.zeros_like(chosen, dtype=torch.int64).flatten(), chosen.flatten(), groups=1
    )
    # in units of the spread, squares neither overflow nor vanish; a uniform batch consists of zeros, divided by 1
    unit = torch.where(batch.uniform, 1.0, batch.spread)
    deviation = _with_eps(batch.deviation(std) / unit, eps, unit, eps_placement)
    standard = batch.centred() / unit / torch.where(batch.uniform, 1.0, deviation)
    return select(standard.view_as(advantages), chosen).to(at_least_float32(advantages).dtype)


def _with_eps(deviation: Tensor, eps: float, unit: Tensor, placement: EpsPlacement) -> Tensor:
    """Add `eps`, given in the advantages' own unit, to a deviation in units of `unit`."""
    if placement == "outside_root":
        return deviation + eps / unit
    small = eps / unit / unit
    variance = deviation.square()
    return (variance + small if placement == "inside_root" else torch.maximum(variance, small)).sqrt()
