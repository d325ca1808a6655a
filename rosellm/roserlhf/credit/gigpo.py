"""Steps of trajectories -> advantages of whole trajectories plus advantages of the actions taken in one state (GiGPO)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.identifiers import blocks, integer_ids, number_of_groups
from rosellm.roserlhf.credit.members import Ids, read_scored, row_ids
from rosellm.roserlhf.credit.nesting import Singleton, group_of_members, refuse_singletons
from rosellm.roserlhf.credit.statistics import StdKind, accumulator, group_count, group_statistics, group_sum
from rosellm.roserlhf.credit.tree import Normalization, check_normalization, relative
from rosellm.roserlhf.errors import ConfigError, ShapeError
from rosellm.roserlhf.masked import at_least_float32, select


@dataclass(frozen=True)
class GigpoAdvantages:
    """The advantages of N steps and their parts; all are `[N]` and detached. An unscored step is 0 and alone in its step group."""

    advantages: Tensor
    """`episode_advantages + omega * step_advantages`: for the tokens of that action only."""
    episode_advantages: Tensor
    """Of the step's trajectory against the trajectories of its task."""
    step_advantages: Tensor
    """Of the step's return against the returns of all visits to the same state of the same task."""
    returns: Tensor
    """The discounted return of each step, minus its penalty: what is compared inside a step group."""
    step_group_ids: Tensor
    """int64: which steps were compared, numbered in order of first appearance."""
    step_group_sizes: Tensor
    """int64: visits in the step's group, itself included."""


