"""Reading a run folder: nothing is guessed, nothing is lost without a sentence about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_runs import metrics, write_run

from rosellm.roserlhf.errors import RunFolderError
from rosellm.roserlhf.report import write_report
from rosellm.roserlhf.report.run_folder import read_run


def test_rows_come_in_step_order(tmp_path: Path) -> None:
    rows = metrics(steps=12, warm_steps=5)
    run = read_run(write_run(tmp_path, rows[::-1]))
    assert [row.step for row in run.train] == list(range(12))
    assert [row.step for row in run.warm_start] == list(range(5))
    assert [(row.step, row.word("mode")) for row in run.evaluations] == [
        (step, mode) for step in (0, 10, 12) for mode in ("greedy", "sampled")
    ]
    assert run.finished
    assert run.problems == ()


@pytest.mark.parametrize("content", [None, "a file"])
def test_a_folder_without_a_run_is_an_error(tmp_path: Path, content: str | None) -> None:
    folder = tmp_path / "run"
    if content:
        folder.write_text(content)
    with pytest.raises(
        RunFolderError, match=r"run_folder must be a folder with one of run.toml, metrics.jsonl, summary.json, got .*run"
    ):
        read_run(folder)


def test_R53_a_torn_tail_is_skipped_and_reported(tmp_path: Path) -> None:
    folder = write_run(tmp_path, metrics(steps=3, warm_steps=0))
    path = folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-7])
    run = read_run(folder)
    assert len(run.train) == 3
    # the last line is the second evaluation after step 3
    assert [(row.step, row.word("mode")) for row in run.evaluations] == [(0, "greedy"), (0, "sampled"), (3, "sampled")]
    assert len(run.problems) == 1
    assert "metrics.jsonl line 7 is not complete JSON and was skipped" in run.problems[0]


def test_a_step_written_twice_is_shown_once(tmp_path: Path) -> None:
    rows = metrics(steps=2, warm_steps=0)
    again = {**next(row for row in rows if row["phase"] == "train"), "loss": 42.0}
    run = read_run(write_run(tmp_path, [*rows, again]))
    assert run.train[0].number("loss") == 42.0
    assert run.problems == ("metrics.jsonl has train step 0 more than once; the last line of it is shown",)


def test_values_of_the_wrong_type_count_as_not_recorded_and_are_reported(tmp_path: Path) -> None:
    row = {"phase": "train", "step": 0, "loss": "<script>", "success": True, "reward": {"total": [1]}, "rollouts": 10**400}
    run = read_run(write_run(tmp_path, [row], with_summary=False))
    assert [run.train[0].number(key) for key in ("loss", "success", "rollouts", "gradient_norm")] == [None] * 4
    assert run.train[0].number("reward", "total") is None
    assert [problem.split(" must")[0] for problem in run.problems] == [
        "metrics.jsonl line 1: loss",
        "metrics.jsonl line 1: success",
        "metrics.jsonl line 1: rollouts",
    ]


def test_lines_that_are_no_rows_are_reported(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(
        '[]\n{"phase": "dance", "step": 1}\n{"phase": "train", "step": "1"}\n\n{"phase": "train", "step": 1.5}\n'
    )
    run = read_run(tmp_path)
    assert run.train == ()
    assert len(run.problems) == 4


def test_damaged_files_are_reported_and_missing_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("{")
    (tmp_path / "run.toml").write_text("a = ")
    (tmp_path / "metrics.jsonl").write_bytes(b"\xff\xfe\n")
    run = read_run(tmp_path)
    assert (run.summary, run.config, run.train) == (None, None, ())
    assert [problem.split(" ")[0] for problem in run.problems] == ["summary.json", "run.toml", "metrics.jsonl"]
    (tmp_path / "summary.json").write_text("[1]")
    assert "summary.json must hold a JSON object, got list" in read_run(tmp_path).problems


def test_files_that_are_nested_without_end_are_reported(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text('{"a":' * 100_000)
    (tmp_path / "run.toml").write_text("a = " + "[" * 100_000)
    (tmp_path / "metrics.jsonl").write_text("[" * 100_000)
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "tokenizer.json").write_text("[" * 100_000)
    assert [problem.split(" ")[0] for problem in read_run(tmp_path).problems] == ["summary.json", "run.toml", "metrics.jsonl"]
    write_report(tmp_path)


def test_R51_large_counters_are_exact(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(json.dumps({"seed": 2**40, "tokens": {"sampled": 3_000_000_000, "trained": 2**53 + 1}}))
    summary = read_run(tmp_path).summary
    assert summary is not None
    assert summary.number("seed") == 2**40
    assert summary.number("tokens", "sampled") == 3_000_000_000
    assert summary.number("tokens", "trained") == 2**53 + 1
