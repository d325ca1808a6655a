"""The one episode loop: `task → (ids → engine → ids → codec → action → environment → messages → codec → ids)* → Trajectory`.

Tokens go in and come out as they are: what was sampled is appended to the context by id, observations are tokenised once, nothing is
decoded and encoded again. Every way to end is recorded as what it is:

| end | recorded as |
|---|---|
| the environment finished | terminated |
| turn budget, context window | truncated, with its cause |
| an exception in the environment or a tool | failure of the infrastructure: the episode is unscored, not wrong |
| an exception in the verifier | the episode ends as it did; its rewards are unscored |
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rosellm.roserlhf.codec.protocol import Codec, Spans
from rosellm.roserlhf.engine.protocol import Chunk, Engine, Request, Sampling
from rosellm.roserlhf.environment.base import DirectRunner
from rosellm.roserlhf.environment.protocol import Environment, StepResult, Task, ToolRunner
from rosellm.roserlhf.trajectory import (
    Failure,
    Message,
    ParsedAction,
    ParseFailure,
    PolicyAction,
    SamplingParameters,
    Trajectory,
    TransitionRecord,
    VersionSpan,
)


@dataclass(frozen=True, kw_only=True)
class EpisodeKey:
    """Who an episode is; every random draw in it is keyed by this and the turn, so it can be made again alone."""

    run: str
    """Name of the run."""
    seed: int
    purpose: str
    """`train`, `evaluate-sampled`, `warm-start-check`, …: streams of different purposes never meet."""
    step: int
    member: int
    """Index among the episodes of the same task."""

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


async def run_episode(
    environment: Environment, codec: Codec, engine: Engine, task: Task, *, key: EpisodeKey, limits: Limits, facts: Mapping[str, Any]
) -> Trajectory:
    """Play one episode and return its record, finished or failed; exceptions of the environment are recorded, not raised.

    Args:
        environment: a fresh instance.
        codec: messages ↔ ids.
        engine: samples continuations.
        task: what to solve.
        key: identity and random streams.
        limits: budgets; prompt, observations and actions share `context_window`.
        facts: further fields of the record (environment version, hashes, group).
    """
    record = Trajectory(key.trajectory_id(task), task.task_id, tokenizer_hash=codec.tokenizer_hash, **facts)
    try:
        started = environment.start(task, key.seed)
        observation = await started if inspect.isawaitable(started) else started
    except Exception as error:  # noqa: BLE001 - whatever it is, it is recorded as this episode's failure
        record.fail(Failure("infrastructure", f"start raised {type(error).__name__}"))
        return record
    record.prompt = codec.render(observation.messages)
    context = [i for span in record.prompt for i in span.token_ids]
    runner: ToolRunner = DirectRunner(environment.tools)
    try:
        for turn in range(limits.max_turns):
            action, parsed = await _act(codec, engine, task, key, limits, turn, context, record.trajectory_id)
            context += action.token_ids
            try:
                stepped = environment.step(parsed, runner)
                result = await stepped if inspect.isawaitable(stepped) else stepped
            except Exception as error:  # noqa: BLE001
                record.append(action, None)
                record.fail(Failure("infrastructure", f"step raised {type(error).__name__}"))
                return record
            transition, spans = await _transition(environment, codec, limits, turn, context, result)
            record.append(action, transition)
            context += [i for span in spans for i in span.token_ids]
            if record.is_finished:
                return record
    finally:
        environment.close()
    return record
