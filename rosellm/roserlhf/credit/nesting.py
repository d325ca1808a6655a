"""Rows of members of groups (steps of trajectories, leaves of trees) -> the group of each member; groups of one refused."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.identifiers import blocks
from rosellm.roserlhf.errors import GroupError

Singleton = Literal["zero", "error"]
"""What a group of one is worth: no signal, or a mistake."""


def group_of_members(members: Tensor, count: int, groups: Tensor, argument: str) -> Tensor:
    """Return the group of each of `count` members, `[M]`, and require all rows of one member to agree on it (dense ids)."""
    group = groups.new_empty(count).index_copy_(0, members, groups)
    fix = "the id of each is unique over the batch: use (group, member) pairs if yours are counted within a group"

    def read() -> tuple[Tensor, Tensor]:
        other = torch.empty_like(members, dtype=torch.bool)
        size = blocks(members)
        for part, rows, own in zip(other.split(size), members.split(size), groups.split(size), strict=True):
            torch.ne(group.index_select(0, rows), own, out=part)
        return members, other

    checks.each(argument, "belong to one group each (as dense numbers here)", read, GroupError, fix=fix)
    return group


def refuse_singletons(members: Tensor, argument: str, what: str) -> None:
    """Require every group that has members at all to have at least two."""
    fix = "sample more rollouts per task, or choose singleton='zero'"
    checks.each(argument, f"have more than one {what}", lambda: (members, members == 1), GroupError, fix=fix)
