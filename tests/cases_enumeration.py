"""Credit and objectives over the enumerated toy, and the directions predicted for them without the library."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import enumeration as exact
import torch
from enumeration import (
    BEHAVIOUR,
    LOGITS,
    OUTCOMES,
    PATHS,
    STEP_REWARDS,
    TASKS,
    TURNS,
    UNTIL_MISTAKE,
    VALUES,
)
from torch import Tensor

from rosellm.roserlhf import advantages as credit
from rosellm.roserlhf import losses

TOTALS = STEP_REWARDS.sum(-1)
"""`[tasks, 8]`: outcomes of any size."""

QUIET = (PATHS[:, 1] == 0).double().expand(TASKS, -1)
"""`[tasks, 8]`: a second reward, for action 0 in turn 1; in tasks 1 and 3 the right path does not have it."""

BOTH = torch.stack([OUTCOMES, QUIET], -1)

LAST = torch.arange(TURNS) == TURNS - 1


def reinforce(current: Tensor, _: Tensor, advantages: Tensor, mask: Tensor, **how: Any) -> Any:
    return losses.reinforce_policy_loss(current, advantages, mask, **how)


@cache
def pairs(stale: bool = False) -> exact.Groups:
    return exact.groups(2, sampled_by=BEHAVIOUR if stale else LOGITS)


@cache
def of_size(size: int) -> exact.Groups:
    return exact.groups(size)


def gradient(factor: float = 1.0, outcome: Tensor = OUTCOMES) -> Tensor:
    return factor * exact.true_gradient(outcome)


def prompt_weights(size: int, chance: Tensor) -> Tensor:
    """`E[σ̂] / (p (1 - p))`, σ̂ the deviation of a sampled group: what standardising makes of the gradient of p."""
    sizes = [
        math.sqrt(k * (size - k)) / size * math.comb(size, k) * chance**k * (1 - chance) ** (size - k) for k in range(size + 1)
    ]
    return torch.stack(sizes).sum(0) / (chance * (1 - chance))


def reweighted(size: int, outcome: Tensor = OUTCOMES) -> Tensor:
    chance = (exact.path_probability(LOGITS) * outcome).sum(-1)
    return prompt_weights(size, chance).view(-1, 1, 1) * exact.true_gradient(outcome)


def duel(score: Tensor) -> Tensor:
    """The gradient of the chance to win minus the chance to lose against a frozen copy of oneself."""
    return exact.expected_score(exact.against_another((score.unsqueeze(-1) - score.unsqueeze(-2)).sign()))


def grouped(batch: exact.Groups, outcome: Tensor = OUTCOMES, **options: Any) -> Tensor:
    return credit.grouped_advantages(batch.of(outcome), batch.group, eps=0.0, **options)


def gdpo(batch: exact.Groups) -> Tensor:
    return credit.gdpo_advantages(batch.of(BOTH), batch.group, weights=[1.0, 0.5], whiten="none", eps=0.0)


def gigpo(batch: exact.Groups, states: Tensor, omega: float, gamma: float) -> Tensor:
    rewards = batch.of(OUTCOMES).unsqueeze(-1) * LAST
    rows = torch.arange(len(batch.path)).repeat_interleave(TURNS)
    tasks = batch.group.repeat_interleave(TURNS)
    found = credit.gigpo_advantages(rewards.flatten(), states, rows, tasks, omega=omega, gamma=gamma, normalization="none")
    return found.advantages.view(-1, TURNS)


TRUE = exact.true_values(STEP_REWARDS)


def in_time(
    function: Callable[..., Any], *, stale: bool = False, values: Tensor = VALUES, rewards: Tensor = STEP_REWARDS, **how: Any
) -> Tensor:
    """The expected ascent of a temporal estimator: every row is an episode that truly ends after its last turn."""
    batch = exact.groups(1, sampled_by=BEHAVIOUR if stale else LOGITS)
    parts = (
        [batch.of(rewards)]
        if function in (credit.reward_to_go, credit.potential_shaping)
        else [batch.of(rewards), batch.of(values)]
    )
    if function is credit.v_trace:
        parts = [batch.of(exact.log_policy(LOGITS)) - batch.of(exact.log_policy(batch.sampled_by)), *parts]
    found = function(*parts, terminated=LAST.expand(parts[0].shape), **how)
    advantages = found if isinstance(found, Tensor) else found[1] if function is credit.v_trace else found[0]
    return exact.expected_ascent(batch, advantages, reinforce)


def clipped(current: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, **how: Any) -> Any:
    return losses.clipped_policy_loss(current, old, advantages, mask, clip_low=0.2, clip_high=0.28, **how)


def corrected(correct: Callable[..., losses.MismatchCorrection], objective: exact.Objective = reinforce) -> exact.Objective:
    """An objective whose advantages are multiplied by a correction for stale data, of the policy that is trained."""

    def loss(current: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, **how: Any) -> Any:
        weighted, kept = correct(current.detach(), old, mask).apply(advantages, mask)
        return objective(current, old, weighted, kept, **how)

    return loss


def bounded_by(**options: Any) -> Callable[..., losses.MismatchCorrection]:
    return lambda current, old, mask: losses.mismatch_correction(current, old, mask, **options)


OBJECTIVES: dict[str, exact.Objective] = {
    "reinforce": reinforce,
    "clipped": clipped,
    "dual clip": lambda c, o, a, m, **h: losses.clipped_policy_loss(c, o, a, m, dual_clip=1.5, **h),
    "decoupled": lambda c, o, a, m, **h: losses.decoupled_policy_loss(
        c, losses.log_linear_proximal(o, c, 0, 1, 2), o, a, m, clip_low=0.2, clip_high=0.28, behaviour_cap=1.4, **h
    ),
    "cispo": lambda c, o, a, m, **h: losses.cispo_policy_loss(c, o, a, m, ratio_max=1.5, **h),
    "cispo with a floor": lambda c, o, a, m, **h: losses.cispo_policy_loss(c, o, a, m, ratio_max=1.5, ratio_min=0.5, **h),
    "total variation": lambda c, o, a, m, **h: losses.total_variation_policy_loss(c, o, a, m, **h),
    "gspo": lambda c, o, a, m, **h: losses.gspo_policy_loss(c, o, a, m, clip_low=0.2, clip_high=0.3, **h),
    "gspo-token": lambda c, o, a, m, **h: losses.gspo_token_policy_loss(c, o, a, m, clip_low=0.2, clip_high=0.3, **h),
    "sapo": lambda c, o, a, m, **h: losses.sapo_policy_loss(c, o, a, m, tau_negative=2.0, **h),
    "sao": lambda c, o, a, m, **h: losses.sao_policy_loss(c, o, a, m, clip_low=0.3, clip_high=1.0, **h),
    "sao_reasoning": lambda c, o, a, m, **h: losses.sao_reasoning(c, o, a, m, **h),
    "sao_coding": lambda c, o, a, m, **h: losses.sao_coding(c, o, a, m, **h),
    "tis": corrected(lambda c, o, m: losses.tis(c, o, m, cap=1.5)),
    "icepop": corrected(lambda c, o, m: losses.icepop(c, o, m, ratio_max=2.0)),
    "mis": corrected(lambda c, o, m: losses.mis(c, o, m, ratio_min=0.5, ratio_max=1.5)),
    "capped product": corrected(bounded_by(level="product_sequence", action="truncate", ratio_max=2.0)),
    "geometric mean": corrected(bounded_by(level="geometric_sequence", action="truncate", ratio_max=math.inf)),
}

UNITS: dict[losses.Aggregation, float] = {
    "token": 1 / TURNS,
    "sequence_mean": 1 / TURNS,
    "sequence_sum": 1.0,
    "rollout": 1 / TURNS,
    "horizon": 1 / 5,
}
"""What the sum over an episode is multiplied by, all episodes being of `TURNS` tokens; the horizon is 5."""

LENGTHS = UNTIL_MISTAKE.sum(-1).double()

MARGIN = OUTCOMES.unsqueeze(-1) - OUTCOMES.unsqueeze(-2)
"""`[tasks, 8, 8]`: what leaving the own one out makes of two outcomes."""


def weighted(weights: Tensor) -> Tensor:
    """The direction in which every score is weighted by a table over (own path, other path)."""
    return exact.expected_score(exact.against_another((MARGIN * weights).unsqueeze(-1) * UNTIL_MISTAKE.unsqueeze(2)))


RATIOS = (exact.log_policy(LOGITS) - exact.log_policy(BEHAVIOUR)).exp()
"""`[tasks, 8, turns]`, from 0.10 to 4.3."""

MOVED = exact.log_policy(LOGITS).exp() - exact.log_policy(BEHAVIOUR).exp()
UP, DOWN = (MARGIN > 0).unsqueeze(-1), (MARGIN < 0).unsqueeze(-1)

OWN = RATIOS.unsqueeze(2)
"""Of the own path, for every other one: `[tasks, 8, 1, turns]`; `UP` and `DOWN` are the signs of the advantage there."""


def clip(ratio: Tensor, low: float, high: float) -> Tensor:
    """The derivative of PPO's clip by the log-probability."""
    return ratio * ~((UP & (ratio > 1 + high)) | (DOWN & (ratio < 1 - low)))


