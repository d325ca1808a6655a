r"""Checks of how the two log-probabilities of a token hang together: a forgotten temperature, a forgotten top-p, other tokens.

Let `z = log(p / (1 - p))`. Dividing the logits by T divides `z` by T exactly where two tokens share the mass, and nearly elsewhere:
`z_old - z_current` is then a straight line in `z_current` with slope 1/T - 1, which rounding does not produce.
An update can: it makes the policy sharper, and the older side looks as if it had been sampled hotter. So that direction is no more
than information on data that may be older than the weights.
Dropping the tail (top-p, top-k) divides every kept probability by the kept mass, so the log-ratio lies in [log p, 0] and
`E[exp(current - old)]` is the kept mass instead of 1.
Tokens that were encoded anew show as a few huge log-ratios in a batch that is otherwise at rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from rosellm.roserlhf.audit.batch.check import SHOWN, CannotTellError, Check, Seen, places, some
from rosellm.roserlhf.audit.batch.inputs import Batch
from rosellm.roserlhf.audit.batch.ratios import stale_rows
from rosellm.roserlhf.audit.batch.runs import Array
from rosellm.roserlhf.audit.findings import Finding, Severity

_FEWEST, _MOST = 48, 1024
"""Tokens below which nothing is concluded, and above which no more are looked at."""
_TOO_FEW = f"needs {_FEWEST} trained tokens"
_AT_REST = 0.01
"""Root mean square of the log-ratio below which there is nothing to explain."""
_FIT, _SLOPE = 0.5, 0.08
"""Share of the variance that the straight line must explain, and how far its slope must lie from 1."""
_AS_DECLARED = 0.15
"""Distance of log T from the declared one within which the estimate confirms it."""
_OUTLIER, _QUIET, _OPEN = 1.0, 0.03, -0.05
"""A huge log-ratio; what the median of the others stays below; tokens whose log-probability leaves room for a change."""


@dataclass(frozen=True)
class Pairs:
    """Log-probabilities of some trained tokens, old and current, both finite."""

    old: Array
    current: Array

    @property
    def difference(self) -> Array:
        """The log-ratio."""
        return self.current - self.old


def pairs_of(batch: Batch, seen: Seen) -> Pairs | None:
    """Take a thousand or two of the trained tokens; None: too few, or nothing to explain."""
    assert seen.ratio is not None
    assert batch.old_logprobs is not None
    assert batch.current_logprobs is not None
    finite = np.isfinite(seen.ratio.squares)
    tokens, squares = seen.mask.trained[finite].sum(), seen.ratio.squares[finite].sum()
    if tokens < _FEWEST:
        raise CannotTellError(_TOO_FEW)
    if squares <= tokens * _AT_REST**2:
        return None
    rows = int(np.searchsorted(seen.mask.trained.cumsum(), _MOST)) + 1
    old, current = (batch.trained(values, rows).astype(np.float64) for values in (batch.old_logprobs, batch.current_logprobs))
    good = np.flatnonzero(np.isfinite(old) & np.isfinite(current))
    good = good[:: -(-len(good) // _MOST) or 1]
    return Pairs(old[good], current[good]) if len(good) >= _FEWEST else None


def sampling_mismatch(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find log-ratios that a temperature or a truncation on one side explains."""
    pairs = pairs_of(batch, seen)
    if pairs is None:
        return
    cut = _cut_tail(pairs)
    if cut is not None:
        yield _top_p(batch, seen, pairs, *cut)
        return
    line = _line(pairs)
    if line is not None:
        yield _temperature(batch, seen, *line)


