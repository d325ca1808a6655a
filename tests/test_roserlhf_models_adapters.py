"""Adapters: the base until trained, the base again when switched off, saved alone, and whole weights for whoever samples."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from loop_models import ask, request, tiny_model
from loop_rows import same_bits
from peft import PeftModel
from pretrained_models import smollm2
from torch import Tensor

from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.engine.protocol import PolicyHandle
from rosellm.roserlhf.errors import CheckpointError, MissingExtraError, ModelError, NonFiniteError, RangeError
from rosellm.roserlhf.learner.step import Stepper
from rosellm.roserlhf.losses import policy_logprobs
from rosellm.roserlhf.models.adapters import BASE, adapter_parameters, adapters_off, has_adapters, with_adapters
from rosellm.roserlhf.models.causal import export_model, load_weights, merged_model, merged_weights, weights, weights_hash
from rosellm.roserlhf.trainer.checkpoint import (
    Checkpoint,
    load_checkpoint,
    load_optimizer,
    optimizer_tensors,
    save_checkpoint,
)

IDS = torch.randint(11, (6, 8), generator=torch.Generator().manual_seed(0))


def logprobs(model: torch.nn.Module) -> Tensor:
    """The policy's word on a few sequences."""
    with torch.no_grad():
        return policy_logprobs(model, IDS, temperature=1.0)


