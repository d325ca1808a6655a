"""A batch: continuations in one block of cache rows, sampled together by one thread.

`prompts → prefill (what is equal is computed once) → (choose → forward)* until all have stopped`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rosellm.roserlhf.engine.choice import choose
from rosellm.roserlhf.engine.llama import LlamaStep
from rosellm.roserlhf.engine.protocol import Request
from rosellm.roserlhf.engine.rows import Block, Row
from rosellm.roserlhf.engine.streams import uniforms

_SHARED = 16
"""A beginning that several prompts have in common is computed once if it is at least this long."""
_PIECE, _TOKENS = 512, 4096
"""Prompt tokens of one row, and of all rows together, in one forward pass: what bounds its memory."""


@dataclass(eq=False)
class Continuation:
    """One request while it is sampled."""

    request: Request
    row: Row
    budget: int
    sampled: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    supports: list[tuple[int, ...] | None] = field(default_factory=list)
    stop_reason: str | None = None
    draws: NDArray[np.float64] = field(init=False)
    """One uniform number for each token that may be sampled."""

    def __post_init__(self) -> None:
        self.draws = uniforms(self.request.stream, self.budget)

    @property
    def draw(self) -> float:
        """The number that decides the next token; one that has stopped but still stands in the batch has any."""
        return float(self.draws[min(len(self.sampled), self.budget - 1)])

    @property
    def ids(self) -> tuple[int, ...]:
        """Prompt and sampled ids whose keys and values are cached: the last sampled one was never fed."""
        return self.request.prompt_ids + tuple(self.sampled[:-1])

    def accept(self, token: int, logprob: float, support: tuple[int, ...] | None) -> None:
        """Append a token."""
        self.sampled.append(token)
        self.logprobs.append(logprob)
        self.supports.append(support)
        if token in self.request.sampling.stop_ids:
            self.stop_reason = "stop"
        elif len(self.sampled) == self.budget:
            self.stop_reason = "length"


@dataclass(frozen=True)
class Sampler:
    """Samples batches with one set of weights."""

    step: LlamaStep
    positions: int
    """Longest sequence."""
    vocabulary: int
    """Ids below this may be sampled; the others are no tokens."""
    device: torch.device

    @torch.inference_mode()
    def sample(self, block: Block, batch: Sequence[Continuation]) -> None:
        """Sample all continuations, whose rows are in this block, to their ends."""
        current = _in_front(block, batch)
        logits = self._prefill(block, current)
        while True:
            found = choose(logits, [c.request.sampling for c in current], [c.draw for c in current])
            for one, token, logprob, support in zip(current, *found, strict=True):
                if one.stop_reason is None:
                    one.accept(token, logprob, support)
            active = [c for c in current if c.stop_reason is None]
            if not active:
                return
            if 4 * len(active) <= 3 * len(current):  # moving rows costs about as much as computing a quarter of them in vain
                current = _in_front(block, active)
            starts = [len(c.request.prompt_ids) + len(c.sampled) - 1 for c in current]
            logits = self._forward(block, current, [c.sampled[-1:] for c in current], starts)

    def _prefill(self, block: Block, current: Sequence[Continuation]) -> Tensor:
        """Compute what is new in each prompt and return the logits behind it; equal prompts without a past are computed once."""
        first: dict[tuple[int, ...], Continuation] = {}
        for one in current:
            if not one.row.ids:
                first.setdefault(one.request.prompt_ids, one)
        known = {one: len(one.row.ids) for one in current if one.row.ids} | self._prefill_shared(block, list(first.values()))
        logits = self._prefill_rest(block, known)
        for one in current:
            leader = first.get(one.request.prompt_ids, one) if not one.row.ids else one
            if leader is not one:
                block.cache.copy(leader.row.index, [one.row.index], 0, len(one.request.prompt_ids))
                logits[one] = logits[leader]
        return torch.stack([logits[one] for one in current])

    def _prefill_shared(self, block: Block, leaders: Sequence[Continuation]) -> dict[Continuation, int]:
        """Compute the beginning that all these prompts have in common, and say how much of each is known now."""
        if len(leaders) < 2:
            return dict.fromkeys(leaders, 0)
        low, high = (edge(c.request.prompt_ids for c in leaders) for edge in (min, max))
        common = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
        common = min(common, min(len(c.request.prompt_ids) for c in leaders) - 1)  # a last token is left to compute for everyone
        if common < _SHARED:
            return dict.fromkeys(leaders, 0)
        one, *others = leaders
        for start in range(0, common, _PIECE):
            self._forward(block, [one], [one.request.prompt_ids[start : min(start + _PIECE, common)]], [start])
        block.cache.copy(one.row.index, [c.row.index for c in others], 0, common)
        return dict.fromkeys(leaders, common)

    def _prefill_rest(self, block: Block, known: dict[Continuation, int]) -> dict[Continuation, Tensor]:
        """Run prompts from what is known of them to their ends, those with similar lengths together: none pads all the others."""
        logits: dict[Continuation, Tensor] = {}
        while known:
            pieces = {one: one.request.prompt_ids[start : start + _PIECE] for one, start in known.items()}
            buckets: dict[int, list[Continuation]] = {}
            for one, ids in pieces.items():
                buckets.setdefault(len(ids).bit_length(), []).append(one)
            for members in buckets.values():
                rows = max(1, _TOKENS // max(len(pieces[one]) for one in members))
                for part in (sorted(members, key=_place)[i : i + rows] for i in range(0, len(members), rows)):
                    found = self._forward(block, part, [pieces[one] for one in part], [known[one] for one in part])
                    logits |= zip(part, found, strict=True)
            known = {c: start + _PIECE for c, start in known.items() if start + _PIECE < len(c.request.prompt_ids)}
        return logits

    def _forward(
        self, block: Block, current: Sequence[Continuation], fresh: Sequence[Sequence[int]], starts: Sequence[int]
    ) -> Tensor:
        device, end = self.device, self.positions - 1
        width = max(len(ids) for ids in fresh)
        padded = torch.tensor([[*ids, *([0] * (width - len(ids)))] for ids in fresh], device=device)
        # a padded token lands after its row's last real one, at a place that the next real token overwrites before it is read
        positions = torch.tensor([[min(start + i, end) for i in range(width)] for start in starts], device=device)
        last = torch.tensor([len(ids) - 1 for ids in fresh], device=device)
        span = min(max(starts) + width, end + 1)
        rows = [c.row.index for c in current]
        return self.step.forward(padded, positions, rows, block.cache, last, span=span)[:, : self.vocabulary]


def _place(one: Continuation) -> int:
    return one.row.index


def _in_front(block: Block, batch: Sequence[Continuation]) -> list[Continuation]:
    """Move the rows of a batch to the front of their block, and sort it by them."""
    block.bring_forward([one.row for one in batch])
    return sorted(batch, key=_place)
