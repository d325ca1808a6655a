"""Scripted episodes through the same loop: an engine that says what a script says, with certainty."""

from __future__ import annotations

from collections.abc import AsyncIterator

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.protocol import Codec
from rosellm.roserlhf.engine.protocol import Ack, Chunk, PolicyHandle, Request
from rosellm.roserlhf.environment.base import Script, ToolEnvironment
from rosellm.roserlhf.errors import RangeError

SCRIPT_VERSION = "script"


class ScriptedEngine:
    """Speaks the lines of one environment's script; log-probability 0, since a script has no choice."""

    def __init__(self, environment: ToolEnvironment, codec: Codec, script: Script) -> None:
        self._environment, self._codec, self._script = environment, codec, script
        self._started = False

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the script's next line.

        Raises:
            RangeError: the script is over and the episode is not; or the line does not fit the budget of the turn, and a line that
                is cut would teach to cut lines.
        """
        line = self._next_line()
        ids, room = self._codec.reply(line), request.sampling.max_tokens
        if len(ids) > room:
            fix = "raise collect.max_turn_tokens or collect.context_window, or let the vocabulary hold longer pieces"
            raise checks.fail(RangeError, self._name, f"fit the {room} tokens left", f"{line!r} of {len(ids)}", fix=fix)
        yield Chunk(ids, (0.0,) * len(ids), SCRIPT_VERSION, "stop")

    async def publish(self, policy: PolicyHandle) -> Ack:
        """Refuse: a script has no weights."""
        raise checks.fail(RangeError, "policy", "not be published to a script", repr(policy.version))

    @property
    def _name(self) -> str:
        return f"{type(self._environment).__name__}.demonstrate"

    def _next_line(self) -> str:
        try:
            line = self._script.send(self._environment.shown) if self._started else next(self._script)
        except StopIteration:
            rule = "yield a reply for every turn until the episode ends or its turns are used up"
            raise checks.fail(RangeError, self._name, rule, f"none after {self._environment.shown!r}") from None
        self._started = True
        return line
