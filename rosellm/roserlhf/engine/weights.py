"""The weights of a plain Llama, once, in the engine's own layout: query, key and value in one matrix, gate and up in one.

`named tensors of transformers → checked → copied in place`: a publication holds nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.engine.matrix import FloatMatrix, Int8Matrix, Matrix
from rosellm.roserlhf.errors import CheckpointError, RangeError
from rosellm.roserlhf.models.architecture import check_config

if TYPE_CHECKING:
    from transformers import LlamaConfig

Precision = Literal["float32", "bfloat16", "int8"]
"""Of the engine's weights. `int8`: the matrices of the blocks in eight bits; embedding, norms and arithmetic in bfloat16."""

_DTYPES: dict[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.bfloat16}


class Sizes(NamedTuple):
    """Sizes of a Llama; what a configuration leaves out follows from the rest."""

    vocabulary: int
    width: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int

    @classmethod
    def of(cls, config: LlamaConfig) -> Sizes:
        """Read them off a configuration."""
        heads = config.num_attention_heads
        head_dim = config.head_dim or config.hidden_size // heads
        shared = config.num_key_value_heads or heads
        return cls(config.vocab_size, config.hidden_size, config.intermediate_size, heads, shared, head_dim)

    @property
    def block(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights of one transformer block, by the names that `transformers` gives them."""
        queries, shared = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "input_layernorm": (self.width,),
            "self_attn.q_proj": (queries, self.width),
            "self_attn.k_proj": (shared, self.width),
            "self_attn.v_proj": (shared, self.width),
            "self_attn.o_proj": (self.width, queries),
            "post_attention_layernorm": (self.width,),
            "mlp.gate_proj": (self.inner, self.width),
            "mlp.up_proj": (self.inner, self.width),
            "mlp.down_proj": (self.width, self.inner),
        }


def check_architecture(config: LlamaConfig) -> None:
    """Require an architecture whose arithmetic the engine computes.

    Raises:
        ModelError: it is another one, a mixture of experts for example; the message names it.
        RangeError: it is a variant of Llama; the message says which.
    """
    check_config(config.to_dict(), "the engine")
    rope = getattr(config, "rope_parameters", None) or {}
    for name, plain in (("rope_type", "default"), ("partial_rotary_factor", 1.0)):
        if (value := rope.get(name, plain)) != plain:
            raise checks.fail(RangeError, "model", "use plain rotary embeddings", f"{name} {value!r}")
    for name, wanted in (("attention_bias", False), ("mlp_bias", False), ("hidden_act", "silu"), ("attention_dropout", 0.0)):
        if (found := getattr(config, name)) != wanted:
            raise checks.fail(RangeError, "model", "be a plain Llama (no biases, SiLU, no dropout)", f"{name} {found!r}")


class Block(NamedTuple):
    """The weights of one transformer block."""

    norm_in: Tensor
    qkv: Matrix
    out: Matrix
    norm_post: Tensor
    gate_up: Matrix
    down: Matrix


class Weights:
    """The engine's copy of a model's weights.

    Args:
        sizes: of the model.
        layers: transformer blocks.
        tied: whether the output matrix is the embedding.
        precision: how they are kept.
        device: where they are kept.
    """

    def __init__(self, sizes: Sizes, layers: int, *, tied: bool, precision: Precision, device: torch.device) -> None:
        self._sizes, self._tied, self.dtype = sizes, tied, _DTYPES[precision]
        kind = Int8Matrix if precision == "int8" else FloatMatrix

        def norm() -> Tensor:
            return torch.empty(sizes.width, device=device, dtype=self.dtype)

        def matrix(rows: int, columns: int) -> Matrix:
            return kind(rows, columns, device, self.dtype)

        self.embedding = FloatMatrix(sizes.vocabulary, sizes.width, device, self.dtype)
        self.output = self.embedding if tied else FloatMatrix(sizes.vocabulary, sizes.width, device, self.dtype)
        self.final_norm = norm()
        queries, shared = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
        self.blocks = [
            Block(
                norm(),
                matrix(queries + 2 * shared, sizes.width),
                matrix(sizes.width, queries),
                norm(),
                matrix(2 * sizes.inner, sizes.width),
                matrix(sizes.width, sizes.inner),
            )
            for _ in range(layers)
        ]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all weights, by the names that `transformers` gives them."""
        sizes, blocks = self._sizes, range(len(self.blocks))
        own = {f"model.layers.{layer}.{name}.weight": shape for layer in blocks for name, shape in sizes.block.items()}
        embedding = (sizes.vocabulary, sizes.width)
        head = {} if self._tied else {"lm_head.weight": embedding}
        return {"model.embed_tokens.weight": embedding, **own, "model.norm.weight": (sizes.width,), **head}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over weights in place; if they do not fit, none of them.

        Raises:
            CheckpointError: a name is missing or unknown, or a shape differs.
        """
        shapes = self.shapes()
        if shapes.keys() != tensors.keys():
            odd = sorted(shapes.keys() ^ tensors.keys())
            raise checks.fail(CheckpointError, "weights", "name exactly the parameters of a Llama", f"differences at {odd[:3]}")
        for name, shape in shapes.items():
            if tuple(tensors[name].shape) != shape:
                raise checks.fail(CheckpointError, name, f"have shape {shape}", tuple(tensors[name].shape))
        with torch.no_grad():
            self.embedding.load([tensors["model.embed_tokens.weight"]])
            if not self._tied:
                self.output.load([tensors["lm_head.weight"]])
            self.final_norm.copy_(tensors["model.norm.weight"])
            for layer, block in enumerate(self.blocks):
                own = {name: tensors[f"model.layers.{layer}.{name}.weight"] for name in self._sizes.block}
                block.norm_in.copy_(own["input_layernorm"])
                block.qkv.load([own[f"self_attn.{name}_proj"] for name in "qkv"])
                block.out.load([own["self_attn.o_proj"]])
                block.norm_post.copy_(own["post_attention_layernorm"])
                block.gate_up.load([own["mlp.gate_proj"], own["mlp.up_proj"]])
                block.down.load([own["mlp.down_proj"]])
