"""Held-out tasks before and after training: the same tasks, what changed first, and nothing of it called trained."""

from __future__ import annotations

from pathlib import Path

from report_html import Page
from report_records import rollout, write_tokenizer
from report_runs import metrics, write_run

from rosellm.roserlhf.report.before_after import read_pairs, section
from rosellm.roserlhf.report.run_folder import read_run
from rosellm.roserlhf.store import EventLog


def evaluated(folder: Path, before: str, after: str, mode: str = "greedy") -> None:
    """Task i succeeded (+) or failed (-) at steps 0 and 40, as the i-th letters say."""
    write_run(folder, metrics(steps=40, warm_steps=0))
    write_tokenizer(folder)
    with EventLog.create(folder / "events.db") as log:
        for step, outcomes in ((0, before), (40, after)):
            for task, outcome in enumerate(outcomes):
                trajectory = rollout(0, task, step, outcome == "+")
                log.append_trajectory(trajectory, step=step, phase=f"evaluate-{mode}")


def test_the_same_task_is_shown_twice_and_what_changed_comes_first(tmp_path: Path) -> None:
    evaluated(tmp_path, "++++-----+", "++++++---+"[:9] + "-")
    pairs, note = read_pairs(read_run(tmp_path))
    assert all(before.task_id == after.task_id for before, after in pairs)
    assert all((before.step, after.step) == (0, 40) for before, after in pairs)
    # 4 stay right, 2 are learnt, 3 still fail, 1 is lost: one of each that changed or fails, then the second that was learnt
    assert [(before.outcome, after.outcome) for before, after in pairs] == [
        ("failure", "success"),
        ("success", "failure"),
        ("failure", "failure"),
        ("failure", "success"),
    ]
    assert "Of 10 held-out tasks, " in note
    for words in ("success → success: 4", "failure → success: 2", "failure → failure: 3", "success → failure: 1", "Steps 0 and 40"):
        assert words in note


def test_what_always_succeeded_fills_up(tmp_path: Path) -> None:
    evaluated(tmp_path, "++-", "+++", mode="sampled")
    pairs, note = read_pairs(read_run(tmp_path))
    assert [before.outcome for before, _ in pairs] == ["failure", "success", "success"]
    assert "sampled once" in note


def test_a_held_out_episode_is_never_called_trained_or_unrecorded(tmp_path: Path) -> None:
    evaluated(tmp_path, "-", "+")
    page = Page(section(*read_pairs(read_run(tmp_path))))
    assert "held out, never trained" in page.text
    assert "advantage" not in page.text
    sampled = [tip for tip in page.values("title") if "policy_mask 1" in tip]
    assert sampled
    assert all("excluded: held out, never trained" in tip for tip in sampled)


def test_without_two_evaluations_the_page_says_so(tmp_path: Path) -> None:
    write_run(tmp_path, metrics(steps=2, warm_steps=0))
    assert "events.db" in read_pairs(read_run(tmp_path))[1]
    EventLog.create(tmp_path / "events.db").close()
    pairs, note = read_pairs(read_run(tmp_path))
    assert not pairs
    assert note.startswith("No held-out task")
