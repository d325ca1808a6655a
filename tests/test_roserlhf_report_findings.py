"""Each check: it stays silent on a healthy run, speaks on the fault it is for, and says so where it cannot be made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_runs import Metrics, metrics, summary, write_run

from rosellm.roserlhf.report.findings import CHECKS, check_run
from rosellm.roserlhf.report.outcome import Outcome
from rosellm.roserlhf.report.run_folder import Row, Run, read_run

STEPS = 20


def healthy() -> list[Metrics]:
    """A run whose groups keep a signal to the end."""
    rows = metrics(steps=STEPS, warm_steps=5)
    for row in rows:
        if row["phase"] == "train":
            row["groups"] = {"total": 64, "all_fail": 4, "all_pass": 20, "mixed": 40, "unscored": 0}
            row["zero_variance_share"] = 24 / 64
    return rows


def outcomes(folder: Path, rows: list[Metrics]) -> dict[str, Outcome]:
    """Check a run, by name of the check."""
    return {outcome.name: outcome for outcome in check_run(read_run(write_run(folder, rows)))}


def train_rows(rows: list[Metrics]) -> list[Metrics]:
    """The rows of training steps, to be changed in place."""
    return [row for row in rows if row["phase"] == "train"]


def test_a_healthy_run_has_no_warning(tmp_path: Path) -> None:
    found = outcomes(tmp_path, healthy())
    assert len(found) == len(CHECKS)
    assert {outcome.verdict for outcome in found.values()} == {"passed"}
    assert not any(outcome.fix or outcome.problem for outcome in found.values())


def test_nothing_recorded_is_not_a_pass() -> None:
    verdicts = {outcome.name: outcome.verdict for outcome in check_run(Run(Path("nowhere")))}
    assert verdicts.pop("run finished") == "notice"
    assert verdicts.pop("records readable") == "passed"
    assert set(verdicts.values()) == {"not recorded"}


def set_everywhere(*path: str, to: Any, last: int = STEPS) -> Callable[[list[Metrics]], None]:
    """Make a change: one value in the last steps."""

    def change(rows: list[Metrics]) -> None:
        for row in train_rows(rows)[-last:]:
            table = row
            for key in path[:-1]:
                table = table[key]
            table[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("name", "change", "verdict", "evidence"),
    [
        (
            "groups carry a signal",
            set_everywhere("zero_variance_share", to=0.9, last=10),
            "notice",
            "in 90.0 % of the groups of the last 10 steps",
        ),
        ("clip fraction low", set_everywhere("clip_fraction", to=0.4, last=10), "notice", "40.0 %"),
        ("clip fraction low", set_everywhere("clip_fraction", to=0.7, last=10), "serious", "70.0 %"),
        ("KL small and not rising", set_everywhere("approximate_kl", to=0.03, last=10), "notice", "last 10 steps 0.03"),
        ("KL small and not rising", set_everywhere("approximate_kl", to=0.2), "notice", "0.2"),
        (
            "no saturated ratio",
            set_everywhere("saturated_tokens", to=3, last=2),
            "notice",
            "6 tokens at the overflow guard, in 2 of 20 steps",
        ),
        (
            "log-ratio before the update is 0",
            set_everywhere("max_abs_log_ratio_before_update", to=1e-4, last=1),
            "serious",
            "at step 19",
        ),
        (
            "log-ratio before the update is 0",
            set_everywhere("max_abs_log_ratio_before_update", to=float("nan"), last=1),
            "serious",
            "NaN, at step 19",
        ),
        ("gradient norm healthy", set_everywhere("gradient_norm", to=0.0, last=10), "serious", "last 0"),
        ("gradient norm healthy", set_everywhere("gradient_norm", to=50.0, last=1), "notice", "largest 50"),
        ("metrics finite", set_everywhere("loss", to=float("nan"), last=1), "serious", "loss at step 19"),
        (
            "few truncated rollouts",
            set_everywhere("ended", to={"terminated": 300, "truncated": 212, "failed": 0}),
            "notice",
            "41.4 %",
        ),
        ("rollouts scored", set_everywhere("groups", "unscored", to=4), "notice", "6.2 % of the groups are unscored"),
        ("rollouts scored", set_everywhere("ended", "failed", to=128), "serious", "25.0 % of the rollouts failed"),
        (
            "every step trained something",
            set_everywhere("tokens", to={"sampled": 9, "trained": 0, "excluded": {"no signal": 9}}, last=1),
            "notice",
            "1 of 20",
        ),
        (
            "every step trained something",
            set_everywhere("tokens", to={"sampled": 9, "trained": 0, "excluded": {"no signal": 9}}, last=5),
            "serious",
            "5 of 20",
        ),
        (
            "tokens balance",
            set_everywhere("tokens", to={"sampled": 10, "trained": 4, "excluded": {"a": 3, "b": 2}}, last=1),
            "serious",
            "step 19: 1 too few",
        ),
    ],
)
def test_each_fault_is_found_with_its_fix(
    tmp_path: Path, name: str, change: Callable[[list[Metrics]], None], verdict: str, evidence: str
) -> None:
    rows = healthy()
    change(rows)
    outcome = outcomes(tmp_path, rows)[name]
    assert outcome.verdict == verdict
    assert evidence in outcome.evidence
    assert outcome.problem
    assert outcome.fix


def test_missing_metric_is_not_judged(tmp_path: Path) -> None:
    rows = healthy()
    for row in train_rows(rows):
        del row["clip_fraction"]
        row["gradient_norm"] = None
        row["tokens"]["excluded"] = {"a": None}
    found = outcomes(tmp_path, rows)
    for name in ("clip fraction low", "gradient norm healthy", "tokens balance"):
        assert found[name].verdict == "not recorded"
        assert "not recorded" in found[name].evidence


def test_the_fix_depends_on_who_fails(tmp_path: Path) -> None:
    rows = healthy()
    for row in train_rows(rows):
        row |= {"zero_variance_share": 1.0, "groups": {"total": 64, "all_fail": 64, "all_pass": 0, "mixed": 0, "unscored": 0}}
    too_hard = outcomes(tmp_path / "hard", rows)["groups carry a signal"]
    for row in train_rows(rows):
        row["groups"] = {"total": 64, "all_fail": 0, "all_pass": 64, "mixed": 0, "unscored": 0}
    too_easy = outcomes(tmp_path / "easy", rows)["groups carry a signal"]
    assert (too_hard.verdict, too_easy.verdict) == ("serious", "notice")
    assert "too hard" in too_hard.fix
    assert "too easy" in too_easy.fix


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    # n = 1024: the interval of 0.41 is 0.380 to 0.440, that of 0.43 is 0.400 to 0.461, that of 0.50 is 0.469 to 0.531
    [(0.41, 0.50, "passed"), (0.41, 0.43, "notice"), (0.41, 0.41, "serious"), (0.41, 0.30, "serious"), (None, 0.9, "not recorded")],
)
def test_improvement_is_held_against_its_uncertainty(before: float | None, after: float, verdict: str) -> None:
    rows = healthy()
    found = {**summary(rows), "success_before": {"sampled": before, "n": 1024}, "success_after": {"sampled": after, "n": 1024}}
    outcome = {outcome.name: outcome for outcome in check_run(Run(Path("run"), summary=Row(found)))}[
        "success improved over the warm start"
    ]
    assert outcome.verdict == verdict
