"""Several rewards per rollout -> one advantage, without the rollouts whose rewards pull in opposite directions (GD²PO)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.gdpo import (
    Whitening,
    added_up,
    normalised_rewards,
    read_lengths,
    read_scored_rewards,
    read_weights,
    read_whiten_eps,
    whitened,
)
from rosellm.roserlhf.credit.identifiers import blocks, number_of_groups
from rosellm.roserlhf.credit.members import Ids, row_ids
from rosellm.roserlhf.credit.nesting import Singleton
from rosellm.roserlhf.credit.statistics import StdKind, check_std, group_count
from rosellm.roserlhf.errors import ShapeError
from rosellm.roserlhf.masked import at_least_float32, select

ConflictFilter = Literal["hard", "snr"]
Rule = Literal["paper", "code"]


@dataclass(frozen=True)
class Gd2poAdvantages:
    """The advantages of N rollouts and how they came about; all tensors are detached."""

    advantages: Tensor
    """`[N]`: 0 where the rollout is rejected."""
    keep_mask: Tensor
    """`[N]` boolean: the rollout is kept. Rejected and unscored rollouts are false; the caller's denominators decide about them."""
    signal_to_noise: Tensor
    """`[N]` δ in [0, 1]: 1 where all rewards pull one way, 0 where they cancel or where there is nothing to pull."""
    query_weights: Tensor
    """`[N]` q: kept share of the scored rollouts of the same task; reported also with `query_weighting=False`."""
    per_reward_advantages: Tensor
    """`[N, K]` advantage of each reward, before weights."""


@torch.no_grad()
def gd2po_advantages(
    rewards: Tensor,
    group_ids: Ids,
    *,
    weights: Tensor | Sequence[float] | None = None,
    conflict_filter: ConflictFilter = "hard",
    snr_threshold: float = 0.8,
    query_weighting: bool = True,
    rule: Rule = "paper",
    whiten: Whitening = "none",
    lengths: Tensor | None = None,
    std: StdKind = "population",
    eps: float = 1e-8,
    whiten_eps: float | None = None,
    snr_eps: float = 1e-8,
    sign_tolerance: float = 1e-6,
    scored_mask: Tensor | None = None,
    singleton: Singleton = "zero",
) -> Gd2poAdvantages:
    r"""Normalise each reward in its group, reject the rollouts whose rewards conflict, and weight each task by what is left.

    .. math::
        \tilde A_i = q_{g(i)}\, m_i \sum_k w_k A_{ik},\qquad q_g = \frac1{|g|}\sum_{j\in g} m_j

    :math:`A_{ik}` is the first step of `gdpo_advantages`, exactly 0 for a reward that is uniform in its group: rounding never
    makes a conflict. `filter_reward_conflicts` says how :math:`m` is found and what the options mean; it starts from advantages.

    Source: Liu et al. 2026, "GD²PO", https://arxiv.org/abs/2606.16771 (threshold 0.8 as in the authors' scripts)

    Args:
        rewards, group_ids, scored_mask, singleton: as for `gdpo_advantages`.
        std, eps: of the normalisation of each reward; `std` also of the whitening.
        weights, conflict_filter, snr_threshold, query_weighting, rule, whiten, lengths, whiten_eps, snr_eps, sign_tolerance: as for
            `filter_reward_conflicts`.

    Returns:
        Advantages `[N]`, keep mask, signal-to-noise, query weights and per-reward advantages `[N, K]`; float32, or float64 for
        float64 `rewards`.

    Raises:
        DtypeError, ShapeError, DeviceError, NonFiniteError, RangeError, ConfigError, GroupError: as in `gdpo_advantages` and
            `filter_reward_conflicts`.

    Example:
        >>> correct, short = [0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]  # rollouts 2 and 3 are good at one and bad at the other
        >>> found = gd2po_advantages(torch.tensor([correct, short]).T, ["task"] * 4)
        >>> found.keep_mask, found.advantages  # q = 2/4
        (tensor([ True,  True, False, False]), tensor([-1.,  1.,  0.,  0.]))
    """
    options = _Options(conflict_filter, snr_threshold, query_weighting, rule, whiten, std, snr_eps, sign_tolerance)
    last_eps = read_whiten_eps(whiten_eps, whiten, eps)
    advantages, scored, ids = normalised_rewards(rewards, group_ids, std=std, eps=eps, scored_mask=scored_mask, singleton=singleton)
    return _filtered(advantages, scored, ids, weights, lengths, last_eps, options, at_least_float32(rewards).dtype)


