"""Token texts from tokenizer files of every kind, with the standard library alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rosellm.roserlhf.report.vocabulary import read_vocabulary


def texts(folder: Path, found: Any, *ids: int) -> list[str]:
    """Write a tokenizer file and read the texts of some ids."""
    (folder / "tokenizer.json").write_text(json.dumps(found), encoding="utf-8")
    vocabulary = read_vocabulary(folder / "tokenizer.json")
    assert vocabulary is not None
    return [vocabulary.text(token_id) for token_id in ids]


def test_word_level_with_added_tokens(tmp_path: Path) -> None:
    found = {
        "model": {"type": "WordLevel", "vocab": {"lamp": 0, "<end>": 5}},
        "added_tokens": [{"id": 7, "content": "<|tool|>"}, {"id": "x"}],
    }
    assert texts(tmp_path, found, 0, 5, 7, 99) == ["lamp", "<end>", "<|tool|>", "#99"]


def test_unigram_list_with_metaspace(tmp_path: Path) -> None:
    found = {"model": {"type": "Unigram", "vocab": [["<unk>", 0.0], ["▁the", -1.0]]}, "decoder": {"type": "Metaspace"}}
    assert texts(tmp_path, found, 0, 1) == ["<unk>", " the"]


def test_byte_level_tokens_become_their_text(tmp_path: Path) -> None:
    # "Ġ" (U+0120) stands for byte 0x20, "Ċ" (U+010A) for 0x0A, "Ã©" for the bytes C3 A9 of é, "â" alone for a first byte E2
    found = {
        "model": {"type": "BPE", "vocab": {"Ġthe": 0, "Ċ": 1, "Ã©": 2, "â": 3}},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split"}, {"type": "ByteLevel"}]},
    }
    assert texts(tmp_path, found, 0, 1, 2, 3) == [" the", "\n", "é", "\\xe2"]


def test_odd_parts_are_passed_over(tmp_path: Path) -> None:
    found = {"model": {"vocab": {"a": 0, "b": "x"}}, "added_tokens": 5, "decoder": {"type": "Sequence", "decoders": 3}}
    assert texts(tmp_path, found, 0, 1) == ["a", "#1"]


def test_without_byte_level_nothing_is_decoded(tmp_path: Path) -> None:
    assert texts(tmp_path, {"model": {"type": "WordLevel", "vocab": {"Ġthe": 0, "▁a": 1}}}, 0, 1) == ["Ġthe", "▁a"]


@pytest.mark.parametrize("content", [None, "{", "[]", '{"model": 3}'])
def test_no_tokenizer_file_is_none(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    assert read_vocabulary(tmp_path / "tokenizer.json") is None
