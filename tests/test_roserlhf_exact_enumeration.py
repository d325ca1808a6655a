"""Which estimators are unbiased, which are off by a factor, and how the others are biased: exactly, by enumerating the toy.

| credit, objective, aggregation | expected ascent direction |
|---|---|
| leave-one-out, running mean of earlier rollouts, a constant, raw reward | the policy gradient ∇J |
| GAE, turn-level GAE and V-trace at λ = 1 with any values; λ < 1 with true values; shaping; price of a cost | ∇J |
| mean of the group (Dr. GRPO); GiGPO with γ = 1 and one state per turn | ∇J (G-1)/G; that times 1 + ω |
| deviation of the group (GRPO, DAPO), rewards 0 or 1, G = 2 and 3 | ∇p, ∇p √2: a mixed group has one spread only |
| the same, G ≥ 4 | ∇p E[σ̂]/(p(1-p)) per prompt: 1/σ for large G |
| the same, G = 2, rewards of any size | the gradient of winning against a frozen copy of oneself |
| standard deviation of the batch, REINFORCE++ | the same weights, and each prompt's depends on its neighbours |
| GDPO | Σ_k w_k × the GRPO direction of reward k |
| GiGPO with γ < 1 | later turns weigh more |
| every objective at ratio 1 | that of REINFORCE |
| unequal lengths: sums over a constant; own token means; one mean over a group | ∇J; short episodes weigh more; a ratio's bias |
| stale data: product of all ratios; one ratio per token | ∇J; prefix and rest stay the old policy's |
| stale data: caps, clips, gates, filters | the weighted scores that the docstrings print |
| k1, k2, k3, k3 with the gradient of k2 as a loss | 0, reverse KL, forward KL, reverse KL |

All numbers are float64; "equal" means a difference below 1e-12 in every component (LOGITS is a draw of normal numbers, seed 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Literal, NamedTuple

import enumeration as exact
import pytest
import torch
from cases_enumeration import (
    BOTH,
    LAST,
    QUIET,
    TOTALS,
    TRUE,
    duel,
    gdpo,
    gigpo,
    gradient,
    grouped,
    in_time,
    of_size,
    pairs,
    prompt_weights,
    reinforce,
    reweighted,
)
from enumeration import (
    LOGITS,
    OUTCOMES,
    PLACES,
    STEP_REWARDS,
    TASKS,
    TURNS,
    VALUES,
    equal,
)
from torch import Tensor

from rosellm.roserlhf import advantages as credit


def test_the_truth_is_found_in_two_ways() -> None:
    """The derivative of the expectation is the expectation of reward times score."""
    for objective in (OUTCOMES, TOTALS):
        equal(exact.expected_score(objective), exact.true_gradient(objective))
    logits = LOGITS.clone()
    logits[1, 2, 0] += 1e-6
    moved = (exact.path_probability(logits) - exact.path_probability(LOGITS)) * OUTCOMES
    assert moved.sum().item() / 1e-6 == pytest.approx(exact.true_gradient(OUTCOMES)[1, 2, 0].item(), rel=1e-5)


def test_all_groups_of_two_are_64_per_task() -> None:
    batch = pairs()
    assert batch.group.unique().numel() == TASKS * 64
    torch.testing.assert_close(batch.by_group(batch.probability)[:, 0].view(TASKS, 64).sum(-1), torch.ones(TASKS).double())


# ---- credit of outcomes, on policy: reward minus what?


def counted(size: int, success: Callable[[int], float], failure: Callable[[int], float]) -> Tensor:
    """The direction of advantages that depend on the number k of successes in the group: average over those of the others."""
    chance = (exact.path_probability(LOGITS) * OUTCOMES).sum(-1)

    def mean(advantage: Callable[[int], float], own: int) -> Tensor:
        others = range(size)
        return sum(
            (math.comb(size - 1, j) * chance**j * (1 - chance) ** (size - 1 - j) * advantage(j + own) for j in others), chance * 0
        )

    return exact.expected_score(torch.where(OUTCOMES == 1, mean(success, 1).unsqueeze(-1), mean(failure, 0).unsqueeze(-1)))


def running_mean(batch: exact.Groups) -> Tensor:
    """Every group is a task of its own, its members one after the other: the second is measured against the first."""
    return credit.RunningMeanBaseline(window=8, initial=0.5).advantages(batch.of(OUTCOMES), batch.group)


def priced(batch: exact.Groups) -> Tensor:
    price = credit.LagrangeMultiplier(budget=0.1, learning_rate=1.0, initial=0.75)
    return price.combine(*(grouped(batch, x, baseline="leave_one_out", scale="none") for x in (OUTCOMES, QUIET)))


class Credit(NamedTuple):
    size: int
    of: Callable[[exact.Groups], Tensor]
    expected: Callable[[], Tensor]


UNBIASED = {
    "raw reward": Credit(2, lambda b: b.of(OUTCOMES), gradient),
    "a constant baseline": Credit(2, lambda b: b.of(OUTCOMES) - 0.3, gradient),
    "leave one out": Credit(2, lambda b: credit.leave_one_out_advantages(b.by_group(b.of(OUTCOMES))).flatten(), gradient),
    "leave one out of three": Credit(3, lambda b: credit.leave_one_out_advantages(b.by_group(b.of(OUTCOMES))).flatten(), gradient),
    "leave one out by id": Credit(3, lambda b: grouped(b, baseline="leave_one_out", scale="none"), gradient),
    "leave one out, rewards of any size": Credit(
        2, lambda b: grouped(b, TOTALS, baseline="leave_one_out", scale="none"), lambda: gradient(outcome=TOTALS)
    ),
    "running mean of earlier rollouts": Credit(3, running_mean, gradient),
    "reward less a priced cost": Credit(2, priced, lambda: gradient() - 0.75 * gradient(outcome=QUIET)),
}

MULTIPLES = {
    "mean of two": Credit(
        2, lambda b: credit.group_centered_advantages(b.by_group(b.of(OUTCOMES))).flatten(), lambda: gradient(1 / 2)
    ),
    "mean of four": Credit(
        4, lambda b: credit.group_centered_advantages(b.by_group(b.of(OUTCOMES))).flatten(), lambda: gradient(3 / 4)
    ),
    "mean by id": Credit(3, lambda b: grouped(b, scale="none"), lambda: gradient(2 / 3)),
    "mean, rewards of any size": Credit(3, lambda b: grouped(b, TOTALS, scale="none"), lambda: gradient(2 / 3, TOTALS)),
    # groups of two and three that teach at all have one spread only, σ = 1/2 and √2/3; the bias begins at four
    "deviation of two outcomes": Credit(2, lambda b: grouped(b), gradient),
    "sample deviation of two outcomes": Credit(2, lambda b: grouped(b, std="sample"), lambda: gradient(math.sqrt(1 / 2))),
    "deviation of three outcomes": Credit(3, lambda b: grouped(b), lambda: gradient(math.sqrt(2))),
}

BIASED = {
    "deviation of four": Credit(
        4, lambda b: credit.group_standardized_advantages(b.by_group(b.of(OUTCOMES)), eps=0.0).flatten(), lambda: reweighted(4)
    ),
    "sample deviation of four": Credit(4, lambda b: grouped(b, std="sample"), lambda: math.sqrt(3 / 4) * reweighted(4)),
    "leave one out over the deviation": Credit(4, lambda b: grouped(b, baseline="leave_one_out"), lambda: 4 / 3 * reweighted(4)),
    "deviation of two rewards of any size": Credit(2, lambda b: grouped(b, TOTALS), lambda: duel(TOTALS)),
    "GDPO, not whitened": Credit(
        4,
        gdpo,
        lambda: reweighted(4) + 0.5 * reweighted(4, QUIET),
    ),
    # where each of two rollouts is better in one reward both are rejected, although the weights could decide
    "GD²PO": Credit(
        2,
        lambda b: credit.gd2po_advantages(b.of(BOTH), b.group, weights=[1.0, 0.5], eps=0.0).advantages,
        lambda: exact.expected_score(exact.against_another(agreed(BOTH.unsqueeze(2) - BOTH.unsqueeze(1)))),
    ),
}


def agreed(margins: Tensor) -> Tensor:
    """Weighted sum of the signs of two comparisons, or 0 where they contradict each other."""
    first, second = margins.sign().unbind(-1)
    return (first + 0.5 * second) * (first * second >= 0)


@pytest.mark.parametrize("name", [*UNBIASED, *MULTIPLES, *BIASED])
def test_expected_ascent_of_a_credit(name: str) -> None:
    case = {**UNBIASED, **MULTIPLES, **BIASED}[name]
    batch = of_size(case.size)
    equal(exact.expected_ascent(batch, case.of(batch), reinforce), case.expected())


@pytest.mark.parametrize("name", BIASED)
def test_a_bias_is_no_common_factor(name: str) -> None:
    """What is called biased points in another direction than the gradient of any of its rewards, added up over prompts."""
    direction = BIASED[name].expected().flatten()
    for outcome in (OUTCOMES, TOTALS, BOTH @ torch.tensor([1.0, 0.5]).double(), BOTH.sum(-1)):
        cosine = torch.cosine_similarity(direction, gradient(outcome=outcome).flatten(), dim=0)
        assert cosine < 0.99999


def test_standardising_weighs_prompts_by_one_over_their_deviation() -> None:
    """E[σ̂]/(p(1-p)) comes near 1/σ in large groups where p G is large, and √(G-1) where hardly any group succeeds."""
    chance = torch.tensor([0.5, 0.2, 0.02], dtype=torch.float64)
    deviation = (chance * (1 - chance)).sqrt()
    assert prompt_weights(2, chance).tolist() == pytest.approx([1.0, 1.0, 1.0])
    # to first order E[σ̂] = σ - 1 / (8 G σ); with 2.6 successes expected that is not enough: 7.4 % short, not 5.0 %
    shortfall = 1 - prompt_weights(128, chance) * deviation
    assert shortfall[:2].tolist() == pytest.approx((1 / (8 * 128 * deviation.square()))[:2].tolist(), rel=0.02)
    assert shortfall[2].item() == pytest.approx(0.074, abs=5e-4)
    lone = prompt_weights(8, torch.tensor([1e-9], dtype=torch.float64)).item()  # what teaches is one success among eight
    assert lone == pytest.approx(math.sqrt(7))


def test_keeping_mixed_groups_alone_divides_by_their_share() -> None:
    """DAPO samples on until a group is mixed: the same direction per prompt, over the chance of a mixed group."""
    batch = of_size(4)
    keep = credit.dynamic_sampling_mask(batch.of(OUTCOMES), batch.group)
    chance = (exact.path_probability(LOGITS) * OUTCOMES).sum(-1)
    mixed = 1 - chance**4 - (1 - chance) ** 4
    weights = torch.where(keep, batch.probability / mixed[batch.task], 0.0)
    equal(exact.expected_ascent(batch, grouped(batch), reinforce, weights=weights), reweighted(4) / mixed.view(-1, 1, 1))


def path_log_probability(path: int, logits: Tensor) -> Tensor:
    return exact.log_policy(logits)[1, path].sum()


def test_the_best_constant_baseline_leaves_the_mean_and_has_the_least_variance() -> None:
    chances = exact.path_probability(LOGITS)[1]
    scores = torch.stack([exact.gradient_of(partial(path_log_probability, x)).flatten() for x in range(8)])
    rewards = TOTALS[1]
    best = credit.variance_optimal_baseline(rewards, scores.square().sum(-1), weights=chances)

    def moments(baseline: Tensor) -> tuple[Tensor, Tensor]:
        samples = (rewards - baseline).unsqueeze(-1) * scores
        mean = chances @ samples
        return mean, chances @ (samples - mean).square().sum(-1)

    mean, least = moments(best)
    for other in (torch.zeros(()), chances @ rewards, best + 0.1, best - 0.1):
        equal(moments(other)[0], mean)
        assert moments(other)[1] > least


# ---- credit that reads the whole batch: two tasks, two rollouts each


@cache
def two_tasks() -> exact.Groups:
    """All 8^4 steps of the first two tasks: rows 0, 1 of a step are of one task, rows 2, 3 of the other."""
    four = exact.groups(4, tasks=1)
    task = torch.tensor([0, 0, 1, 1]).repeat(8**4)
    chances = exact.path_probability(LOGITS)[task, four.path].view(-1, 4).prod(-1).repeat_interleave(4)
    return exact.Groups(4, task, four.path, four.group, chances, LOGITS)


def of_steps(function: Callable[[Tensor], Tensor]) -> Tensor:
    """Advantages of all steps; they depend on the four rewards alone, so 16 calls are enough."""
    batch = two_tasks()
    patterns, which = batch.by_group(batch.of(OUTCOMES)).unique(dim=0, return_inverse=True)
    return torch.stack([function(pattern) for pattern in patterns])[which].flatten()


def by_counts(success: Callable[[int, int], float], failure: Callable[[int, int], float]) -> Tensor:
    """The direction of advantages that depend on the successes (own task, other task), each step divided by its four rows."""
    chance = (exact.path_probability(LOGITS) * OUTCOMES).sum(-1)[:2].tolist()
    coefficients = torch.zeros(TASKS, 8, dtype=torch.float64)
    for task in (0, 1):
        own, other = chance[task], chance[1 - task]
        for won in (0, 1):
            mean = sum(
                (own if k else 1 - own)
                * math.comb(2, j) * other**j * (1 - other) ** (2 - j)
                * (success(k + 1, j) if won else failure(k, j))
                for k in (0, 1)
                for j in (0, 1, 2)
            )  # fmt: skip
            coefficients[task][OUTCOMES[task] == won] = mean / 2  # two of four rows
    return exact.expected_score(coefficients)


def over_deviation(distance: float, successes: int) -> float:
    """A distance over the deviation of four outcomes, 0 where they are all equal."""
    return distance / math.sqrt(successes / 4 * (1 - successes / 4)) if 0 < successes < 4 else 0.0


def test_the_deviation_of_the_batch_weighs_a_prompt_by_its_neighbours() -> None:
    advantages = of_steps(lambda r: credit.grouped_advantages(r, torch.tensor([0, 0, 1, 1]), scale="batch_std", eps=0.0))
    expected = by_counts(lambda k, j: over_deviation(1 - k / 2, k + j), lambda k, j: over_deviation(-k / 2, k + j))
    equal(exact.expected_ascent(two_tasks(), advantages, reinforce), expected)


@pytest.mark.parametrize("centred_first", [False, True], ids=["REINFORCE++", "REINFORCE++-baseline"])
def test_whitening_over_the_batch(centred_first: bool) -> None:
    ids = torch.tensor([0, 0, 1, 1])

    def library(rewards: Tensor) -> Tensor:
        before = credit.grouped_advantages(rewards, ids, scale="none") if centred_first else rewards
        return credit.batch_standardized_advantages(before, torch.ones(4), eps=0.0)

    def centred(own: int, other: int, won: int) -> float:
        # after centring each task the batch's mean is 0, its variance a quarter of the number of mixed tasks over 2
        mixed = (own == 1) + (other == 1)
        return (won - own / 2) / math.sqrt(mixed / 8) if mixed else 0.0

    def raw(own: int, other: int, won: int) -> float:
        return over_deviation(won - (own + other) / 4, own + other)

    one = centred if centred_first else raw
    expected = by_counts(lambda k, j: one(k, j, 1), lambda k, j: one(k, j, 0))
    equal(exact.expected_ascent(two_tasks(), of_steps(library), reinforce), expected)


def test_gdpo_whitened_over_one_group_of_two_is_a_duel_by_weight() -> None:
    """Two sums of opposite sign whiten to ±1: with weights 2 and 1 the first reward decides and the second breaks ties."""
    batch = pairs()
    patterns, which = batch.of(BOTH).view(-1, 4).unique(dim=0, return_inverse=True)
    found = [credit.gdpo_advantages(p.view(2, 2), ["task"] * 2, weights=[2.0, 1.0], eps=0.0) for p in patterns]
    expected = duel(2 * OUTCOMES + QUIET)
    equal(exact.expected_ascent(batch, torch.stack(found)[which].flatten(), reinforce), expected)


# ---- credit of turns: the future, a critic, states

ANY_VALUES: dict[str, Callable[[], Tensor]] = {
    "reward to go": lambda: in_time(credit.reward_to_go),
    "GAE, λ = 1": lambda: in_time(credit.generalized_advantage_estimation),
    "n steps to the end": lambda: in_time(credit.n_step_advantages, n=TURNS),
    "V-trace on policy": lambda: in_time(credit.v_trace),
    "turn-level GAE, λ = 1": lambda: by_turn(VALUES),
    "GAE, λ = 0.5, true values": lambda: in_time(credit.generalized_advantage_estimation, values=TRUE, gae_lambda=0.5),
    "one step, true values": lambda: in_time(credit.n_step_advantages, values=TRUE, n=1),
}


def by_turn(values: Tensor) -> Tensor:
    """Two tokens are the first turn, one is the second; a turn's value stands before its first token."""
    batch, ids = exact.groups(1), torch.tensor([0, 0, 1])
    rewards = torch.stack([batch.of(STEP_REWARDS)[:, :2].sum(-1), batch.of(STEP_REWARDS)[:, 2]], -1)
    advantages, _ = credit.turn_generalized_advantage_estimation(
        rewards, batch.of(values)[:, [0, 2]], ids.expand(len(rewards), -1), torch.ones(len(rewards), TURNS),
        terminated=torch.tensor([False, True]).expand(len(rewards), -1),
    )  # fmt: skip
    return exact.expected_ascent(batch, advantages, reinforce)


