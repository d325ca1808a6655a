"""Numbers, the group of each and who was scored -> dense group ids and a boolean mask, checked against each other."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.identifiers import integer_ids
from rosellm.roserlhf.errors import NonFiniteError, ShapeError

Ids: TypeAlias = Tensor | np.ndarray[Any, Any] | Sequence[Hashable]
"""One identifier per row: an integer tensor, an array of integers or strings, or a list or tuple of hashable values."""


def read_members(rewards: Tensor, group_ids: Ids, scored_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Check rewards `[N]` with their groups and return dense ids `[N]` and, boolean `[N]`, who was scored (None: everyone)."""
    checks.floating(rewards, "rewards")
    if rewards.ndim != 1:
        raise checks.fail(ShapeError, "rewards", "have 1 dimension, one reward per row", f"shape {tuple(rewards.shape)}")
    ids = row_ids(group_ids, "group_ids", rewards)
    scored = read_scored(scored_mask, rewards)
    checks.each(
        "rewards",
        "be finite wherever a row is scored",
        lambda: (rewards, ~rewards.isfinite() if scored is None else ~rewards.isfinite() & scored),
        NonFiniteError,
        fix="leave what was not scored out of scored_mask",
    )
    return ids, scored


def row_ids(ids: Ids, argument: str, rows: Tensor) -> Tensor:
    """Number the identifiers of the rows; a tensor of ids must live where the rows live, other ids are moved there."""
    if isinstance(ids, Tensor):
        checks.same_device(ids, argument, rows, "rewards")
    return integer_ids(ids, argument, len(rows)).to(rows.device)


def read_scored(scored_mask: Tensor | None, rewards: Tensor) -> Tensor | None:
    """Return who was scored as a boolean tensor; None: everyone."""
    if scored_mask is None:
        return None
    checks.tensor(scored_mask, "scored_mask")
    checks.same_shape(scored_mask, "scored_mask", rewards, "rewards")
    scored: Tensor = checks.mask(scored_mask, "scored_mask")
    return scored
