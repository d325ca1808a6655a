r"""Loss masks of a whole optimizer step -> the one number that every micro-batch divides by.

The gradient of a step is the sum over micro-batches of grad N / D: local numerators over one global denominator. Averaging locally
normalised losses instead weighs tokens by the micro-batch they landed in. Count once, before anything is split, then multiply each
local loss by the factor that undoes what the framework divides by:

| who sums the gradients | what it divides by | multiply the loss by |
|---|---|---|
| plain loop, `loss.backward()` per micro-batch | nothing | 1 |
| DDP, FSDP (gradients are averaged over ranks) | `world_size` | `world_size` |
| accelerate, `accelerator.backward` | `gradient_accumulation_steps`, `num_processes` | their product |
| DeepSpeed engine | `gradient_accumulation_steps`, data-parallel size | their product |
| verl, in a registered policy loss | data-parallel size | data-parallel size (what its `agg_loss` does with `batch_num_tokens`) |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

import torch
import torch.distributed as dist
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError, ShapeError
from rosellm.roserlhf.metrics import group_device, require_group
from rosellm.roserlhf.objective.aggregation import Aggregation, count_sequences
from rosellm.roserlhf.objective.layout import Sequences, read_sequences
from rosellm.roserlhf.objective.segments import ids_per_token


def step_denominator(
    masks: Iterable[Tensor],
    mode: Aggregation,
    process_group: dist.ProcessGroup | None = None,
    *,
    sequence_ids: Iterable[Tensor] | None = None,
    cu_seqlens: Iterable[Tensor] | None = None,
    position_ids: Iterable[Tensor] | None = None,
    rollout_ids: Iterable[Tensor] | None = None,
) -> Tensor:
    r"""Count what one optimizer step divides by, over all its micro-batches and ranks.

    .. math:: D = \sum_{\text{ranks}} \sum_{b} \#\{\text{tokens, sequences or rollouts in } m_b\}

    Every rank of the group must call it, also one without any micro-batch. A step in which nothing is left to train has denominator
    0: make no update (the losses refuse 0). `horizon` counts sequences; its constant stays an argument of the loss.

    Source: the mean over all tokens of the batch, Yu et al. 2025 (DAPO), Eq. 12, https://arxiv.org/abs/2503.14476

    Args:
        masks: the loss mask of every micro-batch of the step on this rank, `[..., T]` each, boolean or exactly 0/1.
        mode: the aggregation that the losses of this step use.
        process_group: add over the ranks of this group (`torch.distributed.group.WORLD` for all). Default: this process alone.
        sequence_ids, cu_seqlens, position_ids: one tensor per mask, as given to the losses (see `Layout`). A sequence lies in one
            micro-batch, so ids may start anew in each.
        rollout_ids: one tensor per mask, as given to the losses; needed by `rollout`. Ids name rollouts of the whole step: equal
            ids on different ranks are one rollout.

    Returns:
        0-d int64 tensor on the device of the masks.

    Raises:
        RangeError: unknown mode; `rollout` without ids; a rollout that is spread over micro-batches or ranks, where one number is
            not enough (`rollout_denominators` gives one per token).
        MaskError, ShapeError: a mask is not 0/1, ids do not fit the masks.

    Example:
        >>> step_denominator([torch.tensor([[1, 1, 0]]), torch.tensor([[1, 0], [0, 0]])], "token")
        tensor(3)
    """
    checks.one_of(mode, "mode", get_args(Aggregation))
    if process_group is not None:
        require_group(process_group)
    chosen = _masks(masks)
    if rollout_ids is not None and mode != "rollout":
        raise checks.fail(RangeError, "rollout_ids", 'be given only for mode="rollout"', f"mode={mode!r}")
    rollouts = None if rollout_ids is None else _ids(rollout_ids, chosen)
    sequences = _sequences(chosen, sequence_ids, cu_seqlens, position_ids)
    if mode == "rollout":
        if rollouts is None:
            raise checks.fail(RangeError, "rollout_ids", 'be given for mode="rollout"', None)
        return _count_whole_rollouts(chosen, rollouts, process_group)
    if mode == "token":
        counts = [mask.sum() for mask in chosen]
    else:
        counts = [count_sequences(mask, one, masked_too=mode == "horizon") for mask, one in zip(chosen, sequences, strict=True)]
    total = torch.zeros((), dtype=torch.int64, device=_device(chosen, process_group))
    return _over_ranks(torch.stack([total, *counts]).sum(), process_group)


def rollout_denominators(
    masks: Iterable[Tensor],
    rollout_ids: Iterable[Tensor],
    process_group: dist.ProcessGroup | None = None,
) -> list[Tensor]:
    r"""Give every token the denominator of the `rollout` aggregation when rollouts are spread over micro-batches or ranks.

    .. math:: d_t = R \cdot n_{r(t)}, \qquad \text{loss} = \sum_t m_t\, x_t / d_t

    `R` is the number of rollouts of the step and `n` the loss tokens of the token's rollout in *all* its rows, wherever they are. A
    rollout that was forked, compacted into segments or cut over ranks so counts once. Reads the ids on the host, once per step.

    Source: the per-rollout token mean of slime (`rollout_mask_sums`), https://github.com/THUDM/slime

    Args:
        masks: the loss mask of every micro-batch of the step on this rank, `[..., T]` each.
        rollout_ids: one tensor per mask, shaped like it or like its rows; equal ids are one rollout in the whole step, on every
            rank.
        process_group: count over the ranks of this group. Default: this process alone.

    Returns:
        One int64 tensor per mask and of its shape, for `denominator=` with `aggregation="rollout"`; 1 where the mask is false.

    Raises:
        MaskError, ShapeError, RangeError: a mask is not 0/1, ids do not fit the masks, a live id is negative.

    Example:
        >>> rollout_denominators([torch.tensor([[1, 1]]), torch.tensor([[1], [1]])], [torch.tensor([7]), torch.tensor([7, 8])])
        [tensor([[6, 6]]), tensor([[6],
                [2]])]
    """
    if process_group is not None:
        require_group(process_group)
    chosen = _masks(masks)
    labels = _ids(rollout_ids, chosen)
    table, lengths = _census(
        [_labels_and_lengths(mask, ids) for mask, ids in zip(chosen, labels, strict=True)], chosen, process_group
    )
    denominators = []
    for mask, ids in zip(chosen, labels, strict=True):
        whole = torch.ones_like(mask, dtype=torch.int64)
        whole[mask] = lengths[torch.searchsorted(table, ids[mask])] * table.numel()
        denominators.append(whole)
    return denominators


def _masks(masks: Iterable[Tensor]) -> list[Tensor]:
    chosen = [checks.mask(mask, f"masks[{index}]") for index, mask in enumerate(checks.items(masks, "masks"))]
    for index, mask in enumerate(chosen):
        checks.at_least_rank(mask, 1, f"masks[{index}]")
    return chosen


def _ids(ids: Iterable[Tensor], masks: list[Tensor]) -> list[Tensor]:
    given = _one_per_mask(ids, masks, "rollout_ids")
    return [
        ids_per_token(one, mask, f"rollout_ids[{i}]", rows=True) for i, (one, mask) in enumerate(zip(given, masks, strict=True))
    ]


def _sequences(
    masks: list[Tensor],
    sequence_ids: Iterable[Tensor] | None,
    cu_seqlens: Iterable[Tensor] | None,
    position_ids: Iterable[Tensor] | None,
) -> list[Sequences]:
    ids = _one_per_mask(sequence_ids, masks, "sequence_ids")
    boundaries = _one_per_mask(cu_seqlens, masks, "cu_seqlens")
    positions = _one_per_mask(position_ids, masks, "position_ids")
    return [
        read_sequences(mask, {"sequence_ids": ids[i], "cu_seqlens": boundaries[i], "position_ids": positions[i]}, f"[{i}]")
        for i, mask in enumerate(masks)
    ]


def _one_per_mask(values: Iterable[Tensor] | None, masks: list[Tensor], argument: str) -> list[Any]:
    given = [None] * len(masks) if values is None else checks.items(values, argument)
    if len(given) != len(masks):
        raise checks.fail(ShapeError, argument, f"have one tensor per mask ({len(masks)})", len(given))
    return given


def _count_whole_rollouts(masks: list[Tensor], ids: list[Tensor], group: dist.ProcessGroup | None) -> Tensor:
    parts = [_labels_and_lengths(mask, one) for mask, one in zip(masks, ids, strict=True)]
    rollouts = _census(parts, masks, group)[0].numel()
    device = _device(masks, group)
    pieces = int(_over_ranks(torch.tensor(sum(labels.numel() for labels, _ in parts), device=device), group))
    if pieces != rollouts:
        requirement = 'keep every rollout in one micro-batch for mode="rollout"'
        fix = "use rollout_denominators, which gives one denominator per token"
        raise checks.fail(RangeError, "rollout_ids", requirement, f"{rollouts} rollouts in {pieces} pieces", fix=fix)
    return torch.tensor(rollouts, device=device)


def _labels_and_lengths(mask: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct ids of the selected tokens and how many tokens each has."""
    labels, lengths = torch.unique(ids[mask].long(), return_counts=True)
    return labels, lengths


