"""The tool `python` in an episode: what the policy is told, what is recorded, and that the box ends with the episode."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from rollout_fakes import codec_of, play, says
from sandbox_kinds import KINDS, descendants

from rosellm.roserlhf.environment import python_tool
from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.environment.protocol import Task
from rosellm.roserlhf.environment.python_tool import PythonTool, answer, cut
from rosellm.roserlhf.environment.sandbox import Kind, Limits, Sandbox, SandboxResult
from rosellm.roserlhf.environment.tools import tool
from rosellm.roserlhf.errors import SandboxError
from rosellm.roserlhf.trajectory import ToolResult, Trajectory


class Puzzle(PythonTool):
    sandbox: ClassVar[Sandbox | None] = Sandbox(Limits(seconds=20), kind=KINDS[0])

    def __init__(self) -> None:
        super().__init__()
        self.submitted: int | None = None

    @staticmethod
    def make_task(rng: random.Random) -> Mapping[str, Any]:
        return {"n": rng.randrange(100)}

    def prompt(self) -> str:
        return "square it"

    @tool
    def submit(self, number: int) -> str:
        """Submit the number."""
        self.submitted = number
        self.finish()
        return "submitted"

    def score(self) -> Mapping[str, float | None]:
        return {"correct": float(self.submitted == self.task.payload["n"] ** 2)}


TASK = Task("task", {"n": 12})


def episode(environment: ToolEnvironment, *lines: str) -> Trajectory:
    codec = codec_of(environment)
    return play(environment, says(codec, *lines), codec=codec, task=TASK)


def results(trajectory: Trajectory) -> list[ToolResult]:
    return [result for transition in trajectory.transitions for result in transition.results]


def test_an_episode_computes_and_submits() -> None:
    before = descendants()
    record = episode(Puzzle(), "python(n = 12)", "python(n * n)", "submit(144)")
    assert [(result.status, result.content) for result in results(record)] == [
        ("ok", "(no output)"),
        ("ok", "144"),
        ("ok", "submitted"),
    ]
    assert [result.source for result in results(record)] == [KINDS[0], KINDS[0], None]
    assert all(result.latency is not None for result in results(record)[:2])
    assert record.transitions[-1].reward_components["correct"] == 1.0
    assert descendants() <= before


def test_errors_and_lost_state_are_told_and_the_episode_goes_on() -> None:
    class Hurried(Puzzle):
        sandbox: ClassVar[Sandbox | None] = Sandbox(Limits(seconds=0.5), kind=KINDS[0])

    told = results(episode(Hurried(), "python(x = 1/0)", "python(while 1: pass)", "python(1+1)", "submit(1)"))
    assert [result.status for result in told] == ["error", "timeout", "ok", "ok"]
    assert told[0].content.endswith("ZeroDivisionError: division by zero")
    assert told[1].content == "[stopped after 0.5 s; variables and files of earlier calls are lost]"
    assert told[2].content == "2"


def test_two_episodes_at_once_share_nothing() -> None:
    async def play_both() -> list[str]:
        one, other = Puzzle(), Puzzle()
        await asyncio.gather(one.python("x = 'mine'"), other.python("y = 1"))
        told = await asyncio.gather(one.python("x"), other.python("x"))
        for environment in (one, other):
            closing = environment.close()
            assert closing is not None
            await closing
        return [result.content for result in told]

    mine, others = asyncio.run(play_both())
    assert mine == "'mine'"
    assert others.endswith("NameError: name 'x' is not defined")


def test_an_episode_without_a_program_starts_no_box() -> None:
    environment = Puzzle()
    episode(environment, "submit(144)")
    assert environment._python is None
    assert environment.close() is None


def test_a_box_that_does_not_start_is_no_fault_of_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Sandbox:
        raise SandboxError("no sandbox works here")

    class Anywhere(Puzzle):
        sandbox: ClassVar[Sandbox | None] = None

    monkeypatch.setattr(python_tool, "_sandbox_here", refuse)
    record = episode(Anywhere(), "python(1)")
    assert record.failure is not None
    assert record.failure.blame == "infrastructure"
    assert "no sandbox works here" in record.failure.cause


def test_a_bare_program_is_recorded_as_such() -> None:
    class Bare(Puzzle):
        sandbox: ClassVar[Sandbox | None] = Sandbox(kind="bare", unsafe_bare=True)

    told = results(episode(Bare(), "python(6*7)", "submit(1)"))
    assert (told[0].content, told[0].source) == ("42", "bare")


def result(ending: str, output: str = "", errors: str = "", *, lost: bool = False, kind: Kind = "landlock") -> SandboxResult:
    return SandboxResult(ending, output, errors, 1.25, kind, lost)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("came_back", "status", "content"),
    [
        (result("ok", "a\n", "warning\n"), "ok", "a\nwarning"),
        (result("ok"), "ok", "(no output)"),
        (result("error", "a\n", "E\n"), "error", "a\nE"),
        (result("memory", "", "MemoryError\n"), "error", "MemoryError"),
        (result("died", "a\n", lost=True), "error", "a\n[the process ended; variables and files of earlier calls are lost]"),
        (
            result("cpu", lost=True),
            "error",
            "[stopped: more than 60 s of processor time; variables and files of earlier calls are lost]",
        ),
        (result("ok", "a\x00\x1b[1m\tü\x85\n\n"), "ok", "a\\x00\\x1b[1m\tü\\x85"),
    ],
)
def test_every_ending_is_worded(came_back: SandboxResult, status: str, content: str) -> None:
    told = answer(came_back, Limits(), 100)
    assert (told.status, told.content, told.source, told.latency) == (status, content, "landlock", 1.25)


def test_a_long_answer_keeps_both_ends_and_says_what_is_missing() -> None:
    """100 characters of 1000: 50 at each end, 900 left out."""
    told = answer(result("output", "a" * 500 + "b" * 500, lost=True), Limits(output=1000), 100)
    lost = "[stopped: more than 1000 bytes of output; variables and files of earlier calls are lost]"
    assert told.content == "a" * 50 + "\n[900 characters left out]\n" + "b" * 50 + "\n" + lost
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab\n[1 characters left out]\nd"
    assert cut("abcd", 1) == "a\n[3 characters left out]\n"