def _temperature(batch: Batch, seen: Seen, slope: float, fit: float, tokens: int) -> Finding:
    declared = "" if batch.temperature is None else f"; the declared temperature is {batch.temperature:g}"
    severity = _temperature_severity(batch, seen, slope)
    return Finding(
        "temperature_mismatch",
        severity,
        f"the log-ratio is a function of the log-probability, as if only old_logprobs had T ≈ {1 / slope:.2f}, or "
        f"only current_logprobs T ≈ {slope:.2f}{declared}",
        {"T of old_logprobs": 1 / slope, "T of current_logprobs": slope, "variance explained": fit, "tokens": tokens},
        "one side divided the logits by the sampling temperature and the other did not"
        + (", or updates since then made the policy sharper" if severity == "info" else ""),
        "divide the logits by the same temperature before log_softmax on both sides: the behaviour distribution is the sampled one"
        + ("; to be sure, look before the first update and pass lag=0, before_update=True" if severity == "info" else ""),
    )


def _temperature_severity(batch: Batch, seen: Seen, slope: float) -> Severity:
    """Fresh data: error. Else information where current is the sharper side, unless T was declared: training sharpens, too."""
    if _severity(batch, seen) == "error":
        return "error"
    declared = abs(math.log(batch.temperature or 1.0))
    confirmed = declared > 0 and abs(abs(math.log(slope)) - declared) < _AS_DECLARED
    return "warning" if slope > 1 or confirmed else "info"


def _line(pairs: Pairs) -> tuple[float, float, int] | None:
    """Slope of the old log-odds in the current ones, and the share of the difference's variance that it explains."""
    clear = (pairs.current < -1e-3) & (pairs.old < -1e-3) & (pairs.current > -6)
    if clear.sum() < _FEWEST:
        return None
    current, old = _log_odds(pairs.current[clear]), _log_odds(pairs.old[clear])
    x, y = current - current.mean(), (old - current) - (old - current).mean()
    xx, xy, yy = float(x @ x), float(x @ y), float(y @ y)
    if min(xx, yy) < 1e-12 * len(x):
        return None
    fit, slope = xy**2 / (xx * yy), 1 + xy / xx
    if fit < _FIT or abs(slope - 1) < _SLOPE or slope <= 0:
        return None
    ranks = float(np.corrcoef(x.argsort().argsort(), y.argsort().argsort())[0, 1])  # no single token makes the line
    return (slope, fit, len(x)) if ranks**2 >= _FIT else None


def _log_odds(logprobs: Array) -> Array:
    return np.asarray(logprobs - np.log(-np.expm1(logprobs)))


def _top_p(batch: Batch, seen: Seen, pairs: Pairs, mass: float, side: str) -> Finding:
    declared = "" if batch.top_p is None else f"; the declared top_p is {batch.top_p:g}"
    other = "current_logprobs" if side == "old_logprobs" else "old_logprobs"
    return Finding(
        "top_p_mismatch",
        _severity(batch, seen),
        f"{side} exceed {other} by up to -log {mass:.2f} and never the other way: the signature of top-p ≈ {mass:.2f}{declared}",
        {"top_p": mass, "renormalised": side, "mean ratio": float(np.exp(pairs.difference).mean()), "tokens": len(pairs.old)},
        f"{side} were renormalised after top-p or top-k (or shifted by a constant) and {other} were not",
        "score under the truncated distribution on both sides: keep the support with the action, or sample with top_p = 1",
    )


