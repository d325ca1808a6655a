"""The batch in a few numbers per row, enough to see that nothing is wrong.

Tensors in main memory are measured there (`host_profile`). On a device the records below exist twice: with tensors `[B]`, measured
in passes that wait for nothing (`device_profile`), then, after `read`, with arrays on the host. Both say the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Generic, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from rosellm.roserlhf.audit.batch.inputs import Batch
from rosellm.roserlhf.audit.batch.runs import Array

Column = TypeVar("Column")
"""Tensor `[B]` on the device, array `[B]` on the host."""

PROMPT_TOKENS = 128
"""How many tokens before the first trained one stand for the prompt; what agrees in them is compared in full."""


@dataclass(frozen=True)
class MaskColumns(Generic[Column]):
    """Where the mask is."""

    trained: Column
    """Tokens in the mask."""
    first: Column
    """Position of the first; T if there is none."""
    last: Column
    """Position of the last; -1 if there is none."""
    runs: Column
    """Stretches of consecutive trained tokens."""
    not_binary: Column | None = None
    """Entries of the mask that are neither 0 nor 1; None: it is boolean."""
    padding: Column | None = None
    """Trained tokens outside `valid_mask`."""
    valid: Column | None = None
    """Entries of `valid_mask`."""


@dataclass(frozen=True)
class OverlapColumns(Generic[Column]):
    """How the mask lies over the places where something else says that it should be."""

    outside: Column
    """Trained tokens that are not in those places."""
    missed: Column
    """Those places that are not trained."""


@dataclass(frozen=True)
class LogprobColumns(Generic[Column]):
    """One kind of log-probability over the trained tokens."""

    total: Column
    highest: Column
    """May be 0 instead of a number below it."""
    low_bits: Column | None
    """Not 0 anywhere: some number is not exactly representable in bfloat16, by a sample; None for float64."""


@dataclass(frozen=True)
class AdvantageColumns(Generic[Column]):
    """Advantages over the trained tokens; for advantages per row the first three are the row's and the others None."""

    total: Column
    lowest: Column
    highest: Column
    everywhere: Column | None = None
    """Sum over all positions, padding included."""
    squares_everywhere: Column | None = None


@dataclass(frozen=True)
class RatioColumns(Generic[Column]):
    """current - old over the trained tokens."""

    squares: Column
    lowest: Column
    """May be 0 instead of a number above it."""
    highest: Column
    """May be 0 instead of a number below it."""


@dataclass(frozen=True)
class StopColumns(Generic[Column]):
    """What stands around the end of each run of trained tokens."""

    inside: Column
    """Runs whose last token is a stop token."""
    behind: Column
    """Runs that are followed by a stop token which is not trained."""
    early: Column
    """Runs whose last token comes after a stop token."""


@dataclass(frozen=True)
class LossColumns(Generic[Column]):
    """Losses of the trained tokens before aggregation, summed with 64 bits where the device has them."""

    total: Column
    size: Column
    """Sum of their absolute values."""


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
    reasoning: OverlapColumns[Column] | None = None
    """Over the places where `reasoning_mask` is true."""
    scaffold: Column | None = None
    """Runs of two tokens or more that start with a token of the chat template."""
    stops: StopColumns[Column] | None = None
    advantage: AdvantageColumns[Column] | None = None
    loss: LossColumns[Column] | None = None
    reward: Column | None = None
    """Sum over the row."""
    lowest_id: Column | None = None
    """Below 0 if a trained id of the row is, and sometimes without that."""
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


def row_columns(batch: Batch) -> dict[str, Tensor]:
    """Columns of the profile that were given as such."""
    given = {
        "group": None if batch.group_ids is None else batch.group_ids.codes,
        "rollout": None if batch.rollout_ids is None else batch.rollout_ids.codes,
        "version": None if batch.versions is None else batch.versions.codes,
        "reward": None if batch.given("rewards per token") else batch.rewards,
        "lag": batch.lag,
        "scored_rows": batch.scored,
        "terminated": batch.terminated,
        "truncated": batch.truncated,
    }
    return {name: column for name, column in given.items() if column is not None}


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


def wide(column: Array) -> Array:
    """Give numbers 64 bits, so that what is computed from them on the host does not overflow."""
    return column.astype(np.float64) if column.dtype.kind == "f" else column


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
            changed[field.name] = wide(host[id(value)])
        elif is_dataclass(value):
            changed[field.name] = _with_arrays(value, host)
    return replace(record, **changed)
