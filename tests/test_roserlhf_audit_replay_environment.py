"""Episodes played again: an environment that is the same says so, and whatever changed is named where it first shows."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import json
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from loop_tampering import of_trajectory, rewrite
from loop_worlds import Lookup, tiny
from rollout_fakes import CODEC, FACTS, KEY, LIMITS, TASK, Echo, says

from rosellm.roserlhf.audit import EnvironmentReplay, replay_environment
from rosellm.roserlhf.audit.rerun.environment import SAMPLE
from rosellm.roserlhf.audit.rerun.episode import EpisodeRerun, RecordedRunner
from rosellm.roserlhf.batching.rollout import Rollout, rollouts_of
from rosellm.roserlhf.cli import main
from rosellm.roserlhf.codec.protocol import PrefixBreak
from rosellm.roserlhf.environment.protocol import Capabilities, Task
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.errors import ConfigError, RangeError, RunFolderError
from rosellm.roserlhf.rollout.episode import run_episode
from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.trainer.run import train
from rosellm.roserlhf.trajectory import Message, ToolCall, ToolResult, Trajectory


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 2 steps with 16 demonstrations, 24 episodes to train on and some evaluations."""
    folder = tmp_path_factory.mktemp("played") / "run"
    train(tiny(steps=2, evaluate={"tasks": 4, "every": 0}), out=folder)
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def named(kind: type[Lookup]) -> type[Lookup]:
    """Let a changed class pass as the one of the run: its name is part of every task's hash."""
    kind.__name__ = kind.__qualname__ = "Lookup"
    return kind


def records(folder: Path, **wanted: Any) -> list[Trajectory]:
    with EventLog.read(folder / "events.db") as log:
        return [one.trajectory for one in log.trajectories(**wanted)]


# ---- the same environment


def test_every_episode_of_a_run_is_the_same_again(made: Path) -> None:
    found = replay_environment(made, every=True)
    assert found.equal, found.first
    stored = records(made)
    turns = sum(len(one.transitions) for one in stored)
    assert (found.episodes, found.stored, found.environment) == (len(stored), len(stored), "loop_worlds:Lookup")
    assert found.compared["state hash"] == turns + len(stored)  # and before the first action
    assert found.compared["prompt"] == len(stored)
    assert found.compared["observation"] == sum(bool(t.observation) for one in stored for t in one.transitions)
    assert found.compared["tool result"] == sum(len(t.results) for one in stored for t in one.transitions)
    assert found.compared["reward correct"] == sum("correct" in t.reward_components for one in stored for t in one.transitions)
    harness = sum(result.origin == "harness" for one in stored for t in one.transitions for result in t.results)
    assert found.incomparable == ({"a tool result that guard or harness wrote": harness} if harness else {})


def test_a_sample_is_spread_over_the_log_and_choices_are_narrower(made: Path) -> None:
    told: list[int] = []
    sample = replay_environment(made, on_progress=lambda progress: told.append(progress.step))
    assert sample.episodes == SAMPLE < sample.stored
    assert told == list(range(SAMPLE))
    step = records(made, phase="train", step=2)
    assert replay_environment(made, step=2).episodes == len(step)
    one = replay_environment(made, trajectory_id=step[3].trajectory_id)
    assert (one.episodes, one.equal) == (1, True)
    assert one.compared["ending"] == len(step[3].transitions)


def test_an_environment_of_ones_own_need_not_be_importable(tmp_path: Path) -> None:
    @named
    class Own(Lookup):
        pass

    train(tiny(steps=1, warm_start={"max_steps": 0}, evaluate={"tasks": 1, "every": 0}), environment=Own, out=tmp_path / "run")
    assert replay_environment(tmp_path / "run", environment=Own).equal


# ---- another environment


def changed(made: Path, kind: type[Lookup]) -> tuple[str, Any, Any, int | None]:
    found = replay_environment(made, every=True, environment=named(kind))
    assert not found.equal
    assert found.first is not None
    assert found.first.trajectory_id
    return found.first.quantity, found.first.recorded, found.first.recomputed, found.first.turn


