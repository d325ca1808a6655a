"""The batch in a few numbers per row: computed on the device in cheap passes, read back once, enough to see that nothing is wrong.

Each record below exists twice: with tensors `[B]` on the device, then (`read`) with arrays on the host. Nothing before `read` waits
for the device. Selection is by bits, so NaN at masked positions changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rosellm.roserlhf.audit.inputs import Batch

Array: TypeAlias = NDArray[Any]
Column = TypeVar("Column")
"""Tensor `[B]` on the device, array `[B]` on the host."""

_FAR = 0x3FFFFFFF
_PROMPT_TOKENS = 256
"""How many tokens before the first trained one stand for the prompt; what agrees in them is compared in full."""


@dataclass(frozen=True)
class MaskColumns(Generic[Column]):
    """Where the mask is."""

    trained: Column
    """Tokens in the mask."""
    first: Column
    """Position of the first; a large number if there is none."""
    last: Column
    """Position of the last; 0 if there is none."""
    runs: Column
    """Stretches of consecutive trained tokens."""
    not_binary: Column | None
    """Entries of the mask that are neither 0 nor 1; None: it is boolean."""
    padding: Column | None
    """Trained tokens outside `valid_mask`."""
    valid: Column | None


@dataclass(frozen=True)
class OverlapColumns(Generic[Column]):
    """How the mask lies over the places where something else says that it should be."""

    outside: Column
    """Trained tokens that are not in those places."""
    missed: Column
    """Those places that are not trained."""
    outside_left: Column
    """`outside`, had the mask stood one position further left."""
    missed_left: Column
    outside_right: Column
    """`outside`, had the mask stood one position further right."""
    missed_right: Column


@dataclass(frozen=True)
class LogprobColumns(Generic[Column]):
    """One kind of log-probability over the trained tokens."""

    total: Column
    lowest: Column
    highest: Column
    """At least 0 where something is masked, since selection leaves zeros."""
    low_bits: Column | None
    """0 if every number is exactly representable in bfloat16; None for float64."""


@dataclass(frozen=True)
class RatioColumns(Generic[Column]):
    """current - old over the trained tokens."""

    total: Column
    squares: Column
    lowest: Column
    highest: Column


@dataclass(frozen=True)
class StopColumns(Generic[Column]):
    """What stands around the end of each run of trained tokens."""

    inside: Column
    """Runs whose last token is a stop token."""
    behind: Column
    """Runs that are followed by a stop token which is not trained."""
    early: Column
    """Runs whose last token comes after a stop token."""


@dataclass(frozen=True, eq=False)
class Profile(Generic[Column]):
    """Everything measured; a part is None if its arguments were not given."""

    mask: MaskColumns[Column]
    roles: OverlapColumns[Column] | None = None
    scored: OverlapColumns[Column] | None = None
    """Over the places where `old_logprobs` holds a number below 0."""
    old: LogprobColumns[Column] | None = None
    current: LogprobColumns[Column] | None = None
    ratio: RatioColumns[Column] | None = None
    stops: StopColumns[Column] | None = None
    advantage: LogprobColumns[Column] | None = None
    """Over trained tokens; for advantages per row all three are the row's."""
    reward: Column | None = None
    """Sum over the row."""
    lowest_id: Column | None = None
    """Below 0 if an id of the row is."""
    prompt: Column | None = None
    """Hash of the prompt's last tokens."""
    group: Column | None = None
    rollout: Column | None = None
    version: Column | None = None
    oldest: Column | None = None
    """Oldest version in the row, for integer versions per token."""
    newest: Column | None = None
    lag: Column | None = None
    scored_rows: Column | None = None
    terminated: Column | None = None
    truncated: Column | None = None


