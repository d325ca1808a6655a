"""Checks of the mask: is it one, does it cover padding, does it stand one position off, does a row train nothing?

The places where a mask should be are known in two ways: from `roles`, and from behaviour log-probabilities that were recorded for
sampled tokens only (elsewhere 0 or NaN). If the mask is wrong as it stands and right when moved by one, it is shifted. A recorder
that fills in log-probabilities for the whole row says nothing about the mask, and moving it then repairs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from rosellm.roserlhf.audit.batch.check import Check, Seen, places, rows_where, some
from rosellm.roserlhf.audit.batch.flags import below_zero, count, is_one_of
from rosellm.roserlhf.audit.batch.inputs import Batch
from rosellm.roserlhf.audit.batch.profile import OverlapColumns
from rosellm.roserlhf.audit.batch.runs import Array
from rosellm.roserlhf.audit.findings import Finding

_REPAIRED = 0.1
"""A move repairs a row if at most this share of its misplaced tokens remains."""


def mask_values(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find entries that are neither 0 nor 1."""
    if seen.mask.not_binary is None or not seen.mask.not_binary.any():
        return
    raw = batch.raw_mask
    assert raw is not None
    bad = (raw != 0) & (raw != 1)
    yield Finding(
        "mask_values",
        "error",
        f"action_mask holds {int(seen.mask.not_binary.sum())} values other than 0 and 1",
        {"values": raw[bad][:8].tolist(), "positions": places(bad)},
        "another tensor was passed as the mask, advantages or weights for example, or arguments were swapped",
        "pass a boolean tensor [B, T] that is true at the tokens in the loss",
    )