def test_another_prompt_is_named(made: Path) -> None:
    class Changed(Lookup):
        def prompt(self) -> str:
            return super().prompt() + "?"

    class Unspeakable(Lookup):
        def prompt(self) -> str:
            return "Ziffer für"

    assert "the codec raised RangeError: text must be covered by the vocabulary, got 'ü'" in changed(made, Unspeakable)[2]
    quantity, recorded, recomputed, turn = changed(made, Changed)
    assert (quantity, turn) == ("prompt", None)
    assert recomputed == recorded.replace("<end>", "?<end>")


def test_another_tool_result_is_named_with_its_turn(made: Path) -> None:
    class Changed(Lookup):
        def reset(self) -> None:
            super().reset()
            self.task = Task(self.task.task_id, {**self.task.payload, "digit": (self.task.payload["digit"] + 1) % 10})

    found = replay_environment(made, every=True, environment=named(Changed))
    one = next(one for one in found.differences if one.quantity == "tool result")
    record = next(record for record in records(made) if record.trajectory_id == one.trajectory_id)
    assert one.turn is not None
    assert one.recorded in [result.content for result in record.transitions[one.turn].results]
    assert int(one.recomputed) == (int(one.recorded) + 1) % 10
    assert str(one).startswith(f"step {one.step}, trajectory {one.trajectory_id!r}, turn {one.turn}: tool result recorded as ")


def test_another_observation_reward_ending_or_state_is_named(made: Path) -> None:
    class Wordy(Lookup):
        async def step(self, action: Any, run: Any) -> Any:
            result = await super().step(action, run)
            said = dataclasses.replace(result.observation, messages=(*result.observation.messages, Message("tool", "!")))
            return dataclasses.replace(result, observation=said)

    class Generous(Lookup):
        def score(self) -> Mapping[str, float | None]:
            return {**super().score(), "correct": 1.0}

    class Silent(Lookup):
        def score(self) -> Mapping[str, float | None]:
            return {"correct": super().score()["correct"]}

    class Endless(Lookup):
        def finish(self) -> None:
            pass

    class Elsewhere(Lookup):
        def state_key(self) -> str:
            return "here"

    class Broken(Lookup):
        async def step(self, action: Any, run: Any) -> Any:
            raise OSError("no disk")

    assert changed(made, Wordy)[0] == "observation"
    assert changed(made, Generous)[:3] == ("reward correct", 0.0, 1.0)
    assert changed(made, Silent)[0::2][:2] == ("reward parity", "not named")
    assert changed(made, Endless)[:3] in [("ending", "terminated", "goes on"), ("reward correct", 1.0, "not named")]
    assert changed(made, Elsewhere)[::3] == ("state hash", None)
    assert changed(made, Broken) == ("step", "went well", "step raised OSError: no disk", 0)


def test_other_tasks_and_versions_are_named(made: Path) -> None:
    class Fewer(Lookup):
        @staticmethod
        def make_task(rng: random.Random) -> Mapping[str, Any]:
            return {**Lookup.make_task(rng), "letter": "a"}

    class Newer(Lookup):
        version: ClassVar[str] = "2"

    with pytest.MonkeyPatch.context() as patch:
        for module in ("environment", "tasks"):
            patch.setattr(f"rosellm.roserlhf.audit.rerun.{module}.MOST_DRAWS", 200)
        assert changed(made, Fewer)[::2] == ("task", "not among 200 draws of its stream")
    assert changed(made, Newer)[:3] == ("environment version", "Lookup-1", "Lookup-2")


def test_an_edited_record_is_named(run: Path) -> None:
    one = records(run, phase="train")[5]

    def edited(trajectory: Trajectory) -> Trajectory:
        turns = list(trajectory.transitions)
        turns[-1] = dataclasses.replace(turns[-1], reward_components={**turns[-1].reward_components, "correct": 7.0})
        return with_transitions(trajectory, turns)

    rewrite(run, of_trajectory(one.trajectory_id, edited))
    found = replay_environment(run, every=True)
    assert len(found.differences) == 1
    assert found.first is not None
    assert (found.first.trajectory_id, found.first.quantity, found.first.recorded) == (one.trajectory_id, "reward correct", 7.0)


