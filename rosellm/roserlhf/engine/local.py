"""An engine in this process: waves of requests, sampled together over attention caches, by a few single-threaded workers.

```
episode ──generate──▶ waiting list ──▶ wave (everyone who waits) ──▶ batches by block of rows ──▶ worker threads ──▶ Chunk
publish ──waits for the wave to end──▶ new weights, new version, nothing cached
```
Every request has its own random stream, a batch is computed by one thread, and rows are given out by arrival, so neither the number
of threads nor who else is in the wave changes a draw (float32 rounding of a batch's matrix products depends on its size alone).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch

from rosellm.roserlhf import checks
from rosellm.roserlhf.engine.batch import Continuation, Sampler
from rosellm.roserlhf.engine.llama import LlamaStep
from rosellm.roserlhf.engine.protocol import Ack, Chunk, PolicyHandle, Request
from rosellm.roserlhf.engine.rows import Block, Rows
from rosellm.roserlhf.engine.weights import Precision
from rosellm.roserlhf.errors import NonFiniteError, RangeError
from rosellm.roserlhf.models.vocabulary import spoken_ids

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import LlamaForCausalLM

_LARGE = 2**24
"""Parameters from which 32 rows keep a processor's matrix units busy; below it, what each forward pass costs apart from them is
shared by 256."""


class LocalEngine:
    """Sample from a Llama-architecture model on this machine.

    Memory is the weights, once, and keys and values of the rows and positions that were used so far (`forget` keeps it for the
    next ones): layers × 2 × key-value heads × head dimension numbers per token and row.

    Args:
        model: a `transformers` Llama model, with or without adapters; its weights are copied, adapters merged, and later changes to
            it are seen only through `publish`.
        version: name of the policy these weights are.
        threads: worker threads; each runs torch single-threaded.
        cache_rows: sessions whose attention cache is kept, and requests of a wave; more of them cost recomputation, never a
            different result. None: four batches.
        batch_rows: sequences per forward pass, and so the work of one thread. None: 32 for a model of 16 million parameters or
            more, else 256.
        positions: longest sequence, prompt and reply; None for the model's own.
        weights: precision of the copy; the log-probabilities recorded are always those of what was really sampled from.
        vocabulary: ids from this on are never sampled, as if the model had no such outputs; None for those of the model
            (`models.vocabulary`). The learner must leave out the same ones, so narrow the model rather than the engine.

    Raises:
        RangeError: a variant of Llama that is not computed here, or an option out of range.
        ModelError: another architecture than Llama.
        CheckpointError: parameters beside those of a Llama.
    """

    def __init__(
        self,
        model: LlamaForCausalLM | PeftModel,
        *,
        version: str,
        threads: int = 2,
        cache_rows: int | None = None,
        batch_rows: int | None = None,
        positions: int | None = None,
        weights: Precision = "float32",
        vocabulary: int | None = None,
    ) -> None:
        if batch_rows is None:
            batch_rows = 32 if sum(parameter.numel() for parameter in model.parameters()) >= _LARGE else 256
        cache_rows = 4 * batch_rows if cache_rows is None else cache_rows
        for name, count in (("threads", threads), ("batch_rows", batch_rows), ("cache_rows", cache_rows)):
            checks.number_in(count, name, 1, math.inf)
        longest, ids = int(model.config.max_position_embeddings), spoken_ids(model)
        self._positions = longest if positions is None else positions
        self._vocabulary = ids if vocabulary is None else vocabulary
        checks.number_in(self._positions, "positions", 2, longest)
        checks.number_in(self._vocabulary, "vocabulary", 1, ids)
        self._step = LlamaStep(model, positions=self._positions, precision=weights)
        self._sampler = Sampler(self._step, self._positions, self._vocabulary, model.device)
        self._cache_rows = cache_rows
        self._rows = Rows(self._step.new_cache, cache_rows, batch_rows)
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
            if not 0 <= extreme < self._vocabulary:
                raise checks.fail(RangeError, "prompt_ids", f"be in [0, {self._vocabulary})", extreme)
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
            self._step.weights.load(policy.tensors)
            self.forget()
            self._version = policy.version
        return Ack(policy.version)

    def forget(self) -> None:
        """Drop every session, so that what comes next is computed as by a new engine; not while a wave is sampled."""
        self._rows.forget()

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
                    chunks = await self._sample([request for request, _ in wave])
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

    async def _sample(self, wave: Sequence[Request]) -> list[Chunk]:
        continuations = [
            Continuation(request, row, min(request.sampling.max_tokens, self._positions - len(request.prompt_ids)))
            for request, row in zip(wave, self._rows.assign(wave), strict=True)
        ]
        batches: dict[Block, list[Continuation]] = {}
        for one in continuations:
            batches.setdefault(one.row.block, []).append(one)
        loop = asyncio.get_running_loop()
        work = [loop.run_in_executor(self._workers, self._sampler.sample, *batch) for batch in batches.items()]
        failures = [found for found in await asyncio.gather(*work, return_exceptions=True) if found is not None]
        for one in continuations:
            self._rows.keep(one.row, () if failures else one.ids)
        if failures:
            raise failures[0]
        return [self._chunk(one) for one in continuations]

    def _chunk(self, one: Continuation) -> Chunk:
        supports = tuple(one.supports) if any(support is not None for support in one.supports) else None
        return Chunk(tuple(one.sampled), tuple(one.logprobs), self._version, one.stop_reason, supports)
