"""The engine's forward step against the `transformers` model that it stands for."""

from __future__ import annotations

import pytest
import torch
from loop_models import tiny_model
from transformers import LlamaConfig

from rosellm.roserlhf.engine.llama import LlamaStep
from rosellm.roserlhf.engine.weights import check_architecture
from rosellm.roserlhf.errors import RangeError

SHAPES = [(1, 1, 8), (2, 1, 16), (4, 2, 32), (4, 4, 32), (6, 3, 24)]


@pytest.mark.parametrize(("heads", "kv_heads", "hidden"), SHAPES)
def test_prompt_and_single_steps_give_the_models_own_logits(heads: int, kv_heads: int, hidden: int) -> None:
    model = tiny_model(layers=2, heads=heads, key_value_heads=kv_heads, hidden_size=hidden)
    ids = torch.randint(11, (3, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = model(ids).logits.log_softmax(-1)
    step = LlamaStep(model, positions=32, precision="float32")
    cache = step.new_cache()
    rows = [0, 2, 3]
    with torch.inference_mode():
        prompt = step.forward(ids[:, :4], torch.arange(4).expand(3, 4), rows, cache, torch.full((3,), 3), span=4)
        assert (prompt.log_softmax(-1) - expected[:, 3]).abs().max() < 1e-4
        for place in range(4, 9):
            positions = torch.full((3, 1), place)
            found = step.forward(
                ids[:, place : place + 1], positions, rows, cache, torch.zeros(3, dtype=torch.long), span=place + 1
            )
            assert (found.log_softmax(-1) - expected[:, place]).abs().max() < 1e-4


def test_rows_of_different_lengths_and_junk_in_the_cache_do_not_disturb_each_other() -> None:
    model = tiny_model(layers=2)
    step = LlamaStep(model, positions=32, precision="float32")
    cache = step.new_cache()
    cache.reserve(4, 16)
    for tensor in (*cache.keys, *cache.values):
        tensor.fill_(1e3)  # what earlier sequences left there
    long, short = torch.tensor([1, 2, 3, 4, 5, 6]), torch.tensor([7, 8])
    padded = torch.stack([long, torch.cat([short, torch.tensor([9, 9, 9, 9])])])
    with torch.inference_mode():
        found = step.forward(padded, torch.arange(6).expand(2, 6), [1, 2], cache, torch.tensor([5, 1]), span=6).log_softmax(-1)
        later = step.forward(torch.tensor([[3]]), torch.tensor([[2]]), [2], cache, torch.tensor([0]), span=3).log_softmax(-1)
        expected = [model(ids[None]).logits[0, -1].log_softmax(-1) for ids in (long, short, torch.tensor([7, 8, 3]))]
    for one, other in zip((found[0], found[1], later[0]), expected, strict=True):
        assert (one - other).abs().max() < 1e-4


def test_untied_output_weights_are_used() -> None:
    model = tiny_model()
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().flip(0))
    step = LlamaStep(model, positions=32, precision="float32")
    with torch.inference_mode():
        args = (torch.tensor([[1, 2]]), torch.tensor([[0, 1]]), [0], step.new_cache(), torch.tensor([1]))
        assert torch.allclose(step.forward(*args, span=2), model(torch.tensor([[1, 2]])).logits[:, -1], atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention_bias": True}, "model must be a plain Llama"),
        ({"mlp_bias": True}, "model must be a plain Llama"),
        ({"hidden_act": "gelu"}, "model must be a plain Llama .*, got hidden_act 'gelu'"),
        (
            {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
            "use plain rotary embeddings, got .*linear",
        ),
    ],
)
def test_an_architecture_that_it_does_not_compute_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(RangeError, match=message):
        check_architecture(LlamaConfig(vocab_size=8, hidden_size=16, num_attention_heads=2, **options))  # type: ignore[arg-type]
