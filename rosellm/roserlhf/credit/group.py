"""Rewards of several rollouts of one task -> advantages relative to their group. The group is one whole dimension."""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError, GroupError, RangeError
from rosellm.roserlhf.masked import at_least_float32


@torch.no_grad()
def leave_one_out_advantages(rewards: Tensor, *, dim: int = -1) -> Tensor:
    r"""Subtract from every reward the mean of the *other* rewards of its group.

    .. math:: A_i = R_i - \frac{1}{G-1}\sum_{k\ne i} R_k = \frac{G}{G-1}\,(R_i - \bar R)

    The baseline does not depend on the sample it judges, so the policy gradient stays unbiased (subtracting the mean of the whole
    group shrinks it by (G-1)/G). A uniform group is exactly 0. A group of one has no others: an error, not a 0 and not the raw
    reward.

    Source: Ahmadian et al. 2024, "Back to Basics: Revisiting REINFORCE Style Optimization for Learning from Human Feedback in
    LLMs", https://arxiv.org/abs/2402.14740

    Args:
        rewards: any shape with the group along `dim`, floating point.
        dim: the group dimension.

    Returns:
        Same shape, detached; float32, or float64 for float64 `rewards`.

    Raises:
        DtypeError: `rewards` is not floating point, or `dim` no integer.
        GroupError: the group has fewer than two members (`group_size`).
        NonFiniteError: NaN or infinity in `rewards`.
        RangeError: `dim` does not exist.

    Example:
        >>> leave_one_out_advantages(torch.tensor([0.0, 1.0, 2.0]))  # 0 - 3/2, 1 - 2/2, 2 - 1/2
        tensor([-1.5000,  0.0000,  1.5000])
    """
    size = _check_group(rewards, dim, at_least=2)
    wide = _wide(rewards)
    # measured from the smallest reward, a uniform group consists of zeros and has no rounding to show
    above_lowest = wide - wide.amin(dim, keepdim=True)
    others = (above_lowest.sum(dim, keepdim=True) - above_lowest) / (size - 1)
    return (above_lowest - others).to(at_least_float32(rewards).dtype)


@torch.no_grad()
def group_standardized_advantages(rewards: Tensor, *, dim: int = -1, eps: float = 1e-8) -> Tensor:
    r"""Standardise every reward by the mean and standard deviation of its group.

    .. math::
        A_i = \frac{R_i - \bar R}{\sigma + \epsilon},\qquad \sigma = \sqrt{\tfrac1G \textstyle\sum_k (R_k - \bar R)^2}

    The *population* standard deviation (divisor G), with :math:`\epsilon` outside the root. The sample version (divisor G-1),
    which many implementations use, gives these numbers times :math:`\sqrt{(G-1)/G}`; the paper does not say which it means.

    A uniform group carries no signal and is exactly 0, decided by max = min and never by a small :math:`\sigma`: the mean of
    eight times 0.35 is not 0.35 in floating point, and a residue divided by a residue is a full-size advantage. A group of one is
    uniform.

    Not the policy gradient: for rewards 0 or 1 and a prompt solved with probability p, the expected gradient is
    :math:`\nabla p\;\mathbb E[\sigma]/(p(1-p))`, in large groups :math:`\nabla p/\sqrt{p(1-p)}`: hard and easy prompts weigh more.
    In groups of two or three :math:`\sigma` has one value other than 0, so there all prompts weigh the same.

    Source: Shao et al. 2024, "DeepSeekMath", section 4.1.2 (outcome supervision), https://arxiv.org/abs/2402.03300

    Args:
        rewards: any shape with the group along `dim`, floating point.
        dim: the group dimension.
        eps: added to the standard deviation, ≥ 0.

    Returns:
        Same shape, detached; float32, or float64 for float64 `rewards`.

    Raises:
        DtypeError: `rewards` is not floating point, or `dim` no integer.
        GroupError: the group is empty.
        NonFiniteError: NaN or infinity in `rewards`.
        RangeError: `dim` does not exist, or `eps` is negative.

    Example:
        >>> group_standardized_advantages(torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.35, 0.35, 0.35, 0.35]]))
        tensor([[ 1., -1., -1.,  1.],
                [ 0.,  0.,  0.,  0.]])
    """
    _check_group(rewards, dim, at_least=1)
    checks.number_in(eps, "eps", 0.0, float("inf"), open_high=True)
    wide = _wide(rewards)
    low, high = wide.amin(dim, keepdim=True), wide.amax(dim, keepdim=True)
    spread = high - low
    # the same quotient with the spread as unit: squares of numbers in [0, 1] neither overflow nor vanish
    position = (wide - low) / spread
    centred = position - position.mean(dim, keepdim=True)
    deviation = centred.square().mean(dim, keepdim=True).sqrt()
    return torch.where(high > low, centred / (deviation + eps / spread), 0.0).to(at_least_float32(rewards).dtype)


@torch.no_grad()
def group_centered_advantages(rewards: Tensor, *, dim: int = -1) -> Tensor:
    r"""Subtract from every reward the mean of its group, and divide by nothing (Dr. GRPO).

    .. math:: A_i = R_i - \bar R

    Without the deviation, easy and hard tasks keep their own weight. The baseline contains the sample it judges, so the expected
    policy gradient is (G-1)/G of the true one: a constant factor, but another one in groups of another size;
    `leave_one_out_advantages` is without it. The paper also drops the division by the length of the response, which is a matter
    of the loss (`aggregation="horizon"`). A uniform group is exactly 0, and a group of one is uniform.

    Source: Liu et al. 2025, "Understanding R1-Zero-Like Training: A Critical Perspective", https://arxiv.org/abs/2503.20783

    Args:
        rewards: any shape with the group along `dim`, floating point.
        dim: the group dimension.

    Returns:
        Same shape, detached; float32, or float64 for float64 `rewards`.

    Raises:
        DtypeError: `rewards` is not floating point, or `dim` no integer.
        GroupError: the group is empty.
        NonFiniteError: NaN or infinity in `rewards`.
        RangeError: `dim` does not exist.

    Example:
        >>> group_centered_advantages(torch.tensor([1.0, 0.0, 0.0, 0.0]))  # mean 1/4
        tensor([ 0.7500, -0.2500, -0.2500, -0.2500])
    """
    _check_group(rewards, dim, at_least=1)
    wide = _wide(rewards)
    above_lowest = wide - wide.amin(dim, keepdim=True)
    return (above_lowest - above_lowest.mean(dim, keepdim=True)).to(at_least_float32(rewards).dtype)


def _wide(rewards: Tensor) -> Tensor:
    """Return float64 where the device has it: the sum of a group of large float32 rewards may be too large for float32."""
    return at_least_float32(rewards) if rewards.device.type == "mps" else rewards.double()


def _check_group(rewards: Tensor, dim: int, *, at_least: int) -> int:
    """Check the arguments and return the group size."""
    checks.floating(rewards, "rewards")
    checks.at_least_rank(rewards, 1, "rewards")
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise checks.fail(DtypeError, "dim", "be an integer", repr(dim))
    if not -rewards.ndim <= dim < rewards.ndim:
        raise checks.fail(RangeError, "dim", f"be in [{-rewards.ndim}, {rewards.ndim - 1}]", dim)
    size = rewards.shape[dim]
    if size < at_least:
        fix = "sample more rollouts per task, or use an estimator with a critic" if at_least > 1 else None
        raise checks.fail(GroupError, "rewards", f"have a group_size of at least {at_least} along dim {dim}", size, fix=fix)
    checks.finite(rewards, "rewards")
    return size