def measure(batch: Batch) -> Profile[Tensor]:
    """Take every cheap measurement for which the arguments are there; never waits for the device."""
    mask = measure_mask(batch)
    by_role = None if batch.roles is None else _is_one_of(batch.roles, batch.policy_codes)
    old = None if batch.old_logprobs is None else batch.keep(batch.old_logprobs)
    current = None if batch.current_logprobs is None else batch.keep(batch.current_logprobs)
    return Profile(
        mask=mask,
        roles=None if by_role is None else measure_overlap(batch.mask, by_role, mask.trained),
        scored=None if batch.old_logprobs is None else measure_overlap(batch.mask, batch.old_logprobs < 0, mask.trained),
        old=None if old is None else measure_logprobs(old),
        current=None if current is None else measure_logprobs(current),
        ratio=None if old is None or current is None else measure_ratio(old, current),
        stops=measure_stops(batch),
        advantage=measure_advantage(batch),
        reward=batch.rewards if batch.rewards is None or batch.rewards.ndim == 1 else batch.rewards.sum(1),
        lowest_id=None if batch.input_ids is None else measure_ids(batch.input_ids),
        prompt=measure_prompt(batch, mask.first),
        group=None if batch.group_ids is None else batch.group_ids.codes,
        rollout=None if batch.rollout_ids is None else batch.rollout_ids.codes,
        version=None if batch.versions is None else batch.versions.codes,
        oldest=None if batch.token_versions is None else _over_trained(batch.token_versions, batch.mask, lowest=True),
        newest=None if batch.token_versions is None else _over_trained(batch.token_versions, batch.mask, lowest=False),
        lag=batch.lag,
        scored_rows=batch.scored,
        terminated=batch.terminated,
        truncated=batch.truncated,
    )


def measure_mask(batch: Batch) -> MaskColumns[Tensor]:
    """Count and locate the trained tokens."""
    mask, lanes = batch.mask, batch.lanes
    position = torch.arange(batch.width, dtype=torch.int32, device=mask.device)
    raw, valid = batch.raw_mask, batch.valid_mask
    return MaskColumns(
        trained=count(mask),
        first=(position | (~lanes & _FAR)).amin(1),
        last=(position & lanes).amax(1),
        runs=count(batch.ends),
        not_binary=None if raw is None else count((raw != 0) & (raw != 1)),
        padding=None if valid is None else count(mask & ~valid),
        valid=None if valid is None else count(valid),
    )


def measure_overlap(mask: Tensor, places: Tensor, trained: Tensor) -> OverlapColumns[Tensor]:
    """Hold the mask, as it is and moved by one, against the places where it should be."""
    here = count(mask & places)
    left = count(mask[:, 1:] & places[:, :-1])
    right = count(mask[:, :-1] & places[:, 1:])
    there = count(places)
    return OverlapColumns(trained - here, there - here, trained - left, there - left, trained - right, there - right)


def measure_logprobs(kept: Tensor) -> LogprobColumns[Tensor]:
    """Sum and range of selected log-probabilities, and whether 16 bits would have held them."""
    low_bits = None if kept.dtype == torch.float64 else (kept.view(torch.int32) & 0xFFFF).amax(1)
    return LogprobColumns(kept.sum(1), kept.amin(1), kept.amax(1), low_bits)


def measure_ratio(old: Tensor, current: Tensor) -> RatioColumns[Tensor]:
    """Sum, sum of squares and range of the selected log-ratios."""
    difference = current - old
    squares = torch.linalg.vecdot(difference, difference)
    return RatioColumns(difference.sum(1), squares, difference.amin(1), difference.amax(1))


def measure_stops(batch: Batch) -> StopColumns[Tensor] | None:
    """Look for stop tokens at the last, the next and the last but one position of each run."""
    if batch.input_ids is None or not batch.stop_ids:
        return None
    stop = _is_one_of(batch.input_ids, batch.stop_ids)
    inside = batch.ends & stop
    others = batch.ends ^ inside
    return StopColumns(
        inside=count(inside),
        behind=count(others[:, :-1] & stop[:, 1:]),
        early=count(others[:, 1:] & stop[:, :-1] & batch.mask[:, :-1]),
    )


