"""Check of the number that is minimised: is it the declared aggregation of these token losses, and if not, which is it?"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rosellm.roserlhf.audit.check import Check, Seen
from rosellm.roserlhf.audit.findings import Finding
from rosellm.roserlhf.audit.inputs import Batch

_TOLERANCE, _HALF_TOLERANCE = 1e-4, 1e-2
"""Relative difference that float32 sums, and 16-bit losses, may show."""
_DECLARED = {
    "token": "mean over tokens",
    "sequence_mean": "mean over sequences of token means",
    "sequence_sum": "mean over sequences of token sums",
    "rollout": "mean over rollouts of token means",
    "horizon": "sum over (sequences times horizon)",
}
"""Names of the aggregations of `losses`, as they are called here."""


def aggregation_mismatch(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find a loss that is not the declared aggregation of the token losses, and name the one that it is."""
    assert batch.loss is not None
    assert batch.token_loss is not None
    if not seen.mask.trained.any():
        return
    loss, numbers = float(batch.loss), readings(batch)
    size = float(batch.token_loss[batch.mask].double().abs().mean())
    if size == 0:
        return
    declared = _declared(batch, numbers)
    if declared is None:
        matches = [name for name, value in numbers.items() if _equal(batch, value, size)]
        yield Finding(
            "aggregation_mismatch", "info", f"the loss is the {matches[0]}" if matches else "the loss is no known mean", {}
        )
        return
    name, wanted = declared
    if _equal(batch, wanted, size):
        return
    matches = [other for other, value in numbers.items() if other != name and _equal(batch, value, size)]
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


def _declared(batch: Batch, numbers: dict[str, float]) -> tuple[str, float] | None:
    """What the loss should be: the given denominator wins over the counted one."""
    if batch.denominator is not None:
        unit = batch.aggregation or "token"
        values = numbers if unit in ("token", "sequence_sum") else None
        total = numbers["sum"] if values is not None else numbers[_DECLARED[unit]] * _units(batch, unit)
        return f"{_DECLARED[unit]} over the given denominator", total / float(batch.denominator)
    if batch.aggregation is None or _DECLARED[batch.aggregation] not in numbers:
        return None
    return _DECLARED[batch.aggregation], numbers[_DECLARED[batch.aggregation]]


def _units(batch: Batch, unit: str) -> int:
    live = batch.mask.any(1)
    if unit == "rollout" and batch.rollout_ids is not None:
        return len(torch.unique(batch.rollout_ids.codes.to(live.device)[live]))
    return int(live.sum())


def readings(batch: Batch) -> dict[str, float]:
    """Aggregate the token losses in every way that people mean, or get by mistake."""
    assert batch.token_loss is not None
    kept = batch.token_loss.double().masked_fill(~batch.mask, 0)
    sums, counts = kept.sum(1), batch.mask.sum(1).double()
    live = counts > 0
    total, tokens, rows = float(sums.sum()), float(counts.sum()), int(live.sum())
    numbers = {
        "mean over tokens": total / tokens,
        "mean over sequences of token means": float((sums[live] / counts[live]).mean()),
        "mean over sequences of token sums": total / rows,
    }
    if batch.rollout_ids is not None:
        rollout = torch.unique(batch.rollout_ids.codes.to(sums.device)[live], return_inverse=True)[1]
        size = int(rollout.max()) + 1
        per_sum, per_count = (
            sums.new_zeros(size).index_add(0, rollout, sums[live]),
            sums.new_zeros(size).index_add(0, rollout, counts[live]),
        )
        numbers["mean over rollouts of token means"] = float((per_sum / per_count).mean())
    numbers["mean over all positions, padding and context included"] = total / batch.mask.numel()
    if batch.valid_mask is not None:
        numbers["mean over all tokens that are not padding, context included"] = total / max(1, int(batch.valid_mask.sum()))
    numbers["mean over all rows of token sums, empty ones included"] = total / batch.rows
    numbers["sum"] = total
    splits = (batch.micro_batches,) if batch.micro_batches is not None else _even_splits(batch.rows)
    for sizes in splits:
        numbers |= _micro_batches(sums, counts, sizes, total / tokens)
    return numbers


def _micro_batches(sums: Tensor, counts: Tensor, sizes: tuple[int, ...], mean: float) -> dict[str, float]:
    """The two slips of gradient accumulation."""
    part_sums = [float(part.sum()) for part in sums.split(list(sizes))]
    part_counts = [float(part.sum()) for part in counts.split(list(sizes))]
    means = [s / c for s, c in zip(part_sums, part_counts, strict=True) if c]
    name = f"{len(sizes)} micro-batches"
    return {
        f"mean of the token means of {name}": sum(means) / len(means),
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
