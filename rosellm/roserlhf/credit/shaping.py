"""Rewards and potentials of states -> shaped rewards with the same optimal policy."""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.bootstrap import read_bootstrap
from rosellm.roserlhf.credit.rewards import ObservationRewards
from rosellm.roserlhf.credit.selection import keep
from rosellm.roserlhf.credit.timeline import Timeline, read_timeline, read_values, working_dtype
from rosellm.roserlhf.errors import RangeError


@torch.no_grad()
def potential_shaping(
    rewards: Tensor,
    potentials: Tensor,
    *,
    gamma: float,
    terminated: Tensor | None = None,
    valid_mask: Tensor | None = None,
    action_mask: Tensor | None = None,
    observation_rewards: ObservationRewards = "move",
    bootstrap_potential: Tensor | float | None = None,
    episode_ids: Tensor | None = None,
) -> Tensor:
    r"""Add to every reward how much the potential of the state grew.

    .. math::
        F_t = \gamma\,(1-d_t)\,\Phi_{t+1} - \Phi_t,\qquad
        \sum_t \gamma^t (r_t + F_t) = \sum_t \gamma^t r_t - \Phi_0 + \gamma^T \Phi_T

    The sum telescopes, so policies keep their order, on two conditions that this function keeps: a terminal state has the
    potential 0 (another would reorder the ends), and the state after a cut keeps its own, which must be given. `gamma` must be that
    of the returns. With values shifted to :math:`V - \Phi` (the bootstrap value, too) the GAE advantages are unchanged.

    Source: Ng, Harada and Russell 1999, "Policy Invariance Under Reward Transformations", Theorem 1,
    http://www.andrewng.org/portfolio/policy-invariance-under-reward-transformations-theory-and-application-to-reward-shaping/

    Args:
        rewards: `[..., T]`, floating point.
        potentials: `[..., T]`, floating point, potential of the state before each step; read where a step exists.
        gamma: discount per existing step, in [0, 1].
        terminated, valid_mask, action_mask, observation_rewards, episode_ids: as in :func:`generalized_advantage_estimation`.
        bootstrap_potential: potential of the state after a cut end, in the shapes of `bootstrap_value`; None: no episode is cut.

    Returns:
        Shaped rewards, `[..., T]`, detached, on existing steps only (those of observations were moved), 0 elsewhere; the widest
        input dtype, float32 at least.

    Raises:
        DtypeError, ShapeError, DeviceError, MaskError, NonFiniteError: as :func:`generalized_advantage_estimation`.
        RangeError: as there; an episode is cut and there is no `bootstrap_potential`.

    Example:
        >>> rewards, potentials = torch.tensor([0.0, 1.0]), torch.tensor([2.0, 4.0])
        >>> potential_shaping(rewards, potentials, gamma=0.5, terminated=torch.tensor([False, True]))  # 0 + 4/2 - 2, 1 + 0 - 4
        tensor([ 0., -3.])
        >>> potential_shaping(rewards, potentials, gamma=0.5, bootstrap_potential=8.0)  # 1 + 8/2 - 4
        tensor([0., 1.])
    """
    checks.number_in(gamma, "gamma", 0.0, 1.0)
    timeline = read_timeline(
        rewards,
        dtype=working_dtype(rewards, potentials, bootstrap_potential),
        terminated=terminated,
        valid_mask=valid_mask,
        action_mask=action_mask,
        observation_rewards=observation_rewards,
        episode_ids=episode_ids,
    )
    heights = timeline.read(read_values(potentials, "potentials", rewards, timeline.valid))
    if bootstrap_potential is None:
        _refuse_cuts(timeline)
    after = read_bootstrap(bootstrap_potential, timeline, "bootstrap_potential")
    shaped = timeline.rewards + gamma * timeline.next_values(heights, after) - heights
    return keep(shaped, timeline.valid_bits)


def _refuse_cuts(timeline: Timeline) -> None:
    checks.each(
        "terminated",
        "be true at the last step of every episode when bootstrap_potential is None",
        lambda: (timeline.continues, timeline.cut),
        RangeError,
        fix="give the potential of the state after the cut; 0 there would punish being cut",
    )
