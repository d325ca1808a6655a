"""The episode loop: exact ids, budgets, every way to end, and whose fault a failure is."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pytest
from rollout_fakes import (
    CODEC,
    FACTS,
    KEY,
    LIMITS,
    TASK,
    Echo,
    FakeEngine,
    chunk,
    ids_before_each_action,
    play,
    play_together,
    run,
    says,
)

from rosellm.roserlhf.batching.credit import group_rows, total_reward
from rosellm.roserlhf.batching.rows import row_of
from rosellm.roserlhf.batching.scored import PerGroup
from rosellm.roserlhf.credit.group import leave_one_out_advantages
from rosellm.roserlhf.engine.protocol import Chunk, Request
from rosellm.roserlhf.environment.protocol import Environment, Observation, StepResult, Task, ToolRunner
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.tools import ToolSet
from rosellm.roserlhf.errors import RangeError, RecordError
from rosellm.roserlhf.rollout.episode import Facts, Limits, run_episode
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure, ToolCall, ToolResult

END = CODEC.stop_ids[0]


def test_what_the_engine_sees_is_what_is_recorded() -> None:
    engine = says(CODEC, "first", "second", "end(x)")
    episode = play(Echo(replies=["one", "two"]), engine)
    before, whole = ids_before_each_action(episode)
    assert [list(request.prompt_ids) for request in engine.requests] == before
    assert [CODEC.text(action.token_ids) for action in episode.actions] == ["first<end>", "second<end>", "end(x)<end>"]
    assert CODEC.text(whole) == (
        "<user>abcdefg<end><assistant>first<end><tool>one<end><assistant>second<end><tool>two<end><assistant>end(x)<end>"
    )
    assert episode.ending == "terminated"
    assert episode.transitions[-1].observation == ()  # nothing follows, so nothing is kept


def test_only_sampled_tokens_carry_the_mask() -> None:
    row = row_of(play(Echo(replies=["no"]), says(CODEC, "a", "end(x)")))
    sampled = [token for token, mask in zip(row.token_ids, row.policy_mask, strict=True) if mask]
    assert CODEC.text(sampled) == "a<end>end(x)<end>"
    assert CODEC.text(row.token_ids) == "<user>abcdefg<end><assistant>a<end><tool>no<end><assistant>end(x)<end>"


def test_R47_the_window_is_shared_by_all_turns() -> None:
    # window 16: prompt <user> a b c d e f g <end> <assistant> = 10; action a ( ) <end> = 4; observation <tool> o k <end>
    # <assistant> = 5
    engine = says(CODEC, "a()")
    episode = play(Echo(), engine, context_window=16, max_turn_tokens=8)
    assert [request.sampling.max_tokens for request in engine.requests] == [6]  # 16 − 10, not 8; turn 2 (19 > 16) never starts
    assert len(ids_before_each_action(episode)[1]) == 10 + 4 + 5
    assert (episode.ending, episode.transitions[0].cause) == ("truncated", "context window used up")
    assert episode.transitions[0].observation != ()  # the value of the state that was cut off may be asked for
    assert episode.reward_totals() == {"correct": 1.0}  # scored as it stands
    assert not episode.is_unscored


def test_R47_a_reply_cut_by_the_limit_is_marked_length_not_malformed() -> None:
    environment = Echo()
    episode = play(environment, says(CODEC, "a long reply", "end(x)"), max_turn_tokens=7)
    cut = episode.actions[0]
    assert (cut.stop_reason, len(cut.token_ids), cut.sampling and cut.sampling.max_tokens) == ("length", 7, 7)
    assert isinstance(cut.parsed_action, ParseFailure)
    assert cut.parsed_action.cut
    assert environment.seen[0] == cut.parsed_action
    # the end marker that closes it is context, not the policy's
    closing = episode.transitions[0].observation[0]
    assert (closing.token_ids, closing.role, closing.content_mask) == ((END,), "assistant", (False,))
    assert row_of(episode).sampled == 7 + len(CODEC.reply("end(x)"))


def test_R47_an_episode_that_finished_keeps_its_reward_however_long_it_is() -> None:
    # prompt 10 + end(x)<end> 7 = 17 tokens in a window of 17: full, and over; the check of the window comes too late to matter
    episode = play(Echo(), says(CODEC, "end(x)"), context_window=17)
    assert (episode.ending, episode.transitions[0].cause) == ("terminated", "asked to")
    assert episode.reward_totals() == {"correct": 1.0}


def test_the_turn_budget_truncates() -> None:
    episode = play(Echo(), says(CODEC, "hm"), max_turns=3)
    assert [t.ending for t in episode.transitions] == [None, None, "truncated"]
    assert episode.transitions[-1].cause == "turn budget used up"
    assert [t.reward_components for t in episode.transitions] == [{}, {}, {"correct": 1.0}]


def test_the_environments_own_limit_truncates_and_is_scored() -> None:
    class Impatient(Echo):
        async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
            return dataclasses.replace(await super().step(action, run), truncated=True, cause="closing time")

    episode = play(Impatient(), says(CODEC, "hm"))
    assert (episode.ending, episode.transitions[-1].cause) == ("truncated", "closing time")
    assert episode.reward_totals() == {"correct": 1.0}


def test_rewards_of_steps_and_of_the_verifier_stand_side_by_side() -> None:
    class Paid(Echo):
        async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
            return dataclasses.replace(await super().step(action, run), rewards={"wage": 0.25})

    episode = play(Paid(rewards={"correct": None, "style": 2}), says(CODEC, "hm", "end(x)"))
    assert episode.reward_totals() == {"wage": 0.5, "correct": None, "style": 2.0}
    assert not episode.is_unscored  # the verifier said of its own accord that it cannot tell


def test_a_prompt_that_fills_the_window_is_the_environments_failure() -> None:
    engine = says(CODEC, "a")
    environment = Echo()
    episode = play(environment, engine, context_window=10)
    assert (engine.requests, episode.actions) == ([], ())
    assert episode.failure is not None
    assert (episode.failure.blame, episode.failure.cause) == (
        "environment",
        "the prompt fills the context window; raise context_window",
    )
    assert environment.closed == 1


@pytest.mark.parametrize("method", ["start", "state_key"])
def test_an_episode_that_cannot_begin_is_unscored(method: str) -> None:
    environment, engine = Echo(broken=method), says(CODEC, "a")
    episode = play(environment, engine)
    assert (engine.requests, episode.actions, episode.prompt) == ([], (), ())
    assert episode.failure is not None
    assert (episode.failure.blame, episode.failure.cause) == ("infrastructure", f"start raised OSError: no {method} for you")
    assert (episode.is_unscored, episode.sealed, environment.closed) == (True, True, 1)


class Odd(Echo):
    """Breaks the seam in one way or another."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> Any:
        return self.answer


