"""From which rewards, over which groups, could these advantages have been made?

An advantage is *relative to a partition* of the members if in every part it is the centred reward times one positive number. That
holds for the mean baseline, for both standard deviations, for leave-one-out and for any epsilon, so no convention has to be known;
a partition that fits while the declared one does not names the mistake.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rosellm.roserlhf.audit.profile import Array

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
    signs: set[int] = set()
    informative = 0
    for part in np.unique(parts[known]):
        chosen = known & (parts == part)
        reward, advantage = rewards[chosen], advantages[chosen]
        if reward.max() == reward.min():
            continue
        centred = reward - reward.mean()
        scale = float(centred @ advantage / (centred @ centred))
        largest = float(np.abs(advantage).max())
        if largest == 0 or np.abs(advantage - scale * centred).max() > _TOLERANCE * largest:
            return None
        signs.add(1 if scale > 0 else -1)
        informative += 1
    return Fit(informative, signs.pop()) if len(signs) == 1 else None


def batch_wide(rewards: Array, advantages: Array) -> Fit | None:
    """Return the fit if the advantages are a straight line in the reward alone: raw, or with one baseline for the whole batch."""
    known = np.isfinite(rewards) & np.isfinite(advantages)
    if not known.any():
        return None
    return relative_to(np.zeros(len(rewards), dtype=int), rewards, advantages - advantages[known].mean())


def chunks(count: int, size: int) -> Array:
    """Partition by position: 0 0 0 1 1 1 …"""
    return np.arange(count) // size


def interleaved(count: int, size: int) -> Array:
    """Partition by position: 0 1 2 0 1 2 …"""
    return np.arange(count) % max(1, count // size)
