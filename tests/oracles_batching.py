"""Obvious loops for batching: one row out of one record, and the signal of groups, in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rosellm.roserlhf.trajectory import CopySpan, PolicyAction, Trajectory


class Cell(NamedTuple):
    """One token of a row."""

    token: int
    sampled: bool
    trained: bool
    logprob: float
    turn: int


def cells_of(trajectory: Trajectory) -> list[Cell]:
    """Lay out prompt, action, observation, … token by token, and drop what follows the last sampled token."""
    cells: list[Cell] = []
    for span in trajectory.spans():
        assert not isinstance(span, CopySpan)
        for place, token in enumerate(span.token_ids):
            if not isinstance(span, PolicyAction):
                cells.append(Cell(token, False, False, 0.0, -1))
                continue
            (version,) = [s for s in span.version_spans if s.start <= place < s.end]
            cells.append(Cell(token, True, version.prefix_cache == "recomputed", span.old_logprobs[place], span.turn))
    while cells and not cells[-1].sampled:
        cells.pop()
    return cells


def standardised(rewards: Sequence[float]) -> list[float]:
    """(r − mean) / population standard deviation; 0 for equal rewards."""
    mean = sum(rewards) / len(rewards)
    deviation = (sum((r - mean) ** 2 for r in rewards) / len(rewards)) ** 0.5
    return [0.0 if len({*rewards}) == 1 else (r - mean) / deviation for r in rewards]
