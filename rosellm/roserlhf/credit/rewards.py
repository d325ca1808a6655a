"""Rewards and `terminated` flags on observations -> on the action that came before: no reward of a trajectory ever disappears.

A reward often arrives with what the environment answers, after the action that earned it. Time passes on actions only, so such a
reward belongs to the preceding action token of its episode; several of them add up there.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.neighbours import first_at_or_after, last_at_or_before
from rosellm.roserlhf.credit.pieces import in_pieces
from rosellm.roserlhf.credit.selection import bits, keep
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.masked import at_least_float32

ObservationRewards = Literal["move", "error"]
"""What a reward on an observation is: to be moved to the preceding action, or an error."""


def place_rewards(
    rewards: Tensor,
    terminated: Tensor | None,
    observed: Tensor,
    acts: Tensor,
    episode_ids: Tensor | None,
    observation_rewards: ObservationRewards,
) -> tuple[Tensor, Tensor | None]:
    """Return rewards and flags that stand on actions only.

    An observation belongs to the episode of its id; without ids, what follows a terminal step belongs to the next episode if the
    row acts again, and to the one that ended if not. Before the first action of its episode a reward or flag is an error.

    Args:
        rewards: `[..., T]`, floating point, finite but at padding.
        terminated: `[..., T]`, boolean, false at padding, or None.
        observed, acts: `[..., T]`, boolean, never both true; neither at padding.
        episode_ids: `[..., T]`, integer, or None.
        observation_rewards: move or refuse.
    """
    paid = observed & (rewards != 0)
    flagged = torch.zeros_like(observed) if terminated is None else observed & terminated
    stray = paid | flagged
    if stray.device.type == "cpu" and not torch.compiler.is_compiling() and not bool(stray.any()):
        return rewards, terminated
    if observation_rewards == "error":
        _refuse("stand on action tokens", rewards, paid, terminated, flagged, "observation_rewards='move' gives it to the action")
    rewards = at_least_float32(rewards)
    # contiguous, so that the pieces are views of them and not copies, whatever the layout of what was given
    early, between, flags = (torch.empty_like(stray, memory_format=torch.contiguous_format) for _ in range(3))
    placed = torch.empty_like(rewards, memory_format=torch.contiguous_format)
    ends = torch.zeros_like(stray) if terminated is None else terminated
    ids = [] if episode_ids is None else [episode_ids]
    for piece in in_pieces(rewards, ends, acts, stray, placed, flags, early, between, *ids):
        _move(*piece)
    _refuse("not stand before the first action of its episode", rewards, paid & early, terminated, flagged & early)
    name_them = "put it on the terminal step, or name the episodes by episode_ids"
    _refuse(
        "not stand between a terminal step and the next action", rewards, paid & between, terminated, flagged & between, name_them
    )
    return placed, None if terminated is None else flags


def _move(
    rewards: Tensor,
    ends: Tensor,
    acts: Tensor,
    stray: Tensor,
    placed: Tensor,
    flags: Tensor,
    early: Tensor,
    between: Tensor,
    episode_ids: Tensor | None = None,
) -> None:
    """Move rewards and flags of rows `[R, T]`; fill `placed` and `flags`, and say what is too early or between episodes."""
    steps, watched = acts.shape[-1], rewards.device.type != "cpu" or torch.compiler.is_compiling()
    before = last_at_or_before(acts)
    ended = pad(last_at_or_before(ends)[..., :-1], (1, 0), value=-1) >= before
    if episode_ids is not None:
        before = torch.where(episode_ids.gather(-1, before.clamp(min=0)) == episode_ids, before, -1)
    torch.logical_and(stray, before < 0, out=early)
    ended &= stray & ~early
    target, lost, known = before.clamp(min=0), early, stray
    if watched or bool((early | ended).any()):
        follows = first_at_or_after(acts)
        if episode_ids is not None:
            follows = torch.where(episode_ids.gather(-1, follows.clamp(max=steps - 1)) == episode_ids, follows, steps)
        ended &= follows < steps
        lost = early | ended
        # where the error waits on a device or is switched off, the next action of the episode says NaN
        target = torch.where(lost, follows.clamp(max=steps - 1), target)
        known = torch.where(lost, follows < steps, stray)
    between.copy_(ended)
    moved = keep(rewards.masked_fill(lost, float("nan")), bits(known, rewards.dtype))
    torch.scatter_add(keep(rewards, bits(acts, rewards.dtype)), -1, target, moved, out=placed)
    torch.logical_and(ends, acts, out=flags)
    moving = known & ends & ~lost
    if watched or bool(moving.any()):
        flags |= torch.zeros_like(target).scatter_add(-1, target, moving.long()) > 0


def _refuse(
    requirement: str, rewards: Tensor, paid: Tensor, terminated: Tensor | None, flagged: Tensor, fix: str | None = None
) -> None:
    checks.each("rewards", requirement, lambda: (rewards, paid), RangeError, fix=fix)
    if terminated is not None:
        checks.each("terminated", requirement, lambda: (terminated, flagged), RangeError, fix=fix)
