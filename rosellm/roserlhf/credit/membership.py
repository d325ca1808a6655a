"""Who belongs to which group: ids of rows, checked against the rows, against each other and for groups of one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal

import numpy as np
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.identifiers import integer_ids, number_of_groups
from rosellm.roserlhf.credit.statistics import group_range
from rosellm.roserlhf.errors import GroupError

Ids = Tensor | np.ndarray[Any, Any] | Sequence[Hashable]
"""One id per row, of any hashable kind."""
Singleton = Literal["zero", "error"]
"""What a group of one is worth: no signal, or a mistake."""


def group_rows(ids: Ids, argument: str, rewards: Tensor) -> Tensor:
    """Return dense ids of the rows of `rewards` on its device, where a tensor of ids has to be already."""
    if isinstance(ids, Tensor):
        checks.same_device(ids, argument, rewards, "the rewards")
    return integer_ids(ids, argument, rewards.shape[0]).to(rewards.device)


def require_one_group(members: Tensor, argument: str, groups: Tensor) -> None:
    """Require all rows of one member (a tree, a trajectory; dense ids) to belong to one group."""

    def read() -> tuple[Tensor, Tensor]:
        low, high = group_range(groups.double(), members, number_of_groups(members))
        return members, (low != high)[members]

    fix = "the id of each is unique over the batch: use (group, member) pairs if yours are counted within a group"
    checks.each(argument, "belong to one group each (as dense numbers here)", read, GroupError, fix=fix)


def refuse_singletons(members: Tensor, argument: str, what: str) -> None:
    """Require every group that has members at all to have at least two."""
    fix = "sample more rollouts per task, or choose singleton='zero'"
    checks.each(argument, f"have more than one {what}", lambda: (members, members == 1), GroupError, fix=fix)
