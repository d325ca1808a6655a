"""Runs of eight steps, killed at random moments again and again, end where a run that was left alone ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from loop_worlds import outcome

from rosellm.roserlhf.audit import replay
from rosellm.roserlhf.store import EventLog, Ledger

HERE = Path(__file__).parent


def forks(*arguments: object) -> dict[str, Any]:
    """Run `loop_kills.py` and return what it did."""
    paths = [str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    command = [sys.executable, str(HERE / "loop_kills.py"), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Runs that were killed and interrupted, and what was done to them."""
    folder = tmp_path_factory.mktemp("few")
    return folder, forks(folder, 5, "interrupts")


def check_killed(folder: Path, done: dict[str, Any], count: int) -> None:
    assert sum(map(len, done["runs"].values())) == count
    assert done["seconds"] < 20
    whole = outcome(folder / "whole")
    for name, moments in done["runs"].items():
        found = outcome(folder / name)
        for part, expected in whole.items():
            assert found[part] == expected, (part, name, moments)
        with EventLog.read(folder / name / "events.db") as log:
            Ledger(log.ledger()).balance(recorded=log.sampled_tokens(phase="train"))
            live = Counter((stored.phase, stored.step, stored.trajectory.trajectory_id) for stored in log.trajectories())
        assert set(live.values()) == {1}
        assert (folder / name / "report.html").is_file()
        last = replay(folder / name, step=8)
        assert last.equal, (last.first, name, moments)
        assert last.elsewhere == ()


def test_killed_at_random_moments_5_times(few: tuple[Path, dict[str, Any]]) -> None:
    folder, done = few
    check_killed(folder / "killed", done["killed"], 5)


@pytest.mark.slow
def test_killed_at_random_moments_50_times(tmp_path: Path) -> None:
    check_killed(tmp_path / "killed", forks(tmp_path, 50)["killed"], 50)


def test_ctrl_c_once_saves_the_step_and_twice_leaves_at_once(few: tuple[Path, dict[str, Any]]) -> None:
    folder, done = few[0] / "interrupted", few[1]["interrupted"]
    straight = outcome(folder / "straight")
    for name in ("once", "twice"):
        found = done[name]
        assert found["code"] == 130
        assert "finishing this step, then saving; Ctrl-C again stops at once" in found["said"]
        assert found["said"][-1] == f"stopped; go on with: roserlhf train --resume {folder / name}"
        assert found["resumed"] == 0
        assert outcome(folder / name) == straight
    assert (done["once"]["made"], done["once"]["checkpoints"]) == ([1, 2], [0, 2])  # the step is finished and saved
    assert (done["twice"]["made"], done["twice"]["checkpoints"]) == ([1], [0])  # nothing is waited for
