"""Token values -> one number: the five ways in which tokens, sequences and rollouts are weighed.

| name | sum over the live tokens of | divided by the number of | used by |
|---|---|---|---|
| `token` | `x` | tokens | PPO, DAPO, SAO |
| `sequence_mean` | `x / length of its sequence` | sequences with a live token | GRPO, GSPO, SAPO |
| `sequence_sum` | `x` | sequences with a live token | Dr. GRPO as printed |
| `rollout` | `x / length of its rollout` | rollouts with a live token | forked or compacted rollouts |
| `horizon` | `x / horizon` | sequences, fully masked ones included | Dr. GRPO's code |

A row is one sequence unless the `Layout` says otherwise. The divisor is counted in the call, or given as `denominator`: the same
count over the whole optimizer step (`denominator.step_denominator`), so that gradients of micro-batches simply add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeGuard, Unpack, get_args

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError, ShapeError
from rosellm.roserlhf.masked import Partial, at_least_float32, masked_sum, select
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.layout import Layout, Sequences, read_sequences
from rosellm.roserlhf.objective.segments import ids_per_token, present, segments

Aggregation = Literal["token", "sequence_mean", "sequence_sum", "rollout", "horizon"]
"""How token values become one number; the table is in the module's docstring."""


@dataclass(frozen=True)
class Weighing:
    """Which tokens form a sequence, which a rollout, and how much each of them counts; made by `weighing`, which checks it."""

    aggregation: Aggregation
    denominator: float | Tensor | None
    """For the whole optimizer step, or None: count in this call. One number per token only for `rollout`."""
    sequences: Sequences
    rollout_ids: Tensor | None
    """Per token."""
    horizon: float | None


@dataclass(frozen=True)
class Reduction:
    """What a weighing makes of token values."""

    mean: Tensor
    """0-d, differentiable: the numerator over the denominator of the step, or over the units of this call."""
    partial: Partial
    """Detached numerator and units of this call."""


