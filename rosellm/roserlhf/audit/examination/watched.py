"""The trainer's own update with a witness: `rows -> update_policy -> what its objective was given and gave back`.

The witness stands where the objective stands, so what it sees went through the very rows, padding, next-token shift, temperature
and denominator that training uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from torch import Tensor

from rosellm.roserlhf.audit.examination.subject import Subject
from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.batching.tensors import Batch, by_length
from rosellm.roserlhf.engine.streams import seed_of
from rosellm.roserlhf.learner.policy import UpdateReport, update_policy
from rosellm.roserlhf.learner.step import Stepper
from rosellm.roserlhf.losses import Layout

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import LlamaForCausalLM


@dataclass(frozen=True)
class Seen:
    """One micro-batch as its objective saw it; tensors are `[B, T]`."""

    rows: list[Row]
    current: Tensor
    behaviour: Tensor
    advantages: Tensor
    loss_mask: Tensor
    token_loss: Tensor
    loss: float
    """Share of the step's loss."""


def watch(subject: Subject, rows: Sequence[Row], *, micro_batch_rows: int, temperature: float) -> list[Seen]:
    """Make one update at learning rate 0 on a copy of the model and return what each of its micro-batches was.

    Args:
        rows: with tokens in the loss and an advantage.
        micro_batch_rows: rows per forward pass.
        temperature: of the sampled distribution.
    """
    ordered, seen = by_length(rows), list[Seen]()

    def witness(
        current_logprobs: Tensor,
        old_logprobs: Tensor,
        advantages: Tensor,
        action_mask: Tensor,
        *,
        denominator: Tensor | float,
        **layout: Unpack[Layout],
    ) -> Any:
        columns = (current_logprobs, old_logprobs, advantages, action_mask)
        output = subject.recipe.objective(*columns, denominator=denominator, **layout)
        start = len(seen) * micro_batch_rows
        seen.append(
            Seen(
                rows=ordered[start : start + micro_batch_rows],
                current=current_logprobs.detach(),
                behaviour=old_logprobs,
                advantages=advantages,
                loss_mask=action_mask,
                token_loss=output.token_loss.detach(),
                loss=float(output.loss.detach()),
            )
        )
        return output

    training = Training(replace(subject, recipe=replace(subject.recipe, objective=witness)), subject.model_copy())
    try:
        training.step(rows, step=1, micro_batch_rows=micro_batch_rows, temperature=temperature, learning_rate=0.0)
    finally:
        training.close()
    return seen


class Training:
    """An optimizer over a model that may be changed, with the options of a subject's recipe."""

    def __init__(self, subject: Subject, model: LlamaForCausalLM | PeftModel) -> None:
        options = subject.recipe.config.optimizer
        self._recipe = subject.recipe
        self._stepper: Stepper[Batch] = Stepper(
            model, learning_rate=options.learning_rate, weight_decay=options.weight_decay, gradient_clip=options.gradient_clip
        )

    def step(
        self,
        rows: Sequence[Row],
        *,
        step: int,
        micro_batch_rows: int | None = None,
        temperature: float | None = None,
        learning_rate: float | None = None,
    ) -> UpdateReport:
        """Make one update of all rows; None means as configured."""
        recipe = self._recipe
        options = recipe.config.optimizer

        def shuffle(epoch: int, count: int) -> list[int]:
            order = np.random.default_rng(seed_of((recipe.config.seed, "doctor", step, epoch))).permutation(count)
            return [int(index) for index in order]

        return update_policy(
            self._stepper,
            rows,
            recipe.objective,
            step=step,
            denominator_mode=recipe.denominator_mode,
            temperature=recipe.config.collect.temperature if temperature is None else temperature,
            epochs=1,
            minibatches=1,
            micro_batch_rows=options.micro_batch_rows if micro_batch_rows is None else micro_batch_rows,
            learning_rate=options.learning_rate if learning_rate is None else learning_rate,
            shuffle=shuffle,
        )

    def close(self) -> None:
        """Stop the worker."""
        self._stepper.close()
