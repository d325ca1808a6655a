"""The profile of a batch in main memory: blocks of rows that stay in the cache, and runs asked at their ends alone.

numpy on the tensors' own memory: it starts no threads, and the many small steps cost less than torch's. Selection is by bits, so
NaN at masked positions changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch

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
    wide,
)
from rosellm.roserlhf.audit.batch.runs import Array

_BLOCK = 1 << 16
"""Entries of a block: several of its arrays fit into the cache of one core."""

Tokens: TypeAlias = dict[str, Array]
"""The arguments `[B, T]` by name."""


@dataclass(frozen=True)
class Block:
    """Some rows, and the columns from their first to their last trained token."""

    rows: slice
    span: slice
    mask: Array
    """bool, the rows in full width."""
    trained: Array
    """Tokens in the mask, per row."""
    lanes: Array
    """int32 over the span, all bits set where the mask is."""

    def keep(self, values: Array) -> Array:
        """Return the selected values of the span, and exact zeros elsewhere; `values` are the block's rows."""
        part = values[:, self.span]
        return np.asarray((part.view(np.int64 if part.itemsize == 8 else np.int32) & self.lanes).view(part.dtype))


def measure_on_host(batch: Batch) -> Profile[Array]:
    """Take every cheap measurement for which the arguments are there."""
    tensors = {name: value for name, value in vars(batch).items() if isinstance(value, torch.Tensor) and value.ndim == 2}
    tokens = {name: value.cpu().numpy() for name, value in tensors.items()}
    mask = measure_mask(batch)
    with np.errstate(all="ignore"):  # NaN and infinity are for the checks to find
        parts = joined([measure_block(batch, tokens, block) for block in blocks_of(tokens["mask"], mask)])
    valid: OverlapColumns[Array] | None = parts.pop("valid_mask", None)
    if valid is not None:
        mask = replace(mask, padding=valid.outside, valid=mask.trained - valid.outside + valid.missed)
    if batch.stop_ids and "input_ids" in tokens:
        parts["stops"] = measure_stops(batch, tokens["input_ids"], batch.stop_ids)
    if "content_mask" in tokens:
        parts["scaffold"] = measure_scaffold(batch, tokens["content_mask"])
    parts |= {name: wide(column.cpu().numpy()) for name, column in row_columns(batch).items()}
    if batch.advantages is not None and batch.advantages.ndim == 1:
        parts["advantage"] = AdvantageColumns(*[wide(batch.advantages.cpu().numpy())] * 3)
    return Profile(
        mask=replace(mask, not_binary=parts.pop("not_binary", None)),
        reasoning=parts.pop("reasoning_mask", None),
        prompt=measure_prompt(batch, tokens, mask.first),
        **parts,
    )


def measure_mask(batch: Batch) -> MaskColumns[Array]:
    """Count and locate the trained tokens."""
    runs, rows = batch.runs, batch.rows
    first, last = np.full(rows, batch.width), np.full(rows, -1)
    first[runs.row[::-1]] = runs.first[::-1]  # of several assignments to one row the last one stays
    last[runs.row] = runs.last
    trained = np.bincount(runs.row, runs.last - runs.first + 1, rows).astype(np.int64)
    return MaskColumns(trained, first, last, np.bincount(runs.row, minlength=rows))