SHOWN = Observation((Message("tool", "ok"),))
BROKEN: dict[str, tuple[Callable[[], Echo], str]] = {
    "step raises": (lambda: Echo(broken="step"), "step raised OSError: no step for you"),
    "a tool raises": (lambda: Echo(broken="tool"), "step raised OSError: no tool for you"),
    "no result": (lambda: Odd(None), "step raised AttributeError: 'NoneType' object has no attribute 'terminated'"),
    "text without a token": (
        lambda: Odd(StepResult(Observation((Message("tool", "naïve"),)))),
        "step raised RangeError: text must be covered by the vocabulary, got 'ï'",
    ),
    "an unknown role": (
        lambda: Odd(StepResult(Observation((Message("wizard", "ok"),)))),
        "step raised RangeError: message.role must be one of system, user, assistant, tool, got 'wizard'",
    ),
    "a reward that is NaN": (
        lambda: Odd(StepResult(SHOWN, rewards={"wage": math.nan})),
        "step raised RecordError: reward_components['wage'] must be a finite number, got nan (float)",
    ),
    "two ends at once": (
        lambda: Odd(StepResult(SHOWN, terminated=True, truncated=True)),
        "step raised RecordError: turn 0 must end in at most one way, got terminated and truncated",
    ),
    "an answer to no call": (
        lambda: Odd(StepResult(SHOWN, (ToolResult("call-9"),))),
        "step raised RecordError: trajectory 'run/train/3/task-1/0': results must answer calls of the action, got call_id 'call-9'",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_environment_is_recorded_where_it_broke(case: str) -> None:
    new, cause = BROKEN[case]
    environment = new()
    engine = says(CODEC, "end(x)")
    episode = play(environment, engine)
    assert [CODEC.text(action.token_ids) for action in episode.actions] == ["end(x)<end>"]  # sampled tokens are never lost
    assert episode.failure is not None
    assert episode.failure.blame == episode.transitions[0].blame == "infrastructure"
    assert episode.failure.cause == episode.transitions[0].cause
    assert episode.failure.cause.startswith(cause)
    assert "\n" not in episode.failure.cause
    assert (episode.ending, episode.is_unscored, environment.closed, len(engine.requests)) == (None, True, 1, 1)
    assert total_reward(episode, {"correct": 1.0}) is None


def test_a_long_message_of_an_exception_is_cut() -> None:
    class Chatty(Echo):
        def start(self, task: Task, seed: int) -> Observation:
            raise ValueError("word " * 1000)

    failure = play(Chatty(), says(CODEC, "a")).failure
    assert failure is not None
    assert len(failure.cause) == 200


def test_R58_a_grader_that_raises_is_not_a_zero() -> None:
    scores: Iterator[float | OSError] = iter([1.0, OSError("sandbox gone"), 0.0, 1.0])

    class Graded(Echo):
        def score(self) -> Mapping[str, float | None]:
            value = next(scores)
            if isinstance(value, float):
                return {"correct": value}
            raise value

    _, episodes = play_together(Graded, says(CODEC, "end(x)"), [TASK], members=4)
    assert [episode.ending for episode in episodes] == ["terminated"] * 4  # the episode itself went well
    assert [episode.is_unscored for episode in episodes] == [False, True, False, False]
    failed = episodes[1].transitions[-1]
    assert (failed.blame, failed.cause) == ("infrastructure", "score raised OSError: sandbox gone")
    assert dict(failed.reward_components) == {"correct": None}
    rewards = [total_reward(episode, {"correct": 1.0}) for episode in episodes]
    assert rewards == [1.0, None, 0.0, 1.0]
    rows = group_rows(episodes, rewards, PerGroup(leave_one_out_advantages), drop_uniform=True)
    # three scored members: 1 − (0+1)/2, 0 − (1+1)/2, 1 − (1+0)/2
    assert [row.advantage for row in rows] == [0.5, None, -1.0, 0.5]
    assert rows[1].excluded == {"unscored": rows[1].sampled}


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        ({"correct": math.nan}, "correct must be a finite number, got nan (float); None means not scored"),
        ({"correct": math.inf}, "correct must be a finite number, got inf (float); None means not scored"),
        ({"correct": "1"}, "correct must be a finite number, got '1' (str); None means not scored"),
        ({"correct": [1.0]}, "correct must be a finite number, got [1.0] (list); None means not scored"),
        ({"style": 1.0}, "score must name correct, got style"),
        ({}, "score must name correct, got nothing"),
    ],
)
def test_R56_a_reward_that_is_no_number_is_unscored_and_says_why(answer: dict[str, Any], cause: str) -> None:
    episode = play(Echo(rewards=answer), says(CODEC, "end(x)"))
    end = episode.transitions[-1]
    assert (end.terminated, end.blame, end.cause) == (True, "infrastructure", f"score raised RecordError: {cause}")
    assert end.reward_components["correct"] is None
    assert total_reward(episode, {"correct": 1.0}) is None


