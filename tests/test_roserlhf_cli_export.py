"""`roserlhf export` and `roserlhf import`: what they write, say and refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from export_logs import everything, run_log

from rosellm.roserlhf.cli import main


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a run folder, and keep this process as it is."""
    for name, value in {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "run"
    folder.mkdir()
    run_log(folder / "events.db").close()
    return folder


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_a_run_is_exported_and_imported(run: Path, tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(run), "--to", suffix]) == 0
    said = f"{run}/trajectories: 12 records, 144 tokens; 9 scores, 33 ledger, 3 policies, 3 metrics, 6 updates\n"
    assert capsys.readouterr().out == said
    assert main(["import", str(run / "trajectories"), "--out", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path}/new/events.db: 12 records, 144 tokens")
    assert everything(tmp_path / "new" / "events.db") == everything(run / "events.db")
    assert main(["import", str(run / "trajectories" / f"trajectories.{suffix}"), "--out", str(tmp_path / "alone.db")]) == 0
    assert (tmp_path / "alone.db").is_file()


def test_filters_and_a_place_of_ones_own(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "here")
    assert main(["export", str(run / "events.db"), "--out", out, "--step", "1", "--phase", "evaluate"]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: 2 records, 24 tokens; 0 scores")
    assert main(["export", str(run), "--out", out]) == 1
    assert "must not exist yet" in capsys.readouterr().err
    assert main(["export", str(run), "--out", out, "--overwrite"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["export", "RUN", "--to", "csv"], 2, "to must be"),
        (["export", "RUN", "--step", "-1"], 2, "--step must be a whole number, got '-1'"),
        (["export", "RUN", "--steps", "1"], 2, "unknown option --steps; did you mean --step?"),
        (["export", "RUN/nothing"], 1, "which holds no events.db"),
        (["import", "RUN"], 2, "--out must be given"),
        (["import", "RUN/nothing", "--out", "X"], 1, "no such file or folder"),
        (["import", "RUN", "--out", "X"], 1, "got neither"),
        (["import", "RUN/events.db", "--out", "X"], 1, "got neither"),
    ],
)
def test_a_wrong_call_is_one_clear_line(
    run: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert main([word.replace("RUN", str(run)) for word in arguments]) == code
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_what_is_lost_is_said(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["export", str(run), "--to", "jsonl"])
    path = run / "trajectories" / "tables" / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    assert main(["import", str(run / "trajectories"), "--out", str(tmp_path / "new")]) == 0
    error = capsys.readouterr().err
    assert "ends in the middle of line 3: that line is skipped" in error
    assert "1 rows of metrics are lost" in error


def test_one_of_each_format_must_be_named(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for suffix in ("jsonl", "parquet"):
        main(["export", str(run), "--to", suffix])
    assert main(["import", str(run / "trajectories"), "--out", str(tmp_path / "new")]) == 1
    assert "one of each format" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["export", "import"])
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: roserlhf {command} ")
