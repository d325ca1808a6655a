"""Rewards and values -> advantages and value targets: over time steps, and over semantic actions between which observations lie."""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.bootstrap import read_bootstrap
from rosellm.roserlhf.credit.lambdas import read_lambda
from rosellm.roserlhf.credit.rewards import ObservationRewards
from rosellm.roserlhf.credit.selection import keep
from rosellm.roserlhf.credit.timeline import Timeline, read_timeline, read_values, working_dtype


@torch.no_grad()
def generalized_advantage_estimation(
    rewards: Tensor,
    values: Tensor,
    *,
    gamma: float = 1.0,
    gae_lambda: float | Tensor = 1.0,
    critic_lambda: float | Tensor | None = None,
    terminated: Tensor | None = None,
    valid_mask: Tensor | None = None,
    action_mask: Tensor | None = None,
    observation_rewards: ObservationRewards = "move",
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
    formed before any whitening. A critic that learns with another :math:`\lambda` gets its targets by `critic_lambda` (1 in VC-PPO
    and VAPO): with a :math:`\lambda` that depends on the policy's length they would depend on it, too.

    With neither a terminal step nor a bootstrap, 0 follows the end. A terminal last step beats a bootstrap. Where `valid_mask` is
    false no time passes: next value and next advantage are carried across without a discount, whatever stands there is not read,
    and both results are 0. A row without a valid step is 0.

    Observations: with `action_mask`, time passes on actions only, :math:`V_{t+1}` is the value at the next action token. Inside an
    action this is the ordinary recursion; across an observation it is SAO's bridge. The value on an observation is not read.
    A reward or `terminated` flag there moves to the preceding action token of its episode (several rewards add up), or is an error;
    before the first action of its episode it always is one. Without `action_mask` nothing moves, and what `valid_mask` leaves out
    is not read at all.

    Packed rows: an episode is one stretch of equal `episode_ids`. It ends where the id changes, terminal or not, and exchanges
    nothing with its neighbours.

    Source: Schulman et al. 2015, "High-Dimensional Continuous Control Using Generalized Advantage Estimation", Eq. 16,
    https://arxiv.org/abs/1506.02438; a :math:`\lambda` that depends on the length, and one for the critic: Yue et al. 2025, "VAPO",
    https://arxiv.org/abs/2504.05118; the bridge: Hou et al. 2026, "Single-Rollout Asynchronous Optimization", Eq. 4-5,
    https://arxiv.org/abs/2607.07508.

    Args:
        rewards: `[..., T]`, floating point; time is the last dimension, any leading shape, none included.
        values: `[..., T]`, floating point, value of the state before each step.
        gamma: discount per valid step, in [0, 1].
        gae_lambda: number in [0, 1], or tensor: `[..., T]` (that of step t weighs the advantage after t), or `[...]` or `[...,
            1]` (one per row); with `episode_ids` also `[..., E]`, E not T (one per episode, indexed by the id).
        critic_lambda: that of the value targets, in the same shapes; None: `gae_lambda`.
        terminated: `[..., T]`, boolean or exactly 0/1; true where the process truly ended. None: nowhere.
        valid_mask: `[..., T]`, boolean or exactly 0/1. None: every step is valid.
        action_mask: `[..., T]`, boolean or exactly 0/1, true at tokens that the policy sampled; not read where `valid_mask` is
            false. None: every valid step is an action.
        observation_rewards: "move" or "error".
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
        MaskError: `terminated`, `valid_mask` or `action_mask` is not 0/1.
        NonFiniteError: NaN or infinity in a reward, value or bootstrap value that is read.
        RangeError: `gamma` or `gae_lambda` is outside [0, 1]; an episode id is outside its table or comes back after another one;
            a reward or `terminated` flag stands before the first action of its episode, or on any observation with "error".

    Example:
        >>> rewards, values = torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0.25, 0.5, 0.5])
        >>> generalized_advantage_estimation(rewards, values, terminated=torch.tensor([False, False, True]))
        (tensor([0.7500, 0.5000, 0.5000]), tensor([1., 1., 1.]))
        >>> episodes = torch.tensor([0, 1, 1])  # the first was cut before a state of value 0.75
        >>> generalized_advantage_estimation(rewards, values, episode_ids=episodes, bootstrap_value=torch.tensor([0.75, 0.0]))
        (tensor([0.5000, 0.5000, 0.5000]), tensor([0.7500, 1.0000, 1.0000]))
    """
    checks.number_in(gamma, "gamma", 0.0, 1.0)
    timeline = read_timeline(
        rewards,
        dtype=working_dtype(rewards, values, bootstrap_value, gae_lambda, critic_lambda),
        terminated=terminated,
        valid_mask=valid_mask,
        action_mask=action_mask,
        observation_rewards=observation_rewards,
        episode_ids=episode_ids,
    )
    values = read_values(values, "values", rewards, timeline.valid)
    weight = read_lambda(gae_lambda, "gae_lambda", timeline)
    critic_weight = None if critic_lambda is None else read_lambda(critic_lambda, "critic_lambda", timeline)
    after = read_bootstrap(bootstrap_value, timeline)
    advantages, targets = _mix(timeline, values, gamma, weight, after)
    return advantages, targets if critic_weight is None else _mix(timeline, values, gamma, critic_weight, after)[1]


def _mix(timeline: Timeline, values: Tensor, gamma: float, weight: float | Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    r"""Accumulate mixtures of value and return instead of errors; return advantages and targets.

    What step t sees of the next existing step s is :math:`M_s = (1-\lambda_t) V_s + \lambda_t (\hat A_s + V_s)`, and
    :math:`\hat A_t = r_t + \gamma M_s - V_t`. M runs through the same recursion, which carries it across absent time by itself: no
    step needs to look for the next one.
    """
    advantages, targets = (torch.empty_like(values, dtype=timeline.dtype, memory_format=torch.contiguous_format) for _ in range(2))
    per_step = [] if not isinstance(weight, Tensor) else [weight]
    for piece, (given, ends, advantage, target, *weights) in timeline.pieces(values, after, advantages, targets, *per_step):
        estimates, seen = piece.read(given), weight
        if weights:
            seen = weights[0].gather(-1, piece.preceding.clamp(min=0)) if weights[0].shape[-1] > 1 else weights[0]
        mixtures = piece.accumulate(torch.lerp(estimates, piece.rewards, seen), gamma * seen, ends)
        piece.add_behind(piece.rewards, mixtures, ends, gamma, out=target)
        torch.sub(target, estimates, out=advantage)
    return advantages, targets


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
    episode_ids: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Estimate one advantage per semantic action, stepping over the observations between actions.

    .. math::
        \delta_i = r_i + \gamma\,(1-d_i)\,V(a_{i+1,0}) - V(a_{i,N}),\qquad
        \hat A_i = \delta_i + \gamma\lambda_i\,(1-d_i)\,\hat A_{i+1},\qquad
        \hat V_i = \hat A_i + V(a_{i,N})

    :math:`a_{i,N}` is the last token of action i, :math:`a_{i+1,0}` the first token of the next one. An observation costs no
    discount and gets no advantage; it still acts through the next value, which was computed with it in the prefix.

    One entry is one action, whatever its number of tokens: this is the step *between* actions. Inside an action the token
    recursion of the paper remains (:func:`generalized_advantage_estimation` with an `action_mask`).

    At the last valid entry of an episode `next_action_values` is the bootstrap if it was cut (0 if it is 0 there); `terminated`
    removes it, and then nothing there is read. Where `valid_mask` is false there is no action: the next advantage is carried across
    without a discount and both results are 0.

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
        episode_ids: `[..., A]`, integer, for rows that hold several episodes, each one stretch of equal ids. The bootstrap of each
            stands in `next_action_values` at its last action.

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
    dtype = working_dtype(rewards, action_end_values, next_action_values, gae_lambda)
    timeline = read_timeline(rewards, dtype=dtype, terminated=terminated, valid_mask=valid_mask, episode_ids=episode_ids)
    ends = timeline.read(read_values(action_end_values, "action_end_values", rewards, timeline.valid))
    nexts = read_values(next_action_values, "next_action_values", rewards, timeline.continues).to(dtype)
    weight = read_lambda(gae_lambda, "gae_lambda", timeline)
    errors = timeline.rewards + gamma * keep(nexts, timeline.continues_bits) - ends
    advantages = keep(timeline.accumulate(errors, gamma * weight), timeline.valid_bits)
    return advantages, advantages + ends