@pytest.mark.parametrize("value", [True, 1, np.float32(1), np.int64(1), np.bool_(True)])
def test_R56_bools_and_numpy_numbers_are_rewards(value: Any) -> None:
    assert play(Echo(rewards={"correct": value}), says(CODEC, "end(x)")).reward_totals() == {"correct": 1.0}


def test_a_verifier_that_returns_no_mapping_is_unscored() -> None:
    episode = play(Echo(rewards=1.0), says(CODEC, "end(x)"))
    assert episode.transitions[-1].cause == "score raised AttributeError: 'float' object has no attribute 'items'"
    assert episode.is_unscored


def test_every_component_that_training_needs_is_noted_as_unscored() -> None:
    facts = Facts(environment_version="e", reward_names=("correct", "style"))
    episode = play(Echo(broken="score"), says(CODEC, "end(x)"), facts=facts)
    assert dict(episode.transitions[-1].reward_components) == {"correct": None, "style": None}


class Asynchronous(Echo):
    def start(self, task: Task, seed: int) -> Awaitable[Observation]:
        async def begin() -> Observation:
            await asyncio.sleep(0)
            return Observation((Message("user", self.prompt),))

        return begin()

    def score(self) -> Awaitable[Mapping[str, float | None]]:
        async def judge() -> Mapping[str, float | None]:
            await asyncio.sleep(0)
            return {"correct": 1.0}

        return judge()

    def close(self) -> Awaitable[None]:
        async def shut() -> None:
            await asyncio.sleep(0)
            self.closed += 1

        return shut()


