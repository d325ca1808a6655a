"""The profile of a batch on a device: passes over its tensors that are queued and wait for nothing.

Selection is by bits, so NaN at masked positions changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rosellm.roserlhf.audit.batch.flags import below_zero, count, is_one_of
from rosellm.roserlhf.audit.batch.inputs import Batch
from rosellm.roserlhf.audit.batch.profile import (
    PROMPT_TOKENS,
    AdvantageColumns,
    LogprobColumns,
    LossColumns,
    MaskColumns,
    OverlapColumns,
    Profile,
    RatioColumns,
    StopColumns,
    row_columns,
)


@dataclass(frozen=True)
class Selection:
    """The mask in the shapes in which the measurements use it."""

    mask: Tensor
    lanes: Tensor
    """int32 `[B, T]`, all bits set where the mask is."""
    ends: Tensor
    """bool `[B, T]`, the last token of each run of trained tokens."""

    @classmethod
    def of(cls, mask: Tensor) -> Selection:
        """Prepare a mask."""
        ends = mask.clone()
        ends[:, :-1] &= ~mask[:, 1:]
        return cls(mask, mask.to(torch.int32).neg_(), ends)

    def keep(self, values: Tensor) -> Tensor:
        """Return the selected values and exact zeros elsewhere."""
        if values.dtype == torch.float64:
            return (values.view(torch.int64) & self.lanes.long()).view(torch.float64)
        return (values.view(torch.int32) & self.lanes).view(torch.float32)


def measure_on_device(batch: Batch) -> Profile[Tensor]:
    """Take every cheap measurement for which the arguments are there; never waits for the device."""
    chosen = Selection.of(batch.mask)
    mask = measure_mask(batch, chosen)
    old = None if batch.old_logprobs is None else chosen.keep(batch.old_logprobs)
    current = None if batch.current_logprobs is None else chosen.keep(batch.current_logprobs)
    versions = batch.token_versions
    return Profile(
        mask=mask,
        roles=None if batch.roles is None else measure_overlap(mask, batch.mask, is_one_of(batch.roles, batch.policy_codes)),
        scored=None if batch.old_logprobs is None else measure_overlap(mask, batch.mask, below_zero(batch.old_logprobs)),
        old=None if old is None else measure_logprobs(old),
        current=None if current is None else measure_logprobs(current),
        ratio=None if old is None or current is None else measure_ratio(old, current),
        reasoning=None if batch.reasoning_mask is None else measure_overlap(mask, batch.mask, batch.reasoning_mask),
        scaffold=measure_scaffold(batch, chosen),
        stops=measure_stops(batch, chosen),
        advantage=measure_advantage(batch, chosen),
        loss=None if batch.token_loss is None else measure_loss(chosen.keep(batch.token_loss)),
        lowest_id=None if batch.input_ids is None else measure_ids(batch.input_ids),
        prompt=measure_prompt(batch, mask.first),
        oldest=None if versions is None else versions.masked_fill(~batch.mask, torch.iinfo(versions.dtype).max).amin(1),
        newest=None if versions is None else versions.masked_fill(~batch.mask, torch.iinfo(versions.dtype).min).amax(1),
        **({"reward": batch.rewards.sum(1)} if batch.rewards is not None and batch.rewards.ndim == 2 else {}),
        **row_columns(batch),
    )


def measure_mask(batch: Batch, chosen: Selection) -> MaskColumns[Tensor]:
    """Count and locate the trained tokens."""
    ahead = torch.arange(1, batch.width + 1, dtype=torch.int32, device=batch.mask.device)
    raw, valid = batch.raw_mask, batch.valid_mask
    return MaskColumns(
        trained=count(batch.mask),
        first=batch.width - (ahead.flip(0) & chosen.lanes).amax(1),
        last=(ahead & chosen.lanes).amax(1) - 1,
        runs=count(chosen.ends),
        not_binary=None if raw is None else count(raw != batch.mask),
        padding=None if valid is None else count(batch.mask & ~valid),
        valid=None if valid is None else count(valid),
    )


def measure_overlap(columns: MaskColumns[Tensor], mask: Tensor, places: Tensor) -> OverlapColumns[Tensor]:
    """Hold the mask against the places where it should be."""
    here = count(mask & places)
    return OverlapColumns(columns.trained - here, count(places) - here)


def measure_logprobs(kept: Tensor) -> LogprobColumns[Tensor]:
    """Sum and maximum of selected log-probabilities, and whether 16 bits might have held every eighth of them."""
    low_bits = None if kept.dtype == torch.float64 else (kept[:, ::8].view(torch.int32) & 0xFFFF).amax(1)
    return LogprobColumns(kept.sum(1), kept.amax(1), low_bits)


def measure_ratio(old: Tensor, current: Tensor) -> RatioColumns[Tensor]:
    """Sum of squares and range of the selected log-ratios."""
    difference = current - old
    return RatioColumns(torch.linalg.vecdot(difference, difference), difference.amin(1), difference.amax(1))


def measure_scaffold(batch: Batch, chosen: Selection) -> Tensor | None:
    """Count the runs that start with the template's tokens; what a run ends with (a stop token) the policy may have sampled."""
    if batch.content_mask is None:
        return None
    starts = batch.mask & ~chosen.ends & ~batch.content_mask
    starts[:, 1:] &= ~batch.mask[:, :-1]
    return count(starts)


