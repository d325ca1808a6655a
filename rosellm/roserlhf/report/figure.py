"""What every chart shares: a frame with labelled axes, a legend, hover readouts and the table of its numbers.

`title, steps, named series -> <figure>`. The drawing is an inline SVG; the same numbers stand as text in a folded table, so nothing
can only be seen. Series differ by colour *and* by dash or order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.markup import Html, join, lines, tag
from rosellm.roserlhf.report.scale import Axis

WIDTH, HEIGHT = 560, 272
BROAD_WIDTH, BROAD_HEIGHT = 1140, 330
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 30, 46

Values = Sequence["float | None"]
Format = Callable[["float | None"], str]


@dataclass(frozen=True)
class Series:
    """One named row of numbers, one per step; None where it was not recorded."""

    name: str
    values: Values
    colour: str
    """Class that sets the colour: `c0` … `c7` or a meaning (`pass`, `fail`, …)."""
    low: Values | None = None
    high: Values | None = None
    """Ends of its band, aligned with `values`."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(is_known(value) for value in self.values)


def is_known(value: float | None) -> bool:
    """Whether a value can be drawn."""
    return value is not None and math.isfinite(value)


@dataclass(frozen=True)
class Frame:
    """Where values land in the drawing."""

    x: Axis
    y: Axis
    width: int = WIDTH
    height: int = HEIGHT

    def across(self, value: float) -> float:
        """Horizontal place of `value`."""
        return round(LEFT + self.x.place(value) * (self.width - LEFT - RIGHT), 1)

    def up(self, value: float) -> float:
        """Vertical place of `value`."""
        return round(self.height - BOTTOM - self.y.place(value) * (self.height - TOP - BOTTOM), 1)

    def axes(self, x_label: str, y_label: str, x_format: Format, y_format: Format) -> Html:
        """Draw grid, ticks and both labels."""
        floor, right = self.height - BOTTOM, self.width - RIGHT
        parts = []
        for value in self.y.ticks:
            place = self.up(value)
            parts.append(tag("line", class_="grid" if value or self.y.low >= 0 else "axis", x1=LEFT, x2=right, y1=place, y2=place))
            parts.append(tag("text", y_format(value), x=LEFT - 8, y=place + 4, text_anchor="end"))
        for value in self.x.ticks:
            place = self.across(value)
            parts.append(tag("line", class_="tick", x1=place, x2=place, y1=floor, y2=floor + 5))
            parts.append(tag("text", x_format(value), x=place, y=floor + 19, text_anchor="middle"))
        parts.append(tag("line", class_="axis", x1=LEFT, x2=right, y1=floor, y2=floor))
        parts.append(tag("text", y_label, class_="label", x=4, y=14))
        parts.append(tag("text", x_label, class_="label", x=right, y=self.height - 6, text_anchor="end"))
        return join(parts)

    def hits(self, places: Sequence[float], readouts: Sequence[str]) -> Html:
        """Lay one invisible column over each place; pointing at it shows its readout."""
        centres = [self.across(place) for place in places]
        edges = [float(LEFT), *((a + b) / 2 for a, b in itertools.pairwise(centres)), float(self.width - RIGHT)]
        return join(
            [
                tag(
                    "g",
                    tag("title", lines(readout)),
                    tag("rect", x=x, y=TOP, width=round(end - x, 1), height=self.height - TOP - BOTTOM),
                    class_="hit",
                )
                for (x, end), readout in zip(itertools.pairwise(edges), readouts, strict=True)
            ]
        )


def svg(title: str, description: str, *children: Html, width: int = WIDTH, height: int = HEIGHT, class_: str | None = None) -> Html:
    """Wrap drawing parts in an accessible SVG."""
    box = f"0 0 {width} {height}"
    return tag("svg", tag("title", title), tag("desc", description), *children, role="img", viewBox=box, class_=class_)


def legend(entries: Sequence[tuple[str, str]]) -> Html | None:
    """List (name, classes of the sample); the sample is drawn with the classes of what it stands for. One entry needs no legend."""
    if len(entries) < 2:
        return None
    items = []
    for name, classes in entries:
        shape = tag("rect", class_=classes, x=1, y=1, width=20, height=10) if "area" in classes or "hatch" in classes else None
        if shape is None and "mark" in classes:
            shape = marker(classes, 11, 6)
        items.append(
            tag("li", tag("svg", shape or tag("path", class_=classes, d="M0 6H22"), viewBox="0 0 22 12", aria_hidden="true"), name)
        )
    return tag("ul", *items, class_="legend")


def marker(classes: str, x: float, y: float) -> Html:
    """Draw one point: a disc, or a diamond for the class `diamond`."""
    if "diamond" in classes:
        return tag("path", class_=classes, d=f"M{x:.1f} {y - 5.5:.1f}l5.5 5.5l-5.5 5.5l-5.5 -5.5z")
    return tag("circle", class_=classes, cx=x, cy=y, r=4.2)


def number_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, label: str) -> Html:
    """Write numbers as a table; the first column names the row."""
    head = tag("tr", *(tag("th", header, scope="col") for header in headers))
    body = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell, class_=_cell_class(cell)) for cell in row[1:])) for row in rows
    ]
    table = tag("table", tag("thead", head), tag("tbody", *body), aria_label=label)
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=label)


def _cell_class(cell: str) -> str | None:
    return "missing" if cell == units.NOT_RECORDED else None


def figure(
    title: str,
    drawing: Html | None,
    *,
    key: Html | None = None,
    note: str | None = None,
    numbers: Html | None = None,
    wide: bool = False,
) -> Html:
    """Assemble caption, drawing, legend and folded numbers; `drawing` None says that nothing was recorded."""
    caption = tag("figcaption", tag("h3", title), tag("p", note) if note else None)
    folded = tag("details", tag("summary", "Numbers"), numbers) if numbers is not None and drawing is not None else None
    missing = tag("p", units.NOT_RECORDED, class_="missing box") if drawing is None else None
    return tag(
        "figure", caption, drawing, missing, key if drawing is not None else None, folded, class_="chart wide" if wide else "chart"
    )


def describe(series: Series, style: Format) -> str:
    """Say in words what a line does, for readers who do not see it."""
    known = [value for value in series.values if value is not None and is_known(value)]
    if not known:
        return f"{series.name}: {units.NOT_RECORDED}"
    range_ = f"first {style(known[0])}, last {style(known[-1])}, lowest {style(min(known))}, highest {style(max(known))}"
    return f"{series.name}: {range_}, recorded in {len(known)} of {len(series.values)} steps"
