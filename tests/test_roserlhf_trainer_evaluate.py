"""Evaluation of a run or a checkpoint: the estimator by hand and by brute force, the numbers repeatable, bad input refused."""

from __future__ import annotations

import asyncio
import math
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_worlds import Lookup, outcome, tiny

from rosellm.roserlhf.batching.rollout import rollouts_of
from rosellm.roserlhf.errors import CheckpointError, ConfigError, DtypeError, RangeError, RoseError, RunFolderError
from rosellm.roserlhf.trainer.evaluate import evaluate_run, pass_at_k
from rosellm.roserlhf.trainer.run import train
from rosellm.roserlhf.trainer.success import common_cause, failures_of, success_row
from rosellm.roserlhf.trainer.world import World, path_of
from rosellm.roserlhf.trajectory import PolicyAction, Trajectory, TransitionRecord


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "tiny"
    train(tiny(evaluate={"every": 0}), out=path)
    return path


# ---- pass@k


@pytest.mark.parametrize(
    ("samples", "successes", "k", "expected"),
    [
        (4, 1, 1, 1 / 4),
        (4, 1, 2, 1 - 3 / 6),  # C(3, 2) = 3 of the C(4, 2) = 6 pairs miss the one success
        (5, 2, 2, 1 - 3 / 10),
        (5, 2, 4, 1.0),  # four of five cannot miss two
        (8, 0, 8, 0.0),
        (8, 8, 1, 1.0),
        (2000, 1, 1000, 0.5),  # the binomials have 600 digits
    ],
)
def test_pass_at_k_by_hand(samples: int, successes: int, k: int, expected: float) -> None:
    assert pass_at_k(samples, successes, k) == pytest.approx(expected, abs=1e-15)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_mean_over_all_subsets(case: tuple[int, int, int]) -> None:
    samples, successes, k = case
    outcomes = [True] * successes + [False] * (samples - successes)
    assert pass_at_k(samples, successes, k) == pytest.approx(mean(any(drawn) for drawn in combinations(outcomes, k)))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((4, 1, 0), RangeError, r"k must be in \[1, 4\], got 0"),
        ((4, 1, 5), RangeError, r"k must be in \[1, 4\], got 5"),
        ((4, 5, 1), RangeError, r"successes must be in \[0, 4\], got 5"),
        ((4, -1, 1), RangeError, "successes must be in"),
        ((0, 0, 1), RangeError, r"samples must be in \[1, inf\), got 0"),
        ((4, 1, 2.5), DtypeError, "k must be an integer, got 2.5"),
    ],
)
def test_pass_at_k_refuses(arguments: tuple[Any, Any, Any], error: type[RoseError], message: str) -> None:
    with pytest.raises(error, match=message):
        pass_at_k(*arguments)


# ---- a run and its checkpoints


def test_a_run_is_measured_on_its_held_out_tasks(folder: Path) -> None:
    found = evaluate_run(folder, tasks=12, samples=4)
    assert found == evaluate_run(folder, tasks=12, samples=4)
    assert (found["step"], found["tasks"], found["samples"], found["temperature"], found["skipped"]) == (4, 12, 4, 1.0, [])
    assert (found["sampled"]["n"], found["greedy"]["n"]) == (48, 12)
    assert sorted(found["pass_at_k"]) == [1, 2, 4]
    values = [found["pass_at_k"][k]["value"] for k in (1, 2, 4)]
    assert values[0] == pytest.approx(found["sampled"]["success"])
    assert values == sorted(values)
    for row in found["pass_at_k"].values():
        assert 0 <= row["low"] <= row["value"] <= row["high"] <= 1
    groups = found["groups"]
    assert groups["total"] == 12 == sum(groups[name] for name in ("all_fail", "all_pass", "mixed", "unscored"))
    assert evaluate_run(folder, tasks=12, samples=4, seed=1)["greedy"] == found["greedy"]


def test_a_checkpoint_is_measured_by_itself(folder: Path) -> None:
    newest, older = (evaluate_run(folder / "checkpoints" / str(step), tasks=12, samples=2) for step in (4, 2))
    assert newest == evaluate_run(folder, tasks=12, samples=2)
    assert older["step"] == 2


def test_evaluating_changes_nothing_in_the_run(folder: Path) -> None:
    before = outcome(folder)
    evaluate_run(folder, tasks=2, samples=1)
    assert outcome(folder) == before


def test_one_sample_or_one_task_have_no_interval_of_pass_at_k(folder: Path) -> None:
    assert sorted(evaluate_run(folder, tasks=3, samples=1)["pass_at_k"]) == [1]
    assert evaluate_run(folder, tasks=1, samples=3)["pass_at_k"] == {}


def test_it_runs_inside_a_running_event_loop(folder: Path) -> None:
    async def notebook() -> dict[str, Any]:
        return evaluate_run(folder, tasks=2, samples=1)

    assert asyncio.run(notebook())["tasks"] == 2


