"""Steps of trajectories -> advantages of whole trajectories plus advantages of the actions taken in one state (GiGPO)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.identifiers import integer_ids, number_of_groups
from rosellm.roserlhf.credit.membership import Ids, Singleton, group_rows, refuse_singletons, require_one_group
from rosellm.roserlhf.credit.statistics import StdKind, group_count, group_statistics, group_sum
from rosellm.roserlhf.credit.tree import Normalization, check_normalization, read_scored_rows, relative
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
    it terminated or was cut, so leave trajectories that were cut out of the batch or score them as they stand.

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
    rewards, tasks, trajectories, scored = _read_rows(step_rewards, trajectory_ids, group_ids, scored_mask)
    states = _within(tasks, group_rows(state_keys, "state_keys", step_rewards), scored)

    returns = _returns(rewards, trajectories, gamma) - _read_penalties(step_penalties, rewards, scored)
    compared = returns
    if action_keys is not None:
        actions = _within(states, group_rows(action_keys, "action_keys", step_rewards), scored)
        compared = group_statistics(returns, actions).mean[actions]
    step = relative(group_statistics(compared, states, where=scored), normalization, std, eps)
    episode = _episode_part(rewards, trajectories, tasks, scored, episode_statistics, normalization, std, eps, singleton)

    dtype = at_least_float32(step_rewards).dtype
    sizes = group_count(states, number_of_groups(states))[states]
    both = episode + omega * step
    return GigpoAdvantages(both.to(dtype), episode.to(dtype), step.to(dtype), returns.to(dtype), states, sizes)


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


def _read_rows(
    step_rewards: Tensor, trajectory_ids: Ids, group_ids: Ids, scored_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return rewards (0 where unscored), dense tasks and trajectories, and which rows belong to a scored trajectory."""
    checks.floating(step_rewards, "step_rewards")
    if step_rewards.ndim != 1 or not step_rewards.numel():
        raise checks.fail(ShapeError, "step_rewards", "be [N] with at least one step", f"shape {tuple(step_rewards.shape)}")
    scored = read_scored_rows(scored_mask, step_rewards, "step_rewards")
    checks.finite(step_rewards, "step_rewards", where=scored)
    trajectories = group_rows(trajectory_ids, "trajectory_ids", step_rewards)
    tasks = group_rows(group_ids, "group_ids", step_rewards)
    require_one_group(trajectories, "trajectory_ids", tasks)
    if scored_mask is not None:
        missing = group_count(trajectories, number_of_groups(trajectories), ~scored)
        scored = missing[trajectories] == 0
    double = torch.float32 if step_rewards.device.type == "mps" else torch.float64
    return select(step_rewards.to(double), scored), tasks, trajectories, scored


def _read_penalties(step_penalties: Tensor | None, rewards: Tensor, scored: Tensor) -> Tensor:
    if step_penalties is None:
        return torch.zeros_like(rewards)
    checks.floating(step_penalties, "step_penalties")
    checks.same_shape(step_penalties, "step_penalties", rewards, "step_rewards")
    checks.finite(step_penalties, "step_penalties", where=scored)
    return select(step_penalties.to(rewards.dtype), scored)


def _within(groups: Tensor, keys: Tensor, scored: Tensor) -> Tensor:
    """Return dense ids of the pairs (group, key); unscored rows stand alone, so that no size counts them."""
    rows = torch.arange(keys.numel(), device=keys.device)
    pairs = groups * number_of_groups(keys) + keys
    return integer_ids(torch.where(scored, pairs, -1 - rows), "state_keys")


def _returns(rewards: Tensor, trajectories: Tensor, gamma: float) -> Tensor:
    """Discount within each trajectory, whose rows may be anywhere but are in order of time.

    All last steps first, then all steps before them, and so on: each return is rounded as in the plain loop over its trajectory, so
    that equal ways to an end have equal returns wherever their rows stand, and a group of them is uniform.
    """
    count = number_of_groups(trajectories)
    lengths = group_count(trajectories, count)
    order = torch.argsort(trajectories, stable=True)
    owner = trajectories[order]
    steps_left = lengths.cumsum(0)[owner] - 1 - torch.arange(owner.numel(), device=owner.device)
    alive = torch.bincount(steps_left)
    # the longest trajectories come first on each level: those that go on are then the first of the level before
    rank = torch.empty_like(lengths)
    rank[torch.argsort(lengths, descending=True)] = torch.arange(count, device=rank.device)
    place = (alive.cumsum(0) - alive)[steps_left] + rank[owner]
    returns = torch.empty_like(rewards)
    returns[place] = rewards[order]
    levels = returns.split(alive.tolist())
    for after, level in itertools.pairwise(levels):
        level.add_(gamma * after[: level.numel()])
    return torch.empty_like(rewards).index_copy_(0, order, returns[place])


def _episode_part(
    rewards: Tensor,
    trajectories: Tensor,
    tasks: Tensor,
    scored: Tensor,
    episode_statistics: str,
    normalization: Normalization,
    std: StdKind,
    eps: float,
    singleton: Singleton,
) -> Tensor:
    count = number_of_groups(trajectories)
    # rows of one trajectory agree on its task and on whether it is scored, so any of them may write
    task = tasks.new_empty(count).index_copy_(0, trajectories, tasks)
    valid = scored.new_empty(count).index_copy_(0, trajectories, scored)
    if singleton == "error":
        refuse_singletons(group_count(task, number_of_groups(task), valid), "group_ids", "scored trajectory per task")
    totals = group_sum(rewards, trajectories, count)
    if episode_statistics == "steps":
        return relative(group_statistics(totals[trajectories], tasks, where=scored), normalization, std, eps)
    return relative(group_statistics(totals, task, where=valid), normalization, std, eps)[trajectories]
