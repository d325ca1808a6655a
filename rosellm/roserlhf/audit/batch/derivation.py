"""From which rewards, over which groups, could these advantages have been made?

An advantage is *relative to a partition* of the members if in every part it is the centred reward times one positive number. That
holds for the mean baseline, for both standard deviations, for leave-one-out and for any epsilon, so no convention has to be known;
a partition that fits while the declared one does not names the mistake.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rosellm.roserlhf.audit.batch.runs import Array

_TOLERANCE = 2e-3


@dataclass(frozen=True)
class Fit:
    """How advantages relate to rewards under one partition."""

    parts: int
    """Parts with different rewards, which alone can tell anything."""
    sign: int
    """1, or -1 if every advantage is negated."""


def relative_to(parts: Array, rewards: Array, advantages: Array) -> Fit | None:
    """Return the fit if the advantages are relative to the partition, or exactly the negative of that; None otherwise.

    Members with a NaN reward or advantage belong to no part. Parts with equal rewards tell nothing here: what advantages they may
    have is judged by `advantage_in_uniform_group`.
    """
    known = np.isfinite(rewards) & np.isfinite(advantages)
    part, rewards, advantages = np.unique(parts[known], return_inverse=True)[1], rewards[known], advantages[known]
    centred = rewards - (np.bincount(part, rewards) / np.bincount(part))[part]
    size = np.bincount(part, centred**2)
    spread = np.bincount(part, rewards**2)
    tells = size > 1e-12 * spread  # the mean of equal rewards may be off by a rounding residue
    if not tells.any():
        return None
    scale = np.bincount(part, centred * advantages)[tells] / size[tells]
    largest = np.zeros(len(size))
    np.maximum.at(largest, part, np.abs(advantages))
    inside = tells[part]
    scales = np.zeros(len(size))
    scales[tells] = scale
    misfit = np.abs(advantages - scales[part] * centred)[inside] > _TOLERANCE * largest[part][inside]
    if misfit.any() or (scale == 0).any() or not ((scale > 0).all() or (scale < 0).all()):
        return None
    return Fit(int(tells.sum()), 1 if scale[0] > 0 else -1)


def batch_wide(rewards: Array, advantages: Array) -> Fit | None:
    """Return the fit if the advantages are a straight line in the reward alone: raw, or with one baseline for the whole batch."""
    known = np.isfinite(rewards) & np.isfinite(advantages)
    if not known.any():
        return None
    if are_raw(rewards, advantages):
        return Fit(1, 1)
    return relative_to(np.zeros(len(rewards), dtype=int), rewards, advantages - advantages[known].mean())


def are_raw(rewards: Array, advantages: Array) -> bool:
    """Whether the advantages are the rewards themselves, wherever both are known."""
    known = np.isfinite(rewards) & np.isfinite(advantages)
    return bool(np.allclose(advantages[known], rewards[known], atol=1e-6))


def chunks(count: int, size: int) -> Array:
    """Partition by position: 0 0 0 1 1 1 …"""
    return np.arange(count) // size


def interleaved(count: int, size: int) -> Array:
    """Partition by position: 0 1 2 0 1 2 …"""
    return np.arange(count) % max(1, count // size)
