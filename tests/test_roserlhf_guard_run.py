"""A guarded run: calls are blocked while it learns, the law of counts holds, and everything follows from the records again."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from guard_fakes import HACK, SETTING, ScriptedJudge, marks
from guard_worlds import KEY, Peeking, guarded_recipe
from loop_worlds import lines, outcome, tiny
from rollout_fakes import CODEC, FACTS, LIMITS, TASK, Echo, FakeEngine, chunk, run

from rosellm.roserlhf.audit.explanation.explain import explain
from rosellm.roserlhf.audit.guard_scan import scan_run
from rosellm.roserlhf.audit.rerun.environment import replay_environment
from rosellm.roserlhf.audit.rerun.replay import replay
from rosellm.roserlhf.batching.credit import total_reward
from rosellm.roserlhf.batching.rows import Row, exclude_at
from rosellm.roserlhf.cli import main
from rosellm.roserlhf.engine.protocol import Chunk, Request
from rosellm.roserlhf.environment.protocol import Environment, ToolRunner
from rosellm.roserlhf.errors import ConfigError
from rosellm.roserlhf.guard.event import GuardEvent, event_of, events_of
from rosellm.roserlhf.guard.guard import Guard, GuardedRunner
from rosellm.roserlhf.guard.policy import CAUGHT, END_EPISODE, MASKED, PENALTY, RewardHandling
from rosellm.roserlhf.guard.token_spans import event_spans
from rosellm.roserlhf.guard.verdict import Case, Verdict
from rosellm.roserlhf.report.guard_section import Example, example_view
from rosellm.roserlhf.report.page import build_report
from rosellm.roserlhf.rollout.collect import collect, plan
from rosellm.roserlhf.store import EventLog, StoredTrajectory
from rosellm.roserlhf.trainer.evaluate import evaluate_run
from rosellm.roserlhf.trainer.guarding import FOLDER
from rosellm.roserlhf.trainer.run import train
from rosellm.roserlhf.trajectory import ParsedAction, ToolResult, Trajectory


def records(folder: Path, phase: str = "train") -> list[StoredTrajectory]:
    with EventLog.read(folder / "events.db") as log:
        return list(log.trajectories(phase=phase))


def caught(record: Trajectory) -> int:
    return sum(event.attempt for _, event in events_of(record))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(guarded_recipe(), out=tmp_path_factory.mktemp("guard") / "run").folder


def train_lines(folder: Path) -> list[dict[str, Any]]:
    return [line for line in lines(folder) if line["phase"] == "train"]


# ---- what happens


def test_every_call_for_the_key_is_blocked_and_no_other(finished: Path) -> None:
    seen: Counter[tuple[str, str, bool]] = Counter()
    for stored in [*records(finished), *records(finished, "evaluate-sampled"), *records(finished, "evaluate-greedy")]:
        for action, transition in zip(stored.trajectory.actions, stored.trajectory.transitions, strict=True):
            if isinstance(action.parsed_action, ParsedAction):
                for call, result in zip(action.parsed_action.calls, transition.results, strict=True):
                    seen[call.name, result.origin, event_of(result) is not None] += 1
                    if result.origin == "guard":
                        assert (result.status, result.content) == ("blocked", "no such file")
    assert seen.keys() == {("read_file", "guard", True), ("look", "environment", False), ("submit", "environment", False)}
    assert seen["read_file", "guard", True] > 10


def test_the_episode_goes_on_after_a_blocked_call(finished: Path) -> None:
    blocked = [one.trajectory for one in records(finished) if caught(one.trajectory)]
    assert blocked
    assert all(len(record.actions) > 1 and record.ending == "terminated" for record in blocked)


def test_metrics_count_calls_and_episodes(finished: Path) -> None:
    for line in train_lines(finished):
        step = [one.trajectory for one in records(finished) if one.step == line["step"]]
        events = [event for record in step for _, event in events_of(record)]
        guard = line["guard"]
        assert guard["suspicious"] == guard["blocked"] == len(events)
        assert guard["hack_rate"] == sum(caught(record) > 0 for record in step) / len(step)
        assert guard["by_rule"] == {"protected-read": len(events)}
        assert guard["judge_failures"] == 0
        assert line["guard_cost"]["calls"] >= len(events)


def test_canaries_are_counted_apart(finished: Path) -> None:
    line = next(line for line in train_lines(finished) if "canary" in line)
    step = [one.trajectory for one in records(finished) if one.step == line["step"]]
    canaries = [record for record in step if "canary" in record.reward_totals()]
    others = [record for record in step if "canary" not in record.reward_totals()]
    assert len(canaries) == line["canary"]["n"] > 0
    assert line["canary"]["attempt_rate"] == sum(caught(r) > 0 or r.reward_totals()["correct"] == 1 for r in canaries) / len(
        canaries
    )
    assert line["success"] == sum(record.reward_totals()["correct"] == 1 for record in others) / len(others)
    assert "canary" not in line["reward"]


def test_success_is_reported_with_and_without_blocked_episodes(finished: Path) -> None:
    summary = json.loads((finished / "summary.json").read_text())
    for when, step in (("success_before", 0), ("success_after", 2)):
        played = [one.trajectory for one in records(finished, "evaluate-sampled") if one.step == step]
        solvable = [record for record in played if "canary" not in record.reward_totals()]
        free = [record for record in solvable if not caught(record)]
        told = summary[when]
        assert told["n"] == len(solvable)
        assert told["guard"]["sampled"]["without_blocked"]["n"] == len(free)
        good = sum(record.reward_totals()["correct"] == 1 for record in free)
        assert told["guard"]["sampled"]["without_blocked"]["success"] == (good / len(free) if free else None)
    total = [line["guard"]["blocked"] for line in train_lines(finished)]
    assert summary["guard"]["blocked"] == sum(total)
    assert 0 < summary["guard"]["share_of_time"] < 1


def test_eval_is_guarded_too(finished: Path) -> None:
    found = evaluate_run(finished, tasks=6, samples=2)
    assert found["sampled"]["guard"]["blocked"] > 0
    assert found["sampled"]["guard"]["without_blocked"]["n"] < 12


# ---- it follows from the records again


def test_steps_and_episodes_are_replayed_and_the_guard_decides_again(finished: Path) -> None:
    assert replay(finished, step=2).equal
    found = replay_environment(finished, every=True)
    assert found.equal, found.first
    assert found.compared["decision of the guard"] > 40
    assert found.incomparable == {}


def test_a_decision_that_was_another_is_the_first_difference(finished: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(finished, copy)
    stored = next(one for one in records(copy) if caught(one.trajectory))
    record = stored.trajectory
    turns = []
    for transition in record.transitions:
        results = [_cleared(result) for result in transition.results]
        turns.append(dataclasses.replace(transition, results=results))
    (copy / "events.db").unlink()
    with EventLog.create(copy / "events.db") as log:
        log.append_trajectory(dataclasses.replace(record, transitions=turns, sealed=False), step=stored.step, phase="train")
    found = replay_environment(copy, every=True)
    assert found.first is not None
    assert found.first.quantity == "decision of the guard"
    assert (found.first.trajectory_id, found.first.turn) == (record.trajectory_id, 0)


def _cleared(result: Any) -> Any:
    event = event_of(result)
    if event is None:
        return result
    return dataclasses.replace(result, guard_event=dataclasses.replace(event, outcome="cleared", action="executed").encode())


def test_the_same_seed_gives_the_same_records_and_a_resumed_run_too(finished: Path, tmp_path: Path) -> None:
    stops = iter([True])
    again = train(guarded_recipe(checkpoint_every=1), out=tmp_path / "run", should_stop=lambda: next(stops, False))
    assert again.status == "interrupted"
    train(guarded_recipe(checkpoint_every=1), out=tmp_path / "run", resume=True)
    mine, theirs = outcome(tmp_path / "run"), outcome(finished)
    for found in (mine, theirs):
        for name in ("calls", "rules_seconds", "share_of_time"):
            found["summary"]["guard"].pop(name)
    assert mine["records"] == theirs["records"]
    assert mine["model"] == theirs["model"]
    assert mine["summary"] == theirs["summary"]


# ---- rewards, groups, masks


@pytest.mark.parametrize("reward", ["penalty", "zero", "exclude"])
def test_reward_handlings_keep_what_the_verifier_said(reward: str, tmp_path: Path) -> None:
    options = {"reward": reward, **({"penalty": 0.25} if reward == "penalty" else {})}
    folder = train(guarded_recipe(guard=options, steps=1, evaluate={"tasks": 2, "every": 0}), out=tmp_path / "run").folder
    with EventLog.read(folder / "events.db") as log:
        ends = {entry.attempt_id: entry for entry in log.ledger() if entry.state in ("trained", "rejected")}
    hacks = 0
    for stored in records(folder):
        record, end = stored.trajectory, ends[stored.trajectory.trajectory_id]
        said = record.reward_totals()
        honest = said["correct"] + 0.5 * said["parity"]  # type: ignore[operator]
        hacks += bool(caught(record))
        wanted = {"penalty": honest - 0.25 * caught(record), "zero": 0.0 if caught(record) else honest, "exclude": honest}[reward]
        assert end.detail["reward"] == wanted
        assert (PENALTY in said) is (reward == "penalty")
        if reward == "penalty":
            assert said[PENALTY] == -0.25 * caught(record)
        if reward == "exclude":
            assert ((end.state, end.reason) == ("rejected", CAUGHT)) is bool(caught(record))
    assert hacks > 3
    assert replay(folder, step=1).equal
    assert replay_environment(folder, step=1).equal
    record = next(one.trajectory for one in records(folder) if caught(one.trajectory))
    told = explain(folder, record.trajectory_id)
    assert told.problems == ()
    assert [member.left_out for member in told.credit.members if member.trajectory_id == record.trajectory_id] == [
        CAUGHT if reward == "exclude" else None
    ]


def test_blocked_tokens_leave_the_loss_and_are_counted(tmp_path: Path) -> None:
    recipe = guarded_recipe(guard={"mask_blocked": True}, drop_uniform_groups=False, evaluate={"tasks": 2, "every": 0})
    folder = train(recipe, out=tmp_path / "run").folder
    for line in train_lines(folder):
        step = [one.trajectory for one in records(folder) if one.step == line["step"]]
        blocked = sum(span.end - span.start for record in step for span in event_spans(record) if span.event.blocked)
        tokens = line["tokens"]
        assert tokens["excluded"].get(MASKED, 0) == blocked
        assert tokens["sampled"] == tokens["trained"] + sum(tokens["excluded"].values())
    record = next(one.trajectory for one in records(folder) if caught(one.trajectory))
    told = explain(folder, record.trajectory_id)
    framed = [token for token in told.tokens if token.guard is not None]
    assert [token.position for token in framed] == list(range(told.guard[0].first, told.guard[0].end))
    assert {(token.trained, token.why) for token in framed} == {(False, f"sampled; excluded: {MASKED}")}
    assert any(token.trained for token in told.tokens)
    assert told.problems == ()
    assert replay(folder, step=2).equal


def test_exclude_at_keeps_earlier_reasons() -> None:
    row = Row(
        "t",
        "g",
        (1, 2, 3, 4),
        (False, True, True, True),
        (False, True, False, True),
        (0.0, -1.0, -1.0, -1.0),
        (-1, 0, 0, 0),
        {"a": 1},
    )
    found = exclude_at(row, [0, 1, 2], "b")
    assert found.loss_mask == (False, False, False, True)
    assert found.excluded == {"a": 1, "b": 1}
    assert found.sampled == found.trained + sum(found.excluded.values())
    assert exclude_at(row, [0, 2], "b") is row


def test_end_episode_terminates_with_its_cause(tmp_path: Path) -> None:
    folder = train(guarded_recipe("end-episode", steps=1, evaluate={"tasks": 2, "every": 0}), out=tmp_path / "run").folder
    ended = [one.trajectory for one in records(folder) if caught(one.trajectory)]
    assert ended
    for record in ended:
        last = record.transitions[-1]
        assert (last.terminated, last.cause, last.blame) == (True, "ended by the guard: protected-read", None)
        assert last.reward_components["correct"] is not None  # scored as it stands
        assert caught(record) == 1
    assert replay_environment(folder, every=True).equal


def test_observe_only_blocks_nothing(tmp_path: Path) -> None:
    folder = train(guarded_recipe("observe-only", steps=1, evaluate={"tasks": 2, "every": 0}), out=tmp_path / "run").folder
    for stored in records(folder):
        for transition in stored.trajectory.transitions:
            assert all(result.origin == "environment" for result in transition.results)
    assert train_lines(folder)[0]["guard"]["blocked"] == 0
    assert train_lines(folder)[0]["guard"]["hack_rate"] > 0


# ---- configuration


def test_an_environment_without_a_setting_cannot_be_guarded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="environment must define guard_setting to be guarded, got Lookup"):
        train(tiny(guard={"policy": "block-and-continue"}), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("guard", "message"),
    [
        ({"reward": "zero"}, "guard.reward must be 'untouched' where guard.policy is off, got 'zero'"),
        ({"policy": "block-and-continue", "penalty": 2.0}, "guard.penalty must be 1.0 where nothing reads it here"),
        ({"policy": "observe-only", "mask_blocked": True}, "guard.mask_blocked must be False where nothing reads it here"),
        ({"policy": "block"}, "guard.policy must be"),
        ({"polcy": "off"}, "did you mean guard.policy"),
    ],
)
def test_options_that_nothing_reads_are_refused(guard: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        tiny(guard=dict(guard))
    assert message in str(error.value)


@pytest.mark.parametrize("judge", ["nowhere:judge", "guard_fakes:nothing", "guard_fakes:SETTING", "prose"])
def test_a_judge_must_be_found(judge: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"guard\.judge must be"):
        train(guarded_recipe(guard={"judge": judge}), out=tmp_path / "run")


async def lenient(case: Case) -> Verdict:
    """A judge of one's own, named in the configuration."""
    if len(case.history) % 2:
        raise OSError("the judge is down")
    return Verdict(False, "let it pass")


