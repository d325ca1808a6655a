"""Confidence of a success share: `successes out of n -> (low, high)`."""

from __future__ import annotations

import math

from rosellm.roserlhf import checks

Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the standard normal distribution."""


def wilson_interval(share: float, count: int, *, z: float = Z_95) -> tuple[float, float]:
    r"""Give the Wilson score interval of a binomial share.

    .. math:: \frac{p + \frac{z^2}{2n} \pm z\sqrt{\frac{p(1-p)}{n} + \frac{z^2}{4n^2}}}{1 + \frac{z^2}{n}}

    Stays inside [0, 1] and has a width also at p = 0 and p = 1, where the usual p ± z·s collapses. It takes the n trials as
    independent: rollouts of one group share a task, so the true interval of a training step is somewhat wider.

    Source: Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22(158).

    Args:
        share: p, successes divided by trials, in [0, 1].
        count: n, number of trials, at least 1.
        z: normal quantile, positive.

    Returns:
        Lower and upper end.

    Raises:
        RangeError: an argument outside its interval.

    Example:
        >>> from rosellm.roserlhf.report.interval import wilson_interval
        >>> [round(end, 4) for end in wilson_interval(0.5, 100)]
        [0.4038, 0.5962]
    """
    checks.number_in(share, "share", 0.0, 1.0)
    checks.number_in(count, "count", 1, math.inf)
    checks.number_in(z, "z", 0.0, math.inf, open_low=True)
    square = z * z / count
    centre = (share + square / 2) / (1 + square)
    half = z * math.sqrt(share * (1 - share) / count + square / (4 * count)) / (1 + square)
    return max(0.0, centre - half), min(1.0, centre + half)
