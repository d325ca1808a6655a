"""Gradient checkpointing: keep the input of every block and compute the rest again in the backward pass. Memory for time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ModelError
from rosellm.roserlhf.models.adapters import has_adapters

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import LlamaForCausalLM


def checkpoint_gradients(model: LlamaForCausalLM | PeftModel) -> None:
    """Recompute the activations of every block in the backward pass; losses and gradients stay the same, to the last bit.

    The switch that `transformers` has for it does nothing in a model in evaluation mode, without a word, and models learn in
    evaluation mode here. So the blocks are wrapped from outside, and no module changes its mode.

    Raises:
        ModelError: the model has dropout: what is computed again would be something else.
    """
    dropout = max((module.p for module in model.modules() if isinstance(module, nn.Dropout)), default=0.0)
    dropout = max(dropout, getattr(model.config, "attention_dropout", 0.0))
    if dropout:
        raise checks.fail(ModelError, "model", "have no dropout", dropout)
    base: Any = model.get_base_model() if has_adapters(model) else model
    for layer in base.model.layers:
        if "forward" not in vars(layer):  # not the reentrant kind, which torch.autograd.grad cannot differentiate
            layer.forward = partial(checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False)
