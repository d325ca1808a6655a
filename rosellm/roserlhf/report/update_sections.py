"""Sections on the update: loss beside what matters, KL, clipping, gradient, and how far ratios move."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.bars import Histogram
from rosellm.roserlhf.report.figure import figure, is_known, number_table
from rosellm.roserlhf.report.lines import LineChart
from rosellm.roserlhf.report.markup import Html
from rosellm.roserlhf.report.run_folder import Row, Run
from rosellm.roserlhf.report.section import STEP, as_percent, section, series, steps_of, thinned
from rosellm.roserlhf.report.settings import leaves

LOSS_LEAD = (
    "A loss near 0 is normal, and so is a negative one: advantages are centred within their group and the ratio is 1 before the "
    "first update, so the value is 0 by construction while its gradient is not. The loss is therefore no measure of progress. Look "
    "at the reward mean, the reward std inside groups, the share of groups with zero variance and the gradient norm: "
    "where that share is 1 and "
    "the gradient norm 0, there truly was nothing to learn from."
)
RATIO_LEAD = (
    "The importance ratio of every trained token: its probability under the policy being updated, divided by its probability when "
    "it was sampled. Counts are on a logarithmic axis, so that a single token in the tail is seen; dashed lines: clip bounds."
)
BESIDE_LOSS = {
    "loss": ("loss",),
    "reward mean": ("reward", "total"),
    "reward std inside groups": ("reward", "std"),
    "zero-variance share": ("zero_variance_share",),
    "gradient norm": ("gradient_norm",),
    "learning rate": ("learning_rate",),
    "mean ratio": ("mean_ratio",),
    "max |log-ratio| before update": ("max_abs_log_ratio_before_update",),
    "saturated tokens": ("saturated_tokens",),
}


def update(run: Run) -> Html:
    """Show what the updates did, the loss last in importance."""
    train = thinned(run.train)
    return section("update", "What does an update do?", LOSS_LEAD, _beside_loss(run), *_charts(train))


def _beside_loss(run: Run) -> Html:
    title = "Loss beside what matters"
    picked = [run.train[0], run.train[-1]] if len(run.train) > 1 else list(run.train)
    if not picked:
        return figure(title, None)
    rows = [[name, *(units.number(row.number(*path)) for row in picked)] for name, path in BESIDE_LOSS.items()]
    table = number_table(["", *(f"step {row.step}" for row in picked)], rows, label=title)
    every = [[str(row.step), *(units.number(row.number(*path)) for path in BESIDE_LOSS.values())] for row in thinned(run.train)]
    return figure(
        title, table, note="First and last training step.", numbers=number_table([STEP, *BESIDE_LOSS], every, label="All steps")
    )


def _charts(train: Sequence[Row]) -> list[Html]:
    steps = steps_of(train)
    clipped = [
        series(train, "all", "c0", "clip_fraction"),
        series(train, "advantage above 0", "c2", "clip_fraction_positive"),
        series(train, "advantage below 0", "c1", "clip_fraction_negative"),
    ]
    charts = [
        LineChart("Gradient norm", STEP, "gradient norm", steps, [series(train, "gradient norm", "c0", "gradient_norm")]),
        LineChart("Approximate KL", STEP, "KL (nats per token)", steps, [series(train, "approximate KL", "c0", "approximate_kl")]),
        LineChart("Clip fraction", STEP, "trained tokens outside the clip bounds (%)", steps, clipped, style=as_percent),
        LineChart("Loss", STEP, "loss", steps, [series(train, "loss", "c6", "loss")]),
        LineChart("Learning rate", STEP, "learning rate", steps, [series(train, "learning rate", "c0", "learning_rate")]),
    ]
    return [chart.figure() for chart in charts]


def ratios(run: Run) -> Html:
    """Show the ratio histogram of the first and of the last step that recorded one."""
    found = [(row.step, edges, counts) for row in run.train if (histogram := _histogram(row)) for edges, counts in [histogram]]
    if not found:
        return section("ratios", "How far do ratios move?", RATIO_LEAD, figure("Ratio histogram", None, wide=True))
    picked = [("first", found[0]), ("last", found[-1])] if len(found) > 1 else [("only", found[0])]
    top = max(max(counts) for _, (_, _, counts) in picked)
    figures = [
        Histogram(
            f"Ratios, {which} step ({step})", "importance ratio", "tokens (count, log)", edges, counts, top, _clip_bounds(run)
        ).figure()
        for which, (step, edges, counts) in picked
    ]
    return section("ratios", "How far do ratios move?", RATIO_LEAD, *figures)


def _histogram(row: Row) -> tuple[Sequence[float], Sequence[float]] | None:
    edges, counts = row.numbers("ratio_histogram", "edges"), row.numbers("ratio_histogram", "counts")
    if not edges or not counts or len(edges) != len(counts) + 1 or not all(is_known(value) for value in (*edges, *counts)):
        return None
    rising = all(low < high for low, high in itertools.pairwise(edges))
    return (edges, counts) if rising and min(counts) >= 0 else None


def _clip_bounds(run: Run) -> list[float]:
    """Return 1 - clip_low and 1 + clip_high where the configuration names them once."""
    offsets: dict[str, list[float]] = {"clip_low": [], "clip_high": []}
    for name, value in leaves(run.config or {}):
        key = name.rsplit(".", 1)[-1]
        if key in offsets and isinstance(value, (int, float)) and not isinstance(value, bool):
            offsets[key].append(float(value))
    low, high = offsets["clip_low"], offsets["clip_high"] or offsets["clip_low"]
    return [1 - low[0], 1 + high[0]] if len(low) == 1 and len(high) == 1 else []
