"""GGUF -> safetensors: the same numbers, the tokenizer as it was learnt, and a clear word where the file cannot be used."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch
from pretrained_models import save_gguf
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rosellm.roserlhf.errors import CheckpointError, MissingExtraError, ModelError
from rosellm.roserlhf.models.gguf import converted
from rosellm.roserlhf.models.pretrained import load_pretrained


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROSELLM_CACHE", str(tmp_path / "cache"))


def silent(message: str) -> None:
    """Hear nothing."""


def test_the_numbers_arrive_and_the_conversion_is_made_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    expected = save_gguf(tmp_path / "tiny.gguf")
    said: list[str] = []
    loaded = load_pretrained(tmp_path / "tiny.gguf", tell=said.append)
    assert said == [f"converting tiny.gguf to safetensors, once, into {tmp_path}/cache/gguf"]
    assert capfd.readouterr() == ("", "")
    own = loaded.model.state_dict()
    assert all(torch.equal(own[name], tensor) for name, tensor in expected.items())
    assert loaded.model.lm_head.weight is loaded.model.model.embed_tokens.weight
    assert {tensor.dtype for tensor in load_file(loaded.folder / "model.safetensors").values()} == {torch.float32}
    assert (loaded.tokenizer.eos_token, loaded.tokenizer.pad_token) == ("<|im_end|>", "<|im_end|>")
    again = load_pretrained(tmp_path / "tiny.gguf", tell=said.append)
    assert len(said) == 1
    assert again.folder == loaded.folder


def test_the_converted_model_can_be_saved_and_trained(tmp_path: Path) -> None:
    save_gguf(tmp_path / "tiny.gguf")
    folder = converted(tmp_path / "tiny.gguf", silent)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert not getattr(model, "is_quantized", False)
    model.save_pretrained(tmp_path / "saved")
    assert AutoTokenizer.from_pretrained(folder).chat_template.startswith("{% for m in messages %}<|im_start|>")


def test_another_file_under_the_same_name_is_another_model(tmp_path: Path) -> None:
    save_gguf(tmp_path / "tiny.gguf")
    first = converted(tmp_path / "tiny.gguf", silent)
    save_gguf(tmp_path / "tiny.gguf", split="default")
    assert converted(tmp_path / "tiny.gguf", silent) != first


def test_a_head_of_its_own_stays_its_own(tmp_path: Path) -> None:
    expected = save_gguf(tmp_path / "tiny.gguf", tied=False)
    model = load_pretrained(tmp_path / "tiny.gguf").model
    assert torch.equal(model.lm_head.weight, expected["lm_head.weight"])
    assert not torch.equal(model.lm_head.weight, model.model.embed_tokens.weight)


@pytest.mark.parametrize(
    ("split", "pieces"),
    [
        ("smollm", ["ĊĊ", "5"]),  # digits stand alone before anything is merged
        ("default", ["Ċ", "Ċ", "5"]),  # GPT-2: \s+(?!\S) leaves the last space to what follows
    ],
)
def test_text_is_split_as_the_vocabulary_was_learnt(tmp_path: Path, split: str, pieces: list[str]) -> None:
    save_gguf(tmp_path / "tiny.gguf", split=split)
    tokenizer = load_pretrained(tmp_path / "tiny.gguf").tokenizer
    assert tokenizer.convert_ids_to_tokens(tokenizer("\n\n5").input_ids) == pieces


def test_an_unknown_way_of_splitting_is_refused(tmp_path: Path) -> None:
    save_gguf(tmp_path / "tiny.gguf", split="brand-new")
    with pytest.raises(ModelError, match=r"tokenizer.ggml.pre must be known in .*tiny.gguf, got 'brand-new'; take the model's own"):
        converted(tmp_path / "tiny.gguf", silent)
    assert not list((tmp_path / "cache" / "gguf").glob("[!.]*"))


def test_another_architecture_is_refused_before_it_is_converted(tmp_path: Path) -> None:
    save_gguf(tmp_path / "tiny.gguf", kind="qwen2")
    with pytest.raises(ModelError, match=r"model must be of type llama, got 'qwen2' in .*tiny.gguf"):
        converted(tmp_path / "tiny.gguf", silent)


@pytest.mark.parametrize("kept", [0, 3, 200, 9000])
def test_a_torn_file_is_one_clear_error(tmp_path: Path, kept: int) -> None:
    save_gguf(tmp_path / "whole.gguf")
    path = tmp_path / "torn.gguf"
    path.write_bytes((tmp_path / "whole.gguf").read_bytes()[:kept])
    with pytest.raises(CheckpointError, match=r"model must be loadable, got .*torn.gguf"):
        converted(path, silent)
    assert not list((tmp_path / "cache" / "gguf").glob("[!.]*"))


def test_what_reads_gguf_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def lacking(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "gguf" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", lacking)
    with pytest.raises(MissingExtraError, match=r"GGUF files need gguf; pip install 'rosellm\[gguf\]'"):
        converted(tmp_path / "any.gguf", silent)
