"""Reference cases of other values than the handed ones, computed with NumPy and plain loops from the formulas of the methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Draw = np.random.Generator
Parts = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
"""Inputs, parameters, expected values."""

MADE: list[tuple[str, Callable[[Draw], Parts]]] = []


def makes(method: str) -> Callable[[Callable[[Draw], Parts]], Callable[[Draw], Parts]]:
    """Enter a function that makes a case of a method."""

    def enter(make: Callable[[Draw], Parts]) -> Callable[[Draw], Parts]:
        MADE.append((method, make))
        return make

    return enter


def plain(value: Any) -> Any:
    """What JSON holds."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def deviation(x: Any, std: str) -> float:
    x = np.asarray(x, float)
    return float(x.std(ddof=1 if std == "sample" else 0)) if len(x) > (std == "sample") else 0.0


def scaled(x: Any, std: str, eps: float) -> np.ndarray:
    """Standardised; exactly zero where all are equal."""
    x = np.asarray(x, float)
    return np.zeros_like(x) if x.max() == x.min() else (x - x.mean()) / (deviation(x, std) + eps)


def by_group(x: Any, ids: Any, of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    x, out = np.asarray(x, float), np.zeros(np.shape(x))
    for one in dict.fromkeys(ids):
        rows = [i for i, other in enumerate(ids) if other == one]
        out[rows] = of(x[rows])
    return out


def mask_of(lengths: Any) -> np.ndarray:
    return np.arange(max(lengths)) < np.asarray(lengths)[:, None]


def average(x: np.ndarray, mask: np.ndarray, how: str) -> float:
    x = np.where(mask, x, 0.0)
    if how == "token":
        return float(x.sum() / mask.sum())
    rows = [row.sum() / (n.sum() if how == "seq_token_mean" else 1) for row, n in zip(x, mask, strict=True) if n.any()]
    return float(np.mean(rows))


def token_weights(mask: np.ndarray, how: str) -> Any:
    """What each token's gradient is multiplied with."""
    if how == "token":
        return mask / mask.sum()
    rows = mask.any(1).sum()
    return mask / np.maximum(mask.sum(1, keepdims=True), 1) / rows if how == "seq_token_mean" else mask / rows


def tokens(draw: Draw, n: int = 3, t: int = 5, spread: float = 0.4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Current and old log-probabilities, and a mask whose rows all have a token."""
    old = -draw.exponential(1.0, (n, t)) - 0.05
    mask = draw.random((n, t)) < 0.7
    mask[:, draw.integers(t)] = True
    return old + spread * draw.standard_normal((n, t)), old, mask


def discounted(rewards: Any, gamma: float, after: float = 0.0) -> np.ndarray:
    out, value = np.zeros(len(rewards)), after
    for t in reversed(range(len(rewards))):
        value = rewards[t] + gamma * value
        out[t] = value
    return out
