"""One reply of the engine: `request → chunks → ids, log-probabilities, version spans`, within a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rosellm.roserlhf import checks
from rosellm.roserlhf.engine.protocol import Chunk, Engine, Request
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.trajectory import StopReason, VersionSpan


@dataclass(frozen=True)
class Reply:
    """What the engine said."""

    chunks: Sequence[Chunk]
    """In order; those that came in time, if it was late."""
    late: bool
    """Whether it took longer than it may; the request was cancelled."""

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Sampled ids."""
        return tuple(i for chunk in self.chunks for i in chunk.token_ids)

    @property
    def logprobs(self) -> list[float]:
        """Behaviour log-probability of each."""
        return [logprob for chunk in self.chunks for logprob in chunk.logprobs]

    @property
    def supports(self) -> tuple[tuple[int, ...] | None, ...] | None:
        """Ids that truncation kept for each; None if nothing was truncated."""
        if all(chunk.support is None for chunk in self.chunks):
            return None
        return tuple(kept for chunk in self.chunks for kept in chunk.support or (None,) * len(chunk.token_ids))

    def version_spans(self) -> list[VersionSpan]:
        """Tile the sampled ids by version; neighbouring chunks of one version are one span.

        Raises:
            RecordError: no token was sampled.
        """
        spans: list[VersionSpan] = []
        start = 0
        for version, run in groupby((chunk for chunk in self.chunks if chunk.token_ids), key=lambda chunk: chunk.version):
            end = start + sum(len(chunk.token_ids) for chunk in run)
            spans.append(VersionSpan(start, end, version))
            start = end
        if not spans:
            raise checks.fail(RecordError, "an engine", "sample at least one token", "none")
        return spans

    def stop_reason(self) -> StopReason:
        """Read why the generation ended off its last chunk.

        Raises:
            RecordError: it does not say.
        """
        if self.late:
            return "interrupted"
        match self.chunks[-1].stop_reason if self.chunks else None:
            case "stop":
                return "stop"
            case "length":
                return "length"
            case other:
                raise checks.fail(RecordError, "stop_reason", "be 'stop' or 'length' in an engine's last chunk", repr(other))


async def sample(engine: Engine, request: Request, *, seconds: float) -> Reply:
    """Let the engine sample one reply.

    Args:
        engine: must give way when its iterator is cancelled.
        request: what to continue.
        seconds: that it may take; what it said until then is kept.
    """
    chunks: list[Chunk] = []
    try:
        async with asyncio.timeout(seconds) as clock:
            async for chunk in engine.generate(request):
                chunks.append(chunk)  # noqa: PERF401 - what came in time is kept
    except TimeoutError:
        if not clock.expired():  # the engine's own
            raise
        return Reply(chunks, late=True)
    return Reply(chunks, late=False)