def _census(parts: list[tuple[Tensor, Tensor]], masks: list[Tensor], group: dist.ProcessGroup | None) -> tuple[Tensor, Tensor]:
    """Sorted distinct ids over all parts and ranks, with their total lengths."""
    nothing = torch.empty(0, dtype=torch.int64, device=_device(masks, group))
    labels = _gather(torch.cat([nothing, *(part[0] for part in parts)]), group)
    lengths = _gather(torch.cat([nothing, *(part[1] for part in parts)]), group)
    table, places = torch.unique(labels, return_inverse=True)
    return table, torch.zeros_like(table).index_add(0, places, lengths)


def _gather(values: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """Concatenate one-dimensional int64 tensors of different lengths from all ranks."""
    if group is None:
        return values
    sizes = [torch.zeros(1, dtype=torch.int64, device=values.device) for _ in range(dist.get_world_size(group))]
    dist.all_gather(sizes, torch.tensor([values.numel()], device=values.device), group=group)
    longest = max(int(size) for size in sizes)
    padded = [torch.zeros(longest, dtype=torch.int64, device=values.device) for _ in sizes]
    dist.all_gather(padded, torch.cat([values, values.new_zeros(longest - values.numel())]), group=group)
    return torch.cat([part[: int(size)] for part, size in zip(padded, sizes, strict=True)])


def _over_ranks(count: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    if group is not None:
        dist.all_reduce(count, group=group)
    return count


def _device(masks: list[Tensor], group: dist.ProcessGroup | None) -> torch.device:
    if masks:
        return masks[0].device
    return torch.device("cpu") if group is None else group_device(group)
