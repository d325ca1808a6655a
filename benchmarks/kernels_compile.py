"""Objectives under `torch.compile` against eager mode: forward and backward at [512, 4096] in float32.

Eager mode has its checks on; compiling leaves out those that read values, by design, so part of the gain is theirs: the ratio to
eager mode without value checks is reported, too. Both sides return everything, statistics included, as a training step logs it.
Compiling itself is reported apart.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import torch
from kernels_measure import Results, entry, medians_ms
from torch import Tensor
from torch._inductor.utils import fresh_cache

from rosellm.roserlhf import checks, losses

ROWS, STEPS = 512, 4096
TIMES_FASTER = 4.0
REPEATS = 3
Call = Callable[[Tensor], Any]


def calls(rows: int, steps: int) -> tuple[Tensor, dict[str, Call]]:
    """The log-probabilities that are trained, and every objective as a function of them."""
    generator = torch.Generator().manual_seed(0)
    old = -3 * torch.rand(rows, steps, generator=generator)
    proximal = old + 0.1 * torch.randn(rows, steps, generator=generator)
    current = (old + 0.3 * torch.randn(rows, steps, generator=generator)).requires_grad_()
    credit = torch.randn(rows, steps, generator=generator)
    per_row = torch.randn(rows, generator=generator)
    mask = torch.rand(rows, steps, generator=generator) < 0.7
    bounds: dict[str, Any] = {"clip_low": 0.2, "clip_high": 0.3}
    return current, {
        "clipped": lambda now: losses.clipped_policy_loss(now, old, credit, mask),
        "gspo": lambda now: losses.gspo_policy_loss(now, old, per_row, mask, clip_low=3e-3, clip_high=4e-3),
        "sapo": lambda now: losses.sapo_policy_loss(now, old, credit, mask),
        "reinforce": lambda now: losses.reinforce_policy_loss(now, credit, mask, old_logprobs=old),
        "cispo": lambda now: losses.cispo_policy_loss(now, old, credit, mask, ratio_max=5.0),
        "sao": lambda now: losses.sao_policy_loss(now, old, credit, mask, **bounds),
        "gspo_token": lambda now: losses.gspo_token_policy_loss(now, old, credit, mask, clip_low=3e-3, clip_high=4e-3),
        "total_variation": lambda now: losses.total_variation_policy_loss(now, old, credit, mask),
        "decoupled": lambda now: losses.decoupled_policy_loss(now, proximal, old, credit, mask, **bounds),
        "value": lambda now: losses.value_loss(now, credit, mask, old_values=old, clip=0.2),
        "kl": lambda now: losses.kl_loss(now, old, mask),
    }


def step(call: Call, current: Tensor) -> Tensor:
    """Forward and backward."""
    (gradient,) = torch.autograd.grad(call(current).loss, current)
    return gradient


def unchecked(call: Call, current: Tensor) -> Tensor:
    """`step` without the checks that read values."""
    with checks.without_value_checks():
        return step(call, current)


def of_objective(name: str, rows: int = ROWS, steps: int = STEPS, *, times_faster: float | None = None) -> Results:
    """Measure one objective."""
    current, known = calls(rows, steps)
    eager = known[name]
    torch.compiler.reset()
    compiled = torch.compile(eager, fullgraph=True)
    with fresh_cache():  # what an earlier run left on disk would hide the time
        started = time.perf_counter()
        gradient = step(compiled, current)
        first_call = time.perf_counter() - started
    difference = float((gradient - step(eager, current)).abs().max() / gradient.abs().max())
    of_eager, of_unchecked, of_compiled = medians_ms(
        REPEATS,
        (
            functools.partial(step, eager, current),
            functools.partial(unchecked, eager, current),
            functools.partial(step, compiled, current),
        ),
    )
    return {
        f"compiled_{name}_times_faster_than_eager": entry(of_eager / of_compiled, at_least=times_faster),
        f"compiled_{name}_times_faster_than_eager_without_checks": entry(of_unchecked / of_compiled),
        f"compiled_{name}_ms": entry(of_compiled),
        f"compiled_{name}_eager_ms": entry(of_eager),
        f"compiled_{name}_first_call_seconds": entry(first_call),
        f"compiled_{name}_gradient_relative_difference": entry(difference, at_most=1e-4),
    }


def compiled_targets() -> Results:
    """The objectives that must gain."""
    found: Results = {}
    for name in ("clipped", "gspo", "sapo"):
        found |= of_objective(name, times_faster=TIMES_FASTER)
    return found


def compiled_others() -> Results:
    """The other objectives."""
    found: Results = {}
    for name in calls(1, 1)[1]:
        if name not in ("clipped", "gspo", "sapo"):
            found |= of_objective(name)
    return found


BENCHMARKS: list[Callable[[], Results]] = [compiled_targets, compiled_others]