def blocks_of(mask: Array, columns: MaskColumns[Array]) -> Iterator[Block]:
    """Cut a batch into blocks."""
    rows, width = mask.shape
    step = max(1, _BLOCK // width)
    for start in range(0, rows, step):
        chosen = slice(start, start + step)
        span = slice(int(columns.first[chosen].min()), int(columns.last[chosen].max()) + 1)
        lanes = mask[chosen, span].astype(np.int32)
        yield Block(chosen, span, mask[chosen], columns.trained[chosen], np.negative(lanes, out=lanes))


def measure_block(batch: Batch, tokens: Tokens, block: Block) -> dict[str, Any]:
    """Take the measurements that need passes over tokens: parts of the profile by name."""
    rows = {name: values[block.rows] for name, values in tokens.items()}
    parts: dict[str, Any] = {}
    if "old_logprobs" in rows:
        old = block.keep(rows["old_logprobs"])
        parts |= {"old": measure_logprobs(old), "scored": measure_overlap(block, rows["old_logprobs"] < 0)}
    if "current_logprobs" in rows:
        current = block.keep(rows["current_logprobs"])
        parts["current"] = measure_logprobs(current)
    if "old" in parts and "current" in parts:
        parts["ratio"] = measure_ratio(old, current)
    if "input_ids" in rows:
        parts["lowest_id"] = np.minimum.reduce(rows["input_ids"][:, block.span], axis=1, initial=0)
    if "advantages" in rows:
        parts["advantage"] = measure_advantage(block, rows["advantages"])
    if "rewards" in rows:
        parts["reward"] = np.add.reduce(rows["rewards"], axis=1)
    if "roles" in rows:
        parts["roles"] = measure_overlap(block, is_one_of(rows["roles"], batch.policy_codes))
    for name in ("valid_mask", "reasoning_mask"):
        if name in rows:
            parts[name] = measure_overlap(block, rows[name])
    if "raw_mask" in rows:
        parts["not_binary"] = count(rows["raw_mask"] != block.mask)
    if "token_versions" in rows:
        parts |= measure_versions(block, rows["token_versions"])
    if "token_loss" in rows:
        parts["loss"] = measure_loss(block.keep(rows["token_loss"]))
    return parts


def measure_overlap(block: Block, places: Array) -> OverlapColumns[Array]:
    """Hold the mask against the places where it should be."""
    here = count(block.mask & places)
    return OverlapColumns(block.trained - here, count(places) - here)


def measure_logprobs(kept: Array) -> LogprobColumns[Array]:
    """Sum and maximum of selected log-probabilities, and whether 16 bits might have held every eighth of them."""
    low_bits = None if kept.itemsize == 8 else np.bitwise_or.reduce(kept[:, ::8].view(np.int32), axis=1) & 0xFFFF
    return LogprobColumns(np.add.reduce(kept, axis=1), np.maximum.reduce(kept, axis=1, initial=0), low_bits)


def measure_ratio(old: Array, current: Array) -> RatioColumns[Array]:
    """Sum of squares and range of the selected log-ratios."""
    difference = current - old
    lowest, highest = (reduce(difference, axis=1, initial=0) for reduce in (np.minimum.reduce, np.maximum.reduce))
    return RatioColumns(squares(difference), lowest, highest)


def measure_advantage(block: Block, advantages: Array) -> AdvantageColumns[Array]:
    """Sum and range of the advantages over trained tokens, and moments over everything."""
    kept, bound = block.keep(advantages), np.finfo(advantages.dtype).max
    part, there = advantages[:, block.span], block.mask[:, block.span]
    return AdvantageColumns(
        total=np.add.reduce(kept, axis=1),
        lowest=np.minimum.reduce(part, axis=1, where=there, initial=bound),
        highest=np.maximum.reduce(part, axis=1, where=there, initial=-bound),
        everywhere=np.add.reduce(advantages, axis=1),
        squares_everywhere=squares(advantages),
    )


def measure_loss(kept: Array) -> LossColumns[Array]:
    """Sum token losses and their sizes."""
    return LossColumns(np.add.reduce(kept, axis=1, dtype=np.float64), np.add.reduce(np.abs(kept), axis=1, dtype=np.float64))


def measure_versions(block: Block, versions: Array) -> dict[str, Array]:
    """Oldest and newest version of the trained tokens."""
    part, there, limits = versions[:, block.span], block.mask[:, block.span], np.iinfo(versions.dtype)
    return {
        "oldest": np.minimum.reduce(part, axis=1, where=there, initial=limits.max),
        "newest": np.maximum.reduce(part, axis=1, where=there, initial=limits.min),
    }


def measure_scaffold(batch: Batch, content: Array) -> Array:
    """Count the runs that start with the template's tokens; what a run ends with (a stop token) the policy may have sampled."""
    runs = batch.runs
    return np.bincount(runs.row[runs.several & ~content[runs.row, runs.first]], minlength=batch.rows)


def measure_stops(batch: Batch, ids: Array, stop_ids: tuple[int, ...]) -> StopColumns[Array]:
    """Look for stop tokens at the last, the next and the last but one position of each run."""
    runs, edge = batch.runs, batch.width - 1
    inside = is_one_of(ids[runs.row, runs.last], stop_ids)
    behind = ~inside & (runs.last < edge) & is_one_of(ids[runs.row, np.minimum(runs.last + 1, edge)], stop_ids)
    early = ~inside & runs.several & is_one_of(ids[runs.row, np.maximum(runs.last - 1, 0)], stop_ids)
    return StopColumns(*(np.bincount(runs.row[which], minlength=batch.rows) for which in (inside, behind, early)))


def measure_prompt(batch: Batch, tokens: Tokens, first: Array) -> Array | None:
    """Hash the tokens before the first trained one, counted from there, so that padding on the left moves nothing."""
    if batch.group_ids is None:
        return None
    if "prompt_ids" in tokens:
        window = tokens["prompt_ids"][:, -PROMPT_TOKENS:].astype(np.int64)
    elif "input_ids" in tokens:
        place = first[:, None] - np.arange(1, min(batch.width, PROMPT_TOKENS) + 1)
        flat = np.maximum(place, 0) + np.arange(0, batch.rows * batch.width, batch.width)[:, None]
        there = place >= 0
        if "valid_mask" in tokens:
            there &= tokens["valid_mask"].take(flat)
        window = (tokens["input_ids"].take(flat).astype(np.int64) + 1) * there
    else:
        return None
    odd = np.arange(window.shape[1]) * 0x9E3779B97F4A7C1 + 0x632BE59BD9B4E01
    return np.asarray(((window + 1) * (odd ^ (odd >> 23))).sum(1))  # wraps around, which a hash may


def count(flags: Array) -> Array:
    """Count per row."""
    return np.asarray(np.add.reduce(flags.view(np.uint8), axis=1, dtype=np.int32))


def squares(values: Array) -> Array:
    """Sum of squares per row."""
    return np.asarray(np.einsum("ij,ij->i", values, values))


def is_one_of(codes: Array, wanted: tuple[int, ...]) -> Array:
    """`isin` for a handful of values, without its sort."""
    found = codes == wanted[0] if wanted else np.zeros(codes.shape, dtype=bool)
    for code in wanted[1:]:
        found |= codes == code
    return np.asarray(found)


def joined(parts: Sequence[Any]) -> Any:
    """Put what was measured in blocks one below the other."""
    first = parts[0]
    if first is None:
        return None
    if isinstance(first, np.ndarray):
        return wide(np.concatenate(parts))
    columns = [part if isinstance(first, dict) else vars(part) for part in parts]
    whole = {name: joined([column[name] for column in columns]) for name in columns[0]}
    return whole if isinstance(first, dict) else type(first)(**whole)
