"""Small causal transformers built from a configuration, and their weights on disk: `safetensors`, never pickle."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import CheckpointError, RangeError

if TYPE_CHECKING:
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


def weights(model: torch.nn.Module) -> dict[str, Tensor]:
    """Detached CPU copies of the parameters under their names; tied parameters appear once."""
    return {name: parameter.detach().to("cpu", copy=True).contiguous() for name, parameter in model.named_parameters()}


def load_weights(model: torch.nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy tensors into the parameters of the same names, all of them or none.

    Raises:
        CheckpointError: a name is missing or unknown, or a shape differs.
    """
    own = dict(model.named_parameters())
    if own.keys() != tensors.keys():
        odd = sorted(own.keys() ^ tensors.keys())
        raise checks.fail(CheckpointError, "weights", "name exactly the parameters of the model", f"differences at {odd[:3]}")
    for name, parameter in own.items():
        if parameter.shape != tensors[name].shape:
            raise checks.fail(CheckpointError, name, f"have shape {tuple(parameter.shape)}", tuple(tensors[name].shape))
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(tensors[name])


def weights_hash(tensors: dict[str, Tensor]) -> str:
    """SHA-256 over names, shapes and bytes: the identity of a policy version."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name}{tuple(tensors[name].shape)}{tensors[name].dtype}".encode())
        digest.update(tensors[name].numpy().tobytes())
    return digest.hexdigest()


def export_model(model: LlamaForCausalLM, folder: Path) -> None:
    """Write the model in the Hugging Face layout (`config.json`, `model.safetensors`), loadable with `from_pretrained`."""
    folder.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(folder)
    save_file(weights(model), folder / "model.safetensors", metadata={"format": "pt"})