@pytest.mark.parametrize("name", ANY_VALUES)
def test_the_future_less_any_value_of_the_past_is_unbiased(name: str) -> None:
    equal(ANY_VALUES[name](), exact.true_gradient(TOTALS))


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.0), (1.0, 0.5), (0.9, 0.5)])
def test_lambda_below_one_is_biased_by_the_errors_of_later_values(gamma: float, lam: float) -> None:
    """GAE(V) = GAE(V true) - e_t + Σ_k (γλ)^(k-1) γ(1-λ) e_(t+k) with e = V - V true; e_t is of the past and drops out."""
    error = VALUES - TRUE
    bias = torch.zeros_like(error)
    for t in range(TURNS):
        for k in range(1, TURNS - t):
            bias[..., t] += (gamma * lam) ** (k - 1) * gamma * (1 - lam) * error[..., t + k]
    found, unbiased = (
        in_time(credit.generalized_advantage_estimation, values=v, gamma=gamma, gae_lambda=lam) for v in (VALUES, TRUE)
    )
    equal(found - unbiased, exact.expected_score(bias))
    assert (found - unbiased).abs().max() > 0.05


def test_a_discount_from_the_start_is_a_gradient_and_one_from_now_is_none() -> None:
    gamma = 0.7
    discounted = STEP_REWARDS * gamma ** torch.arange(TURNS).double()
    equal(in_time(credit.reward_to_go, gamma=gamma, discount="from_start"), exact.true_gradient(discounted.sum(-1)))
    # the usual one: the part of turn t is γ^-t too large
    parts = torch.stack(
        [exact.expected_score(discounted[..., t:].sum(-1).unsqueeze(-1) * (torch.arange(TURNS) == t)) for t in range(TURNS)]
    )
    expected = torch.einsum("tkna,t->kna", parts, gamma ** -torch.arange(TURNS).double())
    equal(in_time(credit.reward_to_go, gamma=gamma), expected)
    equal(parts.sum(0), exact.true_gradient(discounted.sum(-1)))