@torch.no_grad()
def gigpo_advantages(
    step_rewards: Tensor,
    state_keys: Ids,
    trajectory_ids: Ids,
    group_ids: Ids,
    *,
    omega: float = 1.0,
    gamma: float = 0.95,
    normalization: Normalization = "std",
    std: StdKind = "population",
    eps: float = 1e-8,
    episode_statistics: Literal["trajectory", "steps"] = "trajectory",
    merge_equal_actions: bool = False,
    action_keys: Ids | None = None,
    step_penalties: Tensor | None = None,
    scored_mask: Tensor | None = None,
    singleton: Singleton = "zero",
) -> GigpoAdvantages:
    r"""Compare trajectories of one task, and actions taken in one state of that task, and add both.

    .. math::
        R_t = \sum_{k \ge t} \gamma^{k-t} r_k,\qquad
        A_t = \frac{R(\tau) - \operatorname{mean}}{F}
            + \omega\,\frac{R_t - \operatorname{mean}_{G(s_t)}}{F_{G(s_t)}},\qquad
        F = \sigma + \epsilon \ \text{or}\ 1

    :math:`R(\tau)` is the plain sum of the trajectory's rewards, compared over the trajectories of the task; :math:`G(s)` are all
    visits to s by all trajectories of the task. A state seen twice in one trajectory is in its group twice, each visit with its own
    return. The initial state is a state: with γ = 1 and a terminal reward its group repeats the comparison of trajectories, so the
    first action is judged twice over (kept by the paper). A group of one visit is 0, a uniform group exactly 0. If all succeed
    after different numbers of steps, the first part is 0 and γ < 1 still prefers the shorter way.

    Rewards: an outcome, and a score that comes late, belong to the step they judge (an outcome to the last one), before this call;
    from there they are discounted backwards. The method knows no bootstrap: after the last row of a trajectory follows 0, whether
    it terminated or was truncated. So score a truncated trajectory for what it reached, or exclude it by `scored_mask`.

    Readings. `episode_statistics="trajectory"` is the paper: each trajectory votes once. `"steps"` is the default of the authors'
    code: mean and deviation over step rows, so that long trajectories weigh more. `normalization="std"` or `"none"` are both in the
    paper (the code's default is none); its deviations are sample deviations with ε = 1e-6, and it adds the raw return where a task
    has one step row: that is not offered. `merge_equal_actions` first replaces a return by the mean over equal (state, action),
    with statistics still over visits: in neither paper nor code. `step_penalties` is what that code does with invalid actions:
    subtracted from the step's own return after discounting, so that no earlier step and no trajectory pays; a penalty that should
    reach them is a reward component of its own in `step_rewards`.

    Source: Feng et al. 2025, "Group-in-Group Policy Optimization for LLM Agent Training", Eq. 3-8, https://arxiv.org/abs/2505.10978

    Args:
        step_rewards: `[N]`, floating point: one row per step, in order of time within each trajectory; trajectories may interleave.
        state_keys: N keys of any hashable kind: the state in which the step's action was *taken*. Read within the task: equal keys
            of different tasks are different states; `1`, `1.0` and `True` are three. Integer tensors are the fast kind;
            `credit/states.py` has key functions.
        trajectory_ids: N ids of any hashable kind; no trajectory in two tasks.
        group_ids: N ids of any hashable kind: the task of each step.
        omega: ω, finite, weight of the step part.
        gamma: discount per step, in [0, 1].
        normalization: divide by the deviation, or not.
        std: divisor n (population) or n - 1 (sample); read by `normalization="std"`.
        eps: ε ≥ 0, read by `normalization="std"`.
        episode_statistics: who votes in the mean and deviation of the episode part.
        merge_equal_actions: average the returns of equal actions in equal states first.
        action_keys: N keys of any hashable kind; needed by `merge_equal_actions`, refused otherwise.
        step_penalties: `[N]`, floating point, finite; subtracted after discounting. None: none.
        scored_mask: `[N]`, boolean or 0/1. A trajectory with an unscored step has no return: all of it is left out of every
            statistic and gets 0. None: all are scored.
        singleton: a *task* with one scored trajectory has an episode part of 0, or is an error.

    Returns:
        Advantages, both parts, returns and step groups; float32, or float64 for float64 `step_rewards`.

    Raises:
        DtypeError, ShapeError, DeviceError: an argument has the wrong type, shape or device.
        NonFiniteError: NaN or infinity in a scored reward or a penalty.
        RangeError: an option is unknown or a number out of its interval.
        ConfigError: `action_keys` are missing, or would be ignored.
        GroupError: a trajectory belongs to two tasks, or a task has one trajectory and `singleton="error"`.

    Example:
        >>> rewards = torch.tensor([0.0, 1.0, 0.0, 0.0])  # two trajectories of two steps; both start at the door
        >>> found = gigpo_advantages(rewards, ["door", "hall", "door", "yard"], [7, 7, 8, 8], ["task"] * 4, gamma=0.5)
        >>> found.returns, found.step_group_sizes
        (tensor([0.5000, 1.0000, 0.0000, 0.0000]), tensor([2, 1, 2, 1]))
        >>> found.advantages  # at the door both parts agree, the other states were seen once
        tensor([ 2.0000,  1.0000, -2.0000, -1.0000])
    """
    _check_options(omega, gamma, normalization, std, eps, episode_statistics, merge_equal_actions, action_keys, singleton)
    rows = _read_rows(step_rewards, trajectory_ids, group_ids, scored_mask)
    states = _within(rows.tasks, row_ids(state_keys, "state_keys", step_rewards), rows.scored)

    returns = _returns(rows, gamma)
    if step_penalties is not None:
        returns = returns - _read_penalties(step_penalties, rows)
    compared = returns
    if action_keys is not None:
        actions = _within(states, row_ids(action_keys, "action_keys", step_rewards), rows.scored)
        choices = group_statistics(returns, actions)
        compared = choices.of_rows(choices.mean)
    found = group_statistics(compared, states, where=rows.scored)
    dtype = at_least_float32(step_rewards).dtype
    discounted = returns.to(dtype, copy=True)
    step = relative(found, normalization, std, eps, out=compared)  # in place: what is as long as the batch costs time by its memory
    episode = _episode_part(rows, episode_statistics, normalization, std, eps, singleton)
    sizes = found.of_rows(found.count.clamp(min=1))  # an unscored step is alone
    step_part = step.to(dtype, copy=True)
    for part, members in zip(step.split(blocks(states)), rows.trajectories.split(blocks(states)), strict=True):
        part.mul_(omega).add_(episode.index_select(0, members))
    both, episode_part = step.to(dtype), episode.to(dtype).index_select(0, rows.trajectories)
    return GigpoAdvantages(both, episode_part, step_part, discounted, states, sizes)