def _cut_tail(pairs: Pairs) -> tuple[float, str] | None:
    """Estimate the kept mass and name the side that was renormalised; None: this is not the signature."""
    ordered = np.sort(pairs.difference)
    for log_ratios, confident, side in (
        (ordered, pairs.old > -1e-6, "old_logprobs"),
        (-ordered[::-1], pairs.current > -1e-6, "current_logprobs"),
    ):
        low, high = float(log_ratios[len(ordered) // 200]), float(log_ratios[-1 - len(ordered) // 100])
        one_sided = low <= -0.02 and high <= max(2e-3, -0.1 * low)
        bounded = low > np.log(0.02) and log_ratios[0] > 1.3 * low - 0.02
        if not one_sided or not bounded:
            continue
        near_cut = float((log_ratios < 0.85 * low).mean())
        collapsed = float((confident & (np.abs(pairs.difference) > 1e-3)).mean())
        if near_cut > 0.1 or collapsed > 0.05:
            return float(np.exp(low)), side
    return None


def _severity(batch: Batch, seen: Seen) -> Severity:
    """An error on data that are said to be fresh; else a policy that really became sharper could look like this."""
    stale = stale_rows(batch, seen)
    fresh = batch.before_update is True or (
        seen.lag is not None and stale is not None and not stale.any() and not batch.before_update
    )
    return "error" if fresh and batch.before_update is not False else "warning"


def history_retokenised(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find trained ids that are not the sampled ones: by comparison if `sampled_ids` is given, else by isolated huge log-ratios."""
    if batch.sampled_ids is not None and batch.input_ids is not None:
        yield from _compare_sampled(batch)
        return
    assert seen.ratio is not None
    assert batch.old_logprobs is not None
    assert batch.current_logprobs is not None
    if seen.mask.trained.sum() < _FEWEST:
        raise CannotTellError(_TOO_FEW)
    size = np.maximum(seen.ratio.highest, -seen.ratio.lowest)
    if not (size > _OUTLIER).any():
        return
    old, current = batch.trained(batch.old_logprobs), batch.trained(batch.current_logprobs)
    with np.errstate(invalid="ignore"):  # infinity minus itself
        size = np.abs(current - old)
    outliers = (size > _OUTLIER) & (old != 0) & np.isfinite(size)
    total = int(outliers.sum())
    if total < 3 or total > 0.25 * len(size):
        return
    others = np.nan_to_num(size[~outliers & ((old < _OPEN) | (current < _OPEN))])  # tokens that were certain could not have moved
    if len(others) < max(total, _FEWEST // 4) or (others <= _QUIET).sum() < 0.5 * len(others):
        return
    where = batch.mask.nonzero().cpu().numpy()[outliers]
    yield Finding(
        "history_retokenised",
        "info" if batch.before_update is False else "warning",  # an update, too, moves single tokens far
        f"{total} trained tokens have a log-ratio beyond ±{_OUTLIER:g} while the median of the others is {np.median(others):.2g}",
        {"positions": where[:SHOWN], "share": total / len(size), "rows": len(np.unique(where[:, 0]))},
        "ids of earlier turns were decoded and encoded again, so some log-probabilities belong to tokens that were never sampled",
        "keep the sampled ids and append to them; pass sampled_ids= to see exactly which differ",
    )


def _compare_sampled(batch: Batch) -> Iterator[Finding]:
    assert batch.input_ids is not None
    assert batch.sampled_ids is not None
    if isinstance(batch.sampled_ids, tuple):
        ids, masks = batch.input_ids.cpu(), batch.mask.cpu()
        trained = [tuple(row[mask].tolist()) for row, mask in zip(ids, masks, strict=True)]
        rows = [row for row, (ours, theirs) in enumerate(zip(trained, batch.sampled_ids, strict=True)) if ours != theirs]
        evidence = {
            "rows": rows,
            "first difference": [_first_difference(trained[row], batch.sampled_ids[row]) for row in rows[:8]],
            "lengths": [[len(trained[row]), len(batch.sampled_ids[row])] for row in rows[:8]],
        }
    else:
        differs = batch.mask & (batch.input_ids != batch.sampled_ids)
        rows = torch.unique(differs.nonzero()[:, 0]).tolist()
        evidence = {"rows": rows, "positions": places(differs)}
    if rows:
        yield Finding(
            "history_retokenised",
            "error",
            f"the trained ids of {some(len(rows), batch.rows, 'row')} are not the sampled ones",
            evidence,
            "the reply was decoded and encoded again, or the template rewrote earlier turns: the same text has other ids",
            "train the ids that were sampled; text is never the record of an action",
        )


def _first_difference(ours: tuple[int, ...], theirs: tuple[int, ...]) -> int:
    """Index among the row's trained tokens."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(ours), len(theirs)))


CHECKS = (
    Check(("temperature_mismatch", "top_p_mismatch"), ("old_logprobs", "current_logprobs"), sampling_mismatch),
    Check(("history_retokenised",), ("sampled_ids with input_ids or old_logprobs with current_logprobs",), history_retokenised),
)
