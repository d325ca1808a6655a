"""The curves of `repair.py` as one picture that stands alone: `arms → SVG`, a thin line a seed, a thick one for their mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.figure import Frame
from rosellm.roserlhf.report.markup import Html, join, tag
from rosellm.roserlhf.report.scale import linear_axis

WIDTH, HEIGHT, KEY = 380, 260, 34
COLOURS = {"no guard": "#c9510c", "block and continue": "#0072b2", "end episode": "#008a63", "block and penalty": "#b0568c"}
"""Far apart for colour-blind readers; arms differ in their dashes, too."""
DASHES = ("none", "none", "7 4", "2 3")
STYLE = """
svg{background:#fff;font:12px system-ui,"Liberation Sans",sans-serif}
text{fill:#5a616b}.title,.key{fill:#1d2025}.title{font-weight:600;font-size:13px}
.grid{stroke:#e9e9e4}.axis,.tick{stroke:#5a616b}.label{fill:#1d2025}
path{fill:none;stroke-linejoin:round}
"""

Curve = Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Arm:
    """The curves of one arm: by panel, one for each seed."""

    name: str
    curves: Mapping[str, Sequence[Curve]]

    @classmethod
    def of(cls, name: str, seeds: Sequence[Mapping[str, Any]]) -> Arm:
        """Take them out of what was measured."""
        training = [list(enumerate(seed["hack_rate"], start=1)) for seed in seeds]
        held_out = {
            version: [[(int(step), row[version]["correct"]) for step, row in sorted(seed["held_out"].items())] for seed in seeds]
            for version in ("open", "sealed")
        }
        return cls(name, {"hack": training, **held_out})


PANELS = {
    "hack": "Training episodes that try to cheat",
    "open": "Held-out tasks where cheats pay: paid",
    "sealed": "Held-out tasks that cannot be cheated: solved",
}


def picture(arms: Sequence[Arm]) -> str:
    """Draw the panels side by side, and what the lines mean below them."""
    panels = [_panel(panel, title, arms, number * WIDTH) for number, (panel, title) in enumerate(PANELS.items())]
    width, height = WIDTH * len(PANELS), HEIGHT + KEY
    whole = tag(
        "svg",
        tag("title", "What is learnt with and without a guard"),
        tag("desc", _describe(arms)),
        tag("style", Html(STYLE)),
        *panels,
        _key(arms),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
    )
    return f"{whole}\n"


def _panel(panel: str, title: str, arms: Sequence[Arm], left: int) -> Html:
    last = max(step for arm in arms for curve in arm.curves[panel] for step, _ in curve)
    frame = Frame(linear_axis([0, last], ticks=5, tight=True, whole=True), linear_axis([0, 1], include=[0, 1]), WIDTH, HEIGHT)
    lines = [_lines(frame, arm, number, arm.curves[panel]) for number, arm in enumerate(arms)]
    axes = frame.axes("training step", "", units.number, units.number)
    return tag("g", axes, *lines, tag("text", title, class_="title", x=20, y=16), transform=f"translate({left} 0)")


def _lines(frame: Frame, arm: Arm, number: int, curves: Sequence[Curve]) -> Html:
    means = [(step, mean(curve[place][1] for curve in curves)) for place, (step, _) in enumerate(curves[0])]
    thin = [_line(frame, curve, arm.name, number, width=1, opacity=0.45) for curve in curves]
    return join([*thin, _line(frame, means, arm.name, number, width=2.6, opacity=1)])


def _line(frame: Frame, curve: Curve, name: str, number: int, *, width: float, opacity: float) -> Html:
    path = "M" + "L".join(f"{frame.across(step)} {frame.up(value)}" for step, value in curve)
    return tag(
        "path",
        d=path,
        stroke=COLOURS[name],
        stroke_width=width,
        stroke_opacity=opacity,
        stroke_dasharray=DASHES[number % len(DASHES)],
    )


def _key(arms: Sequence[Arm]) -> Html:
    parts = []
    for number, arm in enumerate(arms):
        left, middle = 62 + 230 * number, HEIGHT + KEY // 2
        dash = DASHES[number % len(DASHES)]
        parts.append(tag("path", d=f"M{left} {middle}h32", stroke=COLOURS[arm.name], stroke_width=2.6, stroke_dasharray=dash))
        parts.append(tag("text", arm.name, class_="key", x=left + 40, y=middle + 4))
    return join(parts)


def _describe(arms: Sequence[Arm]) -> str:
    """Say where the lines end, for readers who do not see them."""
    ends = []
    for arm in arms:
        last = {panel: mean(curve[-1][1] for curve in arm.curves[panel]) for panel in PANELS}
        ends.append(f"{arm.name}: " + ", ".join(f"{title} {last[panel]:.2f}" for panel, title in PANELS.items()))
    return f"At the last step, means over seeds. {'; '.join(ends)}"