def test_shaping_by_a_potential_changes_no_expectation() -> None:
    for gamma in (1.0, 0.7):
        batch = exact.groups(1)
        rewards, last = batch.of(STEP_REWARDS), LAST.expand(TASKS * 8, -1)
        shaped = credit.potential_shaping(rewards, batch.of(VALUES), gamma=gamma, terminated=last)
        returns = credit.reward_to_go(shaped, gamma=gamma, discount="from_start", terminated=last)
        discounted = (STEP_REWARDS * gamma ** torch.arange(TURNS).double()).sum(-1)
        equal(exact.expected_ascent(batch, returns, reinforce), exact.true_gradient(discounted))


def test_compacted_segments_are_unbiased_at_lambda_one_and_else_discount_the_past() -> None:
    """The context is compacted after two actions; both segments carry the outcome at their end."""
    batch = exact.groups(1)
    rows, mask = TASKS * 8, torch.tensor([[1, 1], [1, 0]]).repeat(TASKS * 8, 1)
    outcome = batch.of(OUTCOMES).repeat_interleave(2)
    values = torch.stack([batch.of(VALUES)[:, :2], batch.of(VALUES)[:, [2, 2]]], 1).view(-1, 2)
    ended = (torch.arange(2) == torch.tensor([[1], [0]])).repeat(rows, 1)

    def ascent(values: Tensor, lam: float) -> Tensor:
        ids = torch.arange(rows).repeat_interleave(2)
        found, _ = credit.cross_segment_advantages(outcome, values, ids, mask, gae_lambda=lam, terminated=ended)
        return exact.expected_ascent(batch, found.view(rows, 4)[:, :3], reinforce)

    equal(ascent(values, 1.0), exact.true_gradient(OUTCOMES))
    equal(ascent(0 * values, 0.5), exact.expected_score(OUTCOMES.unsqueeze(-1) * 0.5 ** torch.tensor([2.0, 1.0, 0.0]).double()))