def measure_stops(batch: Batch, chosen: Selection) -> StopColumns[Tensor] | None:
    """Look for stop tokens at the last, the next and the last but one position of each run."""
    if batch.input_ids is None or not batch.stop_ids:
        return None
    stop = is_one_of(batch.input_ids, batch.stop_ids)
    inside = chosen.ends & stop
    others = chosen.ends ^ inside
    return StopColumns(
        inside=count(inside),
        behind=count(others[:, :-1] & stop[:, 1:]),
        early=count(others[:, 1:] & stop[:, :-1] & batch.mask[:, :-1]),
    )


def measure_advantage(batch: Batch, chosen: Selection) -> AdvantageColumns[Tensor] | None:
    """Sum and range of the advantages over trained tokens, and moments over everything."""
    advantages = batch.advantages
    if advantages is None:
        return None
    if advantages.ndim == 1:
        return AdvantageColumns(advantages, advantages, advantages)
    bound = torch.finfo(advantages.dtype).max
    kept, masked = chosen.keep(advantages), (~chosen.lanes).to(advantages.dtype)  # 0 where trained, -1 elsewhere
    return AdvantageColumns(
        total=kept.sum(1),
        lowest=(kept - masked * bound).amin(1),
        highest=(kept + masked * bound).amax(1),
        everywhere=advantages.sum(1),
        squares_everywhere=torch.linalg.vecdot(advantages, advantages),
    )


def measure_loss(kept: Tensor) -> LossColumns[Tensor]:
    """Sum token losses and their sizes."""
    dtype = torch.float32 if kept.device.type == "mps" else torch.float64
    return LossColumns(kept.sum(1, dtype=dtype), kept.abs().sum(1, dtype=dtype))


def measure_ids(ids: Tensor) -> Tensor:
    """Return something negative for rows with a negative id; halves of 64-bit ids are several times faster to reduce."""
    return (ids.view(torch.int32) if ids.dtype == torch.int64 and ids.is_contiguous() else ids).amin(1)


def measure_prompt(batch: Batch, first: Tensor) -> Tensor | None:
    """Hash the tokens before the first trained one, counted from there, so that padding on the left moves nothing."""
    if batch.group_ids is None:
        return None
    if batch.prompt_ids is not None:
        window = batch.prompt_ids[:, -PROMPT_TOKENS:]
    elif batch.input_ids is not None:
        back = torch.arange(1, min(batch.width, PROMPT_TOKENS) + 1, device=first.device)
        place = first.clamp(max=batch.width)[:, None] - back
        at = place.clamp(min=0)
        there = place >= 0 if batch.valid_mask is None else (place >= 0) & batch.valid_mask.gather(1, at)
        window = (batch.input_ids.gather(1, at) + 1) * there
    else:
        return None
    odd = torch.arange(window.shape[1], device=window.device, dtype=torch.int64) * 0x9E3779B97F4A7C1 + 0x632BE59BD9B4E01
    return ((window + 1) * (odd ^ (odd >> 23))).sum(1)  # wraps around, which a hash may
