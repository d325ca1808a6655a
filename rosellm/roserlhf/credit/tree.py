"""Outcomes of the leaves of trees -> advantages inside each tree plus advantages across the trees of a task (Tree-GRPO).

`credit/prefix.py` says with what weight the tokens are trained that several leaves share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.identifiers import number_of_groups
from rosellm.roserlhf.credit.members import Ids, read_members, row_ids
from rosellm.roserlhf.credit.nesting import Singleton, group_of_members, refuse_singletons
from rosellm.roserlhf.credit.statistics import GroupStatistics, StdKind, check_std, group_statistics
from rosellm.roserlhf.errors import ShapeError
from rosellm.roserlhf.masked import at_least_float32

Normalization = Literal["std", "none"]
"""Divide the distance from the mean by the standard deviation, or leave it as it is."""


@dataclass(frozen=True)
class TreeAdvantages:
    """The advantages of N leaves and their two parts; all tensors are `[N]` and detached."""

    advantages: Tensor
    """`intra_advantages + inter_advantages`."""
    intra_advantages: Tensor
    """Relative to the leaves of the same tree."""
    inter_advantages: Tensor
    """Relative to all leaves of the same task."""


@torch.no_grad()
def tree_advantages(
    rewards: Tensor,
    tree_ids: Ids,
    group_ids: Ids,
    *,
    normalization: Normalization = "std",
    std: StdKind = "population",
    eps: float = 1e-8,
    scored_mask: Tensor | None = None,
    singleton: Singleton = "zero",
) -> TreeAdvantages:
    r"""Compare every leaf with the leaves of its tree and with the leaves of its task, and add both.

    .. math::
        A_i = \frac{R_i - \bar R_{\text{tree}(i)}}{\sigma_{\text{tree}(i)} + \epsilon}
            + \frac{R_i - \bar R_{\text{task}(i)}}{\sigma_{\text{task}(i)} + \epsilon}

    A uniform tree adds exactly 0 from inside, and is still compared with the others; a uniform task is 0. A tree of one leaf has
    nothing inside to compare: 0. (The authors' code takes its mean as 0 and its deviation as 1, which adds the raw reward; that is
    not offered.) So one leaf per tree gives GRPO. The advantage belongs to the leaf's whole row; which of its tokens are
    trained with it is `tree_token_weights`.

    With `normalization="none"` and rewards 0 or 1, a tree with a share p of successes pushes its winners up and its losers down by
    p (1 - p) in sum, the pair weight that stands where step-level DPO has σ(β·margin) (Proposition 3.1 of the paper).

    Source: Ji et al. 2025, "Tree Search for LLM Agent Reinforcement Learning", https://arxiv.org/abs/2509.21240 (the authors' code
    takes the sample standard deviation and ε = 1e-6)

    Args:
        rewards: `[N]`, floating point: outcome of each leaf.
        tree_ids: N ids of any hashable kind: the tree of each leaf; no tree in two tasks.
        group_ids: N ids of any hashable kind: the task of each leaf.
        normalization: divide by the deviation, or not.
        std: divisor n (population) or n - 1 (sample); read by `normalization="std"`.
        eps: ε ≥ 0, read by `normalization="std"`.
        scored_mask: `[N]`, boolean or 0/1: an unscored leaf is not read, in no statistic, and gets 0. None: all are scored.
        singleton: a *task* with one scored leaf is 0, or an error.

    Returns:
        Advantages and both parts; float32, or float64 for float64 `rewards`.

    Raises:
        DtypeError, ShapeError, DeviceError: an argument has the wrong type, shape or device.
        NonFiniteError: NaN or infinity in a scored reward.
        RangeError: an option is unknown or `eps` negative.
        GroupError: a tree belongs to two tasks, or a task has one leaf and `singleton="error"`.

    Example:
        >>> found = tree_advantages(torch.tensor([1.0, 1.0, 0.0, 0.0]), ["t", "t", "u", "u"], ["task"] * 4)
        >>> found.intra_advantages, found.inter_advantages  # both trees are uniform
        (tensor([0., 0., 0., 0.]), tensor([ 1.,  1., -1., -1.]))
    """
    checks.floating(rewards, "rewards")
    if rewards.ndim != 1 or not rewards.numel():
        raise checks.fail(ShapeError, "rewards", "be [N] with at least one leaf", f"shape {tuple(rewards.shape)}")
    check_normalization(normalization, std, eps)
    checks.one_of(singleton, "singleton", ("zero", "error"))
    groups, scored = read_members(rewards, group_ids, scored_mask)
    trees = row_ids(tree_ids, "tree_ids", rewards)
    group_of_members(trees, number_of_groups(trees), groups, "tree_ids")
    within, across = group_statistics(rewards, trees, where=scored), group_statistics(rewards, groups, where=scored)
    if singleton == "error":
        refuse_singletons(across.count, "group_ids", "scored leaf per task")
    intra, inter = (relative(statistics, normalization, std, eps) for statistics in (within, across))
    dtype = at_least_float32(rewards).dtype
    return TreeAdvantages((intra + inter).to(dtype), intra.to(dtype), inter.to(dtype))


def check_normalization(normalization: str, std: str, eps: float) -> None:
    """Require known readings and an ε that can be added to a deviation."""
    checks.one_of(normalization, "normalization", ("std", "none"))
    check_std(std)
    checks.number_in(eps, "eps", 0.0, float("inf"), open_high=True)


def relative(
    statistics: GroupStatistics, normalization: Normalization, std: StdKind, eps: float, out: Tensor | None = None
) -> Tensor:
    """Return the distance of each selected row from the mean of its group, in deviations or as it is; 0 elsewhere."""
    return statistics.standardized(std, eps, out) if normalization == "std" else statistics.centred(out)


class TreeBudget(NamedTuple):
    """What a tree search costs and yields per task."""

    leaves: int
    """Complete rollouts: the size of the group."""
    expected_chains: float
    """Expected cost, in complete rollouts sampled from the start."""


def tree_budget(num_trees: int, num_expansions: int, num_rounds: int) -> TreeBudget:
    r"""Count the leaves and the expected cost of M trees with N expansions each in every one of L rounds.

    .. math:: G = M (L N + 1),\qquad \mathbb E[B] = M + \frac{L N M}{2}\ \text{chains}

    An expansion point is uniform along a rollout, so that a branch costs half of one on average.

    Source: Ji et al. 2025, section 3, https://arxiv.org/abs/2509.21240. (The authors' code keeps k leaves per tree of these.)

    Args:
        num_trees: M ≥ 1, rollouts from the start.
        num_expansions: N ≥ 0, branches per tree and round.
        num_rounds: L ≥ 0.

    Returns:
        `TreeBudget`: the leaves, a whole number, and the expected cost in rollouts from the start.

    Raises:
        DtypeError, RangeError: a number is no integer or too small.

    Example:
        >>> tree_budget(2, 2, 1)  # six rollouts for the price of four
        TreeBudget(leaves=6, expected_chains=4.0)
    """
    checks.count(num_trees, "num_trees", at_least=1)
    checks.count(num_expansions, "num_expansions")
    checks.count(num_rounds, "num_rounds")
    branches = num_rounds * num_expansions
    return TreeBudget(num_trees * (branches + 1), num_trees + num_trees * branches / 2)
