"""One stored episode against its environment: `recorded actions → the environment's answers once more → the first difference`.

No model is asked: the parsed actions are those of the record. What the harness wrote is taken from it, too; what the environment
wrote is made again, and the guard, where there was one, decides again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rosellm.roserlhf.audit.rerun.comparison import Difference
from rosellm.roserlhf.audit.rerun.guard import RecordedJudge, decision
from rosellm.roserlhf.batching.rollout import Rollout
from rosellm.roserlhf.codec.protocol import Codec, PrefixBreak, Spans
from rosellm.roserlhf.environment.protocol import Environment, StepResult, Task, ToolRunner
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.guard.episodes import guarding
from rosellm.roserlhf.guard.guard import Guard, GuardedRunner
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.rollout.bounded import BoundedEnvironment, cause_of
from rosellm.roserlhf.rollout.episode import CANARY
from rosellm.roserlhf.rollout.limits import Limits
from rosellm.roserlhf.rollout.rewrite import rewritten_prompt
from rosellm.roserlhf.trajectory import (
    CopySpan,
    Message,
    ParsedAction,
    ParseFailure,
    PolicyAction,
    TokenSpan,
    ToolCall,
    ToolResult,
    Trajectory,
    TransitionRecord,
)

LIMITS = ("turn budget used up", "context window used up")
"""Causes of an end that the loop decided, not the environment."""
SHOWN = 300
"""Characters of a text in a difference."""


class RecordedRunner:
    """Executes calls, but answers those that guard or harness answered as they did, and counts them."""

    def __init__(self, runner: ToolRunner, taken: Counter[str]) -> None:
        self._runner, self._taken = runner, taken
        self._recorded: Mapping[str, ToolResult] = {}

    def expect(self, results: Sequence[ToolResult]) -> None:
        """Say what the calls of the next action led to."""
        self._recorded = {result.call_id: result for result in results if result.origin != "environment"}

    async def call(self, call: ToolCall, history: Sequence[ToolResult]) -> ToolResult:
        """Answer one call."""
        if (recorded := self._recorded.get(call.call_id)) is not None:
            self._taken["a tool result that guard or harness wrote"] += 1
            return recorded
        return await self._runner.call(call, history)


class DiffersError(Exception):
    """Something is not as it was recorded."""

    def __init__(self, quantity: str, recorded: Any, recomputed: Any) -> None:
        super().__init__(quantity, recorded, recomputed)
        self.quantity, self.recorded, self.recomputed = quantity, recorded, recomputed


@dataclass
class EpisodeRerun:
    """Plays one stored episode again.

    Args:
        environment: a fresh instance.
        codec: of the run; None if another tokenizer made the record, whose ids cannot be compared then.
        limits: seconds of every wait.
        guard: of the run, its judge that of the replay; None: nothing stood in front of the tools, or it is not to decide again.
        judge: of that guard, which is told what the record says.
        canary: whether the loop marked the episode as one on a canary.
    """

    environment: Environment
    codec: Codec | None
    limits: Limits
    guard: Guard | None = None
    judge: RecordedJudge | None = None
    canary: bool = False
    compared: Counter[str] = field(default_factory=Counter)
    """Values that were compared, by quantity; what belongs to a tool result or an ending counts with it."""
    incomparable: Counter[str] = field(default_factory=Counter)
    """Values that could not be, by reason."""
    _turn: int | None = None
    _record: Trajectory | None = None
    _messages: list[Message] = field(default_factory=list)
    _context: list[int] = field(default_factory=list)

    async def run(self, rollout: Rollout, task: Task, step: int) -> Difference | None:
        """Return the first difference, None if there is none; the environment is closed in the end."""
        bounded = BoundedEnvironment(self.environment, self.limits)
        self._record = rollout.root
        try:
            await self._play(bounded, rollout, task)
        except DiffersError as found:
            record = self._record.trajectory_id
            return Difference(step, found.quantity, found.recorded, found.recomputed, trajectory_id=record, turn=self._turn)
        finally:
            await bounded.close()
        return None

    async def _play(self, bounded: BoundedEnvironment, rollout: Rollout, task: Task) -> None:
        root = rollout.root
        if not root.actions:
            self.incomparable["an episode without an action"] += 1
            return
        try:
            observation = await bounded.start(task, int(root.seeds["environment"]))
            state = await bounded.state_hash()
        except Exception as error:
            raise DiffersError("start", "went well", cause_of("start", error)) from error
        self._same("state hash", root.initial_state_hash, state)
        self._start_context(observation.messages)
        try:
            rendered = self._rendered(observation.messages)
        except Exception as error:
            raise DiffersError("prompt", self._text(root.prompt), cause_of("the codec", error)) from error
        self._same_spans("prompt", root.prompt, rendered)
        recorded = RecordedRunner(DirectRunner(self.environment.tools), self.incomparable)
        try:
            runner = recorded if self.guard is None else guarding(self.guard)(self.environment, recorded)
        except Exception as error:
            raise DiffersError("setting of the guard", "went well", cause_of("task_setting", error)) from error
        for number, record in enumerate(rollout.records):
            self._record = record
            following = rollout.records[number + 1] if number + 1 < len(rollout.records) else None
            for action, transition in zip(record.actions, record.transitions, strict=False):
                self._turn = action.turn
                recorded.expect(transition.results)
                if self.judge is not None:
                    self.judge.expect(transition.results)
                if not await self._step(bounded, runner, action, transition, following):
                    return
            if len(record.actions) > len(record.transitions):
                self.incomparable["an action that was cut"] += 1

    async def _step(
        self,
        bounded: BoundedEnvironment,
        runner: RecordedRunner | GuardedRunner,
        action: PolicyAction,
        transition: TransitionRecord,
        following: Trajectory | None,
    ) -> bool:
        """Take one recorded action; return whether the episode goes on."""
        parsed = action.parsed_action
        if not isinstance(parsed, (ParsedAction, ParseFailure)):
            self.incomparable["an action that was not recorded in parsed form"] += 1
            return False
        ended = transition.terminated or transition.truncated
        if transition.blame == "infrastructure" and not ended:
            self.incomparable["a turn at which the infrastructure failed"] += 1
            return False
        try:
            if isinstance(runner, GuardedRunner) and isinstance(parsed, ParsedAction):
                runner.hear(parsed.content)
            result = await bounded.step(parsed, runner)
            if isinstance(runner, GuardedRunner):
                result = runner.after(result)
        except Exception as error:
            raise DiffersError("step", "went well", cause_of("step", error)) from error
        self._same_results(transition.results, result.results)
        self._same_observation(action, transition, result, following)
        await self._same_rewards(bounded, transition, result)
        self._same_ending(transition, result)
        self._same("state hash", transition.state_hash, await bounded.state_hash())
        return not ended

    def _same_results(self, recorded: Sequence[ToolResult], recomputed: Sequence[ToolResult]) -> None:
        self._same("number of tool results", len(recorded), len(recomputed), counts=False)
        for was, now in zip(recorded, recomputed, strict=True):
            if self.guard is not None:
                self._same("decision of the guard", decision(was), decision(now))
            for name in ("call_id", "status", "origin"):
                self._same(f"{name} of the tool result", getattr(was, name), getattr(now, name), counts=False)
            self._same("tool result", was.content, now.content)

    def _same_observation(
        self, action: PolicyAction, transition: TransitionRecord, result: StepResult, following: Trajectory | None
    ) -> None:
        """Hold the ids of what the policy was shown against those that the codec makes of the environment's messages."""
        if self.codec is None or result.terminated or transition.terminated:
            return
        self._context.extend(action.token_ids)
        self._messages.append(Message("assistant", self.codec.reply_text(action.token_ids)))
        try:
            found = self.codec.extend(self._context, self._messages, result.observation.messages)
        except Exception as error:
            raise DiffersError("observation", self._text(transition.observation), cause_of("the codec", error)) from error
        self._messages.extend(result.observation.messages)
        if not isinstance(found, PrefixBreak):
            self._same("rewriting", transition.cause if transition.handed_off else None, None)
            self._same_spans("observation", transition.observation, found)
            self._context.extend(i for span in found for i in span.token_ids)
        elif transition.truncated:  # nobody was shown it
            self.incomparable["an observation that nobody was shown"] += 1
        else:
            self._same("rewriting", transition.cause if transition.handed_off else None, found.cause)
            assert self._record is not None
            if following is not None:
                now = rewritten_prompt(self._record.trajectory_id, self._context, found.spans)
                self._same_spans("prompt", following.prompt, now)
            self._context[:] = [i for span in found.spans for i in span.token_ids]

    async def _same_rewards(self, bounded: BoundedEnvironment, transition: TransitionRecord, result: StepResult) -> None:
        now: dict[str, Any] = dict(result.rewards)
        if transition.terminated or transition.truncated:
            if transition.blame == "infrastructure":
                self.incomparable["a score whose verifier failed"] += 1
                return
            if self.canary:
                now[CANARY] = 1.0
            try:
                now.update(await bounded.score())
            except Exception as error:
                raise DiffersError("reward", dict(transition.reward_components), cause_of("score", error)) from error
        recorded = transition.reward_components
        for name in dict.fromkeys([*recorded, *now]):
            self._same(f"reward {name}", recorded.get(name, "not named"), _number(now.get(name, "not named")))

    def _same_ending(self, transition: TransitionRecord, result: StepResult) -> None:
        was = "terminated" if transition.terminated else "truncated" if transition.truncated else "goes on"
        now = "terminated" if result.terminated else "truncated" if result.truncated else "goes on"
        if was == "truncated" and now == "goes on" and (transition.cause in LIMITS or transition.blame is not None):
            now = was  # the loop's own doing
        self._same("ending", was, now)
        if transition.blame is None and not transition.handed_off and transition.cause not in LIMITS:
            self._same("cause of the ending", transition.cause, result.cause, counts=False)

    def _start_context(self, messages: Sequence[Message]) -> None:
        if self.codec is not None:
            self.codec = self.codec.for_tools(self.environment.tools.schemas())
            self._messages.extend(messages)

    def _rendered(self, messages: Sequence[Message]) -> Spans:
        if self.codec is None:
            self.incomparable["ids of another tokenizer"] += 1
            return ()
        spans = self.codec.render(messages)
        self._context.extend(i for span in spans for i in span.token_ids)
        return spans

    def _same_spans(
        self, quantity: str, recorded: Sequence[TokenSpan | CopySpan], recomputed: Sequence[TokenSpan | CopySpan]
    ) -> None:
        if self.codec is None:
            return
        self.compared[quantity] += 1
        if tuple(recorded) == tuple(recomputed):
            return
        was, now = (self._text(spans) for spans in (recorded, recomputed))
        if was == now:
            was, now = str(list(recorded))[:SHOWN], str(list(recomputed))[:SHOWN]
        raise DiffersError(quantity, was, now)

    def _text(self, spans: Sequence[TokenSpan | CopySpan]) -> str:
        assert self.codec is not None
        ids = [i for span in spans if isinstance(span, TokenSpan) for i in span.token_ids]
        return self.codec.text(ids)[:SHOWN]

    def _same(self, quantity: str, recorded: Any, recomputed: Any, *, counts: bool = True) -> None:
        if counts:
            self.compared[quantity] += 1
        if type(recorded) is type(recomputed) and recorded == recomputed:
            return
        raise DiffersError(quantity, _short(recorded), _short(recomputed))


def _number(value: Any) -> Any:
    """Take a reward as the record does."""
    number = plain.native(value)
    return float(number) if isinstance(number, (bool, int, float)) else number


def _short(value: Any) -> Any:
    return f"{value[:SHOWN]}…" if isinstance(value, str) and len(value) > SHOWN else value
