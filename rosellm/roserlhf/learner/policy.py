"""The policy update: rows with advantages → optimizer steps, with the evidence that nothing is misaligned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.batching.tensors import Batch, by_length, pad
from rosellm.roserlhf.learner.logprobs import policy_logprobs
from rosellm.roserlhf.learner.step import Stepper, StepReport
from rosellm.roserlhf.losses import Aggregation, step_denominator
from rosellm.roserlhf.masked import Partial, partial
from rosellm.roserlhf.metrics import merge

RATIO_EDGES = tuple(round(0.5 + 0.05 * i, 2) for i in range(21))
"""Bin edges of the ratio histogram; what lies outside is counted in the first and the last bin."""


class Objective(Protocol):
    """A policy objective with its clip bounds and aggregation bound."""

    def __call__(
        self,
        current_logprobs: Tensor,
        old_logprobs: Tensor,
        advantages: Tensor,
        action_mask: Tensor,
        *,
        denominator: Tensor | float,
    ) -> Any: ...


@dataclass(frozen=True)
class UpdateReport:
    """What the updates on one step's episodes did."""

    steps: tuple[StepReport, ...]
    partials: Mapping[str, Partial]
    """Summed over all updates."""
    max_abs_log_ratio_before_update: float | None
    """Largest |log π − log behaviour| over the first update's tokens, before it: 0 up to rounding if everything is aligned."""
    trained: frozenset[str]
    """Trajectories that took part in at least one update that was made."""
    ratio_counts: tuple[int, ...]
    """Histogram of the ratios that the last update saw, over `RATIO_EDGES`."""


def update_policy(
    stepper: Stepper[Batch],
    rows: Sequence[Row],
    objective: Objective,
    *,
    denominator_mode: Aggregation,
    temperature: float,
    epochs: int,
    minibatches: int,
    micro_batch_rows: int,
    learning_rate: float,
    shuffle: Callable[[int, int], Sequence[int]],
) -> UpdateReport:
    """Update the policy on one step's rows.

    Args:
        rows: those with tokens in the loss are used; behaviour log-probabilities are the recorded ones.
        objective: log-probabilities and advantages → loss and partials.
        denominator_mode: unit of the denominator, computed once per optimizer step over all its micro-batches.
        temperature: of the sampled distribution.
        epochs, minibatches: passes, and optimizer steps per pass.
        micro_batch_rows: rows per forward pass.
        shuffle: (epoch, count) → order of the rows.
    """
    live = [row for row in rows if row.trained]
    device = stepper.parameters[0].device
    reports: list[StepReport] = []
    first: float | None = None
    trained: set[str] = set()
    counts = np.zeros(len(RATIO_EDGES) - 1, dtype=np.int64)
    for epoch in range(epochs):
        order = shuffle(epoch, len(live))
        for part in np.array_split(np.asarray(order, dtype=np.int64), minibatches):
            chosen = by_length([live[i] for i in part])
            batches = [pad(chosen[i : i + micro_batch_rows], device) for i in range(0, len(chosen), micro_batch_rows)]
            if not batches:
                continue
            denominator = step_denominator([batch.loss_mask for batch in batches], denominator_mode)
            log_ratios: list[Tensor] = []

            def loss_of(
                batch: Batch, denominator: Tensor = denominator, log_ratios: list[Tensor] = log_ratios
            ) -> tuple[Tensor, Mapping[str, Partial]]:
                current = policy_logprobs(stepper.model, batch.input_ids, temperature=temperature)
                advantages = batch.advantages[:, None].expand_as(current)
                output = objective(current, batch.behaviour_logprobs, advantages, batch.loss_mask, denominator=denominator)
                log_ratios.append((current.detach() - batch.behaviour_logprobs)[batch.loss_mask])
                return output.loss, {**output.partials, "sampled_entropy": partial(-current, batch.loss_mask)}

            reports.append(stepper.step(batches, loss_of, learning_rate=learning_rate))
            if reports[-1].skipped is None:
                trained.update(row.trajectory_id for row in chosen)
            seen = torch.cat(log_ratios)
            first = float(seen.abs().max()) if first is None else first
            counts = np.histogram(seen.exp().clamp(RATIO_EDGES[0], RATIO_EDGES[-1]).cpu().numpy(), RATIO_EDGES)[0]
    return UpdateReport(tuple(reports), merge([r.partials for r in reports]), first, frozenset(trained), tuple(map(int, counts)))
