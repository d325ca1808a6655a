"""Dataclasses -> JSON values, strictly: JSON has no NaN, so a number that is none becomes the text that names it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def strict(value: Any) -> Any:
    """Turn dataclasses, mappings and sequences of plain data into what `json.dumps(..., allow_nan=False)` accepts.

    Example:
        >>> strict({"ratio": float("nan"), "turns": (1, None)})
        {'ratio': 'NaN', 'turns': [1, None]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: strict(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
