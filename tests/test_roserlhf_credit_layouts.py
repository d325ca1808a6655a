"""How a tensor lies in memory, and whether a compiler traces the call, changes no number of the functions of time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from rosellm.roserlhf.advantages import (
    cross_segment_advantages,
    discounted_returns,
    generalized_advantage_estimation,
    n_step_advantages,
    potential_shaping,
    reward_to_go,
    skip_observation_generalized_advantage_estimation,
    turn_generalized_advantage_estimation,
    v_trace,
)

Call = Callable[..., Any]
CALLS: dict[str, Call] = {
    "returns": lambda r, v, **rows: discounted_returns(r, gamma=0.5, **rows),
    "from_start": lambda r, v, **rows: reward_to_go(r, gamma=0.5, discount="from_start", **rows),
    "gae": lambda r, v, **rows: generalized_advantage_estimation(r, v, gamma=0.5, gae_lambda=0.5, critic_lambda=1.0, **rows),
    "n_step": lambda r, v, **rows: n_step_advantages(r, v, n=3, gamma=0.5, **rows),
    "v_trace": lambda r, v, **rows: v_trace(v, r, v, gamma=0.5, **rows),
    "shaping": lambda r, v, **rows: potential_shaping(r, v, gamma=0.5, bootstrap_potential=2.0, **rows),
}


def tensors(result: Any) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def turned(value: Tensor) -> Tensor:
    """The same numbers with the dimensions the other way round in memory."""
    return value.permute(*reversed(range(value.ndim))).contiguous().permute(*reversed(range(value.ndim)))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("layout", [turned, lambda value: torch.stack([value, value], -1)[..., 0]])
def test_the_layout_in_memory_changes_nothing(call: str, layout: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    rewards, values = torch.randn(2, 3, 7), torch.randn(2, 3, 7)
    acts = torch.rand(2, 3, 7) < 0.5
    acts[..., 0] = True  # rewards on observations have an action before them
    expected = tensors(CALLS[call](rewards, values, action_mask=acts))
    found = tensors(CALLS[call](layout(rewards), layout(values), action_mask=layout(acts)))
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def test_the_same_row_for_all_may_be_an_expanded_view() -> None:
    row, acts = torch.tensor([0.0, 1.0, 0.0, 2.0]), torch.tensor([True, False, True, False])
    found = discounted_returns(row.expand(2, 3, 4), action_mask=acts.expand(2, 3, 4))
    assert torch.equal(found, torch.tensor([3.0, 0.0, 2.0, 0.0]).expand(2, 3, 4))


MASK = torch.tensor([[True, True, False, True, True, False, True, True]] * 2)
TURNS = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2]] * 2)
COMPILED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    **{name: functools.partial(call, valid_mask=MASK) for name, call in CALLS.items() if name != "gae"},
    "gae": lambda r, v: CALLS["gae"](r, v, action_mask=MASK, bootstrap_value=torch.ones(2)),
    "packed": lambda r, v: CALLS["gae"](r, v, episode_ids=TURNS, bootstrap_value=torch.ones(2, 3)),
    "actions": lambda r, v: skip_observation_generalized_advantage_estimation(r, v, v, gamma=0.5, valid_mask=MASK),
    "turns": lambda r, v: turn_generalized_advantage_estimation(r[:, :3], v[:, :3], TURNS, MASK, gamma=0.5),
    "segments": lambda r, v: cross_segment_advantages(r[:, 0], v, torch.tensor([4, 4]), MASK, alpha=1.5),
}


@pytest.mark.parametrize(
    "call", [pytest.param(name, marks=[] if name in ("gae", "n_step") else pytest.mark.slow) for name in COMPILED]
)
def test_the_functions_of_time_are_one_graph_to_the_compiler(call: str) -> None:
    torch.manual_seed(0)
    torch.compiler.reset()
    rewards, values = torch.randn(2, 8), torch.randn(2, 8)
    expected = tensors(COMPILED[call](rewards, values))
    compiled = torch.compile(COMPILED[call], fullgraph=True, backend="eager")
    for one, other in zip(tensors(compiled(rewards, values)), expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.slow
def test_long_rows_are_one_graph_too() -> None:
    torch.manual_seed(0)
    torch.compiler.reset()
    rewards, values = torch.randn(2, 200), torch.randn(2, 200)  # longer than `recursion.SHORT`
    compiled = torch.compile(CALLS["gae"], fullgraph=True, backend="eager")
    for one, other in zip(compiled(rewards, values), CALLS["gae"](rewards, values), strict=True):
        torch.testing.assert_close(one, other)
