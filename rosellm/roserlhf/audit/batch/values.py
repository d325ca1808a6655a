r"""Checks of the critic: does value t belong to token t?

At neighbouring actions :math:`A_t - \gamma\lambda A_{t+1} = r_t + \gamma V_{t+1} - V_t` holds for generalized advantages. The
identity is local, so it is tested without the recursion, and it survives whitening as a straight line. If it holds with the values
moved by one position and not as they stand, the critic is off by one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from rosellm.roserlhf.audit.batch.check import CannotTellError, Check, Seen
from rosellm.roserlhf.audit.batch.inputs import Batch
from rosellm.roserlhf.audit.batch.runs import Array
from rosellm.roserlhf.audit.findings import Finding

_EXACT, _OFF = 0.9999, 0.999
_FEWEST = 8
_SAMPLE, _SURE, _FAR = 4096, 0.9995, 0.99
"""Trained tokens of which a sample is taken first, and what must hold in it for the batch to be in order."""


def critic_shifted(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find values that fit advantages or returns when they are moved by one position."""
    assert batch.values is not None
    fits_of = _by_advantages if batch.given(_RECURSION) else _by_returns
    step = int(seen.mask.trained.sum()) // _SAMPLE
    if step > 1 and _in_order(fits_of(batch, slice(None, None, step))):
        return
    fits = fits_of(batch, slice(None))
    if fits is None:
        raise CannotTellError(f"needs {_FEWEST} actions of several tokens, and returns per token")
    if fits[0] > _OFF:
        return
    move = 1 if fits[1] > fits[-1] else -1
    if fits[move] < _EXACT:
        return
    yield Finding(
        "critic_shifted",
        "error",
        f"values fit when value t is taken from position t{move:+d} (correlation {fits[move]:.5f}, as they stand {fits[0]:.3f})",
        {"as they stand": fits[0], "from t+1": fits[1], "from t-1": fits[-1]},
        "one of values and returns was sliced for next-token prediction and the other was not",
        "value t is of the state before token t was sampled: slice values like logits, [:, :-1] against ids [:, 1:]",
    )


def _in_order(fits: dict[int, float] | None) -> bool:
    """Whether some of the rows settle it: the values fit as they stand, or are far from fitting either way."""
    return fits is not None and (fits[0] > _SURE or max(fits[-1], fits[1]) < _FAR)


def _by_advantages(batch: Batch, rows: slice) -> dict[int, float] | None:
    """Correlation of both sides of the identity, with the values as they stand and moved by one."""
    assert batch.gamma is not None
    assert batch.gae_lambda is not None
    mask = _host(batch.mask, rows)
    inner = mask[:, 1:-2] & mask[:, :-3] & mask[:, 2:-1] & mask[:, 3:]  # t-1, t, t+1 and t+2 are actions
    if inner.sum() < _FEWEST:
        return None
    advantages, rewards, values = (_host(given, rows) for given in (batch.advantages, batch.rewards, batch.values))
    left = _wide(advantages[:, 1:-2], inner) - batch.gamma * batch.gae_lambda * _wide(advantages[:, 2:-1], inner)
    reward, width = _wide(rewards[:, 1:-2], inner), batch.width
    fits: dict[int, float] = {}
    for move in (-1, 0, 1):
        now, following = values[:, 1 + move : width - 2 + move], values[:, 2 + move : width - 1 + move]
        fits[move] = _correlation(left, reward + batch.gamma * _wide(following, inner) - _wide(now, inner))
    return fits


def _by_returns(batch: Batch, rows: slice) -> dict[int, float] | None:
    """Correlation of values and returns, and of advantages with their difference where they are given."""
    assert batch.returns is not None
    if batch.returns.ndim != 2:
        return None
    mask = _host(batch.mask, rows)
    inner = mask[:, :-2] & mask[:, 1:-1] & mask[:, 2:]
    if inner.sum() < _FEWEST:
        return None
    returns, values, width = _wide(_host(batch.returns, rows)[:, 1:-1], inner), _host(batch.values, rows), batch.width
    advantages = _wide(_host(batch.advantages, rows)[:, 1:-1], inner) if batch.given("advantages per token") else None
    fits: dict[int, float] = {}
    for move in (-1, 0, 1):
        moved = _wide(values[:, 1 + move : width - 1 + move], inner)
        fits[move] = _correlation(returns, moved) if advantages is None else _correlation(advantages, returns - moved)
    return fits


def _host(given: Tensor | None, rows: slice) -> Array:
    assert given is not None
    return np.asarray(given[rows].cpu().numpy())


def _wide(values: Array, where: Array) -> Array:
    return values[where].astype(np.float64)


def _correlation(a: Array, b: Array) -> float:
    """Correlation of the finite pairs; 0 if one of them does not vary."""
    good = np.isfinite(a) & np.isfinite(b)
    a, b = a[good], b[good]
    if len(a) < _FEWEST:
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    aa, bb = float(a @ a), float(b @ b)
    return 0.0 if min(aa, bb) < 1e-18 * len(a) else float(a @ b) / (aa * bb) ** 0.5


_RECURSION = "advantages per token with rewards per token with gamma with gae_lambda"

CHECKS = (Check(("critic_shifted",), ("values", f"returns or {_RECURSION}"), critic_shifted),)