def aggregate(
    values: Tensor,
    action_mask: Tensor,
    *,
    aggregation: Aggregation,
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> Tensor:
    r"""Weigh token values into one number, as every policy loss here does.

    .. math:: \frac{1}{D} \sum_t m_t\, w_t\, x_t

    `w` is 1 (`token`, `sequence_sum`), 1 / length of the token's sequence or rollout (`sequence_mean`, `rollout`) or 1 / `horizon`;
    `D` is the number of tokens, sequences or rollouts. Sequences and rollouts without a loss token are not counted, except by
    `horizon`, whose divisor is a constant of the sampling and not of the masks. Without a denominator an empty mask is an error;
    with one it gives a zero that is connected to the graph, so that ranks stay in step.

    Source: `sequence_mean` Shao et al. 2024 (GRPO), Eq. 3, https://arxiv.org/abs/2402.03300; `token` Yu et al. 2025 (DAPO), Eq. 12,
    https://arxiv.org/abs/2503.14476; `sequence_sum`, `horizon` Liu et al. 2025 (Dr. GRPO), https://arxiv.org/abs/2503.20783;
    `rollout` the per-rollout mean of slime, https://github.com/THUDM/slime

    Args:
        values: `[..., T]`, floating point; ignored where the mask is false, NaN and infinity included.
        action_mask: same shape, boolean or exactly 0/1.
        aggregation: `token`, `sequence_mean`, `sequence_sum`, `rollout` or `horizon`.
        denominator: what to divide by, for the whole optimizer step: a positive number or 0-d tensor in the unit of `aggregation`,
            from `step_denominator`. `rollout` also takes one number per token, from `rollout_denominators`, which allows one
            rollout to be spread over micro-batches and ranks. Default: the count of this call.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        0-d tensor, float32 at least, differentiable with respect to the selected `values`.

    Raises:
        MaskError: the mask is not 0/1, or empty without a denominator (`empty mask`).
        ArgumentError: an unknown keyword argument; the message names the nearest.
        RangeError: unknown aggregation, `horizon` or `denominator` not positive, a live token has a negative id.
        NonFiniteError: NaN or infinity at a selected position.
        ShapeError, DtypeError: the arguments do not fit together.

    Example:
        >>> values, mask = torch.tensor([[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]]), torch.tensor([[1, 1, 1], [1, 0, 0]])
        >>> aggregate(values, mask, aggregation="token"), aggregate(values, mask, aggregation="sequence_mean")
        (tensor(2.5000), tensor(3.))
    """
    mask = inputs.token_mask(action_mask, values, "values")
    how = weighing(mask, aggregation, denominator, layout)
    checks.finite(values, "values", where=mask)
    return reduce(at_least_float32(values), mask, how).mean


_EMPTY_FIX = "pass denominator= (of the whole optimizer step) if an empty micro-batch is expected"


def weighing(mask: Tensor, aggregation: Aggregation, denominator: float | Tensor | None, layout: Layout) -> Weighing:
    """Check a set of aggregation arguments against the boolean token mask and keep them together; see `aggregate`."""
    sequences, rollout_ids, horizon = read_sequences(mask, layout), layout.get("rollout_ids"), layout.get("horizon")
    checks.one_of(aggregation, "aggregation", get_args(Aggregation))
    if aggregation == "horizon":
        if horizon is None:
            raise checks.fail(RangeError, "horizon", 'be given for aggregation="horizon"', None)
        checks.number_in(horizon, "horizon", 0.0, float("inf"), open_low=True, open_high=True)
    elif horizon is not None:
        raise checks.fail(RangeError, "horizon", 'be given only for aggregation="horizon"', f"aggregation={aggregation!r}")
    if aggregation == "rollout" and rollout_ids is None and not _per_token(denominator):
        fix = 'use "sequence_mean" if every sequence is its own rollout'
        raise checks.fail(RangeError, "rollout_ids", 'be given for aggregation="rollout"', None, fix=fix)
    if aggregation != "rollout" and rollout_ids is not None:
        raise checks.fail(RangeError, "rollout_ids", 'be given only for aggregation="rollout"', f"aggregation={aggregation!r}")
    divisor = _read_denominator(denominator, mask, aggregation)
    rollouts = None if rollout_ids is None else ids_per_token(rollout_ids, mask, "rollout_ids", rows=True)
    return Weighing(aggregation, divisor, sequences, rollouts, horizon)


def _read_denominator(denominator: float | Tensor | None, mask: Tensor, aggregation: Aggregation) -> float | Tensor | None:
    if denominator is None:
        checks.selects_something(mask, "action_mask", fix=_EMPTY_FIX)
        return None
    if _per_token(denominator):
        if aggregation != "rollout":
            requirement = f"be one number for aggregation={aggregation!r}"
            raise checks.fail(ShapeError, "denominator", requirement, f"shape {tuple(denominator.shape)}")
        checks.same_shape(denominator, "denominator", mask, "action_mask")
        checks.positive(denominator, "denominator", where=mask)
        return denominator.detach()
    return one_denominator(denominator, mask, "action_mask")


def one_denominator(denominator: float | Tensor, like: Tensor, like_name: str) -> float | Tensor:
    """Check the number that a whole optimizer step divides by; no gradient reaches it."""
    if not isinstance(denominator, Tensor):
        checks.number_in(denominator, "denominator", 0.0, float("inf"), open_low=True, open_high=True)
        return denominator
    if denominator.ndim:
        raise checks.fail(ShapeError, "denominator", "be one number", f"shape {tuple(denominator.shape)}")
    if denominator.device.type != "cpu":  # a number on the host may divide a tensor on any device
        checks.same_device(denominator, "denominator", like, like_name)
    checks.positive(denominator, "denominator")
    return denominator.detach()


def _per_token(denominator: float | Tensor | None) -> TypeGuard[Tensor]:
    return isinstance(denominator, Tensor) and denominator.ndim > 0


def reduce(values: Tensor, mask: Tensor, how: Weighing) -> Reduction:
    """Weigh token values (float32 at least); see `aggregate`."""
    denominator = how.denominator
    if _per_token(denominator):
        shares = select(denominator.to(values.dtype), mask, 1.0).reciprocal()
        total, units = masked_sum(values * shares, mask), masked_sum(shares, mask)
        return Reduction(total, Partial(total.detach(), units))
    total, units = _total_and_units(values, mask, how)
    return Reduction(total / (units if denominator is None else denominator), Partial(total.detach(), units.to(total.dtype)))


def _total_and_units(values: Tensor, mask: Tensor, how: Weighing) -> tuple[Tensor, Tensor]:
    if how.aggregation == "token":
        return masked_sum(values, mask), mask.sum()
    if how.aggregation == "sequence_sum":
        return masked_sum(values, mask), count_sequences(mask, how.sequences)
    if how.horizon is not None:
        return masked_sum(values, mask) / how.horizon, count_sequences(mask, how.sequences, masked_too=True)
    units = segments(mask, how.rollout_ids) if how.aggregation == "rollout" else how.sequences.of(mask)
    return units.mean(values).sum(), (units.lengths() > 0).sum()


def count_sequences(mask: Tensor, sequences: Sequences, *, masked_too: bool = False) -> Tensor:
    """Count the sequences with a selected token, or all that are there (`masked_too`), as a 0-d int64 tensor."""
    if not masked_too:
        return (sequences.of(mask).lengths() > 0).sum()
    if sequences.ids is not None:
        return present(sequences.ids, sequences.count)
    return torch.full((), mask.shape[:-1].numel(), dtype=torch.int64, device=mask.device)
