"""Trees: leaves inside their tree and across trees, the budget of a search, and what shared prefixes are trained with."""

from __future__ import annotations

import math
from typing import Any

import oracles_steps as slow
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rosellm.roserlhf import errors
from rosellm.roserlhf.advantages import tree_advantages, tree_budget, tree_token_weights

thorough = settings(derandomize=True, max_examples=60, deadline=None)
NAN = float("nan")
ROOT2 = math.sqrt(2)


def double(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(found: Tensor, expected: object, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(found, double(expected), atol=tolerance, rtol=0)


def test_two_trees_of_three_leaves_by_hand() -> None:
    # tree t: mean 2/3, deviation sqrt(2)/3: 1/sqrt(2), -sqrt(2), 1/sqrt(2); tree u mirrors it; the task: mean 1/2, deviation 1/2
    found = tree_advantages(double([1, 0, 1, 0, 0, 1]), list("tttuuu"), ["task"] * 6, eps=0.0)
    close(found.intra_advantages, [1 / ROOT2, -ROOT2, 1 / ROOT2, -1 / ROOT2, -1 / ROOT2, ROOT2])
    close(found.inter_advantages, [1, -1, 1, -1, -1, 1])
    close(found.advantages, [1 / ROOT2 + 1, -ROOT2 - 1, 1 / ROOT2 + 1, -1 / ROOT2 - 1, -1 / ROOT2 - 1, ROOT2 + 1])
    sample = tree_advantages(double([1, 0, 1, 0, 0, 1]), list("tttuuu"), ["task"] * 6, std="sample", eps=1e-6)
    close(sample.intra_advantages[:2], [1 / 3 / (math.sqrt(1 / 3) + 1e-6), -2 / 3 / (math.sqrt(1 / 3) + 1e-6)])


def test_uniform_trees_still_compare_with_each_other() -> None:
    found = tree_advantages(torch.tensor([0.9, 0.9, 0.9, 0.1, 0.1, 0.1]), list("tttuuu"), ["task"] * 6, eps=0.0)
    assert found.intra_advantages.tolist() == [0.0] * 6
    close(found.inter_advantages.double(), [1, 1, 1, -1, -1, -1], 1e-6)
    uniform = tree_advantages(torch.full((6,), 0.1), list("tttuuu"), ["task"] * 6, eps=0.0)
    assert uniform.advantages.tolist() == [0.0] * 6


def test_a_tree_of_one_leaf_adds_nothing_from_inside() -> None:
    # rewards 1, 0, 0: mean 1/3, deviation sqrt(2)/3; the raw reward 1 does not enter
    found = tree_advantages(double([1, 0, 0]), ["t", "u", "v"], ["task"] * 3, eps=0.0)
    close(found.intra_advantages, [0, 0, 0])
    close(found.advantages, [ROOT2, -1 / ROOT2, -1 / ROOT2])
    assert tree_advantages(double([0.7]), ["t"], ["task"]).advantages.tolist() == [0.0]
    with pytest.raises(errors.GroupError, match="group_ids must have more than one scored leaf"):
        tree_advantages(double([0.7]), ["t"], ["task"], singleton="error")


@pytest.mark.parametrize(("wins", "losses"), [(1, 1), (3, 7), (1, 9)])
def test_binary_outcomes_weigh_pairs_by_p_times_one_minus_p(wins: int, losses: int) -> None:
    leaves, p = wins + losses, wins / (wins + losses)
    found = tree_advantages(double([1] * wins + [0] * losses), ["t"] * leaves, ["task"] * leaves, normalization="none")
    # winners have 1 - p and are a share p; losers have -p and are a share 1 - p
    assert found.intra_advantages[:wins].sum().item() / leaves == pytest.approx(p * (1 - p))
    assert found.intra_advantages[wins:].sum().item() / leaves == pytest.approx(-p * (1 - p))


def test_unscored_leaves_take_no_part() -> None:
    mask = torch.tensor([True, True, False, True])
    found = tree_advantages(double([1, 0, NAN, 0]), ["t", "t", "t", "u"], ["task"] * 4, scored_mask=mask, eps=0.0)
    close(found.intra_advantages, [1, -1, 0, 0])
    close(found.inter_advantages, [ROOT2, -1 / ROOT2, 0, -1 / ROOT2])


leaves = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 0.3, -2.0]), st.integers(0, 6)), min_size=1, max_size=20)


