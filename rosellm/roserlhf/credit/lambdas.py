r"""Lengths -> :math:`\lambda`, and :math:`\lambda` in the shapes it may have -> one that broadcasts along time."""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.lookup import look_up
from rosellm.roserlhf.credit.timeline import Timeline
from rosellm.roserlhf.errors import DtypeError, RangeError, ShapeError
from rosellm.roserlhf.masked import select


@torch.no_grad()
def length_adaptive_lambda(lengths: Tensor, *, alpha: float, clamp: bool = True, dtype: torch.dtype = torch.float32) -> Tensor:
    r"""Choose :math:`\lambda` by the number of steps, so that the weights of later errors sum to a multiple of the length.

    .. math:: \lambda = \operatorname{clip}\!\left(1 - \frac{1}{\alpha\,l},\,0,\,1\right),\qquad \sum_{k\ge 0}\lambda^k = \alpha\,l

    The result goes to `gae_lambda` of :func:`generalized_advantage_estimation`: one per row, one per step, or one per episode of
    packed rows. The critic keeps its own :math:`\lambda` (`critic_lambda`, 1 in the papers).

    The printed formula is negative below :math:`l = 1/\alpha` (20 steps at VAPO's :math:`\alpha = 0.05`), and the papers do not say
    what happens there: it is clipped, so short responses get the one-step error; `clamp=False` returns the formula, for teaching,
    and the estimators refuse it. A length of 0 gives 0 (clipped): there is no step to weigh.

    float32 rounds :math:`\lambda` by up to 3e-8, and the weight of an error l steps later repeats that l times: 0.3 % at 100 000
    steps. With `dtype=torch.float64` the estimators compute such rows in float64.

    Source: Yue et al. 2025, "VAPO", https://arxiv.org/abs/2504.05118 (:math:`\alpha = 0.05`); Hou et al. 2026, "Single-Rollout
    Asynchronous Optimization", https://arxiv.org/abs/2607.07508 (:math:`\alpha = 1.5`, l = policy tokens).

    Args:
        lengths: any shape, integer, number of steps (policy tokens) of each row, episode or segment, ≥ 0.
        alpha: positive.
        clamp: clip to [0, 1].
        dtype: floating point, of the result.

    Returns:
        Shape of `lengths`, detached.

    Raises:
        DtypeError: `lengths` is not an integer tensor, or `dtype` no floating-point one.
        RangeError: a negative length; `alpha` is not positive.

    Example:
        >>> length_adaptive_lambda(torch.tensor([1, 20, 100, 1000]), alpha=0.05)
        tensor([0.0000, 0.0000, 0.8000, 0.9800])
    """
    checks.number_in(alpha, "alpha", 0.0, float("inf"), open_low=True, open_high=True)
    checks.flag(clamp, "clamp")
    checks.index(lengths, "lengths", None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point or dtype.itemsize < 2:
        raise checks.fail(DtypeError, "dtype", "be a floating-point torch.dtype", f"{dtype!r:.80}")
    # float64 inside: 1 - 1/(alpha l) at alpha l = 1 is 0 and not a rounding error
    exact = 1 - 1 / (alpha * lengths.double())
    return (exact.clamp(0, 1) if clamp else exact).to(dtype)


def read_lambda(value: float | Tensor, argument: str, timeline: Timeline) -> float | Tensor:
    r"""Check a :math:`\lambda` and return a number, or a tensor `[..., T]` that is 0 where it is not read, or `[..., 1]`."""
    if not isinstance(value, Tensor):
        checks.number_in(value, argument, 0.0, 1.0)
        return value
    rewards = timeline.given
    checks.floating(value, argument)
    checks.same_device(value, argument, rewards, "rewards")
    rest, shape = rewards.shape[:-1], value.shape
    of_episodes = timeline.episode_ids is not None and value.ndim == rewards.ndim and shape[:-1] == rest and shape[-1] > 0
    if shape not in ((), rest, (*rest, 1), rewards.shape) and not of_episodes:
        allowed = f"be a number, one per row {tuple(rest)} or one per step {tuple(rewards.shape)}"
        packed = "" if timeline.episode_ids is None else f", or one per episode {[*rest, 'E']}"
        raise checks.fail(ShapeError, argument, allowed + packed, f"shape {tuple(shape)}")
    value = value.to(timeline.dtype)
    if timeline.episode_ids is not None and shape not in ((), rest, (*rest, 1), rewards.shape):
        value = look_up(value, timeline.episode_ids, timeline.valid, ids_name="episode_ids", fix=f"the ids index {argument}")
        shape = rewards.shape
    per_row = value.reshape(()).expand(*rest, 1) if shape == () else value.unsqueeze(-1) if shape == rest else value
    in_range = (per_row >= 0) & (per_row <= 1)
    if per_row.shape[-1] == 1 and in_range.device.type == "cpu" and not torch.compiler.is_compiling() and bool(in_range.all()):
        return per_row
    read = timeline.continues & ~timeline.last
    per_step = per_row.expand_as(rewards)
    checks.each(argument, "be in [0, 1]", lambda: (per_step, read & ~in_range), RangeError)
    return select(per_step, read)
