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


def kl_charged(rewards: Rows, behaviour: Rows, reference: Rows, mask: Mask, coefficient: float, estimator: str) -> Rows:
    """r - beta k on the tokens that were sampled."""
    charged = [list(row) for row in rewards]
    for i, row in enumerate(mask):
        for t, live in enumerate(row):
            if live:
                charged[i][t] -= coefficient * kl_value(behaviour[i][t] - reference[i][t], estimator)
    return charged


def kl_exact(logits: list[float], reference: list[float], temperature: float, support: list[int]) -> float:
    """Sum of pi (log pi - log ref) over the support."""

    def distribution(scores: list[float]) -> list[float]:
        mass = [math.exp(s / temperature) if kept else 0.0 for s, kept in zip(scores, support, strict=True)]
        return [m / sum(mass) for m in mass]

    pairs = zip(distribution(logits), distribution(reference), strict=True)
    return sum(p * (math.log(p) - math.log(q)) for p, q in pairs if p > 0)


def corrected(
    log_ratios: Rows,
    mask: Mask,
    *,
    level: str,
    action: str,
    low: float,
    high: float,
    closed: bool = True,
    filter_only: bool = False,
    segments: list[list[int]] | None = None,
) -> tuple[Rows, Mask, list[float]]:
    """Weight and verdict of each token, and the ratio of every unit of the level that has a live token."""
    weights = [[0.0] * len(row) for row in mask]
    keep = [[0] * len(row) for row in mask]
    ratios = []
    for i, row in enumerate(mask):
        for unit in _units(row, level, None if segments is None else segments[i]):
            logs = [log_ratios[i][t] for t in unit]
            ratio = math.exp(sum(logs) if level == "product_sequence" else sum(logs) / len(logs))
            ratios.append(ratio)
            inside = low <= ratio <= high if closed else low < ratio < high
            for t in unit:
                if action == "truncate":
                    weights[i][t], keep[i][t] = min(max(ratio, low), high), 1
                elif inside:
                    weights[i][t], keep[i][t] = 1.0 if filter_only else ratio, 1
    return weights, keep, ratios


def _units(row: list[int], level: str, ids: list[int] | None) -> list[list[int]]:
    live = [t for t, m in enumerate(row) if m]
    if level == "token":
        return [[t] for t in live]
    if level != "segment":
        return [live] if live else []
    units: dict[int, list[int]] = {}
    run = 0
    for t, m in enumerate(row):
        if m:
            units.setdefault(run if ids is None else ids[t], []).append(t)
        else:
            run += 1
    return list(units.values())


def off_policy_masked(current: Rows, behaviour: Rows, advantages: Rows, mask: Mask, delta: float) -> Mask:
    """Keep all but the tokens with A < 0 of rows whose mean log(behaviour / current) is above delta."""
    keep = [list(row) for row in mask]
    for i, row in enumerate(mask):
        live = [t for t, m in enumerate(row) if m]
        drift = sum(behaviour[i][t] - current[i][t] for t in live) / max(len(live), 1)
        for t in live:
            if advantages[i][t] < 0 and drift > delta:
                keep[i][t] = 0
    return keep
