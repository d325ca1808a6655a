"""Outcomes of groups -> which rows are worth training on (DAPO's dynamic sampling)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.members import Ids, read_members
from rosellm.roserlhf.credit.statistics import group_statistics
from rosellm.roserlhf.errors import RangeError


@torch.no_grad()
def dynamic_sampling_mask(
    rewards: Tensor,
    group_ids: Ids,
    *,
    rule: Literal["some_correct", "not_uniform"] = "some_correct",
    scored_mask: Tensor | None = None,
) -> Tensor:
    r"""Keep the groups in which some members succeeded and some failed.

    .. math:: \text{keep}_g = \mathbb 1\Big[\,0 < \textstyle\sum_{i\in g} c_i < n_g\,\Big]

    :math:`c_i` is 1 for a correct member, :math:`n_g` counts the *scored* members; both inequalities are strict, so a group with
    one scored member is never kept (verl keeps rollouts that are alone). The other groups have advantage 0 under group
    baselines; here they leave the denominator as well, and the caller samples other tasks until the batch is full, or gives up
    after a bounded number of rounds. Judge the raw outcome, before penalties: a length penalty makes every group look mixed.

    `rule="not_uniform"` is the reading for rewards of any values: keep iff largest > smallest, decided by comparison and not by a
    standard deviation, whose rounding lets uniform groups through.

    Source: Yu et al. 2025, "DAPO", Eq. 11, https://arxiv.org/abs/2503.14476

    Args:
        rewards: `[N]`, floating point, or boolean with `"some_correct"`; exactly 0 or 1 there.
        group_ids: `[N]`, as in `grouped_advantages`.
        rule: what a group needs to be kept.
        scored_mask: `[N]`, boolean or exactly 0/1; a row that is not scored is not counted and never kept. None: all scored.

    Returns:
        `[N]` boolean, true for the scored rows of kept groups: a row mask.

    Raises:
        DtypeError, ShapeError, DeviceError, MaskError: the arguments are of the wrong kind or do not fit each other.
        NonFiniteError: NaN or infinity in a scored reward.
        RangeError: `rule` is unknown, or a scored reward is not 0 or 1 with `"some_correct"`.

    Example:
        >>> correct = torch.tensor([1.0, 1.0, 0.0, 0.0, 1.0, 0.0])
        >>> dynamic_sampling_mask(correct, ["a", "a", "b", "b", "c", "c"])
        tensor([False, False, False, False,  True,  True])
    """
    checks.one_of(rule, "rule", ("some_correct", "not_uniform"))
    checks.tensor(rewards, "rewards")
    if rule == "some_correct" and rewards.dtype == torch.bool:
        rewards = rewards.float()
    ids, scored = read_members(rewards, group_ids, scored_mask)
    found = group_statistics(rewards, ids, scored)
    if rule == "some_correct":
        checks.each(
            "rewards",
            "be exactly 0 or 1 wherever a row is scored",
            lambda: (rewards, (rewards != 0) & (rewards != 1) & found.where),
            RangeError,
            fix="rule='not_uniform' judges other rewards",
        )
    return ~found.of_rows(found.uniform) & found.where  # of zeros and ones, some right and some wrong is: not uniform
