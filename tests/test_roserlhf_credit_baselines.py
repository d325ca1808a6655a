"""Baselines without a group: a running mean that never sees the reward it judges, and the constant of least variance."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles_groups import running_mean

from rosellm.roserlhf.advantages import RunningMeanBaseline, variance_optimal_baseline
from rosellm.roserlhf.errors import CheckpointError, DtypeError, MaskError, NonFiniteError, RangeError, RoseError, ShapeError

thorough = settings(derandomize=True, max_examples=60, deadline=None)
NAN, INF = float("nan"), float("inf")


def test_the_reward_is_never_part_of_its_own_baseline() -> None:
    # window 2: 1 - 0 (nothing yet), 0 - 1, 0 - (1 + 0) / 2, 1 - (0 + 0) / 2
    found = RunningMeanBaseline(window=2).advantages(torch.tensor([1.0, 0.0, 0.0, 1.0]), ["t"] * 4)
    assert found.tolist() == [1.0, -1.0, -0.5, 1.0]


def test_every_task_has_its_own_mean_and_its_own_start() -> None:
    baseline = RunningMeanBaseline(window=8, initial=0.5)
    found = baseline.advantages(torch.tensor([1.0, 0.0, 1.0, 1.0]), ["a", "b", "a", "b"])
    assert found.tolist() == [0.5, -0.5, 0.0, 1.0]
    assert (baseline.baseline("a"), baseline.baseline("b"), baseline.baseline("new")) == (1.0, 0.5, 0.5)


@thorough
@given(
    st.lists(st.tuples(st.integers(-8, 8), st.integers(0, 3)), max_size=40),
    st.integers(1, 9),
    st.integers(0, 40),
)
def test_against_the_loop_and_across_calls(rows: list[tuple[int, int]], window: int, cut: int) -> None:
    rewards, tasks = torch.tensor([float(r) for r, _ in rows], dtype=torch.float64), [t for _, t in rows]
    expected = running_mean(rewards.tolist(), tasks, window, 0.25)
    assert RunningMeanBaseline(window, 0.25).advantages(rewards, tasks).tolist() == pytest.approx(expected, abs=1e-12)
    first, second = RunningMeanBaseline(window, 0.25), RunningMeanBaseline(window, 0.25)
    before = first.advantages(rewards[:cut], tasks[:cut])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    after = second.advantages(rewards[cut:], torch.tensor(tasks[cut:], dtype=torch.int64))
    assert torch.cat([before, after]).tolist() == pytest.approx(expected, abs=1e-12)


def test_the_state_is_plain_json_and_keeps_what_an_id_is() -> None:
    baseline = RunningMeanBaseline(window=2)
    baseline.advantages(torch.tensor([1.0, 2.0, 3.0, 4.0]), ["1", "1", "1", "x"])
    baseline.advantages(torch.tensor([5.0]), np.array([1]))
    state = json.loads(json.dumps(baseline.state_dict()))
    assert state == {"rewards": [["1", [2.0, 3.0]], ["x", [4.0]], [1, [5.0]]]}
    again = RunningMeanBaseline(window=1)
    again.load_state_dict(state)
    assert (again.baseline("1"), again.baseline(1), again.baseline(np.int64(1))) == (3.0, 5.0, 5.0)


def test_an_unscored_reward_is_neither_measured_nor_remembered() -> None:
    baseline = RunningMeanBaseline()
    found = baseline.advantages(torch.tensor([1.0, NAN, 0.0]), ["t"] * 3, scored_mask=torch.tensor([True, False, True]))
    assert found.tolist() == [1.0, 0.0, -1.0]
    assert baseline.state_dict() == {"rewards": [["t", [1.0, 0.0]]]}


def test_a_refused_batch_leaves_no_trace() -> None:
    baseline = RunningMeanBaseline()
    with pytest.raises(NonFiniteError, match=r"rewards must be finite wherever a row is scored, got nan"):
        baseline.advantages(torch.tensor([1.0, NAN]), ["t", "t"])
    assert baseline.state_dict() == {"rewards": []}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_dtypes(dtype: torch.dtype) -> None:
    rewards = torch.tensor([1.0, 0.5], dtype=dtype, requires_grad=True)
    found = RunningMeanBaseline().advantages(rewards, [0, 0])
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert not found.requires_grad


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: RunningMeanBaseline(window=0), RangeError, "window must be at least 1, got 0"),
        (lambda: RunningMeanBaseline(window=2.5), DtypeError, "window must be a whole number"),  # type: ignore[arg-type]
        (lambda: RunningMeanBaseline(initial=NAN), RangeError, "initial must be in"),
        (lambda: RunningMeanBaseline(initial=INF), RangeError, "initial must be in"),
        (lambda: RunningMeanBaseline().baseline(1.5), DtypeError, r"task_ids must be strings or integers, got 1\.5 \(float\)"),  # type: ignore[arg-type]
        (lambda: RunningMeanBaseline().advantages(torch.ones(1), [("a", 1)]), DtypeError, "task_ids must be strings or integers"),
        (lambda: RunningMeanBaseline().advantages(torch.ones(1), [True]), DtypeError, "task_ids must be strings or integers"),
        (lambda: RunningMeanBaseline().advantages(torch.ones(1), torch.ones(1)), DtypeError, "task_ids must be an integer tensor"),
        (
            lambda: RunningMeanBaseline().advantages(torch.ones(2), ["a"]),
            ShapeError,
            "task_ids must have one id for each of the 2 rows",
        ),
        (lambda: RunningMeanBaseline().advantages(torch.ones(1, 1), ["a"]), ShapeError, "rewards must have 1 dimension"),
        (
            lambda: RunningMeanBaseline().advantages(torch.ones(1, dtype=torch.int64), ["a"]),
            DtypeError,
            "rewards must be a floating",
        ),
        (
            lambda: RunningMeanBaseline().advantages(torch.ones(1), ["a"], scored_mask=torch.tensor([0.5])),
            MaskError,
            "scored_mask must be boolean",
        ),
    ],
)
def test_bad_input_is_named(call: Any, error: type[RoseError], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"rewards": 3},
        {"rewards": [["a"]]},
        {"rewards": [["a", ["x"]]]},
        {"rewards": [["a", [NAN]]]},
        {"rewards": [[1.5, [1.0]]]},
        {"rewards": [["a", []], ["a", []]]},
        None,
    ],
)
def test_a_state_of_something_else_is_refused_and_changes_nothing(state: Any) -> None:
    baseline = RunningMeanBaseline()
    baseline.advantages(torch.ones(1), ["a"])
    with pytest.raises(CheckpointError, match="state must be what state_dict returned"):
        baseline.load_state_dict(state)
    assert baseline.baseline("a") == 1.0


# the constant of least variance, on a bandit with three arms that can be summed exactly

P = torch.softmax(torch.tensor([0.2, -0.1, 0.5], dtype=torch.float64), 0)
ARMS = torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)
SCORES = torch.eye(3, dtype=torch.float64) - P  # gradient of log p(a) with respect to the logits


def trace_of_variance(baseline: float) -> float:
    gradients = (ARMS - baseline)[:, None] * SCORES
    mean = (P[:, None] * gradients).sum(0)
    return float((P[:, None] * (gradients - mean).square()).sum())


def test_the_best_constant_is_not_the_mean_reward() -> None:
    best = float(variance_optimal_baseline(ARMS, SCORES.square().sum(1), weights=P))
    mean = float((P * ARMS).sum())
    assert [best, mean] == pytest.approx([1.0, 1.197057337704941], abs=1e-12)
    assert trace_of_variance(0.0) == pytest.approx(0.8564814063600004)
    assert trace_of_variance(mean) == pytest.approx(0.23450221094826113)
    assert trace_of_variance(best) == pytest.approx(0.20937399859328137)
    assert trace_of_variance(best) < min(trace_of_variance(best - 0.01), trace_of_variance(best + 0.01))


def test_any_constant_leaves_the_mean_gradient_as_it_is() -> None:
    for baseline in (0.0, 1.0, -7.0):
        gradient = (P[:, None] * (ARMS - baseline)[:, None] * SCORES).sum(0)
        assert gradient.tolist() == pytest.approx([-0.06375863149182762, -0.28692803514072684, 0.3506866666325545], abs=1e-12)


def test_samples_are_weighed_alike() -> None:
    # (1 * 2 + 3 * 4) / (1 + 3)
    found = variance_optimal_baseline(torch.tensor([2.0, 4.0]), torch.tensor([1.0, 3.0]))
    assert (found.item(), found.dtype, found.shape) == (3.5, torch.float32, ())


@pytest.mark.parametrize(
    ("norms", "weights", "error", "message"),
    [
        (torch.tensor([1.0]), None, ShapeError, "squared_score_norms must have the shape of rewards"),
        (torch.tensor([1.0, -1.0]), None, RangeError, "squared_score_norms must be finite and at least 0, got the value -1.0"),
        (torch.tensor([1.0, NAN]), None, RangeError, "squared_score_norms must be finite"),
        (torch.tensor([0.0, 0.0]), None, RangeError, "squared_score_norms must be positive somewhere"),
        (torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0]), RangeError, "squared_score_norms must be positive somewhere"),
        (torch.tensor([1.0, 1.0]), torch.tensor([1.0, -0.5]), RangeError, "weights must be finite and at least 0"),
    ],
)
def test_an_undefined_constant_is_an_error(norms: Any, weights: Any, error: type[RoseError], message: str) -> None:
    with pytest.raises(error, match=message):
        variance_optimal_baseline(torch.tensor([1.0, 0.0]), norms, weights=weights)
