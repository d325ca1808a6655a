"""The price of a cost: projected dual steps, and advantages under it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from rosellm.roserlhf.advantages import LagrangeMultiplier
from rosellm.roserlhf.errors import CheckpointError, DtypeError, MaskError, NonFiniteError, RangeError, RoseError, ShapeError
from rosellm.roserlhf.masked import Partial, partial

NAN, INF = float("nan"), float("inf")
NOTHING = torch.zeros(0, dtype=torch.float64)


def f64(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_dual_steps() -> None:
    # 0.5 + 0.1 (0.3 - 0.5) = 0.48; 0.48 + 0.1 (1.2 - 0.5) = 0.55; 0.55 + 0.1 (0.4 - 0.5) = 0.54
    price = LagrangeMultiplier(budget=0.5, learning_rate=0.1, initial=0.5)
    assert [price.update(f64(cost)) for cost in (0.3, 1.2, 0.4)] == pytest.approx([0.48, 0.55, 0.54], abs=1e-15)


def test_the_price_never_falls_below_zero() -> None:
    # 0.01 + 0.1 (0 - 0.5) = -0.04
    price = LagrangeMultiplier(budget=0.5, learning_rate=0.1, initial=0.01)
    assert [price.update(f64(0.0, 0.0)) for _ in range(2)] == [0.0, 0.0]


def test_a_cost_at_its_budget_changes_nothing() -> None:
    price = LagrangeMultiplier(budget=0.5, learning_rate=0.1, initial=0.3)
    assert price.update(torch.tensor([0.25, 0.75])) == 0.3


@pytest.mark.parametrize(
    ("costs", "mask"),
    [(NOTHING, None), (f64(NAN, 9.0), torch.tensor([False, False])), (Partial(torch.tensor(0.0), torch.tensor(0.0)), None)],
)
def test_an_empty_batch_changes_nothing(costs: Any, mask: torch.Tensor | None) -> None:
    price = LagrangeMultiplier(budget=0.5, learning_rate=0.1, initial=0.3)
    assert price.update(costs, scored_mask=mask) == 0.3


def test_only_scored_costs_count() -> None:
    price = LagrangeMultiplier(budget=0.0, learning_rate=1.0)
    assert price.update(f64(1.0, NAN, 2.0), scored_mask=torch.tensor([1, 0, 1])) == 1.5


def test_ranks_that_add_their_partials_take_the_step_of_the_whole_batch() -> None:
    costs = f64(1.0, 2.0, 6.0)
    whole, ranks = LagrangeMultiplier(1.0, 0.5), LagrangeMultiplier(1.0, 0.5)
    everything = torch.ones(3, dtype=torch.bool)
    together = partial(costs[:1], everything[:1]) + partial(costs[1:], everything[1:])
    assert whole.update(costs) == ranks.update(together) == 1.0  # 0.5 * (3 - 1)


def test_combined_advantages() -> None:
    price = LagrangeMultiplier(budget=0.0, learning_rate=1.0, initial=0.5)
    reward, cost = f64(1.0, -1.0).requires_grad_(), f64(2.0, 0.0)
    assert price.combine(reward, cost).tolist() == [0.0, -1.0]  # 1 - 0.5 * 2
    assert price.combine(reward, cost, scale="one_plus_multiplier").tolist() == pytest.approx([0.0, -2 / 3])
    assert not price.combine(reward, cost).requires_grad
    assert price.combine(torch.ones(1, dtype=torch.bfloat16), torch.ones(1, dtype=torch.bfloat16)).dtype == torch.float32


def test_the_state_is_plain_json() -> None:
    price, again = LagrangeMultiplier(0.5, 0.1, 0.3), LagrangeMultiplier(0.5, 0.1)
    price.update(f64(1.0 / 3.0))
    again.load_state_dict(json.loads(json.dumps(price.state_dict())))
    assert again.value == price.value


@pytest.mark.parametrize("state", [{}, {"value": -1.0}, {"value": NAN}, {"value": "1"}, None])
def test_a_state_of_something_else_is_refused(state: Any) -> None:
    price = LagrangeMultiplier(0.5, 0.1, 0.3)
    with pytest.raises(CheckpointError, match="state must be what state_dict returned"):
        price.load_state_dict(state)
    assert price.value == 0.3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda price: LagrangeMultiplier(NAN, 0.1), RangeError, "budget must be in"),
        (lambda price: LagrangeMultiplier(0.5, 0.0), RangeError, "learning_rate must be in"),
        (lambda price: LagrangeMultiplier(0.5, 0.1, -1.0), RangeError, "initial must be in"),
        (lambda price: price.update(0.3), DtypeError, "costs must be a torch.Tensor, got float"),
        (lambda price: price.update(f64(NAN)), NonFiniteError, "costs must be finite"),
        (lambda price: price.update(Partial(torch.tensor(NAN), torch.tensor(1.0))), NonFiniteError, "costs must be finite"),
        (lambda price: price.update(f64(1.0), scored_mask=torch.tensor([0.5])), MaskError, "scored_mask must be boolean"),
        (lambda price: price.combine(f64(1.0), f64(1.0, 2.0)), ShapeError, "cost_advantages must have the shape"),
        (lambda price: price.combine(f64(1.0), f64(NAN)), NonFiniteError, "cost_advantages must be finite"),
        (lambda price: price.combine(f64(1.0), f64(1.0), scale="half"), RangeError, "scale must be one of"),
    ],
)
def test_bad_input_is_named(call: Any, error: type[RoseError], message: str) -> None:
    price = LagrangeMultiplier(0.5, 0.1, 0.3)
    with pytest.raises(error, match=message):
        call(price)
    assert price.value == 0.3
