"""Checks of the token that ends an action: the policy sampled it, so it is trained, and nothing after it is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from rosellm.roserlhf.audit.check import Check, Seen, places, some
from rosellm.roserlhf.audit.findings import Finding, Severity
from rosellm.roserlhf.audit.inputs import Batch

_CAUSE = "the end-of-sequence token was taken for padding (same id), or the mask was cut at the text without it"
_FIX = "include the sampled stop token in the mask: a policy that is never trained to stop forgets how to end its turn"


def stop_tokens_dropped(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find stop tokens that were sampled, or evidently belong to the action, and are not trained."""
    sampled = _recorded_behind(batch, seen, 0.9 if seen.stops is None else 0.5)
    if seen.stops is None:
        if sampled is not None:
            yield _dropped("warning", int(sampled.sum()), seen, "a recorded log-probability behind the last trained token", sampled)
        return
    behind, inside, runs = int(seen.stops.behind.sum()), int(seen.stops.inside.sum()), int(seen.mask.runs.sum())
    if behind == 0:
        return
    dropped = _behind(batch)
    if sampled is not None and bool((sampled & dropped).any()):
        yield _dropped(
            "error", int((sampled & dropped).sum()), seen, "a recorded log-probability at the stop token", sampled & dropped
        )
        return
    real = dropped & _exists(batch, seen)
    known = int(real.sum())
    if known and known >= 0.5 * runs and inside == 0:
        yield _dropped("warning", known, seen, "no action of the batch trains a stop token", real)
    else:
        yield _dropped("info", behind, seen, "some actions train theirs; these may be padding or the harness's own", dropped)


def _dropped(severity: Severity, total: int, seen: Seen, why: str, where: Tensor) -> Finding:
    return Finding(
        "stop_tokens_dropped",
        severity,
        f"the stop token behind {some(total, int(seen.mask.runs.sum()), 'action')} is not trained: {why}",
        {"positions": places(where)},
        _CAUSE,
        _FIX,
    )


def _behind(batch: Batch) -> Tensor:
    """Stop tokens right behind a run that does not end with one."""
    assert batch.input_ids is not None
    assert batch.stop_ids is not None
    stop = batch.input_ids == batch.stop_ids[0]
    for token in batch.stop_ids[1:]:
        stop |= batch.input_ids == token
    behind = stop.new_zeros(stop.shape)
    behind[:, 1:] = batch.ends[:, :-1] & stop[:, 1:] & ~stop[:, :-1]
    return behind


def _exists(batch: Batch, seen: Seen) -> Tensor:
    """Positions that are known not to be padding, of rows that are not known to be cut."""
    assert batch.input_ids is not None
    if batch.valid_mask is not None:
        exists = batch.valid_mask.clone()
    elif batch.roles is not None:
        exists = batch.roles != _code(batch, "padding")
    else:  # before the row's last trained token there is no padding on the right
        last = batch.mask.new_tensor(seen.mask.last, dtype=batch.input_ids.dtype)
        exists = batch.mask.new_ones(batch.mask.shape).cumsum(1) - 1 <= last[:, None]
    if batch.truncated is not None:
        exists &= ~batch.truncated[:, None]
    return exists


def _code(batch: Batch, role: str) -> int:
    return batch.role_names.index(role) if role in batch.role_names else -1


def _recorded_behind(batch: Batch, seen: Seen, share: float) -> Tensor | None:
    """Positions right behind a run that hold a recorded log-probability; None unless these are all that the mask misses."""
    overlap = seen.scored
    if overlap is None or batch.old_logprobs is None:
        return None
    missed, runs = int(overlap.missed.sum()), int(seen.mask.runs.sum())
    if missed == 0 or missed > runs or overlap.outside.sum() > missed:
        return None
    behind = batch.mask.new_zeros(batch.mask.shape)
    behind[:, 1:] = batch.ends[:, :-1] & (batch.old_logprobs[:, 1:] < 0)
    return behind if int(behind.sum()) >= 0.9 * missed and missed >= share * runs else None


def trained_after_stop(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find actions in which a token after the stop token is trained."""
    assert seen.stops is not None
    early, runs = int(seen.stops.early.sum()), int(seen.mask.runs.sum())
    if early == 0 or early < 0.8 * runs or early < 2:
        return
    yield Finding(
        "trained_after_stop",
        "warning",
        f"{some(early, runs, 'action')} ends one token behind its stop token",
        {"rows": [int(row) for row in np.flatnonzero(seen.stops.early)[:8]]},
        "the mask stands one position too far to the right, or the template's glue after the reply is trained",
        "end the mask at the stop token; what the template writes behind it is context",
    )


CHECKS = (
    Check(("stop_tokens_dropped",), ("input_ids or old_logprobs", "stop_ids or old_logprobs"), stop_tokens_dropped),
    Check(("trained_after_stop",), ("input_ids", "stop_ids"), trained_after_stop),
)
