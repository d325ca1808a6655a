"""An engine in this process: waves of requests, sampled together over one attention cache, by a few single-threaded workers.

```
episode ──generate──▶ waiting list ──▶ wave (everyone who waits) ──▶ batches of rows ──▶ worker threads ──▶ Chunk ──▶ episode
publish ──waits for the wave to end──▶ new weights, new version, empty cache
```
Every request has its own random stream, a batch is computed by one thread, and batches are cut by arrival, so neither the number of
threads nor who else is in the wave changes a draw (float32 rounding of a batch's matrix products depends on its size alone).
"""

from __future__ import annotations

import asyncio
import copy
import math
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.engine.llama import Cache, LlamaStep
from rosellm.roserlhf.engine.protocol import Ack, Chunk, PolicyHandle, Request
from rosellm.roserlhf.engine.streams import uniforms
from rosellm.roserlhf.errors import NonFiniteError, RangeError
from rosellm.roserlhf.models.causal import load_weights

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


@dataclass
class _Row:
    """A cache row and the ids whose keys and values it holds."""

    index: int
    ids: tuple[int, ...] = ()
    session: str = ""
    """Whose row it is; empty if it is lent for one request."""


@dataclass
class _Sequence:
    """One request while it is sampled."""

    request: Request
    row: _Row
    budget: int
    sampled: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    stop_reason: str | None = None
    draws: NDArray[np.float64] = field(init=False)
    """One uniform number for each token that may be sampled."""

    def __post_init__(self) -> None:
        self.draws = uniforms(self.request.stream, self.budget)

    def accept(self, token: int, logprob: float) -> None:
        self.sampled.append(token)
        self.logprobs.append(logprob)
        if token in self.request.sampling.stop_ids:
            self.stop_reason = "stop"
        elif len(self.sampled) == self.budget:
            self.stop_reason = "length"


