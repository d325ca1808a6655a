"""The seam between rollout and whatever samples: one request per sequence, chunks back, weights published atomically.

`Request → Engine.generate → Chunk, Chunk, …`; a chunk never mixes two policy versions. No text passes here.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError


@dataclass(frozen=True)
class Sampling:
    """The distribution that is really sampled from."""

    temperature: float = 1.0
    """Divides the logits; 0 means greedy: the largest logit, recorded with the log-probability of temperature 1."""
    max_tokens: int = 32
    """Upper bound of sampled tokens, the stop token included."""
    stop_ids: tuple[int, ...] = ()
    """Sampling ends with the first of these; it is part of what was sampled."""
    top_p: float = 1.0
    """Nucleus: the smallest set of most likely tokens with at least this mass is sampled from; 1 keeps all."""
    top_k: int | None = None
    """Most likely tokens kept, before `top_p`; None keeps all."""

    def __post_init__(self) -> None:
        checks.number_in(self.temperature, "temperature", 0, math.inf, open_high=True)
        checks.number_in(self.top_p, "top_p", 0, 1, open_low=True)
        if self.top_k is not None:
            checks.number_in(self.top_k, "top_k", 1, math.inf)
        if not isinstance(self.max_tokens, int):
            raise checks.fail(DtypeError, "max_tokens", "be an integer", self.max_tokens)
        checks.number_in(self.max_tokens, "max_tokens", 1, math.inf)


@dataclass(frozen=True)
class Request:
    """One sequence to continue."""

    prompt_ids: tuple[int, ...]
    """Everything before the first token to sample, exactly as the model shall see it."""
    sampling: Sampling
    stream: tuple[int | str, ...]
    """Key of this request's own random stream: the same key draws the same numbers in any batch, order or process."""
    session: str = ""
    """Requests of one session extend each other's ids; an engine may keep their attention cache. Empty = none kept."""


@dataclass(frozen=True)
class Chunk:
    """Tokens sampled by one policy version."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Behaviour log-probability of each token, after temperature and truncation, float32 values."""
    version: str
    """The policy version whose weights made every token of this chunk."""
    stop_reason: str | None
    """`stop` (a stop id), `length` (max_tokens or context), or None when more chunks follow."""
    support: tuple[tuple[int, ...] | None, ...] | None = None
    """Per token, the ids that truncation kept, the sampled one among them, None for all; None if nothing was truncated."""


@dataclass(frozen=True)
class PolicyHandle:
    """Weights to publish under a new version."""

    version: str
    tensors: dict[str, Tensor]


@dataclass(frozen=True)
class Ack:
    """The engine's word that requests started from now on are sampled by `version`."""

    version: str


class Engine(Protocol):
    """Samples continuations; cancel by closing the iterator."""

    def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Sample one continuation."""
        ...

    async def publish(self, policy: PolicyHandle) -> Ack:
        """Replace the weights: atomically, between two chunks."""
        ...
