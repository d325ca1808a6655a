"""Segments of a rollout whose context was compacted -> advantages across segments, and what each token weighs."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.gae import generalized_advantage_estimation
from rosellm.roserlhf.credit.lambdas import length_adaptive_lambda
from rosellm.roserlhf.credit.rewards import ObservationRewards
from rosellm.roserlhf.credit.timeline import working_dtype
from rosellm.roserlhf.errors import RangeError, ShapeError
from rosellm.roserlhf.masked import select


@torch.no_grad()
def cross_segment_advantages(
    rewards: Tensor,
    values: Tensor,
    rollout_ids: Tensor,
    action_mask: Tensor,
    *,
    gamma: float = 1.0,
    gae_lambda: float | None = None,
    alpha: float | None = None,
    lambda_length: Literal["segment", "rollout"] = "segment",
    critic_lambda: float | None = None,
    terminated: Tensor | None = None,
    valid_mask: Tensor | None = None,
    observation_rewards: ObservationRewards = "move",
    bootstrap_value: Tensor | float | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Estimate advantages inside each segment of a compacted rollout and discount them by the segments that follow.

    .. math:: \hat A_{s,t} = (\gamma\lambda_s)^{N_{>s}}\,\hat A^{\text{local}}_{s,t}

    :math:`\hat A^{\text{local}}` is :func:`generalized_advantage_estimation` inside segment s, without a bootstrap across the
    compaction: only a rollout's last segment may be cut. :math:`N_{>s}` counts the policy tokens of the rollout's later segments.
    Every segment carries the shared outcome at its own last policy token (rewards `[S]` put it there); with values 0 an advantage
    is then the outcome times :math:`\gamma\lambda` to the distance from the end of all policy tokens joined together.

    The paper does not say whether l in :math:`\lambda = 1 - 1/(\alpha l)` is the segment's length or the rollout's: "segment" (each
    is a sample of its own) is the default, "rollout" the other reading. Nor does it say which targets the critic gets: here the
    local ones, which estimate the outcome from the segment's own state; `critic_lambda=1` makes them returns.

    A segment without policy tokens is 0 everywhere and counts nothing; a rollout of one segment has the factor 1.

    Source: Li et al. 2026, "CompactionRL", Eq. 12-15, https://arxiv.org/abs/2607.05378 (full-text notes were
    read; no authors' code).

    Args:
        rewards: `[S, T]`, floating point, token rewards; or `[S]`, the outcome of each segment's rollout.
        values: `[S, T]`, floating point.
        rollout_ids: `[S]`, integer; the segments of one rollout are in the order of time, other rows may lie between them.
        action_mask: `[S, T]`, boolean or exactly 0/1, true where the policy sampled the token: actions and summaries, not prompts,
            observations, or what was copied into the new context.
        gamma: discount per policy token, in [0, 1].
        gae_lambda, alpha: exactly one of them: a :math:`\lambda` in [0, 1], or the :math:`\alpha` of
            :func:`length_adaptive_lambda`.
        lambda_length: which length :math:`\alpha` is applied to.
        critic_lambda: :math:`\lambda` of the value targets; None: the same as that of the advantages.
        terminated: `[S, T]`; read in the last segment of each rollout.
        valid_mask, observation_rewards: as in :func:`generalized_advantage_estimation`.
        bootstrap_value: `[S]` or a number, value after a cut rollout; read in its last segment only.

    Returns:
        Advantages and value targets, `[S, T]`, detached; the widest input dtype, float32 at least; 0 outside policy tokens.

    Raises:
        DtypeError, ShapeError, DeviceError, MaskError, NonFiniteError, RangeError: as :func:`generalized_advantage_estimation`; not
            exactly one of `gae_lambda` and `alpha`; an outcome for a segment without a policy token.

    Example:
        >>> mask = torch.tensor([[True, True, False], [True, True, True]])
        >>> ids, outcome = torch.tensor([7, 7]), torch.tensor([1.0, 1.0])
        >>> cross_segment_advantages(outcome, torch.zeros(2, 3), ids, mask, gae_lambda=0.5)[0]
        tensor([[0.0625, 0.1250, 0.0000],
                [0.2500, 0.5000, 1.0000]])
    """
    checks.number_in(gamma, "gamma", 0.0, 1.0)
    checks.one_of(lambda_length, "lambda_length", ("segment", "rollout"))
    if (gae_lambda is None) == (alpha is None):
        raise checks.fail(RangeError, "gae_lambda", "be given, or else alpha, and not both", f"{gae_lambda!r} and {alpha!r}")
    checks.floating(rewards, "rewards")
    acts = _policy_tokens(values, rollout_ids, action_mask, valid_mask)
    checks.same_device(rewards, "rewards", values, "values")
    lengths, later, rollout_lengths, final = _segments(acts.sum(-1), rollout_ids)
    dtype = working_dtype(rewards, values, bootstrap_value)
    if alpha is None:
        assert gae_lambda is not None
        checks.number_in(gae_lambda, "gae_lambda", 0.0, 1.0)
        weight = torch.full_like(lengths, gae_lambda, dtype=torch.float64)
    else:
        weight = length_adaptive_lambda(
            lengths if lambda_length == "segment" else rollout_lengths, alpha=alpha, dtype=torch.float64
        )
    placed = rewards if rewards.ndim == 2 else _at_last_token(rewards, acts)
    ends = _ends(terminated, final, acts)
    advantages, targets = generalized_advantage_estimation(
        placed,
        values,
        gamma=gamma,
        gae_lambda=weight.to(dtype),
        critic_lambda=critic_lambda,
        terminated=ends,
        valid_mask=valid_mask,
        action_mask=action_mask,
        observation_rewards=observation_rewards,
        bootstrap_value=bootstrap_value,
    )
    factor = (gamma * weight) ** later  # in float64: the power repeats the rounding of its base `later` times
    return advantages * factor.to(advantages.dtype).unsqueeze(-1), targets


