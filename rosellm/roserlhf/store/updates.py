"""The evidence of one optimizer update: `rows and their current log-probabilities -> Update`.

With the records it is what a loss is recomputed from without the model: behaviour log-probabilities and rewards stand in the
records, current log-probabilities and the denominator here.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.record import plain

_set = object.__setattr__


@dataclass(frozen=True, slots=True)
class UpdatedRow:
    """One row of an update."""

    trajectory_id: str
    """The record it was made from."""
    current_logprobs: array[float]
    """float32 (`array('f')`): log-probability of every token sampled in the record, in order, just before the update."""

    def __post_init__(self) -> None:
        plain.name(self.trajectory_id, "trajectory_id")
        if not isinstance(self.current_logprobs, array) or self.current_logprobs.typecode != "f":
            raise fail(StoreError, "current_logprobs", "be an array('f')", plain.shown(self.current_logprobs))


@dataclass(frozen=True, slots=True)
class Update:
    """One optimizer update of a step."""

    step: int
    """Training step."""
    number: int
    """Place among the updates of the step, from 0."""
    _: KW_ONLY
    epoch: int
    """Pass over the step's rows, from 0."""
    rows: Sequence[UpdatedRow]
    """In the order of the forward passes."""
    denominator: float
    """What the step's token losses were divided by."""
    loss: float
    """Sum of the micro-batches' shares."""
    gradient_norm: float
    """Before clipping."""
    learning_rate: float
    """Of this update."""
    skipped: str | None = None
    """Why the weights stayed as they were; None if they moved."""

    def __post_init__(self) -> None:
        for name in ("step", "number", "epoch"):
            _set(self, name, plain.natural(getattr(self, name), name))
        for name in ("denominator", "loss", "gradient_norm", "learning_rate"):
            value = getattr(self, name)
            if type(value) is not float:  # NaN and infinities are what happened, and are kept
                raise fail(StoreError, name, "be a float", plain.shown(value))
        plain.optional(plain.name, skipped=self.skipped)
        _set(self, "rows", plain.records(self.rows, "rows", UpdatedRow))