def padding_trained(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find trained tokens that are padding."""
    assert seen.mask.padding is not None
    assert batch.valid_mask is not None
    if not seen.mask.padding.any():
        return
    total = int(seen.mask.padding.sum())
    yield Finding(
        "padding_trained",
        "error",
        f"{total} trained tokens are padding, in {some(int((seen.mask.padding > 0).sum()), batch.rows, 'row')}",
        {"positions": places(batch.mask & ~batch.valid_mask), "share of the mask": total / int(seen.mask.trained.sum())},
        "the mask was made from the padded width, or padding is on the other side than the mask assumes",
        "build the mask from recorded lengths; never from the padded width or by comparing ids with the padding id",
    )


def empty_rows(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find rows that train nothing though nothing says why."""
    empty = seen.mask.trained == 0
    if not empty.any():
        return
    if empty.all():
        yield Finding(
            "empty_rows",
            "error",
            "no row has a trainable token: this step can train nothing",
            {"rows": batch.rows},
            "the mask is all zero: everything was filtered, or the mask was built from the wrong column",
            "make no optimizer step, and find out which filter or mask removed every token",
        )
        return
    unexplained = rows_where(empty & ~_may_be_empty(batch, seen))
    yield Finding(
        "empty_rows",
        "warning" if unexplained else "info",
        f"no trainable token in {some(int(empty.sum()), batch.rows, 'row')}" + ("" if unexplained else ", as declared"),
        {"rows": rows_where(empty), "without a declared reason": unexplained},
        "the response was cut away by the width, the mask was built for another row, or a filter masked the row",
        "leave such rows out of the batch, or declare why they are empty: truncated=, scored=, valid_mask=",
    )


def _may_be_empty(batch: Batch, seen: Seen) -> Array:
    """Rows that a declared reason takes out of the loss: cut, not scored, padding, or without credit."""
    reason = np.zeros(batch.rows, dtype=bool)
    if seen.truncated is not None:
        reason |= seen.truncated
    if seen.scored_rows is not None:
        reason |= ~seen.scored_rows
    if seen.mask.valid is not None:
        reason |= seen.mask.valid == 0
    if seen.reward is not None:
        reason |= np.isnan(seen.reward)
    if seen.advantage is not None and batch.advantages is not None and batch.advantages.ndim == 1:
        reason |= (seen.advantage.total == 0) | np.isnan(seen.advantage.total)
    return reason


def mask_shifted(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find a mask that is right when it is moved by one position."""
    for source, wanted, overlap in _sources(batch, seen):
        for direction, moved in (("right", _moved(batch.mask, wanted, -1)), ("left", _moved(batch.mask, wanted, 1))):
            by = _by_roles if source == "roles" else _by_records
            wrong, repaired = by(overlap, moved, (seen.mask.last == batch.width - 1) & (direction == "right"))
            enough = max(0.7 * (wrong > 0).sum(), 0.25 * (seen.mask.runs > 0).sum(), 1)
            if repaired.sum() >= enough:
                yield _shift(batch, seen, direction, source, repaired)
                return


def _sources(batch: Batch, seen: Seen) -> Iterator[tuple[str, Tensor, OverlapColumns[Array]]]:
    """Where the mask should be, as far as anything contradicts it."""
    if batch.roles is not None and seen.roles is not None and seen.roles.outside.any():
        yield "roles", is_one_of(batch.roles, batch.policy_codes), seen.roles
    if batch.old_logprobs is None or seen.scored is None or batch.reasoning_excluded:
        return
    untrained = batch.rows * batch.width - int(seen.mask.trained.sum())
    if 0 < seen.scored.missed.sum() <= 0.5 * untrained and seen.scored.outside.any():  # recorded for sampled tokens only
        yield "recorded log-probabilities", below_zero(batch.old_logprobs), seen.scored


def _moved(mask: Tensor, wanted: Tensor, by: int) -> OverlapColumns[Array]:
    """The overlap, had the mask stood one position further left (-1) or right (1), rolled round the edge."""
    here = count(mask.roll(by, 1) & wanted)
    return OverlapColumns((count(mask) - here).cpu().numpy(), (count(wanted) - here).cpu().numpy())


def _by_roles(overlap: OverlapColumns[Array], moved: OverlapColumns[Array], _: Array) -> tuple[Array, Array]:
    """Rows that train foreign tokens, and those among them that would not if the mask were moved back."""
    return overlap.outside, (overlap.outside > 0) & (moved.outside <= _REPAIRED * overlap.outside)


def _by_records(overlap: OverlapColumns[Array], moved: OverlapColumns[Array], cut: Array) -> tuple[Array, Array]:
    """Rows that miss a sampled token, and those among them that would not if the mask were moved back.

    Such a mask must also cover something that was not sampled, or else it only leaves a token out; in rows that are `cut` by the
    right edge that surplus token may have fallen off, and then moving back lacks one.
    """
    wrong = np.where(cut & (overlap.outside == 0), 0, overlap.missed)  # else a first token may be left out on purpose
    return wrong, (wrong > 0) & (moved.missed - cut <= _REPAIRED * wrong) & (moved.outside < overlap.outside)


def _shift(batch: Batch, seen: Seen, direction: str, source: str, repaired: Array) -> Finding:
    first = "the first sampled token of each action is not trained and the token after its end is"
    last = "the last sampled token of each action is not trained and the token before its start is"
    return Finding(
        "mask_shifted",
        "error",
        f"action_mask is one position too far {direction} in {some(int(repaired.sum()), batch.rows, 'row')}, by {source}",
        {"direction": direction, "by": source, "rows": rows_where(repaired)[:8], "first trained": seen.mask.first[repaired][:8]},
        f"{first if direction == 'right' else last}: a mask in token space was sliced as if it were in prediction space, or twice",
        "log-probability t belongs to input_ids[:, t]: slice ids, mask and log-probabilities alike ([:, 1:] for logits[:, :-1])",
    )


def untrained_samples(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Note tokens that have a recorded behaviour log-probability and are not trained."""
    overlap = seen.scored
    assert overlap is not None
    untrained = batch.rows * batch.width - int(seen.mask.trained.sum())
    missed = int(overlap.missed.sum())
    if missed == 0 or missed > 0.2 * untrained:
        return  # log-probabilities for the whole row say nothing about what was sampled
    yield Finding(
        "untrained_samples",
        "info",
        f"{missed} tokens have a recorded log-probability and are not trained",
        {"rows": rows_where(overlap.missed)[:8], "tokens": missed},
        "tokens are excluded on purpose, or hidden reasoning or stop tokens were left out of the mask",
        "if it is on purpose, nothing; else pass reasoning_mask= and stop_ids= to find out which tokens they are",
    )


CHECKS = (
    Check(("mask_values",), (), mask_values),
    Check(("padding_trained",), ("valid_mask",), padding_trained),
    Check(("mask_shifted",), ("roles or old_logprobs",), mask_shifted),
    Check(("empty_rows",), (), empty_rows),
    Check(("untrained_samples",), ("old_logprobs",), untrained_samples),
)