@torch.no_grad()
def compaction_token_weights(
    action_mask: Tensor, rollout_ids: Tensor, *, weighting: Literal["token", "rollout", "segment"]
) -> Tensor:
    r"""Weigh the policy tokens of compacted rollouts; the weights sum to 1.

    .. math::
        \text{token: } \frac{1}{N},\qquad \text{rollout: } \frac{1}{R\,N_r},\qquad \text{segment: } \frac{1}{R\,K_r\,n_s}

    N policy tokens, R rollouts with :math:`N_r` tokens in :math:`K_r` segments, the segment's own :math:`n_s`; what has no policy
    token is not counted. "token" is CompactionRL's mean over all tokens: a long rollout weighs more. "rollout" divides by the
    rollout's token count over all its segments, as frameworks do that let siblings share a rollout id: rollouts weigh the same,
    however often they were compacted. "segment" is a mean per segment with the outcome shared among the rollout's K segments
    (reward / K): the tokens of short segments weigh more.

    Source: Li et al. 2026, "CompactionRL", https://arxiv.org/abs/2607.05378 (token mean); the others: framework practice.

    Args:
        action_mask: `[S, T]`, boolean or exactly 0/1, true at policy tokens.
        rollout_ids: `[S]`, integer.
        weighting: which of the three.

    Returns:
        `[S, T]`, float32, detached, 0 where the mask is false.

    Raises:
        DtypeError, ShapeError, DeviceError, MaskError: an argument is not what it should be; no token is selected.

    Example:
        >>> mask = torch.tensor([[True, False], [True, True], [True, False]])
        >>> compaction_token_weights(mask, torch.tensor([0, 0, 1]), weighting="segment")
        tensor([[0.2500, 0.0000],
                [0.1250, 0.1250],
                [0.5000, 0.0000]])
    """
    checks.one_of(weighting, "weighting", ("token", "rollout", "segment"))
    checks.tensor(action_mask, "action_mask")
    if action_mask.ndim != 2:
        raise checks.fail(ShapeError, "action_mask", "be [S, T]", f"shape {tuple(action_mask.shape)}")
    acts = _policy_tokens(action_mask, rollout_ids, action_mask, None)
    checks.selects_something(acts, "action_mask")
    lengths = acts.sum(-1)
    dense = torch.searchsorted(rollout_ids.sort().values, rollout_ids)  # one number per rollout, not without gaps
    nothing = torch.zeros_like(lengths)
    tokens = nothing.index_add(0, dense, lengths)
    segments = nothing.index_add(0, dense, (lengths > 0).long())
    if weighting == "token":
        share = lengths.sum().expand_as(lengths).double()
    elif weighting == "rollout":
        share = (tokens > 0).sum() * tokens[dense].double()
    else:
        share = (tokens > 0).sum() * segments[dense] * lengths.double()
    return select((1 / share).unsqueeze(-1).expand(acts.shape), acts).float()