@torch.no_grad()
def filter_reward_conflicts(
    per_reward_advantages: Tensor,
    group_ids: Ids,
    *,
    weights: Tensor | Sequence[float] | None = None,
    conflict_filter: ConflictFilter = "hard",
    snr_threshold: float = 0.8,
    query_weighting: bool = True,
    rule: Rule = "paper",
    whiten: Whitening = "none",
    lengths: Tensor | None = None,
    std: StdKind = "population",
    whiten_eps: float | None = None,
    snr_eps: float = 1e-8,
    sign_tolerance: float = 1e-6,
    scored_mask: Tensor | None = None,
) -> Gd2poAdvantages:
    r"""Combine the advantages of several rewards, rejecting rollouts whose rewards conflict.

    .. math::
        \text{hard: } m_i = \neg\,(\exists k: w_kA_{ik} > 0 \wedge \exists k: w_kA_{ik} < 0),\qquad
        \text{snr: } m_i = \mathbb 1[\delta_i \ge \tau],\quad
        \delta_i = \frac{|\sum_k w_kA_{ik}|}{\sum_k |w_kA_{ik}| + \epsilon}

    Zero is neither sign. All rejected: zeros. At K = 2 and τ = 0.8 a mixed rollout survives iff one part is at least 9 times the
    other; exactly 9 to 1 survives only with `snr_eps=0`, since any ε pushes δ below the threshold. A rollout whose parts are all 0
    has δ = 0, also with ε = 0. A weight of 0 takes a reward out of the decision.

    `rule="paper"` is what is printed. `rule="code"` is the authors' code, which rejects in the snr case only if the signs are also
    mixed (so a rollout of zeros is kept, counts in q, and with τ = 1 the unmixed are kept although δ = 1 - O(ε)), and which judges
    advantages multiplied by the rollout's number of tokens, if `lengths` are given. (Its sign tolerance is 1e-8.)

    `whiten` standardises the kept sums over the batch after q was applied, as the authors' code does per token (`"token"`, `std
    ="sample"`); the printed formula ends without it. Whitening shifts: a kept 0 becomes non-zero and signs can turn. Exactly one
    kept token or rollout whitens to 0, where the authors' code raises.

    Source: Liu et al. 2026, "GD²PO", https://arxiv.org/abs/2606.16771

    Args:
        per_reward_advantages: `[N, K]`, floating point, finite: each reward already relative to its group.
        group_ids: N ids of any hashable kind, the task (query) of each rollout.
        weights: K finite numbers. None: 1 each.
        conflict_filter: `"hard"` or `"snr"`.
        snr_threshold: τ in [0, 1]; read by `"snr"`.
        query_weighting: multiply by q.
        rule: `"paper"` or `"code"`.
        whiten: `"none"`, `"rollout"` or `"token"`.
        lengths: `[N]`, integer, ≥ 0: trained tokens per rollout. Needed by `whiten="token"`, allowed with `rule="code"` (None: each
            rollout is one token), refused otherwise.
        std: divisor n (population) or n - 1 (sample) of the whitening.
        whiten_eps: ε of the whitening, outside the root for `"rollout"` and inside for `"token"`. None: 1e-8.
        snr_eps: ε of δ, ≥ 0.
        sign_tolerance: a part up to this size has no sign, ≥ 0: float32 rewards such as 0.1, 0.2, 0.3 leave 3e-8 at their mean.
        scored_mask: `[N]`, boolean or 0/1: an unscored rollout is not read, not kept and not counted in q. None: all are scored.

    Returns:
        As `gd2po_advantages`; float32, or float64 for float64 input.

    Raises:
        DtypeError, ShapeError, DeviceError: an argument has the wrong type, shape or device.
        NonFiniteError: NaN or infinity in an advantage or a weight.
        RangeError: an option is unknown or a number out of its interval.
        ConfigError: `lengths` or `whiten_eps` would be ignored, or `lengths` is missing.

    Example:
        >>> parts = torch.tensor([[9.0, -1.0], [3.0, 0.0]], dtype=torch.float64)
        >>> filter_reward_conflicts(parts, ["q", "q"], conflict_filter="snr", snr_eps=0.0).keep_mask  # 8 / 10 and 3 / 3
        tensor([True, True])
    """
    options = _Options(conflict_filter, snr_threshold, query_weighting, rule, whiten, std, snr_eps, sign_tolerance)
    last_eps = read_whiten_eps(whiten_eps, whiten, 1e-8)
    advantages, scored = _read_advantages(per_reward_advantages, scored_mask)
    ids = row_ids(group_ids, "group_ids", advantages)
    return _filtered(advantages, scored, ids, weights, lengths, last_eps, options, at_least_float32(per_reward_advantages).dtype)