def measure_advantage(batch: Batch) -> LogprobColumns[Tensor] | None:
    """Sum and range of the advantages over trained tokens."""
    advantages = batch.advantages
    if advantages is None:
        return None
    if advantages.ndim == 1:
        return LogprobColumns(advantages, advantages, advantages, None)
    bound = torch.finfo(advantages.dtype).max
    kept, masked = batch.keep(advantages), (~batch.lanes).to(advantages.dtype)  # 0 where trained, -1 elsewhere
    return LogprobColumns(kept.sum(1), (kept - masked * bound).amin(1), (kept + masked * bound).amax(1), None)


def measure_ids(ids: Tensor) -> Tensor:
    """Return something negative for rows with a negative id; halves of 64-bit ids are several times faster to reduce."""
    return (ids.view(torch.int32) if ids.dtype == torch.int64 and ids.is_contiguous() else ids).amin(1)


def measure_prompt(batch: Batch, first: Tensor) -> Tensor | None:
    """Hash the tokens before the first trained one, counted from there, so that padding on the left moves nothing."""
    if batch.prompt_ids is not None:
        window = batch.prompt_ids[:, -_PROMPT_TOKENS:]
    elif batch.input_ids is not None:
        back = torch.arange(1, min(batch.width, _PROMPT_TOKENS) + 1, device=first.device)
        place = first.clamp(max=batch.width)[:, None] - back
        at = place.clamp(min=0)
        there = place >= 0 if batch.valid_mask is None else (place >= 0) & batch.valid_mask.gather(1, at)
        window = (batch.input_ids.gather(1, at) + 1) * there
    else:
        return None
    odd = torch.arange(window.shape[1], device=window.device, dtype=torch.int64) * 0x9E3779B97F4A7C1 + 0x632BE59BD9B4E01
    return ((window + 1) * (odd ^ (odd >> 23))).sum(1)  # wraps around, which a hash may


def count(flags: Tensor) -> Tensor:
    """Count per row."""
    return flags.view(torch.uint8).sum(1, dtype=torch.int32)


def _is_one_of(codes: Tensor, wanted: tuple[int, ...]) -> Tensor:
    """`isin` for a handful of values, without its sort."""
    found = codes == wanted[0] if wanted else torch.zeros_like(codes, dtype=torch.bool)
    for code in wanted[1:]:
        found |= codes == code
    return found


def _over_trained(versions: Tensor, mask: Tensor, *, lowest: bool) -> Tensor:
    limits = torch.iinfo(versions.dtype)
    return versions.masked_fill(~mask, limits.max).amin(1) if lowest else versions.masked_fill(~mask, limits.min).amax(1)


def read(profile: Profile[Tensor]) -> Profile[Array]:
    """Bring every column to the host, one copy for the numbers and one for the integers: the only wait for the device."""
    columns = list(_columns(profile))
    host: dict[int, Array] = {}
    real = torch.float32 if any(column.device.type == "mps" for column in columns) else torch.float64
    for away, dtype in ((True, real), (False, torch.int64)):
        chosen = [c for c in columns if c.device.type != "cpu" and c.is_floating_point() == away]
        if chosen:
            packed = torch.stack([column.to(dtype) for column in chosen]).cpu().numpy()
            host.update({id(column): row for column, row in zip(chosen, packed, strict=True)})
    host.update({id(column): column.numpy() for column in columns if column.device.type == "cpu"})
    return cast("Profile[Array]", _with_arrays(profile, host))


def _columns(record: Any) -> Iterator[Tensor]:
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, Tensor):
            yield value
        elif is_dataclass(value):
            yield from _columns(value)


def _with_arrays(record: Any, host: dict[int, Array]) -> Any:
    changed: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, Tensor):
            array = host[id(value)]
            changed[field.name] = array.astype(np.float64) if array.dtype.kind == "f" else array
        elif is_dataclass(value):
            changed[field.name] = _with_arrays(value, host)
    return replace(record, **changed)