def moved(model: PeftModel, seed: int = 1) -> PeftModel:
    """Give the adapters weights that change the policy visibly."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in adapter_parameters(model).values():
            parameter.normal_(generator=generator)
    return model


def test_new_adapters_change_nothing() -> None:
    base, model = tiny_model(), with_adapters(tiny_model(), 2)
    assert torch.equal(logprobs(model), logprobs(base))
    assert same_bits(merged_weights(model), weights(base))


def test_all_linear_layers_but_the_head_have_adapters_and_only_they_are_trained() -> None:
    model = with_adapters(tiny_model(layers=2), 3)
    parts = {name.split("layers.")[1].split(".lora_")[0] for name in adapter_parameters(model)}
    blocks = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"]
    blocks += ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
    assert parts == {f"{layer}.{block}" for layer in (0, 1) for block in blocks}
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert trained
    assert all(".lora_" in name for name in trained)
    # hidden 16, keys and values 8, feed-forward 16: rank * (in + out) for q, k, v, o, gate, up, down
    assert sum(p.numel() for p in adapter_parameters(model).values()) == 2 * 3 * (32 + 24 + 24 + 32 + 32 + 32 + 32)
    assert not model.training


def test_the_same_seed_begins_the_same_and_leaves_the_random_state_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, two, other = (weights(with_adapters(tiny_model(), 2, seed=seed)) for seed in (7, 7, 8))
    assert torch.equal(torch.rand(3), expected)
    assert weights_hash(one) == weights_hash(two) != weights_hash(other)


@pytest.mark.parametrize("alpha", [None, 1.0, 8.0])
def test_merged_weights_are_the_formula(alpha: float | None) -> None:
    base, model = tiny_model(), moved(with_adapters(tiny_model(), 2, alpha=alpha))
    own, merged = weights(model), merged_weights(model)
    name = "model.layers.0.mlp.up_proj"
    a, b = (own[f"base_model.model.{name}.lora_{letter}.weight"] for letter in "AB")
    expected = weights(base)[f"{name}.weight"] + (4 if alpha is None else alpha) / 2 * (b @ a)
    torch.testing.assert_close(merged[f"{name}.weight"], expected)
    assert merged.keys() == weights(base).keys()
    assert torch.equal(merged["model.embed_tokens.weight"], weights(base)["model.embed_tokens.weight"])


def test_merging_changes_rounding_only_and_leaves_the_model_alone() -> None:
    model, whole = moved(with_adapters(tiny_model(dtype=torch.float64), 2)), tiny_model(dtype=torch.float64)
    before = weights_hash(weights(model))
    load_weights(whole, merged_weights(model))
    assert (logprobs(whole) - logprobs(model)).abs().max() < 1e-9
    assert (logprobs(whole) - logprobs(tiny_model(dtype=torch.float64))).abs().max() > 0.1
    assert weights_hash(weights(model)) == before


def test_an_engine_is_built_from_a_whole_copy() -> None:
    model, plain = moved(with_adapters(tiny_model(), 2)), tiny_model()
    whole = merged_model(model)
    assert same_bits(weights(whole), merged_weights(model))
    assert type(whole) is type(plain)
    assert whole.lm_head.weight is whole.model.embed_tokens.weight
    assert not has_adapters(whole)
    assert has_adapters(model)
    assert merged_model(plain) is plain


def test_an_engine_takes_over_the_merged_weights() -> None:
    model = moved(with_adapters(tiny_model(), 2))
    engine = LocalEngine(tiny_model(), version="base", threads=1)
    try:
        asyncio.run(engine.publish(PolicyHandle("v1", merged_weights(model))))
        (chunk,) = ask(engine, [request([1, 2, 3])])
    finally:
        engine.close()
    ids = torch.tensor([[1, 2, 3, *chunk.token_ids]])
    with torch.no_grad():
        learner = policy_logprobs(model, ids, temperature=1.0)[0, 3:]
    assert (learner - torch.tensor(chunk.logprobs)).abs().max() < 1e-4


def test_with_the_adapters_off_the_policy_is_the_reference() -> None:
    model = moved(with_adapters(tiny_model(), 2))
    current, wanted = logprobs(model), {name for name, p in model.named_parameters() if p.requires_grad}
    with adapters_off(model):
        assert torch.equal(logprobs(model), logprobs(tiny_model()))
    assert torch.equal(logprobs(model), current)
    assert {name for name, p in model.named_parameters() if p.requires_grad} == wanted
    with pytest.raises(KeyError), adapters_off(model):
        raise KeyError
    assert torch.equal(logprobs(model), current)


def stepped(model: PeftModel, stepper: Stepper[Tensor], pieces: list[Tensor]) -> None:
    """Take one step toward likelier tokens."""
    report = stepper.step(
        pieces, lambda ids: (-policy_logprobs(model, ids, temperature=1.0).sum() / IDS.numel(), {}), learning_rate=1e-2
    )
    assert report.skipped is None
    assert report.gradient_norm > 0


def new_stepper(model: PeftModel, workers: int = 1) -> Stepper[Tensor]:
    """Build the optimizer of the trainer."""
    return Stepper(model, learning_rate=1e-2, weight_decay=0.01, gradient_clip=1.0, workers=workers)


def test_only_adapters_move_and_the_number_of_workers_changes_no_bit() -> None:
    outcomes = []
    for workers in (1, 3):
        model = with_adapters(tiny_model(), 2)
        stepper = new_stepper(model, workers)
        before = logprobs(model).sum()
        for _ in range(5):
            stepped(model, stepper, list(IDS.split(2)))
        stepper.close()
        assert logprobs(model).sum() > before
        frozen = {name: p for name, p in model.named_parameters() if not p.requires_grad}
        base = dict(tiny_model().named_parameters())
        plain = {name.removeprefix("base_model.model.").replace(".base_layer", ""): p for name, p in frozen.items()}
        assert same_bits(plain, base)
        outcomes.append(weights(model))
    assert same_bits(*outcomes)


def test_a_run_goes_on_from_a_checkpoint_of_the_adapters_alone(tmp_path: Path) -> None:
    model = with_adapters(tiny_model(), 2)
    stepper = new_stepper(model)
    stepped(model, stepper, [IDS])
    path = save_checkpoint(tmp_path, Checkpoint(1, weights(model), optimizer_tensors(stepper.optimizer), {}))
    stepped(model, stepper, [IDS])
    found = load_checkpoint(path)
    assert all(".lora_" in name or name == BASE for name in found.model)
    assert weights_hash(found.model) != weights_hash(weights(model))
    again = with_adapters(tiny_model(), 2, seed=99)
    resumed = new_stepper(again)
    load_weights(again, found.model)
    assert weights_hash(weights(again)) == weights_hash(found.model)
    load_optimizer(resumed.optimizer, found.optimizer)
    stepped(again, resumed, [IDS])
    assert same_bits(weights(again), weights(model))
    for one in (stepper, resumed):
        one.close()


def test_adapters_of_another_base_are_refused_and_change_nothing() -> None:
    model = with_adapters(tiny_model(seed=1), 2)
    before, foreign = weights_hash(weights(model)), weights(moved(with_adapters(tiny_model(seed=2), 2)))
    own, other = (bytes(tensors[BASE].tolist()).hex() for tensors in (weights(model), foreign))
    assert own == weights_hash(weights(tiny_model(seed=1)))
    message = f"adapters must belong to the base {own}, got those of {other}; load the model that they were trained on"
    with pytest.raises(CheckpointError, match=message):
        load_weights(model, foreign)
    del foreign[BASE]
    with pytest.raises(CheckpointError, match="got no word of their base"):
        load_weights(model, foreign)
    assert weights_hash(weights(model)) == before


def test_adapters_of_another_form_are_refused() -> None:
    model = with_adapters(tiny_model(), 2)
    with pytest.raises(CheckpointError, match=r"lora_A.weight must have shape \(2, 16\), got \(3, 16\)"):
        load_weights(model, weights(with_adapters(tiny_model(), 3)))
    fewer = weights(model)
    del fewer[next(iter(fewer))]
    with pytest.raises(CheckpointError, match="name exactly the parameters"):
        load_weights(model, fewer)


def test_whole_weights_and_adapters_are_not_mixed_up() -> None:
    model = with_adapters(tiny_model(), 2)
    with pytest.raises(CheckpointError, match="got no word of their base"):
        load_weights(model, weights(tiny_model()))
    with pytest.raises(CheckpointError, match="name exactly the parameters"):
        load_weights(tiny_model(), weights(model))


def test_adapters_are_not_put_on_adapters() -> None:
    model: Any = with_adapters(tiny_model(), 2)
    with pytest.raises(ModelError, match="model must have no adapters yet, got PeftModelForCausalLM"):
        with_adapters(model, 2)
    with pytest.raises(ModelError, match="model must have no adapters yet"):
        with_adapters(model.get_base_model(), 2)


@pytest.mark.parametrize(("options", "message"), [({"rank": 0}, "rank"), ({"rank": 2, "alpha": 0}, "alpha")])
def test_sizes_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RangeError, match=message):
        with_adapters(tiny_model(), **options)


def test_a_missing_peft_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtraError, match=r"this needs peft, which is not installed; pip install 'rosellm\[lora\]'"):
        with_adapters(tiny_model(), 2)


def test_broken_adapters_are_not_published() -> None:
    model = with_adapters(tiny_model(), 2)
    next(iter(adapter_parameters(model).values())).data.fill_(float("nan"))
    engine = LocalEngine(tiny_model(), version="base", threads=1)
    with pytest.raises(NonFiniteError, match="policy must be finite"):
        asyncio.run(engine.publish(PolicyHandle("v1", merged_weights(model))))
    engine.close()


def test_adapters_on_a_half_precision_base_are_float32_and_merge_into_its_precision() -> None:
    model = moved(with_adapters(tiny_model(dtype=torch.bfloat16), 2))
    assert {parameter.dtype for parameter in adapter_parameters(model).values()} == {torch.float32}
    assert {tensor.dtype for tensor in merged_weights(model).values()} == {torch.bfloat16}
    assert weights_hash(merged_weights(model)) != weights_hash(weights(tiny_model(dtype=torch.bfloat16)))


def test_the_last_hidden_states_are_found_under_adapters() -> None:
    model = moved(with_adapters(tiny_model(), 2))
    chunked = policy_logprobs(model, IDS, temperature=0.7, chunk=4)
    assert (chunked - policy_logprobs(model, IDS, temperature=0.7)).abs().max() < 1e-5


def test_an_export_is_whole(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = moved(with_adapters(tiny_model(), 2))
    export_model(model, tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert not has_adapters(again)
    assert same_bits(weights(again), merged_weights(model))
    assert (logprobs(again) - logprobs(model)).abs().max() < 1e-4


def test_smollm2_with_new_adapters_is_smollm2() -> None:
    base = smollm2().model
    ids = torch.tensor([[1, 4093, 198, 1780, 314, 216, 39, 43]])
    before, identity = base(ids).logits, weights_hash(weights(base))
    model: Any = with_adapters(base, 16)
    try:
        assert torch.equal(model(ids).logits, before)
        assert sum(p.numel() for p in adapter_parameters(model).values()) == 4_884_480
        assert weights(model)[BASE].tolist() == list(bytes.fromhex(identity))
    finally:
        model.unload()
        base.requires_grad_(True)
    assert weights_hash(weights(base)) == identity
