"""Rewards and flags -> a timeline: which steps exist, where each episode ends, and which value comes next.

Every temporal estimator reads its arguments through this file, so that termination, truncation, absent time, observations and
packed episodes mean the same thing in all of them:

- `valid_mask` false is padding, anywhere in a row: nothing that stands there is read, NaN and flags included;
- `action_mask` false where `valid_mask` is true is an observation: no time passes there either, its value is not read, and its
  reward or `terminated` flag goes to the preceding action (`credit/rewards.py`);
- across absent time the next value and the next advantage are carried without a discount;
- `terminated` true ends an episode for good: nothing follows;
- an episode that ends without `terminated` was cut: its bootstrap value follows, or 0 if none is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.computed import Computed
from rosellm.roserlhf.credit.into import into
from rosellm.roserlhf.credit.neighbours import first_at_or_after, last_at_or_before
from rosellm.roserlhf.credit.pieces import in_pieces
from rosellm.roserlhf.credit.recursion import backward_recursion
from rosellm.roserlhf.credit.rewards import ObservationRewards, place_rewards
from rosellm.roserlhf.credit.selection import bits, keep, ones
from rosellm.roserlhf.errors import RangeError, ShapeError
from rosellm.roserlhf.masked import select


@dataclass(frozen=True)
class Timeline:
    """The steps of rows `[..., T]`."""

    given: Tensor
    """Floating point: the rewards; what stands at an absent step is not read."""
    dtype: torch.dtype
    """float32 or float64: the dtype of all computing."""
    valid: Tensor
    """Boolean: the step exists."""
    continues: Tensor
    """Boolean: the step exists and is not terminal, so what comes after it counts."""
    episode_ids: Tensor | None
    """Integer: which episode of its row a step belongs to; None if a row is one."""

    @Computed
    def rewards(self) -> Tensor:
        """The reward of each step in `dtype`, 0 where there is none."""
        return self.read(self.given)

    @Computed
    def valid_bits(self) -> Tensor:
        """`valid`, as `selection.keep` takes it."""
        return bits(self.valid, self.dtype)

    @Computed
    def continues_bits(self) -> Tensor:
        """`continues`, as `selection.keep` takes it."""
        return bits(self.continues, self.dtype)

    @Computed
    def following(self) -> Tensor:
        """int64: index of the next step that exists, whatever its episode; T where there is none."""
        return pad(first_at_or_after(self.valid)[..., 1:], (0, 1), value=self.valid.shape[-1])

    @Computed
    def last(self) -> Tensor:
        """Boolean: the step exists and no later step of its episode (as the ids tell them apart) does."""
        end = self.following == self.valid.shape[-1]
        if self.episode_ids is not None:
            end |= self.at_next_step(self.episode_ids) != self.episode_ids
        return self.valid & end

    @Computed
    def cut(self) -> Tensor:
        """Boolean: the last step of an episode that did not terminate: its bootstrap value follows."""
        return self.last & self.continues

    @Computed
    def starts(self) -> Tensor:
        """Boolean: the first existing step of an episode, be it the first of the row, after a terminal step or with a new id."""
        before = self.preceding
        previous = before.clamp(min=0)
        new = (before < 0) | ~self.continues.gather(-1, previous)
        if self.episode_ids is not None:
            new |= self.episode_ids.gather(-1, previous) != self.episode_ids
        return self.valid & new

    @Computed
    def step_numbers(self) -> Tensor:
        """int64: how many steps of the same episode exist before this one."""
        before = self.valid.cumsum(-1) - self.valid.long()
        return before - torch.where(self.starts, before, 0).cummax(-1).values

    @Computed
    def preceding(self) -> Tensor:
        """int64: index of the previous step that exists, whatever its episode; -1 where there is none."""
        return pad(last_at_or_before(self.valid)[..., :-1], (1, 0), value=-1)

    def read(self, values: Tensor) -> Tensor:
        """Return `values` in `dtype`, 0 at absent steps."""
        return keep(values.to(self.dtype), self.valid_bits)

    def at_next_step(self, of_steps: Tensor) -> Tensor:
        """Read `[..., T]` at the next existing step; where there is none, what is returned means nothing."""
        return of_steps.gather(-1, self.following.clamp(max=of_steps.shape[-1] - 1))

    def next_values(self, values: Tensor, after: Tensor) -> Tensor:
        """Return the value after every step: of the next step, `after` (broadcast) at a cut end, 0 after a terminal step."""
        return select(torch.where(self.last, after, self.at_next_step(values)), self.continues)

    def accumulate(self, increments: Tensor, discount: float | Tensor, after: Tensor | None = None) -> Tensor:
        """Sum `increments` (0 at absent steps) to the end of each episode, decayed by `discount` per existing step.

        `after` (as `read_bootstrap` returns it) follows cut ends; with it `increments` are overwritten. At absent steps stands the
        sum of the next existing one, or what follows the end.
        """
        inside = self.continues if self.episode_ids is None else self.continues & ~self.last
        weights, decays = ones(inside, increments.dtype), ones(~self.valid, increments.dtype)
        if isinstance(discount, Tensor):
            decays.addcmul_(weights, discount)
        else:
            decays.add_(weights, alpha=discount)
        if after is not None and self.episode_ids is not None:
            increments.add_(after * discount)
        elif after is not None:
            # in a row that is one episode the value may wait behind all absent time
            increments[..., -1:].addcmul_(decays[..., -1:], after)
        return backward_recursion(increments, decays)

    def add_behind(self, to: Tensor, sums: Tensor, after: Tensor, discount: float, out: Tensor) -> None:
        """Add to every step what `accumulate` found behind it: 0 behind a terminal one and at absent steps."""
        inside = self.continues_bits if self.episode_ids is None else bits(self.continues & ~self.last, to.dtype)
        behind = keep(sums[..., 1:], inside[..., :-1])
        into(out[..., :-1], torch.add, to[..., :-1], behind, alpha=discount)
        if self.episode_ids is None:
            into(out[..., -1:], torch.add, to[..., -1:], keep(after, inside[..., -1:]), alpha=discount)
        else:
            out[..., -1:] = to[..., -1:]
            out.add_(after, alpha=discount)

    def pieces(self, *others: Tensor) -> Iterator[tuple[Timeline, list[Tensor]]]:
        """Cut the rows, and those of other tensors, into pieces `[R, ...]` that a processor's cache holds."""
        own = [self.given, self.valid, self.continues] + ([] if self.episode_ids is None else [self.episode_ids])
        for rewards, valid, continues, *rest in in_pieces(*own, *others):
            ids = None if self.episode_ids is None else rest.pop(0)
            yield Timeline(rewards, self.dtype, valid, continues, ids), rest


