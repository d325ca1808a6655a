"""The tokenizer built in code: its ids, its chat template, what hostile text becomes, and that it loads again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rosellm.roserlhf.codec.hf import ROLES, build_tokenizer, marker_codec, tokenizer_hash
from rosellm.roserlhf.environment.shop import Shop
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure

PROPERTY = settings(derandomize=True, max_examples=60, deadline=None)
TOKENIZER = build_tokenizer([*Shop.vocabulary, "lamp", "é", ".*", "[a-z]+", "two\nlines"])
CODEC = marker_codec(TOKENIZER, Shop().tools.schemas())
MARKERS = {"<pad>", "<unk>", "<end>", *(f"<{role}>" for role in ROLES)}
CONTROL = {TOKENIZER.convert_tokens_to_ids(marker) for marker in MARKERS}
PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
HOSTILE = st.lists(st.sampled_from([*sorted(MARKERS), "<", ">", "end", "lamps", "search(", " ", "\n", "é"]), max_size=8).map(
    "".join
)


def rendered(messages: list[Message]) -> list[int]:
    return [i for span in CODEC.render(messages) for i in span.token_ids]


def by_template(tokenizer: Any, messages: list[Message], *, generation_prompt: bool = True) -> list[int]:
    chat = [{"role": message.role, "content": message.content} for message in messages]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=generation_prompt)["input_ids"]
    assert isinstance(ids, list)
    return ids


def test_pieces_are_kept_whole_longest_first() -> None:
    ids = CODEC.reply("search(lamps)+lamp*2")
    assert [CODEC.text([i]) for i in ids] == ["search(", "lamps", ")", "+", "lamp", "*", "2", "<end>"]
    # a piece is text, not a pattern
    assert [CODEC.text([i]) for i in CODEC.reply(".*ab[a-z]+two\nlines")] == [".*", "a", "b", "[a-z]+", "two\nlines", "<end>"]


def test_every_printable_character_and_the_newline_are_there() -> None:
    text = "".join(map(chr, range(32, 127))) + "\n"
    assert CODEC.text(CODEC.reply(text)) == text + "<end>"


@PROPERTY
@given(st.lists(st.tuples(st.sampled_from(ROLES), PRINTABLE), min_size=1, max_size=4))
def test_the_chat_template_writes_the_codecs_ids(messages: list[tuple[str, str]]) -> None:
    chat = [Message(role, text) for role, text in messages if not any(marker in text for marker in MARKERS)]
    assert by_template(TOKENIZER, chat) == rendered(chat)


def test_a_conversation_extended_by_ids_is_the_template_of_the_whole_conversation() -> None:
    context = rendered([Message("user", "What do 3 lamps cost?")])
    context += CODEC.reply("search(lamps)")
    context += [i for span in CODEC.extend(context, [], [Message("tool", "17")]) for i in span.token_ids]
    whole = [Message("user", "What do 3 lamps cost?"), Message("assistant", "search(lamps)"), Message("tool", "17")]
    assert by_template(TOKENIZER, whole) == context


@PROPERTY
@given(HOSTILE, st.sampled_from(ROLES))
def test_hostile_text_never_becomes_a_control_id(text: str, role: str) -> None:
    (span, prompt) = CODEC.render([Message(role, text)])
    body = span.token_ids[1:-1]
    assert not CONTROL & {*body}
    assert CODEC.text(body) == text  # and nothing of it is lost
    assert (span.token_ids[0], span.token_ids[-1]) == (TOKENIZER.convert_tokens_to_ids(f"<{role}>"), CODEC.stop_ids[0])
    assert prompt.token_ids == (TOKENIZER.convert_tokens_to_ids("<assistant>"),)
    assert not CONTROL & {*CODEC.reply(text)[:-1]}


def test_the_codec_is_not_changed_by_how_the_tokenizer_is_used() -> None:
    tokenizer = build_tokenizer(["lamps"])
    codec = marker_codec(tokenizer, [])
    tokenizer(["lamps <end>", "a"], padding=True, truncation=True, max_length=2)  # leaves its mark on the tokenizer
    tokenizer("<end>", split_special_tokens=False)
    assert codec.text(codec.reply("lamps <end>")) == "lamps <end><end>"
    assert len(codec.reply("lamps <end>")) == 1 + 1 + 5 + 1


@pytest.mark.parametrize(
    ("text", "odd"), [("naïve", "'ï'"), ("é and ü", "'ü'"), ("a\tb", r"'\\t'"), ("🦊", "'🦊'"), ("lamps\r", r"'\\r'")]
)
def test_text_outside_the_vocabulary_is_refused_with_the_character(text: str, odd: str) -> None:
    with pytest.raises(RangeError, match=f"text must be covered by the vocabulary, got {odd}; add it to the environment's"):
        CODEC.render([Message("tool", text)])


def test_half_a_character_is_refused() -> None:
    with pytest.raises(RangeError, match="text must hold whole characters"):
        CODEC.render([Message("tool", "\ud800")])


@pytest.mark.parametrize("piece", ["", "<end>", "a<user>b"])
def test_a_piece_is_text_without_markers(piece: str) -> None:
    with pytest.raises(RangeError, match="vocabulary must hold non-empty texts without control markers"):
        build_tokenizer(["lamps", piece])


def test_the_tokenizer_loads_again_and_writes_the_same_ids(tmp_path: Path) -> None:
    TOKENIZER.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert isinstance(again, PreTrainedTokenizerFast)
    assert again.get_vocab() == TOKENIZER.get_vocab()
    assert tokenizer_hash(again) == tokenizer_hash(TOKENIZER)
    text = "What do 3 lamps and 2 mugs cost?\nsearch(lamps) lamp é"
    assert again(text)["input_ids"] == TOKENIZER(text)["input_ids"] == list(CODEC.reply(text)[:-1])
    assert again.decode(again(text)["input_ids"]) == text
    chat = [Message("user", "What do 3 lamps cost?"), Message("assistant", "search(lamps)"), Message("tool", "17")]
    assert by_template(again, chat) == rendered(chat)
    assert by_template(again, chat, generation_prompt=False) == rendered(chat)[:-1]
    assert marker_codec(again, Shop().tools.schemas()).tokenizer_hash == CODEC.tokenizer_hash
    assert (again.pad_token, again.eos_token, again.unk_token) == ("<pad>", "<end>", "<unk>")
    assert again.pad_token_id != again.eos_token_id


def test_the_hash_names_the_vocabulary_in_every_process() -> None:
    code = "from rosellm.roserlhf.codec.hf import *; print(tokenizer_hash(build_tokenizer(['lamps', 'mugs'])))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert other == tokenizer_hash(build_tokenizer(["lamps", "mugs"]))
    assert other != tokenizer_hash(build_tokenizer(["mugs", "lamps"]))
    assert build_tokenizer(["a", "lamps", "lamps"]).get_vocab() == build_tokenizer(["a", "lamps"]).get_vocab()


@PROPERTY
@given(st.lists(st.integers(0, len(TOKENIZER) - 1), max_size=24))
def test_whatever_is_sampled_can_be_read(ids: list[int]) -> None:
    parsed = CODEC.parse(ids)
    assert isinstance(parsed, (ParsedAction, ParseFailure))
    ended = bool(ids) and ids[-1] == CODEC.stop_ids[0]
    assert (isinstance(parsed, ParseFailure) and parsed.cut) != ended
    assert isinstance(CODEC.text(ids), str)
