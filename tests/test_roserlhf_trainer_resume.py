"""A run that was killed, stopped or interrupted at any moment goes on to the numbers of one that was not."""

from __future__ import annotations

import _thread
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from loop_deaths import DEATHS, MORE_DEATHS
from loop_tampering import rewrite
from loop_worlds import Lookup, lines, outcome, tiny

from rosellm.roserlhf import recipes
from rosellm.roserlhf.engine.llama import LlamaStep
from rosellm.roserlhf.errors import CheckpointError, RunFolderError, StoreError
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.store.rows import Metrics
from rosellm.roserlhf.trainer import run as run_module
from rosellm.roserlhf.trainer.checkpoint import checkpoint_steps
from rosellm.roserlhf.trainer.progress import Progress
from rosellm.roserlhf.trainer.run import train

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What an uninterrupted run computes."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(tiny(), out=folder)
    return outcome(folder)


def kill(folder: Path, moments: Sequence[str]) -> Path:
    """Leave runs that were killed, each at its moment, in `folder`."""
    paths = [str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "loop_deaths.py"), str(folder), *moments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return folder


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of killed runs."""
    return kill(tmp_path_factory.mktemp("dead"), [*DEATHS])


@pytest.fixture(scope="module")
def more_dead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another one, of further moments."""
    return kill(tmp_path_factory.mktemp("dead"), [*MORE_DEATHS])


def stop_at(call: int) -> Callable[[], bool]:
    """Ask for a stop from the given call on."""
    calls = [0]

    def should_stop() -> bool:
        calls[0] += 1
        return calls[0] >= call

    return should_stop


# ---- killed


@pytest.mark.parametrize("moment", DEATHS)
def test_a_killed_run_goes_on_to_the_same_numbers(dead: Path, whole: dict[str, Any], moment: str) -> None:
    check_resumed(dead / moment, whole)


@pytest.mark.slow
@pytest.mark.parametrize("moment", MORE_DEATHS)
def test_a_run_killed_at_a_rarer_moment_goes_on_too(more_dead: Path, whole: dict[str, Any], moment: str) -> None:
    check_resumed(more_dead / moment, whole)


def check_resumed(folder: Path, whole: dict[str, Any]) -> None:
    told: list[Progress] = []
    done = train(tiny(), out=folder, resume=True, on_progress=told.append)
    assert done.status == "finished"
    found = outcome(folder)
    for name, expected in whole.items():
        assert found[name] == expected, name
    assert (folder / "report.html").is_file()
    assert not any("skipped" in p.message for p in told)
    leftovers = {path.name for path in (folder).iterdir() if path.name.startswith(".")}
    assert leftovers <= {".summary.json.tmp"}


# ---- stopped


@pytest.mark.parametrize("call", [1, 4, 11, 12, 14])
def test_a_stopped_run_is_saved_and_goes_on_to_the_same_numbers(tmp_path: Path, whole: dict[str, Any], call: int) -> None:
    first = train(tiny(), out=tmp_path / "run", should_stop=stop_at(call))
    assert (first.status, first.summary) == ("interrupted", None)
    assert not (tmp_path / "run" / "summary.json").exists()
    assert checkpoint_steps(tmp_path / "run" / "checkpoints")[-1] == max(0, call - 11)
    assert train(tiny(), out=tmp_path / "run", resume=True).status == "finished"
    assert outcome(tmp_path / "run") == whole


def test_a_stop_asked_for_in_the_last_step_comes_too_late(tmp_path: Path, whole: dict[str, Any]) -> None:
    assert train(tiny(), out=tmp_path / "run", should_stop=stop_at(15)).status == "finished"
    assert outcome(tmp_path / "run") == whole


def test_R65_stopping_after_every_step_trains_every_step_once(tmp_path: Path, whole: dict[str, Any]) -> None:
    options: dict[str, Any] = {"out": tmp_path / "run", "should_stop": lambda: True}
    statuses = [train(tiny(warm_start={"max_steps": 2}), **options).status]
    while statuses[-1] == "interrupted":
        statuses.append(train(tiny(warm_start={"max_steps": 2}), resume=True, **options).status)
    # after cloning step 1, after each of training steps 1 to 3; cloning step 2 and training step 4 end their phase
    assert statuses == ["interrupted"] * 4 + ["finished"]
    assert [line["step"] for line in lines(tmp_path / "run") if line["phase"] == "train"] == [1, 2, 3, 4]
    train(tiny(warm_start={"max_steps": 2}), out=tmp_path / "straight")
    assert outcome(tmp_path / "run") == outcome(tmp_path / "straight")


