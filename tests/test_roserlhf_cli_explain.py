"""`roserlhf explain`: what it prints, writes and refuses; nothing that a model wrote reaches the terminal as anything but text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from explained_runs import name_of, trained_run, update

from rosellm.roserlhf.cli import main

HOSTILE = {
    1: "<script>",
    2: "\x1b[2J\x00",
    3: "[red]\u202eyes\u2066",
    4: ":smile:\u2028\ud800\x9b31m",
}


@pytest.fixture(autouse=True)
def _a_wide_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "COLUMNS": "100",
        "OMP_WAIT_POLICY": "PASSIVE",
        "KMP_BLOCKTIME": "0",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }.items():
        monkeypatch.setenv(name, value)


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    return out


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(argv) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err.removeprefix("roserlhf: error: ").rstrip()


def test_the_table_has_a_story_a_group_and_a_line_per_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "explain", str(trained_run(tmp_path / "run")), name_of("b"))
    assert [line.rstrip() for line in out.splitlines()[:4]] == [
        name_of("b"),
        "train step 1, task task-1: 1 turn, 2 of 4 tokens sampled by v0; it terminated (finished).",
        "Its total reward is 0; its group of 4 got 2 x 1, 2 x 0, baseline 0.5: advantage -1.",
        "The update pushed 1 token down, 1 got no gradient: |dL/dl| sums to 0.188, 23.1 % of the update's (4",
    ]
    assert [line.split() for line in out.splitlines() if line.startswith(("  0", "  2", "  3"))] == [
        ["0", "context,", "user:", "What", "<end>"],
        ["2", "0", "yes", "-0.6931", "-0.2877", "1.5000", "↓+1.88e-01", "23%", "not", "binding:", "above", "1.2,", "A", "<", "0"],
        ["3", "0", "<end>", "-1.3863", "-2.0794", "0.5000", "0", "0%", "clip", "binds:", "below", "0.8,", "A", "<", "0"],
    ]
    assert "A = (R - mean) / (s + 1e-08) = (0 - 0.5) / (0.5 + 1e-08) = -1\n" in out


def test_a_verdict_is_whole_in_a_narrow_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["explain", str(trained_run(tmp_path / "run")), name_of("b")]) == 0
    assert "clip binds: below 0.8, A < 0\n" in capsys.readouterr().out


def test_one_token_can_be_checked_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "explain", str(trained_run(tmp_path / "run")), name_of("b"), "--token", "2")
    for line in (
        "position 2, id 3, role assistant, turn 0",
        "policy mask 1, content mask 1, loss mask 1: sampled and trained",
        "R = 1 * correct 0 = 0",
        "ratio = exp(current - behaviour) = exp(0.40546",
        "verdict: not binding: above 1.2, A < 0; gradient kept",
        "dL/dl = - dL/dx * w * A = - 1/8 * 1.5 * (-0.99999998) = 0.1875: pushed down",
        "share = |dL/dl| / sum over the update = 0.1875 / 0.8125 = 0.2308",
        "gradient norm 0.75, scaled by 0.6667, learning rate 0.001, made",
    ):
        assert line in out
    context = printed(capsys, "explain", str(tmp_path / "run"), name_of("b"), "--token", "0")
    assert "loss mask 0: context of role user" in context
    assert "dL/dl =" not in context


def test_one_turn_and_two_epochs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained_run(tmp_path / "run", updates=[update(), update(number=1, epoch=1)])
    out = printed(capsys, "explain", str(run), name_of("a"), "--turn", "0")
    assert "context" not in out
    assert out.count("clip binds: above 1.2, A > 0") == 2
    assert "update 1, epoch 1" in out


def test_json_and_page_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(trained_run(tmp_path / "run"))
    assert main(["explain", run, name_of("b"), "--html", "b.html", "--json", "b.json"]) == 0
    assert capsys.readouterr().out == "b.html\nb.json\n"
    assert json.loads(Path("b.json").read_text(encoding="utf-8"))["trajectory_id"] == name_of("b")
    assert Path("b.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert main(["explain", run, name_of("b"), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["step"] == 1


def test_a_full_disk_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run, place = str(trained_run(tmp_path / "run")), tmp_path / "found.json"

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")  # as a write says it, without a name

    monkeypatch.setattr(Path, "write_text", full)
    assert main(["explain", run, name_of("a"), "--json", str(place)]) == 1
    assert capsys.readouterr().err == f"roserlhf: error: {place} cannot be used: No space left on device\n"


@pytest.mark.parametrize("options", [(), ("--token", "2"), ("--turn", "0")])
def test_hostile_text_is_inert_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    run = trained_run(tmp_path / "run", words=HOSTILE)
    out = printed(capsys, "explain", str(run), name_of("b"), *options)
    out.encode("utf-8")
    assert not {character for character in out if not character.isprintable() and character != "\n"}
    assert "[red]⟨U+202E" in out  # neither markup nor a reordering


def test_hostile_ids_are_inert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained_run(tmp_path / "run")
    assert "⟨" not in refused(capsys, "explain", str(run), "../../x\x1b[2J\u202e")


def test_wrong_usage_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(trained_run(tmp_path / "run"))
    assert refused(capsys, "explain", run) == f"arguments must be RUN TRAJECTORY, got {run}"
    assert refused(capsys, "explain", "nowhere", "x").startswith(
        "RUN must be a run folder (with run.toml or events.db), got 'nowhere'"
    )
    assert "nearest: run/train/1/task-1/" in refused(capsys, "explain", run, "run/train/1/task-1/z")
    assert refused(capsys, "explain", run, name_of("a"), "--token", "9") == "token must be a position in [0, 4), got 9"
    assert refused(capsys, "explain", run, name_of("a"), "--turn", "9") == "turn must be one of [0], got 9"
    assert refused(capsys, "explain", run, name_of("a"), "--token", "x").startswith("token must be a valid integer")
    assert refused(capsys, "explain", run, name_of("a"), "--tokn", "1") == "unknown option --tokn; did you mean --token?"


def test_help_lists_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "explain", "--help")
    assert out.startswith("usage: roserlhf explain RUN TRAJECTORY [OPTIONS]\n")
    assert "--html FILE" in out
