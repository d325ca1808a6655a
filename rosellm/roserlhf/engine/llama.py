"""One forward step of a Llama-architecture model over a preallocated attention cache: what makes sampling fast on a CPU.

The weights are those of a `transformers` Llama model, fused once per publication (query, key and value in one matrix, gate and up
in one). The arithmetic is the model's own; tests hold the two against each other to 1e-4 in log-probability.
Shapes: B rows, Q new tokens a row, P cache positions, H heads, K key-value heads, D head dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaForCausalLM


def _dimensions(config: LlamaConfig) -> tuple[int, int, int]:
    """Heads, key-value heads and head dimension; what a configuration leaves out follows from the rest."""
    heads = config.num_attention_heads
    return heads, config.num_key_value_heads or heads, config.head_dim or config.hidden_size // heads


class Cache:
    """Keys and values of every layer, `[rows, K, positions, D]` each; row r, position p holds token p of sequence r."""

    def __init__(self, config: LlamaConfig, rows: int, positions: int, device: torch.device, dtype: torch.dtype) -> None:
        _, kv_heads, head_dim = _dimensions(config)
        shape = (rows, kv_heads, positions, head_dim)
        self.keys = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(config.num_hidden_layers)]
        self.values = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(config.num_hidden_layers)]


class LlamaStep:
    """The forward pass as tensors: `ids, positions, cache → logits`."""

    def __init__(self, config: LlamaConfig) -> None:
        scaling = getattr(config, "rope_parameters", None) or {}
        if scaling.get("rope_type", "default") != "default":
            raise checks.fail(RangeError, "model", "use plain rotary embeddings", f"rope_type {scaling['rope_type']!r}")
        if config.attention_bias or config.mlp_bias or config.hidden_act != "silu":
            raise checks.fail(RangeError, "model", "be a plain Llama (no biases, SiLU)", config.hidden_act)
        self.config = config
        self.heads, self.kv_heads, self.head_dim = _dimensions(config)
        theta = float(scaling.get("rope_theta", 10000.0))
        frequencies = theta ** (-torch.arange(0, self.head_dim, 2).float() / self.head_dim)
        angles = torch.outer(torch.arange(config.max_position_embeddings).float(), frequencies).repeat(1, 2)
        self.cosine, self.sine = angles.cos(), angles.sin()

    def load(self, model: LlamaForCausalLM) -> None:
        """Copy and fuse the weights of a model."""
        base = model.model
        self.embedding = base.embed_tokens.weight.detach().clone()
        tied = model.lm_head.weight is base.embed_tokens.weight
        self.output = self.embedding if tied else model.lm_head.weight.detach().clone()
        self.final_norm = base.norm.weight.detach().clone()
        self.cosine, self.sine = self.cosine.to(self.embedding.device), self.sine.to(self.embedding.device)
        self.blocks = [
            (
                block.input_layernorm.weight.detach().clone(),
                torch.cat([p.weight.detach() for p in (block.self_attn.q_proj, block.self_attn.k_proj, block.self_attn.v_proj)]),
                block.self_attn.o_proj.weight.detach().clone(),
                block.post_attention_layernorm.weight.detach().clone(),
                torch.cat([block.mlp.gate_proj.weight.detach(), block.mlp.up_proj.weight.detach()]),
                block.mlp.down_proj.weight.detach().clone(),
            )
            for block in base.layers
        ]

    def new_cache(self, rows: int, positions: int) -> Cache:
        """Allocate an empty cache."""
        return Cache(self.config, rows, positions, self.embedding.device, self.embedding.dtype)

    def _rotate(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        half = self.head_dim // 2
        return x * cosine + torch.cat([-x[..., half:], x[..., :half]], -1) * sine

    def forward(self, ids: Tensor, positions: Tensor, rows: Sequence[int], cache: Cache, last: Tensor, *, span: int) -> Tensor:
        """Run Q new tokens of B sequences, write their keys and values, and return the next-token logits of each.

        Args:
            ids: `[B, Q]`, right-padded with anything where a row has fewer new tokens: what padding writes to the cache is
                overwritten by the tokens that really come there before any query may look at it.
            positions: `[B, Q]`, place of each token in its sequence, increasing along Q.
            rows: B increasing cache rows, one for each sequence; neighbouring rows are read in place.
            cache: extended in place.
            last: `[B]`, index along Q of each row's last real token.
            span: cache positions to attend to, at least one more than the largest position.

        Returns:
            Logits `[B, V]` in float32.
        """
        batch, new = ids.shape
        hidden = F.embedding(ids, self.embedding)
        written = torch.tensor(rows, device=ids.device)[:, None]
        read = slice(rows[0], rows[-1] + 1) if rows[-1] - rows[0] + 1 == batch else written[:, 0]
        cosine, sine = self.cosine[positions][:, None], self.sine[positions][:, None]
        shared = self.heads // self.kv_heads
        visible = (torch.arange(span, device=ids.device) <= positions[..., None])[:, None].repeat(1, 1, shared, 1)
        sizes = [self.heads * self.head_dim, self.kv_heads * self.head_dim, self.kv_heads * self.head_dim]
        epsilon, width = self.config.rms_norm_eps, (self.config.hidden_size,)
        for layer, (norm_in, qkv, out, norm_post, gate_up, down) in enumerate(self.blocks):
            q, k, v = F.linear(F.rms_norm(hidden, width, norm_in, epsilon), qkv).split(sizes, -1)
            q = self._rotate(q.view(batch, new, self.heads, self.head_dim).transpose(1, 2), cosine, sine)
            k = self._rotate(k.view(batch, new, self.kv_heads, self.head_dim).transpose(1, 2), cosine, sine)
            keys, values = cache.keys[layer], cache.values[layer]
            keys[written, :, positions] = k.transpose(1, 2)
            values[written, :, positions] = v.view(batch, new, self.kv_heads, self.head_dim)
            # the query heads that share a key-value head stand behind one another, so that keys and values are read once
            q = q.reshape(batch, self.kv_heads, shared * new, self.head_dim)
            attended = F.scaled_dot_product_attention(q, keys[read, :, :span], values[read, :, :span], attn_mask=visible)
            attended = attended.view(batch, self.heads, new, self.head_dim).transpose(1, 2)
            hidden = hidden + F.linear(attended.reshape(batch, new, -1), out)
            gate, up = F.linear(F.rms_norm(hidden, width, norm_post, epsilon), gate_up).chunk(2, -1)
            hidden = hidden + F.linear(F.silu(gate) * up, down)
        final = hidden[torch.arange(batch, device=ids.device), last]
        return F.linear(F.rms_norm(final, width, self.final_norm, epsilon), self.output).float()
