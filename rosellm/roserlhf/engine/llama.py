"""One forward step of a Llama-architecture model over an attention cache: what makes sampling fast on a CPU.

The arithmetic is that of the `transformers` model; tests hold the two against each other to 1e-4 in log-probability.
Shapes: B rows, Q new tokens a row, H heads, K key-value heads, D head dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from rosellm.roserlhf.engine.cache import Cache
from rosellm.roserlhf.engine.weights import Precision, Sizes, Weights, check_architecture
from rosellm.roserlhf.models.adapters import has_adapters, merged

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import LlamaConfig, LlamaForCausalLM


class LlamaStep:
    """The forward pass as tensors: `ids, positions, cache → logits`.

    Args:
        model: a plain Llama, with or without adapters; its weights are copied, adapters merged.
        positions: longest sequence.
        precision: of the copy.

    Raises:
        RangeError: a variant of Llama that is not computed here.
        ModelError: another architecture than Llama.
        CheckpointError: parameters beside those of a Llama.
    """

    def __init__(self, model: LlamaForCausalLM | PeftModel, *, positions: int, precision: Precision) -> None:
        config: LlamaConfig = model.config
        check_architecture(config)
        self._sizes, self._positions, self._device = Sizes.of(config), positions, model.device
        self._width, self._epsilon = (config.hidden_size,), config.rms_norm_eps
        own = {name: parameter.detach() for name, parameter in model.named_parameters()}
        tensors = merged(model) if has_adapters(model) else own
        tied = "lm_head.weight" not in tensors
        self.weights = Weights(self._sizes, config.num_hidden_layers, tied=tied, precision=precision, device=self._device)
        self.weights.load(tensors)
        theta = float((getattr(config, "rope_parameters", None) or {}).get("rope_theta", 10000.0))
        head_dim = self._sizes.head_dim
        frequencies = theta ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        angles = torch.outer(torch.arange(positions).float(), frequencies).repeat(1, 2)
        self._cosine, self._sine = (table.to(self._device, self.weights.dtype) for table in (angles.cos(), angles.sin()))

    def new_cache(self) -> Cache:
        """Make an empty cache."""
        return Cache(
            layers=len(self.weights.blocks),
            kv_heads=self._sizes.kv_heads,
            head_dim=self._sizes.head_dim,
            positions=self._positions,
            device=self._device,
            dtype=self.weights.dtype,
        )

    def _rotate(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        half = self._sizes.head_dim // 2
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
        cache.reserve(rows[-1] + 1, span)
        batch, new = ids.shape
        heads, kv_heads, head_dim = self._sizes.heads, self._sizes.kv_heads, self._sizes.head_dim
        hidden = F.embedding(ids, self.weights.embedding.weight)
        written = torch.tensor(rows, device=ids.device)[:, None]
        read = slice(rows[0], rows[-1] + 1) if rows[-1] - rows[0] + 1 == batch else written[:, 0]
        cosine, sine = self._cosine[positions][:, None], self._sine[positions][:, None]
        shared = heads // kv_heads
        visible = (torch.arange(span, device=ids.device) <= positions[..., None])[:, None].repeat(1, 1, shared, 1)
        sizes = [heads * head_dim, kv_heads * head_dim, kv_heads * head_dim]
        for layer, block in enumerate(self.weights.blocks):
            q, k, v = block.qkv(F.rms_norm(hidden, self._width, block.norm_in, self._epsilon)).split(sizes, -1)
            q = self._rotate(q.view(batch, new, heads, head_dim).transpose(1, 2), cosine, sine)
            k = self._rotate(k.view(batch, new, kv_heads, head_dim).transpose(1, 2), cosine, sine)
            keys, values = cache.keys[layer], cache.values[layer]
            keys[written, :, positions] = k.transpose(1, 2)
            values[written, :, positions] = v.view(batch, new, kv_heads, head_dim)
            # the query heads that share a key-value head stand behind one another, so that keys and values are read once
            q = q.reshape(batch, kv_heads, shared * new, head_dim)
            attended = F.scaled_dot_product_attention(q, keys[read, :, :span], values[read, :, :span], attn_mask=visible)
            attended = attended.view(batch, heads, new, head_dim).transpose(1, 2)
            hidden = hidden + block.out(attended.reshape(batch, new, -1))
            gate, up = block.gate_up(F.rms_norm(hidden, self._width, block.norm_post, self._epsilon)).chunk(2, -1)
            hidden = hidden + block.down(F.silu(gate) * up)
        final = hidden[torch.arange(batch, device=ids.device), last]
        return self.weights.output(F.rms_norm(final, self._width, self.weights.final_norm, self._epsilon)).float()
