"""The chat templates that the installed `trl` package ships, and for each a small tokenizer that knows its control tokens."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from rosellm.roserlhf.codec.chat import ChatCodec
from rosellm.roserlhf.codec.hf import chat_codec
from rosellm.roserlhf.errors import TemplateError
from rosellm.roserlhf.trajectory import Message

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


@functools.cache
def _codec_for(name: str) -> ChatCodec | str:
    try:
        return chat_codec(tokenizer_for(name), [])
    except TemplateError as error:
        return str(error)


def codec_for(name: str) -> ChatCodec:
    """The codec of a template that can be served."""
    found = _codec_for(name)
    assert isinstance(found, ChatCodec), found
    return found


def refusal_of(name: str) -> str | None:
    """Why a template cannot be served."""
    found = _codec_for(name)
    return found if isinstance(found, str) else None


SERVED = tuple(name for name in names() if not name.startswith(("gptoss", "muse_glimmer")))
every_served = pytest.mark.parametrize("name", SERVED)


def chat_of(messages: Sequence[Message], *, parts: bool = False) -> list[dict[str, Any]]:
    """Messages as `apply_chat_template` takes them."""
    chat = []
    for message in messages:
        content: Any = [{"type": "text", "text": message.content}] if parts else message.content
        named = {"name": message.name, "tool_call_id": message.call_id}
        chat.append({"role": message.role, "content": content, **{key: value for key, value in named.items() if value is not None}})
    return chat


def reference(tokenizer: PreTrainedTokenizerFast, messages: Sequence[Message], *, parts: bool = False) -> list[int]:
    """The ids that the library itself makes of a conversation."""
    encoded: Any = tokenizer.apply_chat_template(chat_of(messages, parts=parts), add_generation_prompt=True)
    ids: list[int] = encoded["input_ids"]
    return ids


def flat(spans: Any) -> list[int]:
    return [i for span in spans for i in span.token_ids]
