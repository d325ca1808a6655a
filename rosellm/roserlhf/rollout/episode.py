"""The one episode loop: `task → (ids → engine → ids → codec → action → environment → messages → codec → ids)* → Trajectories`.

Tokens go in and come out as they are: what was sampled is appended to the context by id, observations are tokenised once, nothing
is decoded and encoded again. Where the template rewrites what stands in the context already, the record hands off to a child of
kind `rewrite` whose prompt is the new rendering. Every way to end is recorded as what it is:

| end | recorded as |
|---|---|
| the environment finished | terminated |
| the guard ended it | terminated, with the rule as its cause; scored as it stands |
| turn budget or context window used up | truncated, with its cause; scored as it stands |
| the template rewrites the conversation, and another action follows | handed off, with the cause of the break; the child goes on |
| the prompt is empty, or leaves no room for a reply | failure of the environment: nothing was sampled |
| environment or tool raised, took too long, or answered what no record can hold | failure of the infrastructure: unscored |
| verifier raised, took too long, gave no number or not the needed ones | ended as it did; unscored, blame of the infrastructure |
| engine took too long | failure of the infrastructure; what was sampled of the reply is kept, as interrupted |
| engine raised | not recorded but raised: without an engine there is no run |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.protocol import Codec, PrefixBreak, Spans
from rosellm.roserlhf.engine.protocol import Engine, Request, Sampling
from rosellm.roserlhf.environment.protocol import Environment, StepResult, Task, ToolRunner
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.tools import ToolSet
from rosellm.roserlhf.environment.verifiers.rubric import Scores
from rosellm.roserlhf.errors import RecordError, VerifierError
from rosellm.roserlhf.guard.guard import GuardedRunner
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.rollout.bounded import BoundedEnvironment, OverdueError, cause_of
from rosellm.roserlhf.rollout.key import EpisodeKey
from rosellm.roserlhf.rollout.limits import Limits
from rosellm.roserlhf.rollout.reply import sample
from rosellm.roserlhf.rollout.rewrite import rewritten_prompt
from rosellm.roserlhf.trajectory import (
    Blame,
    CopySpan,
    Message,
    ParentLink,
    ParsedAction,
    ParseFailure,
    PolicyAction,
    SamplingParameters,
    TokenSpan,
    Trajectory,
    TransitionRecord,
    naming_trajectory,
)

__all__ = ["EpisodeKey", "Facts", "Guarding", "Limits", "run_episode"]

Guarding = Callable[[Environment, ToolRunner], GuardedRunner]
"""Put a guard in front of what executes the calls of one episode, which has begun."""
CANARY = "canary"
"""Reward component, 1 at the end of every episode at whose task no honest one can succeed; it has no weight."""


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
    canary: bool = False
    """Whether no honest episode can succeed at the task; noted as a component beside the verifier's."""


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
    guard: Guarding | None = None,
) -> tuple[Trajectory, ...]:
    """Play one episode and return its records; exceptions of the environment are recorded in them, not raised.

    Args:
        environment: a fresh instance; it is closed in the end, whatever happens.
        codec: messages ↔ ids.
        engine: samples continuations.
        task: what to solve.
        key: identity and random streams.
        limits: budgets; prompt, observations and actions share `context_window`.
        facts: further fields of the record.
        new_runner: makes what stands between calls and tools, once for the episode.
        guard: puts a guard in front of that; None leaves the calls unguarded.

    Returns:
        The root and, for every place where the template rewrote the conversation, the record that went on: one rollout.

    Raises:
        RecordError: the engine gave no token, no log-probability for one, or no reason to stop; or whatever the engine raises.
    """
    bounded = BoundedEnvironment(environment, limits)
    try:
        return await _Episode(environment, bounded, codec, engine, task, key, limits, facts).play(new_runner, guard)
    finally:
        await bounded.close()


_NOTHING: Spans = (TokenSpan((), "tool"),)
"""An observation that was recorded and is empty."""


@dataclass(frozen=True)
class _Following:
    """What the next action would see, as far as it does not stand in the context already."""

    spans: Spans
    """What follows the reply; all of the conversation, if the template rewrote it."""
    length: int
    """Tokens that the context would have."""
    rewritten: str | None = None
    """Why the conversation was rewritten; None if it was not."""


