"""Checks of the ratio against what is said about the weights: how stale the data are, and whether an update was made already.

Behaviour log-probabilities are evidence of the weights that sampled. Recomputed with newer ones they make the ratio exactly 1, and
clipping and every correction for staleness are inactive without a sign.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rosellm.roserlhf.audit.batch.check import Check, Seen, places, rows_where, some
from rosellm.roserlhf.audit.batch.inputs import Batch
from rosellm.roserlhf.audit.batch.runs import Array
from rosellm.roserlhf.audit.findings import Finding

_CERTAIN = -1e-2
"""Rows whose log-probabilities sum to more than this are too certain to show a change of the weights."""
_NOISE, _DRIFT = 0.05, 0.1
"""Root mean square of the log-ratio that two engines' rounding may reach, and that nothing but other weights explains."""
_FEWEST_MOVED = 8
"""Pairs of neighbouring trained tokens below which nothing is said about a move by one position."""
_OVERFLOW, _HUGE = 80.0, 20.0


def _exactly_one(seen: Seen) -> tuple[Array, Array]:
    """Rows that could show a change of weights, and those among them whose every ratio is exactly 1."""
    assert seen.ratio is not None
    assert seen.current is not None
    able = (seen.mask.trained > 0) & (seen.current.total < _CERTAIN)
    return able, able & (seen.ratio.lowest == 0) & (seen.ratio.highest == 0)


def stale_rows(batch: Batch, seen: Seen) -> Array | None:
    """Rows that were sampled by other weights than the current ones, as far as lag and versions say; None: they say nothing."""
    if seen.lag is not None:
        return np.asarray(seen.lag > 0)
    oldest = seen.oldest if seen.oldest is not None else seen.version
    if oldest is None:
        return None
    if batch.current_version is not None:
        return np.asarray(oldest != _current_code(batch))
    newest = seen.newest if seen.newest is not None else oldest
    ordered = batch.versions is None or batch.versions.labels is None
    if ordered:  # whatever is older than the newest version seen is stale
        return np.asarray(oldest < newest[seen.mask.trained > 0].max(initial=np.iinfo(np.int64).min))
    return np.full(batch.rows, len(np.unique(oldest)) > 1)


def _current_code(batch: Batch) -> int:
    """Code of the current version; -1 if no row has it."""
    labels = None if batch.versions is None else batch.versions.labels
    if labels is None:
        return int(batch.current_version) if batch.current_version is not None else -1
    name = str(batch.current_version)
    return labels.index(name) if name in labels else -1


