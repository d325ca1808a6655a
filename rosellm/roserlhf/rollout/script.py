"""Scripted episodes through the same loop: an engine that says what a script says, with certainty."""

from __future__ import annotations

from collections.abc import AsyncIterator

from rosellm.roserlhf.codec.chat import ChatCodec
from rosellm.roserlhf.engine.protocol import Ack, Chunk, PolicyHandle, Request
from rosellm.roserlhf.environment.base import Script, ToolEnvironment
from rosellm.roserlhf.errors import RangeError

SCRIPT_VERSION = "script"


class ScriptedEngine:
    """Speaks the lines of one environment's script; log-probability 0, since a script has no choice."""

    def __init__(self, environment: ToolEnvironment, codec: ChatCodec, script: Script) -> None:
        self._environment, self._codec, self._script = environment, codec, script
        self._started = False

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the script's next line; it is cut where the request says so."""
        line = self._script.send(self._environment.shown) if self._started else next(self._script)
        self._started = True
        ids = self._codec.reply(line)[: request.sampling.max_tokens]
        reason = "stop" if ids[-1] in request.sampling.stop_ids else "length"
        yield Chunk(ids, (0.0,) * len(ids), SCRIPT_VERSION, reason)

    async def publish(self, policy: PolicyHandle) -> Ack:
        """Refuse: a script has no weights."""
        raise RangeError(f"policy must not be published to a script, got {policy.version!r}")