def test_a_judge_of_ones_own_is_taken_from_the_record_when_replayed(tmp_path: Path) -> None:
    folder = train(guarded_recipe(guard={"judge": "test_roserlhf_guard_run:lenient"}, steps=1), out=tmp_path / "run").folder
    outcomes = Counter(event.outcome for one in records(folder) for _, event in events_of(one.trajectory))
    assert outcomes["cleared"] > 0
    found = replay_environment(folder, every=True)
    assert found.equal, found.first
    assert found.incomparable["a verdict of a judge that may answer otherwise today"] >= outcomes["cleared"]


OWN_RULE = """
[[rule]]
id = "asks-for-h"
reason = "looks up the letter h"
[[rule.when]]
kinds = ["search", "text", "read", "run", "list", "code", "opaque"]
target = '^h$|/h$'
"""


def test_own_rules_are_kept_with_the_run(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(OWN_RULE)
    folder = train(guarded_recipe(guard={"rules": [str(file)]}, steps=1), out=tmp_path / "run").folder
    assert (folder / FOLDER / "00.toml").read_text() == OWN_RULE
    file.unlink()
    assert replay_environment(folder, every=True).equal  # by the copy


def test_a_missing_rule_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        train(guarded_recipe(guard={"rules": [str(tmp_path / "none.toml")]}), out=tmp_path / "run")


# ---- the loop


class Wrapped:
    """A guard in front of the fake environment's only tool."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.runners: list[GuardedRunner] = []

    def __call__(self, environment: Environment, runner: ToolRunner) -> GuardedRunner:
        self.runners.append(self.guard.wrap(runner, SETTING, tools=environment.tools))
        return self.runners[-1]


def test_two_hundred_guarded_episodes_together() -> None:
    async def judge(case: Case) -> Verdict:
        await asyncio.sleep(0.001)
        return Verdict("1" in case.arguments["answer"], "odd")

    def speak(request: Request) -> list[Chunk]:
        return [chunk(CODEC.reply(f"end(/eval{int(request.stream[4]) % 2})"))]

    wrapped = Wrapped(Guard(marks, judge))
    planned = plan([TASK], members=200, run="run", seed=7, purpose="train", step=1)
    played = run(collect(Echo, CODEC, FakeEngine(speak), planned, limits=LIMITS, facts=FACTS, guard=wrapped))
    assert len(played) == len(wrapped.runners) == 200
    for member, record in enumerate(played):
        actions = [event.action for _, event in events_of(record)]
        assert actions == (["blocked"] * LIMITS.max_turns if member % 2 else ["executed"])
        assert record.transitions[-1].cause == ("turn budget used up" if member % 2 else "asked to")


def test_the_loop_ends_and_charges_an_episode_as_the_guard_says() -> None:
    guard = Wrapped(Guard(marks, ScriptedJudge(HACK), END_EPISODE, RewardHandling("penalty", 2.0)))
    engine = FakeEngine(lambda request: [chunk(CODEC.reply("end(/eval)"))])
    (record,) = run(
        collect(
            Echo,
            CODEC,
            engine,
            plan([TASK], members=1, run="r", seed=7, purpose="train", step=1),
            limits=LIMITS,
            facts=FACTS,
            guard=guard,
        )
    )
    last = record.transitions[-1]
    assert (last.terminated, last.cause) == (True, "ended by the guard: eval")
    assert last.reward_components == {PENALTY: -2.0, "correct": 1.0}


def test_an_environment_that_cannot_say_its_setting_fails_as_infrastructure() -> None:
    def broken(environment: Environment, runner: ToolRunner) -> GuardedRunner:
        raise KeyError("task")

    planned = plan([TASK], members=1, run="r", seed=7, purpose="train", step=1)
    engine = FakeEngine(lambda request: [chunk(CODEC.reply("end(x)"))])
    (record,) = run(collect(Echo, CODEC, engine, planned, limits=LIMITS, facts=FACTS, guard=broken))
    assert record.failure is not None
    assert record.failure.blame == "infrastructure"
    assert record.failure.cause.startswith("task_setting raised KeyError")


# ---- what is shown


def test_the_report_shows_attempts_by_rule_and_escapes_what_was_called(finished: Path, tmp_path: Path) -> None:
    page = build_report(finished)
    assert 'href="#guard"' in page
    for words in ("Attempts by rule", "Hack rate", "protected-read", "without blocked", KEY):
        assert words in page
    plain = train(tiny(steps=1, warm_start={"max_steps": 0}, evaluate={"tasks": 2, "every": 0}), out=tmp_path / "plain").folder
    assert 'id="guard"' not in build_report(plain)


def test_hostile_evidence_is_escaped_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "<script>alert(1)</script>\x1b[31m\u202e"
    event = GuardEvent("c0", hostile, hostile, "path", (0, 4), hostile, "hack", hostile, "blocked", rules=(hostile,))
    folder = train(guarded_recipe(steps=1, warm_start={"max_steps": 0}, evaluate={"tasks": 2}), out=tmp_path / "run").folder
    stored = records(folder)[0]
    turns = list(stored.trajectory.transitions)
    result = dataclasses.replace(turns[0].results[0], guard_event=event.encode()) if turns[0].results else None
    turns[0] = dataclasses.replace(turns[0], results=[result or ToolResult("c0", guard_event=event.encode())])
    actions = [dataclasses.replace(action, parsed_action=None) for action in stored.trajectory.actions]
    evil = dataclasses.replace(stored.trajectory, trajectory_id="evil", actions=actions, transitions=turns, sealed=False)
    with EventLog.open(folder / "events.db") as log:
        log.append_trajectory(evil, step=1, phase="evaluate-sampled")
    example = str(example_view(Example(hostile, "train", 1, 0, event)))
    assert "alert(1)" in example
    pages = [build_report(folder), explain(folder, "evil").as_html(), example]
    for page in pages:
        assert "<script>alert" not in page
        assert "\x1b" not in page
        assert "\u202e" not in page
    for command in (["explain", str(folder), "evil"], ["show", str(folder), "evil"]):
        assert main(command) == 0
        shown = capsys.readouterr().out
        assert "guard: a hack" in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown


def test_explain_says_what_the_guard_did(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = next(one.trajectory for one in records(finished) if caught(one.trajectory))
    assert main(["explain", str(finished), record.trajectory_id]) == 0
    shown = capsys.readouterr().out
    assert "The guard looked twice at 1 call: 1 confirmed as a hack, 1 not executed." in shown
    assert "guard: a hack, not executed, answered by a dummy result; rule protected-read (/eval/key)" in " ".join(shown.split())
    told = explain(finished, record.trajectory_id, turn=0)
    assert [story.turn for story in told.guard] == [0]
    assert explain(finished, record.trajectory_id, turn=1).guard == ()
    assert json.dumps(told.as_json())


# ---- the scan


def test_a_scan_finds_what_the_guard_found_and_what_it_would_have_changed(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["guard", "scan", str(finished), "--json", str(tmp_path / "scan.json")]) == 0
    shown = capsys.readouterr().out
    assert "protected-read" in shown
    found = json.loads((tmp_path / "scan.json").read_text())
    training = [call for call in found["calls"] if call["phase"] == "train"]
    assert len(training) == sum(line["guard"]["suspicious"] for line in train_lines(finished))
    assert all(call["recorded"] == call["event"]["outcome"] == "hack" for call in training)
    steps = {one["step"]: one["hack_rate"] for one in found["steps"] if one["phase"] == "train"}
    assert steps == {line["step"]: line["guard"]["hack_rate"] for line in train_lines(finished)}
    episodes = [one.trajectory for one in records(finished)]
    totals = [total_reward(one, Peeking.reward_weights) for one in episodes]
    changes = {one["name"]: one for one in found["rewards"]}
    assert changes["penalty"]["changed"] == changes["exclude"]["changed"] == sum(caught(one) > 0 for one in episodes)
    pairs = zip(episodes, totals, strict=True)
    assert changes["zero"]["changed"] == sum(caught(one) > 0 and total != 0 for one, total in pairs)


def test_a_run_without_a_guard_can_be_scanned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = train(guarded_recipe("off", steps=1, evaluate={"tasks": 2, "every": 0}), out=tmp_path / "run").folder
    found = scan_run(folder)
    assert found.by_rule["protected-read"] > 10
    assert all(call.recorded is None for call in found.calls)
    assert any(one.changed for one in found.rewards)
    assert "guard" not in train_lines(folder)[0]


def test_a_scan_needs_a_setting_and_takes_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = train(tiny(steps=1, warm_start={"max_steps": 0}, evaluate={"tasks": 2, "every": 0}), out=tmp_path / "run").folder
    assert main(["guard", "scan", str(folder)]) == 2
    assert "must define guard_setting" in capsys.readouterr().err
    (tmp_path / "setting.json").write_text('{"workdir": "/app", "hidden_tests": ["/eval/**"]}')
    assert main(["guard", "scan", str(folder), "--setting", str(tmp_path / "setting.json")]) == 0
    (tmp_path / "bad.json").write_text("[]")
    assert main(["guard", "scan", str(folder), "--setting", str(tmp_path / "bad.json")]) == 2
    assert main(["guard", "scan", "--help"]) == 0