def _check_options(
    omega: float,
    gamma: float,
    normalization: str,
    std: str,
    eps: float,
    episode_statistics: str,
    merge_equal_actions: bool,
    action_keys: object,
    singleton: str,
) -> None:
    checks.number_in(omega, "omega", -float("inf"), float("inf"), open_low=True, open_high=True)
    checks.number_in(gamma, "gamma", 0.0, 1.0)
    check_normalization(normalization, std, eps)
    checks.one_of(episode_statistics, "episode_statistics", ("trajectory", "steps"))
    checks.one_of(singleton, "singleton", ("zero", "error"))
    checks.flag(merge_equal_actions, "merge_equal_actions")
    if merge_equal_actions and action_keys is None:
        raise checks.fail(ConfigError, "action_keys", "be given with merge_equal_actions=True", None)
    if action_keys is not None and not merge_equal_actions:
        fix = "they would be ignored"
        raise checks.fail(ConfigError, "action_keys", "be left out unless merge_equal_actions=True", "action keys", fix=fix)


@dataclass(frozen=True)
class _Rows:
    """N steps of M trajectories; ids are dense."""

    rewards: Tensor
    """`[N]` as given; 0 where unscored."""
    tasks: Tensor
    """`[N]` task of each step."""
    trajectories: Tensor
    """`[N]` trajectory of each step."""
    scored: Tensor | None
    """`[N]` boolean: every step of the trajectory is scored; None: all are."""
    task_of: Tensor
    """`[M]` task of each trajectory."""


def _read_rows(step_rewards: Tensor, trajectory_ids: Ids, group_ids: Ids, scored_mask: Tensor | None) -> _Rows:
    checks.floating(step_rewards, "step_rewards")
    if step_rewards.ndim != 1 or not step_rewards.numel():
        raise checks.fail(ShapeError, "step_rewards", "be [N] with at least one step", f"shape {tuple(step_rewards.shape)}")
    scored = read_scored(scored_mask, step_rewards)
    checks.finite(step_rewards, "step_rewards", where=scored)
    trajectories, tasks = row_ids(trajectory_ids, "trajectory_ids", step_rewards), row_ids(group_ids, "group_ids", step_rewards)
    count = number_of_groups(trajectories)
    task_of = group_of_members(trajectories, count, tasks, "trajectory_ids")
    rewards = step_rewards.detach()
    if scored is not None:
        scored = (group_count(trajectories, count, ~scored) == 0).index_select(0, trajectories)
        rewards = select(rewards, scored)
    return _Rows(rewards, tasks, trajectories, scored, task_of)


def _read_penalties(step_penalties: Tensor, rows: _Rows) -> Tensor:
    checks.floating(step_penalties, "step_penalties")
    checks.same_shape(step_penalties, "step_penalties", rows.rewards, "step_rewards")
    checks.finite(step_penalties, "step_penalties", where=rows.scored)
    penalties = step_penalties.to(accumulator(rows.rewards))
    return penalties if rows.scored is None else select(penalties, rows.scored)


def _within(groups: Tensor, keys: Tensor, scored: Tensor | None) -> Tensor:
    """Return dense ids of the pairs (group, key); unscored rows stand alone, so that no size counts them."""
    pairs = torch.add(keys, groups, alpha=number_of_groups(keys))
    if scored is not None:
        pairs = torch.where(scored, pairs, -1 - torch.arange(keys.numel(), device=keys.device))
    return integer_ids(pairs, "state_keys")