@thorough
@given(leaves, st.sampled_from(["population", "sample", None]), st.randoms(use_true_random=False))
def test_against_loops_in_any_order(table: list[tuple[float, int]], std: Any, random: Any) -> None:
    random.shuffle(table)
    rewards, trees = [row[0] for row in table], [row[1] for row in table]
    tasks = [f"task {tree % 2}" for tree in trees]
    reading = {"normalization": "std" if std else "none", "std": std or "population"}
    found = tree_advantages(double(rewards), torch.tensor(trees), tasks, eps=1e-3, **reading)  # type: ignore[arg-type]
    intra = slow.by_group(rewards, trees, lambda r: slow.relative(r, std, 1e-3))
    inter = slow.by_group(rewards, tasks, lambda r: slow.relative(r, std, 1e-3))
    close(found.intra_advantages, intra, 1e-9)
    close(found.inter_advantages, inter, 1e-9)
    close(found.advantages, [a + b for a, b in zip(intra, inter, strict=True)], 1e-9)
    assert found.advantages.requires_grad is False


def test_budget() -> None:
    # M (L N + 1) leaves for M + L N M / 2 chains
    budgets = [tree_budget(*mnl) for mnl in ((2, 2, 1), (2, 4, 1), (4, 1, 1), (1, 3, 2), (16, 0, 0))]
    assert [budget.leaves for budget in budgets] == [6, 10, 8, 7, 16]
    assert [budget.expected_chains for budget in budgets] == [4.0, 6.0, 6.0, 4.0, 16.0]
    with pytest.raises(errors.RangeError, match="num_trees must be at least 1"):
        tree_budget(0, 1, 1)
    with pytest.raises(errors.DtypeError, match="num_rounds must be a whole number"):
        tree_budget(1, 1, 1.0)  # type: ignore[arg-type]


def test_shared_prefix_under_both_readings() -> None:
    # leaf 0: tokens p q a; leaves 1 and 2 share p q and sampled 3 and 2 tokens
    advantages, tree = double([1, -0.5, -0.5]), (torch.tensor([3, 3, 2]), torch.tensor([-1, 0, 0]), torch.tensor([0, 2, 2]))
    everyone = tree_token_weights(advantages, *tree, prefix="all_leaves")
    assert everyone.multiplicity.tolist() == [3, 3, 1, 1, 1, 1, 1, 1]
    assert everyone.multiplicity.sum() == 12  # 3 rows of 3, 5 and 4 tokens
    close(everyone.coefficient, [0, 0, 1, -0.5, -0.5, -0.5, -0.5, -0.5])
    own = tree_token_weights(advantages, *tree, prefix="own_suffix")
    assert own.multiplicity.tolist() == [1] * 8
    close(own.coefficient, [1, 1, 1, -0.5, -0.5, -0.5, -0.5, -0.5])
    assert own.leaf.tolist() == everyone.leaf.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]


def test_a_branch_of_a_branch() -> None:
    # leaf 0: a b c; leaf 1: a b | d e; leaf 2 leaves leaf 1 after a b d; leaf 3 leaves leaf 1 after a, which leaf 0 sampled
    tree = torch.tensor([3, 2, 1, 1]), torch.tensor([-1, 0, 1, 1]), torch.tensor([0, 2, 3, 1])
    found = tree_token_weights(double([1, 10, 100, 1000]), *tree, prefix="all_leaves")
    close(found.coefficient, [1111, 111, 1, 110, 10, 100, 1000])  # a, b, c, d, e and the last tokens of leaves 2 and 3


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[float], list[int], list[int], list[int]]:
    own: list[int] = []
    parents: list[int] = []
    shared: list[int] = []
    for leaf in range(draw(st.integers(1, 8))):
        parent = draw(st.integers(-1, leaf - 1))
        parents.append(parent)
        own.append(draw(st.integers(0, 4)))
        shared.append(draw(st.integers(0, own[parent] + shared[parent])) if parent >= 0 else 0)
    return [draw(st.sampled_from([1.0, -0.5, 0.25])) for _ in own], own, parents, shared