def test_R51_a_seed_beyond_32_bits_is_stored_and_resumed_as_it_is(tmp_path: Path) -> None:
    short = {"seed": 2**40, "steps": 2, "warm_start": {"max_steps": 0}, "evaluate": {"tasks": 1, "every": 0}}
    train(tiny(**short), out=tmp_path / "straight")
    assert train(tiny(**short), out=tmp_path / "run", should_stop=lambda: True).status == "interrupted"
    assert train(tiny(**short), out=tmp_path / "run", resume=True).summary is not None
    assert outcome(tmp_path / "run") == outcome(tmp_path / "straight")
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["seed"] == 2**40
    train(tiny(**{**short, "seed": 0}), out=tmp_path / "zero")  # to which 2**40 would wrap
    assert outcome(tmp_path / "zero")["model"] != outcome(tmp_path / "run")["model"]


def test_seconds_are_added_up_over_processes(tmp_path: Path) -> None:
    started = time.perf_counter()
    train(tiny(), out=tmp_path / "run", should_stop=stop_at(13))
    between = time.perf_counter() - started
    summary = train(tiny(), out=tmp_path / "run", resume=True).summary
    assert summary is not None
    both = time.perf_counter() - started
    assert 0.1 * both < summary["seconds"]["total"] < both
    assert summary["seconds"]["warm_start"] < between


# ---- interrupted


