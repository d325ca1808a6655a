"""Gradient checkpointing: the same gradients to the last bit, and proof that activations really are computed again."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from loop_models import tiny_model
from torch import Tensor

from rosellm.roserlhf.errors import ModelError
from rosellm.roserlhf.losses import policy_logprobs
from rosellm.roserlhf.models.adapters import with_adapters
from rosellm.roserlhf.models.checkpointing import checkpoint_gradients

IDS = torch.randint(11, (3, 8), generator=torch.Generator().manual_seed(0))


def gradients(model: torch.nn.Module) -> tuple[tuple[Tensor, ...], int]:
    """Differentiate the log-probabilities; return the gradients and how often a feed-forward layer was entered."""
    entered = []
    for module in model.modules():
        if type(module).__name__ == "LlamaMLP":
            module.register_forward_pre_hook(lambda *_: entered.append(1))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    loss = policy_logprobs(model, IDS, temperature=1.0).sum()
    return torch.autograd.grad(loss, trained), len(entered)


@pytest.mark.parametrize("rank", [0, 2])
def test_gradients_are_the_same_and_blocks_run_twice(rank: int) -> None:
    outcomes = []
    for recompute in (False, True):
        model: Any = tiny_model(layers=2)
        if rank:
            model = with_adapters(model, rank)
            for name, parameter in model.named_parameters():
                if ".lora_B." in name:
                    parameter.data.fill_(0.1)
        if recompute:
            checkpoint_gradients(model)
            checkpoint_gradients(model)  # once more is no more
        found, entered = gradients(model)
        assert entered == (4 if recompute else 2)
        outcomes.append(found)
    assert all(torch.equal(one, other) for one, other in zip(*outcomes, strict=True))
    assert all(bool(gradient.any()) for gradient in outcomes[0])


def test_no_module_changes_its_mode_and_copies_are_of_their_own() -> None:
    model = tiny_model(layers=2)
    checkpoint_gradients(model)
    assert not any(module.training for module in model.modules())
    twin = copy.deepcopy(model)
    with torch.no_grad():
        next(twin.parameters()).zero_()
        twin.model.layers[0].mlp.up_proj.weight.zero_()
        assert torch.equal(model(IDS).logits, tiny_model(layers=2)(IDS).logits)
        assert not torch.equal(twin(IDS).logits, model(IDS).logits)


def test_nothing_is_recomputed_where_nothing_is_differentiated() -> None:
    model = tiny_model(layers=2)
    checkpoint_gradients(model)
    entered = []
    model.model.layers[0].mlp.register_forward_pre_hook(lambda *_: entered.append(1))
    with torch.no_grad():
        assert torch.equal(model(IDS).logits, tiny_model(layers=2)(IDS).logits)
    assert len(entered) == 1


def test_dropout_is_refused() -> None:
    model = tiny_model()
    model.config.attention_dropout = 0.1
    with pytest.raises(ModelError, match=r"model must have no dropout, got 0\.1"):
        checkpoint_gradients(model)
