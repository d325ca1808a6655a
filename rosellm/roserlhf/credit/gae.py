"""Rewards and values -> advantages and value targets: over time steps, and over semantic actions between which observations lie."""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.bootstrap import read_bootstrap
from rosellm.roserlhf.credit.timeline import Timeline, read_timeline, read_values, working_dtype
from rosellm.roserlhf.errors import RangeError, ShapeError
from rosellm.roserlhf.masked import select


@torch.no_grad()
def generalized_advantage_estimation(
    rewards: Tensor,
    values: Tensor,
    *,
    gamma: float = 1.0,
    gae_lambda: float | Tensor = 1.0,
    terminated: Tensor | None = None,
    valid_mask: Tensor | None = None,
    bootstrap_value: Tensor | float | None = None,
    episode_ids: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Estimate advantages as exponentially weighted sums of temporal-difference errors.

    .. math::
        \delta_t = r_t + \gamma\,(1-d_t)\,V_{t+1} - V_t,\qquad
        \hat A_t = \delta_t + \gamma\lambda_t\,(1-d_t)\,\hat A_{t+1},\qquad
        \hat V_t = \hat A_t + V_t

    :math:`d_t` is `terminated`; after the last step of an episode that was cut stands its `bootstrap_value`, and no advantage.
    :math:`\lambda=1` gives return minus value, :math:`\lambda=0` the one-step error. In an episode of N steps the weight
    :math:`\lambda^{N-1}` rests on the longest return: the paper's geometric mixture is an infinite sum. The value targets are
    formed before any whitening; a critic that learns with another :math:`\lambda` takes them from a second call.

    With neither a terminal step nor a bootstrap, 0 follows the end. A terminal last step beats a bootstrap. Where `valid_mask` is
    false no time passes: next value and next advantage are carried across without a discount, whatever stands there is not read,
    and both results are 0. A row without a valid step is 0.

    Packed rows: an episode is one stretch of equal `episode_ids`. It ends where the id changes, terminal or not, and exchanges
    nothing with its neighbours.

    Source: Schulman et al. 2015, "High-Dimensional Continuous Control Using Generalized Advantage Estimation", Eq. 16,
    https://arxiv.org/abs/1506.02438; a :math:`\lambda` that depends on the length: Yue et al. 2025, "VAPO",
    https://arxiv.org/abs/2504.05118.

    Args:
        rewards: `[..., T]`, floating point; time is the last dimension, any leading shape, none included.
        values: `[..., T]`, floating point, value of the state before each step.
        gamma: discount per valid step, in [0, 1].
        gae_lambda: number in [0, 1], or tensor: `[..., T]` (that of step t weighs the advantage after t), or `[...]` or `[...,
            1]` (one per row).
        terminated: `[..., T]`, boolean or exactly 0/1; true where the process truly ended. None: nowhere.
        valid_mask: `[..., T]`, boolean or exactly 0/1. None: every step is valid.
        bootstrap_value: value after the last valid step. `[...]`, or a number (0-d tensor) for every row or episode; with
            `episode_ids` `[..., E]`, indexed by the id, or `[E]` for the whole batch if its rows share no id. Read only where an
            episode was cut.
        episode_ids: `[..., T]`, integer, for rows that hold several episodes; in [0, E-1] if `bootstrap_value` is a tensor.

    Returns:
        Advantages and value targets, both `[..., T]`, detached; the widest input dtype, float32 at least (half precision is
        computed and returned in float32).

    Raises:
        DtypeError: a tensor that must be floating point or integer is not.
        ShapeError, DeviceError: an argument does not fit `rewards`.
        MaskError: `terminated` or `valid_mask` is not 0/1.
        NonFiniteError: NaN or infinity in a reward, value or bootstrap value that is read.
        RangeError: `gamma` or `gae_lambda` is outside [0, 1]; an episode id is outside its table or comes back after another one.

    Example:
        >>> rewards, values = torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0.25, 0.5, 0.5])
        >>> generalized_advantage_estimation(rewards, values, terminated=torch.tensor([False, False, True]))
        (tensor([0.7500, 0.5000, 0.5000]), tensor([1., 1., 1.]))
        >>> episodes = torch.tensor([0, 1, 1])  # the first was cut before a state of value 0.75
        >>> generalized_advantage_estimation(rewards, values, episode_ids=episodes, bootstrap_value=torch.tensor([0.75, 0.0]))
        (tensor([0.5000, 0.5000, 0.5000]), tensor([0.7500, 1.0000, 1.0000]))
    """
    checks.number_in(gamma, "gamma", 0.0, 1.0)
    timeline = read_timeline(rewards, terminated, valid_mask, episode_ids)
    read_values(values, "values", rewards, timeline.valid)
    weight = _lambda_per_step(gae_lambda, rewards, timeline)
    dtype = working_dtype(rewards, values, bootstrap_value, gae_lambda)
    rewards, values = rewards.to(dtype), values.to(dtype)
    bootstrap = read_bootstrap(bootstrap_value, timeline, rewards, episode_ids)
    errors = rewards + gamma * timeline.next_values(values, bootstrap) - values
    advantages = timeline.accumulate(errors, gamma * weight)
    return advantages, select(advantages + values, timeline.valid)


@torch.no_grad()
def skip_observation_generalized_advantage_estimation(
    rewards: Tensor,
    action_end_values: Tensor,
    next_action_values: Tensor,
    *,
    gamma: float = 1.0,
    gae_lambda: float | Tensor = 1.0,
    terminated: Tensor | None = None,
    valid_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Estimate one advantage per semantic action, stepping over the observations between actions.

    .. math::
        \delta_i = r_i + \gamma\,(1-d_i)\,V(a_{i+1,0}) - V(a_{i,N}),\qquad
        \hat A_i = \delta_i + \gamma\lambda_i\,(1-d_i)\,\hat A_{i+1},\qquad
        \hat V_i = \hat A_i + V(a_{i,N})

    :math:`a_{i,N}` is the last token of action i, :math:`a_{i+1,0}` the first token of the next one. An observation costs no
    discount and gets no advantage; it still acts through the next value, which was computed with it in the prefix.

    One entry is one action, whatever its number of tokens: this is the step *between* actions. Inside an action the token
    recursion of the paper remains (:func:`generalized_advantage_estimation` with a `valid_mask` that leaves the observations
    out).

    At the last valid entry `next_action_values` is the bootstrap of a cut episode (0 if it is 0 there); `terminated` removes it,
    and then nothing there is read. Where `valid_mask` is false there is no action: the next advantage is carried across without a
    discount and both results are 0.

    Source: Hou et al. 2026, "Single-Rollout Asynchronous Optimization for Agentic Reinforcement Learning", Eq. 4-5,
    https://arxiv.org/abs/2607.07508

    Args:
        rewards: `[..., A]`, floating point, reward of each action; actions are the last dimension, any leading shape, none
            included.
        action_end_values: `[..., A]`, floating point, value at the last token of each action.
        next_action_values: `[..., A]`, floating point, value at the first token of the action after it.
        gamma: discount per action, in [0, 1].
        gae_lambda: number in [0, 1], or tensor `[..., A]`, `[...]` or `[..., 1]`.
        terminated: `[..., A]`, boolean or exactly 0/1; true where the process truly ended. None: nowhere.
        valid_mask: `[..., A]`, boolean or exactly 0/1. None: every entry is an action.

    Returns:
        Advantages and value targets (for the end of each action), both `[..., A]`, detached; the widest input dtype, float32 at
        least.

    Raises:
        DtypeError, ShapeError, DeviceError, MaskError, NonFiniteError, RangeError: as :func:`generalized_advantage_estimation`.

    Example:
        >>> rewards, ends, nexts = torch.tensor([0.0, 1.0]), torch.tensor([0.25, 0.5]), torch.tensor([0.5, 7.0])
        >>> done = torch.tensor([False, True])
        >>> skip_observation_generalized_advantage_estimation(rewards, ends, nexts, gae_lambda=0.5, terminated=done)
        (tensor([0.5000, 0.5000]), tensor([0.7500, 1.0000]))
    """
    checks.number_in(gamma, "gamma", 0.0, 1.0)
    timeline = read_timeline(rewards, terminated, valid_mask)
    read_values(action_end_values, "action_end_values", rewards, timeline.valid)
    read_values(next_action_values, "next_action_values", rewards, timeline.continues)
    weight = _lambda_per_step(gae_lambda, rewards, timeline)
    dtype = working_dtype(rewards, action_end_values, next_action_values, gae_lambda)
    rewards, ends, nexts = rewards.to(dtype), action_end_values.to(dtype), next_action_values.to(dtype)
    errors = rewards + gamma * select(nexts, timeline.continues) - ends
    advantages = timeline.accumulate(errors, gamma * weight)
    return advantages, select(advantages + ends, timeline.valid)


def _lambda_per_step(gae_lambda: float | Tensor, rewards: Tensor, timeline: Timeline) -> float | Tensor:
    """Check `gae_lambda` and make it broadcast along time."""
    if not isinstance(gae_lambda, Tensor):
        checks.number_in(gae_lambda, "gae_lambda", 0.0, 1.0)
        return gae_lambda
    checks.floating(gae_lambda, "gae_lambda")
    checks.same_device(gae_lambda, "gae_lambda", rewards, "rewards")
    rest, shape = rewards.shape[:-1], gae_lambda.shape
    if shape not in ((), rest, (*rest, 1), rewards.shape):
        allowed = f"be a number, one per row {tuple(rest)} or one per step {tuple(rewards.shape)}"
        raise checks.fail(ShapeError, "gae_lambda", allowed, f"shape {tuple(shape)}")
    per_step = (gae_lambda.unsqueeze(-1) if shape == rest else gae_lambda).expand_as(rewards)
    read = timeline.continues & ~timeline.last
    checks.each("gae_lambda", "be in [0, 1]", lambda: (per_step, read & ~((per_step >= 0) & (per_step <= 1))), RangeError)
    return per_step
