"""Ten checks that every implementation of these methods should pass; each fits on a screen and needs no other file.

Read them in order: they begin at the ratio of one token and end at a gradient that is split over machines.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from rosellm.roserlhf.advantages import (
    discounted_returns,
    generalized_advantage_estimation,
    group_centered_advantages,
    group_standardized_advantages,
    grouped_advantages,
)
from rosellm.roserlhf.losses import (
    Aggregation,
    aggregate,
    clipped_policy_loss,
    dpo_loss,
    exact_kl,
    gather_token_logprobs,
    step_denominator,
)


def some_logits(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_01_before_the_first_update_every_ratio_is_one() -> None:
    logits, actions = some_logits(2, 3, 5), torch.tensor([[0, 4, 2], [1, 1, 3]])
    recorded = gather_token_logprobs(logits, actions)  # what the sampler wrote down
    current = gather_token_logprobs(logits, actions)  # what the trainer computes, with the same weights
    out = clipped_policy_loss(current, recorded, torch.tensor([1.0, -2.0]), torch.ones(2, 3))
    assert torch.equal((current - recorded).exp(), torch.ones(2, 3, dtype=torch.float64))
    assert out.mean_ratio == 1.0
    assert out.clip_fraction == 0.0
    assert out.approximate_kl == 0.0


def test_02_masked_logits_get_exactly_no_gradient() -> None:
    logits, actions = some_logits(1, 4, 5).requires_grad_(), torch.tensor([[0, 4, 2, 1]])
    mask = torch.tensor([[False, True, True, False]])  # a prompt token, two sampled ones, padding
    current = gather_token_logprobs(logits, actions)
    clipped_policy_loss(current, current.detach(), torch.tensor([1.5]), mask).loss.backward()
    assert logits.grad is not None
    assert torch.equal(logits.grad[~mask], torch.zeros(2, 5, dtype=torch.float64))
    assert (logits.grad[mask].abs().sum(-1) > 0).all()


@pytest.mark.parametrize("aggregation", ["token", "sequence_mean", "sequence_sum"])
def test_03_padding_and_packing_change_nothing(aggregation: Aggregation) -> None:
    # two responses of lengths 3 and 1: padded to [2, 3], padded further to [2, 5], and packed into one row of 4
    first, second = [0.3, -0.1, 0.7], [1.1]
    narrow = torch.tensor([first, [*second, 9.0, 9.0]])
    wide = torch.tensor([[*first, 9.0, 9.0], [*second, 9.0, 9.0, 9.0, 9.0]])
    packed = torch.tensor([*first, *second])
    losses = [
        aggregate(narrow, torch.tensor([[1, 1, 1], [1, 0, 0]]), aggregation=aggregation),
        aggregate(wide, torch.tensor([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]), aggregation=aggregation),
        aggregate(packed, torch.ones(4), aggregation=aggregation, cu_seqlens=torch.tensor([0, 3, 4])),
    ]
    torch.testing.assert_close(losses, [losses[0]] * 3)


def test_04_gae_with_lambda_one_is_return_minus_value_at_a_true_end() -> None:
    rewards, values = torch.tensor([0.5, -1.0, 2.0]), torch.tensor([0.3, 0.8, -0.4])
    ended = torch.tensor([False, False, True])
    advantages, targets = generalized_advantage_estimation(rewards, values, gamma=0.9, gae_lambda=1.0, terminated=ended)
    # from the end: 2, then -1 + 0.9 * 2 = 0.8, then 0.5 + 0.9 * 0.8 = 1.22
    returns = discounted_returns(rewards, gamma=0.9, terminated=ended)
    torch.testing.assert_close(returns, torch.tensor([1.22, 0.8, 2.0]))
    torch.testing.assert_close(advantages, returns - values)
    torch.testing.assert_close(targets, returns)


def test_05_a_group_of_equal_rewards_teaches_nothing() -> None:
    for size in range(2, 65):
        rewards = torch.full((size,), 0.1)  # 0.1 is no binary fraction: the mean of equal numbers need not equal them
        for advantages in (group_centered_advantages(rewards), group_standardized_advantages(rewards)):
            assert torch.equal(advantages, torch.zeros(size))


def test_06_dpo_starts_at_log_two() -> None:
    # the policy prefers the chosen answer exactly as much as the reference does: the margin is 0 and -log sigmoid(0) = log 2
    out = dpo_loss(torch.tensor([-10.0]), torch.tensor([-12.0]), torch.tensor([-9.0]), torch.tensor([-11.0]), beta=0.1)
    assert math.isclose(float(out.loss), math.log(2), rel_tol=1e-6)


def test_07_exact_reverse_kl_is_zero_for_equal_distributions_and_else_positive() -> None:
    student, teacher = some_logits(50, 7, seed=1), some_logits(50, 7, seed=2)
    assert (exact_kl(student, teacher) > 0).all()
    shifted = student + 3.0  # another logit offset, the same distribution
    torch.testing.assert_close(exact_kl(student, shifted), torch.zeros(50, dtype=torch.float64), atol=1e-12, rtol=0)


def test_08_a_constant_added_to_all_rewards_changes_no_advantage() -> None:
    rewards, group = torch.tensor([1.0, 0.0, 4.0, 2.0, 2.5]), ["a", "b", "a", "b", "a"]
    for scale in ("none", "std"):
        one, other = (grouped_advantages(r, group, scale=scale, eps=0.0) for r in (rewards, rewards + 8.0))
        torch.testing.assert_close(one, other)


def test_09_scaling_all_rewards_scales_centred_advantages_and_not_standardised_ones() -> None:
    # a property of the objective to choose on purpose: standardising forgets how large the rewards are
    rewards = torch.tensor([1.0, 0.0, 4.0])
    torch.testing.assert_close(group_centered_advantages(10 * rewards), 10 * group_centered_advantages(rewards))
    torch.testing.assert_close(
        group_standardized_advantages(10 * rewards, eps=0.0), group_standardized_advantages(rewards, eps=0.0)
    )


def test_10_two_ranks_add_up_to_one_only_over_one_denominator() -> None:
    # rank 0 holds three tokens, rank 1 holds one
    losses = [torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[10.0, 0.0, 0.0]])]
    masks = [torch.tensor([[1, 1, 1]]), torch.tensor([[1, 0, 0]])]
    whole = aggregate(torch.cat(losses), torch.cat(masks), aggregation="token")
    assert whole == 4.0  # (1 + 2 + 3 + 10) / 4
    denominator = step_denominator(masks, "token")
    shares = [aggregate(x, m, aggregation="token", denominator=denominator) for x, m in zip(losses, masks, strict=True)]
    assert shares[0] + shares[1] == whole
    local_means = [aggregate(x, m, aggregation="token") for x, m in zip(losses, masks, strict=True)]
    assert (local_means[0] + local_means[1]) / 2 == 6.0  # (2 + 10) / 2: the lone token weighs as much as the other three
