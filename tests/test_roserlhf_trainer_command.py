"""`roserlhf train` and `eval` for real: trained, stopped by Ctrl-C, gone on with, evaluated, refused in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from loop_worlds import lines, outcome, tiny

from rosellm.roserlhf.cli import main
from rosellm.roserlhf.config import dump_toml
from rosellm.roserlhf.trainer.run import train

HERE = Path(__file__).parent
COMMAND = [sys.executable, "-c", "import sys; from rosellm.roserlhf.cli import main; sys.exit(main())"]


def environment(**more: str) -> dict[str, str]:
    """Variables under which the command finds package and test environment."""
    paths = [str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "COLUMNS": "200", **more}


RECIPE = tiny(
    environment="loop_worlds:Patient",
    warm_start={"demonstrations": 4, "max_steps": 1, "check_tasks": 1},
    evaluate={"every": 0, "tasks": 2},
)


def roserlhf(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run([*COMMAND, *arguments], env=environment(), cwd=cwd, capture_output=True, text=True, timeout=900)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A run file of a tiny run whose episodes can be slowed down."""
    path = tmp_path / "tiny.toml"
    path.write_text(dump_toml(RECIPE.config))
    return path


@pytest.fixture
def in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `main` run here, where everything is loaded, and change nothing that outlives the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    for name, value in (("OMP_WAIT_POLICY", "PASSIVE"), ("KMP_BLOCKTIME", "0"), ("COLUMNS", "200")):
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("in_this_process")
def test_a_stopped_command_says_how_to_go_on_and_goes_on_to_the_same_numbers(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # slow episodes, so that the signal comes in time; the environment is the same
    process = subprocess.Popen(
        [*COMMAND, "train", "--config", str(config), "--out", "my run"],
        env=environment(LOOKUP_SECONDS="0.04"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 900
    metrics = tmp_path / "my run" / "metrics.jsonl"
    while not (metrics.is_file() and any(line["phase"] == "train" for line in lines(metrics.parent))):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=900)
    assert process.returncode == 130, (out, err)
    assert err == ""
    assert "finishing this step, then saving; Ctrl-C again stops at once" in out
    assert out.splitlines()[-1] == "stopped; go on with: roserlhf train --resume 'my run'"
    assert not (metrics.parent / "summary.json").exists()

    assert main(["train", "--resume", "my run"]) == 0
    done = capsys.readouterr()
    assert done.err == ""
    assert done.out.splitlines()[-1] == f"report: {Path('my run') / 'report.html'}"
    train(RECIPE, out=tmp_path / "straight")
    assert outcome(tmp_path / "my run") == outcome(tmp_path / "straight")

    assert main(["train", "--resume", "my run"]) == 0
    again = capsys.readouterr()
    assert again.err == ""
    assert again.out == f"my run is finished; its report is {Path('my run') / 'report.html'}\n"


@pytest.mark.slow
def test_a_second_interrupt_stops_at_once_and_the_run_can_go_on(tmp_path: Path, config: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "train", "--config", str(config), "--out", "run"],
        env=environment(LOOKUP_SECONDS="0.3"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 900
    while not (tmp_path / "run" / "metrics.jsonl").is_file():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=900)
    assert process.returncode == 130, (out, err)
    assert err == ""
    assert out.splitlines()[-1] == "stopped; go on with: roserlhf train --resume run"
    done = roserlhf("train", "--resume", "run", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done
    train(RECIPE, out=tmp_path / "straight")
    assert outcome(tmp_path / "run") == outcome(tmp_path / "straight")


@pytest.mark.usefixtures("in_this_process")
def test_a_trained_run_is_evaluated(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--config", str(config), "--out", "run", "--steps", "1"]) == 0
    assert "held-out tasks" in capsys.readouterr().out
    assert main(["eval", "run", "--tasks", "8", "--samples", "2"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    for word in ("greedy", "sampled", "pass@2", "would carry a signal"):
        assert word in shown.out


@pytest.mark.usefixtures("in_this_process")
def test_a_folder_that_is_taken_is_one_line(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("run").mkdir()
    Path("run", "notes.txt").write_text("mine")
    assert main(["train", "--config", str(config), "--out", "run"]) == 1
    said = capsys.readouterr()
    assert (
        said.err == "roserlhf: error: out must be a new or empty folder, got run; choose another, or go on with a run by --resume\n"
    )
    assert said.out == ""  # nothing is announced that will not happen


@pytest.mark.usefixtures("in_this_process")
def test_a_damaged_checkpoint_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    train(tiny(environment="loop_worlds:Patient"), out="run", should_stop=lambda: True)
    Path("run", "checkpoints", "0", "state.json").write_text("{}")
    for command in (["train", "--resume", "run"], ["eval", "run"]):
        assert main(command) == 1
        message = "checkpoints in run/checkpoints must hold a whole one, got 1 damaged; start the run anew"
        assert capsys.readouterr().err == f"roserlhf: error: {message}\n"