def gate(ratio: Tensor, temperature: float) -> Tensor:
    odds = torch.sigmoid(temperature * (ratio - 1))
    return 4 * odds * (1 - odds) * ratio


def inside(ratio: Tensor, low: float, high: float) -> Tensor:
    return (ratio >= low) & (ratio <= high)


MEAN_RATIOS = OWN.log().mean(-1, keepdim=True).exp()

HALFWAY = OWN.sqrt()
"""Proximal over old, and current over proximal: the proximal policy is halfway between the two."""

WEIGHTS: dict[str, Callable[[], Tensor]] = {
    "reinforce": lambda: torch.ones_like(OWN),
    "clipped": lambda: clip(OWN, 0.2, 0.28),
    "dual clip": lambda: clip(OWN, 0.2, 0.2) * ~(DOWN & (OWN > 1.5)),
    "decoupled": lambda: HALFWAY * (HALFWAY <= 1.4) * clip(HALFWAY, 0.2, 0.28),
    "cispo": lambda: OWN.clamp(max=1.5),
    "cispo with a floor": lambda: OWN.clamp(0.5, 1.5),
    "total variation": lambda: OWN * ~((UP & (MOVED.unsqueeze(2) > 0.2)) | (DOWN & (MOVED.unsqueeze(2) < -0.2))),
    "gspo": lambda: clip(MEAN_RATIOS, 0.2, 0.3),
    "gspo-token": lambda: clip(MEAN_RATIOS, 0.2, 0.3),
    "sapo": lambda: torch.where(UP, gate(OWN, 1.0), gate(OWN, 2.0)),
    "sao": lambda: OWN * inside(OWN, 0.7, 2.0),
    "sao_reasoning": lambda: OWN * inside(OWN, 0.7, 6.0),
    "sao_coding": lambda: OWN * inside(OWN, 0.2, 4.0),
    "tis": lambda: OWN.clamp(max=1.5),
    "icepop": lambda: OWN * inside(OWN, 0.5, 2.0),
    "mis": lambda: (inside(MEAN_RATIOS, 0.5, 1.5) & inside(OWN, 0.5, 2.0)).double(),
    "capped product": lambda: OWN.prod(-1, keepdim=True).clamp(max=2.0),
    "geometric mean": lambda: MEAN_RATIOS,
}
"""What multiplies `A ∇ log π`, written from the docstrings; no ratio of the enumeration lies on a bound."""


def reweighed(weights: Tensor) -> Tensor:
    return exact.expected_score(exact.against_another(MARGIN.unsqueeze(-1) * weights, BEHAVIOUR), sampled_by=BEHAVIOUR)