@pytest.mark.parametrize("where", ["while it is told", "while it samples"])
def test_a_keyboard_interrupt_ends_at_once_and_the_run_can_go_on(
    tmp_path: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    before = set(threading.enumerate())

    def tell(progress: Progress) -> None:
        if (progress.phase, progress.step) == ("train", 2):
            if where == "while it is told":
                raise KeyboardInterrupt
            plain = LlamaStep.forward

            def interrupted(self: LlamaStep, *args: Any, **options: Any) -> Any:
                _thread.interrupt_main()
                time.sleep(0.01)
                return plain(self, *args, **options)

            monkeypatch.setattr(LlamaStep, "forward", interrupted)

    with pytest.raises(KeyboardInterrupt):
        train(tiny(), out=tmp_path / "run", on_progress=tell)
    assert set(threading.enumerate()) == before
    monkeypatch.undo()
    train(tiny(), out=tmp_path / "run", resume=True)
    assert outcome(tmp_path / "run") == whole


# ---- what a resumed run is told, and what it refuses


def test_a_finished_run_is_returned_at_once(tmp_path: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    first = train(tiny(), out=tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    monkeypatch.setattr(run_module, "World", None)
    again = train(tiny(), out=tmp_path / "run", resume=True)
    assert (again.status, again.summary) == ("finished", first.summary)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before
    monkeypatch.undo()
    (tmp_path / "run" / "summary.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"summary\.json must hold what the run came to, got no JSON"):
        train(tiny(), out=tmp_path / "run", resume=True)
    (tmp_path / "run" / "summary.json").unlink()
    train(tiny(), out=tmp_path / "run", resume=True)
    assert outcome(tmp_path / "run") == whole


def test_R66_a_damaged_newest_checkpoint_is_skipped_and_made_again(tmp_path: Path, whole: dict[str, Any]) -> None:
    train(tiny(), out=tmp_path / "run", should_stop=stop_at(14))
    folder = tmp_path / "run" / "checkpoints"
    assert checkpoint_steps(folder) == [0, 2, 3]
    weights = folder / "3" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    told: list[Progress] = []
    train(tiny(), out=tmp_path / "run", resume=True, on_progress=told.append)
    messages = [p.message for p in told if p.phase == "resume"]
    assert messages[0].startswith("skipped: checkpoint ")
    assert "another model.safetensors" in messages[0]
    assert messages[1] == "resumed from checkpoint 2"
    assert messages[0] in (tmp_path / "run" / "log.txt").read_text()
    assert outcome(tmp_path / "run") == whole


def test_R66_without_any_whole_checkpoint_a_resume_stops(tmp_path: Path) -> None:
    train(tiny(), out=tmp_path / "run", should_stop=stop_at(13))
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        (path / "state.json").unlink()
    with pytest.raises(CheckpointError, match="must hold a whole one"):
        train(tiny(), out=tmp_path / "run", resume=True)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    for seed in (0, 1):
        train(tiny(seed=seed), out=tmp_path / str(seed), should_stop=stop_at(13))
    shutil.rmtree(tmp_path / "0" / "checkpoints")
    shutil.copytree(tmp_path / "1" / "checkpoints", tmp_path / "0" / "checkpoints")
    with pytest.raises(CheckpointError, match="checkpoint 2 must hold weights that the event log beside it knows"):
        train(tiny(), out=tmp_path / "0", resume=True)


def test_a_lost_event_log_is_an_error_once_there_are_checkpoints(tmp_path: Path) -> None:
    train(tiny(), out=tmp_path / "run", should_stop=stop_at(13))
    for path in (tmp_path / "run").glob("events.db*"):
        path.unlink()
    with pytest.raises(CheckpointError, match=r"must hold its event log to be resumed, got no events\.db"):
        train(tiny(), out=tmp_path / "run", resume=True)


@pytest.mark.parametrize(("phase", "step", "missing"), [("train", 1, "train of step 1"), ("evaluate", 0, "sampled of step 0")])
def test_what_cannot_be_measured_again_must_be_there(tmp_path: Path, phase: str, step: int, missing: str) -> None:
    train(tiny(), out=tmp_path / "run", should_stop=stop_at(13))
    rewrite(tmp_path / "run", lambda item: None if isinstance(item, Metrics) and (item.phase, item.step) == (phase, step) else item)
    before = (tmp_path / "run" / "events.db").read_bytes()
    with pytest.raises(RunFolderError, match=f"measured up to checkpoint 2 to be resumed, got no metrics of: {missing}"):
        train(tiny(), out=tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "events.db").read_bytes() == before


def test_a_run_that_is_still_written_is_refused(tmp_path: Path) -> None:
    train(tiny(), out=tmp_path / "run", should_stop=stop_at(1))
    with EventLog.open(tmp_path / "run" / "events.db"), pytest.raises(StoreError, match="has a writer already"):
        train(tiny(), out=tmp_path / "run", resume=True)


def test_a_run_file_changed_by_hand_is_refused(tmp_path: Path) -> None:
    train(tiny(), out=tmp_path / "run", should_stop=lambda: True)
    file = tmp_path / "run" / "run.toml"
    seed = tiny().config.seed
    file.write_text(file.read_text().replace(f"seed = {seed}", f"seed = {seed + 1}", 1))
    changed = recipes.load_recipe(file)  # as the command line reads it
    with pytest.raises(
        RunFolderError, match=f"run.toml must be as the run was started, got seed = {seed + 1} where {seed} is what"
    ):
        train(changed, out=tmp_path / "run", resume=True)


def test_another_recipe_is_refused_and_the_difference_named(tmp_path: Path) -> None:
    train(tiny(), out=tmp_path / "run", should_stop=stop_at(1))
    with pytest.raises(RunFolderError, match=r"got collect\.group_size = 8 where 4 is what .*run\.toml says"):
        train(tiny(collect={"group_size": 8}), out=tmp_path / "run", resume=True)
    with pytest.raises(RunFolderError, match="got recipe = 'reinforce' where 'grpo' is what"):
        train(tiny(recipe="reinforce", optimizer={"minibatches": 1}), out=tmp_path / "run", resume=True)


def test_a_run_file_that_leaves_a_default_out_is_the_same_run(tmp_path: Path) -> None:
    # as one written by a version that did not have the option yet
    train(tiny(), out=tmp_path / "run", should_stop=stop_at(1))
    file = tmp_path / "run" / "run.toml"
    text = file.read_text()
    file.write_text("\n".join(line for line in text.splitlines() if not line.startswith("keep_checkpoints")))
    assert file.read_text() != text
    train(tiny(), out=tmp_path / "run", resume=True)


class Elsewhere(Lookup):
    """Another environment."""


def test_the_environment_that_was_handed_in_belongs_to_the_run(tmp_path: Path) -> None:
    train(tiny(environment="shop"), environment=Lookup, out=tmp_path / "run", should_stop=stop_at(13))
    assert 'environment = "loop_worlds:Lookup"' in (tmp_path / "run" / "run.toml").read_text()
    with pytest.raises(RunFolderError, match=r"environment = '.*:Elsewhere' where 'loop_worlds:Lookup' is what"):
        train(tiny(), environment=Elsewhere, out=tmp_path / "run", resume=True)
    assert train(tiny(), out=tmp_path / "run", resume=True).status == "finished"
