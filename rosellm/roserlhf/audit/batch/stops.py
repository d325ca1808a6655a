"""Checks of the token that ends an action: the policy sampled it, so it is trained, and nothing after it is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from rosellm.roserlhf.audit.batch.check import Check, Seen, pairs, some
from rosellm.roserlhf.audit.batch.inputs import Batch
from rosellm.roserlhf.audit.batch.runs import Array
from rosellm.roserlhf.audit.findings import Finding, Severity

_CAUSE = "the end-of-sequence token was taken for padding (same id), or the mask was cut at the text without it"
_FIX = "include the sampled stop token in the mask: a policy that is never trained to stop forgets how to end its turn"


def stop_tokens_dropped(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find stop tokens that were sampled, or evidently belong to the action, and are not trained."""
    sampled = _recorded_behind(batch, seen, 0.9 if seen.stops is None else 0.5)
    if seen.stops is None:
        if sampled is not None:
            yield _dropped(batch, "warning", "a recorded log-probability behind the last trained token", sampled)
        return
    if not seen.stops.behind.any():
        return
    dropped = _behind(batch)
    if sampled is not None and (sampled & dropped).any():
        yield _dropped(batch, "error", "a recorded log-probability at the stop token", sampled & dropped)
        return
    real = dropped & _exists(batch, seen)
    if real.any() and real.sum() >= 0.5 * len(real) and not seen.stops.inside.any():
        yield _dropped(batch, "warning", "no action of the batch trains a stop token", real)
    else:
        yield _dropped(batch, "info", "some actions train theirs; these may be padding or the harness's own", dropped)


def _dropped(batch: Batch, severity: Severity, why: str, which: Array) -> Finding:
    runs = batch.runs
    return Finding(
        "stop_tokens_dropped",
        severity,
        f"the stop token behind {some(int(which.sum()), len(which), 'action')} is not trained: {why}",
        {"positions": pairs(runs.row[which], runs.last[which] + 1)},
        _CAUSE,
        _FIX,
    )


def _after(batch: Batch, values: Tensor) -> Array:
    """Entries right behind each run; of its last token if it ends with the row."""
    return batch.at(values, batch.runs.row, np.minimum(batch.runs.last + 1, batch.width - 1))


def _behind(batch: Batch) -> Array:
    """Runs right behind which a stop token stands though they do not end with one."""
    assert batch.input_ids is not None
    assert batch.stop_ids is not None
    runs = batch.runs
    ends, follows = batch.at(batch.input_ids, runs.row, runs.last), _after(batch, batch.input_ids)
    return np.isin(follows, batch.stop_ids) & ~np.isin(ends, batch.stop_ids)


def _exists(batch: Batch, seen: Seen) -> Array:
    """Runs that are known not to be followed by padding, of rows that are not known to be cut."""
    runs = batch.runs
    if batch.valid_mask is not None:
        exists = _after(batch, batch.valid_mask)
    elif batch.roles is not None:
        exists = _after(batch, batch.roles) != _code(batch, "padding")
    else:  # before the row's last trained token there is no padding on the right
        exists = runs.last < seen.mask.last[runs.row]
    return exists if seen.truncated is None else exists & ~seen.truncated[runs.row]


def _code(batch: Batch, role: str) -> int:
    return batch.role_names.index(role) if role in batch.role_names else -1


def _recorded_behind(batch: Batch, seen: Seen, share: float) -> Array | None:
    """Runs right behind which a log-probability was recorded; None unless these are all that the mask misses."""
    overlap = seen.scored
    if overlap is None or batch.old_logprobs is None:
        return None
    missed, runs = int(overlap.missed.sum()), int(seen.mask.runs.sum())
    if missed == 0 or missed > runs or overlap.outside.sum() > missed:
        return None
    behind = (_after(batch, batch.old_logprobs) < 0) & (batch.runs.last < batch.width - 1)
    return behind if behind.sum() >= 0.9 * missed and missed >= share * runs else None


def trained_after_stop(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find actions in which a token after the stop token is trained."""
    assert seen.stops is not None
    early, runs = int(seen.stops.early.sum()), int(seen.mask.runs.sum())
    if early == 0 or early < 0.8 * runs or early < 2:
        return
    yield Finding(
        "trained_after_stop",
        "warning",
        f"a token behind the stop token is trained in {some(early, runs, 'action')}",
        {"rows": [int(row) for row in np.flatnonzero(seen.stops.early)[:8]]},
        "the mask stands one position too far to the right, or the template's glue after the reply is trained",
        "end the mask at the stop token; what the template writes behind it is context",
    )


CHECKS = (
    Check(("stop_tokens_dropped",), ("input_ids with stop_ids or old_logprobs",), stop_tokens_dropped),
    Check(("trained_after_stop",), ("input_ids", "stop_ids"), trained_after_stop),
)
