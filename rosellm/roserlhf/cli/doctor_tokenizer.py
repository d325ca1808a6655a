"""`roserlhf doctor --tokenizer X`: what a tokenizer and its chat template do, and what the codec therefore does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from rosellm.roserlhf.audit.diagnosis import Outcome, Verdict
from rosellm.roserlhf.codec.description import Described, described
from rosellm.roserlhf.errors import CheckpointError, ConfigError, TemplateError

_VERDICTS: Mapping[str, Verdict] = {"good": "passed", "note": "info", "problem": "warning"}


def examine_tokenizer(source: str, tell: Callable[[str], None]) -> list[Outcome]:
    """Examine a tokenizer.

    Args:
        source: a folder, `package:NAME`, a GGUF file or a Hugging Face id that is in the local cache.
        tell: is told, in a sentence, when something long begins.

    Raises:
        ConfigError: there is no such thing, or it is no tokenizer.
    """
    from rosellm.roserlhf.codec.hf import chat_codec, tokenizer_facts  # loads transformers
    from rosellm.roserlhf.models.pretrained import tokenizer_of
    from rosellm.roserlhf.models.source import find_model

    try:
        folder = find_model(source, tell=tell)
        tokenizer = tokenizer_of(folder)
    except CheckpointError as error:
        raise ConfigError(f"--tokenizer: {error}") from error
    try:
        codec = chat_codec(tokenizer, [])
    except TemplateError as error:
        fix = "use a chat template that trains: `tokenizer.chat_template = …`, and save the tokenizer"
        return [Outcome("chat template", "failed", str(error), fix=fix)]
    return [_outcome(found) for found in described(codec, tokenizer_facts(tokenizer, logits=_logits(folder)))]


def _outcome(found: Described) -> Outcome:
    return Outcome(found.name, _VERDICTS[found.worth], f"{found.found} → {found.so}")


def _logits(folder: Path) -> int | None:
    """Read the number of logits off `config.json`; None if it does not say."""
    try:
        about = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(about, dict):
        return None
    inner = about.get("text_config")
    count = about.get("vocab_size", inner.get("vocab_size") if isinstance(inner, dict) else None)
    return count if isinstance(count, int) else None
