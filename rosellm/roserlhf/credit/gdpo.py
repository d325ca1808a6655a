"""Several rewards per rollout -> one advantage: each reward is normalised in its group before anything is added up.

Adding rewards first and normalising the sum lets different achievements collapse into one number: (1, 0) against (0, 0) and (1, 1)
against (0, 0) get the same advantages. The steps here, `rewards [N, K] -> per reward [N, K] -> weighted sum [N] -> whitened [N]`,
are shared with `credit/gd2po.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.identifiers import blocks, number_of_groups
from rosellm.roserlhf.credit.members import Ids, read_scored, row_ids
from rosellm.roserlhf.credit.nesting import Singleton, refuse_singletons
from rosellm.roserlhf.credit.statistics import StdKind, accumulator, check_std, group_statistics
from rosellm.roserlhf.errors import ConfigError, ShapeError
from rosellm.roserlhf.masked import at_least_float32, select

Whitening = Literal["rollout", "token", "none"]


@torch.no_grad()
def gdpo_advantages(
    rewards: Tensor,
    group_ids: Ids,
    *,
    weights: Tensor | Sequence[float] | None = None,
    whiten: Whitening = "rollout",
    lengths: Tensor | None = None,
    std: StdKind = "population",
    eps: float = 1e-8,
    whiten_eps: float | None = None,
    scored_mask: Tensor | None = None,
    singleton: Singleton = "zero",
) -> Tensor:
    r"""Standardise each reward in its group, add the results up, and standardise the sums over the batch (GDPO).

    .. math::
        A_{ik} = \frac{r_{ik} - \bar r_{g(i)k}}{\sigma_{g(i)k} + \epsilon},\qquad
        S_i = \sum_k w_k A_{ik},\qquad
        A_i = \frac{S_i - \bar S}{\sigma_S + \epsilon}

    The weights multiply normalised advantages, not rewards: doubling a reward changes nothing, doubling its weight does. A reward
    that is uniform in a group adds exactly 0 there, and sums that are all equal whiten to exactly 0 (both by max = min); so does a
    batch of one. :math:`S` has the mean 0 in every group, so counting rollouts only divides; counting tokens moves the mean of
    their batch to 0, and then the mean of a group need not stay 0.

    The readings of the last step differ for unequal lengths. `whiten="rollout"`: every rollout counts once (paper; TRL).
    `whiten="token"`: every rollout counts once per token, and ε is inside the root, :math:`\sqrt{\sigma_S^2 + \epsilon}` (the
    authors' code on verl). `whiten="none"` returns :math:`S_i`. The paper prints no type of standard deviation and no ε in the
    first step; TRL takes the sample standard deviation and 1e-4 in both, the authors' code sample and 1e-6.

    Source: Liu et al. 2026, "GDPO: Group reward-Decoupled Normalization Policy Optimization", https://arxiv.org/abs/2601.05242

    Args:
        rewards: `[N, K]`, floating point: K rewards of N rollouts, of the whole batch that is whitened together.
        group_ids: N ids of any hashable kind, the task of each rollout; any order.
        weights: K finite numbers. None: 1 each.
        whiten: what is counted in the last step.
        lengths: `[N]`, integer, ≥ 0: trained tokens per rollout. Needed by `whiten="token"`, refused otherwise.
        std: divisor n (population) or n - 1 (sample), in both steps.
        eps: ε of the first step and of `whiten="rollout"`, ≥ 0.
        whiten_eps: ε of the last step. None: `eps` for `"rollout"`, 1e-8 for `"token"`. Refused by `"none"`.
        scored_mask: `[N]` or `[N, K]`, boolean or 0/1. A reward that was not scored is never read, takes no part in any statistic
            and adds 0; a rollout with no scored reward is left out of the whitening and gets 0. None: all are scored.
        singleton: a reward with one scored member in a group is 0, or an error.

    Returns:
        `[N]`, detached; float32, or float64 for float64 `rewards`.

    Raises:
        DtypeError, ShapeError, DeviceError: an argument has the wrong type, shape or device.
        NonFiniteError: NaN or infinity in a scored reward or a weight.
        RangeError: an option is unknown, `eps` or a length negative.
        ConfigError: `lengths` or `whiten_eps` would be ignored, or `lengths` is missing.
        GroupError: a group of one with `singleton="error"`.

    Example:
        >>> rewards = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])  # the sums alone would all be -1, 1, -1, 1
        >>> gdpo_advantages(rewards, ["a", "a", "b", "b"], whiten="none")
        tensor([-1.,  1., -2.,  2.])
    """
    advantages, kept, _ = normalised_rewards(rewards, group_ids, std=std, eps=eps, scored_mask=scored_mask, singleton=singleton)
    counts = read_lengths(lengths, whiten, advantages, needless=whiten != "token")
    last_eps = read_whiten_eps(whiten_eps, whiten, eps)
    weighed_by = read_weights(weights, advantages)
    sums = torch.cat([added_up(block * weighed_by) for block in advantages.split(blocks(advantages))])
    del advantages  # K times as large as what follows
    return whitened(sums, kept, whiten, counts, std, last_eps).to(at_least_float32(rewards).dtype)


def normalised_rewards(
    rewards: Tensor, group_ids: Ids, *, std: StdKind, eps: float, scored_mask: Tensor | None, singleton: Singleton
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Return the advantage of every reward `[N, K]`, whether any was scored `[N]` (None: all were) and the dense group ids."""
    checks.floating(rewards, "rewards")
    if rewards.ndim != 2 or 0 in rewards.shape:
        raise checks.fail(
            ShapeError, "rewards", "be [N, K] with at least one rollout and one reward", f"shape {tuple(rewards.shape)}"
        )
    check_std(std)
    checks.number_in(eps, "eps", 0.0, float("inf"), open_high=True)
    checks.one_of(singleton, "singleton", ("zero", "error"))
    scored = read_scored_rewards(scored_mask, rewards)
    checks.finite(rewards, "rewards", where=scored)
    ids = row_ids(group_ids, "group_ids", rewards)
    groups = number_of_groups(ids)
    # reward after reward: what was scored may differ, and intermediate results are as large as one reward, not as all
    advantages = torch.empty(rewards.T.shape, dtype=accumulator(rewards), device=rewards.device)
    for place, values in enumerate(rewards.unbind(-1)):
        statistics = group_statistics(values, ids, None if scored is None else scored[:, place], groups)
        statistics.standardized(std, eps, out=advantages[place])
        if singleton == "error":
            refuse_singletons(statistics.count, "rewards", "scored member of its group per reward")
    return advantages.T, None if scored is None else scored.any(-1), ids


