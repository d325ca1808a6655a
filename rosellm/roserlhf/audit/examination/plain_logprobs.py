"""A second, slow evaluation of a policy: `row -> log-probability of every token`, one row at a time, no padding, float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rosellm.roserlhf.batching.rows import Row

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import LlamaForCausalLM


@torch.no_grad()
def plain_logits(model: LlamaForCausalLM | PeftModel, token_ids: Sequence[int]) -> Tensor:
    """Evaluate one row alone: `[T, V]` float64; entry t is what was known before token t, and entry 0 is uniform."""
    logits = model(torch.tensor([list(token_ids)]), use_cache=False).logits[0].double()
    return torch.cat([torch.zeros_like(logits[:1]), logits[:-1]])


def plain_logprobs(logits: Tensor, row: Row, *, temperature: float) -> Tensor:
    r"""Evaluate :math:`\log\operatorname{softmax}(z_t / T)[x_t]` over what truncated sampling kept, `[T]`."""
    ids, scores = torch.tensor(row.token_ids), logits / temperature
    for place, kept in enumerate(row.support or ()):
        if kept is not None:
            inside = scores[place, list(kept)]
            scores[place] = -torch.inf
            scores[place, list(kept)] = inside
    return torch.log_softmax(scores, -1)[torch.arange(len(ids)), ids]
