"""Rewards -> discounted returns."""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.bootstrap import read_bootstrap
from rosellm.roserlhf.credit.selection import keep
from rosellm.roserlhf.credit.timeline import read_timeline, working_dtype


@torch.no_grad()
def discounted_returns(
    rewards: Tensor,
    *,
    gamma: float = 1.0,
    terminated: Tensor | None = None,
    valid_mask: Tensor | None = None,
    bootstrap_value: Tensor | float | None = None,
) -> Tensor:
    r"""Sum the discounted rewards from every step to the end of its episode.

    .. math:: G_t = r_t + \gamma\,(1-d_t)\,G_{t+1},\qquad G_T = V_T

    :math:`d_t` is `terminated`, :math:`V_T` the `bootstrap_value` of a row that was cut. The gradient factor :math:`\gamma^t` of
    the discounted policy gradient is not included, as in nearly all training of language models.

    With neither a terminal step nor a bootstrap, 0 follows the end. A terminal last step beats a bootstrap. A terminal step
    inside a row ends that episode; the next step starts another. Where `valid_mask` is false no time passes: the next return is
    carried across without a discount, whatever stands there is not read, and the result there is 0. A row without a valid step is
    0.

    Source: Sutton and Barto 2018, "Reinforcement Learning", Eq. 3.9 (bootstrap at a time limit: Pardo et al. 2018, "Time
    Limits in Reinforcement Learning", https://arxiv.org/abs/1712.00378).

    Args:
        rewards: `[..., T]`, floating point; time is the last dimension, any leading shape, none included.
        gamma: discount per valid step, in [0, 1].
        terminated: `[..., T]`, boolean or exactly 0/1; true where the process truly ended. None: nowhere.
        valid_mask: `[..., T]`, boolean or exactly 0/1. None: every step is valid.
        bootstrap_value: value of the state after the last valid step, `[...]` (the shape of `rewards` without time), or a number
            (0-d tensor) for every row. Read only where the row was cut.

    Returns:
        `[..., T]`, detached; the widest input dtype, float32 at least (half precision is computed and returned in float32).

    Raises:
        DtypeError: `rewards` is not floating point (integer rewards are converted by the caller).
        ShapeError, DeviceError: an argument does not fit `rewards`.
        MaskError: `terminated` or `valid_mask` is not 0/1.
        NonFiniteError: NaN or infinity in a reward or bootstrap value that is read.
        RangeError: `gamma` is outside [0, 1].

    Example:
        >>> discounted_returns(torch.tensor([1.0, 2.0]), gamma=0.5, bootstrap_value=10.0)  # cut: 2 + 0.5 * 10, then 1 + 0.5 * 7
        tensor([4.5000, 7.0000])
        >>> discounted_returns(torch.tensor([1.0, 2.0]), gamma=0.5, terminated=torch.tensor([False, True]), bootstrap_value=10.0)
        tensor([2., 2.])
    """
    checks.number_in(gamma, "gamma", 0.0, 1.0)
    timeline = read_timeline(
        rewards,
        dtype=working_dtype(rewards, bootstrap_value),
        terminated=terminated,
        valid_mask=valid_mask,
    )
    after = read_bootstrap(bootstrap_value, timeline)
    return keep(timeline.accumulate(timeline.rewards.clone(), gamma, after), timeline.valid_bits)
