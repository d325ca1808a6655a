"""Every wait has a limit, and what hangs, lies or babbles is recorded with its blame while the other episodes go on."""

from __future__ import annotations

import asyncio
import math
import threading
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping
from typing import Any

import pytest
from rollout_fakes import CODEC, FACTS, LIMITS, TASK, Breaking, Echo, FakeEngine, chunk, play, run, says

from rosellm.roserlhf.batching.credit import group_rows, total_reward
from rosellm.roserlhf.batching.rollout import rollouts_of
from rosellm.roserlhf.batching.scored import PerGroup
from rosellm.roserlhf.codec.protocol import Spans
from rosellm.roserlhf.credit.group import leave_one_out_advantages
from rosellm.roserlhf.engine.protocol import Ack, Chunk, PolicyHandle, Request
from rosellm.roserlhf.environment.protocol import Capabilities, Observation, StepResult, Task, ToolRunner
from rosellm.roserlhf.environment.tools import tool
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.rollout.collect import collect, plan
from rosellm.roserlhf.rollout.limits import Limits
from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.trainer.success import failures_of
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure, TokenSpan, Trajectory

SOON = 0.05
"""Seconds that a method of these tests has."""
RELEASE = threading.Event()


@pytest.fixture(autouse=True)
def _release() -> Iterator[None]:
    """Let the threads that a test left behind end with it."""
    RELEASE.clear()
    yield
    RELEASE.set()


