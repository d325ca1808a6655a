"""Parts of a row of tokens: context that was not sampled here, and the policy versions that sampled the rest."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.record import plain

PrefixCache = Literal["recomputed", "stale"]
"""Whether the key-value cache under a span was recomputed by the span's version, or left over from an older one."""

_set = object.__setattr__


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Context ids that were not sampled here: a message of the prompt or of an observation, its glue included.

    An empty span says "recorded, and there was nothing", where `()` says "not recorded".
    """

    token_ids: Sequence[int]
    """Exact ids, scaffold and generation prompt included."""
    role: str
    """`system`, `user`, `tool`, `assistant`, ... as the template names it."""
    content_mask: Sequence[bool] | None = None
    """Per id: True for body, False for scaffold; None when all of it is body."""
    policy: bool = False
    """True when a policy sampled these ids in another record; here they are still context, mask 0."""
    images: Sequence[str] = ()
    """References to the images these ids stand for, kept opaque."""
    _packed: array[int] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ids = plain.token_ids(self.token_ids, "token_ids")
        _set(self, "token_ids", ids)
        _set(self, "_packed", plain.packed(ids))
        plain.name(self.role, "role")
        plain.flag(self.policy, "policy")
        if self.content_mask is not None:
            mask = plain.sequence(self.content_mask, "content_mask")
            if len(mask) != len(self.token_ids) or not {*mask} <= {True, False}:
                raise fail(RecordError, "content_mask", f"hold {len(self.token_ids)} booleans", plain.shown(mask))
            _set(self, "content_mask", tuple(map(bool, mask)))
        _set(self, "images", plain.records(self.images, "images", str))

    @property
    def packed_ids(self) -> array[int] | None:
        """The ids as machine integers, as narrow as they can be (`plain.packed`); None if one is ≥ 2**63."""
        return self._packed


@dataclass(frozen=True, slots=True)
class CopySpan:
    """Context ids that stand in another record: positions [start, end) of its own row (prompt, action, observation, ...)."""

    record_id: str
    """The record that stores the ids."""
    start: int
    """First position."""
    end: int
    """Position after the last."""

    def __post_init__(self) -> None:
        plain.name(self.record_id, "record_id")
        _set(self, "start", plain.natural(self.start, "start"))
        _set(self, "end", plain.natural(self.end, "end"))
        if self.end < self.start:
            raise fail(RecordError, "end", f"be ≥ start {self.start}", self.end)


@dataclass(frozen=True, slots=True)
class VersionSpan:
    """Positions [start, end) of an action's ids that one policy version sampled."""

    start: int
    """First position."""
    end: int
    """Position after the last."""
    version: str
    """Policy version, an opaque string; the run's policy table orders versions."""
    prefix_cache: PrefixCache = "recomputed"
    """`stale` when keys and values of an older version stood under these tokens: excluded from training by default."""

    def __post_init__(self) -> None:
        _set(self, "start", plain.natural(self.start, "start"))
        _set(self, "end", plain.natural(self.end, "end"))
        plain.name(self.version, "version")
        if self.end <= self.start:
            raise fail(RecordError, "end", f"be > start {self.start}", self.end)
        if self.prefix_cache not in ("recomputed", "stale"):
            plain.one_of(self.prefix_cache, "prefix_cache", PrefixCache)


@dataclass(frozen=True, slots=True)
class SamplingParameters:
    """The distribution that was sampled from; the recorded log-probabilities are of *this* distribution."""

    temperature: float = 1.0
    """Divides the logits; 0 is greedy."""
    top_p: float = 1.0
    """Nucleus mass kept; 1 keeps all."""
    top_k: int | None = None
    """Most likely tokens kept; None keeps all."""
    min_p: float = 0.0
    """Tokens below this share of the largest probability are dropped."""
    max_tokens: int | None = None
    """Budget of the turn."""
    seed_key: Sequence[int | str] | None = None
    """Key of the random stream: seed, purpose, step, task, member, turn."""

    def __post_init__(self) -> None:
        _set(self, "temperature", plain.real(self.temperature, "temperature"))
        _set(self, "top_p", plain.real(self.top_p, "top_p"))
        _set(self, "min_p", plain.real(self.min_p, "min_p"))
        if self.temperature < 0:
            raise fail(RecordError, "temperature", "be ≥ 0", self.temperature)
        if not 0 < self.top_p <= 1:
            raise fail(RecordError, "top_p", "be in (0, 1]", self.top_p)
        if not 0 <= self.min_p <= 1:
            raise fail(RecordError, "min_p", "be in [0, 1]", self.min_p)
        for name in ("top_k", "max_tokens"):
            value = getattr(self, name)
            if value is not None and plain.natural(value, name) == 0:
                raise fail(RecordError, name, "be ≥ 1 or None", value)
        if self.seed_key is not None:
            key = plain.sequence(self.seed_key, "seed_key")
            parts = (p if isinstance(p, str) else plain.integer(p, f"seed_key[{i}]") for i, p in enumerate(key))
            _set(self, "seed_key", tuple(parts))
