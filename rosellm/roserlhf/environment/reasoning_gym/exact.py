"""Scorers of our own where those of the data set execute the answer: exact arithmetic over exactly the given numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rosellm.roserlhf.environment.expressions import ExpressionError, evaluate

_NUMBER = re.compile(r"[0-9.]+")


def countdown(answer: str, item: Mapping[str, Any]) -> float:
    """1 if the expression has the target's value and uses every number once, else 0.

    Example:
        >>> item = {"metadata": {"numbers": [3, 5, 2], "target": 16}}
        >>> countdown("(3 + 5) * 2", item), countdown("16", item), countdown("__import__('os')", item)
        (1.0, 0.0, 0.0)
    """
    return _makes(answer, item["metadata"]["numbers"], item["metadata"]["target"])


def puzzle24(answer: str, item: Mapping[str, Any]) -> float:
    """1 if the expression is 24 and uses every number once, else 0; the data set's own scorer takes any four numbers.

    Example:
        >>> item = {"metadata": {"numbers": [4, 8, 6, 2]}}
        >>> puzzle24("4*8 - 6 - 2", item), puzzle24("6*4*1*1", item)
        (1.0, 0.0)
    """
    return _makes(answer, item["metadata"]["numbers"], 24)


def _makes(answer: str, numbers: Sequence[int], target: int) -> float:
    try:
        right = evaluate(answer) == target
    except ExpressionError:
        return 0.0
    return float(right and sorted(_NUMBER.findall(answer)) == sorted(map(str, numbers)))