def _returns(rows: _Rows, gamma: float) -> Tensor:
    """Discount within each trajectory, whose rows may be anywhere but are in order of time; a few trajectories at a time."""
    lengths = group_count(rows.trajectories, len(rows.task_of))
    owner, rewards, order = rows.trajectories, rows.rewards, None
    if bool((owner[1:] < owner[:-1]).any()):  # dense ids that never fall: each trajectory is one stretch of rows already
        order = torch.argsort(owner, stable=True)
        owner, rewards = owner.index_select(0, order), rewards.index_select(0, order)
    returns = torch.empty_like(rewards, dtype=accumulator(rewards))
    for members, steps in _blocks_of_trajectories(lengths, blocks(owner)):
        _discount(owner[steps] - members.start, rewards[steps].to(returns.dtype), lengths[members], gamma, out=returns[steps])
    return returns if order is None else torch.empty_like(returns).index_copy_(0, order, returns)


def _blocks_of_trajectories(lengths: Tensor, rows: int) -> Iterator[tuple[slice, slice]]:
    """Yield slices of whole trajectories, with at least `rows` rows but for the last, and the slices of their rows."""
    ends = lengths.cumsum(0)
    total, first, start = int(ends[-1]), 0, 0
    while start < total:
        last = min(int(torch.searchsorted(ends, start + rows)), len(ends) - 1)
        end = int(ends[last])
        yield slice(first, last + 1), slice(start, end)
        first, start = last + 1, end


def _discount(owner: Tensor, rewards: Tensor, lengths: Tensor, gamma: float, out: Tensor) -> None:
    """Write the returns of trajectories that stand one behind the other.

    All last steps first, then all steps before them, and so on: each return is rounded as in the plain loop over its trajectory, so
    that equal ways to an end have equal returns wherever their rows stand, and a group of them is uniform.
    """
    place, alive = _by_steps_left(owner, lengths)
    levels = torch.empty_like(rewards).index_copy_(0, place, rewards)
    for after, level in itertools.pairwise(levels.split(alive.tolist())):
        level.add_(gamma * after[: len(level)])
    torch.index_select(levels, 0, place, out=out)


def _by_steps_left(owner: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return the place of each row among rows sorted by the steps left after it, and how many rows there are per number left."""
    steps_left = (lengths.cumsum(0) - 1).index_select(0, owner).sub_(torch.arange(len(owner), device=owner.device))
    alive = group_count(steps_left, int(lengths.max()))
    # the longest trajectories come first on each level: those that go on are then the first of the level before
    rank = torch.argsort(torch.argsort(lengths, descending=True))
    return (alive.cumsum(0) - alive).index_select(0, steps_left).add_(rank.index_select(0, owner)), alive


def _episode_part(
    rows: _Rows, episode_statistics: str, normalization: Normalization, std: StdKind, eps: float, singleton: Singleton
) -> Tensor:
    """Return `[M]`, the part that all steps of a trajectory have in common."""
    count = len(rows.task_of)
    scored = rows.scored
    # the rows of a trajectory agree on whether it is scored, so any of them may write
    valid = None if scored is None else scored.new_empty(count).index_copy_(0, rows.trajectories, scored)
    if singleton == "error":
        tasks = number_of_groups(rows.task_of)
        refuse_singletons(group_count(rows.task_of, tasks, valid), "group_ids", "scored trajectory per task")
    totals = group_sum(rows.rewards, rows.trajectories, count)
    if episode_statistics == "steps":
        of_steps = relative(
            group_statistics(totals.index_select(0, rows.trajectories), rows.tasks, where=scored), normalization, std, eps
        )
        return torch.empty_like(totals).index_copy_(0, rows.trajectories, of_steps)
    return relative(group_statistics(totals, rows.task_of, where=valid), normalization, std, eps)
