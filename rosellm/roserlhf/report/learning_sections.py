"""Sections on learning: success and rewards over time, group signal, and the warm start before it."""

from __future__ import annotations

from collections.abc import Sequence

from rosellm.roserlhf.report.bars import StackChart
from rosellm.roserlhf.report.figure import Series
from rosellm.roserlhf.report.lines import LineChart, Point, Points
from rosellm.roserlhf.report.markup import Html
from rosellm.roserlhf.report.results import evaluation, share_of
from rosellm.roserlhf.report.run_folder import Row, Run, column, names_of
from rosellm.roserlhf.report.section import MAX_STEPS, STEP, as_percent, section, series, steps_of, stride, thinned

CURVE_NOTE = (
    "Share of rollouts that solve their task. Band and bars are 95 % intervals; rollouts of one group share a task, "
    "so the band is somewhat too narrow."
)
SPREAD_NOTE = "What an update can learn from: the spread of rewards, and the share of groups in which all members got the same."
SIGNAL_LEAD = (
    "Only a group with mixed outcomes teaches: where all members fail or all pass, every advantage is 0. "
    "Every sampled token is trained, or excluded under one named reason."
)


def learning(run: Run) -> Html:
    """Show whether success rises, and which rewards rise with it."""
    train = thinned(run.train)
    return section("learning", "Does it learn?", _lead(run), _learning_curve(train, run), _reward_components(train), _spread(train))


def _lead(run: Run) -> str | None:
    if not run.train:
        return "No training step was recorded (yet): charts over training steps have nothing to show."
    if len(run.train) > MAX_STEPS:
        return f"One in {stride(run.train)} of the {len(run.train):,} training steps is drawn; metrics.jsonl has all of them."
    return None


def _learning_curve(train: Sequence[Row], run: Run) -> Html:
    shares = [share_of(row.number("success"), row.number("rollouts")) for row in train]
    low, high = [share[1] if share else None for share in shares], [share[2] if share else None for share in shares]
    rollouts = Series("training rollouts", column(train, "success"), "c0", low, high)
    points = [
        Points(
            f"held-out, {mode}",
            colour,
            shape,
            [Point(row.step, *share) for row in run.evaluations if row.word("mode") == mode and (share := evaluation(row))],
        )
        for mode, colour, shape in (("sampled", "c1", "disc"), ("greedy", "c2", "diamond"))
    ]
    chart = LineChart(
        "Learning curve",
        STEP,
        "success (% of rollouts)",
        steps_of(train),
        [rollouts],
        points,
        include=(0.0, 1.0),
        style=as_percent,
        note=CURVE_NOTE,
        wide=True,
    )
    return chart.figure()


def _reward_components(train: Sequence[Row]) -> Html:
    names = [name for name in names_of(train, "reward") if name not in ("total", "std")]
    lines = [series(train, "total", "c6", "reward", "total")]
    lines += [series(train, name, f"c{index % 6}", "reward", name) for index, name in enumerate(names)]
    note = "Each named component, and their total."
    return LineChart("Reward components", STEP, "reward (mean per rollout)", steps_of(train), lines, note=note).figure()


def _spread(train: Sequence[Row]) -> Html:
    lines = [
        series(train, "reward std inside groups", "c0", "reward", "std"),
        series(train, "share of groups with zero variance", "c1", "zero_variance_share"),
    ]
    return LineChart("Reward spread", STEP, "reward std; share (0 to 1)", steps_of(train), lines, note=SPREAD_NOTE).figure()


def signal(run: Run) -> Html:
    """Show which groups teach, and what became of the sampled tokens."""
    train = thinned(run.train)
    return section("signal", "Is there a signal?", SIGNAL_LEAD, _groups(train), _tokens(train))


def _groups(train: Sequence[Row]) -> Html:
    parts = [
        series(train, "all fail", "k-fail", "groups", "all_fail"),
        series(train, "mixed (signal)", "k-mixed", "groups", "mixed"),
        series(train, "all pass", "k-pass", "groups", "all_pass"),
        series(train, "unscored", "k-none", "groups", "unscored"),
    ]
    whole = series(train, "all groups", "c6", "groups", "total")
    return StackChart("Group signal", STEP, "groups (count)", steps_of(train), parts, whole).figure()


def _tokens(train: Sequence[Row]) -> Html:
    parts = [series(train, "trained", "k-mixed", "tokens", "trained")]
    for index, reason in enumerate(names_of(train, "tokens", "excluded")):
        parts.append(series(train, f"excluded: {reason}", ("c4", "c3", "c5", "c7", "c6")[index % 5], "tokens", "excluded", reason))
    whole = series(train, "sampled", "c6", "tokens", "sampled")
    return StackChart("Token accounting", STEP, "sampled tokens (count)", steps_of(train), parts, whole).figure()


def warm_start(run: Run) -> Html:
    """Show the cloning before the first training step."""
    rows, step = thinned(run.warm_start), "warm-start step"
    loss = LineChart("Cloning loss", step, "loss (nats per token)", steps_of(rows), [series(rows, "loss", "c0", "loss")])
    points = [Point(row.step, success, *_ends(row)) for row in run.warm_start if (success := row.number("success")) is not None]
    success_chart = LineChart(
        "Success during the warm start",
        step,
        "success (% of tasks)",
        [],
        [],
        [Points("success", "c1", "disc", points)],
        include=(0.0, 1.0),
        style=as_percent,
        reach=steps_of(rows),
        note="Bars are 95 % intervals, where the number of tasks was recorded.",
    )
    return section("warm-start", "How did the warm start go?", None, loss.figure(), success_chart.figure())


def _ends(row: Row) -> tuple[float | None, float | None]:
    share = share_of(row.number("success"), row.number("n"))
    return (share[1], share[2]) if share else (None, None)
