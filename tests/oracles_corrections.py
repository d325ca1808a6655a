"""Slow oracles of divergences from a reference and of mismatch corrections: obvious loops over plain Python floats.

One row is one sequence. Nothing here is shared with the package.
"""

from __future__ import annotations

import math

Rows = list[list[float]]
Mask = list[list[int]]


def kl_value(log_ratio: float, estimator: str) -> float:
    """The estimate of KL(pi || ref) from one token with l = log pi - log ref."""
    if estimator == "k1":
        return log_ratio
    if estimator == "k2":
        return log_ratio * log_ratio / 2
    return math.exp(-log_ratio) - 1 + log_ratio


def kl_slope(log_ratio: float, estimator: str) -> float:
    """Its derivative with respect to log pi."""
    if estimator == "k1":
        return 1.0
    if estimator == "k3":
        return 1 - math.exp(-log_ratio)
    return log_ratio


def kl_value_and_slope(log_ratio: float, log_weight: float | None, estimator: str) -> tuple[float, float]:
    """The estimate and its derivative, weighted by pi / pi_behaviour: for k1 and k3 the weight depends on pi, else it is fixed."""
    value, slope = kl_value(log_ratio, estimator), kl_slope(log_ratio, estimator)
    if log_weight is None:
        return value, slope
    weight = math.exp(log_weight)
    return weight * value, weight * (slope + value if estimator in ("k1", "k3") else slope)


def kl_charged(rewards: Rows, behavior: Rows, reference: Rows, mask: Mask, coefficient: float, estimator: str) -> Rows:
    """r - beta k on the tokens that were sampled."""
    charged = [list(row) for row in rewards]
    for i, row in enumerate(mask):
        for t, live in enumerate(row):
            if live:
                charged[i][t] -= coefficient * kl_value(behavior[i][t] - reference[i][t], estimator)
    return charged


def kl_exact(logits: list[float], reference: list[float], temperature: float, support: list[int]) -> float:
    """Sum of pi (log pi - log ref) over the support."""

    def distribution(scores: list[float]) -> list[float]:
        mass = [math.exp(s / temperature) if kept else 0.0 for s, kept in zip(scores, support, strict=True)]
        return [m / sum(mass) for m in mass]

    pairs = zip(distribution(logits), distribution(reference), strict=True)
    return sum(p * (math.log(p) - math.log(q)) for p, q in pairs if p > 0)
