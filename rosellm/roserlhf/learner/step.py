"""One optimizer step: `micro-batches → gradients, summed in order → clip → finite? → AdamW`.

Micro-batches are differentiated by a few single-threaded workers at a time. Their gradients are added in the order of the
micro-batches, and no loss knows how many there are (the denominator is the step's), so neither workers nor micro-batches change
what is learnt: the number of workers not in a single bit, the cut into micro-batches only in rounding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from rosellm.roserlhf.masked import Partial
from rosellm.roserlhf.metrics import merge

_B = TypeVar("_B")


@dataclass(frozen=True)
class StepReport:
    """What one optimizer step did."""

    partials: Mapping[str, Partial]
    """Summed over the micro-batches."""
    loss: float
    """Sum of the micro-batches' shares."""
    gradient_norm: float
    """Before clipping; NaN or infinite if the step was refused."""
    skipped: str | None
    """Why no update was made; None if one was."""


NOTHING_TO_TRAIN = StepReport({}, 0.0, 0.0, "no tokens to train")
"""The report of a step without a single token in the loss: the gradient of nothing is 0, and no update is made."""


class Stepper(Generic[_B]):
    """Holds the optimizer and the workers.

    Args:
        model: float32, in evaluation mode (no dropout).
        learning_rate, weight_decay: of AdamW.
        gradient_clip: bound of the global norm.
        workers: threads, each single-threaded inside torch.
    """

    def __init__(
        self, model: nn.Module, *, learning_rate: float, weight_decay: float, gradient_clip: float, workers: int = 1
    ) -> None:
        self.model = model
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=learning_rate, weight_decay=weight_decay)
        self._clip, self._at_once = gradient_clip, workers
        self._workers = ThreadPoolExecutor(workers, "learner", initializer=torch.set_num_threads, initargs=(1,))

    def close(self) -> None:
        """Stop the workers."""
        self._workers.shutdown()

    def step(
        self, batches: Sequence[_B], loss_of: Callable[[_B], tuple[Tensor, Mapping[str, Partial]]], *, learning_rate: float
    ) -> StepReport:
        """Take one step, or refuse to if there is nothing to learn or the gradient is not finite.

        Args:
            batches: micro-batches; together they are the whole step.
            loss_of: micro-batch → (its share of the step's loss, its partials). Shares add up.
            learning_rate: of this step.
        """
        total, partial_sums, losses = self._differentiate_all(batches, loss_of)
        if not losses:
            return NOTHING_TO_TRAIN
        partials, loss = merge(partial_sums), float(torch.stack(losses).sum())
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in total]))
        if not bool(norm.isfinite()):
            return StepReport(partials, loss, float(norm), "the gradient is not finite")
        scale = (self._clip / (norm + 1e-6)).clamp(max=1.0)
        for parameter, gradient in zip(self.parameters, total, strict=True):
            parameter.grad = gradient * scale
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return StepReport(partials, loss, float(norm), None)

    def _differentiate_all(
        self, batches: Sequence[_B], loss_of: Callable[[_B], tuple[Tensor, Mapping[str, Partial]]]
    ) -> tuple[list[Tensor], list[Mapping[str, Partial]], list[Tensor]]:
        """Add up the gradients in the order of the micro-batches; few are held at a time, as large as the model."""
        total: list[Tensor] = []
        partials: list[Mapping[str, Partial]] = []
        losses: list[Tensor] = []
        waiting: deque[Future[tuple[tuple[Tensor, ...], Mapping[str, Partial], Tensor]]] = deque()
        try:
            for batch in [*batches, *[None] * self._at_once]:
                if batch is not None:
                    waiting.append(self._workers.submit(self._differentiate, batch, loss_of))
                if waiting and (batch is None or len(waiting) > self._at_once):
                    gradients, partial, loss = waiting.popleft().result()
                    total = [a.add_(b) for a, b in zip(total, gradients, strict=True)] if total else list(gradients)
                    partials.append(partial)
                    losses.append(loss)
        finally:
            for left in waiting:
                left.cancel()
        return total, partials, losses

    def _differentiate(
        self, batch: _B, loss_of: Callable[[_B], tuple[Tensor, Mapping[str, Partial]]]
    ) -> tuple[tuple[Tensor, ...], Mapping[str, Partial], Tensor]:
        loss, partials = loss_of(batch)
        return torch.autograd.grad(loss, self.parameters), partials, loss.detach()