class Plain:
    """Every method of the seam without `async`."""

    tools = ToolSet()
    capabilities = Echo.capabilities

    def __init__(self) -> None:
        self.closed = 0

    def start(self, task: Task, seed: int) -> Observation:
        return Observation((Message("user", "abcdefg"),))

    def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
        return StepResult(Observation(()), terminated=True)

    def state_key(self) -> Hashable | None:
        return None

    def score(self) -> dict[str, float | None]:
        return {"correct": 1.0}

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("environment", [Asynchronous(), Plain()], ids=["async", "plain"])
def test_methods_of_an_environment_may_be_plain_or_async(environment: Asynchronous | Plain) -> None:
    episode = play(environment, says(CODEC, "end(x)"))
    assert (episode.ending, episode.reward_totals(), environment.closed) == ("terminated", {"correct": 1.0}, 1)


def test_states_are_named_before_and_after_each_action() -> None:
    episode = play(Echo(), says(CODEC, "hm", "hm", "end(x)"))
    names = [episode.initial_state_hash, *(t.state_hash for t in episode.transitions)]
    assert len(set(names)) == 4
    assert None not in names
    again = play(Echo(), says(CODEC, "hm", "hm", "end(x)"))
    assert names == [again.initial_state_hash, *(t.state_hash for t in again.transitions)]
    stateless = play(Plain(), says(CODEC, "hm"))
    assert stateless.initial_state_hash is stateless.transitions[0].state_hash is None


def test_a_close_that_raises_is_told_and_costs_no_record() -> None:
    environment = Echo(broken="close")
    with pytest.warns(RuntimeWarning, match="Echo: close raised OSError: no close for you"):
        episode = play(environment, says(CODEC, "end(x)"))
    assert (episode.ending, environment.closed) == ("terminated", 1)


def test_an_engine_that_raises_stops_the_run_and_closes_the_environment() -> None:
    def speak(request: Request) -> list[Chunk]:
        raise RuntimeError("out of memory")

    environment = Echo()
    with pytest.raises(RuntimeError, match="out of memory"):
        play(environment, FakeEngine(speak))
    assert environment.closed == 1


def test_a_cancelled_episode_closes_its_environment() -> None:
    environment = Echo()

    async def cancel() -> None:
        forever = FakeEngine(lambda request: repeat(chunk([5], stop_reason=None)))
        episode = asyncio.create_task(run_episode(environment, CODEC, forever, TASK, key=KEY, limits=LIMITS, facts=FACTS))
        await asyncio.sleep(0.01)
        episode.cancel()
        with pytest.raises(asyncio.CancelledError):
            await episode

    run(cancel())
    assert environment.closed == 1


def speaking(*chunks: Chunk) -> FakeEngine:
    return FakeEngine(lambda request: chunks)


def test_R42_a_swap_of_weights_within_an_action_makes_version_spans() -> None:
    ids = CODEC.reply("end(x)")  # 7 tokens: 3 by v7 in two chunks, 4 by v8; chunks without tokens say nothing
    parts = [
        chunk(ids[:1], "v7", None),
        chunk(ids[1:3], "v7", None),
        chunk([], "v8", None),
        chunk(ids[3:], "v8", None, logprob=-0.25),
        chunk([], "v9", "stop"),
    ]
    action = play(Echo(), speaking(*parts)).actions[0]
    assert action.token_ids == ids
    assert action.old_logprobs == (-0.5,) * 3 + (-0.25,) * 4
    assert [(span.start, span.end, span.version) for span in action.version_spans] == [(0, 3, "v7"), (3, 7, "v8")]
    assert (action.policy_version, action.stop_reason) == ("v7", "stop")  # the oldest


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([chunk([])], "an engine must sample at least one token, got none"),
        ([chunk([5, END], stop_reason=None)], "stop_reason must be 'stop' or 'length' in an engine's last chunk, got None"),
        ([chunk([5, END], stop_reason="eos")], "stop_reason must be 'stop' or 'length' in an engine's last chunk, got 'eos'"),
    ],
)
def test_an_engine_that_breaks_its_contract_is_told(parts: list[Chunk], message: str) -> None:
    with pytest.raises(RecordError) as raised:
        play(Echo(), speaking(*parts))
    assert str(raised.value) == f"trajectory 'run/train/3/task-1/0': {message}"


