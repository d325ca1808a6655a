"""A verifier in a process of its own: whatever it does, its caller gets a number in time, or an error that names it."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import verifier_graders as graders

from rosellm.roserlhf.environment.verifiers import isolated, verified
from rosellm.roserlhf.environment.verifiers.worker import Worker, Workers
from rosellm.roserlhf.errors import ArgumentError, VerifierError

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("function", "argument", "value"), [("is_four", "4", 1.0), ("is_five", "4", 0.0), ("printing", "4", 0.25)])
def test_plain_async_and_printing_ones_answer(function: str, argument: str, value: float) -> None:
    assert isolated(getattr(graders, function), seconds=20.0)(argument) == value


@pytest.mark.parametrize(
    ("function", "argument", "message"),
    [
        ("failing", "x", "must answer, got OSError: no x for you"),
        ("leaving", "x", "must answer, got SystemExit: 3"),
        ("dying", "x", r"must answer, got a process that died \(SIGKILL\)"),
        ("sleeping", 60, r"must answer within 0\.2 s, got none"),
        ("busy", "9**9**9", r"must answer within 0\.2 s, got none"),
        ("greedy", 64, "must answer, got MemoryError"),
        ("constant", "object", "must answer, got TypeError: Object of type object is not JSON serializable"),
        ("constant", "nan", r"must return a number in \[0, 1\] or None, got nan"),
        ("constant", "inf", r"must return a number in \[0, 1\] or None, got inf"),
        ("says", "1.0", r"must return a number in \[0, 1\] or None, got '1.0'"),
        ("says", 1.5, r"must return a number in \[0, 1\] or None, got 1.5"),
    ],
)
def test_every_way_to_fail_is_an_error_and_the_next_call_goes_well(function: str, argument: Any, message: str) -> None:
    worker = Worker("verifier_graders:says")
    assert worker.call(0.5, seconds=20.0) == 0.5
    worker.close()
    with pytest.raises(VerifierError, match=message):
        isolated(getattr(graders, function), seconds=0.2 if "within" in message else 20.0)(argument)


def test_the_process_is_kept_and_replaced_only_when_it_had_to_be_killed() -> None:
    workers = Workers("verifier_graders:process")
    first = workers.call("", seconds=20.0)
    assert workers.call("", seconds=20.0) == first != os.getpid()
    workers.close()
    assert workers.call("", seconds=20.0) != first
    sleeper = Worker("verifier_graders:sleeping")
    with pytest.raises(VerifierError, match="within"):
        sleeper.call(60, seconds=0.1)
    assert sleeper.call(0, seconds=20.0) == 1.0
    sleeper.close()


def test_what_it_started_dies_with_it(tmp_path: Path) -> None:
    left = tmp_path / "left behind"
    with pytest.raises(VerifierError, match="within"):
        isolated(graders.with_child, seconds=0.5)(str(left))
    time.sleep(1.7)
    assert not left.exists()


def test_it_sees_no_variables_of_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "secret")
    worker = Worker("verifier_graders:variables")
    seen = worker.call("", seconds=20.0)
    worker.close()
    assert "PATH" in seen
    assert "SOME_KEY" not in seen


def test_it_ends_with_its_caller() -> None:
    code = (
        "import os, threading, time\n"
        "from rosellm.roserlhf.environment.verifiers.worker import Worker\n"
        "worker = Worker('verifier_graders:sleeping')\n"
        "worker.call(0, seconds=60)\n"
        "print(worker._child.pid, flush=True)\n"
        "threading.Thread(target=worker.call, args=(600,), kwargs={'seconds': 600}, daemon=True).start()\n"
        "time.sleep(0.2)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=False)
    pid = int(done.stdout)
    until = time.monotonic() + 10
    while _alive(pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_a_function_that_cannot_be_imported_is_refused() -> None:
    def inner(answer: str) -> float:
        return 1.0

    for function in (lambda answer: 1.0, inner, functools.partial(graders.says, 1.0)):
        with pytest.raises(ArgumentError, match="verifier must be a function that can be imported"):
            isolated(function, seconds=1.0)
    with pytest.raises(VerifierError, match="nothing:here must be importable in a process of its own, got ModuleNotFoundError"):
        Worker("nothing:here").call(seconds=1.0)


def test_several_at_once() -> None:
    grade = isolated(graders.sleeping, seconds=20.0, at_most=2)

    async def three() -> list[Any]:
        return await asyncio.gather(*(asyncio.to_thread(grade, 0.05) for _ in range(3)), verified(grade, 0.05))

    assert asyncio.run(three()) == [1.0] * 4
