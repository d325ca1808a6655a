"""What a call may cost: the tools compute whatever they are asked for, and some requests would not end in a lifetime."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

MOST_DIGITS = 1000
"""Digits of a precision, or of a power."""
MOST_ITEMS = 10_000
"""Files and folders of a file system."""


def refusal(instance: Any, name: str, arguments: Mapping[str, Any]) -> str | None:
    """Say why a call is not carried out; None if nothing speaks against it."""
    if any(_beyond(arguments.get(digits), MOST_DIGITS) for digits in ("precision", "decimal_places")):
        return f"more than {MOST_DIGITS} digits"
    if name == "power" and _digits_of_power(arguments.get("base"), arguments.get("exponent")) > MOST_DIGITS:
        return f"the result has more than {MOST_DIGITS} digits"
    if name == "cp":
        return _copy_refusal(instance, arguments.get("source"), arguments.get("destination"))
    return None


def _beyond(value: Any, limit: int) -> bool:
    return isinstance(value, (int, float)) and abs(value) > limit


def _digits_of_power(base: Any, exponent: Any) -> float:
    """Digits of an integer to the power of another; 0 for what Python computes in floating point, in no time."""
    if not (isinstance(base, int) and isinstance(exponent, int)) or abs(base) < 2:
        return 0.0
    return math.inf if exponent.bit_length() > 64 else base.bit_length() * math.log10(2) * abs(exponent)


def _copy_refusal(file_system: Any, source: Any, destination: Any) -> str | None:
    """A folder is copied by reference: copies of copies double what a search walks through, and one into itself has no end."""
    here = file_system._current_dir.contents
    if not (isinstance(source, str) and hasattr(here.get(source), "contents")):
        return None
    if source == destination:
        return "cannot copy a directory into itself"
    return "too many files" if _items(file_system.root) + _items(here[source]) > MOST_ITEMS else None


def _items(folder: Any) -> int:
    """Count what a walk would visit, by paths, not by objects."""
    return 1 + sum(_items(item) if hasattr(item, "contents") else 1 for item in folder.contents.values())