@pytest.mark.parametrize("missing", [math.nan, None])
def test_R13_a_missing_logprob_is_named_with_trajectory_turn_and_position(missing: Any) -> None:
    broken = Chunk((5, 6, END), (-0.7, missing, -0.2), "v1", "stop")
    with pytest.raises(RecordError, match=r"trajectory 'run/train/3/task-1/0': old_logprobs\[1\] of turn 0 must be a finite"):
        play(Echo(), speaking(broken))


def test_a_record_states_who_it_is() -> None:
    facts = Facts(environment_version="echo-1", group_id="g", hashes={"tokenizer": "t"}, trainable=False)
    environment = Echo()
    episode = play(environment, says(CODEC, "end(x)"), facts=facts)
    assert episode.trajectory_id == "run/train/3/task-1/0"
    assert (episode.run_id, episode.step, episode.member, episode.task_id) == ("run", 3, 0, "task-1")
    assert (episode.group_id, episode.environment_version, dict(episode.hashes)) == ("g", "echo-1", {"tokenizer": "t"})
    assert (episode.trainable, episode.tokenizer_hash) == (False, CODEC.tokenizer_hash)
    assert dict(episode.seeds) == {"run": 7, "environment": environment.seed}
    sampling = episode.actions[0].sampling
    assert sampling is not None
    assert (sampling.temperature, sampling.seed_key) == (1.0, (7, "train", 3, "task-1", 0, 0))
    episode.validate()


def test_no_two_episodes_share_a_stream() -> None:
    keys = [
        dataclasses.replace(KEY, seed=seed, purpose=purpose, step=step, member=member)
        for seed in (0, 1)
        for purpose in ("train", "evaluate-greedy")
        for step in (1, 11)
        for member in (1, 11)
    ]
    tasks = [Task("a", {}), Task("b", {})]
    streams = {key.stream(task, turn) for key in keys for task in tasks for turn in (0, 1)}
    assert len(streams) == len(keys) * 2 * 2
    seeds = {key.environment_seed(task) for key in keys for task in tasks}
    assert len(seeds) == len(keys) * 2
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert KEY.stream(TASK, 0) == dataclasses.replace(KEY, run="another").stream(TASK, 0)  # a name is no source of chance


def test_the_episode_can_be_made_again_alone() -> None:
    def speak(request: Request) -> list[Chunk]:
        digit = CODEC.reply(str(sum(map(ord, str(request.stream))) % 10))  # drawn from the stream
        return [chunk(digit if turn < 2 else CODEC.reply("end(x)"))] if isinstance(turn := request.stream[-1], int) else []

    tasks = [Task("a", {}), Task("b", {})]
    planned, together = play_together(Echo, FakeEngine(speak), tasks, members=3)
    for episode, trajectory in zip(planned, together, strict=True):
        facts = dataclasses.replace(FACTS, group_id=episode.group_id)
        alone = play(Echo(), FakeEngine(speak), task=episode.task, key=episode.key, facts=facts)
        assert alone.content_hash() == trajectory.content_hash()


def test_every_call_passes_through_the_one_runner_of_the_episode() -> None:
    made: list[Watcher] = []

    class Watcher:
        def __init__(self, tools: ToolSet) -> None:
            self.inner, self.calls = DirectRunner(tools), list[ToolCall]()
            made.append(self)

        async def call(self, call: ToolCall, history: Sequence[ToolResult]) -> ToolResult:
            self.calls.append(call)
            if len(self.calls) == 1:
                return ToolResult(call.call_id, "blocked", "not now", "guard")
            return await self.inner.call(call, history)

    environment: Environment = Echo()
    engine = says(CODEC, "end(x)")
    work = run_episode(environment, CODEC, engine, TASK, key=KEY, limits=LIMITS, facts=FACTS, new_runner=Watcher)
    (episode,) = run(work)
    assert len(made) == 1
    assert [call.name for call in made[0].calls] == ["end", "end"]
    assert [t.results[0].status for t in episode.transitions] == ["blocked", "ok"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_turns": 0}, "max_turns must be in [1, inf), got 0"),
        ({"max_turn_tokens": 0}, "max_turn_tokens must be in [1, inf), got 0"),
        ({"context_window": -1}, "context_window must be in [1, inf), got -1"),
        ({"temperature": math.inf}, "temperature must be in [0, inf), got inf"),
    ],
)
def test_budgets_are_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RangeError) as raised:
        Limits(**{**dataclasses.asdict(LIMITS), **change})
    assert str(raised.value) == message
