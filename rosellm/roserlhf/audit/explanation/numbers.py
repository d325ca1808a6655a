"""Numbers in formulas: short, and with a bracket where a minus would stand beside another sign."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = 16
"""Numbers written out in a formula; of more only the first few are."""


def brief(value: float) -> str:
    """Write a number with up to six significant digits."""
    return f"{value + 0.0:.6g}"  # -0.0 + 0.0 is 0.0


def signed(value: float) -> str:
    """Write a number that follows another one in a sum."""
    return f"({brief(value)})" if value < 0 else brief(value)


def summed(values: Sequence[float]) -> str:
    """Write a sum."""
    if len(values) > _SHOWN:
        return f"{' + '.join(map(signed, values[:4]))} + ... {len(values)} rewards"
    return " + ".join(map(signed, values))


def listed(values: Sequence[float]) -> str:
    """Write a list."""
    more = f", ... {len(values)} rewards" if len(values) > _SHOWN else ""
    return ", ".join(map(brief, values[:_SHOWN])) + more
