"""Axes and drawings against hand-placed coordinates; every number of a chart is also in its table."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_html import Page

from rosellm.roserlhf.report.bars import Histogram, StackChart, total_bar
from rosellm.roserlhf.report.figure import Series
from rosellm.roserlhf.report.lines import LineChart, Point, Points
from rosellm.roserlhf.report.scale import linear_axis, log_axis
from rosellm.roserlhf.report.units import number, seconds


def test_axis_ticks_are_round_and_cover_the_data() -> None:
    assert linear_axis([0.1, 0.93], include=[0, 1]).ticks == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert linear_axis([-0.012, 0.006], include=[0]).ticks == (-0.015, -0.01, -0.005, 0.0, 0.005, 0.01)
    assert linear_axis([0, 99], tight=True, whole=True, ticks=6).ticks == (0.0, 20.0, 40.0, 60.0, 80.0)
    assert linear_axis([0, 99], tight=True, whole=True).high == 99
    assert linear_axis([3], tight=True, whole=True).ticks == (3.0,)
    assert log_axis(0.5, 1300).ticks == (1.0, 10.0, 100.0, 1000.0)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5), st.booleans(), st.booleans())
def test_axis_holds_every_value(values: list[float], tight: bool, from_zero: bool) -> None:
    axis = linear_axis(values, include=[0.0] if from_zero else [], tight=tight)
    assert axis.low < axis.high
    slack = 1e-8 * (axis.high - axis.low)
    assert all(axis.low - slack <= value <= axis.high + slack for value in values if abs(value) < 1e300)
    assert all(0 <= axis.place(value) <= 1 for value in values)
    assert len(axis.ticks) <= 12
    assert tight or len(axis.ticks) >= 2


def test_log_place() -> None:
    # log(10) lies half way between log(1) and log(100)
    assert log_axis(1, 100).place(10) == pytest.approx(0.5)


def test_line_goes_where_the_numbers_are() -> None:
    # The drawing is 560 x 272 with margins 62, 14, 30, 46: x from 62 to 546, y from 226 (low) up to 30 (high).
    # Steps 0, 1, 2 lie at 62, 304, 546; on an axis from 0 to 1 the values 0, 0.5, 1 lie at 226, 128, 30.
    figure = LineChart("Success", "step", "share", [0, 1, 2], [Series("s", [0.0, 0.5, 1.0], "c0")]).figure()
    assert 'd="M62.0 226.0L304.0 128.0L546.0 30.0"' in figure


def test_a_gap_is_a_gap_and_says_not_recorded() -> None:
    figure = LineChart("Success", "step", "share", [0, 1, 2, 3], [Series("s", [0.2, None, 0.4, math.nan], "c0")]).figure()
    page = Page(figure)
    assert figure.count('class="dot c0"') == 2
    assert "line c0" not in figure
    assert page.words.count("not recorded") == 1
    assert page.words.count("NaN") == 1
    assert "recorded in 2 of 4 steps" in page.text


def test_band_and_intervals_are_drawn_and_written() -> None:
    line = Series("training", [0.5, 0.6], "c0", low=[0.4, 0.5], high=[0.6, 0.7])
    points = Points("held-out", "c1", "disc", [Point(2, 0.9, 0.8, 1.0)])
    figure = LineChart("Curve", "step", "share", [0, 1], [line], [points], include=(0.0, 1.0)).figure()
    assert figure.count('class="area band c0"') == 2  # the band and its sample in the legend
    # Steps 0, 1, 2 at 62, 304, 546; upper ends 0.6, 0.7 at 226 - 196 p = 108.4, 88.8, lower ends 0.5, 0.4 at 128, 147.6.
    assert 'd="M62.0 108.4L304.0 88.8L304.0 128.0L62.0 147.6z"' in figure
    words = Page(figure).words
    assert "0.5 (0.4 to 0.6)" in words
    assert "0.9 (0.8 to 1)" in words


def test_single_step_is_visible() -> None:
    figure = LineChart("Loss", "step", "loss", [0], [Series("loss", [0.0], "c0", low=[-1.0], high=[1.0])]).figure()
    assert 'class="dot c0"' in figure
    assert 'class="whisker c0"' in figure


def test_nothing_recorded_draws_nothing() -> None:
    for figure in (
        LineChart("Loss", "step", "loss", [0, 1], [Series("loss", [None, None], "c0")]).figure(),
        StackChart("Groups", "step", "groups", [0], [Series("all fail", [None], "k-fail")]).figure(),
        total_bar("Time", [("rollout", None, "c0")], style=seconds),
    ):
        assert "<svg" not in figure
        assert "not recorded" in Page(figure).text


def test_stack_heights_add_up_and_missing_parts_are_marked() -> None:
    parts = [Series("a", [1.0, None], "k-fail"), Series("b", [3.0, 2.0], "k-pass")]
    figure = StackChart("Groups", "step", "groups", [0, 1], parts).figure()
    # The axis ends at 4: a of step 0 fills 226..177, b sits on it up to 30; step 1 has b alone on the floor, and a mark.
    paths = dict(re.findall(r'<path class="area (k-\w+)" d="([^"]+)"', figure))
    assert re.fullmatch(r"M\S+ 226\.0V177\.0H\S+V226\.0z", paths["k-fail"])
    assert re.fullmatch(r"M\S+ 177\.0V30\.0H\S+V177\.0zM\S+ 226\.0V128\.0H\S+V226\.0z", paths["k-pass"])
    assert 'class="gap"' in figure
    assert "a part was not recorded" in figure
    assert "not recorded" in Page(figure).words


def test_histogram_keeps_lone_tokens_visible_and_counts_in_the_table() -> None:
    figure = Histogram("Ratios", "ratio", "tokens", [0.5, 0.9, 1.1, 4.5], [1, 1000, 0], 1000, [0.8, 1.2]).figure()
    words = Page(figure).words
    assert {"0.5 to 0.9", "1", "1,000", "0", "99.9 %"} <= set(words)
    assert {"0.8", "1.2"} <= set(words)
    # 0 tokens draw no bar: two bars only
    bars = re.search(r'<path class="area c0" d="([^"]+)"', figure)
    assert bars is not None
    assert bars.group(1).count("M") == 2


def test_time_bar_lists_what_is_missing() -> None:
    words = Page(total_bar("Time", [("rollout", 30.0, "c0"), ("learn", 10.0, "c1"), ("evaluate", None, "c2")], style=seconds)).words
    assert {"30.0 s", "75.0 %", "10.0 s", "25.0 %", "not recorded", "40.0 s"} <= set(words)


def test_names_from_data_are_escaped() -> None:
    hostile = '<script>"x'
    series = Series(hostile, [1.0, 2.0], "c0")
    for figure in (
        LineChart(hostile, hostile, hostile, [0, 1], [series]).figure(),
        StackChart(hostile, hostile, hostile, [0, 1], [series]).figure(),
    ):
        assert "<script" not in figure
        Page(figure)


def test_numbers_round_in_the_table_as_everywhere() -> None:
    figure = LineChart("KL", "step", "nats", [0], [Series("kl", [0.00123456], "c0")]).figure()
    assert number(0.00123456) in Page(figure).words