class Slow(Echo):
    """Plain methods that may block; the one named in `stuck` does not return."""

    capabilities = Capabilities()

    def __init__(self, stuck: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.stuck = stuck

    def wait(self, method: str) -> None:
        if self.stuck == method:
            RELEASE.wait(30)

    def start(self, task: Task, seed: int) -> Observation | Awaitable[Observation]:
        self.wait("start")
        return super().start(task, seed)

    def state_key(self) -> Hashable | None:
        self.wait("state_key")
        return super().state_key()

    def score(self) -> Mapping[str, float | None] | Awaitable[Mapping[str, float | None]]:
        self.wait("score")
        return super().score()

    def close(self) -> Awaitable[None] | None:
        self.wait("close")
        return super().close()


class SlowStep(Slow):
    def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:  # type: ignore[override]
        self.seen.append(action)
        self.wait("step")
        return StepResult(Observation((Message("tool", "ok"),)), terminated=True)


def brief(environment: Echo, engine: Any = None, **limits: Any) -> Trajectory:
    """Play an episode whose every wait is short; what is told on the way is not looked at."""
    short = {"environment_timeout": SOON, "score_timeout": SOON, "close_timeout": SOON, "reply_timeout": SOON, **limits}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return play(environment, engine or says(CODEC, "end(x)"), **short)


@pytest.mark.parametrize("method", ["start", "state_key"])
def test_an_environment_that_does_not_begin_is_unscored(method: str) -> None:
    episode = brief(Slow(method))
    assert episode.failure is not None
    assert (episode.failure.blame, episode.failure.cause) == ("infrastructure", f"{method} took longer than 0.05 s")
    assert (episode.actions, episode.is_unscored) == ((), True)


def test_a_step_that_hangs_keeps_what_was_sampled_and_is_unscored() -> None:
    episode = brief(SlowStep("step"))
    assert [CODEC.text(action.token_ids) for action in episode.actions] == ["end(x)<end>"]
    assert episode.failure is not None
    assert (episode.failure.blame, episode.failure.cause) == ("infrastructure", "step took longer than 0.05 s")


def test_a_verifier_that_hangs_leaves_the_episode_unscored_but_ended() -> None:
    episode = brief(Slow("score"))
    end = episode.transitions[-1]
    assert (end.terminated, end.blame, end.cause) == (True, "infrastructure", "score took longer than 0.05 s")
    assert dict(end.reward_components) == {"correct": None}


def test_a_close_that_hangs_is_told_and_costs_no_record() -> None:
    with pytest.warns(RuntimeWarning, match="Slow: close took longer than 0.05 s; 1 threads are left behind by now"):
        episode = play(Slow("close"), says(CODEC, "end(x)"), close_timeout=SOON)
    assert episode.reward_totals() == {"correct": 1.0}


def test_an_environment_that_hangs_is_still_closed_in_another_thread() -> None:
    environment = SlowStep("step")
    brief(environment)
    assert environment.closed == 1


def test_plain_methods_run_in_threads_and_one_at_a_time() -> None:
    names: list[str] = []

    class Curious(Slow):
        def wait(self, method: str) -> None:
            names.append(f"{method} {threading.current_thread() is threading.main_thread()}")

    play(Curious(), says(CODEC, "end(x)"))
    assert names == ["start False", "state_key False", "score False", "state_key False", "close False"]


def test_an_instant_environment_pays_for_no_thread() -> None:
    threads: list[bool] = []

    class Instant(Slow):
        capabilities = Capabilities(instant=True)

        def wait(self, method: str) -> None:
            threads.append(threading.current_thread() is threading.main_thread())

    play(Instant(), says(CODEC, "end(x)"))
    assert threads == [True] * 5


def test_a_hang_stops_nobody_else() -> None:
    made: list[SlowStep] = []

    def new() -> SlowStep:
        made.append(SlowStep("step" if len(made) == 1 else ""))
        return made[-1]

    planned = plan([TASK], members=4, run="run", seed=7, purpose="train", step=3)
    limits = Limits(max_turns=4, max_turn_tokens=40, context_window=400, temperature=1.0, environment_timeout=0.7)
    with pytest.warns(RuntimeWarning, match="SlowStep: step took longer than 0.7 s"):
        records = run(collect(new, CODEC, says(CODEC, "end(x)"), planned, limits=limits, facts=FACTS))
    assert [record.is_unscored for record in records] == [False, True, False, False]


def test_async_methods_are_cancelled_when_their_time_is_up() -> None:
    ended: list[str] = []

    class Waiting(Slow):
        async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
            try:
                await asyncio.sleep(30)
            finally:
                ended.append("cancelled")
            raise AssertionError

    for capabilities in (Capabilities(), Capabilities(instant=True)):
        environment = Waiting()
        environment.capabilities = capabilities
        episode = brief(environment)
        assert episode.failure is not None
        assert episode.failure.cause == "step took longer than 0.05 s"
    assert ended == ["cancelled"] * 2


def test_an_async_method_that_refuses_to_be_cancelled_is_left_behind() -> None:
    class Stubborn(Slow):
        async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
            for _ in range(2):
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    continue
            raise AssertionError

    started = time.monotonic()
    episode = brief(Stubborn())
    assert episode.failure is not None
    assert episode.failure.cause == "step took longer than 0.05 s"
    assert time.monotonic() - started < 10


def test_a_timeout_of_the_environments_own_is_its_own() -> None:
    class Impatient(Slow):
        def start(self, task: Task, seed: int) -> Observation:
            raise TimeoutError("no answer from the simulator")

    failure = play(Impatient(), says(CODEC, "a")).failure
    assert failure is not None
    assert failure.cause == "start raised TimeoutError: no answer from the simulator"


ENDING = [SystemExit(3), StopIteration("over"), GeneratorExit(), asyncio.CancelledError()]


@pytest.mark.parametrize("instant", [False, True])
@pytest.mark.parametrize("error", ENDING, ids=lambda error: type(error).__name__)
def test_what_would_end_the_loop_ends_one_episode(error: BaseException, instant: bool) -> None:
    class Leaving(Slow):
        capabilities = Capabilities(instant=instant)

        def score(self) -> Mapping[str, float | None]:
            raise error

    end = play(Leaving(), says(CODEC, "end(x)")).transitions[-1]
    assert end.cause == f"score raised RuntimeError: {type(error).__name__} was raised"


@pytest.mark.parametrize("instant", [False, True])
@pytest.mark.parametrize(
    ("error", "what"), [(SystemExit(3), "SystemExit was raised"), (asyncio.CancelledError(), "it cancelled itself")]
)
def test_what_an_async_method_would_end_is_one_episode_too(error: BaseException, what: str, instant: bool) -> None:
    class Leaving(Slow):
        capabilities = Capabilities(instant=instant)

        async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
            raise error

    failure = play(Leaving(), says(CODEC, "end(x)")).failure
    assert failure is not None
    assert failure.cause == f"step raised RuntimeError: {what}"


def test_a_tool_that_never_returns_ends_with_its_step() -> None:
    class Stuck(Slow):
        @tool
        async def end(self, answer: str) -> str:  # type: ignore[override]
            await asyncio.sleep(30)
            return ""

    episode = brief(Stuck())
    assert episode.failure is not None
    assert (episode.failure.blame, episode.failure.cause) == ("infrastructure", "step took longer than 0.05 s")


# -- the engine


class SlowEngine:
    """Gives its chunks, then nothing any more."""

    def __init__(self, *chunks: Chunk) -> None:
        self.chunks, self.closed = chunks, 0

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        try:
            for part in self.chunks:
                yield part
            await asyncio.sleep(30)
        finally:
            self.closed += 1

    async def publish(self, policy: PolicyHandle) -> Ack:
        return Ack(policy.version)


def test_an_engine_that_says_nothing_in_time_leaves_a_failure() -> None:
    engine, environment = SlowEngine(), Echo()
    episode = brief(environment, engine)
    assert episode.failure is not None
    assert (episode.failure.blame, episode.failure.cause) == ("infrastructure", "reply of the engine took longer than 0.05 s")
    assert (episode.actions, engine.closed, environment.closed) == ((), 1, 1)


def test_what_an_engine_said_before_it_hung_is_kept_and_not_trained() -> None:
    ids = CODEC.reply("end(x)")[:3]
    episode = brief(Echo(), SlowEngine(chunk(ids, stop_reason=None)))
    assert [(action.token_ids, action.stop_reason) for action in episode.actions] == [(ids, "interrupted")]
    assert (episode.transitions, episode.is_unscored) == ((), True)
    (row,) = group_rows([episode], [None], PerGroup(leave_one_out_advantages), drop_uniform=True)
    assert (row.sampled, row.excluded) == (3, {"unscored": 3})


def test_a_timeout_of_the_engines_own_is_raised() -> None:
    def speak(request: Request) -> list[Chunk]:
        raise TimeoutError("the server is gone")

    with pytest.raises(TimeoutError, match="the server is gone"):
        brief(Echo(), FakeEngine(speak))


# -- R58: two graders fail, the group goes on without them


def test_R58_a_grader_that_raises_and_one_that_hangs() -> None:
    kinds: Iterator[Callable[[], Any]] = iter(
        [lambda: {"correct": 1.0}, lambda: 1 / 0, lambda: RELEASE.wait(30), lambda: {"correct": 0.0}]
    )

    class Graded(Slow):
        def __init__(self) -> None:
            super().__init__()
            self.verdict = next(kinds)

        def score(self) -> Mapping[str, float | None]:
            return self.verdict()  # type: ignore[no-any-return]

    planned = plan([TASK], members=4, run="run", seed=7, purpose="train", step=3)
    limits = Limits(max_turns=4, max_turn_tokens=40, context_window=400, temperature=1.0, score_timeout=1.0)
    with pytest.warns(RuntimeWarning, match="Graded: score took longer than 1 s"):
        records = run(collect(Graded, CODEC, says(CODEC, "end(x)"), planned, limits=limits, facts=FACTS))
    assert [record.is_unscored for record in records] == [False, True, True, False]
    rollouts = rollouts_of(records)
    rewards = [total_reward(rollout, {"correct": 1.0}) for rollout in rollouts]
    assert rewards == [1.0, None, None, 0.0]
    rows = group_rows(rollouts, rewards, PerGroup(leave_one_out_advantages), drop_uniform=True)
    assert [row.advantage for row in rows] == [1.0, None, None, -1.0]  # statistics of two: 1 − 0 and 0 − 1
    causes = {"score raised ZeroDivisionError: division by zero": 1, "score took longer than 1 s": 1}
    assert dict(failures_of(rollouts)) == causes


# -- bad input


@pytest.mark.parametrize(
    ("lie", "cause"),
    [
        (math.nan, "correct must be a finite number, got nan (float); None means not scored"),
        (math.inf, "correct must be a finite number, got inf (float); None means not scored"),
        ("1.0", "correct must be a finite number, got '1.0' (str); None means not scored"),
        (1e9, "correct must lie within ±1e+06, got 1000000000.0 (float); a larger one needs collect.max_reward"),
        (-1e9, "correct must lie within ±1e+06, got -1000000000.0 (float); a larger one needs collect.max_reward"),
    ],
)
def test_a_verifier_that_lies_is_refused(lie: Any, cause: str) -> None:
    episode = play(Echo(rewards={"correct": lie}), says(CODEC, "end(x)"))
    end = episode.transitions[-1]
    assert (end.terminated, end.blame, end.cause) == (True, "infrastructure", f"score raised RecordError: {cause}")
    assert dict(end.reward_components) == {"correct": None}
    assert play(Echo(rewards={"correct": 2e6}), says(CODEC, "end(x)"), max_reward=3e6).reward_totals() == {"correct": 2e6}


def test_the_context_overflows_before_inside_and_after_a_turn() -> None:
    # prompt <user> a b c d e f g <end> <assistant> = 10; a turn says hm<end> = 3 and hears <tool> o k <end> <assistant> = 5
    before = play(Echo(), says(CODEC, "hm"), context_window=10)
    assert before.failure is not None
    assert (before.failure.blame, before.failure.cause, before.actions) == (
        "environment",
        "the prompt fills the context window; raise context_window",
        (),
    )
    # 10 + 3 + 5 = 18, so of a reply in a window of 20 two tokens are left
    inside = play(Echo(), says(CODEC, "hm"), context_window=20)
    assert [(action.stop_reason, len(action.token_ids)) for action in inside.actions] == [("stop", 3), ("length", 2)]
    assert (inside.ending, inside.transitions[-1].cause) == ("truncated", "context window used up")
    after = play(Echo(), says(CODEC, "hm"), context_window=18)
    assert [len(action.token_ids) for action in after.actions] == [3]
    assert (after.ending, after.transitions[-1].cause) == ("truncated", "context window used up")
    for episode in (inside, after):
        (row,) = rollouts_of([episode])[0].rows()
        assert row.trained == episode.sampled_tokens  # earlier turns are trainable


def test_a_megabyte_of_observation_ends_the_episode_and_nothing_else(tmp_path: Any) -> None:
    class ByByte(Breaking):
        def extend(self, context_ids: Any, messages: Any, new_messages: Any) -> Spans:
            return (TokenSpan(list(new_messages[0].content.encode()), "tool"),)

        def for_tools(self, tools: Any) -> ByByte:
            return self

    episode = play(Echo(replies=["x" * 1_000_000]), says(CODEC, "hm", "end(x)"), codec=ByByte(CODEC, ()))
    assert (episode.ending, episode.transitions[-1].cause) == ("truncated", "context window used up")
    assert episode.reward_totals() == {"correct": 1.0}
    (row,) = rollouts_of([episode])[0].rows()
    assert len(row.token_ids) == 10 + len(CODEC.reply("hm"))  # the row ends with what was sampled
    with EventLog.create(tmp_path / "events.db") as log:
        log.append_trajectory(episode, step=1, phase="train")
        assert next(iter(log.trajectories())).trajectory == episode


@pytest.mark.parametrize("text", ["\ud800", "ok \udfff ok", b"\xff\xfe".decode("utf-8", "surrogateescape")])
def test_text_that_is_no_text_is_the_surroundings_fault_and_is_recorded(text: str, tmp_path: Any) -> None:
    episode = play(Echo(replies=[text]), says(CODEC, "hm", "end(x)"))
    assert episode.failure is not None
    assert episode.failure.blame == "infrastructure"
    assert episode.failure.cause.startswith("step raised ")
    episode.failure.cause.encode("utf-8")
    assert play(Echo(prompt=text), says(CODEC, "hm")).is_unscored
    with EventLog.create(tmp_path / "events.db") as log:
        log.append_trajectory(episode, step=1, phase="train")


def test_nothing_to_say_is_no_fault() -> None:
    class Mute(Echo):
        async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
            self.seen.append(action)
            return StepResult(Observation(()), terminated=len(self.seen) == 2)

    episode = play(Mute(prompt=""), says(CODEC, "hm"))
    assert CODEC.text([t for span in episode.prompt for t in span.token_ids]) == "<user><end><assistant>"  # type: ignore[union-attr]
    assert [CODEC.text([t for s in one.observation for t in s.token_ids]) for one in episode.transitions] == ["<assistant>", ""]
    assert episode.reward_totals() == {"correct": 1.0}


def test_a_prompt_without_a_token_is_the_environments_failure() -> None:
    class Silent:
        def __getattr__(self, name: str) -> Any:
            return getattr(CODEC, name)

        def for_tools(self, tools: Any) -> Any:
            return self

        def render(self, messages: Any) -> Any:
            return ()

    failure = play(Echo(), says(CODEC, "hm"), codec=Silent()).failure
    assert failure is not None
    assert (failure.blame, failure.cause) == ("environment", "the prompt is empty")


@pytest.mark.parametrize("name", ["environment_timeout", "score_timeout", "close_timeout", "reply_timeout", "max_reward"])
def test_limits_are_above_nothing(name: str) -> None:
    with pytest.raises(RangeError, match=rf"{name} must be in \(0, inf\), got 0"):
        Limits(max_turns=1, max_turn_tokens=1, context_window=8, temperature=1.0, **{name: 0})
    assert getattr(LIMITS, name) > 0
