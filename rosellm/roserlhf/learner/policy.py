"""The policy update: rows with advantages → optimizer steps, with the evidence that nothing is misaligned."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Unpack

import numpy as np
import torch
from torch import Tensor

from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.batching.tensors import Batch, by_length, micro_batches, pad
from rosellm.roserlhf.learner.step import NOTHING_TO_TRAIN, Stepper, StepReport
from rosellm.roserlhf.losses import Aggregation, Layout, policy_logprobs, step_denominator
from rosellm.roserlhf.masked import Partial, partial
from rosellm.roserlhf.metrics import merge
from rosellm.roserlhf.store.updates import Update, UpdatedRow

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
        /,
        *,
        denominator: Tensor | float,
        **layout: Unpack[Layout],
    ) -> Any: ...


@dataclass(frozen=True)
class UpdateReport:
    """What the updates on one step's episodes did."""

    updates: tuple[Update, ...]
    """The evidence of each, in order; one that says so if no row has a token in the loss."""
    partials: Mapping[str, Partial]
    """Summed over all updates."""
    max_abs_log_ratio_before_update: float | None
    """Largest |log π − log behaviour| over the first update's tokens, before it: 0 up to rounding if everything is aligned."""
    trained: frozenset[str]
    """Trajectories that took part in at least one update that was made."""
    ratio_counts: tuple[int, ...]
    """Histogram of the ratios that the last update saw, over `RATIO_EDGES`."""


@dataclass(frozen=True)
class _Seen:
    """What the policy said to one micro-batch just before the update, row after row."""

    current: Tensor
    """Log-probabilities of the sampled tokens, `[N]`."""
    log_ratios: Tensor
    """log π − log behaviour of the tokens in the loss, `[M]`."""


