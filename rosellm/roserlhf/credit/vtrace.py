"""Log-ratios, rewards and values of another policy's trajectories -> off-policy value targets and advantages."""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.bootstrap import read_bootstrap
from rosellm.roserlhf.credit.lambdas import read_lambda
from rosellm.roserlhf.credit.rewards import ObservationRewards
from rosellm.roserlhf.credit.selection import keep
from rosellm.roserlhf.credit.timeline import read_timeline, read_values, working_dtype
from rosellm.roserlhf.errors import NonFiniteError, RangeError


@torch.no_grad()
def v_trace(
    log_ratios: Tensor,
    rewards: Tensor,
    values: Tensor,
    *,
    gamma: float = 1.0,
    rho_max: float = 1.0,
    c_max: float = 1.0,
    pg_rho_max: float = 1.0,
    gae_lambda: float | Tensor = 1.0,
    terminated: Tensor | None = None,
    valid_mask: Tensor | None = None,
    action_mask: Tensor | None = None,
    observation_rewards: ObservationRewards = "move",
    bootstrap_value: Tensor | float | None = None,
    episode_ids: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Correct value targets and advantages for a policy other than the one that acted.

    .. math::
        \delta_t = \min(\bar\rho,\rho_t)\,(r_t + \gamma_t V_{t+1} - V_t),\qquad
        v_t = V_t + \delta_t + \gamma_t\lambda_t\min(\bar c,\rho_t)\,(v_{t+1} - V_{t+1}),\\
        \hat A_t = \min(\bar\rho_{\text{pg}},\rho_t)\,(r_t + \gamma_t v_{t+1} - V_t)

    :math:`\rho_t = e^{\text{log\_ratio}_t}` is the probability of the action under the current policy over that under the policy
    that acted, :math:`\gamma_t` is `gamma` and 0 at a true terminal step; a bootstrap value follows a cut end as both
    :math:`V` and :math:`v`. On policy, with thresholds of at least 1, :math:`v_t` is the return and :math:`\hat A_t` the return
    minus the value. :math:`\bar\rho` decides what the values converge to, :math:`\bar c` only how fast.

    The paper has no :math:`\lambda` beyond the remark that it may scale :math:`c`; here it is `gae_lambda`, 1 by default. The
    authors' code lets the advantage have its own threshold; so does this. Products of ratios over a long response are truncated
    per token, which bounds variance and not bias.

    A ratio is never larger than the largest threshold: the log-ratio saturates before the exponential, so an infinite one (a token
    that the acting policy thought impossible) gives the threshold and -inf gives 0.

    Source: Espeholt et al. 2018, "IMPALA", Eq. 1 and 4.2, https://arxiv.org/abs/1802.01561; authors' code: scalable_agent,
    vtrace.py.

    Args:
        log_ratios: `[..., T]`, floating point, current minus behaviour log-probability of each action; ±inf is allowed, NaN is not.
        rewards, values: `[..., T]`, floating point.
        gamma: discount per existing step, in [0, 1].
        rho_max: threshold of the error, at least `c_max`; infinity truncates nothing and then log-ratios must be finite.
        c_max: threshold of what is carried back, ≥ 0.
        pg_rho_max: threshold of the advantage, ≥ 0.
        gae_lambda: as in :func:`generalized_advantage_estimation`.
        terminated, valid_mask, action_mask, observation_rewards, bootstrap_value, episode_ids: as there.

    Returns:
        Value targets :math:`v` and advantages, both `[..., T]`, detached; the widest input dtype, float32 at least; 0 where no step
        exists.

    Raises:
        DtypeError, ShapeError, DeviceError, MaskError, NonFiniteError, RangeError: as :func:`generalized_advantage_estimation`;
            `rho_max` is below `c_max`; a log-ratio that is read is NaN, or gives an infinite weight.

    Example:
        >>> half = torch.tensor([0.5, 1.0]).log()
        >>> v_trace(half, torch.tensor([0.0, 2.0]), torch.tensor([1.0, 1.0]), terminated=torch.tensor([False, True]))
        (tensor([1.5000, 2.0000]), tensor([0.5000, 1.0000]))
    """
    checks.number_in(gamma, "gamma", 0.0, 1.0)
    for threshold, name in ((rho_max, "rho_max"), (c_max, "c_max"), (pg_rho_max, "pg_rho_max")):
        checks.number_in(threshold, name, 0.0, float("inf"))
    if rho_max < c_max:
        raise checks.fail(RangeError, "rho_max", f"be at least c_max {c_max:g}", f"{rho_max:g}")
    timeline = read_timeline(
        rewards,
        dtype=working_dtype(log_ratios, rewards, values, bootstrap_value, gae_lambda),
        terminated=terminated,
        valid_mask=valid_mask,
        action_mask=action_mask,
        observation_rewards=observation_rewards,
        episode_ids=episode_ids,
    )
    estimates = timeline.read(read_values(values, "values", rewards, timeline.valid))
    weight = read_lambda(gae_lambda, "gae_lambda", timeline)
    after = read_bootstrap(bootstrap_value, timeline)
    checks.floating(log_ratios, "log_ratios")
    checks.same_shape(log_ratios, "log_ratios", rewards, "rewards")
    of_dtype, valid = log_ratios.to(timeline.dtype), timeline.valid

    def truncated(given: float) -> Tensor:
        threshold = given if given <= torch.finfo(timeline.dtype).max else float("inf")
        # a ratio at or above the threshold is the threshold itself, not what exp and log make of it
        ratios = torch.where(of_dtype.exp() >= threshold, threshold, of_dtype.exp())
        checks.each("log_ratios", "give finite weights", lambda: (log_ratios, valid & ~ratios.isfinite()), NonFiniteError)
        return keep(ratios, timeline.valid_bits)

    errors = timeline.rewards + gamma * timeline.next_values(estimates, after) - estimates
    corrections = timeline.accumulate(truncated(rho_max) * errors, gamma * weight * truncated(c_max))
    targets = keep(estimates + corrections, timeline.valid_bits)
    behind = timeline.next_values(targets, after)
    return targets, truncated(pg_rho_max) * (timeline.rewards + gamma * behind - estimates)
