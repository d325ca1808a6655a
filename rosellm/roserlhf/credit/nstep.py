"""Rewards and values -> advantages that look a fixed number of steps ahead."""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.bootstrap import read_bootstrap
from rosellm.roserlhf.credit.rewards import ObservationRewards
from rosellm.roserlhf.credit.selection import keep
from rosellm.roserlhf.credit.timeline import Timeline, read_timeline, read_values, working_dtype


@torch.no_grad()
def n_step_advantages(
    rewards: Tensor,
    values: Tensor,
    *,
    n: int,
    gamma: float = 1.0,
    terminated: Tensor | None = None,
    valid_mask: Tensor | None = None,
    action_mask: Tensor | None = None,
    observation_rewards: ObservationRewards = "move",
    bootstrap_value: Tensor | float | None = None,
    episode_ids: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Estimate advantages from n rewards and the value that follows them.

    .. math:: \hat A^{(n)}_t = \sum_{k=0}^{n-1}\gamma^k r_{t+k} + \gamma^n V_{t+n} - V_t,\qquad \hat V_t = \hat A^{(n)}_t + V_t

    Fewer than n steps are left near the end of an episode: the sum stops there, and the bootstrap value of a cut end (0 after a
    terminal one) takes the place of :math:`V_{t+n}`. An n as large as the episode is therefore the Monte-Carlo return minus the
    value. In an episode of N steps
    :math:`\hat A^{\text{GAE}}_0 = (1-\lambda)\sum_{n=1}^{N-1}\lambda^{n-1}\hat A^{(n)}_0 + \lambda^{N-1}\hat A^{(N)}_0`.

    Source: Sutton and Barto 2018, "Reinforcement Learning", Eq. 7.1; Mnih et al. 2016, "Asynchronous Methods for Deep Reinforcement
    Learning", https://arxiv.org/abs/1602.01783

    Args:
        rewards, values: `[..., T]`, floating point.
        n: steps to look ahead, at least 1.
        gamma: discount per existing step, in [0, 1].
        terminated, valid_mask, action_mask, observation_rewards, bootstrap_value, episode_ids: as in
            :func:`generalized_advantage_estimation`.

    Returns:
        Advantages and value targets, both `[..., T]`, detached; the widest input dtype, float32 at least; 0 where no step exists.

    Raises:
        DtypeError, ShapeError, DeviceError, MaskError, NonFiniteError, RangeError: as :func:`generalized_advantage_estimation`; `n`
            is not a whole number of at least 1.

    Example:
        >>> rewards, values = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([8.0, 16.0, 32.0])
        >>> n_step_advantages(rewards, values, n=2, gamma=0.5)[0]  # 1 + 2/2 + 32/4 - 8, 2 + 4/2 - 16, 4 - 32
        tensor([  2., -12., -28.])
    """
    checks.number_in(gamma, "gamma", 0.0, 1.0)
    checks.count(n, "n", at_least=1)
    timeline = read_timeline(
        rewards,
        dtype=working_dtype(rewards, values, bootstrap_value),
        terminated=terminated,
        valid_mask=valid_mask,
        action_mask=action_mask,
        observation_rewards=observation_rewards,
        episode_ids=episode_ids,
    )
    estimates = timeline.read(read_values(values, "values", rewards, timeline.valid))
    after = read_bootstrap(bootstrap_value, timeline)
    targets = _look_ahead(timeline, estimates, min(n, rewards.shape[-1]), gamma, after)
    return keep(targets - estimates, timeline.valid_bits), keep(targets, timeline.valid_bits)


def _look_ahead(timeline: Timeline, values: Tensor, n: int, gamma: float, after: Tensor) -> Tensor:
    """Take n steps as powers of two: a step says what it adds, how it weighs what follows and where it leads; two make one."""
    inside = timeline.continues & ~timeline.last
    added = timeline.rewards + gamma * torch.where(timeline.cut, after, 0.0)
    weight, leads_to = gamma * inside.to(values.dtype), timeline.following.clamp(max=values.shape[-1] - 1)
    targets, reached = torch.zeros_like(values), torch.arange(values.shape[-1], device=values.device).expand_as(leads_to)
    reached_weight = torch.ones_like(values)
    while n:
        if n % 2:
            targets = targets + _weighed(reached_weight, added.gather(-1, reached))
            reached_weight = reached_weight * weight.gather(-1, reached)
            reached = leads_to.gather(-1, reached)
        added = added + _weighed(weight, added.gather(-1, leads_to))
        weight, leads_to = weight * weight.gather(-1, leads_to), leads_to.gather(-1, leads_to)
        n //= 2
    return targets + _weighed(reached_weight, values.gather(-1, reached))


def _weighed(weight: Tensor, seen: Tensor) -> Tensor:
    """Return the product, 0 where the weight is: behind the end of an episode may stand what has overflowed, and 0 * inf is NaN."""
    return torch.where(weight != 0, weight * seen, 0.0)
