"""`bootstrap_value`, in the shapes it may have -> the value that follows each cut end.

One value per row; with packed rows one per episode, as a table per row or as one for the whole batch; a number stands for all.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.lookup import look_up
from rosellm.roserlhf.credit.timeline import Timeline, repeated_ids
from rosellm.roserlhf.errors import RangeError, ShapeError


def read_bootstrap(
    bootstrap_value: Tensor | float | None, timeline: Timeline, rewards: Tensor, episode_ids: Tensor | None = None
) -> Tensor:
    """Return the value after each cut end, broadcastable to the shape of `rewards`; what stands elsewhere is never read."""
    if bootstrap_value is None:
        return torch.zeros_like(rewards[..., :1])
    if isinstance(bootstrap_value, Tensor):
        after = _from_tensor(bootstrap_value, timeline, rewards, episode_ids)
    else:
        checks.number_in(bootstrap_value, "bootstrap_value", float("-inf"), float("inf"))
        after = torch.full_like(rewards[..., :1], bootstrap_value)
    checks.finite(after.expand_as(rewards), "bootstrap_value", where=timeline.last & timeline.continues)
    return after


def _from_tensor(bootstrap_value: Tensor, timeline: Timeline, rewards: Tensor, episode_ids: Tensor | None) -> Tensor:
    checks.floating(bootstrap_value, "bootstrap_value")
    checks.same_device(bootstrap_value, "bootstrap_value", rewards, "rewards")
    rest, shape = rewards.shape[:-1], bootstrap_value.shape
    if bootstrap_value.ndim == 0:
        return bootstrap_value.expand_as(rewards[..., :1])
    if episode_ids is None:
        if shape != rest:
            raise checks.fail(ShapeError, "bootstrap_value", f"have the shape of rewards without time {tuple(rest)}", tuple(shape))
        return bootstrap_value.unsqueeze(-1)
    if shape[-1] == 0 or shape[:-1] not in (rest, ()):
        allowed = f"be [E] or {[*rest, 'E']}: one value per episode, indexed by episode_ids"
        raise checks.fail(ShapeError, "bootstrap_value", allowed, f"shape {tuple(shape)}")
    if shape[:-1] != rest:
        _one_table_for_all_rows(episode_ids, timeline)
    table = bootstrap_value.expand(*rest, shape[-1])
    return look_up(table, episode_ids, timeline.valid, ids_name="episode_ids", fix="the ids index bootstrap_value")


def _one_table_for_all_rows(episode_ids: Tensor, timeline: Timeline) -> None:
    checks.each(
        "episode_ids",
        "name each episode of the batch once when bootstrap_value is one table [E] for all rows",
        lambda: (episode_ids, repeated_ids(episode_ids.flatten(), timeline.last.flatten()).view_as(episode_ids)),
        RangeError,
        fix="give one table per row, [..., E]",
    )
