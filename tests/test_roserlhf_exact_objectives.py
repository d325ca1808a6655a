"""What the objectives ascend, exactly: at ratio 1, on episodes of unequal length, on stale data, and towards a reference.

The table is in `test_roserlhf_exact_enumeration.py`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Literal

import enumeration as exact
import pytest
import torch
from cases_enumeration import (
    DOWN,
    LAST,
    LENGTHS,
    OBJECTIVES,
    OWN,
    RATIOS,
    TOTALS,
    TRUE,
    UNITS,
    WEIGHTS,
    bounded_by,
    clipped,
    corrected,
    duel,
    gradient,
    grouped,
    in_time,
    pairs,
    reinforce,
    reweighed,
    weighted,
)
from enumeration import (
    BEHAVIOUR,
    LOGITS,
    OUTCOMES,
    REFERENCE,
    STEP_REWARDS,
    TASKS,
    TURNS,
    UNTIL_MISTAKE,
    VALUES,
    equal,
)
from torch import Tensor

from rosellm.roserlhf import advantages as credit
from rosellm.roserlhf import losses

# ---- objectives and aggregations at ratio 1


@pytest.mark.parametrize("name", OBJECTIVES)
def test_at_ratio_one_every_objective_is_reinforce_whatever_the_credit(name: str) -> None:
    """Unbiased credit stays unbiased in the unit of the aggregation; biased credit keeps exactly its own bias."""
    batch = pairs()
    unbiased = grouped(batch, baseline="leave_one_out", scale="none")
    biased = grouped(batch, TOTALS)
    for aggregation, unit in UNITS.items():
        how: dict[str, Any] = {"horizon": 5.0} if aggregation == "horizon" else {}
        for advantages, expected in ((unbiased, gradient()), (biased, duel(TOTALS))):
            equal(exact.expected_ascent(batch, advantages, OBJECTIVES[name], aggregation=aggregation, **how), unit * expected)


def test_the_literal_derivative_of_saos_weight_is_not_the_policy_gradient() -> None:
    """`detach_ratio=False` multiplies every score by 1 + log π."""

    def attached(current: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, **how: Any) -> Any:
        return losses.sao_reasoning(current, old, advantages, mask, detach_ratio=False, **how)

    batch = pairs()
    margin = (OUTCOMES.unsqueeze(-1) - OUTCOMES.unsqueeze(-2)).unsqueeze(-1)
    expected = exact.expected_score(exact.against_another(margin * (1 + exact.log_policy(LOGITS)).unsqueeze(2)))
    equal(exact.expected_ascent(batch, grouped(batch, baseline="leave_one_out", scale="none"), attached), expected)


# ---- episodes that end at their first mistake: 1, 2 or 3 turns


def ragged(aggregation: losses.Aggregation, outcome: Tensor = OUTCOMES, **how: Any) -> Tensor:
    batch = pairs()
    advantages = grouped(batch, outcome, baseline="leave_one_out", scale="none")
    return exact.expected_ascent(batch, advantages, clipped, aggregation=aggregation, taken=how.pop("taken", UNTIL_MISTAKE), **how)


def test_lengths_and_aggregations() -> None:
    assert LENGTHS[0].tolist() == [3, 3, 2, 2, 1, 1, 1, 1]
    equal(ragged("sequence_sum"), gradient())
    equal(ragged("horizon", horizon=5.0), gradient(1 / 5))
    # a mean over the own tokens: an episode of one turn weighs three times as much as each turn of one of three
    for aggregation in ("sequence_mean", "rollout"):
        equal(ragged(aggregation), weighted((1 / LENGTHS).unsqueeze(-1)))
    # one mean over the tokens of the step: the divisor is sampled, too
    equal(ragged("token"), weighted(2 / (LENGTHS.unsqueeze(-1) + LENGTHS.unsqueeze(-2))))
    for biased in (ragged("sequence_mean"), ragged("token")):
        assert torch.cosine_similarity(biased.flatten(), gradient().flatten(), dim=0) < 0.999


def test_a_penalty_on_length_is_a_reward_and_a_filter_is_a_bias() -> None:
    """Soft punishment keeps the estimator unbiased for the punished reward; leaving out episodes of three turns does not."""
    penalty = credit.overlong_penalty(LENGTHS.long().flatten(), max_length=3, cache_length=2).view(TASKS, -1).double()
    assert penalty[0].tolist() == [-1, -1, -0.5, -0.5, 0, 0, 0, 0]
    equal(ragged("sequence_sum", OUTCOMES + penalty), gradient(outcome=OUTCOMES + penalty))
    cut = LENGTHS == 3
    kept = credit.overlong_filter(cut.flatten(), UNTIL_MISTAKE.view(-1, TURNS)).loss_mask.view(TASKS, 8, TURNS)
    equal(ragged("horizon", horizon=1.0, taken=kept), weighted((~cut).double().unsqueeze(-1)))


# ---- stale data: another policy sampled


def stale(objective: exact.Objective) -> Tensor:
    batch = pairs(True)
    return exact.expected_ascent(batch, grouped(batch, baseline="leave_one_out", scale="none"), objective)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_on_stale_data_every_weight_does_what_its_equation_says(name: str) -> None:
    expected = reweighed(WEIGHTS[name]())
    equal(stale(OBJECTIVES[name]), expected)
    assert (expected - gradient()).abs().max() > 0.01  # and none of them is the policy gradient


def test_only_the_product_of_all_ratios_is_unbiased() -> None:
    equal(stale(corrected(bounded_by(level="product_sequence", action="truncate", ratio_max=math.inf))), gradient())


def test_one_ratio_per_token_improves_each_turn_among_turns_of_the_old_policy() -> None:
    """Unclipped, clipped far away, or capped at infinity: Σ_t ∇ J(old policy, but turn t from the new one)."""

    def only(turn: int) -> Callable[[Tensor], Tensor]:
        def value(logits: Tensor) -> Tensor:
            mixed = torch.where(torch.arange(TURNS).view(1, -1, 1) == turn, logits, BEHAVIOUR)
            return (exact.path_probability(mixed) * OUTCOMES).sum()

        return value

    expected = sum((exact.gradient_of(only(turn)) for turn in range(TURNS)), torch.zeros_like(LOGITS))
    for objective in (
        corrected(bounded_by(level="token", action="truncate", ratio_max=math.inf)),
        lambda c, o, a, m, **h: losses.clipped_policy_loss(c, o, a, m, clip_low=0.9999, clip_high=99.0, **h),
        lambda c, o, a, m, **h: losses.cispo_policy_loss(c, o, a, m, ratio_max=math.inf, **h),
        lambda c, o, a, m, **h: losses.sao_policy_loss(c, o, a, m, clip_low=0.9999, clip_high=99.0, **h),
        lambda c, o, a, m, **h: losses.total_variation_policy_loss(c, o, a, m, max_increase=1.0, max_decrease=1.0, **h),
    ):
        equal(stale(objective), expected)
    equal(expected, reweighed(OWN))


def test_off_policy_sequence_masking_drops_the_failures_of_drifted_sequences() -> None:
    def masked(current: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, **how: Any) -> Any:
        weighted, kept = losses.opsm(current.detach(), old, advantages, mask, delta=0.1).apply(advantages, mask)
        return reinforce(current, old, weighted, kept, **how)

    drifted = -OWN.log().mean(-1, keepdim=True) > 0.1
    equal(stale(masked), reweighed((~(drifted & DOWN)).double()))


def test_v_trace_on_stale_data() -> None:
    """Untruncated: the policy's own future after every turn of the old policy's past. Truncated: the recursion, path by path."""
    true = STEP_REWARDS.clone()
    true[..., :-1] += TRUE[..., 1:]
    unbounded: dict[str, Any] = dict.fromkeys(("rho_max", "c_max", "pg_rho_max"), math.inf)
    equal(in_time(credit.v_trace, stale=True, **unbounded), exact.expected_score(RATIOS * true, sampled_by=BEHAVIOUR))
    target, advantages = torch.zeros(TASKS, 8).double(), torch.zeros_like(STEP_REWARDS)
    behind = torch.zeros_like(target)
    for t in reversed(range(TURNS)):
        weight = RATIOS[..., t].clamp(max=1.0)
        advantages[..., t] = weight * (STEP_REWARDS[..., t] + target - VALUES[..., t])
        error = STEP_REWARDS[..., t] + behind - VALUES[..., t]
        target = VALUES[..., t] + weight * (error + target - behind)
        behind = VALUES[..., t]
    equal(in_time(credit.v_trace, stale=True), exact.expected_score(advantages, sampled_by=BEHAVIOUR))


# ---- divergence from a reference, and distillation from a teacher


def reverse(logits: Tensor) -> Tensor:
    """Σ over tasks and turns of KL(policy || reference)."""
    return (logits.softmax(-1) * (logits.log_softmax(-1) - REFERENCE.log_softmax(-1))).sum()


def forward(logits: Tensor) -> Tensor:
    return (REFERENCE.softmax(-1) * (REFERENCE.log_softmax(-1) - logits.log_softmax(-1))).sum()


def half_square(logits: Tensor) -> Tensor:
    return (logits.softmax(-1) * (logits.log_softmax(-1) - REFERENCE.log_softmax(-1)).square() / 2).sum()


AS_A_LOSS: dict[losses.KlEstimator, Callable[[], Tensor]] = {
    "k1": lambda: torch.zeros_like(LOGITS),
    "k2": lambda: exact.gradient_of(reverse),
    "k3": lambda: exact.gradient_of(forward),
    "k3_k2_gradient": lambda: exact.gradient_of(reverse),
}

IN_THE_REWARD: dict[Literal["k1", "k2", "k3"], Callable[[], Tensor]] = {
    "k1": lambda: exact.gradient_of(reverse),
    "k2": lambda: exact.gradient_of(lambda x: half_square(x) - reverse(x)),
    "k3": lambda: exact.gradient_of(lambda x: reverse(x) - forward(x)),
}


@pytest.mark.parametrize("estimator", AS_A_LOSS)
def test_a_divergence_as_a_loss(estimator: losses.KlEstimator) -> None:
    """On policy the table of `objective/kl.py`; with the ratio of stale data every estimator has the gradient of the reverse KL."""

    def fresh(current: Tensor, old: Tensor, reference: Tensor, mask: Tensor, **how: Any) -> Any:
        return losses.kl_loss(current, reference, mask, estimator=estimator, **how)

    def weighted(current: Tensor, old: Tensor, reference: Tensor, mask: Tensor, **how: Any) -> Any:
        return losses.kl_loss(current, reference, mask, estimator=estimator, behaviour_logprobs=old, **how)

    on, off = exact.groups(1), exact.groups(1, sampled_by=BEHAVIOUR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        equal(-exact.expected_ascent(on, on.of(exact.log_policy(REFERENCE)), fresh), AS_A_LOSS[estimator]())
    equal(-exact.expected_ascent(off, off.of(exact.log_policy(REFERENCE)), weighted), exact.gradient_of(reverse))


@pytest.mark.parametrize("estimator", IN_THE_REWARD)
def test_a_divergence_in_the_reward(estimator: Literal["k1", "k2", "k3"]) -> None:
    batch = exact.groups(1)
    rewards = batch.of(OUTCOMES).unsqueeze(-1) * LAST
    own, reference = (batch.of(exact.log_policy(logits)) for logits in (LOGITS, REFERENCE))
    charged = losses.kl_penalty(rewards, own, reference, torch.ones_like(own), coefficient=0.3, estimator=estimator)
    expected = gradient() - 0.3 * IN_THE_REWARD[estimator]()
    equal(exact.expected_ascent(batch, credit.reward_to_go(charged), reinforce), expected)


def test_sampled_distillation_is_the_reverse_divergence_from_the_teacher() -> None:
    batch = exact.groups(1)
    student, teacher = (batch.of(exact.log_policy(logits)) for logits in (LOGITS, REFERENCE))
    advantages = losses.distillation_advantages(student, teacher, torch.ones_like(student)).advantages
    equal(exact.expected_ascent(batch, advantages, clipped), -exact.gradient_of(reverse))
    equal(exact.gradient_of(lambda logits: losses.exact_kl(logits, REFERENCE).sum()), exact.gradient_of(reverse))