def test_R66_a_damaged_newest_checkpoint_is_skipped_and_that_is_said(tmp_path: Path) -> None:
    train(tiny(evaluate={"every": 0}), out=tmp_path / "run")
    file = tmp_path / "run" / "checkpoints" / "4" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    found = evaluate_run(tmp_path / "run", tasks=2, samples=1)
    assert found["step"] == 2
    assert len(found["skipped"]) == 1
    assert "got another model.safetensors" in found["skipped"][0]
    with pytest.raises(CheckpointError, match=r"got another model\.safetensors"):
        evaluate_run(tmp_path / "run" / "checkpoints" / "4", tasks=2, samples=1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tasks": 0}, RangeError, r"tasks must be in \[1, inf\), got 0"),
        ({"samples": 0}, RangeError, r"samples must be in \[1, inf\), got 0"),
        ({"samples": 1.5}, DtypeError, "samples must be an integer, got 1.5"),
        ({"temperature": 0.0}, RangeError, r"temperature must be in \(0, inf\), got 0.0"),
        ({"temperature": math.nan}, RangeError, "temperature must be in"),
        ({"temperature": "warm"}, DtypeError, "temperature must be a number"),
    ],
)
def test_options_out_of_range_are_refused(folder: Path, options: dict[str, Any], error: type[RoseError], message: str) -> None:
    with pytest.raises(error, match=message):
        evaluate_run(folder, **options)


def test_what_is_no_run_is_refused(tmp_path: Path, folder: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", folder / "checkpoints", folder / "checkpoints" / "3", folder / "tokenizer"):
        with pytest.raises(RunFolderError, match="a run folder or one of its checkpoints/<step> must be given"):
            evaluate_run(path)


def test_a_run_without_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("")
    with pytest.raises(CheckpointError, match="must have a checkpoint to be evaluated, got none yet"):
        evaluate_run(tmp_path)


def test_a_damaged_run_file_is_one_clear_error(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "checkpoints").symlink_to(folder / "checkpoints")
    for text, message in (("steps = [", "must be TOML"), ('recipe = "grpo"\nsteps = "many"', "steps must be")):
        (tmp_path / "run.toml").write_text(text)
        with pytest.raises(ConfigError, match=message):
            evaluate_run(tmp_path)


class Larger(Lookup):
    """A vocabulary that the model does not have."""

    vocabulary = (*Lookup.vocabulary, "lamp")


def test_an_environment_of_another_vocabulary_is_refused(folder: Path) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer must be the one of checkpoint \d+"):
        evaluate_run(folder, environment=Larger)


# ---- what episodes say together


def episode(name: str, *rewards: float | None, blame: Any = None, cause: str | None = None) -> Trajectory:
    record = Trajectory(name, "task", "env-1", "tok")
    for turn, reward in enumerate(rewards):
        last = turn == len(rewards) - 1
        action = PolicyAction(turn, [1], [-0.1], "v0", "")
        record.append(
            action,
            TransitionRecord(
                turn,
                None,
                {"correct": reward} if last else {},
                terminated=last,
                cause=cause if last else None,
                blame=blame if last else None,
            ),
        )
    return record


def test_success_counts_scored_episodes_and_names_the_others() -> None:
    world = World.build(tiny().config, "run")
    episodes = [
        episode("a", 1.0),
        episode("b", 0.0),
        episode("c", 0.5),
        episode("d", None, blame="infrastructure", cause="score raised X"),
    ]
    row = success_row(world, episodes)
    # one of three: Wilson interval of 1/3 at n = 3 and z = 1.96 is (0.0615, 0.7923)
    assert (row["n"], row["unscored"], row["success"]) == (3, 1, pytest.approx(1 / 3))
    assert (row["low"], row["high"]) == (pytest.approx(0.0615, abs=1e-4), pytest.approx(0.7923, abs=1e-4))
    assert success_row(world, episodes[3:]) == {"n": 0, "unscored": 1, "success": None, "low": None, "high": None}
    assert success_row(world, []) == {"n": 0, "unscored": 0, "success": None, "low": None, "high": None}


def test_the_common_cause_is_the_most_frequent_one() -> None:
    episodes = [episode(n, None, blame="infrastructure", cause="score raised X") for n in ("a", "b")]
    episodes.append(episode("c", 1.0, cause="finished"))
    failed = episode("d")
    failed.fail("infrastructure", "start raised Y")
    assert common_cause(failures_of(rollouts_of([*episodes, failed]))) == "score raised X"
    assert common_cause(failures_of(rollouts_of([failed]))) == "start raised Y"
    assert common_cause(failures_of(rollouts_of(episodes[2:]))) == "no cause was recorded"


def test_an_environment_class_is_named_as_a_configuration_names_it() -> None:
    from rosellm.roserlhf.environment.shop import Shop

    assert path_of(Shop) == "shop"
    assert path_of(Lookup) == "loop_worlds:Lookup"
