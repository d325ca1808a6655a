"""Check of the number that is minimised: is it the declared aggregation of these token losses, and if not, which is it?"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from rosellm.roserlhf.audit.batch.check import CannotTellError, Check, Seen
from rosellm.roserlhf.audit.batch.inputs import Batch
from rosellm.roserlhf.audit.batch.runs import Array
from rosellm.roserlhf.audit.findings import Finding

_TOLERANCE, _HALF_TOLERANCE = 1e-4, 1e-2
"""Relative difference that float32 sums, and 16-bit losses, may show."""
_DECLARED = {
    "token": "mean over tokens",
    "sequence_mean": "mean over sequences of token means",
    "sequence_sum": "mean over sequences of token sums",
    "rollout": "mean over rollouts of token means",
}
"""Names of the aggregations of `losses`, as they are called here."""


def aggregation_mismatch(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find a loss that is not the declared aggregation of the token losses, and name the one that it is."""
    assert batch.loss is not None
    assert seen.loss is not None
    if not seen.mask.trained.any():
        return
    loss, numbers = float(batch.loss), means(batch, seen)
    size = float(seen.loss.size.sum()) / int(seen.mask.trained.sum())
    if size == 0:
        return
    declared = _declared(batch, seen, numbers)
    if declared is None:
        matches = [name for name, value in readings(batch, seen).items() if _equal(batch, value, size)]
        yield Finding(
            "aggregation_mismatch", "info", f"the loss is the {matches[0]}" if matches else "the loss is no known mean", {}
        )
        return
    name, wanted = declared
    if _equal(batch, wanted, size):
        return
    matches = [other for other, value in readings(batch, seen).items() if other != name and _equal(batch, value, size)]
    yield Finding(
        "aggregation_mismatch",
        "error" if matches else "warning",
        f"the loss {loss:.6g} is not the declared {name} ({wanted:.6g}); "
        + (f"it is the {matches[0]}" if matches else "it is no mean known here (a term may be missing from token_loss)"),
        {"loss": loss, "declared": wanted, "also equal to": matches, **({"ratio": loss / wanted} if wanted else {})},
        "each micro-batch, rank or padded row was divided by its own count"
        if matches
        else "another term was added, or the loss was scaled for accumulation",
        "divide by one denominator, counted over the whole optimizer step (losses.step_denominator)",
    )


def _declared(batch: Batch, seen: Seen, numbers: dict[str, float]) -> tuple[str, float] | None:
    """What the loss should be: the given denominator wins over the counted one."""
    if batch.aggregation == "horizon":
        raise CannotTellError("needs another aggregation: the horizon that the loss was divided by is not among the arguments")
    unit = batch.aggregation
    if unit == "rollout" and seen.rollout is None:
        unit = "sequence_mean"  # every row is a rollout
    if batch.denominator is not None:
        unit = unit or "token"
        values = numbers if unit in ("token", "sequence_sum") else None
        total = numbers["sum"] if values is not None else numbers[_DECLARED[unit]] * _units(seen, unit)
        return f"{_DECLARED[unit]} over the given denominator", total / float(batch.denominator) if batch.denominator else math.nan
    return None if unit is None else (_DECLARED[unit], numbers[_DECLARED[unit]])


def _units(seen: Seen, unit: str) -> int:
    live = seen.mask.trained > 0
    return len(np.unique(seen.rollout[live])) if unit == "rollout" and seen.rollout is not None else int(live.sum())


def readings(batch: Batch, seen: Seen) -> dict[str, float]:
    """Aggregate the token losses in every way that people mean, or get by mistake."""
    assert seen.loss is not None
    numbers = means(batch, seen)
    splits = (batch.micro_batches,) if batch.micro_batches is not None else _even_splits(batch.rows)
    for sizes in splits:
        numbers |= _micro_batches(seen.loss.total, seen.mask.trained, sizes, numbers["mean over tokens"])
    return numbers


def means(batch: Batch, seen: Seen) -> dict[str, float]:
    """Aggregate the token losses in every way that needs no split into micro-batches."""
    assert seen.loss is not None
    sums, counts = seen.loss.total, seen.mask.trained
    live = counts > 0
    total, tokens, rows = float(sums.sum()), int(counts.sum()), int(live.sum())
    numbers = {
        "mean over tokens": total / tokens,
        "mean over sequences of token means": float((sums[live] / counts[live]).mean()),
        "mean over sequences of token sums": total / rows,
    }
    if seen.rollout is not None:
        rollout = np.unique(seen.rollout[live], return_inverse=True)[1]
        per_rollout = np.bincount(rollout, sums[live]) / np.bincount(rollout, counts[live])
        numbers["mean over rollouts of token means"] = float(per_rollout.mean())
    numbers["mean over all positions, padding and context included"] = total / batch.mask.numel()
    if seen.mask.valid is not None:
        numbers["mean over all tokens that are not padding, context included"] = total / max(1, int(seen.mask.valid.sum()))
    numbers["mean over all rows of token sums, empty ones included"] = total / batch.rows
    numbers["sum"] = total
    return numbers


def _micro_batches(sums: Array, counts: Array, sizes: tuple[int, ...], mean: float) -> dict[str, float]:
    """The two slips of gradient accumulation."""
    ends = np.cumsum(sizes)[:-1]
    part_sums, part_counts = ([float(part.sum()) for part in np.split(column, ends)] for column in (sums, counts))
    parts = [s / c for s, c in zip(part_sums, part_counts, strict=True) if c]
    name = f"{len(sizes)} micro-batches"
    return {
        f"mean of the token means of {name}": sum(parts) / len(parts),
        f"mean over tokens, divided again by the number of {name}": mean / len(sizes),
    }


def _even_splits(rows: int) -> tuple[tuple[int, ...], ...]:
    return tuple((rows // parts,) * parts for parts in (2, 4, 8, 16) if rows % parts == 0)


def _equal(batch: Batch, wanted: float, size: float) -> bool:
    """Compare the loss with a reading, relative to both of them and to the size of the token losses."""
    assert batch.loss is not None
    loss, half = float(batch.loss), batch.loss.is_floating_point() and batch.loss.dtype.itemsize < 4
    return abs(loss - wanted) <= (_HALF_TOLERANCE if half else _TOLERANCE) * max(abs(loss), abs(wanted)) + 1e-6 * size


CHECKS = (Check(("aggregation_mismatch",), ("loss", "token_loss"), aggregation_mismatch),)
