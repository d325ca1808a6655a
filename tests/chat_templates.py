"""The chat templates that the installed `trl` package ships, and for each a small tokenizer that knows its control tokens."""

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

_CONTROL = re.compile(
    r"<\|[^<>|\s]+\|>|<｜[^<>｜\s]+｜>|</?(?:think|tool_call|tool_response|tools)>|<(?:start|end)_of_turn>|<end_of_utterance>"
    r"|<\|[a-z_\"]+>|<[a-z_]+\|>|\[gMASK\]|<sop>|<image>|</s>"
)
_TEXT_TOKENS = re.compile(r"</?(?:think|tool_call|tool_response|tools)>")
"""Added tokens that models keep as not special, so that they are decoded."""


@functools.cache
def folder() -> Path:
    found = importlib.util.find_spec("trl")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0]) / "chat_templates"


@functools.cache
def names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in folder().glob("*.jinja")))


@functools.cache
def source(name: str) -> str:
    return (folder() / f"{name}.jinja").read_text(encoding="utf-8")


@functools.cache
def trained() -> str:
    """A byte-level BPE, trained on the templates themselves."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=900, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(map(source, names()), trainer)
    return tokenizer.to_str()


@functools.cache
def tokenizer_for(name: str, **changes: Any) -> PreTrainedTokenizerFast:
    return tokenizer_of(source(name), **changes)


def tokenizer_of(template: str | None, *, bos: str | None = "<|bos|>", eos: str | None = "<|eos|>") -> PreTrainedTokenizerFast:
    backend = Tokenizer.from_str(trained())
    found = dict.fromkeys(_CONTROL.findall(template or ""))
    backend.add_tokens([AddedToken(token, normalized=False) for token in found if _TEXT_TOKENS.fullmatch(token)])
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in found if not _TEXT_TOKENS.fullmatch(token)])
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=bos, eos_token=eos, clean_up_tokenization_spaces=False)
    fast.chat_template = template
    return fast
