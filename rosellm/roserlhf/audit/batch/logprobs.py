"""Checks of log-probabilities at trained tokens: numbers, not above 0, not a filler, not 16 bits wide, and of tokens that exist.

What stands where the mask is false does not matter: NaN, 0 and real numbers are all right there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from rosellm.roserlhf.audit.batch.check import Check, Seen, places, rows_where, some
from rosellm.roserlhf.audit.batch.inputs import Batch
from rosellm.roserlhf.audit.batch.profile import LogprobColumns
from rosellm.roserlhf.audit.batch.runs import Array
from rosellm.roserlhf.audit.findings import Finding

_ROUNDING = 1e-3
"""How far above 0 a log-probability may lie by rounding."""
_HALF_ROUNDING = 0.1
"""The same if it was made in bfloat16."""
_UNLIKELY = -1.0
"""A token below this log-probability was certainly not sampled with probability 1."""
_FEWEST = 16
_ALL_CERTAIN = 256
"""Trained tokens that no policy was ever certain of, one and all."""


def _kinds(batch: Batch, seen: Seen) -> Iterator[tuple[str, Tensor, LogprobColumns[Array]]]:
    kinds = (("old_logprobs", batch.old_logprobs, seen.old), ("current_logprobs", batch.current_logprobs, seen.current))
    return ((name, values, columns) for name, values, columns in kinds if values is not None and columns is not None)


def logprob_nonfinite(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find NaN and infinity at trained tokens."""
    for name, values, columns in _kinds(batch, seen):
        rows = ~np.isfinite(columns.total)
        if not rows.any():
            continue
        bad = batch.mask & ~values.isfinite()
        nan, total = int((values.isnan() & bad).sum()), int(bad.sum())
        if total == 0:  # finite numbers whose sum overflows
            continue
        infinite = "the token lies outside the support (top-p, top-k, a grammar) of the distribution that scores it"
        yield Finding(
            "logprob_nonfinite",
            "error",
            f"{name} is not finite at {total} trained tokens ({nan} NaN) in {some(int(rows.sum()), batch.rows, 'row')}",
            {"positions": places(bad), "rows": rows_where(rows)[:8]},
            "the engine returned no number for these tokens (None or null became NaN), or the mask covers unscored tokens"
            if nan
            else infinite,
            "find out why it was not scored, or take it out of the mask; never write 0.0, which claims probability 1",
        )