@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_gigpo_in_states_that_all_visit_weighs_turns(gamma: float) -> None:
    """Task and turn are the state: every visit is compared with the others of its turn, as the episodes are."""
    omega, batch = 0.5, of_size(3)
    advantages = gigpo(batch, torch.arange(TURNS).repeat(len(batch.path)), omega, gamma)
    weights = 1 + omega * gamma ** torch.arange(TURNS - 1, -1, -1).double()
    equal(exact.expected_ascent(batch, advantages, reinforce), exact.expected_score(2 / 3 * OUTCOMES.unsqueeze(-1) * weights))


def test_gigpo_with_the_history_as_state_adds_what_is_compared_after_equal_beginnings() -> None:
    omega, batch = 0.5, pairs()
    advantages = gigpo(batch, (TURNS * PLACES[batch.path, :-1] + torch.arange(TURNS)).flatten(), omega, 1.0)
    meet = (PLACES[:, None, :-1] == PLACES[None, :, :-1]).double()
    margin = (OUTCOMES.unsqueeze(-1) - OUTCOMES.unsqueeze(-2)) / 2
    expected = exact.expected_score(exact.against_another(margin.unsqueeze(-1) * (1 + omega * meet)))
    equal(exact.expected_ascent(batch, advantages, reinforce), expected)


