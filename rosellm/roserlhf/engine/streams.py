"""Keyed random streams: every draw is a function of its key alone, so batch composition and order cannot change it."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

Key = tuple[int | str, ...]


def seed_of(key: Key) -> int:
    """Return 128 bits derived from a key; parts are tagged by type and length, so `("a", 1)` and `("a1",)` differ."""
    digest = hashlib.blake2b(digest_size=16)
    for part in key:
        text = f"{type(part).__name__}:{part}"
        digest.update(f"{len(text)}:{text}".encode())
    return int.from_bytes(digest.digest(), "little")


def uniforms(key: Key, count: int) -> NDArray[np.float64]:
    """Return the first `count` draws in [0, 1) of the stream `key` (Philox, counter-based)."""
    return np.random.Generator(np.random.Philox(key=seed_of(key))).random(count)
