"""Log-probabilities of a batch, aligned to its ids: the one place where the next-token shift is made."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rosellm.roserlhf.losses import gather_token_logprobs


def policy_logprobs(model: nn.Module, input_ids: Tensor, *, temperature: float) -> Tensor:
    r"""Evaluate :math:`\log\pi_\theta(x_t \mid x_{<t})` at the sampling temperature.

    Args:
        model: causal language model with `.logits`; its dropout is off.
        input_ids: `[B, T]`, padded on the right.
        temperature: of the distribution that was sampled from; 0 (greedy) is evaluated at 1, as the engine records it.

    Returns:
        `[B, T]` float32: entry t belongs to `input_ids[:, t]`. Entry 0, which nothing predicts, is 0.
    """
    logits = model(input_ids, use_cache=False).logits[:, :-1]
    if temperature not in (0.0, 1.0):
        logits = logits / temperature
    logprobs = gather_token_logprobs(logits, input_ids[:, 1:])
    return torch.cat([logprobs.new_zeros(logprobs.shape[0], 1), logprobs], 1)
