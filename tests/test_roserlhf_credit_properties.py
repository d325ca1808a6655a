"""Fast credit against the slow oracle on random rows, and its invariances: padding, packing, splitting, order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles_credit import action_advantages, advantages, discounted_returns, leave_one_out, standardized
from torch import Tensor

from rosellm.roserlhf import advantages as fast

thorough = settings(derandomize=True, max_examples=60, deadline=None)
numbers = st.floats(-4, 4, allow_subnormal=False)
unit = st.floats(0, 1, allow_subnormal=False)
NAN = float("nan")


@dataclass
class Row:
    rewards: list[float]
    values: list[float]
    nexts: list[float]
    lambdas: list[float]
    valid: list[bool]
    terminated: list[bool]
    ids: list[int]
    bootstrap: list[float]
    gamma: float

    def tensor(self, name: str) -> Tensor:
        """Return a field as a tensor; floating-point fields hold NaN where the row has no step."""
        data = getattr(self, name)
        if not isinstance(data[0], float):
            return torch.tensor(data)
        return torch.tensor([x if v else NAN for x, v in zip(data, self.valid, strict=True)], dtype=torch.float64)


@st.composite
def rows(draw: st.DrawFn, longest: int = 90) -> Row:
    steps = draw(st.integers(1, longest))
    seed = draw(st.integers(0, 10**6))
    density = draw(st.sampled_from([0.0, 0.3, 0.8, 1.0]))
    ends = draw(st.sampled_from([0.0, 0.1, 0.5]))
    torch.manual_seed(seed)
    changes = (torch.rand(steps) < 0.2).long().cumsum(0)
    order = torch.randperm(int(changes.max()) + 1)
    return Row(
        rewards=torch.randn(steps, dtype=torch.float64).tolist(),
        values=torch.randn(steps, dtype=torch.float64).tolist(),
        nexts=torch.randn(steps, dtype=torch.float64).tolist(),
        lambdas=torch.rand(steps, dtype=torch.float64).tolist(),
        valid=(torch.rand(steps) < density).tolist(),
        terminated=(torch.rand(steps) < ends).tolist(),
        ids=order[changes].tolist(),
        bootstrap=torch.randn(len(order), dtype=torch.float64).tolist(),
        gamma=draw(st.sampled_from([0.0, 0.5, 0.99, 1.0])),
    )


def equal(actual: Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)


@thorough
@given(rows())
def test_returns_equal_the_oracle(row: Row) -> None:
    actual = fast.discounted_returns(
        row.tensor("rewards"),
        gamma=row.gamma,
        terminated=row.tensor("terminated"),
        valid_mask=row.tensor("valid"),
        bootstrap_value=row.bootstrap[0],
    )
    equal(actual, discounted_returns(row.rewards, row.gamma, row.valid, row.terminated, row.bootstrap[0]))


@thorough
@given(rows())
def test_gae_equals_the_oracle(row: Row) -> None:
    actual, targets = fast.generalized_advantage_estimation(
        row.tensor("rewards"),
        row.tensor("values"),
        gamma=row.gamma,
        gae_lambda=row.tensor("lambdas"),
        terminated=row.tensor("terminated"),
        valid_mask=row.tensor("valid"),
        bootstrap_value=row.bootstrap[0],
    )
    expected = advantages(row.rewards, row.values, row.gamma, row.lambdas, row.valid, row.terminated, row.bootstrap[:1])
    equal(actual, expected)
    equal(targets, [(a + v) if here else 0.0 for a, v, here in zip(expected, row.values, row.valid, strict=True)])


@thorough
@given(rows())
def test_packed_gae_equals_the_oracle(row: Row) -> None:
    actual, _ = fast.generalized_advantage_estimation(
        row.tensor("rewards"),
        row.tensor("values"),
        gamma=row.gamma,
        gae_lambda=row.tensor("lambdas"),
        terminated=row.tensor("terminated"),
        valid_mask=row.tensor("valid"),
        bootstrap_value=torch.tensor(row.bootstrap, dtype=torch.float64),
        episode_ids=row.tensor("ids"),
    )
    equal(
        actual,
        advantages(row.rewards, row.values, row.gamma, row.lambdas, row.valid, row.terminated, row.bootstrap, row.ids),
    )


@thorough
@given(rows(), unit)
def test_action_gae_equals_the_oracle(row: Row, lam: float) -> None:
    actual, _ = fast.skip_observation_generalized_advantage_estimation(
        row.tensor("rewards"),
        row.tensor("values"),
        row.tensor("nexts"),
        gamma=row.gamma,
        gae_lambda=lam,
        terminated=row.tensor("terminated"),
        valid_mask=row.tensor("valid"),
    )
    equal(actual, action_advantages(row.rewards, row.values, row.nexts, row.gamma, lam, row.valid, row.terminated))


@thorough
@given(rows())
def test_packing_and_padding_change_no_episode(row: Row) -> None:
    """Every episode of a packed row gets what it gets alone, in a row of its own without holes."""
    packed = fast.generalized_advantage_estimation(
        row.tensor("rewards"),
        row.tensor("values"),
        gamma=row.gamma,
        gae_lambda=0.9,
        terminated=row.tensor("terminated"),
        valid_mask=row.tensor("valid"),
        bootstrap_value=torch.tensor(row.bootstrap, dtype=torch.float64),
        episode_ids=row.tensor("ids"),
    )
    for episode, bootstrap in enumerate(row.bootstrap):
        here = (row.tensor("ids") == episode) & row.tensor("valid")
        if not here.any():
            continue
        alone = fast.generalized_advantage_estimation(
            row.tensor("rewards")[here],
            row.tensor("values")[here],
            gamma=row.gamma,
            gae_lambda=0.9,
            terminated=row.tensor("terminated")[here],
            bootstrap_value=bootstrap,
        )
        for whole, part in zip(packed, alone, strict=True):
            torch.testing.assert_close(whole[here], part, rtol=1e-9, atol=1e-9)


@thorough
@given(rows(longest=40))
def test_what_stands_in_absent_time_is_never_read(row: Row) -> None:
    mask = row.tensor("valid")
    here: dict[str, Any] = {"gamma": row.gamma, "valid_mask": mask, "bootstrap_value": 0.5}

    def run(junk: float, flag: bool) -> list[Tensor]:
        rewards, values = (row.tensor(n).nan_to_num(junk) for n in ("rewards", "values"))
        terminated = row.tensor("terminated") & mask | (~mask & flag)
        return [
            fast.discounted_returns(rewards, terminated=terminated, **here),
            *fast.generalized_advantage_estimation(rewards, values, terminated=terminated, **here),
        ]

    for one, other in zip(run(0.0, False), run(1e30, True), strict=True):
        assert one.equal(other)
        assert one[~mask].eq(0).all()


@thorough
@given(rows(longest=40), st.integers(1, 39))
def test_a_row_may_be_split_at_a_cut_with_the_next_value_as_bootstrap(row: Row, at: int) -> None:
    """λ = 0 looks one step ahead: two halves, the first bootstrapped from the second's first value, are the whole."""
    rewards, values = torch.tensor(row.rewards), torch.tensor(row.values)
    if at >= len(rewards):
        return
    whole, _ = fast.generalized_advantage_estimation(rewards, values, gamma=row.gamma, gae_lambda=0.0)
    left, _ = fast.generalized_advantage_estimation(
        rewards[:at], values[:at], gamma=row.gamma, gae_lambda=0.0, bootstrap_value=values[at]
    )
    right, _ = fast.generalized_advantage_estimation(rewards[at:], values[at:], gamma=row.gamma, gae_lambda=0.0)
    torch.testing.assert_close(torch.cat([left, right]), whole)


