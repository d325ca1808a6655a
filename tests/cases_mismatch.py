"""Shared by the tests of the mismatch corrections: one call, one batch, all corrections by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from cases_objective import DEVICE, tensor
from torch import Tensor

from rosellm.roserlhf.losses import (
    MismatchCorrection,
    icepop,
    mis,
    mismatch_correction,
    opsm,
    tis,
)

LEVELS: Any = ("token", "geometric_sequence", "product_sequence", "segment")


def of(ratios: Any, mask: Any = None, **how: Any) -> MismatchCorrection:
    """Correct tokens with these ratios."""
    rho = tensor(ratios)
    ones = torch.ones_like(rho, dtype=torch.bool)
    return mismatch_correction(rho.log(), torch.zeros_like(rho), ones if mask is None else tensor(mask), **how)


def a_batch() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    behaviour, proximal, current, advantages = (
        torch.randn(3, 5, generator=generator, dtype=torch.float64).to(DEVICE) for _ in range(4)
    )
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 1, 0], [1, 1, 1, 0, 0]], dtype=torch.bool, device=DEVICE)
    return behaviour, behaviour + proximal * 0.7, (behaviour + current * 0.4).requires_grad_(), advantages, mask


CORRECTIONS: dict[str, Callable[[Tensor, Tensor, Tensor], MismatchCorrection]] = {
    "tis": tis,
    "icepop": icepop,
    "mis": mis,
    "opsm": lambda p, b, m: opsm(p, b, -torch.ones_like(p), m, delta=0.0),
    **{
        f"{level} {action}": functools.partial(mismatch_correction, level=level, action=action, ratio_min=1.0, ratio_max=1.0)
        for level in LEVELS
        for action in ("truncate", "mask")
    },
}