@thorough
@given(forests(), st.sampled_from(["own_suffix", "all_leaves"]), st.randoms(use_true_random=False))
def test_token_weights_against_paths(forest: tuple[list[float], list[int], list[int], list[int]], prefix: Any, random: Any) -> None:
    advantages, own, parents, shared = forest
    order = random.sample(range(len(own)), len(own))  # parents may stand after their branches
    index = [order.index(parent) if parent >= 0 else -1 for parent in parents]
    advantages, own, parents, shared = ([values[i] for i in order] for values in (advantages, own, index, shared))
    tree = torch.tensor(own), torch.tensor(parents), torch.tensor(shared)
    found = tree_token_weights(double(advantages), *tree, prefix=prefix)
    multiplicity, coefficient = slow.token_weights(advantages, own, parents, shared, prefix)
    assert found.multiplicity.tolist() == multiplicity
    close(found.coefficient, coefficient)
    rows = [n + s if prefix == "all_leaves" else n for n, s in zip(own, shared, strict=True)]
    assert found.multiplicity.sum() == sum(rows)  # every trained token of every row is counted
    assert found.coefficient.sum().item() == pytest.approx(sum(a * n for a, n in zip(advantages, rows, strict=True)))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"advantages": torch.zeros(2, 1)}, errors.ShapeError, r"advantages must be \[N\]"),
        ({"advantages": torch.tensor([NAN, 0.0])}, errors.NonFiniteError, "advantages must be finite"),
        ({"own_tokens": torch.tensor([1.0, 2.0])}, errors.DtypeError, "own_tokens must be an integer tensor"),
        ({"own_tokens": torch.tensor([-1, 2])}, errors.RangeError, "own_tokens must be in"),
        ({"parents": torch.tensor([-1, 2])}, errors.RangeError, r"parents must be in \[-1, 2\)"),
        ({"parents": torch.tensor([1, 0]), "shared_tokens": torch.tensor([0, 0])}, errors.RangeError, "parents must form trees"),
        ({"parents": torch.tensor([-1, 1])}, errors.RangeError, "parents must form trees"),
        ({"shared_tokens": torch.tensor([1, 1])}, errors.RangeError, "shared_tokens must be at most"),
        ({"shared_tokens": torch.tensor([0, 5])}, errors.RangeError, "shared_tokens must be at most"),
        ({"prefix": "backbone"}, errors.RangeError, "prefix must be one of"),
    ],
)
def test_errors_of_token_weights(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    given_: dict[str, Any] = {
        "advantages": torch.zeros(2),
        "own_tokens": torch.tensor([3, 1]),
        "parents": torch.tensor([-1, 0]),
        "shared_tokens": torch.tensor([0, 2]),
        "prefix": "all_leaves",
    }
    with pytest.raises(error, match=message):
        tree_token_weights(**{**given_, **arguments})


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"rewards": torch.zeros(0)}, errors.ShapeError, r"rewards must be \[N\] with at least one leaf"),
        ({"rewards": torch.tensor([0.0, NAN])}, errors.NonFiniteError, "rewards must be finite"),
        ({"tree_ids": ["t"]}, errors.ShapeError, "tree_ids must have one id for each of the 2 rows"),
        ({"group_ids": [0, 1]}, errors.GroupError, "tree_ids must belong to one group each"),
        ({"normalization": "mean"}, errors.RangeError, "normalization must be one of"),
        ({"eps": NAN}, errors.RangeError, "eps must be in"),
        ({"singleton": "raw"}, errors.RangeError, "singleton must be one of"),
    ],
)
def test_errors_of_advantages(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tree_advantages(**{"rewards": torch.zeros(2), "tree_ids": ["t", "t"], "group_ids": [0, 0], **arguments})
