"""The policy of a run and the engine that samples from it: `configuration → model → engine`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from rosellm.roserlhf import checks
from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.errors import CheckpointError, ConfigError
from rosellm.roserlhf.models.adapters import with_adapters
from rosellm.roserlhf.models.causal import build_llama, load_weights
from rosellm.roserlhf.models.checkpointing import checkpoint_gradients
from rosellm.roserlhf.models.pretrained import load_pretrained
from rosellm.roserlhf.models.vocabulary import id_count, narrow_logits, spoken_ids
from rosellm.roserlhf.trainer.checkpoint import Checkpoint
from rosellm.roserlhf.trainer.config import TrainConfig
from rosellm.roserlhf.trainer.folder import difference
from rosellm.roserlhf.trainer.threads import worker_count

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import LlamaForCausalLM


def new_model(config: TrainConfig, *, vocabulary_size: int, device: str) -> LlamaForCausalLM | PeftModel:
    """Load the pretrained model, with adapters if they are asked for, or build one; in evaluation mode (it has no dropout).

    Args:
        config: of the run.
        vocabulary_size: tokens of a model that is built; a pretrained one speaks the ids of its own tokenizer and no others.
        device: where it shall live.

    Raises:
        ConfigError: the device cannot be used.
        CheckpointError, ModelError: the pretrained model cannot be used.
    """
    model: LlamaForCausalLM | PeftModel = _pretrained(config) if config.model.source else _built(config, vocabulary_size)
    if config.model.checkpoint_gradients:
        checkpoint_gradients(model)
    model.eval()
    try:
        return torch.nn.Module.to(model, torch.device(device))
    except (RuntimeError, AssertionError) as error:  # a torch that was built without CUDA raises the second
        why = str(error).partition("\n")[0]
        raise checks.fail(ConfigError, "device", "be usable", f"{device!r}: {why}") from error


def restored_model(config: TrainConfig, checkpoint: Checkpoint, device: str) -> LlamaForCausalLM | PeftModel:
    """Make the model of a run as a checkpoint left it.

    Raises:
        CheckpointError: the checkpoint is of another model.
    """
    tokens = 0
    if not config.model.source:
        if _EMBEDDING not in checkpoint.model:
            raise checks.fail(CheckpointError, f"checkpoint {checkpoint.step}", f"hold {_EMBEDDING}", sorted(checkpoint.model)[:3])
        tokens = checkpoint.model[_EMBEDDING].shape[0]
    model = new_model(config, vocabulary_size=tokens, device=device)
    load_checkpoint_into(model, checkpoint)
    return model


def load_checkpoint_into(model: LlamaForCausalLM | PeftModel, checkpoint: Checkpoint) -> None:
    """Give a model the weights of a checkpoint, if it computes with them what it computed when they were saved.

    Raises:
        CheckpointError: the checkpoint is of another model.
    """
    saved = checkpoint.state.get(ARITHMETIC)  # checkpoints of older versions do not say
    different = saved and difference(arithmetic(model), saved)
    if different:
        fix = "restore config.json and tokenizer of the source as they were"
        raise checks.fail(
            CheckpointError, "model", "be the one that was trained", f"{different} checkpoint {checkpoint.step} says", fix=fix
        )
    load_weights(model, checkpoint.model)


ARITHMETIC = "arithmetic"
"""Name under which a checkpoint's state says what its weights are computed with."""


def arithmetic(model: LlamaForCausalLM | PeftModel) -> dict[str, Any]:
    """Say what a model computes with its weights, beside the weights: plain JSON values."""
    about = model.config.to_dict()
    return {**{name: about.get(name) for name in _COMPUTED_WITH}, "logits": spoken_ids(model)}


_COMPUTED_WITH = (
    "model_type",
    "hidden_act",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
    "rope_parameters",
    "tie_word_embeddings",
)


def _built(config: TrainConfig, vocabulary_size: int) -> LlamaForCausalLM:
    sizes = config.model
    return build_llama(
        vocabulary_size=vocabulary_size,
        layers=sizes.layers,
        hidden_size=sizes.hidden_size,
        heads=sizes.heads,
        key_value_heads=sizes.key_value_heads,
        intermediate_size=sizes.intermediate_size,
        context_window=config.collect.context_window,
        seed=config.seed,
    )


def _pretrained(config: TrainConfig) -> LlamaForCausalLM | PeftModel:
    loaded = load_pretrained(config.model.source)
    narrow_logits(loaded.model, id_count(loaded.tokenizer))
    return with_adapters(loaded.model, config.model.lora, seed=config.seed) if config.model.lora else loaded.model


def check_window(config: TrainConfig, model: LlamaForCausalLM | PeftModel) -> None:
    """Require that the episodes of a run fit the model.

    Raises:
        ConfigError: they do not.
    """
    longest, window = model.config.max_position_embeddings, config.collect.context_window
    if window > longest:
        raise checks.fail(ConfigError, "collect.context_window", f"be at most the model's {longest}", window)


_EMBEDDING = "model.embed_tokens.weight"
_CACHE_BYTES = 3 << 30
"""Memory that cached keys and values may take; sessions beyond it are computed anew in every turn."""


def new_engine(config: TrainConfig, model: LlamaForCausalLM | PeftModel, version: str) -> LocalEngine:
    """Make the engine that samples for a run: its window, its precision, and room for the episodes that are played at once."""
    about = model.config
    size = about.head_dim or about.hidden_size // about.num_attention_heads
    heads = about.num_key_value_heads or about.num_attention_heads
    row = 2 * 4 * about.num_hidden_layers * heads * size * config.collect.context_window
    return LocalEngine(
        model,
        version=version,
        threads=worker_count(model.device),
        cache_rows=max(32, min(1024, _CACHE_BYTES // row)),
        positions=config.collect.context_window,
        weights=config.model.sampler,
    )