def with_transitions(trajectory: Trajectory, turns: list[Any]) -> Trajectory:
    names = [f.name for f in dataclasses.fields(trajectory) if f.init and f.name not in ("actions", "transitions", "sealed")]
    fresh = Trajectory(**{name: getattr(trajectory, name) for name in names if name != "failure"})
    for action, transition in zip(trajectory.actions, turns, strict=True):
        fresh.append(action, transition)
    return fresh


# ---- what is taken from the record, and what cannot be compared


def test_results_of_guard_and_harness_are_taken_from_the_record() -> None:
    taken: collections.Counter[str] = collections.Counter()
    environment = Lookup()
    environment.start(Lookup.task_from({"letter": "a", "digit": 4, "noise": 1}), 0)
    runner = RecordedRunner(DirectRunner(environment.tools), taken)
    blocked = ToolResult("call-0", "blocked", "no", "guard", attempts=0)
    runner.expect([blocked, ToolResult("call-1", "ok", "recorded")])
    calls = [ToolCall(name, "look", {"letter": "a"}) for name in ("call-0", "call-1")]
    results = [asyncio.run(runner.call(call, ())) for call in calls]
    assert results[0] is blocked
    assert (results[1].content, results[1].origin) == ("4", "environment")
    assert taken == {"a tool result that guard or harness wrote": 1}


def test_what_the_infrastructure_broke_is_neither_equal_nor_different(tmp_path: Path) -> None:
    class Flaky(Lookup):
        def score(self) -> Mapping[str, float | None]:
            if self.task.payload["digit"] % 2:
                raise OSError("no grader")
            return super().score()

    class Mended(Lookup):
        pass

    options: dict[str, Any] = {"steps": 1, "warm_start": {"max_steps": 0}, "evaluate": {"tasks": 1, "every": 0}}
    train(tiny(**options, max_failed_share=1.0, collect={"tasks": 6}), environment=named(Flaky), out=tmp_path / "run")
    found = replay_environment(tmp_path / "run", every=True, environment=named(Mended))
    assert found.equal
    assert found.incomparable["a score whose verifier failed"] > 0


# ---- episodes of several records


class Rewriting:
    """A codec whose template shows the first three characters of earlier replies only."""

    stop_ids, tokenizer_hash = CODEC.stop_ids, CODEC.tokenizer_hash

    def for_tools(self, tools: Any) -> Rewriting:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(CODEC, name)

    def extend(self, context_ids: Any, messages: Any, new_messages: Any) -> PrefixBreak:
        said = [Message(m.role, m.content[:3]) if m.role == "assistant" else m for m in messages]
        spans = CODEC.render((*said, *new_messages))
        ids = [i for span in spans for i in span.token_ids]
        place = next(i for i, (one, other) in enumerate(zip(ids, context_ids, strict=False)) if one != other)
        return PrefixBreak(place, "", "", "reasoning stripped", spans)


def rewritten() -> Rollout:
    engine = says(CODEC, "first thoughts", "second thoughts", "end(4)")
    codec: Any = Rewriting()
    work = run_episode(Echo(), codec, engine, TASK, key=KEY, limits=LIMITS, facts=FACTS)
    (rollout,) = rollouts_of(asyncio.run(work))
    assert [record.parent and record.parent.kind for record in rollout.records] == [None, "rewrite", "rewrite"]
    return rollout


def again(rollout: Rollout, environment: Echo, codec: Any) -> tuple[EpisodeRerun, Any]:
    rerun = EpisodeRerun(environment, codec, LIMITS)
    return rerun, asyncio.run(rerun.run(rollout, TASK, 3))


