"""Line charts over steps: lines with gaps where nothing was recorded, confidence bands, single points with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.figure import (
    BROAD_HEIGHT,
    BROAD_WIDTH,
    HEIGHT,
    WIDTH,
    Format,
    Frame,
    Series,
    describe,
    figure,
    is_known,
    legend,
    marker,
    number_table,
    svg,
)
from rosellm.roserlhf.report.markup import Html, join, tag
from rosellm.roserlhf.report.scale import linear_axis


@dataclass(frozen=True)
class Point:
    """A measurement at one step, with its interval where there is one."""

    step: int
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Points:
    """A named set of single measurements; `shape` is `disc` or `diamond`."""

    name: str
    colour: str
    shape: str
    points: Sequence[Point]


@dataclass(frozen=True)
class LineChart:
    """What to draw; the axes reach `include` (vertical) and `reach` (steps); `wide` draws it twice, for broad and slim pages."""

    title: str
    x_label: str
    y_label: str
    steps: Sequence[int]
    lines: Sequence[Series]
    points: Sequence[Points] = ()
    include: Sequence[float] = (0.0,)
    reach: Sequence[int] = ()
    style: Format = units.number
    note: str | None = None
    wide: bool = False

    def figure(self) -> Html:
        """Draw it; with nothing recorded the figure says so."""
        values = self._values()
        if not values:
            return figure(self.title, None, note=self.note, wide=self.wide)
        drawing = self._drawing(values, WIDTH, HEIGHT, "slim" if self.wide else None)
        if self.wide:
            drawing = join([self._drawing(values, BROAD_WIDTH, BROAD_HEIGHT, "broad"), drawing])
        return figure(self.title, drawing, key=legend(self._entries()), note=self.note, numbers=self._numbers(), wide=self.wide)

    def _drawing(self, values: Sequence[float], width: int, height: int, class_: str | None) -> Html:
        places = [*self.steps, *self.reach, *(point.step for group in self.points for point in group.points)]
        x, y = linear_axis(places, ticks=6, tight=True, whole=True), linear_axis(values, include=self.include)
        frame = Frame(x, y, width, height)
        drawn = self._drawn()
        return svg(
            self.title,
            "; ".join([*(describe(line, self.style) for line in self.lines), *(self._say(group) for group in self.points)]),
            frame.axes(self.x_label, self.y_label, units.number, self.style),
            *(_band(frame, self.steps, line) for line in drawn if line.low is not None),
            *(_line(frame, self.steps, line, index) for index, line in enumerate(drawn)),
            *(_points(frame, group, 7 * index - 3.5 * (len(self.points) - 1)) for index, group in enumerate(self.points)),
            frame.hits(*self._readouts()),
            width=width,
            height=height,
            class_=class_,
        )

    def _drawn(self) -> list[Series]:
        return [line for line in self.lines if not line.empty]

    def _values(self) -> list[float]:
        candidates: list[float | None] = []
        for line in self.lines:
            candidates += [*line.values, *(line.low or ()), *(line.high or ())]
        for group in self.points:
            candidates += [end for point in group.points for end in (point.value, point.low, point.high)]
        return [value for value in candidates if value is not None and is_known(value)]

    def _entries(self) -> list[tuple[str, str]]:
        drawn = self._drawn()
        entries = [(line.name, f"line {line.colour} d{index}") for index, line in enumerate(drawn)]
        entries += [(f"95 % interval of {line.name}", f"area band {line.colour}") for line in drawn if line.low is not None]
        return entries + [(group.name, f"mark {group.shape} {group.colour}") for group in self.points if group.points]

    def _readouts(self) -> tuple[list[float], list[str]]:
        """One readout per step that has anything: the lines' values, then the points of that step."""
        by_step: dict[int, list[str]] = {step: [] for step in self.steps}
        for line in self.lines:
            for index, step in enumerate(self.steps):
                by_step[step].append(f"{line.name}: {self._with_interval(line, index)}")
        for group in self.points:
            for point in group.points:
                by_step.setdefault(point.step, []).append(f"{group.name}: {self._point(point)}")
        steps = sorted(by_step)
        return [float(step) for step in steps], ["\n".join([f"{self.x_label} {step}", *by_step[step]]) for step in steps]

    def _with_interval(self, line: Series, index: int) -> str:
        low = line.low[index] if line.low else None
        high = line.high[index] if line.high else None
        shown = self.style(line.values[index])
        return shown if low is None or high is None else f"{shown} ({self.style(low)} to {self.style(high)})"

    def _point(self, point: Point) -> str:
        shown = self.style(point.value)
        return (
            shown if point.low is None or point.high is None else f"{shown} ({self.style(point.low)} to {self.style(point.high)})"
        )

    def _say(self, group: Points) -> str:
        return f"{group.name}: " + (
            ", ".join(f"step {point.step} {self._point(point)}" for point in group.points) or units.NOT_RECORDED
        )

    def _numbers(self) -> Html:
        measured = {group.name: {point.step: self._point(point) for point in group.points} for group in self.points}
        steps = sorted({*self.steps, *(step for group in measured.values() for step in group)})
        index_of = {step: index for index, step in enumerate(self.steps)}
        rows = []
        for step in steps:
            cells = [self._with_interval(line, index_of[step]) if step in index_of else "" for line in self.lines]
            rows.append([str(step), *cells, *(measured[group.name].get(step, "") for group in self.points)])
        headers = [self.x_label, *(line.name for line in self.lines), *(group.name for group in self.points)]
        return number_table(headers, rows, label=f"Numbers of: {self.title}")


