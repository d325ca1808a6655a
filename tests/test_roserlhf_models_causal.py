"""Small models: the same for the same seed, weights that go out and come back, and an export that `transformers` reads."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from loop_models import SIZES, tiny_model
from transformers import AutoModelForCausalLM

from rosellm.roserlhf.errors import CheckpointError, RangeError
from rosellm.roserlhf.models.causal import build_llama, export_model, load_weights, weights, weights_hash


def test_the_same_seed_builds_the_same_model_and_leaves_the_random_state_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, two, other = (build_llama(**{**SIZES, "seed": seed}) for seed in (7, 7, 8))
    assert torch.equal(torch.rand(3), expected)
    assert weights_hash(weights(one)) == weights_hash(weights(two)) != weights_hash(weights(other))


def test_embeddings_are_shared_and_listed_once() -> None:
    model = tiny_model()
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert sum("embed_tokens" in name or "lm_head" in name for name in weights(model)) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hidden_size": 18}, r"hidden_size must be a multiple of 2 \* heads = 4, got 18"),
        ({"heads": 4, "hidden_size": 16, "key_value_heads": 3}, "key_value_heads must divide heads = 4, got 3"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(RangeError, match=message):
        build_llama(**{**SIZES, **wrong})


def test_weights_are_copies_and_come_back_bit_for_bit() -> None:
    model, other = tiny_model(seed=1), tiny_model(seed=2)
    taken = weights(model)
    load_weights(other, taken)
    assert weights_hash(weights(other)) == weights_hash(taken)
    with torch.no_grad():
        next(iter(model.parameters())).zero_()
    assert weights_hash(weights(other)) == weights_hash(taken) != weights_hash(weights(model))


@pytest.mark.parametrize("wrong", ["missing", "unknown", "shape"])
def test_weights_that_do_not_fit_change_nothing(wrong: str) -> None:
    model, taken = tiny_model(seed=1), weights(tiny_model(seed=2))
    before, last = weights_hash(weights(model)), list(taken)[-1]
    if wrong == "missing":
        del taken[last]
    elif wrong == "unknown":
        taken["spare"] = torch.zeros(1)
    else:
        taken[last] = torch.zeros(3)
    with pytest.raises(CheckpointError, match=r"shape \(16,\)" if wrong == "shape" else "name exactly the parameters"):
        load_weights(model, taken)
    assert weights_hash(weights(model)) == before


def test_the_hash_sees_names_shapes_types_and_values() -> None:
    plain = {"a": torch.zeros(2, 3)}
    others: list[dict[str, torch.Tensor]] = [
        {"b": torch.zeros(2, 3)},
        {"a": torch.zeros(3, 2)},
        {"a": torch.zeros(2, 3, dtype=torch.int32)},
        {"a": torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, -0.0]])},
    ]
    assert len({weights_hash(tensors) for tensors in (plain, *others)}) == 5


def test_an_exported_model_computes_the_same_in_transformers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = tiny_model(layers=2)
    export_model(model, tmp_path / "model")
    assert capfd.readouterr() == ("", "")  # no progress bar in the middle of a run's output
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "model").eval()
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    with torch.no_grad():
        assert torch.equal(again(ids).logits, model(ids).logits)
