"""Small causal transformers built from a configuration, and their weights on disk: `safetensors`, never pickle."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import CheckpointError, RangeError
from rosellm.roserlhf.models.adapters import BASE, adapter_parameters, base_identity, check_base, has_adapters, merged
from rosellm.roserlhf.models.identity import weights_hash as weights_hash

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import LlamaForCausalLM


def build_llama(
    *,
    vocabulary_size: int,
    layers: int,
    hidden_size: int,
    heads: int,
    key_value_heads: int,
    intermediate_size: int,
    context_window: int,
    seed: int,
) -> LlamaForCausalLM:
    """Build a randomly initialised Llama-architecture model in float32, on the CPU, the same for the same seed.

    Input and output embeddings are shared and there is no dropout, so sampling and learning see one and the same function.

    Args:
        vocabulary_size: rows of the embedding.
        layers, hidden_size, heads, intermediate_size: the usual sizes; `hidden_size` is a multiple of `2 * heads`.
        key_value_heads: heads of keys and values, each shared by `heads / key_value_heads` query heads.
        context_window: longest sequence, in tokens.
        seed: of the initial weights; the global random state is left as it was.

    Raises:
        RangeError: `hidden_size` does not divide by `2 * heads` (rotary embeddings pair the dimensions of a head), or `heads` not
            by `key_value_heads`.
    """
    from transformers import LlamaConfig, LlamaForCausalLM  # seconds of import, which what only hashes weights does without

    if hidden_size % (2 * heads):
        raise checks.fail(RangeError, "hidden_size", f"be a multiple of 2 * heads = {2 * heads}", hidden_size)
    if heads % key_value_heads:
        raise checks.fail(RangeError, "key_value_heads", f"divide heads = {heads}", key_value_heads)
    config = LlamaConfig(
        vocab_size=vocabulary_size,
        hidden_size=hidden_size,
        intermediate_size=intermediate_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_value_heads,
        max_position_embeddings=context_window,
        tie_word_embeddings=True,
        attn_implementation="sdpa",  # type: ignore[call-arg]  # every configuration takes it, none declares it
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Detached CPU copies of what is trained, under its names: what a checkpoint holds and a policy version is known by.

    For a whole model that is every parameter, tied ones once; for a model from `with_adapters` the adapters alone, and with them,
    as `base_sha256`, which base they belong to.
    """
    own = {name: parameter.detach().to("cpu", copy=True).contiguous() for name, parameter in _own(model).items()}
    return own | {BASE: base_identity(model)} if has_adapters(model) else own


def merged_weights(model: nn.Module) -> dict[str, Tensor]:
    """Detached CPU copies of all weights, adapters merged in, under the names of a model without: what an engine takes over."""
    return merged(model) if has_adapters(model) else weights(model)


def merged_model(model: LlamaForCausalLM | PeftModel) -> LlamaForCausalLM:
    """The model itself, or of one with adapters a copy that has them merged in: what an engine is built from."""
    if not has_adapters(model):
        return cast("LlamaForCausalLM", model)
    return cast("LlamaForCausalLM", copy.deepcopy(model).merge_and_unload().requires_grad_(True))


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy what `weights` took into the parameters of the same names, all of them or none.

    Raises:
        CheckpointError: a name is missing or unknown, a shape differs, or adapters were trained on another base.
    """
    if has_adapters(model):
        check_base(model, tensors.get(BASE))
        tensors = {name: tensor for name, tensor in tensors.items() if name != BASE}
    own = _own(model)
    if own.keys() != tensors.keys():
        odd = sorted(own.keys() ^ tensors.keys())
        raise checks.fail(CheckpointError, "weights", "name exactly the parameters of the model", f"differences at {odd[:3]}")
    for name, parameter in own.items():
        if parameter.shape != tensors[name].shape:
            raise checks.fail(CheckpointError, name, f"have shape {tuple(parameter.shape)}", tuple(tensors[name].shape))
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(tensors[name])


def _own(model: nn.Module) -> dict[str, nn.Parameter]:
    return adapter_parameters(model) if has_adapters(model) else dict(model.named_parameters())


def export_model(model: LlamaForCausalLM | PeftModel, folder: Path) -> None:
    """Write the whole model, adapters merged, in the Hugging Face layout: configurations and `model.safetensors`.

    What `from_pretrained` makes of it computes the same logits; only where adapters were merged they differ by rounding, since
    `(W + s B A) x` is not added up in the order of `W x + s B (A x)`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(folder)
    model.generation_config.to_json_file(folder / "generation_config.json")  # not save_pretrained, which judges the defaults
    save_file(merged_weights(model), folder / "model.safetensors", metadata={"format": "pt"})