def ratio_one_while_stale(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find stale rows whose ratio is exactly 1."""
    stale = stale_rows(batch, seen)
    able, one = _exactly_one(seen)
    if stale is None or not (stale & one).any() or (stale & one).sum() < 0.5 * (stale & able).sum():
        return
    yield Finding(
        "ratio_one_while_stale",
        "error",
        f"every ratio is exactly 1 in {some(int((stale & one).sum()), int((stale & able).sum()), 'row')} of older weights",
        {"rows": rows_where(stale & one)[:8], "lag": None if seen.lag is None else seen.lag[stale & one][:8]},
        "old_logprobs were recomputed with the current weights instead of being recorded when the tokens were sampled",
        "pass the behaviour log-probabilities that the engine recorded; recomputed ones are the proximal policy's",
    )


def ratio_one_after_update(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find a batch on which an update was made and whose ratio is still exactly 1."""
    if batch.before_update is not False:
        return
    able, one = _exactly_one(seen)
    if not one.any() or not (one == able).all():
        return
    yield Finding(
        "ratio_one_after_update",
        "error",
        f"every ratio is exactly 1 in all {int(one.sum())} rows although an update was made since they were sampled",
        {"rows": rows_where(one)[:8]},
        "the loss divides the current probability by itself: exp(logp - logp.detach()), or the update changed nothing",
        "pass the log-probabilities that were recorded before the update, and look at learning rate and gradient",
    )


def ratio_not_one_when_fresh(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find ratios far from 1 before the first update on data that are said to be fresh."""
    assert seen.ratio is not None
    assert seen.old is not None
    assert seen.current is not None
    if batch.before_update is not True:
        return
    stale = stale_rows(batch, seen)
    fresh = seen.mask.trained > 0 if stale is None else (seen.mask.trained > 0) & ~stale
    tokens, squares = seen.mask.trained[fresh].sum(), seen.ratio.squares[fresh].sum()
    if tokens == 0 or not np.isfinite(squares):
        return
    spread = float(np.sqrt(squares / tokens))
    if spread <= _NOISE:
        return
    mean = float((seen.current.total - seen.old.total)[fresh].sum() / tokens)
    side = _one_position_off(batch, spread)
    if side is not None:
        yield Finding(
            "ratio_not_one_when_fresh",
            "error",
            f"the log-ratio has a root mean square of {spread:.3g}, almost none when current_logprobs is moved by one position",
            {"root mean square": spread, "mean": mean, "tokens": int(tokens), "current_logprobs too far": side},
            f"current_logprobs stands one position too far {side} of old_logprobs: logits at t score the token at t + 1",
            "slice ids, logits and log-probabilities alike: log-probability t belongs to input_ids[:, t]",
        )
        return
    yield Finding(
        "ratio_not_one_when_fresh",
        "error" if spread > _DRIFT else "warning",
        f"before the first update the log-ratio has a root mean square of {spread:.3g} on data that are said to be fresh",
        {"root mean square": spread, "mean": mean, "tokens": int(tokens)},
        "older weights sampled than was recorded (the engine did not load the last update), or both sides score differently",
        "compare the engine's weights with the learner's (a hash), then precision, temperature and the chat template",
    )


def _one_position_off(batch: Batch, spread: float) -> str | None:
    """Name the side on which the current log-probabilities stand one position off, if moving them repairs the ratio."""
    assert batch.old_logprobs is not None
    assert batch.current_logprobs is not None
    inner = batch.mask[:, 1:] & batch.mask[:, :-1]
    if int(inner.sum()) < _FEWEST_MOVED:
        return None
    for side, old, current in (
        ("left", batch.old_logprobs[:, 1:], batch.current_logprobs[:, :-1]),
        ("right", batch.old_logprobs[:, :-1], batch.current_logprobs[:, 1:]),
    ):
        left_over = float((current - old)[inner].double().square().mean().sqrt())
        if left_over < 0.2 * spread:
            return side
    return None


def ratio_extreme(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find trained tokens whose ratio is astronomically large or small."""
    assert seen.ratio is not None
    assert batch.old_logprobs is not None
    assert batch.current_logprobs is not None
    size = np.maximum(seen.ratio.highest, -seen.ratio.lowest)
    if not (size > _HUGE).any():
        return
    difference = batch.current_logprobs - batch.old_logprobs
    bad = batch.mask & (difference.abs() > _HUGE)
    worst = float(difference[bad].abs().max())
    yield Finding(
        "ratio_extreme",
        "error" if worst > _OVERFLOW else "warning",
        f"{int(bad.sum())} trained tokens have a log-ratio beyond ±{_HUGE:g}, up to {worst:.4g}",
        {"positions": places(bad), "log-ratios": difference[bad][:8].tolist()},
        "the recorded log-probability belongs to another token, or the token is outside one side's support",
        "check the alignment of ids and log-probabilities; reject such tokens under a named reason instead of clamping them",
    )


def lag_understated(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find rows whose declared lag is smaller than the one of their oldest token."""
    oldest = seen.oldest if seen.oldest is not None else seen.version
    assert seen.lag is not None
    assert oldest is not None
    ordered = batch.versions is None or batch.versions.labels is None
    if not ordered or not isinstance(batch.current_version, int):
        return
    real = np.where(seen.mask.trained > 0, batch.current_version - oldest, 0)
    wrong = real > seen.lag
    if not wrong.any():
        return
    yield Finding(
        "lag_understated",
        "error",
        f"tokens are staler than declared in {some(int(wrong.sum()), batch.rows, 'row')}",
        {"rows": rows_where(wrong)[:8], "declared": seen.lag[wrong][:8], "by oldest token": real[wrong][:8]},
        "the version was recorded once per request, at its end: weights were swapped while the reply was being sampled",
        "record versions per span of tokens and count lag from the oldest",
    )


CHECKS = (
    Check(("ratio_one_while_stale",), ("old_logprobs", "current_logprobs", "lag or versions"), ratio_one_while_stale),
    Check(("ratio_one_after_update",), ("old_logprobs", "current_logprobs", "before_update"), ratio_one_after_update),
    Check(("ratio_not_one_when_fresh",), ("old_logprobs", "current_logprobs", "before_update"), ratio_not_one_when_fresh),
    Check(("ratio_extreme",), ("old_logprobs", "current_logprobs"), ratio_extreme),
    Check(("lag_understated",), ("lag", "versions", "current_version"), lag_understated),
)
