"""The learner's arithmetic the slow way: one sequence at a time, token by token, one backward pass, AdamW written out."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rosellm.roserlhf.batching.rows import Row

EPSILON = 1e-8


class PlainAdamW:
    """AdamW (Loshchilov and Hutter 2019, algorithm 2) after clipping the global norm."""

    def __init__(self, model: nn.Module, *, betas: tuple[float, float], weight_decay: float, gradient_clip: float) -> None:
        self.model, self.decay, self.clip, self.time = copy.deepcopy(model), weight_decay, gradient_clip, 0
        self.betas = betas
        self.first = [torch.zeros_like(p) for p in self.model.parameters()]
        self.second = [torch.zeros_like(p) for p in self.model.parameters()]

    def step(self, loss: Tensor, learning_rate: float) -> float:
        gradients = torch.autograd.grad(loss, list(self.model.parameters()))
        norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in gradients))
        self.time += 1
        with torch.no_grad():
            for p, g, m, v in zip(self.model.parameters(), gradients, self.first, self.second, strict=True):
                clipped = g * min(1.0, self.clip / (norm + 1e-6))
                m.copy_(self.betas[0] * m + (1 - self.betas[0]) * clipped)
                v.copy_(self.betas[1] * v + (1 - self.betas[1]) * clipped**2)
                step = (m / (1 - self.betas[0] ** self.time)) / ((v / (1 - self.betas[1] ** self.time)).sqrt() + EPSILON)
                p.copy_(p * (1 - learning_rate * self.decay) - learning_rate * step)
        return norm


def row_logprobs(model: nn.Module, row: Row, temperature: float) -> list[Tensor]:
    """log π of every token of one row given the tokens before it; a zero for the first."""
    logits = model(torch.tensor([row.token_ids])).logits[0] / temperature
    table = logits.log_softmax(-1)
    return [table.new_zeros(()), *(table[t - 1, row.token_ids[t]] for t in range(1, len(row.token_ids)))]


def clipped_loss(model: nn.Module, rows: Sequence[Row], *, clip_low: float, clip_high: float, temperature: float = 1.0) -> Tensor:
    """− Σ min(r A, clip(r) A) over the loss tokens of all rows, divided by how many there are."""
    terms = []
    for row in rows:
        for logprob, old, live in zip(row_logprobs(model, row, temperature), row.behaviour_logprobs, row.loss_mask, strict=True):
            if live:
                assert isinstance(row.advantage, float)
                ratio = torch.exp(logprob - float(torch.tensor(old)))  # behaviour log-probabilities are float32 in a batch
                terms.append(torch.minimum(ratio * row.advantage, ratio.clamp(1 - clip_low, 1 + clip_high) * row.advantage))
    return -sum(terms[1:], terms[0]) / len(terms)


def cloning_loss(model: nn.Module, rows: Sequence[Row]) -> Tensor:
    """− mean log-probability of the tokens to imitate."""
    terms = [logprob for row in rows for logprob, live in zip(row_logprobs(model, row, 1.0), row.loss_mask, strict=True) if live]
    return -sum(terms[1:], terms[0]) / len(terms)
