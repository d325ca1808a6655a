"""The one episode loop: `task → (ids → engine → ids → codec → action → environment → messages → codec → ids)* → Trajectory`.

Tokens go in and come out as they are: what was sampled is appended to the context by id, observations are tokenised once, nothing
is decoded and encoded again. Every way to end is recorded as what it is:

| end | recorded as |
|---|---|
| the environment finished | terminated |
| turn budget or context window used up | truncated, with its cause; scored as it stands |
| an exception in the environment or a tool | failure of the infrastructure: unscored, not wrong |
| an exception in the verifier | the episode ends as it did; its rewards are unscored |
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from rosellm.roserlhf.codec.protocol import Codec, Spans
from rosellm.roserlhf.engine.protocol import Engine, Request, Sampling
from rosellm.roserlhf.environment.base import DirectRunner
from rosellm.roserlhf.environment.protocol import Environment, StepResult, Task
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.trajectory import (
    Blame,
    ParsedAction,
    ParseFailure,
    PolicyAction,
    SamplingParameters,
    TokenSpan,
    Trajectory,
    TransitionRecord,
    VersionSpan,
)

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class EpisodeKey:
    """Who an episode is; every random draw in it is keyed by this and the turn, so it can be made again alone."""

    run: str
    """Name of the run."""
    seed: int
    """Seed of the run."""
    purpose: str
    """`train`, `evaluate-greedy`, …: streams of different purposes never meet."""
    step: int
    """Training step that asks for it."""
    member: int
    """Index among the episodes of the same task in this step."""

    def trajectory_id(self, task: Task) -> str:
        """Readable and unique within the run."""
        return f"{self.run}/{self.purpose}/{self.step}/{task.task_id}/{self.member}"

    def stream(self, task: Task, turn: int) -> tuple[int | str, ...]:
        """Key of the random stream of one turn."""
        return (self.seed, self.purpose, self.step, task.task_id, self.member, turn)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an episode may spend, and how it samples."""

    max_turns: int
    max_turn_tokens: int
    context_window: int
    temperature: float


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the record states beside what happened."""

    environment_version: str
    group_id: str | None = None
    hashes: Mapping[str, str] = field(default_factory=dict)
    trainable: bool = True
    """False for episodes that are evidence only, such as evaluations."""
    reward_names: tuple[str, ...] = ("correct",)
    """Components that are noted as unscored when the verifier fails."""


async def run_episode(
    environment: Environment, codec: Codec, engine: Engine, task: Task, *, key: EpisodeKey, limits: Limits, facts: Facts
) -> Trajectory:
    """Play one episode and return its record; exceptions of the environment are recorded in it, not raised.

    Args:
        environment: a fresh instance.
        codec: messages ↔ ids.
        engine: samples continuations.
        task: what to solve.
        key: identity and random streams.
        limits: budgets; prompt, observations and actions share `context_window`.
        facts: further fields of the record.
    """
    try:
        return await _Episode(environment, codec, engine, task, key, limits, facts).play()
    finally:
        environment.close()


_NOTHING: Spans = (TokenSpan((), "tool"),)
_NOBODY: Blame | None = None


async def _maybe(value: _T | Awaitable[_T]) -> _T:
    return await value if inspect.isawaitable(value) else value


def _state_hash(environment: Environment) -> str | None:
    key = environment.state_key()
    return None if key is None else hashlib.blake2b(repr(key).encode(), digest_size=12).hexdigest()


@dataclass
class _Episode:
    environment: Environment
    codec: Codec
    engine: Engine
    task: Task
    key: EpisodeKey
    limits: Limits
    facts: Facts
    context: list[int] = field(default_factory=list)

    async def play(self) -> Trajectory:
        try:
            observation = await _maybe(self.environment.start(self.task, self.key.seed))
            prompt = self.codec.render(observation.messages)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this episode's failure
            record = self._record(())
            record.fail("infrastructure", f"start raised {type(error).__name__}")
            return record
        record = self._record(prompt)
        self._extend(prompt)
        if len(self.context) >= self.limits.context_window:
            record.fail("environment", "the prompt fills the context window")
            return record
        for turn in range(self.limits.max_turns):
            action, parsed = await self._act(turn, record.trajectory_id)
            try:
                result = await _maybe(self.environment.step(parsed, DirectRunner(self.environment.tools)))
                spans = () if result.terminated else self.codec.extend(self.context, result.observation.messages)
            except Exception as error:  # noqa: BLE001
                cause = f"step raised {type(error).__name__}"
                record.append(action, TransitionRecord(turn, None, observation=_NOTHING, cause=cause, blame="infrastructure"))
                record.fail("infrastructure", cause)
                return record
            self._extend(spans)
            record.append(action, await self._transition(turn, result, spans))
            if record.is_finished:
                break
        return record

    def _record(self, prompt: Spans) -> Trajectory:
        return Trajectory(
            self.key.trajectory_id(self.task),
            self.task.task_id,
            self.facts.environment_version,
            self.codec.tokenizer_hash,
            group_id=self.facts.group_id,
            prompt=prompt,
            run_id=self.key.run,
            step=self.key.step,
            member=self.key.member,
            initial_state_hash=_state_hash(self.environment) if prompt else None,
            seeds={"run": self.key.seed},
            hashes=self.facts.hashes,
            trainable=self.facts.trainable,
        )

    def _extend(self, spans: Spans) -> None:
        self.context.extend(i for span in spans for i in span.token_ids)

    async def _act(self, turn: int, session: str) -> tuple[PolicyAction, ParsedAction | ParseFailure]:
        stream = self.key.stream(self.task, turn)
        room = min(self.limits.max_turn_tokens, self.limits.context_window - len(self.context))
        sampling = Sampling(self.limits.temperature, room, self.codec.stop_ids)
        chunks = [chunk async for chunk in self.engine.generate(Request(tuple(self.context), sampling, stream, session))]
        token_ids = tuple(i for chunk in chunks for i in chunk.token_ids)
        ends = list(itertools.accumulate(len(chunk.token_ids) for chunk in chunks))
        parsed = self.codec.parse(token_ids)
        action = PolicyAction(
            turn,
            token_ids,
            [logprob for chunk in chunks for logprob in chunk.logprobs],
            chunks[0].version,
            self.codec.text(token_ids),
            parsed,
            version_spans=[
                VersionSpan(end - len(chunk.token_ids), end, chunk.version) for chunk, end in zip(chunks, ends, strict=True)
            ],
            sampling=SamplingParameters(self.limits.temperature, max_tokens=room, seed_key=stream),
            stop_reason="length" if chunks[-1].stop_reason == "length" else "stop",
        )
        self.context.extend(token_ids)
        return action, parsed

    async def _transition(self, turn: int, result: StepResult, spans: Spans) -> TransitionRecord:
        exhausted = None if result.terminated else self._exhausted(turn)
        truncated = not result.terminated and (result.truncated or exhausted is not None)
        rewards: dict[str, float | None] = dict(result.rewards)
        cause, blame = result.cause or exhausted, _NOBODY
        if result.terminated or truncated:
            try:
                scored = await _maybe(self.environment.score())
                rewards.update({name: None if value is None else plain.reward(value, name) for name, value in scored.items()})
            except Exception as error:  # noqa: BLE001 - a verifier that fails says nothing about the answer
                rewards.update(dict.fromkeys(self.facts.reward_names))
                cause, blame = f"score raised {type(error).__name__}", "infrastructure"
        return TransitionRecord(
            turn,
            None,
            rewards,
            terminated=result.terminated,
            truncated=truncated,
            state_hash=_state_hash(self.environment),
            results=result.results,
            observation=spans or (() if result.terminated else _NOTHING),
            cause=cause,
            blame=blame,
        )

    def _exhausted(self, turn: int) -> str | None:
        if len(self.context) >= self.limits.context_window:
            return "context window used up"
        return "turn budget used up" if turn + 1 == self.limits.max_turns else None
