r"""Checks of the critic: does value t belong to token t?

At neighbouring actions :math:`A_t - \gamma\lambda A_{t+1} = r_t + \gamma V_{t+1} - V_t` holds for generalized advantages. The
identity is local, so it is tested without the recursion, and it survives whitening as a straight line. If it holds with the values
moved by one position and not as they stand, the critic is off by one.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rosellm.roserlhf.audit.check import Check, Seen
from rosellm.roserlhf.audit.findings import Finding
from rosellm.roserlhf.audit.inputs import Batch

_EXACT, _OFF = 0.9999, 0.999
_FEWEST = 8


def critic_shifted(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find values that fit advantages or returns when they are moved by one position."""
    assert batch.values is not None
    fits = _by_advantages(batch) if _has_recursion(batch) else _by_returns(batch) if batch.returns is not None else None
    if fits is None or fits[0] > _OFF:
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


def _has_recursion(batch: Batch) -> bool:
    per_token = batch.given("advantages per token") and batch.given("rewards per token")
    return per_token and batch.gamma is not None and batch.gae_lambda is not None


def _by_advantages(batch: Batch) -> dict[int, float] | None:
    """Correlation of both sides of the identity, with the values as they stand and moved by one."""
    advantages, rewards, values = batch.advantages, batch.rewards, batch.values
    assert advantages is not None
    assert rewards is not None
    assert values is not None
    assert batch.gamma is not None
    assert batch.gae_lambda is not None
    inner = batch.mask[:, 1:-2] & batch.mask[:, :-3] & batch.mask[:, 2:-1] & batch.mask[:, 3:]  # t-1, t, t+1 and t+2 are actions
    if int(inner.sum()) < _FEWEST:
        return None
    left = (advantages[:, 1:-2] - batch.gamma * batch.gae_lambda * advantages[:, 2:-1])[inner].double()
    width = batch.width
    fits: dict[int, float] = {}
    for move in (-1, 0, 1):
        now, following = values[:, 1 + move : width - 2 + move], values[:, 2 + move : width - 1 + move]
        right = (rewards[:, 1:-2] + batch.gamma * following - now)[inner].double()
        fits[move] = _correlation(left, right)
    return fits


def _by_returns(batch: Batch) -> dict[int, float] | None:
    """Correlation of values and returns, and of advantages with their difference where they are given."""
    assert batch.values is not None
    assert batch.returns is not None
    if batch.returns.ndim != 2:
        return None
    inner = batch.mask[:, :-2] & batch.mask[:, 1:-1] & batch.mask[:, 2:]
    if int(inner.sum()) < _FEWEST:
        return None
    returns, width = batch.returns[:, 1:-1][inner].double(), batch.width
    advantages = (
        batch.advantages[:, 1:-1][inner].double() if batch.given("advantages per token") and batch.advantages is not None else None
    )
    fits: dict[int, float] = {}
    for move in (-1, 0, 1):
        values = batch.values[:, 1 + move : width - 1 + move][inner].double()
        fits[move] = _correlation(returns, values) if advantages is None else _correlation(advantages, returns - values)
    return fits


def _correlation(a: Tensor, b: Tensor) -> float:
    """Correlation of the finite pairs; 0 if one of them does not vary."""
    good = a.isfinite() & b.isfinite()
    a, b = a[good], b[good]
    if len(a) < _FEWEST or float(a.std()) < 1e-9 or float(b.std()) < 1e-9:
        return 0.0
    return float(torch.corrcoef(torch.stack([a, b]))[0, 1])


CHECKS = (Check(("critic_shifted",), ("values", "returns or advantages per token"), critic_shifted),)
