"""Evidence of an update -> the derivative of its loss with respect to every current log-probability; no model is needed.

```
records, ledger -> rows with advantages \\
                                         objective -> loss -> autograd -> dL/dl of every token
Update          -> current log-probs    /
```
The objective is the recipe's own, so whatever it clips, gates or weighs is what is differentiated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Unpack

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.batching.tensors import Batch
from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.learner.policy import batches_of, layout_of
from rosellm.roserlhf.losses import Aggregation, Layout
from rosellm.roserlhf.store.updates import Update, UpdatedRow
from rosellm.roserlhf.trainer.recipe import PolicyObjective


@dataclass(frozen=True)
class RowGradient:
    """One row in one update; every tensor is `[T]`, meaningful where `loss_mask` is true."""

    row: Row
    current: Tensor
    """Current log-probabilities, float32; 0 where nothing was sampled."""
    ratio: Tensor
    """`exp(current - behaviour)`."""
    token_loss: Tensor
    """Loss of each token before aggregation."""
    weight: Tensor | None
    """`dL / d token_loss`: 1 / denominator for a token mean; None for an objective whose loss is not made of its token losses."""
    derivative: Tensor
    """`dL / d current`."""


@dataclass(frozen=True)
class UpdateGradient:
    """All rows of one update."""

    loss: float
    """Recomputed: sum of the micro-batches' shares."""
    absolute: float
    """Sum of `|dL / d current|` over all tokens of the update."""
    rows: Mapping[str, RowGradient]
    """By trajectory."""


def differentiate(
    update: Update,
    rows: Mapping[str, Row],
    objective: PolicyObjective,
    *,
    micro_batch_rows: int,
    denominator_mode: Aggregation = "token",
) -> UpdateGradient:
    """Differentiate the loss of an update, micro-batch by micro-batch as it was made.

    Args:
        update: the evidence.
        rows: the rows of the step by trajectory, with their advantages.
        objective: the recipe's.
        micro_batch_rows: rows per forward pass.
        denominator_mode: the recipe's; it says which rows stand in one micro-batch.

    Raises:
        StoreError: a row of the update has no record, or not one current log-probability per sampled token.
        NonFiniteError: a log-probability or an advantage of a trained token is NaN or infinite.
    """
    pairs = iter([(_row(one, rows), one.current_logprobs) for one in update.rows])
    shares: list[float] = []
    found: dict[str, RowGradient] = {}
    for batch in batches_of([_row(one, rows) for one in update.rows], micro_batch_rows, denominator_mode):
        part = list(islice(pairs, len(batch.input_ids)))
        share, gradients = _micro_batch(batch, [row for row, _ in part], [one for _, one in part], objective, update.denominator)
        shares.append(share)
        found |= gradients
    absolute = sum(float(one.derivative.abs().sum(dtype=torch.float64)) for one in found.values())
    return UpdateGradient(sum(shares), absolute, found)


def _row(evidence: UpdatedRow, rows: Mapping[str, Row]) -> Row:
    row = rows.get(evidence.trajectory_id)
    if row is None:
        raise checks.fail(
            StoreError, "the log", "hold a record for every row of its updates", f"none of {evidence.trajectory_id!r}"
        )
    if len(evidence.current_logprobs) != row.sampled:
        requirement = f"hold one for each of the {row.sampled} tokens that {evidence.trajectory_id!r} sampled"
        raise checks.fail(StoreError, "current_logprobs", requirement, len(evidence.current_logprobs))
    return row


def _micro_batch(
    batch: Batch, rows: Sequence[Row], logprobs: Sequence[Sequence[float]], objective: PolicyObjective, denominator: float
) -> tuple[float, dict[str, RowGradient]]:
    current = torch.zeros_like(batch.behaviour_logprobs)
    current[batch.policy_mask] = torch.tensor([value for row in logprobs for value in row], dtype=current.dtype)
    current.requires_grad_()
    given = (current, batch.behaviour_logprobs, batch.advantages, batch.loss_mask)
    output = call(objective, *given, denominator, **layout_of(batch))
    (weight,) = torch.autograd.grad(output.loss, output.token_loss, retain_graph=True, allow_unused=True)
    (derivative,) = torch.autograd.grad(output.loss, current)
    ratio = (current.detach() - batch.behaviour_logprobs).exp()
    gradients = {}
    for index, row in enumerate(rows):
        length = len(row.token_ids)
        columns = (current.detach(), ratio, output.token_loss.detach(), weight, derivative)
        cut = [None if column is None else column[index, :length] for column in columns]
        gradients[row.trajectory_id] = RowGradient(row, *cut)  # type: ignore[arg-type]
    return float(output.loss.detach()), gradients


def call(
    objective: PolicyObjective,
    current: Tensor,
    behaviour: Tensor,
    advantages: Tensor,
    loss_mask: Tensor,
    denominator: float,
    **layout: Unpack[Layout],
) -> Any:
    """Call the objective on rows `[B, T]` as the update does, with a loss mask of one's own."""
    return objective(current, behaviour, advantages, loss_mask, denominator=denominator, **layout)
