"""The example of an environment of one's own: as short as it says, honest, learnable by its script, and trained end to end."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from loop_worlds import lines

from rosellm.roserlhf.cli import main
from rosellm.roserlhf.codec.hf import build_tokenizer, marker_codec
from rosellm.roserlhf.environment.runner import DirectRunner

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "own_environment.py"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("own_environment", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where the class says that it lives
    spec.loader.exec_module(module)
    return module


example = load()
CODEC = marker_codec(build_tokenizer(example.Phonebook.vocabulary), example.Phonebook().tools.schemas())


def played(seed: int, *, faulty: bool) -> Any:
    environment = example.Phonebook()
    environment.start(environment.task_from(environment.make_task(random.Random(seed))), seed=0)
    script = environment.demonstrate(random.Random(f"script {seed}"), faulty=faulty)
    line = next(script)
    while True:
        asyncio.run(environment.step(CODEC.parse(CODEC.reply(line)), DirectRunner(environment.tools)))
        try:
            line = script.send(environment.shown)
        except StopIteration:
            return environment


def test_one_class_of_less_than_forty_lines() -> None:
    assert len(inspect.getsource(example.Phonebook).rstrip().splitlines()) < 40


def test_the_readme_shows_this_class() -> None:
    assert inspect.getsource(example.Phonebook) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_demonstrations_are_right_unless_they_are_meant_to_be_wrong() -> None:
    right = [played(seed, faulty=False) for seed in range(30)]
    assert all(episode.score() == {"correct": 1.0} and not episode.mistakes for episode in right)
    wrong = [played(seed, faulty=True) for seed in range(30)]
    assert sum(episode.score()["correct"] for episode in wrong) <= 1  # by luck
    assert all(episode.finished and not episode.mistakes for episode in wrong)


TINY = {
    "model": {"layers": 1, "hidden_size": 16, "heads": 2, "intermediate_size": 16},
    "warm_start": {"demonstrations": 16, "max_steps": 2, "check_tasks": 4, "batch_size": 8},
    "collect": {"tasks": 2, "group_size": 2, "max_turns": 2, "context_window": 64},
    "evaluate": {"tasks": 4},
}


def test_it_runs_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    summary = example.main(["--steps", "2", "--seed", "3", "--out", str(out)], TINY)
    printed = capsys.readouterr().out.splitlines()
    assert (
        printed[-2] == f"held-out success {summary['success_before']['sampled']:.2f} -> {summary['success_after']['sampled']:.2f}"
    )
    assert printed[-1] == f"report: {out / 'report.html'}"
    assert json.loads((out / "summary.json").read_text(encoding="utf-8")) == summary
    assert (summary["seed"], summary["steps"], summary["environment"]) == (3, 2, "own_environment:Phonebook")
    assert (out / "report.html").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_learns(seed: int, tmp_path: Path) -> None:
    summary = example.main(["--seed", str(seed), "--out", str(tmp_path / "run")])
    before, after = summary["success_before"]["sampled"], summary["success_after"]["sampled"]
    assert after > 0.85
    assert after - before > 0.25  # where the warm start stops depends on the machine's arithmetic


WIND = ROOT / "examples" / "wind.py"


def test_the_environment_from_the_pages_has_less_than_forty_lines_and_stands_on_one_of_them() -> None:
    assert len(WIND.read_text(encoding="utf-8").splitlines()) < 40
    assert '--8<-- "examples/wind.py"' in (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")


QUICK = [
    *("--warm-start.demonstrations", "700", "--warm-start.fault-rate", "0.7", "--warm-start.max-steps", "60"),
    *("--warm-start.check-every", "60", "--warm-start.check-tasks", "8", "--steps", "8", "--collect.tasks", "16"),
    *("--collect.max-turns", "3", "--collect.max-turn-tokens", "8", "--collect.context-window", "48", "--evaluate.tasks", "8"),
]


def test_the_environment_from_the_pages_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the command line; after cloning that is right about every second time, eight steps of GRPO do most of the rest."""
    monkeypatch.syspath_prepend(str(WIND.parent))
    out = tmp_path / "run"
    assert main(["train", "--env", "wind:Wind", "--out", str(out), *QUICK]) == 0
    success = [line["success"] for line in lines(out) if line["phase"] == "train"]
    assert success[0] < 0.8
    assert max(success[-3:]) > success[0] + 0.2
    assert main(["replay", str(out), "--environment"]) == 0
