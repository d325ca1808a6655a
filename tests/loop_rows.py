"""Rows as an engine would leave them: sampled turns between prompts and observations, with a model's own log-probabilities."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn

from rosellm.roserlhf.batching.rows import Row


def sampled_rows(model: nn.Module, count: int, *, seed: int = 0, noise: float = 0.0, temperature: float = 1.0) -> list[Row]:
    """Rows of two turns each, of different lengths; `noise` moves the recorded log-probabilities away from the model's."""
    rng, rows = random.Random(seed), []
    for number in range(count):
        ids: list[int] = []
        mask: list[bool] = []
        turns: list[int] = []
        for turn in range(2):
            for sampled, length in ((False, rng.randint(1, 4)), (True, rng.randint(1, 4))):
                ids += [rng.randrange(11) for _ in range(length)]
                mask += [sampled] * length
                turns += [turn if sampled else -1] * length
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0] / temperature
        table = logits.log_softmax(-1)
        logprobs = [0.0] + [float(table[t - 1, ids[t]]) + rng.uniform(-noise, noise) for t in range(1, len(ids))]
        rows.append(
            Row(
                f"row-{number}",
                f"group-{number // 2}",
                tuple(ids),
                tuple(mask),
                tuple(mask),
                tuple(value if live else 0.0 for value, live in zip(logprobs, mask, strict=True)),
                tuple(turns),
                advantage=rng.choice([-1.5, -0.5, 0.5, 1.0]),
            )
        )
    return rows


def parameters_of(model: nn.Module) -> dict[str, Any]:
    """Detached copies of the parameters."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def same_bits(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two sets of parameters are equal bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def largest_difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Largest absolute difference between two sets of parameters."""
    return max(float((one[name] - other[name]).abs().max()) for name in one)