@pytest.mark.parametrize("prefix", ["own_suffix", "all_leaves"])
def test_a_branch_after_the_first_action(prefix: Literal["own_suffix", "all_leaves"]) -> None:
    """A root and a branch that keeps its first action. Raw rewards: a turn is taught once per leaf that trains it.

    Credit inside the tree: nothing before the branching, the plain gradient after it.
    """
    path, suffix, task = torch.cartesian_prod(torch.arange(8), torch.arange(4), torch.arange(TASKS)).unbind(-1)
    branch = path // 4 * 4 + suffix
    chances = exact.path_probability(LOGITS)[task, path] * exact.log_policy(LOGITS)[task, branch, 1:].sum(-1).exp()
    rewards = torch.stack([OUTCOMES[task, path], OUTCOMES[task, branch]], -1).flatten()
    trees = torch.arange(len(path))
    leaf = torch.arange(2 * len(path))
    forest = (
        torch.tensor([3, 2]).repeat(len(path)),
        torch.where(leaf % 2 == 0, -1, leaf - 1),
        torch.tensor([0, 1]).repeat(len(path)),
    )
    inside = credit.tree_advantages(rewards, trees.repeat_interleave(2), task.repeat_interleave(2), normalization="none")

    def ascent(advantages: Tensor) -> Tensor:
        coefficient = credit.tree_token_weights(advantages, *forest, prefix=prefix).coefficient.view(-1, 5)

        def surrogate(logits: Tensor) -> Tensor:
            of_root, of_branch = (exact.log_policy(logits)[task, x] for x in (path, branch))
            return (chances * (coefficient * torch.cat([of_root, of_branch[:, 1:]], -1)).sum(-1)).sum()

        return exact.gradient_of(surrogate)

    taught = torch.tensor([1.0 if prefix == "own_suffix" else 2.0, 2.0, 2.0]).double()
    equal(ascent(rewards), exact.true_gradient(OUTCOMES) * taught.view(1, -1, 1))
    equal(ascent(inside.intra_advantages), exact.true_gradient(OUTCOMES) * torch.tensor([0.0, 1.0, 1.0]).double().view(1, -1, 1))