@dataclass
class _Episode:
    environment: Environment
    bounded: BoundedEnvironment
    codec: Codec
    engine: Engine
    task: Task
    key: EpisodeKey
    limits: Limits
    facts: Facts
    records: list[Trajectory] = field(default_factory=list)
    """The root, and what it handed off to; the last one is being written."""
    messages: list[Message] = field(default_factory=list)
    """The conversation so far, as messages."""
    context: list[int] = field(default_factory=list)
    """The last record's row so far (prompt, actions, observations), exactly as the engine sees it."""

    async def play(self, new_runner: Callable[[ToolSet], ToolRunner], guard: Guarding | None) -> tuple[Trajectory, ...]:
        await self._start()
        if self.record.sealed:
            return tuple(self.records)
        runner = new_runner(self.environment.tools)
        try:
            runner = runner if guard is None else guard(self.environment, runner)
        except Exception as error:  # noqa: BLE001 - the environment cannot say what it is to be guarded by
            self.record.fail("infrastructure", cause_of("task_setting", error))
            return tuple(self.records)
        for turn in range(self.limits.max_turns):
            await self._turn(turn, runner)
            if self.record.sealed or self.record.is_finished:
                break
        return tuple(self.records)

    @property
    def record(self) -> Trajectory:
        return self.records[-1]

    async def _start(self) -> None:
        prompt: Spans = ()
        state: str | None = None
        try:
            observation = await self.bounded.start(self.task, self.key.environment_seed(self.task))
            self.codec = self.codec.for_tools(self.environment.tools.schemas())
            rendered = self.codec.render(observation.messages)
            self.messages.extend(observation.messages)
            state = await self.bounded.state_hash()
            prompt = rendered
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this episode's failure
            self._begin(prompt, None)
            self.record.fail("infrastructure", cause_of("start", error))
            return
        self._begin(prompt, state)
        self._extend(prompt)
        if not self.context:
            self.record.fail("environment", "the prompt is empty")
        elif len(self.context) >= self.limits.context_window:
            self.record.fail("environment", "the prompt fills the context window; raise context_window")

    def _begin(self, prompt: Sequence[TokenSpan | CopySpan], state_hash: str | None, *, parent: ParentLink | None = None) -> None:
        name = self.key.trajectory_id(self.task)
        record = Trajectory(
            name if parent is None else f"{name}/rewrite-{parent.turn}",
            self.task.task_id,
            self.facts.environment_version,
            self.codec.tokenizer_hash,
            group_id=self.facts.group_id if parent is None else None,
            prompt=prompt,
            parent=parent,
            run_id=self.key.run,
            step=self.key.step,
            member=self.key.member,
            initial_state_hash=state_hash,
            seeds={"run": self.key.seed, "environment": self.key.environment_seed(self.task)},
            hashes=self.facts.hashes,
            trainable=self.facts.trainable,
        )
        self.records.append(record)

    def _extend(self, spans: Spans) -> None:
        self.context.extend(i for span in spans for i in span.token_ids)

    async def _turn(self, turn: int, runner: ToolRunner) -> None:
        with naming_trajectory(self.record.trajectory_id):
            action, parsed = await self._act(turn)
        if action is not None and action.stop_reason != "interrupted":
            await self._answer(action, parsed, runner)
            return
        if action is not None:
            self.record.append(action)
        self.record.fail("infrastructure", str(OverdueError("reply of the engine", self.limits.reply_timeout)))

    async def _act(self, turn: int) -> tuple[PolicyAction | None, ParsedAction | ParseFailure]:
        stream = self.key.stream(self.task, turn)
        limits = self.limits
        room = min(limits.max_turn_tokens, limits.context_window - len(self.context))
        sampling = Sampling(limits.temperature, room, self.codec.stop_ids, limits.top_p, limits.top_k)
        request = Request(tuple(self.context), sampling, stream, self.record.trajectory_id)
        reply = await sample(self.engine, request, seconds=limits.reply_timeout)
        token_ids = reply.token_ids
        parsed = self.codec.parse(token_ids)
        if reply.late and not token_ids:
            return None, parsed
        spans = reply.version_spans()
        action = PolicyAction(
            turn,
            token_ids,
            reply.logprobs,
            spans[0].version,
            self.codec.text(token_ids),
            parsed,
            version_spans=spans,
            sampling=SamplingParameters(limits.temperature, limits.top_p, limits.top_k, max_tokens=room, seed_key=stream),
            kept_support=reply.supports,
            stop_reason=reply.stop_reason(),
        )
        self.context.extend(token_ids)
        self.messages.append(Message("assistant", self.codec.reply_text(token_ids)))
        return action, parsed

    async def _answer(self, action: PolicyAction, parsed: ParsedAction | ParseFailure, runner: ToolRunner) -> None:
        """Let the environment answer, and append the turn."""
        record, prompt = self.record, tuple[TokenSpan | CopySpan, ...]()
        try:
            if isinstance(runner, GuardedRunner) and isinstance(parsed, ParsedAction):
                runner.hear(parsed.content)
            result = await self.bounded.step(parsed, runner)
            if isinstance(runner, GuardedRunner):
                result = runner.after(result)
            following = self._following(result)
            transition = await self._transition(action.turn, result, following)
            if transition.handed_off:
                prompt = rewritten_prompt(record.trajectory_id, self.context, following.spans)
            record.append(action, transition)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this episode's failure
            cause = cause_of("step", error)
            broken = TransitionRecord(action.turn, None, observation=_NOTHING, cause=cause, blame="infrastructure")
            record.append(action, broken)
            record.fail("infrastructure", cause)
            return
        if transition.handed_off:
            self.context.clear()
            self._begin(prompt, transition.state_hash, parent=ParentLink(record.trajectory_id, action.turn + 1, "rewrite"))
        self._extend(following.spans)

    def _following(self, result: StepResult) -> _Following:
        if result.terminated:
            return _Following((), len(self.context))
        found = self.codec.extend(self.context, self.messages, result.observation.messages)
        self.messages.extend(result.observation.messages)
        spans, before = (found.spans, 0) if isinstance(found, PrefixBreak) else (found, len(self.context))
        cause = found.cause if isinstance(found, PrefixBreak) else None
        return _Following(spans, before + sum(len(span.token_ids) for span in spans), cause)

    async def _transition(self, turn: int, result: StepResult, following: _Following) -> TransitionRecord:
        exhausted = None if result.terminated else self._exhausted(turn, following.length)
        truncated = result.truncated or exhausted is not None
        handed_off = following.rewritten is not None and not truncated
        rewards = {name: self._reward(value, f"reward_components[{name!r}]") for name, value in result.rewards.items()}
        cause, blame = following.rewritten if handed_off else result.cause or exhausted, None
        if result.terminated or truncated:
            failure, blame = await self._score(rewards)
            cause = failure or cause
        return TransitionRecord(
            turn,
            None,
            rewards,
            terminated=result.terminated,
            truncated=truncated,
            handed_off=handed_off,
            state_hash=await self.bounded.state_hash(),
            results=result.results,
            # a rewritten conversation is no continuation of this record's row
            observation=following.spans if following.rewritten is None else () if handed_off else _NOTHING,
            cause=cause,
            blame=blame,
        )

    async def _score(self, rewards: dict[str, float | None]) -> tuple[str | None, Blame | None]:
        """Add the verifier's components; if it fails, those that training needs are unscored, and it is said why."""
        try:
            if self.facts.canary:
                rewards[CANARY] = 1.0
            scored = await self.bounded.score()
            rewards.update({name: self._reward(value, name) for name, value in scored.items()})
            if missing := [name for name in self.facts.reward_names if name not in rewards]:
                raise checks.fail(RecordError, "score", f"name {', '.join(missing)}", f"{', '.join(rewards) or 'nothing'}")
            if isinstance(scored, Scores) and scored.causes and None in map(rewards.get, self.facts.reward_names):
                return cause_of("score", VerifierError("; ".join(scored.causes.values()))), "infrastructure"
        except Exception as error:  # noqa: BLE001 - a verifier that fails says nothing about the answer
            rewards.update(dict.fromkeys(self.facts.reward_names))
            return cause_of("score", error), "infrastructure"
        return None, None

    def _reward(self, value: object, name: str) -> float | None:
        """Refuse what is no reward, and what is too large to be one."""
        reward, most = plain.reward(value, name), self.limits.max_reward
        if reward is not None and abs(reward) > most:
            raise checks.fail(
                RecordError, name, f"lie within ±{most:g}", plain.shown(value), fix="a larger one needs collect.max_reward"
            )
        return reward

    def _exhausted(self, turn: int, length: int) -> str | None:
        if length >= self.limits.context_window:
            return "context window used up"
        return "turn budget used up" if turn + 1 == self.limits.max_turns else None
