"""Numbers as a reader wants them: `float | None -> text`; what was not recorded says so and is never shown as 0."""

from __future__ import annotations

import math
from collections.abc import Sequence

NOT_RECORDED = "not recorded"
_TURNS = 12
"""Advantages of turns that are written out."""


def number(value: float | None, digits: int = 4) -> str:
    """Write a number with `digits` significant digits; whole numbers in full with thousands separators.

    Example:
        >>> from rosellm.roserlhf.report.units import number
        >>> number(12345), number(0.000123456), number(None)
        ('12,345', '0.0001235', 'not recorded')
    """
    if value is None:
        return NOT_RECORDED
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}g}"
    shown = f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def percent(value: float | None) -> str:
    """Write a share as a percentage with one decimal."""
    return NOT_RECORDED if value is None else f"{100 * value:.1f} %" if math.isfinite(value) else number(value)


def seconds(value: float | None) -> str:
    """Write a duration in the largest fitting units."""
    if value is None or not math.isfinite(value):
        return number(value)
    if value < 60:
        return f"{value:.1f} s" if value >= 1 or value == 0 else f"{value:.3g} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def memory(value: float | None) -> str:
    """Write a number of bytes in MiB or GiB."""
    if value is None or not math.isfinite(value):
        return number(value)
    return f"{value / 2**30:.2f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"


def advantage(value: float | Sequence[float] | None, style: str = "+.6g") -> str:
    """Write the advantage of a rollout, or those of its turns; empty if it has none."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return f"{value:{style}}"
    return ", ".join(f"{one:{style}}" for one in value[:_TURNS]) + (f" ... {len(value)} turns" if len(value) > _TURNS else "")
