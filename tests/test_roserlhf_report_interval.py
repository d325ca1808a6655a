"""Wilson's interval against hand arithmetic and the score test that it inverts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.errors import DtypeError, RangeError
from rosellm.roserlhf.report.interval import Z_95, wilson_interval


def test_hand_worked_half() -> None:
    # z = 2, n = 4: z²/n = 1; centre (0.5 + 0.5) / 2 = 0.5; half 2 √(0.25/4 + 1/(4·4)) / 2 = √(1/16 + 1/16) = 0.3535534
    low, high = wilson_interval(0.5, 4, z=2.0)
    assert (low, high) == pytest.approx((0.5 - math.sqrt(1 / 8), 0.5 + math.sqrt(1 / 8)))


def test_hand_worked_ends_have_a_width() -> None:
    # z = 2, n = 4, p = 1: centre (1 + 0.5) / 2 = 0.75; half 2 √(0 + 1/16) / 2 = 0.25, so from 0.5 to exactly 1; p = 0 mirrors it
    assert wilson_interval(1.0, 4, z=2.0) == pytest.approx((0.5, 1.0))
    assert wilson_interval(0.0, 4, z=2.0) == pytest.approx((0.0, 0.5))


def test_hand_worked_95_percent() -> None:
    # z² = 3.841459, n = 100: half = 1.959964 √(0.0025 + 3.841459/40000) / 1.03841459 = 1.959964 · 0.0509513 / 1.0384146 = 0.0961684
    assert wilson_interval(0.5, 100) == pytest.approx((0.4038316, 0.5961684), abs=1e-6)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(count=st.integers(1, 5000), data=st.data())
def test_ends_solve_the_score_equation(count: int, data: st.DataObject) -> None:
    # Slow and obvious: an end q is where |p - q| = z √(q (1 - q) / n); squared, because a root magnifies rounding at 0 and 1.
    share = data.draw(st.integers(0, count)) / count
    low, high = wilson_interval(share, count)
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1
    for end in (low, high):
        assert (share - end) ** 2 == pytest.approx(Z_95**2 * end * (1 - end) / count, abs=1e-9)


@pytest.mark.parametrize(
    ("share", "count", "error"),
    [(1.5, 4, RangeError), (-0.1, 4, RangeError), (0.5, 0, RangeError), (math.nan, 4, RangeError), (True, 4, DtypeError)],
)
def test_bad_input_names_the_argument(share: float, count: int, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"share|count"):
        wilson_interval(share, count)
