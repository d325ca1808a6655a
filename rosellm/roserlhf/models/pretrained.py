"""A folder in the Hugging Face layout -> a Llama model in float32; from `safetensors` on this disk only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import CheckpointError


def load_pretrained(folder: Path) -> LlamaForCausalLM:
    """Load a model, in evaluation mode, on the CPU; nothing is downloaded and no code of the folder is run.

    Raises:
        CheckpointError: no `config.json`, another architecture than Llama, or weights that are not those of the configuration.
    """
    try:
        about = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"model must be a folder with a readable config.json, got {folder}: {error}") from error
    kind = about.get("model_type") if isinstance(about, dict) else None
    if kind != "llama":
        raise checks.fail(CheckpointError, "model", "be of type llama", repr(kind))
    if not list(folder.glob("*.safetensors")):
        raise checks.fail(CheckpointError, "model", "keep its weights as safetensors", f"none in {folder}")
    try:
        loaded: Any = LlamaForCausalLM.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, dtype=torch.float32, output_loading_info=True
        )
    except Exception as error:  # whatever a foreign folder makes of the loader
        why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise CheckpointError(f"model must be loadable, got {folder}: {why}") from error
    model: LlamaForCausalLM = loaded[0]
    report = loaded[1]
    odd = sorted({*report["missing_keys"], *report["unexpected_keys"], *(name for name, *_ in report["mismatched_keys"])})
    if odd:
        raise checks.fail(CheckpointError, "weights", "be exactly those of config.json", f"differences at {odd[:3]}")
    model.eval()
    return model
