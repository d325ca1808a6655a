"""Cloning: maximise the log-probability of scripted actions, the same masks and denominators as the policy update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.batching.tensors import Batch, by_length, pad
from rosellm.roserlhf.learner.step import Stepper, StepReport
from rosellm.roserlhf.losses import policy_logprobs, step_denominator
from rosellm.roserlhf.masked import Partial, masked_sum, partial


def clone_step(stepper: Stepper[Batch], rows: Sequence[Row], *, micro_batch_rows: int, learning_rate: float) -> StepReport:
    r"""Take one step of behaviour cloning.

    .. math:: L = -\frac{1}{\sum_t m_t}\sum_t m_t \log\pi_\theta(x_t \mid x_{<t})

    Args:
        rows: demonstrations; their `loss_mask` says which tokens are to be imitated. Rows without any are left out.
        micro_batch_rows: rows per forward pass.
        learning_rate: of this step.
    """
    device = stepper.parameters[0].device
    ordered = by_length([row for row in rows if row.trained])
    batches = [pad(ordered[i : i + micro_batch_rows], device) for i in range(0, len(ordered), micro_batch_rows)]
    denominator = step_denominator([batch.loss_mask for batch in batches], "token")

    def loss_of(batch: Batch) -> tuple[Tensor, Mapping[str, Partial]]:
        logprobs = policy_logprobs(stepper.model, batch.input_ids, temperature=1.0)
        return -masked_sum(logprobs, batch.loss_mask) / denominator, {"cloning_loss": partial(-logprobs, batch.loss_mask)}

    return stepper.step(batches, loss_of, learning_rate=learning_rate)