def _policy_tokens(values: Tensor, rollout_ids: Tensor, action_mask: Tensor, valid_mask: Tensor | None) -> Tensor:
    checks.tensor(values, "values")
    if values.ndim != 2:
        raise checks.fail(ShapeError, "values", "be [S, T], one row per segment", f"shape {tuple(values.shape)}")
    checks.integer(rollout_ids, "rollout_ids")
    if rollout_ids.shape != values.shape[:1]:
        raise checks.fail(ShapeError, "rollout_ids", f"be {list(values.shape[:1])}, one per segment", tuple(rollout_ids.shape))
    checks.same_device(rollout_ids, "rollout_ids", values, "values")
    checks.tensor(action_mask, "action_mask")
    checks.same_shape(action_mask, "action_mask", values, "values")
    if valid_mask is None:
        return torch.as_tensor(checks.mask(action_mask, "action_mask"))
    checks.tensor(valid_mask, "valid_mask")
    checks.same_shape(valid_mask, "valid_mask", values, "values")
    valid: Tensor = checks.mask(valid_mask, "valid_mask")
    return torch.as_tensor(checks.mask(action_mask, "action_mask", valid))


def _segments(lengths: Tensor, rollout_ids: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return per segment its tokens, those of later segments, those of the rollout, and whether no later segment has any."""
    order = torch.argsort(rollout_ids, stable=True)
    sorted_ids, sorted_lengths = rollout_ids[order], lengths[order]
    start = torch.searchsorted(sorted_ids, sorted_ids)
    end = torch.searchsorted(sorted_ids, sorted_ids, right=True)
    before = torch.cat([sorted_lengths.new_zeros(1), sorted_lengths.cumsum(0)])
    place = torch.arange(len(order), device=order.device)
    back = torch.argsort(order)
    later, rollout = (before[end] - before[place + 1])[back], (before[end] - before[start])[back]
    return lengths, later, rollout, later == 0


def _at_last_token(outcomes: Tensor, acts: Tensor) -> Tensor:
    if outcomes.shape != acts.shape[:1]:
        raise checks.fail(ShapeError, "rewards", f"be {list(acts.shape)} or {list(acts.shape[:1])}", tuple(outcomes.shape))
    nowhere = ~acts.any(-1)
    checks.each(
        "rewards", "not be given to a segment without a policy token", lambda: (outcomes, nowhere & (outcomes != 0)), RangeError
    )
    place = torch.arange(acts.shape[-1], device=acts.device)
    last = (acts & (place == (place * acts).amax(-1, keepdim=True))).expand(acts.shape)
    return torch.where(last, outcomes.unsqueeze(-1), torch.zeros((), dtype=outcomes.dtype, device=outcomes.device))


def _ends(terminated: Tensor | None, final: Tensor, acts: Tensor) -> Tensor:
    """Return the terminal flags of segments: one that another follows is handed over, and nothing crosses its end."""
    place = torch.arange(acts.shape[-1], device=acts.device)
    last = acts & (place == (place * acts).amax(-1, keepdim=True))
    handed_over = last & ~final.unsqueeze(-1)
    if terminated is None:
        return handed_over
    checks.tensor(terminated, "terminated")
    checks.same_shape(terminated, "terminated", acts, "rewards")
    return handed_over | torch.as_tensor(checks.mask(terminated, "terminated", final.unsqueeze(-1)))