def update_policy(
    stepper: Stepper[Batch],
    rows: Sequence[Row],
    objective: Objective,
    *,
    step: int,
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
        step: training step, named in the evidence.
        denominator_mode: unit of the denominator, computed once per optimizer step over all its micro-batches. Its sequences are
            rollouts, which may have several rows.
        temperature: of the sampled distribution.
        epochs, minibatches: passes, and optimizer steps per pass.
        micro_batch_rows: rows per forward pass; more where a single rollout has more and must not be cut.
        shuffle: (epoch, count) → order of the rollouts.

    Returns:
        The report, with the evidence of every update.

    Raises:
        NonFiniteError: an advantage or a log-probability of a live token is NaN or infinite; its update is not made.
    """
    live = [row for row in rows if row.trained]
    if not live:
        return _no_update(step, learning_rate)
    updates: list[Update] = []
    partials: list[Mapping[str, Partial]] = []
    log_ratios: list[Tensor] = []
    trained: set[str] = set()
    for epoch, chosen in _minibatches(live, epochs, minibatches, shuffle, whole_rollouts=denominator_mode != "token"):
        batches = batches_of(chosen, micro_batch_rows, denominator_mode, stepper.parameters[0].device)
        masks, ids = [batch.loss_mask for batch in batches], [batch.sequence_ids for batch in batches]
        known = [one for one in ids if one is not None]
        denominator = step_denominator(masks, denominator_mode, sequence_ids=known or None)
        report, seen = _one_update(stepper, batches, objective, denominator, temperature, learning_rate)
        partials.append(report.partials)
        log_ratios.append(torch.cat([one.log_ratios for one in seen]))
        if report.skipped is None:
            trained.update(row.trajectory_id for row in chosen)
        updates.append(
            Update(
                step,
                len(updates),
                epoch=epoch,
                rows=_evidence(chosen, [one.current for one in seen]),
                denominator=float(denominator),
                loss=report.loss,
                gradient_norm=report.gradient_norm,
                learning_rate=learning_rate,
                skipped=report.skipped,
            )
        )
    ratios = log_ratios[-1].exp().clamp(RATIO_EDGES[0], RATIO_EDGES[-1]).cpu().numpy()
    counts = tuple(map(int, np.histogram(ratios, RATIO_EDGES)[0]))
    return UpdateReport(tuple(updates), merge(partials), float(log_ratios[0].abs().max()), frozenset(trained), counts)


def _minibatches(
    rows: Sequence[Row],
    epochs: int,
    minibatches: int,
    shuffle: Callable[[int, int], Sequence[int]],
    *,
    whole_rollouts: bool,
) -> Iterator[tuple[int, list[Row]]]:
    """Yield (epoch, rows in the order of the forward passes) for every update; no update is empty, none has part of a rollout."""
    rollouts: dict[str, list[Row]] = {}
    for row in rows:
        rollouts.setdefault(row.rollout_id, []).append(row)
    units = list(rollouts.values())
    for epoch in range(epochs):
        order = np.asarray(shuffle(epoch, len(units)), dtype=np.int64)
        for part in np.array_split(order, min(minibatches, len(units))):
            yield epoch, by_length((row for i in part for row in units[i]), whole_rollouts=whole_rollouts)


def batches_of(
    rows: Sequence[Row], micro_batch_rows: int, denominator_mode: Aggregation, device: torch.device | str = "cpu"
) -> list[Batch]:
    """Pad the rows of one update, in their order, into its micro-batches.

    Unless the loss is a mean over tokens its unit is the rollout: the rows of one stay together and are one sequence.
    """
    whole = denominator_mode != "token"
    several = whole and any(row.part_of is not None for row in rows)
    return [pad(part, device, by_rollout=several) for part in micro_batches(rows, micro_batch_rows, whole_rollouts=whole)]


def layout_of(batch: Batch) -> Layout:
    """Tell an objective which rows of a micro-batch are one sequence; nothing where each is one."""
    return {} if batch.sequence_ids is None else {"sequence_ids": batch.sequence_ids}


def _one_update(
    stepper: Stepper[Batch],
    batches: Sequence[Batch],
    objective: Objective,
    denominator: Tensor,
    temperature: float,
    learning_rate: float,
) -> tuple[StepReport, list[_Seen]]:
    """Take one optimizer step; return its report and what each micro-batch looked like, in their order."""
    seen: dict[int, _Seen] = {}

    def loss_of(batch: Batch) -> tuple[Tensor, Mapping[str, Partial]]:
        current = policy_logprobs(stepper.model, batch.input_ids, temperature=temperature, support=batch.support)
        columns = (current, batch.behaviour_logprobs, batch.advantages, batch.loss_mask)
        output = objective(*columns, denominator=denominator, **layout_of(batch))
        known = current.detach()
        seen[id(batch)] = _Seen(known[batch.policy_mask], (known - batch.behaviour_logprobs)[batch.loss_mask])
        return output.loss, {**output.partials, "sampled_entropy": partial(-current, batch.loss_mask)}

    report = stepper.step(batches, loss_of, learning_rate=learning_rate)
    return report, [seen[id(batch)] for batch in batches]  # workers finish in any order


def _no_update(step: int, learning_rate: float) -> UpdateReport:
    nothing = NOTHING_TO_TRAIN
    update = Update(
        step,
        0,
        epoch=0,
        rows=(),
        denominator=0.0,
        loss=nothing.loss,
        gradient_norm=nothing.gradient_norm,
        learning_rate=learning_rate,
        skipped=nothing.skipped,
    )
    return UpdateReport((update,), {}, None, frozenset(), (0,) * (len(RATIO_EDGES) - 1))


def _evidence(rows: Sequence[Row], current: Sequence[Tensor]) -> tuple[UpdatedRow, ...]:
    """Cut the log-probabilities of all micro-batches, brought over in one transfer, into those of each row."""
    flat = torch.cat(list(current)).float().cpu().numpy()
    parts = np.split(flat, np.cumsum([row.sampled for row in rows])[:-1])
    return tuple(UpdatedRow(row.trajectory_id, array("f", part.tobytes())) for row, part in zip(rows, parts, strict=True))