class LocalEngine:
    """Sample from a Llama-architecture model on this machine.

    Args:
        model: a `transformers` Llama model; its weights are copied, later changes to it are seen only through `publish`.
        version: name of the policy these weights are.
        threads: worker threads; each runs torch single-threaded.
        cache_rows: sessions whose attention cache is kept; more of them cost recomputation, never a different result.
        batch_rows: sequences per forward pass.
    """

    def __init__(
        self, model: LlamaForCausalLM, *, version: str, threads: int = 2, cache_rows: int = 1024, batch_rows: int = 256
    ) -> None:
        for name, count in (("threads", threads), ("cache_rows", cache_rows), ("batch_rows", batch_rows)):
            checks.number_in(count, name, 1, math.inf)
        self._model = copy.deepcopy(model)
        self._step = LlamaStep(model.config)
        self._step.load(self._model)
        self._positions = int(model.config.max_position_embeddings)
        self._cache: Cache = self._step.new_cache(cache_rows, self._positions)
        self._batch_rows, self._cache_rows = batch_rows, cache_rows
        self.forget()
        self._version = version
        self._pending: list[tuple[Request, asyncio.Future[Chunk]]] = []
        self._drainer: asyncio.Task[None] | None = None
        self._busy = asyncio.Lock()
        self._workers = ThreadPoolExecutor(threads, "engine", initializer=torch.set_num_threads, initargs=(1,))

    @property
    def version(self) -> str:
        """The policy version that samples now."""
        return self._version

    async def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Sample one continuation; this engine yields exactly one chunk, since weights change only between waves.

        Raises:
            RangeError: an empty prompt, one that leaves no room for a token, or an id outside the vocabulary.
        """
        if not 0 < len(request.prompt_ids) < self._positions:
            raise checks.fail(RangeError, "prompt_ids", f"hold 1 to {self._positions - 1} tokens", len(request.prompt_ids))
        for extreme in (min(request.prompt_ids), max(request.prompt_ids)):
            if not 0 <= extreme < self._model.config.vocab_size:
                raise checks.fail(RangeError, "prompt_ids", f"be in [0, {self._model.config.vocab_size})", extreme)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Chunk] = loop.create_future()
        self._pending.append((request, answer))
        if self._drainer is None or self._drainer.done():
            self._drainer = loop.create_task(self._drain())
        yield await answer

    async def publish(self, policy: PolicyHandle) -> Ack:
        """Take over new weights between two waves and forget every cached key and value.

        Raises:
            NonFiniteError: a weight is NaN or infinite; the old policy stays.
            CheckpointError: the weights are not those of this model; the old policy stays.
        """
        for name, tensor in policy.tensors.items():
            if not bool(tensor.isfinite().all()):
                raise checks.fail(NonFiniteError, "policy", "be finite", f"NaN or infinity in {name} of {policy.version!r}")
        async with self._busy:
            load_weights(self._model, policy.tensors)
            self._step.load(self._model)
            self.forget()
            self._version = policy.version
        return Ack(policy.version)

    def forget(self) -> None:
        """Drop every session, so that what comes next is computed as by a new engine; not while a wave is sampled."""
        self._free = [_Row(index) for index in reversed(range(self._cache_rows))]
        self._sessions: OrderedDict[str, _Row] = OrderedDict()

    def close(self) -> None:
        """Stop the worker threads."""
        self._workers.shutdown()

    async def _drain(self) -> None:
        while self._pending:
            waiting = 0
            while waiting != len(self._pending):  # everyone who is about to ask may join the wave
                waiting = len(self._pending)
                await asyncio.sleep(0)
            async with self._busy:
                wave, self._pending = self._pending[: self._cache_rows], self._pending[self._cache_rows :]
                try:
                    chunks = await self._sample(wave)
                except BaseException as error:  # hand the failure to those who wait, whatever it is
                    for _, answer in wave:
                        if not answer.done():
                            answer.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))
                    if not isinstance(error, Exception):
                        raise
                    continue
            for (_, answer), chunk in zip(wave, chunks, strict=True):
                if not answer.done():
                    answer.set_result(chunk)

    async def _sample(self, wave: Sequence[tuple[Request, asyncio.Future[Chunk]]]) -> list[Chunk]:
        rows = self._assign_rows([request for request, _ in wave])
        sequences = [
            _Sequence(request, row, min(request.sampling.max_tokens, self._positions - len(request.prompt_ids)))
            for (request, _), row in zip(wave, rows, strict=True)
        ]
        loop = asyncio.get_running_loop()
        batches = [sequences[i : i + self._batch_rows] for i in range(0, len(sequences), self._batch_rows)]
        work = [loop.run_in_executor(self._workers, self._sample_batch, batch) for batch in batches]
        failures = [found for found in await asyncio.gather(*work, return_exceptions=True) if found is not None]
        for sequence in sequences:
            sequence.row.ids = () if failures else sequence.request.prompt_ids + tuple(sequence.sampled[:-1])
            if not sequence.row.session:
                self._free.append(sequence.row)
        if failures:
            raise failures[0]
        return [Chunk(tuple(s.sampled), tuple(s.logprobs), self._version, s.stop_reason) for s in sequences]

    def _assign_rows(self, requests: Sequence[Request]) -> list[_Row]:
        """Give every request a cache row: its session's own, a free one, or that of the session unused for longest.

        A session has one row; further requests of it in the same wave are served like requests without a session.
        """
        for request in requests:
            if request.session in self._sessions:
                self._sessions.move_to_end(request.session)
        rows, served = [], set()
        for request in requests:
            session = "" if request.session in served else request.session
            served.add(session)
            row = self._sessions.get(session)
            if row is None:
                row = self._free.pop() if self._free else self._sessions.popitem(last=False)[1]
                row.ids, row.session = (), session
                if session:
                    self._sessions[session] = row
            known = len(row.ids)
            if known >= len(request.prompt_ids) or request.prompt_ids[:known] != row.ids:
                row.ids = ()
            rows.append(row)
        return rows

    @torch.inference_mode()
    def _sample_batch(self, batch: list[_Sequence]) -> None:
        current = sorted(batch, key=lambda s: s.row.index)
        logits = self._prefill(current)
        while True:
            for sequence, token, logprob in zip(current, *_choose(logits, current), strict=True):
                if sequence.stop_reason is None:
                    sequence.accept(token, logprob)
            active = [s for s in current if s.stop_reason is None]
            if not active:
                return
            # neighbouring rows are read in place, others are copied out: finished rows stay until they are the majority
            current = active if 2 * len(active) <= len(current) else current
            starts = [len(s.request.prompt_ids) + len(s.sampled) - 1 for s in current]
            logits = self._forward(current, [s.sampled[-1:] for s in current], starts)

    def _prefill(self, current: Sequence[_Sequence]) -> Tensor:
        """Run what is new in each prompt, rows of similar length together: one long observation must not pad all the others."""
        fresh = [s.request.prompt_ids[len(s.row.ids) :] for s in current]
        buckets: dict[int, list[int]] = {}
        for i, ids in enumerate(fresh):
            buckets.setdefault(len(ids).bit_length(), []).append(i)
        parts = [
            self._forward([current[i] for i in members], [fresh[i] for i in members], [len(current[i].row.ids) for i in members])
            for members in buckets.values()
        ]
        order = torch.tensor([i for members in buckets.values() for i in members], device=parts[0].device)
        return torch.cat(parts)[order.argsort()]

    def _forward(self, active: Sequence[_Sequence], fresh: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
        device, end = self._model.device, self._positions - 1
        width = max(len(ids) for ids in fresh)
        padded = torch.tensor([[*ids, *([0] * (width - len(ids)))] for ids in fresh], device=device)
        # a padded token lands after its row's last real one, at a place that the next real token overwrites before it is read
        positions = torch.tensor([[min(start + i, end) for i in range(width)] for start in starts], device=device)
        rows = [s.row.index for s in active]
        last = torch.tensor([len(ids) - 1 for ids in fresh], device=device)
        return self._step.forward(padded, positions, rows, self._cache, last, span=min(max(starts) + width, end + 1))


def _choose(logits: Tensor, active: Sequence[_Sequence]) -> tuple[list[int], list[float]]:
    """Draw one token a row by inverting its cumulative distribution; greedy rows take the largest logit.

    Args:
        logits: `[B, V]`, float32.
        active: the B sequences, with their temperatures and their own draws.

    Returns:
        B token ids and their log-probabilities under the distribution sampled from (temperature 1 for greedy rows).
    """
    temperatures = torch.tensor([s.request.sampling.temperature or 1.0 for s in active], device=logits.device)
    logprobs = torch.log_softmax(logits / temperatures[:, None], -1)
    cumulative = logprobs.double().exp().cumsum(-1)
    draws = torch.tensor([s.draws[min(len(s.sampled), s.budget - 1)] for s in active], device=logits.device, dtype=torch.float64)
    drawn = torch.searchsorted(cumulative, draws[:, None] * cumulative[:, -1:], right=True).squeeze(-1)
    greedy = torch.tensor([s.request.sampling.temperature == 0 for s in active], device=logits.device)
    tokens = torch.where(greedy, logits.argmax(-1), drawn.clamp(max=logits.shape[-1] - 1))
    return tokens.tolist(), logprobs.gather(-1, tokens[:, None]).squeeze(-1).tolist()