def logprob_positive(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find log-probabilities above 0, which no distribution has."""
    for name, values, columns in _kinds(batch, seen):
        allowed = _HALF_ROUNDING if (columns.highest > _ROUNDING).any() and _is_bf16(batch, seen, values, columns) else _ROUNDING
        if not (columns.highest > allowed).any():
            continue
        bad = batch.mask & (values > allowed)
        chosen = values[batch.mask]
        share, highest = float((chosen > allowed).double().mean()), float(chosen.max())
        if share > 0.5:
            cause = "probabilities were passed" if highest <= 1 else "negative log-likelihoods were passed: the sign is flipped"
        else:
            cause = "another column stands in these places (rewards, advantages, entropies), or a logit that was not normalised"
        yield Finding(
            "logprob_positive",
            "error",
            f"{name} is above 0 at {int(bad.sum())} trained tokens, up to {highest:.4g}",
            {"positions": places(bad), "share": share, "highest": highest},
            cause,
            "pass log-probabilities: log_softmax of the logits, gathered at the token",
        )


def logprob_filler(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find exact zeros that stand for `not recorded`: the current policy finds the token unlikely, or a whole stretch is zero."""
    old, overlap = batch.old_logprobs, seen.scored
    assert old is not None
    assert overlap is not None
    if not overlap.outside.any():  # every trained token has a log-probability below 0
        return
    if seen.ratio is not None and (seen.ratio.lowest >= _UNLIKELY).all():  # what is 0 is nearly certain to both
        return
    zero = batch.mask & (old == 0)
    if batch.current_logprobs is not None and seen.ratio is not None:
        wrong = zero & (batch.current_logprobs < _UNLIKELY)
        if bool(wrong.any()):
            yield _filler(f"{int(wrong.sum())} trained tokens have old_logprobs exactly 0, current below {_UNLIKELY:g}", wrong)
        return
    zeros, trained = zero.sum(1).cpu().numpy(), seen.mask.trained
    if zeros.sum() == trained.sum() >= _ALL_CERTAIN:
        yield _filler(f"old_logprobs is exactly 0 at all {int(trained.sum())} trained tokens", zero)
        return
    rows = (zeros == trained) & (trained >= _FEWEST)
    elsewhere = max(1, int(trained[~rows].sum()))
    share = (int(zeros[~rows].sum()) + 1) / (elsewhere + 1)
    if rows.any() and share < 0.5 and share**_FEWEST < 1e-6:
        what = f"old_logprobs is exactly 0 at every trained token of {some(int(rows.sum()), batch.rows, 'row')}"
        yield _filler(what, zero & torch.as_tensor(rows, device=zero.device)[:, None])


def _filler(what: str, where: Tensor) -> Finding:
    return Finding(
        "logprob_filler",
        "error",
        what,
        {"positions": places(where), "tokens": int(where.sum())},
        "0.0 was filled in for tokens that were not scored or not sampled: tool results, padding, a lost log-probability",
        "leave unscored tokens out of the mask, or fail where the log-probability was lost: 0.0 claims that the token was certain",
    )


def _is_bf16(batch: Batch, seen: Seen, values: Tensor, columns: LogprobColumns[Array]) -> bool:
    if columns.low_bits is None or seen.mask.trained.sum() < _FEWEST or columns.low_bits.any():
        return False
    chosen = batch.trained(values)
    exact = (chosen.view(np.int32) & 0xFFFF) == 0  # bfloat16 is the upper half of float32
    return bool((exact | np.isnan(chosen)).all()) and not np.isinf(chosen).any()


def logprob_bf16(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find log-probabilities that went through bfloat16, and say how wrong a ratio of them may be."""
    for name, values, columns in _kinds(batch, seen):
        if not _is_bf16(batch, seen, values, columns):
            continue
        chosen = batch.trained(values)
        below = chosen[(chosen < -1e-6) & np.isfinite(chosen)]
        if len(below) < _FEWEST or (len(np.unique(below[:1024])) < 4 and len(np.unique(below)) < 4):
            continue  # a few round numbers of a toy are representable by chance
        worst = -float(below.min()) * 2.0**-9
        yield Finding(
            "logprob_bf16",
            "warning",
            f"{name} has bfloat16 precision: each may be off by up to {worst:.3g} nat, a ratio by {np.expm1(worst):.1%}",
            {"tokens": len(below), "lowest": float(below.min()), "error bound": worst},
            "log-softmax was taken in bfloat16, or the numbers were stored in it",
            "upcast the logits to float32 before log_softmax, and store float32",
        )


def token_ids_invalid(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find negative ids at trained tokens."""
    assert seen.lowest_id is not None
    assert batch.input_ids is not None
    if not (seen.lowest_id < 0).any():
        return
    bad = batch.mask & (batch.input_ids < 0)
    if not bool(bad.any()):
        return
    yield Finding(
        "token_ids_invalid",
        "error",
        f"{int(bad.sum())} trained tokens have a negative id",
        {"positions": places(bad), "ids": batch.input_ids[bad][:8].tolist()},
        "labels (with -100 where nothing is trained) were passed as input_ids, or 32-bit ids wrapped",
        "pass the ids that the model was given",
    )


CHECKS = (
    Check(("logprob_nonfinite",), ("old_logprobs or current_logprobs",), logprob_nonfinite),
    Check(("logprob_positive",), ("old_logprobs or current_logprobs",), logprob_positive),
    Check(("logprob_filler",), ("old_logprobs",), logprob_filler),
    Check(("logprob_bf16",), ("old_logprobs or current_logprobs",), logprob_bf16),
    Check(("token_ids_invalid",), ("input_ids",), token_ids_invalid),
)
