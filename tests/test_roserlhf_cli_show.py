"""`roserlhf show`: runs, one run, one trajectory, at any moment of a run's life and whatever stands in its records."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from explained_runs import broken, make_run, name_of, place, rollout, trained_run

from rosellm.roserlhf.cli import main
from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.trajectory import PolicyAction, TokenSpan, ToolResult, Trajectory, TransitionRecord


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
    assert main(["show", *argv]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    return out


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["show", *argv]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err.removeprefix("roserlhf: error: ").rstrip()


def metrics(run: Path, *rows: dict[str, object]) -> None:
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_runs_are_listed_with_what_became_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys) == "no runs below runs/; `roserlhf train` makes one\n"
    done = make_run(Path("runs/done"))
    metrics(
        done,
        {"phase": "evaluate", "step": 0, "mode": "sampled", "success": 0.25},
        {"phase": "train", "step": 2},
        {"phase": "evaluate", "step": 2, "mode": "sampled", "success": 0.75},
    )
    (done / "summary.json").write_text('{"status": "finished"}', encoding="utf-8")
    make_run(Path("runs/begun"))
    metrics(make_run(Path("runs/broken")), {"phase": "train", "step": 1})
    Path("runs/other").mkdir()
    rows = [re.sub(r"\d+ [kM]?i?B", "", line).split() for line in printed(capsys).splitlines()]
    assert rows[1:] == [
        ["runs/begun", "grpo", "shop", "0/2", "not", "measured", "begun"],
        ["runs/broken", "grpo", "shop", "1/2", "not", "measured", "not", "finished"],
        ["runs/done", "grpo", "shop", "2/2", "0.250", "→", "0.750", "finished"],
    ]


def test_a_run_shows_counts_and_some_trajectories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained_run(tmp_path / "run")
    metrics(run, {"phase": "train", "step": 1, "success": 0.5, "reward": {"total": 0.5}, "loss": 0.0125})
    out = printed(capsys, "run")
    assert "attempts: 4 trained\n" in out
    assert "tokens: 8 sampled, 8 trained\n" in out
    assert "train step 1: 4 of 4 trajectories\n" in out
    assert f"     1      1  terminated  trained  {name_of('a')}\n" in out
    assert "0.0125" in out


def test_ids_and_reasons_stay_whole_in_a_narrow_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    trained_run(tmp_path / "run")
    assert main(["show", "run"]) == 0
    assert f"     1      1  terminated  trained  {name_of('a')}\n" in capsys.readouterr().out
    assert main(["explain", "run", name_of("a")]) == 0
    assert f"  {name_of('b')}\n" in capsys.readouterr().out


def test_trajectories_are_filtered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained_run(tmp_path / "run")
    with EventLog.open(run / "events.db") as log:
        log.append_trajectory(rollout("a", trainable=False), step=0, phase="evaluate-greedy")
    assert "1 of 2 trajectories with reward positive" in printed(capsys, "run", "--reward", "positive", "--limit", "1")
    assert "2 of 2 trajectories with reward zero" in printed(capsys, "run", "--step", "1", "--reward", "zero")
    assert "0 of 0 trajectories\nsteps of this phase: 1 to 1\n" in printed(capsys, "run", "--step", "7")
    assert "evaluate-greedy step 0: 1 of 1" in printed(capsys, "run", "--phase", "evaluate-greedy")
    assert "no trajectory of phase nothing; --phase names another" in printed(capsys, "run", "--phase", "nothing")


def test_runs_at_every_moment_of_their_life(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run")
    assert "no trajectory of phase train yet" in printed(capsys, "run")
    with EventLog.open(run / "events.db") as log:  # its writer is at work
        place(log, rollout("a"), "finished")
        log.append_ledger(name_of("b"), "launched", step=1)
        out = printed(capsys, "run")
    assert "attempts: 1 finished, 1 launched" in out
    assert "2 pending" in out
    (run / "events.db").unlink()
    assert "no event log (events.db) yet" in printed(capsys, "run")
    trained = trained_run(tmp_path / "bare")
    (trained / "run.toml").unlink()
    assert "no run.toml, so recipe and environment are not known" in printed(capsys, "bare")


def hostile_record() -> Trajectory:
    record = Trajectory("run/train/1/t/0", "\x1b]0;title\x07", "Shop-1", "tok", prompt=[TokenSpan([1, 2], "user\u202e")])
    record.append(
        PolicyAction(
            0, [3], [-0.5], "v0", "<script>[bold]\x1b[2J\x00\u2028\ud800" + "x" * 10_000, {"any": "thing"}, stop_reason="stop"
        ),
        TransitionRecord(
            0, None, {"correct\x9b": None}, results=[ToolResult("c", content="\r\x08boo", origin="harness")], terminated=True
        ),
    )
    return record


def test_a_transcript_is_whole_and_inert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run")
    with EventLog.open(run / "events.db") as log:
        log.append_trajectory(hostile_record(), step=1, phase="train")
    out = printed(capsys, "run", "run/train/1/t/0")
    out.encode("utf-8")
    assert not {character for character in out if not character.isprintable() and character != "\n"}
    for part in ("<script>[bold]⟨U+001B⟩[2J⟨U+0000⟩⟨U+2028⟩⟨U+D800⟩", "⟨U+000D⟩⟨U+0008⟩boo", "not scored", "terminated"):
        assert part in out
    assert "6,0" in out  # the middle of a long text is left out, and counted
    assert not set(printed(capsys, "run")) & set("\x1b\x9b\u202e")


def test_a_transcript_says_turns_versions_rewards_and_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run")
    with EventLog.open(run / "events.db") as log:
        place(log, rollout("a", stale=1), "trained", advantage=1.0, stale=1)
        place(log, broken("b"), "rejected", reason="unscored")
    out = printed(capsys, "run", name_of("a"))
    for part in (
        "prompt · user\n  What<end>",
        "turn 0 · policy v0, v0+1 (stale)\n  yes",
        "rewards: correct 1, cost -0.25",
        "terminated: finished",
        "trained at step 1, 1 tokens; excluded: 1 stale prefix cache",
    ):
        assert part in out
    assert "broke off\n  sandbox lost (infrastructure)" in printed(capsys, "run", name_of("b"))


def test_wrong_usage_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained_run(tmp_path / "runs" / "one")
    assert "there are runs/one" in refused(capsys, "runs/two")
    assert "nearest: run/train/1/task-1/" in refused(capsys, "runs/one", "run/train/1/task-1")
    assert refused(capsys, "a", "b", "c") == "arguments must be [RUN] [TRAJECTORY], got a b c"
    assert refused(capsys, "runs/one", "--reward", "huge").startswith("reward must be")
    assert refused(capsys, "runs/one", "--stp", "1") == "unknown option --stp; did you mean --step?"


def test_help_lists_the_three_ways(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "--help")
    assert out.count("roserlhf show") == 3
    assert "--reward any|positive|zero|negative|unscored" in out


def test_rewards_are_weighed_as_the_run_recorded_and_no_code_of_it_is_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained_run(tmp_path / "run")
    toml = run / "run.toml"
    toml.write_text(toml.read_text(encoding="utf-8").replace('"shop"', '"antigravity:Gone"'), encoding="utf-8")
    with EventLog.open(run / "events.db") as log:
        log.append_metrics("process", 2, {"machine": {}, "reward_weights": {"correct": 3.0}, "success_component": "correct"})
    out = printed(capsys, "run")
    assert f"     3      1  terminated  trained  {name_of('a')}\n" in out
    assert "antigravity" not in sys.modules
