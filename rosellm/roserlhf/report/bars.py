"""Bar charts: parts stacked per step, one stacked total, and a histogram over given edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.figure import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Format,
    Frame,
    Series,
    describe,
    figure,
    is_known,
    legend,
    number_table,
    svg,
)
from rosellm.roserlhf.report.markup import Html, join, lines, tag
from rosellm.roserlhf.report.scale import linear_axis, log_axis


@dataclass(frozen=True)
class StackChart:
    """Parts of a whole per step, stacked in the order given; a step in which a part was not recorded carries a mark."""

    title: str
    x_label: str
    y_label: str
    steps: Sequence[int]
    parts: Sequence[Series]
    whole: Series | None = None
    """The total as it was recorded, for readout and table."""
    style: Format = units.number
    note: str | None = None

    def figure(self) -> Html:
        """Draw it; with nothing recorded the figure says so."""
        drawn = [part for part in self.parts if not part.empty]
        if not drawn:
            return figure(self.title, None, note=self.note)
        totals = [sum(_height(part.values[index]) for part in drawn) for index in range(len(self.steps))]
        half = max(0.5, (self.steps[-1] - self.steps[0]) / max(1, len(self.steps) - 1) / 2)
        frame = Frame(
            linear_axis(self.steps, include=[self.steps[0] - half, self.steps[-1] + half], ticks=6, tight=True, whole=True),
            linear_axis(totals, include=[0.0]),
        )
        gaps = [step for index, step in enumerate(self.steps) if not all(is_known(part.values[index]) for part in drawn)]
        drawing = svg(
            self.title,
            "; ".join(describe(part, self.style) for part in self.parts),
            frame.axes(self.x_label, self.y_label, units.number, self.style),
            *_stack(frame, self.steps, drawn, half),
            _gap_marks(frame, gaps),
            frame.hits(self.steps, [self._readout(index) for index in range(len(self.steps))]),
        )
        entries = [(part.name, f"area {part.colour}") for part in drawn] + ([("a part was not recorded", "gap")] if gaps else [])
        columns = [*self.parts, *([self.whole] if self.whole else [])]
        headers = [self.x_label, *(series.name for series in columns)]
        rows = [[str(step), *(self.style(series.values[index]) for series in columns)] for index, step in enumerate(self.steps)]
        numbers = number_table(headers, rows, label=f"Numbers of: {self.title}")
        return figure(self.title, drawing, key=legend(entries), note=self.note, numbers=numbers)

    def _readout(self, index: int) -> str:
        columns = [*([self.whole] if self.whole else []), *reversed(self.parts)]
        shown = [f"{series.name}: {self.style(series.values[index])}" for series in columns]
        return "\n".join([f"{self.x_label} {self.steps[index]}", *shown])


def _height(value: float | None) -> float:
    return max(0.0, value) if value is not None and is_known(value) else 0.0


def _stack(frame: Frame, steps: Sequence[int], parts: Sequence[Series], half: float) -> list[Html]:
    bottoms, fill = [0.0] * len(steps), 0.9 if len(steps) <= 40 else 1.0
    drawn = []
    for part in parts:
        path = []
        for index, step in enumerate(steps):
            height = _height(part.values[index])
            if height > 0:
                left, right = frame.across(step - fill * half), frame.across(step + fill * half)
                low, high = frame.up(bottoms[index]), frame.up(bottoms[index] + height)
                path.append(f"M{left} {low}V{high}H{right}V{low}z")
                bottoms[index] += height
        drawn.append(tag("path", class_=f"area {part.colour}", d="".join(path) or "M0 0"))
    return drawn


def _gap_marks(frame: Frame, steps: Sequence[int]) -> Html:
    floor = frame.height - BOTTOM
    return tag("path", class_="gap", d="".join(f"M{frame.across(step)} {floor}V{TOP}" for step in steps)) if steps else join([])


@dataclass(frozen=True)
class Histogram:
    """Counts between edges; counts on a logarithmic axis, so that a single value in the tail is seen."""

    title: str
    x_label: str
    y_label: str
    edges: Sequence[float]
    counts: Sequence[float]
    top: float
    """The largest count that the vertical axis must hold, so that histograms side by side share it."""
    levels: Sequence[float] = ()
    """Marked values on the horizontal axis."""

    def figure(self) -> Html:
        """Draw it."""
        wide = self.edges[0] > 0 and self.edges[-1] / self.edges[0] > 8
        x = log_axis(self.edges[0], self.edges[-1], base=2) if wide else linear_axis(self.edges, ticks=6, tight=True)
        frame = Frame(x, log_axis(0.5, max(10.0, self.top, *self.counts) * 1.3))
        bins = list(zip(self.edges, self.edges[1:], self.counts, strict=False))
        path = "".join(
            f"M{frame.across(low)} {frame.up(0.5)}V{frame.up(count)}H{frame.across(high)}V{frame.up(0.5)}z"
            for low, high, count in bins
            if count > 0
        )
        names = [f"{units.number(low)} to {units.number(high)}" for low, high, _ in bins]
        total, peak = sum(self.counts), max(range(len(bins)), key=lambda index: self.counts[index])
        drawing = svg(
            self.title,
            f"{units.number(total)} values; most, {units.number(self.counts[peak])}, from {names[peak]}",
            frame.axes(self.x_label, self.y_label, units.number, units.number),
            tag("path", class_="area c0", d=path or "M0 0"),
            *(_level(frame, value) for value in self.levels if self.edges[0] <= value <= self.edges[-1]),
            _bin_hits(
                frame,
                [(low, high) for low, high, _ in bins],
                [f"{name}\n{units.number(count)}" for name, (_, _, count) in zip(names, bins, strict=True)],
            ),
        )
        rows = [
            [name, units.number(count), units.percent(count / total if total else None)]
            for name, (_, _, count) in zip(names, bins, strict=True)
        ]
        numbers = number_table([self.x_label, self.y_label, "share"], rows, label=f"Numbers of: {self.title}")
        return figure(self.title, drawing, numbers=numbers)


def _level(frame: Frame, value: float) -> Html:
    place = frame.across(value)
    line = tag("line", class_="level", x1=place, x2=place, y1=TOP, y2=frame.height - BOTTOM)
    return join([line, tag("text", units.number(value, 3), class_="level", x=place, y=TOP - 4, text_anchor="middle")])


def _bin_hits(frame: Frame, bins: Sequence[tuple[float, float]], readouts: Sequence[str]) -> Html:
    hits = []
    for (low, high), readout in zip(bins, readouts, strict=True):
        left = frame.across(low)
        column = tag("rect", x=left, y=TOP, width=round(frame.across(high) - left, 1), height=frame.height - TOP - BOTTOM)
        hits.append(tag("g", tag("title", lines(readout)), column, class_="hit"))
    return join(hits)


def total_bar(title: str, parts: Sequence[tuple[str, float | None, str]], *, style: Format, note: str | None = None) -> Html:
    """Draw one stacked bar of (name, value, colour class) with its table unfolded; parts not recorded are only in the table."""
    known = [(name, value, colour) for name, value, colour in parts if value is not None and is_known(value)]
    total = sum(max(0.0, value) for _, value, _ in known)
    if not total:
        return figure(title, None, note=note)
    drawn, left, length = [], float(LEFT - 58), WIDTH - RIGHT - LEFT + 58
    for name, value, colour in known:
        width = max(0.0, value) / total * length
        label = tag("title", lines(f"{name}\n{style(value)} ({units.percent(value / total)})"))
        drawn.append(
            tag(
                "g",
                label,
                tag("rect", class_=f"area {colour}", x=round(left, 1), y=4, width=round(width, 1), height=34),
                class_="part",
            )
        )
        left += width
    description = "; ".join(f"{name}: {style(value)}" for name, value, _ in parts)
    rows = [
        [name, style(value), units.percent(value / total) if value is not None else units.NOT_RECORDED] for name, value, _ in parts
    ]
    key = legend([(name, f"area {colour}") for name, _, colour in known])
    table = number_table(
        ["stage", "time", "share of the recorded"], [*rows, ["together", style(total), ""]], label=f"Numbers of: {title}"
    )
    drawing = svg(title, description, *drawn, height=42)
    return figure(title, join([drawing, key or join([]), table]), note=note)
