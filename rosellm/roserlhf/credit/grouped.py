"""Rewards and group ids -> advantages relative to the group. Groups are found by id, never by position: any order, any size."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.members import Ids, read_members
from rosellm.roserlhf.credit.statistics import GroupStatistics, StdKind, check_std, group_count, group_statistics
from rosellm.roserlhf.errors import GroupError
from rosellm.roserlhf.masked import at_least_float32

Baseline = Literal["mean", "leave_one_out"]
Scale = Literal["std", "none", "batch_std"]


@torch.no_grad()
def grouped_advantages(
    rewards: Tensor,
    group_ids: Ids,
    *,
    group_size: int | None = None,
    partial_groups: Literal["error", "admit"] = "error",
    scored_mask: Tensor | None = None,
    baseline: Baseline = "mean",
    scale: Scale = "std",
    std: StdKind = "population",
    eps: float = 1e-8,
    singleton: Literal["zero", "error"] = "zero",
) -> Tensor:
    r"""Compare every reward with the others of its group: GRPO, Dr. GRPO and RLOO over ragged groups in any order.

    .. math::
        A_i = \frac{c\,(R_i - \bar R_{g(i)})}{s + \epsilon},\qquad
        c = \begin{cases} 1 & \text{mean} \\ \frac{n}{n-1} & \text{leave one out} \end{cases}

    :math:`\bar R_g` and n are mean and number of the *scored* members of the group; s is the standard deviation of the group
    (`scale="std"`), that of the raw rewards of all scored rows of the batch (`"batch_std"`), or nothing (`"none"`: no division, no
    :math:`\epsilon`). Leave one out is the mean of the others, :math:`R_i - \frac{1}{n-1}\sum_{k\ne i} R_k`; divided by a standard
    deviation it still takes that of the whole group, for the others of a lone success have none.

    | reading | arguments |
    |---|---|
    | GRPO | defaults |
    | GRPO in verl, TRL, OpenRLHF, slime | `std="sample"`, `eps` 1e-6, 1e-4, 1e-9, 1e-6 |
    | Dr. GRPO | `scale="none"` |
    | RLOO | `baseline="leave_one_out", scale="none"` |
    | group mean over the batch's deviation (TRL) | `scale="batch_std", std="sample", eps=1e-4` |
    | first half of REINFORCE++-baseline | `scale="none"`, then `batch_standardized_advantages` over the tokens |

    The paper does not say which deviation it means. Peers find groups by position, or take a ragged batch for one group.

    Degenerate cases: a uniform group (largest = smallest scored reward, never a small deviation) is exactly 0 under every option.
    A group with a single scored member is 0 and keeps its place in the denominators, or an error; several peers let the raw reward
    through. An unscored member is as if it had never been launched: no part in any statistic and advantage 0, which alone does not
    take it out of a loss; *use `scored_mask` as row mask there, too*, so that it leaves the denominator.

    Sources: Shao et al. 2024, "DeepSeekMath", section 4.1.2, https://arxiv.org/abs/2402.03300; Liu et al. 2025, "Understanding
    R1-Zero-Like Training", https://arxiv.org/abs/2503.20783; Ahmadian et al. 2024, https://arxiv.org/abs/2402.14740

    Args:
        rewards: `[N]`, floating point, one per rollout (not per turn or token: a long rollout would vote several times).
        group_ids: `[N]`, the task of each rollout: an integer tensor, an array of integers or strings, or hashable values.
        group_size: members that each group must have, unscored ones included; None: any number.
        partial_groups: `"admit"` lets groups smaller than `group_size` pass; larger ones stay errors.
        scored_mask: `[N]`, boolean or exactly 0/1, false where there is no reward; what stands there is not read. None: all scored.
        baseline: what is subtracted.
        scale: what is divided by.
        std: divisor n, or n - 1 under the root. Sample advantages are the population's times :math:`\sqrt{(n-1)/n}`.
        eps: added to the deviation, outside the root, ≥ 0.
        singleton: what happens to a group with exactly one scored member.

    Returns:
        `[N]`, detached; float32, or float64 for float64 `rewards` (computed in float64 either way).

    Raises:
        DtypeError: `rewards` is not floating point, or `group_ids` cannot name groups.
        ShapeError, DeviceError: the arguments do not fit each other.
        GroupError: a group has another size than `group_size`, or one scored member with `singleton="error"`.
        MaskError: `scored_mask` is not 0/1.
        NonFiniteError: NaN or infinity in a scored reward, or NaN among the ids.
        RangeError: an option is unknown, or `eps` or `group_size` out of range.

    Example:
        >>> rewards = torch.tensor([1.0, 0.0, 0.0, 5.0, 1.0, 2.0])
        >>> grouped_advantages(rewards, ["c", "a", "c", "b", "a", "c"], scale="none")  # c: mean 1; a: 1/2; b is alone
        tensor([ 0.0000, -0.5000, -1.0000,  0.0000,  0.5000,  1.0000])
    """
    _check_options(partial_groups, baseline, scale, std, eps, singleton)
    ids, scored = read_members(rewards, group_ids, scored_mask)
    found = group_statistics(rewards, ids, scored)
    if group_size is not None:
        _check_size(ids, len(found.count), group_size, partial_groups)
    if singleton == "error":
        _check_singletons(found)
    if scale == "std":
        advantages = found.standardized(std, eps)
    elif scale == "batch_std":
        advantages = found.centred() / _batch_scale(rewards, scored, std, eps)
    else:
        advantages = found.centred()
    if baseline == "leave_one_out":
        count = found.count.to(advantages.dtype)
        advantages = advantages * found.of_rows(count / (count - 1).clamp(min=1))
    return advantages.to(at_least_float32(rewards).dtype)


def _batch_scale(rewards: Tensor, scored: Tensor | None, std: StdKind, eps: float) -> Tensor:
    """Deviation of all scored rewards plus eps; 1 where they are uniform and every group with them."""
    batch = group_statistics(rewards, torch.zeros_like(rewards, dtype=torch.int64), scored, groups=1)
    return torch.where(batch.uniform, 1.0, batch.deviation(std) + eps)


def _check_options(partial_groups: str, baseline: str, scale: str, std: str, eps: float, singleton: str) -> None:
    checks.one_of(partial_groups, "partial_groups", ("error", "admit"))
    checks.one_of(baseline, "baseline", ("mean", "leave_one_out"))
    checks.one_of(scale, "scale", ("std", "none", "batch_std"))
    check_std(std)
    checks.number_in(eps, "eps", 0.0, float("inf"), open_high=True)
    checks.one_of(singleton, "singleton", ("zero", "error"))


def _check_size(ids: Tensor, groups: int, group_size: int, partial_groups: str) -> None:
    checks.count(group_size, "group_size", at_least=1)
    size = group_count(ids, groups)[ids]
    admit = partial_groups == "admit"
    checks.each(
        "group_ids",
        f"put {'at most ' if admit else ''}group_size={group_size} members into every group",
        lambda: (size, size > group_size if admit else size != group_size),
        GroupError,
        fix=None if admit else "partial_groups='admit' lets smaller groups pass",
    )


def _check_singletons(found: GroupStatistics) -> None:
    count = found.count[found.ids]
    checks.each(
        "group_ids",
        "put at least 2 scored members into every group",
        lambda: (count, (count == 1) & found.where),
        GroupError,
        fix="singleton='zero' gives a lone member advantage 0",
    )