groups = st.lists(numbers, min_size=2, max_size=12)


@thorough
@given(groups, st.sampled_from([1e-8, 1e-4]))
def test_groups_equal_the_oracle(rewards: list[float], eps: float) -> None:
    exact = torch.tensor(rewards, dtype=torch.float64)
    torch.testing.assert_close(fast.leave_one_out_advantages(exact).tolist(), leave_one_out(rewards), rtol=1e-9, atol=1e-9)
    if max(rewards) - min(rewards) > 1e-3 or max(rewards) == min(rewards):
        actual = fast.group_standardized_advantages(exact, eps=eps).tolist()
        torch.testing.assert_close(actual, standardized(rewards, eps), rtol=1e-7, atol=1e-7)


@thorough
@given(groups.flatmap(lambda group: st.tuples(st.just(group), st.permutations(range(len(group))))))
def test_groups_ignore_order_and_sum_to_zero(case: tuple[list[float], list[int]]) -> None:
    rewards, order = case
    exact = torch.tensor(rewards, dtype=torch.float64)
    for estimate in (fast.leave_one_out_advantages, fast.group_standardized_advantages):
        result = estimate(exact)
        torch.testing.assert_close(estimate(exact[order]), result[order], rtol=1e-6, atol=1e-9)
        assert abs(result.sum().item()) < 1e-6


@thorough
@given(
    st.floats(-1e4, 1e4, width=16),
    st.integers(2, 33),
    st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
)
def test_every_uniform_group_is_exactly_zero(reward: float, size: int, dtype: torch.dtype) -> None:
    uniform = torch.full((size,), reward, dtype=dtype)
    assert fast.leave_one_out_advantages(uniform).eq(0).all()
    assert fast.group_standardized_advantages(uniform).eq(0).all()
    assert fast.group_standardized_advantages(uniform, eps=0.0).eq(0).all()


@thorough
@given(st.lists(numbers, min_size=1, max_size=5), st.integers(0, 10**6))
def test_turns_equal_a_lookup(turns: list[float], seed: int) -> None:
    torch.manual_seed(seed)
    ids, mask = torch.randint(-2, len(turns) + 2, (20,)), torch.rand(20) < 0.5
    mask &= (ids >= 0) & (ids < len(turns))
    tokens = fast.broadcast_turn_advantages(torch.tensor(turns, dtype=torch.float64), ids, mask)
    assert tokens.tolist() == [turns[k] if m else 0.0 for k, m in zip(ids.tolist(), mask.tolist(), strict=True)]
