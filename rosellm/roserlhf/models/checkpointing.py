"""Gradient checkpointing: keep the input of every block and compute the rest again in the backward pass. Memory for time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ModelError

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import LlamaForCausalLM


def checkpoint_gradients(model: LlamaForCausalLM | PeftModel) -> None:
    """Recompute the activations of every block in the backward pass; losses and gradients stay the same.

    `transformers` does so only in blocks in training mode, and says nothing in others. So the blocks, and they alone, are put in
    training mode: what is inside them stays in evaluation mode, and so does everything else. A later `eval()` undoes it.

    Raises:
        ModelError: the model has dropout, which blocks in training mode would apply.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer

    dropout = getattr(model.config, "attention_dropout", 0.0) or max(
        (module.p for module in model.modules() if isinstance(module, nn.Dropout)), default=0.0
    )
    if dropout:
        raise checks.fail(ModelError, "model", "have no dropout", dropout)
    # not the reentrant kind: it needs inputs that require gradients and cannot be differentiated with torch.autograd.grad
    model.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.training = True
