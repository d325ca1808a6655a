"""Verifiers inside `score()` and inside a run: what fails is unscored and counted, and the others go on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import verifier_graders as graders
from loop_worlds import Lookup, lines, tiny
from rollout_fakes import CODEC, Echo, play, says

from rosellm.roserlhf.environment.protocol import Task
from rosellm.roserlhf.environment.sandbox import Sandbox
from rosellm.roserlhf.environment.verifiers import Component, Rubric, isolated, passes_tests
from rosellm.roserlhf.environment.verifiers import program as program_module
from rosellm.roserlhf.errors import GroupError, SandboxError, VerifierError
from rosellm.roserlhf.rollout.key import EpisodeKey
from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.trainer.run import train
from rosellm.roserlhf.trajectory import Trajectory

# ---- a run


class Graded(Lookup):
    """Member 0 is right, 1 has a grader that raises, 2 one that hangs, 3 is wrong."""

    reward_weights: ClassVar[Mapping[str, float]] = {"correct": 1.0}

    def start(self, task: Task, seed: int) -> Any:
        keys = [EpisodeKey(run="", seed=0, purpose="train", step=1, member=member) for member in range(4)]
        self.member = {key.environment_seed(task): key.member for key in keys}.get(seed, 0)
        return super().start(task, seed)

    def score(self) -> Any:
        return asyncio.to_thread(self.graded)

    def graded(self) -> Mapping[str, float | None]:
        match self.member:
            case 1:
                return {"correct": isolated(graders.failing, seconds=60.0)("4")}
            case 2:
                return {"correct": HANGING(600)}
        return {"correct": graders.is_four("4" if self.member == 0 else "5")}


HANGING = isolated(graders.sleeping, seconds=1.0)
ONE_GROUP: dict[str, Any] = {
    "steps": 1,
    "collect": {"tasks": 1, "group_size": 4},
    "evaluate": {"tasks": 1, "every": 0},
    "warm_start": {"max_steps": 0},
}


def test_R58_a_grader_that_raises_and_one_that_hangs_leave_two_of_four(tmp_path: Path) -> None:
    train(tiny(**ONE_GROUP), environment=Graded, out=tmp_path / "run")
    (line,) = [line for line in lines(tmp_path / "run") if line["phase"] == "train"]
    assert line["failures"] == {
        "score raised VerifierError: verifier_graders:failing must answer, got OSError: no 4 for you": 1,
        "score raised WorkerTimeout: verifier_graders:sleeping must answer within 1 s, got none": 1,
    }
    # mean of 1 and 0, and their population standard deviation; the zeros of two failures would give 0.25 and 0.433
    assert (line["reward"]["total"], line["reward"]["std"]) == (0.5, 0.5)
    assert line["groups"]["mixed"] == 1
    with EventLog.read(tmp_path / "run" / "events.db") as log:
        records = sorted((one.trajectory for one in log.trajectories(phase="train")), key=lambda one: one.member or 0)
        places = {entry.attempt_id: entry for entry in log.ledger() if entry.state in ("trained", "rejected")}
    assert [one.reward_totals()["correct"] for one in records] == [1.0, None, None, 0.0]
    assert [places[one.trajectory_id].state for one in records] == ["trained", "rejected", "rejected", "trained"]
    advantages = [places[one.trajectory_id].detail["advantage"] for one in (records[0], records[3])]
    assert advantages == pytest.approx([1.0, -1.0])  # (1 − 0.5) / 0.5 and (0 − 0.5) / 0.5


def test_R58_more_failures_than_a_set_share_stop_the_run(tmp_path: Path) -> None:
    with pytest.raises(GroupError, match=r"a step must have at most 1 failed episodes of 4, got 2 that failed"):
        train(tiny(**ONE_GROUP, max_failed_share=0.25), environment=Graded, out=tmp_path / "run")


# ---- an episode


class Judged(Echo):
    """Scored by a rubric."""

    rubric: Rubric

    async def score(self) -> Mapping[str, float | None]:
        return await self.rubric.score("4")


def judged(**components: Component) -> Trajectory:
    environment = Judged()
    environment.rubric = Rubric(components, total="correct")
    return play(environment, says(CODEC, "end(4)"))


def test_a_rubric_scores_an_episode() -> None:
    record = judged(a=Component(graders.is_four), b=Component(graders.is_five))
    assert record.reward_totals() == {"a": 1.0, "b": 0.0, "correct": 0.5}
    assert record.transitions[-1].blame is None


def test_a_component_that_fails_is_named_and_the_others_are_kept() -> None:
    record = judged(a=Component(graders.is_four), b=Component(graders.failing))
    last = record.transitions[-1]
    assert record.reward_totals() == {"a": 1.0, "b": None, "correct": None}
    assert last.blame == "infrastructure"
    assert last.cause == "score raised VerifierError: verifier b must answer, got OSError: no 4 for you"


def test_a_failure_that_nothing_needs_and_an_abstention_blame_nobody() -> None:
    unneeded = judged(a=Component(graders.is_four), b=Component(graders.failing, 0.0))
    assert unneeded.reward_totals() == {"a": 1.0, "b": None, "correct": 1.0}
    abstained = judged(a=Component(lambda answer: None))
    assert abstained.reward_totals() == {"a": None, "correct": None}
    assert [one.transitions[-1].blame for one in (unneeded, abstained)] == [None, None]


# ---- programs

TESTS = "def test_two():\n    assert f(1) == 2\n\ndef test_three():\n    assert f(2) == 3\n"


@pytest.mark.parametrize(
    ("program", "partial", "paid"),
    [
        ("def f(x): return x + 1", False, 1.0),
        ("def f(x): return 2 * x", False, 0.0),
        ("def f(x): return 2 * x", True, 0.5),
        ("def f(x):\n    while True: pass", True, 0.0),
        ("import os; os._exit(0)", True, 0.0),
        ('print(\'{"passed": ["test_two", "test_three"], "failed": {}}\')', True, 0.0),
        ("class Yes:\n    __eq__ = lambda *_: True\ndef f(x): return Yes()", True, 0.0),
        ("def f(x) return x", True, 0.0),
        ("\x00", True, 0.0),
        (None, True, 0.0),
    ],
)
def test_programs_are_paid_for_the_tests_that_they_pass(program: str | None, partial: bool, paid: float) -> None:
    work = passes_tests(Sandbox(), program, TESTS, names=["f"], seconds=2.0, partial=partial)
    assert asyncio.run(work) == paid


def test_broken_tests_and_a_box_that_does_not_start_are_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(VerifierError, match="tests must be tests, got "):
        asyncio.run(passes_tests(Sandbox(), "def f(x): return x", "def test(:", names=["f"]))

    async def no_box(*_: Any, **__: Any) -> None:
        raise SandboxError("there must be a sandbox, got none")

    monkeypatch.setattr(program_module, "unit_tests", no_box)
    with pytest.raises(VerifierError, match="verifier passes_tests must run in the sandbox, got there must be a sandbox"):
        asyncio.run(passes_tests(Sandbox(), "def f(x): return x", TESTS))


def test_chance_is_nobodys() -> None:
    state = random.getstate()
    isolated(graders.is_four, seconds=60.0)("4")
    assert random.getstate() == state
