"""Sections on rollouts: how long they are, how they end, and where the time goes."""

from __future__ import annotations

from collections.abc import Sequence

from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.bars import StackChart, total_bar
from rosellm.roserlhf.report.figure import Series
from rosellm.roserlhf.report.lines import LineChart
from rosellm.roserlhf.report.markup import Html
from rosellm.roserlhf.report.results import stage_seconds
from rosellm.roserlhf.report.run_folder import Row, Run, names_of
from rosellm.roserlhf.report.section import STEP, section, series, steps_of, thinned

ENDED_NOTE = "Terminated: the task ended by itself. Truncated: a limit cut it. Failed: a tool or the machine."
FAILURES_NOTE = "Such rollouts are left out of groups and baselines: a failure of the surroundings says nothing about the policy."
REWRITES_NOTE = "The episode goes on in a record of its own behind the new rendering; the records are one rollout."
STAGE_COLOURS = {"warm_start": "c4", "rollout": "c0", "learn": "c1", "evaluate": "c2"}


def rollouts(run: Run) -> Html:
    """Show length, turns, ending and speed."""
    train = thinned(run.train)
    steps = steps_of(train)
    lengths = [series(train, "mean", "c0", "response_tokens", "mean"), series(train, "longest", "c1", "response_tokens", "max")]
    ended = [
        series(train, "terminated", "k-pass", "ended", "terminated"),
        series(train, "truncated", "k-fail", "ended", "truncated"),
        series(train, "failed", "k-none", "ended", "failed"),
    ]
    return section(
        "rollouts",
        "What do rollouts look like?",
        None,
        LineChart("Response length", STEP, "sampled tokens per rollout", steps, lengths).figure(),
        LineChart("Turns", STEP, "turns per rollout (mean)", steps, [series(train, "turns", "c0", "turns", "mean")]).figure(),
        StackChart(
            "How rollouts ended",
            STEP,
            "rollouts (count)",
            steps,
            ended,
            series(train, "all rollouts", "c6", "rollouts"),
            note=ENDED_NOTE,
        ).figure(),
        *_counted(train, "failures", "Why rollouts failed or went unscored", "rollouts (count)", FAILURES_NOTE),
        *_counted(train, "rewrites", "Conversations that the template rewrote", "rewrites (count)", REWRITES_NOTE),
        LineChart(
            "Speed", STEP, "tokens per second", steps, [series(train, "tokens per second", "c0", "tokens_per_second")]
        ).figure(),
    )


def _counted(train: Sequence[Row], name: str, title: str, unit: str, note: str) -> list[Html]:
    """Draw counts by cause; nothing where nothing was counted."""
    colours = ("c4", "c3", "c5", "c7", "c6", "c0", "c1", "c2")
    causes = names_of(train, name)
    parts = [series(train, cause, colours[index % len(colours)], name, cause) for index, cause in enumerate(causes)]
    return [StackChart(title, STEP, unit, steps_of(train), parts, note=note).figure()] if parts else []


def time(run: Run) -> Html:
    """Show seconds per stage, of the run and of each step."""
    return section("time", "Where does the time go?", None, _total_time(run), _step_time(thinned(run.train)))


def _total_time(run: Run) -> Html:
    stages, total, note = stage_seconds(run)
    parts: list[tuple[str, float | None, str]] = [
        (stage.replace("_", " "), value, STAGE_COLOURS[stage]) for stage, value in stages.items()
    ]
    together = sum(value for value in stages.values() if value is not None)
    if total is not None and total > together:
        parts.append(("other", total - together, "k-none"))
    words = f"Total {units.seconds(total)}" + (f" ({note})." if note else ".")
    return total_bar("Time per stage", parts, style=units.seconds, note=words)


def _step_time(train: Sequence[Row]) -> Html:
    stages = [series(train, stage, STAGE_COLOURS[stage], "seconds", stage) for stage in ("rollout", "learn", "evaluate")]
    whole = series(train, "whole step", "c6", "seconds", "total")
    rest = [_rest(total, [stage.values[index] for stage in stages]) for index, total in enumerate(whole.values)]
    parts = [*stages, Series("other", rest, "k-none")]
    return StackChart("Time per step", STEP, "time (seconds)", steps_of(train), parts, whole, style=units.seconds).figure()


def _rest(total: float | None, parts: Sequence[float | None]) -> float | None:
    """Return what the named stages leave of the total; unknown as soon as one of them is."""
    known = [part for part in parts if part is not None]
    return None if total is None or len(known) < len(parts) else max(0.0, total - sum(known))