def test_an_episode_goes_on_where_the_template_rewrote_it() -> None:
    rollout = rewritten()
    environment = Echo()
    rerun, found = again(rollout, environment, Rewriting())
    assert found is None
    assert (rerun.compared["prompt"], rerun.compared["rewriting"], environment.closed) == (3, 2, 1)
    _, other = again(rollout, Echo(replies=["ok", "oh"]), Rewriting())
    assert (other.quantity, other.turn, other.trajectory_id) == ("prompt", 1, rollout.records[1].trajectory_id)
    _, plain = again(rollout, Echo(), CODEC)
    assert (plain.quantity, plain.recorded, plain.recomputed) == ("rewriting", "reasoning stripped", None)


def test_ids_of_another_tokenizer_are_not_compared_and_all_else_is() -> None:
    rerun, found = again(rewritten(), Echo(), None)
    assert found is None
    assert rerun.incomparable == {"ids of another tokenizer": 1}
    assert rerun.compared["tool result"] == 1
    assert "prompt" not in rerun.compared
    _, other = again(rewritten(), Echo(rewards={"correct": 0.5}), None)
    assert (other.quantity, other.recorded, other.recomputed, other.turn) == ("reward correct", 1.0, 0.5, 2)


# ---- refusals, and the command


def test_an_environment_that_promises_nothing_is_refused(made: Path) -> None:
    class Chancy(Lookup):
        capabilities = Capabilities(replayable=False)

    message = "environment must promise that its episodes can be replayed, got Chancy, whose capabilities say replayable=False"
    with pytest.raises(ConfigError, match=message):
        replay_environment(made, environment=Chancy)


def test_wrong_choices_are_refused(made: Path, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"run must be a run folder, which holds run\.toml"):
        replay_environment(tmp_path)
    with pytest.raises(RangeError, match="got 9; the run has made steps 1 to 2"):
        replay_environment(made, step=9)
    with pytest.raises(RangeError, match="trajectory_id must name one of the"):
        replay_environment(made, trajectory_id="nobody")
    with pytest.raises(RangeError, match="episodes must be chosen in one way"):
        replay_environment(made, step=1, every=True)


def test_the_command_says_what_was_compared(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.json"
    assert main(["replay", str(made), "--environment", "--step", "2", "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "records' episodes played again in loop_worlds:Lookup" in printed
    assert printed.endswith("equal\n")
    told = json.loads(out.read_text())
    assert (told["equal"], told["episodes"], told["differences"]) == (True, 12, [])
    assert main(["replay", str(made), "--environment", "--all"]) == 0
    assert main(["replay", str(made), "--environment", "--record", records(made)[0].trajectory_id]) == 0


def test_the_command_names_the_first_difference(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    score = Lookup.score
    monkeypatch.setattr(Lookup, "score", lambda self: {**score(self), "\x1b[31m": 1.0})
    assert main(["replay", str(run), "--environment"]) == 1
    printed = capsys.readouterr().out
    assert f"{SAMPLE} episodes differ; the first difference: step " in printed
    assert "[31m recorded as 'not named', recomputed as 1.0" in printed
    assert "\x1b" not in printed


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--record", "x"], "--record must come with --environment, got none"),
        (["--all"], "--all must come with --environment, got none"),
        (["--environment", "--step", "9"], "step must be a training step that was made, got 9; the run has made steps 1 to 2"),
        (["--environment", "--all", "--record", "x"], "episodes must be chosen in one way"),
        ([], "--step must be given, got none; it is the training step to compute again; --environment plays episodes again"),
    ],
)
def test_a_wrong_call_is_2(made: Path, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(made), *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_nothing_compared_is_not_called_equal() -> None:
    from rosellm.roserlhf.cli import replay as command

    class Heard:
        lines: ClassVar[list[str]] = []

        def print(self, line: Any) -> None:
            self.lines.append(str(line))

    command.show_episodes(Heard(), EnvironmentReplay(Path("r"), "shop", 0, 0, {}, {}))  # type: ignore[arg-type]
    assert Heard.lines[-1] == "nothing could be compared"
