"""The presets of SAO are the objective with the paper's two intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases_objective import close, logs, tensor

from rosellm.roserlhf.errors import ArgumentError
from rosellm.roserlhf.losses import SaoPolicyLossOutput, sao_coding, sao_policy_loss, sao_reasoning

PRESETS = [(sao_reasoning, 0.3, 5.0), (sao_coding, 0.8, 3.0)]


@pytest.mark.parametrize(("preset", "low", "high"), PRESETS)
def test_a_preset_is_the_objective_with_its_interval(preset: Callable[..., SaoPolicyLossOutput], low: float, high: float) -> None:
    old, advantages, mask = tensor([[-0.5] * 5] * 2), tensor([1.0, -2.0]), tensor([[1] * 5, [1, 1, 0, 0, 0]])
    others: dict[str, Any] = {"aggregation": "rollout", "rollout_ids": tensor([3, 3]), "denominator": 4.0, "max_log_ratio": 1.2}
    for detach in (True, False):
        slopes = []
        runs: list[tuple[Callable[..., SaoPolicyLossOutput], dict[str, float]]] = [
            (preset, {}),
            (sao_policy_loss, {"clip_low": low, "clip_high": high}),
        ]
        for run, bounds in runs:
            current = logs([[0.1, 0.25, 0.6, 1.0, 3.0], [0.9, 0.2, 1.0, 1.0, 1.0]])
            out = run(current, old, advantages, mask, detach_ratio=detach, **others, **bounds)
            slopes.append(torch.autograd.grad(out.loss, current)[0])
        close(slopes[0], slopes[1].tolist())


@pytest.mark.parametrize(("preset", "low", "high"), PRESETS)
def test_a_preset_has_no_other_interval(preset: Callable[..., SaoPolicyLossOutput], low: float, high: float) -> None:
    ones = torch.ones(1, 1)
    with pytest.raises((TypeError, ArgumentError), match="clip_low"):
        preset(ones, ones, ones, ones, clip_low=low, clip_high=high)