@dataclass(frozen=True)
class _Options:
    conflict_filter: ConflictFilter
    snr_threshold: float
    query_weighting: bool
    rule: Rule
    whiten: Whitening
    std: StdKind
    snr_eps: float
    sign_tolerance: float

    def __post_init__(self) -> None:
        checks.one_of(self.conflict_filter, "conflict_filter", ("hard", "snr"))
        checks.number_in(self.snr_threshold, "snr_threshold", 0.0, 1.0)
        checks.flag(self.query_weighting, "query_weighting")
        checks.one_of(self.rule, "rule", ("paper", "code"))
        checks.one_of(self.whiten, "whiten", ("rollout", "token", "none"))
        check_std(self.std)
        checks.number_in(self.snr_eps, "snr_eps", 0.0, float("inf"), open_high=True)
        checks.number_in(self.sign_tolerance, "sign_tolerance", 0.0, float("inf"), open_high=True)


def _read_advantages(per_reward_advantages: Tensor, scored_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return the advantages in float64, 0 where the rollout was not scored, and which rollouts were (None: all)."""
    name = "per_reward_advantages"
    checks.floating(per_reward_advantages, name)
    shape = tuple(per_reward_advantages.shape)
    if len(shape) != 2 or 0 in shape:
        raise checks.fail(ShapeError, name, "be [N, K] with at least one rollout and one reward", f"shape {shape}")
    each_reward = read_scored_rewards(scored_mask, per_reward_advantages)
    checks.finite(per_reward_advantages, name, where=each_reward)
    # the exact tie 8/10 = 0.8 and an ε of 1e-8 beside 10 exist only in double precision
    double = torch.float32 if per_reward_advantages.device.type == "mps" else torch.float64
    advantages = per_reward_advantages.to(double, copy=True)  # it is returned
    return (advantages, None) if each_reward is None else (select(advantages, each_reward), each_reward.any(-1))


def _filtered(
    advantages: Tensor,
    scored: Tensor | None,
    ids: Tensor,
    weights: Tensor | Sequence[float] | None,
    lengths: Tensor | None,
    whiten_eps: float,
    options: _Options,
    dtype: torch.dtype,
) -> Gd2poAdvantages:
    """Filter advantages that nobody else holds; few results are as long as the batch at one time, as their memory costs time."""
    counts = read_lengths(lengths, options.whiten, advantages, needless=options.whiten != "token" and options.rule == "paper")
    sums, delta, rejected = _judge(advantages, read_weights(weights, advantages), counts, options, dtype)
    kept = rejected.logical_not_() if scored is None else rejected.logical_not_().logical_and_(scored)
    groups = number_of_groups(ids)
    share = group_count(ids, groups, kept).to(sums.dtype) / group_count(ids, groups, scored).clamp(min=1)
    if options.query_weighting:
        for part, members in zip(sums.split(blocks(ids)), ids.split(blocks(ids)), strict=True):
            part.mul_(share.index_select(0, members))
    combined = whitened(sums, kept, options.whiten, counts, options.std, whiten_eps).to(dtype)
    del sums
    return Gd2poAdvantages(combined, kept, delta, share.to(dtype).index_select(0, ids), advantages.to(dtype))


def _judge(
    advantages: Tensor, weights: Tensor, counts: Tensor | None, options: _Options, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sum of the parts of each rollout, its signal-to-noise in `dtype`, and whether it is rejected."""
    rows, size = len(advantages), blocks(advantages)
    sums, delta = advantages.new_empty(rows), advantages.new_empty(rows, dtype=dtype)
    rejected = torch.empty(rows, dtype=torch.bool, device=advantages.device)
    for start in range(0, rows, size):
        block = slice(start, start + size)
        parts = advantages[block] * weights
        judged = parts if counts is None or options.rule == "paper" else parts * counts[block].unsqueeze(-1)
        mixed = (judged.amax(-1) > options.sign_tolerance) & (judged.amin(-1) < -options.sign_tolerance)
        scale = judged.abs().sum(-1) + options.snr_eps
        ratio = torch.where(scale > 0, judged.sum(-1).abs() / scale, 0.0)
        noisy = ratio < options.snr_threshold
        rejected[block] = mixed if options.conflict_filter == "hard" else noisy if options.rule == "paper" else mixed & noisy
        sums[block], delta[block] = added_up(parts), ratio
    return sums, delta, rejected