def read_scored_rewards(scored_mask: Tensor | None, rewards: Tensor) -> Tensor | None:
    """Return which rewards were scored, `[N, K]`; a mask `[N]` stands for all rewards of a rollout. None: all were scored."""
    if not isinstance(scored_mask, Tensor) or scored_mask.ndim == rewards.ndim:
        return read_scored(scored_mask, rewards)
    scored = read_scored(scored_mask, rewards[:, 0])
    return None if scored is None else scored.unsqueeze(-1).expand_as(rewards)


def read_weights(weights: Tensor | Sequence[float] | None, advantages: Tensor) -> Tensor:
    """Return K weights, by default 1 each."""
    if weights is None:
        return torch.ones_like(advantages[0])
    if isinstance(weights, Tensor):
        checks.floating(weights, "weights")
        checks.same_device(weights, "weights", advantages, "rewards")
        read = weights.to(advantages.dtype)
    else:
        listed = checks.items(weights, "weights")
        for weight in listed:
            checks.number_in(weight, "weights", -float("inf"), float("inf"), open_low=True, open_high=True)
        read = advantages.new_tensor(listed)
    if read.shape != advantages.shape[1:]:
        raise checks.fail(ShapeError, "weights", f"be one number for each of the {advantages.shape[1]} rewards", tuple(read.shape))
    checks.finite(read, "weights")
    return read


def added_up(parts: Tensor) -> Tensor:
    """Sum over the rewards; parts that cancel up to rounding add up to exactly 0, for whitening could make a signal of the rest."""
    sums = parts.sum(-1)
    rounding = 16 * torch.finfo(parts.dtype).eps
    return select(sums, sums.abs() > rounding * parts.abs().sum(-1))


def read_lengths(lengths: Tensor | None, whiten: Whitening, advantages: Tensor, *, needless: bool) -> Tensor | None:
    """Return how often each rollout counts: once per token where lengths are given; None: once."""
    checks.one_of(whiten, "whiten", ("rollout", "token", "none"))
    if lengths is None:
        if whiten == "token":
            raise checks.fail(
                ConfigError, "lengths", "be given with whiten='token'", None, fix="count the trained tokens per rollout"
            )
        return None
    if needless:
        raise checks.fail(ConfigError, "lengths", "be left out unless whiten='token'", "lengths", fix="they would be ignored")
    checks.index(lengths, "lengths", None)
    checks.same_shape(lengths, "lengths", advantages[:, 0], "the rollouts")
    return lengths.to(advantages.dtype)


def read_whiten_eps(whiten_eps: float | None, whiten: Whitening, eps: float) -> float:
    """Return the ε of the whitening, which follows its source unless it is given."""
    if whiten_eps is None:
        return 1e-8 if whiten == "token" else eps
    if whiten == "none":
        raise checks.fail(ConfigError, "whiten_eps", "be left out with whiten='none'", whiten_eps, fix="it would be ignored")
    checks.number_in(whiten_eps, "whiten_eps", 0.0, float("inf"), open_high=True)
    return whiten_eps


def whitened(sums: Tensor, kept: Tensor | None, whiten: Whitening, counts: Tensor | None, std: StdKind, eps: float) -> Tensor:
    """Standardise the kept sums over the batch, perhaps in place; what is not kept, or has no token to carry it, is 0."""
    if whiten == "none":
        return sums if kept is None else sums.masked_fill_(~kept, 0.0)
    votes = counts if whiten == "token" else None if kept is None else torch.ones_like(sums)  # None: everyone has one
    if votes is not None and kept is not None:
        votes = select(votes, kept)
    counted = None if votes is None else votes > 0
    low, high = sums.aminmax() if counted is None else _range(sums, counted)
    # the spread as unit: squares of numbers in [0, 1] neither overflow nor vanish
    unit = torch.where(high > low, high - low, 1.0)
    centred = (sums - low if counted is None else select(sums - low, counted)).div_(unit)
    total = len(sums) if votes is None else votes.sum()
    centred.sub_((centred if votes is None else votes * centred).sum() / total)
    variance = torch.dot(centred, centred if votes is None else votes * centred) / (total - 1 if std == "sample" else total)
    divisor = (variance + eps / unit**2).sqrt() if whiten == "token" else variance.sqrt() + eps / unit
    centred.div_(divisor).masked_fill_(high <= low, 0.0)
    return centred if counted is None else select(centred, counted)


def _range(sums: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    return torch.where(counted, sums, float("inf")).amin(), torch.where(counted, sums, -float("inf")).amax()
