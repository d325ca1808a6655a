"""A folder in the Hugging Face layout -> a Llama model in float32 and its tokenizer; from `safetensors` on this disk only."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import CheckpointError, NonFiniteError
from rosellm.roserlhf.models.architecture import check_config
from rosellm.roserlhf.models.foreign import loading
from rosellm.roserlhf.models.source import find_model
from rosellm.roserlhf.models.vocabulary import id_count

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


_INDEX, _ADAPTERS, _TOKENIZER = "model.safetensors.index.json", "adapter_config.json", "tokenizer_config.json"


@dataclass(frozen=True)
class Pretrained:
    """A model with the tokenizer that belongs to it."""

    model: LlamaForCausalLM
    tokenizer: PreTrainedTokenizerFast
    source: str
    """What it was asked for by."""
    folder: Path
    """Where its files are; for a GGUF file, the place in the cache."""

    @property
    def spare_logits(self) -> int:
        """Logits beyond the tokenizer's ids, from rows that pad the embedding: they can be sampled, and stand for no text."""
        return int(self.model.config.vocab_size) - id_count(self.tokenizer)


def load_pretrained(
    source: str | os.PathLike[str], *, download: bool = False, tell: Callable[[str], None] = lambda message: None
) -> Pretrained:
    """Load a model, in evaluation mode, on the CPU, and its tokenizer; no code of the model or its package is run.

    Args:
        source: a folder; a GGUF file; `package:NAME`, an installed package that holds one of the two; or a Hugging Face id that is
            in the hub's local cache.
        download: let the hub be asked for an id that the cache does not hold.
        tell: is told, in a sentence, when something long begins.

    Raises:
        CheckpointError: nothing is there, weights or tokenizer cannot be used, or the tokenizer has more ids than there are logits.
        ModelError: a mixture of experts, quantised, in need of its own code, or of another architecture.
        NonFiniteError: a weight is NaN or infinite.
        MissingExtraError: a GGUF file, and what reads it is not installed.
    """
    folder = find_model(source, download=download, tell=tell)
    model = load_model(folder)
    tokenizer = tokenizer_of(folder)
    loaded = Pretrained(model, tokenizer, os.fspath(source), folder)
    if loaded.spare_logits < 0:
        raise checks.fail(
            CheckpointError,
            "tokenizer",
            f"have ids below the model's {model.config.vocab_size} logits",
            f"ids up to {id_count(tokenizer) - 1}",
        )
    return loaded


def load_model(folder: Path) -> LlamaForCausalLM:
    """Load the model of a folder, in evaluation mode, on the CPU, in float32.

    Raises:
        CheckpointError: no `config.json`, no safetensors, or weights that are not those of the configuration.
        ModelError: an architecture that cannot be trained here.
        NonFiniteError: a weight is NaN or infinite.
    """
    if (folder / _ADAPTERS).is_file():  # they would be loaded into the model, without a word
        fix = "merge them into their model first"
        raise checks.fail(CheckpointError, "model", "be whole", f"adapters ({_ADAPTERS}) in {folder}", fix=fix)
    check_config(_object_in(folder, "config.json"), str(folder))
    _check_files(folder)
    from transformers import LlamaForCausalLM

    with loading(str(folder)):
        loaded: Any = LlamaForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            dtype=torch.float32,
            output_loading_info=True,
        )
    model: LlamaForCausalLM = loaded[0]
    _check_weights(model, loaded[1])
    model.eval()
    return model


def _object_in(folder: Path, name: str) -> dict[str, Any]:
    try:
        about = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"model must be a folder with a readable {name}, got {folder}: {error}") from error
    if not isinstance(about, dict):
        raise checks.fail(CheckpointError, name, "hold an object", f"{type(about).__name__} in {folder}")
    return about


def _check_files(folder: Path) -> None:
    if (folder / _INDEX).is_file():
        parts = _object_in(folder, _INDEX).get("weight_map")
        outside = [part for part in (parts.values() if isinstance(parts, dict) else [parts]) if not _is_name(part)]
        if outside:
            raise checks.fail(CheckpointError, _INDEX, "name files of its own folder", f"{outside[0]!r} in {folder}")
    if list(folder.glob("*.safetensors")):
        return
    pickles = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern))
    got = f"only {', '.join(pickles[:3])} in {folder}" if pickles else f"none in {folder}"
    fix = "a pickle can run code and is never read; convert it where it is trusted" if pickles else None
    raise checks.fail(CheckpointError, "model", "keep its weights as safetensors", got, fix=fix)


def _is_name(part: object) -> bool:
    return isinstance(part, str) and part == Path(part).name


def _check_weights(model: LlamaForCausalLM, report: Mapping[str, Any]) -> None:
    odd = sorted({*report["missing_keys"], *report["unexpected_keys"], *(name for name, *_ in report["mismatched_keys"])})
    if odd:
        raise checks.fail(CheckpointError, "weights", "be exactly those of config.json", f"differences at {odd[:3]}")
    if model.config.tie_word_embeddings and model.lm_head.weight is not model.model.embed_tokens.weight:
        got = "an lm_head.weight of its own"
        raise checks.fail(CheckpointError, "weights", "be tied as config.json says (tie_word_embeddings)", got)
    for name, parameter in model.named_parameters():
        if not bool(parameter.isfinite().all()):
            raise checks.fail(NonFiniteError, "weights", "be finite", f"NaN or infinity in {name}")


def tokenizer_of(folder: Path) -> PreTrainedTokenizerFast:
    """Load the tokenizer of a folder, with its chat template: the one that `tokenizer.json` says, to the letter.

    The class that `tokenizer_config.json` names is not asked: those of `transformers` put their own way of splitting text in
    the place of the file's, without a word (GPT2Tokenizer does without a rule that digits stand alone).

    Raises:
        CheckpointError: there is no `tokenizer.json`, or it cannot be used.
    """
    from transformers import PreTrainedTokenizerFast

    if not (folder / "tokenizer.json").is_file():
        raise checks.fail(CheckpointError, "model", "come with a tokenizer.json", f"none in {folder}")
    if (folder / _TOKENIZER).is_file() and "auto_map" in _object_in(folder, _TOKENIZER):
        fix = "none is run here; remove auto_map if tokenizer.json says everything"
        raise checks.fail(CheckpointError, "tokenizer", "need no code of its own", f"auto_map in {folder / _TOKENIZER}", fix=fix)
    with loading(f"the tokenizer in {folder}"):
        tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    return tokenizer
