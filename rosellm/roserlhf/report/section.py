"""What the chart sections share: the section itself, the steps that are drawn, and series cut from rows."""

from __future__ import annotations

from collections.abc import Sequence

from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.figure import Series
from rosellm.roserlhf.report.markup import Html, tag, visible
from rosellm.roserlhf.report.run_folder import Row, column

STEP = "training step"
MAX_STEPS = 400
"""Steps that are drawn and listed; of a longer run every k-th and the last, with a line that says so."""


def section(anchor: str, title: str, lead: str | None, *figures: Html) -> Html:
    """Write one section: a question and the figures that answer it."""
    return tag(
        "section",
        tag("h2", title),
        tag("p", lead, class_="lead") if lead else None,
        tag("div", *figures, class_="charts"),
        id=anchor,
    )


def thinned(rows: Sequence[Row]) -> Sequence[Row]:
    """Keep every k-th row and the last, so that about `MAX_STEPS` are left."""
    every = stride(rows)
    return rows if every <= 1 else [row for index, row in enumerate(rows) if index % every == 0 or index == len(rows) - 1]


def stride(rows: Sequence[Row]) -> int:
    """Return k of `thinned`: 1 where all rows are kept."""
    return -(-len(rows) // MAX_STEPS)


def steps_of(rows: Sequence[Row]) -> list[int]:
    """Return the step of each row."""
    return [row.step for row in rows]


def series(rows: Sequence[Row], name: str, colour: str, *path: str) -> Series:
    """Cut one named series from the rows; `name` may come from data."""
    return Series(visible(name), column(rows, *path), colour)


def as_percent(value: float | None) -> str:
    """Write a share as a percentage, without a decimal where it is whole (axes)."""
    return units.percent(value).replace(".0 %", " %")
