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
from rosellm.roserlhf.masked import select


def read_bootstrap(bootstrap_value: Tensor | float | None, timeline: Timeline, argument: str = "bootstrap_value") -> Tensor:
    """Return the value after each cut end, `[..., 1]` for rows, `[..., T]` for packed ones; 0 where none is read."""
    first = timeline.given[..., :1].to(timeline.dtype)
    if bootstrap_value is None:
        after = torch.zeros_like(first)
    elif isinstance(bootstrap_value, Tensor):
        after = _from_tensor(bootstrap_value, timeline, argument).to(first.dtype)
    else:
        checks.number_in(bootstrap_value, argument, float("-inf"), float("inf"))
        if torch.finfo(first.dtype).max < abs(bootstrap_value) < float("inf"):
            requirement = f"be a number that {first.dtype} holds"
            raise checks.fail(RangeError, argument, requirement, f"{bootstrap_value!r:.80}", fix="give rewards in float64")
        after = torch.full_like(first, bootstrap_value)
    if timeline.episode_ids is None and checks.surely_finite(after):
        return after
    after = after.expand_as(timeline.given)
    checks.finite(after, argument, where=timeline.cut)
    after = select(after, timeline.cut)
    # one cut end per row at most: everything else is 0
    return after if timeline.episode_ids is not None else after.sum(-1, keepdim=True)


def _from_tensor(bootstrap_value: Tensor, timeline: Timeline, argument: str) -> Tensor:
    rewards, episode_ids = timeline.given, timeline.episode_ids
    checks.floating(bootstrap_value, argument)
    checks.same_device(bootstrap_value, argument, rewards, "rewards")
    rest, shape = rewards.shape[:-1], bootstrap_value.shape
    if bootstrap_value.ndim == 0:
        return bootstrap_value.expand_as(rewards[..., :1])
    if episode_ids is None:
        if shape != rest:
            raise checks.fail(ShapeError, argument, f"have the shape of rewards without time {tuple(rest)}", tuple(shape))
        return bootstrap_value.unsqueeze(-1)
    if shape[-1] == 0 or shape[:-1] not in (rest, ()):
        allowed = f"be [E] or {[*rest, 'E']}: one value per episode, indexed by episode_ids"
        raise checks.fail(ShapeError, argument, allowed, f"shape {tuple(shape)}")
    if shape[:-1] != rest:
        _one_table_for_all_rows(episode_ids, timeline, argument)
    table = bootstrap_value.expand(*rest, shape[-1])
    return look_up(table, episode_ids, timeline.valid, ids_name="episode_ids", fix=f"the ids index {argument}")


def _one_table_for_all_rows(episode_ids: Tensor, timeline: Timeline, argument: str) -> None:
    checks.each(
        "episode_ids",
        f"name each episode of the batch once when {argument} is one table [E] for all rows",
        lambda: (episode_ids, repeated_ids(episode_ids.flatten(), timeline.last.flatten()).view_as(episode_ids)),
        RangeError,
        fix="give one table per row, [..., E]",
    )