def read_timeline(
    rewards: Tensor,
    *,
    dtype: torch.dtype,
    terminated: Tensor | None,
    valid_mask: Tensor | None,
    action_mask: Tensor | None = None,
    observation_rewards: ObservationRewards = "move",
    episode_ids: Tensor | None = None,
) -> Timeline:
    """Check `rewards` and its flags against each other and derive the timeline; `dtype` is that of all computing."""
    checks.one_of(observation_rewards, "observation_rewards", ("move", "error"))
    checks.floating(rewards, "rewards")
    checks.at_least_rank(rewards, 1, "rewards")
    if rewards.shape[-1] == 0:
        raise checks.fail(ShapeError, "rewards", "have at least one step in its last dimension", f"shape {tuple(rewards.shape)}")
    valid = torch.ones_like(rewards, dtype=torch.bool) if valid_mask is None else _flags(valid_mask, "valid_mask", rewards)
    finite(rewards, "rewards", valid)
    ends = None if terminated is None else _flags(terminated, "terminated", rewards, where=valid)
    if episode_ids is not None:
        checks.integer(episode_ids, "episode_ids")
        checks.same_shape(episode_ids, "episode_ids", rewards, "rewards")
    acts, given = valid, rewards.detach()
    if action_mask is not None:
        acts = _flags(action_mask, "action_mask", rewards, where=valid)
        given, ends = place_rewards(given, ends, valid & ~acts, acts, episode_ids, observation_rewards)
    timeline = Timeline(given, dtype, acts, acts if ends is None else acts & ~ends, episode_ids)
    if episode_ids is not None:
        ids, last = episode_ids, timeline.last
        checks.each("episode_ids", _ONE_STRETCH, lambda: (ids, repeated_ids(ids, last)), RangeError)
    return timeline


def read_values(values: Tensor, argument: str, rewards: Tensor, where: Tensor) -> Tensor:
    """Require estimates of the shape of `rewards`, finite at the steps that are read."""
    checks.floating(values, argument)
    checks.same_shape(values, argument, rewards, "rewards")
    finite(values, argument, where)
    return values.detach()


def finite(values: Tensor, argument: str, where: Tensor) -> None:
    """Require finite numbers where they are read, fast: whatever else stands there is looked at only if not all are finite."""
    if checks.surely_finite(values):
        return
    dtype = working_dtype(values)
    pieces = in_pieces(values, where)
    if not all(checks.surely_finite(keep(piece.to(dtype), bits(mask, dtype))) for piece, mask in pieces):
        checks.finite(values, argument, where=where)


def working_dtype(*arguments: Tensor | float | None) -> torch.dtype:
    """Return the widest dtype among the tensors of floating point, float32 at least."""
    dtype = torch.float32
    for argument in arguments:
        # the 8-bit formats are refused by name where each argument is read
        if isinstance(argument, Tensor) and argument.is_floating_point() and argument.dtype.itemsize > 1:
            dtype = torch.promote_types(dtype, argument.dtype)
    return dtype


_ONE_STRETCH = "name each episode once (an episode is one stretch of equal ids)"


def _flags(value: Tensor, argument: str, rewards: Tensor, where: Tensor | None = None) -> Tensor:
    checks.tensor(value, argument)
    checks.same_shape(value, argument, rewards, "rewards")
    flags: Tensor = checks.mask(value, argument, where)
    return flags


def repeated_ids(episode_ids: Tensor, last: Tensor) -> Tensor:
    """Tell, elementwise, where an episode ends whose id has ended another one earlier in the row."""
    nothing = torch.iinfo(torch.int64).max
    ends, places = torch.sort(torch.where(last, episode_ids.long(), nothing), dim=-1, stable=True)
    again = pad((ends[..., 1:] == ends[..., :-1]) & (ends[..., 1:] != nothing), (1, 0))
    return torch.zeros_like(last).scatter(-1, places, again)
