"""Rewards and flags -> a timeline: which steps exist, where each episode ends, and which value comes next.

Every temporal estimator reads its arguments through this file, so that termination, truncation, absent time and packed episodes
mean the same thing in all of them:

- `valid_mask` false is absent time, anywhere in a row: next value and next advantage are carried across it, and nothing that stands
  there is read, NaN and flags included;
- `terminated` true ends an episode for good: nothing follows;
- an episode that ends without `terminated` was cut: its bootstrap value follows, or 0 if none is given.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.recursion import backward_recursion
from rosellm.roserlhf.errors import RangeError, ShapeError
from rosellm.roserlhf.masked import select


@dataclass(frozen=True)
class Timeline:
    """The steps of rows `[..., T]`."""

    valid: Tensor
    """Boolean: the step exists."""
    continues: Tensor
    """Boolean: the step exists and is not terminal, so what comes after it counts."""
    last: Tensor
    """Boolean: the step exists and no later step of its episode does."""
    following: Tensor
    """int64: index of the next step that exists, whatever its episode; T where there is none."""

    def next_values(self, values: Tensor, bootstrap: Tensor) -> Tensor:
        """Return the value after every step: of the next step, `bootstrap` (broadcast) at a cut end, 0 after a terminal step."""
        of_next_step = values.gather(-1, self.following.clamp(max=values.shape[-1] - 1))
        return select(torch.where(self.last, bootstrap, of_next_step), self.continues)

    def accumulate(self, increments: Tensor, discount: float | Tensor) -> Tensor:
        """Sum `increments` from every step to the end of its episode, decayed by `discount` (in [0, 1]) per existing step."""
        factor = discount if isinstance(discount, Tensor) else increments.new_full((), discount)
        decays = torch.where(self.valid, torch.where(self.continues & ~self.last, factor.to(increments.dtype), 0.0), 1.0)
        return select(backward_recursion(select(increments, self.valid), decays), self.valid)


def read_timeline(
    rewards: Tensor, terminated: Tensor | None, valid_mask: Tensor | None, episode_ids: Tensor | None = None
) -> Timeline:
    """Check `rewards` and its flags against each other and derive the timeline."""
    checks.floating(rewards, "rewards")
    checks.at_least_rank(rewards, 1, "rewards")
    if rewards.shape[-1] == 0:
        raise checks.fail(ShapeError, "rewards", "have at least one step in its last dimension", f"shape {tuple(rewards.shape)}")
    valid = torch.ones_like(rewards, dtype=torch.bool) if valid_mask is None else _flags(valid_mask, "valid_mask", rewards)
    checks.finite(rewards, "rewards", where=valid)
    continues = valid if terminated is None else valid & ~_flags(terminated, "terminated", rewards, where=valid)
    following = _following(valid, everywhere=valid_mask is None)
    last = valid & (following == rewards.shape[-1])
    if episode_ids is not None:
        last = last | _changes_after(episode_ids, rewards, valid, following)
        ids = episode_ids
        checks.each("episode_ids", _ONE_STRETCH, lambda: (ids, repeated_ids(ids, last)), RangeError)
    return Timeline(valid, continues, last, following)


def read_values(values: Tensor, argument: str, rewards: Tensor, where: Tensor) -> None:
    """Require estimates of the shape of `rewards`, finite at the steps that are read."""
    checks.floating(values, argument)
    checks.same_shape(values, argument, rewards, "rewards")
    checks.finite(values, argument, where=where)


def working_dtype(*arguments: Tensor | float | None) -> torch.dtype:
    """Return the widest dtype among the tensors, float32 at least."""
    dtype = torch.float32
    for argument in arguments:
        if isinstance(argument, Tensor):
            dtype = torch.promote_types(dtype, argument.dtype)
    return dtype


_ONE_STRETCH = "name each episode once (an episode is one stretch of equal ids)"


def _flags(value: Tensor, argument: str, rewards: Tensor, where: Tensor | None = None) -> Tensor:
    checks.tensor(value, argument)
    checks.same_shape(value, argument, rewards, "rewards")
    flags: Tensor = checks.mask(value if where is None else select(value, where), argument)
    return flags


def _following(valid: Tensor, *, everywhere: bool) -> Tensor:
    steps = valid.shape[-1]
    if everywhere:
        return torch.arange(1, steps + 1, device=valid.device).expand_as(valid)
    index = torch.where(valid, torch.arange(steps, device=valid.device), steps)
    here_or_later = index.flip(-1).cummin(-1).values.flip(-1)
    return pad(here_or_later[..., 1:], (0, 1), value=steps)


def _changes_after(episode_ids: Tensor, rewards: Tensor, valid: Tensor, following: Tensor) -> Tensor:
    checks.integer(episode_ids, "episode_ids")
    checks.same_shape(episode_ids, "episode_ids", rewards, "rewards")
    next_id = episode_ids.gather(-1, following.clamp(max=episode_ids.shape[-1] - 1))
    return valid & (next_id != episode_ids)


def repeated_ids(episode_ids: Tensor, last: Tensor) -> Tensor:
    """Tell, elementwise, where an episode ends whose id has ended another one earlier in the row."""
    nothing = torch.iinfo(torch.int64).max
    ends, places = torch.sort(torch.where(last, episode_ids.long(), nothing), dim=-1, stable=True)
    again = pad((ends[..., 1:] == ends[..., :-1]) & (ends[..., 1:] != nothing), (1, 0))
    return torch.zeros_like(last).scatter(-1, places, again)
