"""A GGUF file -> a folder in the Hugging Face layout, float32, made once per file and library version and kept in the cache.

What is loaded from GGUF counts as quantised and refuses to be saved or trained; its numbers are an ordinary model's, so they move
to one. The tokenizer and its chat template are those that the GGUF header holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import MissingExtraError, ModelError
from rosellm.roserlhf.models.architecture import check_config
from rosellm.roserlhf.models.cache import cached
from rosellm.roserlhf.models.foreign import loading

_FORM = 2
"""Counts changes of what is written here."""
_SPLIT = "tokenizer.ggml.pre"
_GPT2_SPLITS = (None, "default", "gpt-2")
_DIGITS_ALONE = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")


def converted(path: Path, tell: Callable[[str], None]) -> Path:
    """Return the folder that holds the model of a GGUF file as float32 safetensors; the first call converts it.

    Args:
        path: the file.
        tell: is told that something long begins.

    Raises:
        MissingExtraError: what reads GGUF is not installed.
        CheckpointError: the file cannot be read as a model.
        ModelError: its architecture is not one that can be trained here, or the cache cannot be written.
    """
    missing = [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"GGUF files need {' and '.join(missing)}; pip install 'rosellm[gguf]'", name=missing[0])
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    key = f"{digest[:32]}-transformers-{importlib.metadata.version('transformers')}-{_FORM}"

    def make(folder: Path) -> None:
        tell(f"converting {path.name} to safetensors, once, into {folder.parent}")
        with contextlib.redirect_stderr(io.StringIO()):  # a progress bar that cannot be turned off
            _convert(path, folder)

    return cached("gguf", key, make)


def _convert(path: Path, folder: Path) -> None:
    from transformers import AutoConfig, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    where: dict[str, Any] = {"gguf_file": path.name, "local_files_only": True, "trust_remote_code": False}
    with loading(str(path)):
        config = AutoConfig.from_pretrained(path.parent, **where)
    check_config(config.to_dict(), str(path))
    with loading(str(path)):
        tokenizer = AutoTokenizer.from_pretrained(path.parent, **where)
    _split_as_learnt(tokenizer.backend_tokenizer, path)
    with loading(str(path)):
        loaded = LlamaForCausalLM.from_pretrained(path.parent, config=config, dtype=torch.float32, **where)
        about = loaded.config.to_dict()
        for name in ("quantization_config", "architectures", "model_type", "transformers_version", "dtype", "_name_or_path"):
            about.pop(name, None)
        with torch.device("meta"):
            model = LlamaForCausalLM(LlamaConfig(**about, dtype="float32"))
        model.load_state_dict(loaded.state_dict(), assign=True)
        model.tie_weights()
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def _split_as_learnt(tokenizer: Tokenizer, path: Path) -> None:
    """Split text before the merges as the vocabulary was learnt, where `transformers` falls back to GPT-2's way without a word.

    SmolLM's digits stand alone: "two newlines, 5" is the pair of newlines and 5, where GPT-2's way gives three tokens.

    Raises:
        ModelError: the file names a way of splitting that neither knows.
    """
    from gguf import GGUFReader
    from tokenizers import pre_tokenizers

    header = GGUFReader(path)
    model, split = (field.contents() if field else None for field in map(header.get_field, ("tokenizer.ggml.model", _SPLIT)))
    if model != "gpt2" or split in _GPT2_SPLITS:
        return
    if split in _DIGITS_ALONE:
        own = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(own)
    elif isinstance(tokenizer.pre_tokenizer, pre_tokenizers.ByteLevel):
        fix = "take the model's own release with a tokenizer.json"
        raise checks.fail(ModelError, _SPLIT, f"be known in {path}", repr(split), fix=fix)
