"""An engine that says what it is told, environments that answer what they are told, and the small codec they share."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from rosellm.roserlhf.codec.hf import build_tokenizer, marker_codec
from rosellm.roserlhf.codec.markers import MarkerCodec
from rosellm.roserlhf.codec.protocol import BreakCause, Codec, PrefixBreak, Spans
from rosellm.roserlhf.engine.protocol import Ack, Chunk, Engine, PolicyHandle, Request
from rosellm.roserlhf.environment.protocol import Capabilities, Environment, Observation, StepResult, Task, ToolRunner
from rosellm.roserlhf.environment.tools import ToolSet, tool, tools_of
from rosellm.roserlhf.rollout.collect import Planned, collect, plan
from rosellm.roserlhf.rollout.episode import EpisodeKey, Facts, Limits, run_episode
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure, TokenSpan, Trajectory

_T = TypeVar("_T")
TASK = Task("task-1", {"goal": [1, 2]})
KEY = EpisodeKey(run="run", seed=7, purpose="train", step=3, member=0)
LIMITS = Limits(max_turns=4, max_turn_tokens=40, context_window=400, temperature=1.0)
FACTS = Facts(environment_version="echo-1")


def run(work: Coroutine[Any, Any, _T]) -> _T:
    return asyncio.run(work)


class Echo:
    """Implements the seam itself, without the base class: prompt `abcdefg`, answers `ok`, ends when told `end(…)`.

    `replies` are the observations by turn; `rewards` what the verifier says; a name in `broken` is a method that raises.
    """

    def __init__(self, *, prompt: str = "abcdefg", replies: Sequence[str] = (), rewards: Any = None, broken: str = "") -> None:
        self.prompt, self.replies, self.broken = prompt, replies, broken
        self.rewards: Any = {"correct": 1.0} if rewards is None else rewards
        self.seen: list[ParsedAction | ParseFailure] = []
        self.seed = 0
        self.closed = 0
        self.tools: ToolSet = tools_of(self)

    capabilities = Capabilities(instant=True)

    def fail(self, method: str) -> None:
        if self.broken == method:
            raise OSError(f"no {method}\nfor you")

    @tool
    def end(self, answer: str) -> str:
        self.fail("tool")
        return f"ended with {answer}"

    def start(self, task: Task, seed: int) -> Observation | Awaitable[Observation]:
        self.fail("start")
        self.seed = seed
        return Observation((Message("user", self.prompt),))

    async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
        self.seen.append(action)
        self.fail("step")
        results = tuple([await run.call(call, ()) for call in action.calls]) if isinstance(action, ParsedAction) else ()
        over = bool(results) and all(result.status == "ok" for result in results)
        text = (self.replies[len(self.seen) - 1 :] or ["ok"])[0]
        return StepResult(Observation((Message("tool", text),)), results, terminated=over, cause="asked to" if over else None)

    def state_key(self) -> Hashable | None:
        self.fail("state_key")
        return len(self.seen)

    def score(self) -> Mapping[str, float | None] | Awaitable[Mapping[str, float | None]]:
        self.fail("score")
        return self.rewards  # type: ignore[no-any-return]

    def close(self) -> Awaitable[None] | None:
        self.closed += 1
        self.fail("close")
        return None


def chunk(ids: Sequence[int], version: str = "v1", stop_reason: str | None = "stop", logprob: float = -0.5) -> Chunk:
    return Chunk(tuple(ids), (logprob,) * len(ids), version, stop_reason)


class FakeEngine:
    """Gives the chunks that `speak(request)` returns, one event-loop turn each, and keeps the requests."""

    def __init__(self, speak: Callable[[Request], Iterable[Chunk]]) -> None:
        self.speak = speak
        self.requests: list[Request] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.in_flight, self.most_in_flight)
        try:
            for part in self.speak(request):
                await asyncio.sleep(0)
                yield part
        finally:
            self.in_flight -= 1

    async def publish(self, policy: PolicyHandle) -> Ack:
        return Ack(policy.version)


def turn_of(request: Request) -> int:
    turn = request.stream[-1]
    assert isinstance(turn, int)
    return turn


def says(codec: MarkerCodec, *lines: str) -> FakeEngine:
    """Speak one line a turn, the last one for ever, cut where the request says so."""

    def speak(request: Request) -> list[Chunk]:
        ids = codec.reply(lines[min(turn_of(request), len(lines) - 1)])
        room = request.sampling.max_tokens
        return [chunk(ids[:room], stop_reason="stop" if len(ids) <= room else "length")]

    return FakeEngine(speak)


def codec_of(environment: Environment, *pieces: str) -> MarkerCodec:
    return marker_codec(build_tokenizer(pieces), environment.tools.schemas())


CODEC = codec_of(Echo())


def play(
    environment: Environment,
    engine: Engine,
    *,
    codec: Codec = CODEC,
    task: Task = TASK,
    key: EpisodeKey = KEY,
    facts: Facts = FACTS,
    **limits: Any,
) -> Trajectory:
    """Run one episode that leaves one record; `limits` change single budgets."""
    (record,) = play_records(environment, engine, codec=codec, task=task, key=key, facts=facts, **limits)
    return record


def play_records(
    environment: Environment,
    engine: Engine,
    *,
    codec: Codec = CODEC,
    task: Task = TASK,
    key: EpisodeKey = KEY,
    facts: Facts = FACTS,
    **limits: Any,
) -> tuple[Trajectory, ...]:
    """Run one episode and return all its records."""
    budgets = dataclasses.replace(LIMITS, **limits)
    return run(run_episode(environment, codec, engine, task, key=key, limits=budgets, facts=facts))


def play_together(
    new_environment: Callable[[], Environment], engine: Engine, tasks: Sequence[Task], *, members: int, codec: MarkerCodec = CODEC
) -> tuple[list[Planned], list[Trajectory]]:
    planned = plan(tasks, members=members, run="run", seed=7, purpose="train", step=3)
    return planned, run(collect(new_environment, codec, engine, planned, limits=LIMITS, facts=FACTS))


def ids_before_each_action(trajectory: Trajectory) -> tuple[list[list[int]], list[int]]:
    """Lay a root record out by hand: what stood before each action, and the whole."""
    ids: list[int] = []
    for span in trajectory.prompt:
        assert isinstance(span, TokenSpan)
        ids += span.token_ids
    before = []
    for action, transition in zip(trajectory.actions, trajectory.transitions, strict=True):
        before.append(list(ids))
        ids += action.token_ids
        for span in transition.observation:
            ids += span.token_ids
    return before, ids


class Breaking:
    """The marker format over a template that, after the replies of the turns in `breaks`, writes the whole conversation anew.

    `retold` is what it makes of an assistant's text then; None leaves every id as it is, so the break changes nothing but records.
    """

    def __init__(
        self,
        inner: MarkerCodec,
        breaks: Collection[int],
        *,
        retold: Callable[[str], str] | None = None,
        cause: BreakCause = "reasoning stripped",
    ) -> None:
        self.inner, self.breaks, self.retold, self.cause = inner, breaks, retold, cause
        self.stop_ids, self.tokenizer_hash = inner.stop_ids, inner.tokenizer_hash

    def for_tools(self, tools: Sequence[Mapping[str, Any]]) -> Breaking:
        return Breaking(self.inner.for_tools(tools), self.breaks, retold=self.retold, cause=self.cause)

    def render(self, messages: Sequence[Message]) -> Spans:
        return self.inner.render(messages)

    def extend(
        self, context_ids: Sequence[int], messages: Sequence[Message], new_messages: Sequence[Message]
    ) -> Spans | PrefixBreak:
        following = self.inner.extend(context_ids, messages, new_messages)
        if sum(message.role == "assistant" for message in messages) - 1 not in self.breaks:
            return following
        if self.retold is None:
            spans: Spans = (TokenSpan(context_ids, "conversation"), *following)
        else:
            told = [Message(m.role, self.retold(m.content)) if m.role == "assistant" else m for m in messages]
            spans = self.inner.render([*told, *new_messages])
        ids = [token for span in spans for token in span.token_ids]
        pairs = zip(context_ids, ids, strict=False)
        position = next((i for i, (one, other) in enumerate(pairs) if one != other), len(context_ids))
        return PrefixBreak(position, self.text(context_ids[position:]), self.text(ids[position:]), self.cause, spans)

    def parse(self, token_ids: Sequence[int]) -> ParsedAction | ParseFailure:
        return self.inner.parse(token_ids)

    def reply(self, text: str) -> tuple[int, ...]:
        return self.inner.reply(text)

    def reply_text(self, token_ids: Sequence[int]) -> str:
        return self.inner.reply_text(token_ids)

    def text(self, token_ids: Sequence[int]) -> str:
        return self.inner.text(token_ids)
