"""The backward recursion: windows against the plain loop, and nothing leaks across a cut."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rosellm.roserlhf.advantages import generalized_advantage_estimation
from rosellm.roserlhf.credit.recursion import SHORT, backward_recursion


def plain_loop(increments: list[float], decays: list[float]) -> list[float]:
    result, later = [0.0] * len(increments), 0.0
    for t in reversed(range(len(increments))):
        later = increments[t] + decays[t] * later
        result[t] = later
    return result


@pytest.mark.parametrize("steps", [1, 2, SHORT - 1, SHORT, SHORT + 1, 3 * SHORT, SHORT**2, SHORT**2 + 1, 5000, 20011])
def test_windows_equal_the_plain_loop(steps: int) -> None:
    torch.manual_seed(steps)
    increments = torch.randn(2, steps, dtype=torch.float64)
    decays = torch.rand(2, steps, dtype=torch.float64)
    decays[torch.rand(2, steps) < 0.1] = 0.0
    decays[torch.rand(2, steps) < 0.3] = 1.0
    expected = [plain_loop(x.tolist(), c.tolist()) for x, c in zip(increments, decays, strict=True)]
    torch.testing.assert_close(backward_recursion(increments, decays), torch.tensor(expected, dtype=torch.float64))


def test_sums_that_floats_hold_exactly_are_exact() -> None:
    # y = 2 - 2^-n after n halvings of a running 1: no rounding up to 50 steps
    result = backward_recursion(torch.ones(50, dtype=torch.float64), torch.full((50,), 0.5, dtype=torch.float64))
    assert result.flip(0).tolist() == [2 - 2.0**-n for n in range(50)]


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize(("steps", "distance"), [(6, 1), (10 * SHORT, 1), (10 * SHORT, 2 * SHORT)])
def test_a_decay_of_zero_stops_what_is_not_finite(poison: float, steps: int, distance: int) -> None:
    increments, decays = torch.ones(steps), torch.ones(steps)
    cut = steps // 2
    decays[cut] = 0.0
    increments[cut + distance] = poison
    result = backward_recursion(increments, decays)
    assert result[: cut + 1].tolist() == [float(cut + 1 - t) for t in range(cut + 1)]
    assert not result[cut + 1].isfinite()


def test_decays_that_underflow_lose_nothing() -> None:
    # 0.5 ** 2000 is 0 in float32; dividing by it would be NaN
    result = backward_recursion(torch.ones(2000), torch.full((2000,), 0.5))
    torch.testing.assert_close(result[:-30], torch.full((1970,), 2.0))


class Operations(TorchDispatchMode):
    """Counts the tensor operations that run inside it."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("steps", "most"), [(2048, 1000), (131072, 1500)])
def test_a_long_row_costs_few_operations(steps: int, most: int) -> None:
    rewards = torch.ones(1, steps)
    with Operations() as operations:  # type: ignore[no-untyped-call]
        generalized_advantage_estimation(rewards, rewards, gae_lambda=0.95, valid_mask=rewards.bool())
    assert operations.count < most
