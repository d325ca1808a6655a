"""The one episode loop: `task → (ids → engine → ids → codec → action → environment → messages → codec → ids)* → Trajectory`.

Tokens go in and come out as they are: what was sampled is appended to the context by id, observations are tokenised once, nothing
is decoded and encoded again. Every way to end is recorded as what it is:

| end | recorded as |
|---|---|
| the environment finished | terminated |
| turn budget or context window used up | truncated, with its cause; scored as it stands |
| the prompt leaves no room for a reply | failure of the environment: nothing was sampled |
| environment or tool raised, or answered what no record can hold | failure of the infrastructure: unscored, not wrong |
| verifier raised, gave no number or not the needed ones | ended as it did; unscored, blame of the infrastructure |
| engine raised | not recorded but raised: without an engine there is no run |
"""

from __future__ import annotations

import hashlib
import inspect
import math
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.protocol import Codec, PrefixBreak, Spans
from rosellm.roserlhf.engine.protocol import Chunk, Engine, Request, Sampling
from rosellm.roserlhf.engine.streams import seed_of
from rosellm.roserlhf.environment.protocol import Environment, StepResult, Task, ToolRunner
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.tools import ToolSet
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.trajectory import (
    Blame,
    Message,
    ParsedAction,
    ParseFailure,
    PolicyAction,
    SamplingParameters,
    StopReason,
    TokenSpan,
    Trajectory,
    TransitionRecord,
    VersionSpan,
    naming_trajectory,
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

    def environment_seed(self, task: Task) -> int:
        """Seed of the environment's own chance in this episode, 63 bits."""
        return seed_of((self.seed, self.purpose, self.step, task.task_id, self.member, "environment")) >> 65


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an episode may spend, and how it samples.

    Raises:
        RangeError: a budget below 1, or a temperature below 0.
    """

    max_turns: int
    """Actions of one episode."""
    max_turn_tokens: int
    """Sampled tokens of one action, the end marker included."""
    context_window: int
    """Tokens of prompt, actions and observations together."""
    temperature: float
    """Of sampling; 0 is greedy."""

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_turn_tokens", "context_window"):
            checks.number_in(getattr(self, name), name, 1, math.inf)
        checks.number_in(self.temperature, "temperature", 0, math.inf, open_high=True)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the record states beside what happened."""

    environment_version: str
    group_id: str | None = None
    hashes: Mapping[str, str] = field(default_factory=dict)
    trainable: bool = True
    """False for episodes that are evidence only, such as evaluations."""
    reward_names: tuple[str, ...] = ("correct",)
    """Components that the verifier must name; noted as unscored when it fails."""


async def run_episode(
    environment: Environment,
    codec: Codec,
    engine: Engine,
    task: Task,
    *,
    key: EpisodeKey,
    limits: Limits,
    facts: Facts,
    new_runner: Callable[[ToolSet], ToolRunner] = DirectRunner,
) -> Trajectory:
    """Play one episode and return its record; exceptions of the environment are recorded in it, not raised.

    Args:
        environment: a fresh instance; it is closed in the end, whatever happens.
        codec: messages ↔ ids.
        engine: samples continuations.
        task: what to solve.
        key: identity and random streams.
        limits: budgets; prompt, observations and actions share `context_window`.
        facts: further fields of the record.
        new_runner: makes what stands between calls and tools, once for the episode.

    Raises:
        RecordError: the engine gave no token, no log-probability for one, or no reason to stop; or whatever the engine raises.
    """
    try:
        return await _Episode(environment, codec, engine, task, key, limits, facts).play(new_runner)
    finally:
        await _close(environment)


_NOTHING: Spans = (TokenSpan((), "tool"),)
"""An observation that was recorded and is empty."""


async def _maybe(value: _T | Awaitable[_T]) -> _T:
    return await value if inspect.isawaitable(value) else value


async def _close(environment: Environment) -> None:
    try:
        await _maybe(environment.close())
    except Exception as error:  # noqa: BLE001 - what the episode recorded stands; this is only worth a word
        warnings.warn(f"{type(environment).__name__}: {_cause('close', error)}", RuntimeWarning, stacklevel=2)


def _cause(method: str, error: Exception) -> str:
    """Name an exception in one line."""
    return " ".join(f"{method} raised {type(error).__name__}: {error}".split())[:200].removesuffix(":")


def _state_hash(environment: Environment) -> str | None:
    key = environment.state_key()
    return None if key is None else hashlib.blake2b(repr(key).encode("utf-8", "backslashreplace"), digest_size=12).hexdigest()


@dataclass
class _Episode:
    environment: Environment
    codec: Codec
    engine: Engine
    task: Task
    key: EpisodeKey
    limits: Limits
    facts: Facts
    messages: list[Message] = field(default_factory=list)
    """The conversation so far, as messages."""
    context: list[int] = field(default_factory=list)
    """Prompt, actions and observations so far, exactly as the engine sees them."""

    async def play(self, new_runner: Callable[[ToolSet], ToolRunner]) -> Trajectory:
        record = await self._start()
        if record.sealed:
            return record
        runner = new_runner(self.environment.tools)
        for turn in range(self.limits.max_turns):
            with naming_trajectory(record.trajectory_id):
                action, parsed = await self._act(turn, record.trajectory_id)
            await self._answer(record, action, parsed, runner)
            if record.is_finished or record.sealed:
                break
        return record

    async def _start(self) -> Trajectory:
        try:
            observation = await _maybe(self.environment.start(self.task, self.key.environment_seed(self.task)))
            self.codec = self.codec.for_tools(self.environment.tools.schemas())
            prompt = self.codec.render(observation.messages)
            self.messages.extend(observation.messages)
            state = _state_hash(self.environment)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this episode's failure
            record = self._record((), None)
            record.fail("infrastructure", _cause("start", error))
            return record
        record = self._record(prompt, state)
        self._extend(prompt)
        if len(self.context) >= self.limits.context_window:
            record.fail("environment", "the prompt fills the context window")
        return record

    def _record(self, prompt: Spans, state_hash: str | None) -> Trajectory:
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
            initial_state_hash=state_hash,
            seeds={"run": self.key.seed, "environment": self.key.environment_seed(self.task)},
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
        parsed = self.codec.parse(token_ids)
        spans = _version_spans(chunks)
        action = PolicyAction(
            turn,
            token_ids,
            [logprob for chunk in chunks for logprob in chunk.logprobs],
            spans[0].version,
            self.codec.text(token_ids),
            parsed,
            version_spans=spans,
            sampling=SamplingParameters(self.limits.temperature, max_tokens=room, seed_key=stream),
            stop_reason=_stop_reason(chunks),
        )
        self.context.extend(token_ids)
        self.messages.append(Message("assistant", self.codec.reply_text(token_ids)))
        return action, parsed

    async def _answer(
        self, record: Trajectory, action: PolicyAction, parsed: ParsedAction | ParseFailure, runner: ToolRunner
    ) -> None:
        """Let the environment answer, and append the turn."""
        try:
            result = await _maybe(self.environment.step(parsed, runner))
            spans = () if result.terminated else self._follow(result.observation.messages)
            self._extend(spans)
            record.append(action, await self._transition(action.turn, result, spans))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this episode's failure
            cause = _cause("step", error)
            broken = TransitionRecord(action.turn, None, observation=_NOTHING, cause=cause, blame="infrastructure")
            record.append(action, broken)
            record.fail("infrastructure", cause)

    def _follow(self, messages: Sequence[Message]) -> Spans:
        found = self.codec.extend(self.context, self.messages, messages)
        if isinstance(found, PrefixBreak):
            raise checks.fail(RecordError, "template", "extend the conversation", f"{found.cause} at position {found.position}")
        self.messages.extend(messages)
        return found

    async def _transition(self, turn: int, result: StepResult, spans: Spans) -> TransitionRecord:
        exhausted = None if result.terminated else self._exhausted(turn)
        truncated = result.truncated or exhausted is not None
        rewards: dict[str, float | None] = dict(result.rewards)
        cause, blame = result.cause or exhausted, None
        if result.terminated or truncated:
            failure, blame = await self._score(rewards)
            cause = failure or cause
        return TransitionRecord(
            turn,
            None,
            rewards,
            terminated=result.terminated,
            truncated=truncated,
            state_hash=_state_hash(self.environment),
            results=result.results,
            observation=spans,
            cause=cause,
            blame=blame,
        )

    async def _score(self, rewards: dict[str, float | None]) -> tuple[str | None, Blame | None]:
        """Add the verifier's components; if it fails, those that training needs are unscored, and it is said why."""
        try:
            scored = await _maybe(self.environment.score())
            rewards.update({name: plain.reward(value, name) for name, value in scored.items()})
            if missing := [name for name in self.facts.reward_names if name not in rewards]:
                raise checks.fail(RecordError, "score", f"name {', '.join(missing)}", f"{', '.join(rewards) or 'nothing'}")
        except Exception as error:  # noqa: BLE001 - a verifier that fails says nothing about the answer
            rewards.update(dict.fromkeys(self.facts.reward_names))
            return _cause("score", error), "infrastructure"
        return None, None

    def _exhausted(self, turn: int) -> str | None:
        if len(self.context) >= self.limits.context_window:
            return "context window used up"
        return "turn budget used up" if turn + 1 == self.limits.max_turns else None


def _version_spans(chunks: Sequence[Chunk]) -> list[VersionSpan]:
    """Tile the sampled ids by version; neighbouring chunks of one version are one span."""
    spans: list[VersionSpan] = []
    start = 0
    for version, run in groupby((chunk for chunk in chunks if chunk.token_ids), key=lambda chunk: chunk.version):
        end = start + sum(len(chunk.token_ids) for chunk in run)
        spans.append(VersionSpan(start, end, version))
        start = end
    if not spans:
        raise checks.fail(RecordError, "an engine", "sample at least one token", "none")
    return spans


def _stop_reason(chunks: Sequence[Chunk]) -> StopReason:
    """Read why the generation ended off its last chunk."""
    match chunks[-1].stop_reason:
        case "stop":
            return "stop"
        case "length":
            return "length"
    raise checks.fail(RecordError, "stop_reason", "be 'stop' or 'length' in an engine's last chunk", repr(chunks[-1].stop_reason))