def _runs(values: Sequence[float | None]) -> list[list[int]]:
    """Split positions into runs of consecutive known values."""
    runs: list[list[int]] = []
    for index, value in enumerate(values):
        if not is_known(value):
            continue
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


def _trace(frame: Frame, steps: Sequence[int], values: Sequence[float | None], indices: Sequence[int]) -> str:
    return "L".join(f"{frame.across(steps[index])} {frame.up(value)}" for index in indices if (value := values[index]) is not None)


def _line(frame: Frame, steps: Sequence[int], line: Series, dash: int) -> Html:
    parts = []
    for run in _runs(line.values):
        if len(run) == 1:
            value = line.values[run[0]]
            parts.append(
                tag("circle", class_=f"dot {line.colour}", cx=frame.across(steps[run[0]]), cy=frame.up(value or 0.0), r=3.2)
            )
        else:
            parts.append(tag("path", class_=f"line {line.colour} d{dash}", d="M" + _trace(frame, steps, line.values, run)))
    return join(parts)


def _band(frame: Frame, steps: Sequence[int], line: Series) -> Html:
    low, high = line.low or (), line.high or ()
    both = [value if is_known(value) and is_known(other) else None for value, other in zip(low, high, strict=True)]
    parts = []
    for run in _runs(both):
        if len(run) == 1:
            parts.append(_whisker(frame, frame.across(steps[run[0]]), low[run[0]], high[run[0]], line.colour))
        else:
            edge = "M" + _trace(frame, steps, high, run) + "L" + _trace(frame, steps, low, run[::-1]) + "z"
            parts.append(tag("path", class_=f"area band {line.colour}", d=edge))
    return join(parts)


def _whisker(frame: Frame, across: float, low: float | None, high: float | None, colour: str) -> Html:
    if low is None or high is None:
        return join([])
    return tag("path", class_=f"whisker {colour}", d=f"M{across:.1f} {frame.up(low)}V{frame.up(high)}")


def _points(frame: Frame, group: Points, aside: float) -> Html:
    """Draw the points `aside` of their step, so that two measurements of one step do not hide each other."""
    parts = []
    for point in group.points:
        across = frame.across(point.step) + aside
        parts.append(_whisker(frame, across, point.low, point.high, group.colour))
        parts.append(marker(f"mark {group.shape} {group.colour}", across, frame.up(point.value)))
    return join(parts)
