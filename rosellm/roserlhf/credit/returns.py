"""Rewards -> discounted returns, from every step on, seen from that step or from the start."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.bootstrap import read_bootstrap
from rosellm.roserlhf.credit.rewards import ObservationRewards
from rosellm.roserlhf.credit.selection import keep
from rosellm.roserlhf.credit.timeline import Timeline, read_timeline, working_dtype


@torch.no_grad()
def discounted_returns(
    rewards: Tensor,
    *,
    gamma: float = 1.0,
    terminated: Tensor | None = None,
    valid_mask: Tensor | None = None,
    action_mask: Tensor | None = None,
    observation_rewards: ObservationRewards = "move",
    bootstrap_value: Tensor | float | None = None,
    episode_ids: Tensor | None = None,
) -> Tensor:
    r"""Sum the discounted rewards from every step to the end of its episode.

    .. math:: G_t = r_t + \gamma\,(1-d_t)\,G_{t+1},\qquad G_T = V_T

    :math:`d_t` is `terminated`, :math:`V_T` the `bootstrap_value` of a row that was cut. The gradient factor :math:`\gamma^t` of
    the discounted policy gradient is not included, as in nearly all training of language models; :func:`reward_to_go` has it.

    With neither a terminal step nor a bootstrap, 0 follows the end. A terminal last step beats a bootstrap. A terminal step
    inside a row ends that episode; the next step starts another. Where `valid_mask` is false no time passes: the next return is
    carried across without a discount, whatever stands there is not read, and the result there is 0. Observations and packed rows:
    as in :func:`generalized_advantage_estimation`. A row without a valid step is 0.

    Source: Sutton and Barto 2018, "Reinforcement Learning", Eq. 3.9 (bootstrap at a time limit: Pardo et al. 2018, "Time
    Limits in Reinforcement Learning", https://arxiv.org/abs/1712.00378).

    Args:
        rewards: `[..., T]`, floating point; time is the last dimension, any leading shape, none included.
        gamma: discount per valid step, in [0, 1].
        terminated: `[..., T]`, boolean or exactly 0/1; true where the process truly ended. None: nowhere.
        valid_mask: `[..., T]`, boolean or exactly 0/1. None: every step is valid.
        action_mask, observation_rewards, episode_ids: as in :func:`generalized_advantage_estimation`.
        bootstrap_value: value of the state after the last valid step, `[...]` (the shape of `rewards` without time), or a number
            (0-d tensor) for every row; with `episode_ids` `[..., E]` or `[E]`. Read only where an episode was cut.

    Returns:
        `[..., T]`, detached; the widest input dtype, float32 at least (half precision is computed and returned in float32).

    Raises:
        DtypeError: `rewards` is not floating point (integer rewards are converted by the caller).
        ShapeError, DeviceError: an argument does not fit `rewards`.
        MaskError: `terminated` or `valid_mask` is not 0/1.
        NonFiniteError: NaN or infinity in a reward or bootstrap value that is read.
        RangeError: `gamma` is outside [0, 1]; an episode id or a reward on an observation is out of place.

    Example:
        >>> discounted_returns(torch.tensor([1.0, 2.0]), gamma=0.5, bootstrap_value=10.0)  # cut: 2 + 0.5 * 10, then 1 + 0.5 * 7
        tensor([4.5000, 7.0000])
        >>> discounted_returns(torch.tensor([1.0, 2.0]), gamma=0.5, terminated=torch.tensor([False, True]), bootstrap_value=10.0)
        tensor([2., 2.])
    """
    timeline = read_timeline(
        rewards,
        dtype=working_dtype(rewards, bootstrap_value),
        terminated=terminated,
        valid_mask=valid_mask,
        action_mask=action_mask,
        observation_rewards=observation_rewards,
        episode_ids=episode_ids,
    )
    return _returns(timeline, gamma, bootstrap_value)


@torch.no_grad()
def reward_to_go(
    rewards: Tensor,
    *,
    gamma: float = 1.0,
    discount: Literal["from_now", "from_start"] = "from_now",
    terminated: Tensor | None = None,
    valid_mask: Tensor | None = None,
    action_mask: Tensor | None = None,
    observation_rewards: ObservationRewards = "move",
    bootstrap_value: Tensor | float | None = None,
    episode_ids: Tensor | None = None,
) -> Tensor:
    r"""Sum the rewards from every step on, discounted from that step or from the start of its episode.

    .. math::
        \text{from\_now: } G_t = \sum_{s\ge t}\gamma^{s-t} r_s,\qquad
        \text{from\_start: } \gamma^t G_t = \sum_{s\ge t}\gamma^{s} r_s

    The gradient of the discounted objective from the start state is :math:`\mathbb E\sum_t \gamma^t G_t\nabla\log\pi_t`, which is
    `from_start`. Nearly all training of language models leaves :math:`\gamma^t` out, which is `from_now` and the same as
    :func:`discounted_returns`: later steps then count as much as early ones, and for :math:`\gamma<1` the update is the gradient of
    no discounted objective. For :math:`\gamma=1` the two are equal. t counts the existing steps (actions) of the episode from 0; it
    starts anew after a terminal step and with a new id. A bootstrap value counts as the reward after a cut end.

    Source: Williams 1992, "Simple Statistical Gradient-Following Algorithms", https://doi.org/10.1007/BF00992696; the factor:
    Sutton and Barto 2018, "Reinforcement Learning", 13.3.

    Args:
        rewards: `[..., T]`, floating point.
        gamma: discount per existing step, in [0, 1].
        discount: which of the two.
        terminated, valid_mask, action_mask, observation_rewards, bootstrap_value, episode_ids: as in :func:`discounted_returns`.

    Returns:
        `[..., T]`, detached; the widest input dtype, float32 at least; 0 where no step exists.

    Raises:
        DtypeError, ShapeError, DeviceError, MaskError, NonFiniteError, RangeError: as :func:`discounted_returns`.

    Example:
        >>> reward_to_go(torch.tensor([1.0, 2.0, 4.0]), gamma=0.5)  # 1 + 2/2 + 4/4, 2 + 4/2, 4
        tensor([3., 4., 4.])
        >>> reward_to_go(torch.tensor([1.0, 2.0, 4.0]), gamma=0.5, discount="from_start")  # times 1, 1/2, 1/4
        tensor([3., 2., 1.])
    """
    checks.one_of(discount, "discount", ("from_now", "from_start"))
    timeline = read_timeline(
        rewards,
        dtype=working_dtype(rewards, bootstrap_value),
        terminated=terminated,
        valid_mask=valid_mask,
        action_mask=action_mask,
        observation_rewards=observation_rewards,
        episode_ids=episode_ids,
    )
    returns = _returns(timeline, gamma, bootstrap_value)
    return returns if discount == "from_now" else returns * torch.pow(gamma, timeline.step_numbers.to(timeline.dtype))


def _returns(timeline: Timeline, gamma: float, bootstrap_value: Tensor | float | None) -> Tensor:
    checks.number_in(gamma, "gamma", 0.0, 1.0)
    after = read_bootstrap(bootstrap_value, timeline)
    return keep(timeline.accumulate(timeline.rewards.clone(), gamma, after), timeline.valid_bits)
