"""GD2PO: which rollouts conflict, ties, weights of tasks, and what whitening does to the rest."""

from __future__ import annotations

import math
from typing import Any

import oracles_steps as slow
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rosellm.roserlhf import errors
from rosellm.roserlhf.advantages import filter_reward_conflicts, gd2po_advantages

thorough = settings(derandomize=True, max_examples=60, deadline=None)
NAN = float("nan")
TABLE = [[1.0, 0.5], [1.0, -0.9], [-1.0, 0.05], [-1.0, 0.35], [2.0, 0.0], [-1.0, -1.0], [0.0, 0.0], [1.0, -1.0]]
TASKS = [0, 0, 0, 0, 1, 1, 1, 1]


def double(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(found: Tensor, expected: object, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(found, double(expected), atol=tolerance, rtol=0)


def test_hard_filter_by_hand() -> None:
    # rows 1, 2, 3 and 7 have both signs; task 0 keeps 1 of 4, task 1 keeps 3 of 4 (a zero is neither sign)
    found = filter_reward_conflicts(double(TABLE), TASKS)
    assert found.keep_mask.tolist() == [True, False, False, False, True, True, True, False]
    close(found.query_weights, [0.25] * 4 + [0.75] * 4)
    close(found.advantages, [1.5 / 4, 0, 0, 0, 2 * 0.75, -2 * 0.75, 0, 0])
    plain = filter_reward_conflicts(double(TABLE), TASKS, query_weighting=False)
    close(plain.advantages, [1.5, 0, 0, 0, 2, -2, 0, 0])
    close(plain.query_weights, [0.25] * 4 + [0.75] * 4)


def test_snr_filter_paper_and_code_differ_on_a_rollout_of_zeros() -> None:
    # δ: 1.5/1.5, 0.1/1.9, 0.95/1.05, 0.65/1.35, 1, 1, 0/0 = 0, 0/2
    paper = filter_reward_conflicts(double(TABLE), TASKS, conflict_filter="snr", snr_eps=0.0)
    close(paper.signal_to_noise, [1, 0.1 / 1.9, 0.95 / 1.05, 0.65 / 1.35, 1, 1, 0, 0])
    assert paper.keep_mask.tolist() == [True, False, True, False, True, True, False, False]
    close(paper.query_weights, [0.5] * 8)
    code = filter_reward_conflicts(double(TABLE), TASKS, conflict_filter="snr", snr_eps=0.0, rule="code")
    assert code.keep_mask.tolist() == [True, False, True, False, True, True, True, False]
    close(code.query_weights, [0.5] * 4 + [0.75] * 4)


def test_a_tie_is_kept_until_epsilon_enters() -> None:
    # |9 - 1| / (9 + 1) = 8/10
    for dtype in (torch.float32, torch.float64):
        parts = torch.tensor([[9.0, -1.0], [3.0, 0.0]], dtype=dtype)
        tie = filter_reward_conflicts(parts, [0, 0], conflict_filter="snr", snr_eps=0.0)
        under = filter_reward_conflicts(parts, [0, 0], conflict_filter="snr", snr_eps=1e-8)
        assert [tie.keep_mask.tolist(), under.keep_mask.tolist()] == [[True, True], [False, True]]


def test_at_threshold_one_the_code_keeps_what_is_not_mixed() -> None:
    paper, code = (
        filter_reward_conflicts(double(TABLE), TASKS, conflict_filter="snr", snr_threshold=1.0, rule=rule).keep_mask.tolist()
        for rule in ("paper", "code")
    )
    assert not any(paper)  # δ = 1 - O(ε)
    assert code == [True, False, False, False, True, True, True, False]


def test_all_rejected_is_zero_in_every_whitening() -> None:
    lengths = torch.tensor([2, 3])
    for whiten in ("none", "rollout", "token"):
        found = filter_reward_conflicts(
            double([[1, -1], [-1, 1]]), [0, 0], whiten=whiten, lengths=lengths if whiten == "token" else None
        )
        assert found.advantages.tolist() == found.query_weights.tolist() == [0.0, 0.0]
        assert found.keep_mask.tolist() == [False, False]


def test_whitening_follows_the_query_weights_and_shifts_zeros() -> None:
    # kept after q: 0.375, 1.5, -1.5, 0: mean 0.09375, sample variance 4.60546875 ... / 3
    kept = [0.375, 1.5, -1.5, 0.0]
    mean = sum(kept) / 4
    scale = math.sqrt(sum((k - mean) ** 2 for k in kept) / 3 + 1e-8)
    found = filter_reward_conflicts(double(TABLE), TASKS, whiten="token", lengths=torch.ones(8, dtype=torch.int64), std="sample")
    close(found.advantages[[0, 4, 5, 6]], [(k - mean) / scale for k in kept])
    assert found.advantages[6].item() == pytest.approx(-0.07566499059935707, abs=1e-12)
    assert found.advantages[[1, 2, 3, 7]].tolist() == [0.0] * 4


def test_one_kept_token_whitens_to_zero() -> None:
    parts, lengths = double([[1, 1], [1, -1]]), torch.tensor([1, 5])
    for std in ("population", "sample"):
        by_token = filter_reward_conflicts(parts, [0, 0], whiten="token", lengths=lengths, std=std)
        by_rollout = filter_reward_conflicts(parts, [0, 0], whiten="rollout", std=std)
        assert by_token.advantages.tolist() == by_rollout.advantages.tolist() == [0.0, 0.0]
        assert by_token.keep_mask.tolist() == [True, False]


def test_uniform_rewards_make_no_false_conflict() -> None:
    # 0.1 three times: a mean that is off by rounding would give the second reward a sign
    rewards = torch.tensor([[0.0, 0.1], [1.0, 0.1], [0.5, 0.1]])
    assert gd2po_advantages(rewards, ["q"] * 3).keep_mask.all()
    # 0.2 is the mean of 0.1, 0.2, 0.3 only up to float32: 3e-8 is no sign
    rewards = torch.tensor([[0.0, 0.1], [1.0, 0.2], [0.5, 0.3]])
    assert gd2po_advantages(rewards, ["q"] * 3).keep_mask.tolist() == [True, True, True]
    assert gd2po_advantages(rewards, ["q"] * 3, sign_tolerance=0.0).keep_mask.tolist() == [True, False, True]


def test_the_code_judges_by_tokens() -> None:
    # 2e-6 and -2e-6 conflict; as 2e-9 per token over 1000 tokens they do so only in the code's reading
    parts = double([[2e-9, -2e-9]])
    lengths = torch.tensor([1000])
    assert filter_reward_conflicts(parts, [0], sign_tolerance=1e-8).keep_mask.item()
    assert filter_reward_conflicts(parts, [0], sign_tolerance=1e-8, rule="code").keep_mask.item()
    assert not filter_reward_conflicts(parts, [0], sign_tolerance=1e-8, rule="code", lengths=lengths).keep_mask.item()


def test_weights_decide_too() -> None:
    parts = double([[1, -1]])
    assert filter_reward_conflicts(parts, [0], weights=[1.0, 0.0]).keep_mask.item()
    close(filter_reward_conflicts(parts, [0], weights=[1.0, -2.0]).advantages, [3.0])
    # 9 to 1 by weight
    assert filter_reward_conflicts(parts, [0], weights=[9.0, 1.0], conflict_filter="snr", snr_eps=0.0).keep_mask.item()


def test_unscored_rollouts_do_not_count_in_the_query_weight() -> None:
    rewards = double([[0, 0], [1, 1], [NAN, NAN], [1, 0]])
    found = gd2po_advantages(rewards, ["q"] * 4, scored_mask=torch.tensor([True, True, False, True]), eps=0.0)
    # reward 0: 0, 1, 1; reward 1: 0, 1, 0: rollout 3 is mixed, so 2 of 3 are kept
    assert found.keep_mask.tolist() == [True, True, False, False]
    close(found.query_weights, [2 / 3] * 4)
    low, high = (
        1 / math.sqrt(2),
        math.sqrt(2),
    )  # (0 - 2/3) / (sqrt(2)/3) = -1.41421, (1 - 2/3) / (sqrt(2)/3) = 0.70711, and mirrored
    close(found.per_reward_advantages, [[-high, -low], [low, high], [0, 0], [low, -low]])
    close(found.advantages, [-2 / 3 * (low + high), 2 / 3 * (low + high), 0, 0])


rows = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 0.5, -2.0]), st.sampled_from([0.0, 1.0, 3.0]), st.integers(0, 3), st.integers(1, 4)),
    min_size=1,
    max_size=14,
)
options = st.fixed_dictionaries(
    {
        "conflict_filter": st.sampled_from(["hard", "snr"]),
        "rule": st.sampled_from(["paper", "code"]),
        "whiten": st.sampled_from(["none", "rollout", "token"]),
        "std": st.sampled_from(["population", "sample"]),
    }
)


@thorough
@given(rows, options)
def test_against_loops(table: list[tuple[float, float, int, int]], option: dict[str, Any]) -> None:
    rewards, groups, lengths = [list(row[:2]) for row in table], [row[2] for row in table], [row[3] for row in table]
    parts, weights = slow.per_reward(rewards, groups, option["std"], 1e-3), [1.0, 0.7]
    by_token = option["whiten"] == "token"
    judged = [[a * n for a in row] if by_token and option["rule"] == "code" else row for row, n in zip(parts, lengths, strict=True)]
    kept = [slow.keeps(row, weights, option["conflict_filter"], 0.75, option["rule"], 1e-3, 1e-6) for row in judged]
    share = slow.query_weights(kept, groups)
    sums = [q * s for q, s in zip(share, slow.weighted_sums(parts, weights), strict=True)]
    found = gd2po_advantages(
        double(rewards),
        groups,
        weights=weights,
        snr_threshold=0.75,
        lengths=torch.tensor(lengths) if by_token else None,
        eps=1e-3,
        whiten_eps=None if option["whiten"] == "none" else 1e-3,
        snr_eps=1e-3,
        **option,
    )
    close(found.per_reward_advantages, parts, 1e-9)
    assert found.keep_mask.tolist() == kept
    close(found.query_weights, share)
    close(found.signal_to_noise, [slow.signal_to_noise(row, weights, 1e-3) for row in judged], 1e-9)
    close(found.advantages, slow.whitened(sums, kept, option["whiten"], lengths, option["std"], 1e-3), 1e-9)


@thorough
@given(rows, options, st.randoms(use_true_random=False))
def test_order_and_names_do_not_matter(table: list[tuple[float, float, int, int]], option: dict[str, Any], random: Any) -> None:
    order = random.sample(range(len(table)), len(table))
    rewards, groups, lengths = (
        double([row[:2] for row in table]),
        [row[2] for row in table],
        torch.tensor([row[3] for row in table]),
    )
    used = option["whiten"] == "token"
    first = gd2po_advantages(rewards, groups, lengths=lengths if used else None, eps=1e-3, **option)
    names = [f"query {groups[i]}" for i in order]
    moved = gd2po_advantages(rewards[order], names, lengths=lengths[order] if used else None, eps=1e-3, **option)
    assert torch.equal(moved.keep_mask, first.keep_mask[order])
    torch.testing.assert_close(moved.advantages, first.advantages[order], atol=1e-6, rtol=0)
    torch.testing.assert_close(moved.query_weights, first.query_weights[order], atol=1e-12, rtol=0)


def test_results_are_detached_and_frozen() -> None:
    found = gd2po_advantages(torch.tensor([[0.0], [1.0]], requires_grad=True), [0, 0])
    assert not found.advantages.requires_grad
    assert not found.per_reward_advantages.requires_grad
    with pytest.raises(AttributeError):
        found.advantages = torch.zeros(2)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"conflict_filter": "soft"}, errors.RangeError, "conflict_filter must be one of"),
        ({"snr_threshold": 1.5}, errors.RangeError, r"snr_threshold must be in \[0, 1\]"),
        ({"rule": "verl"}, errors.RangeError, "rule must be one of"),
        ({"query_weighting": "yes"}, errors.DtypeError, "query_weighting must be True or False"),
        ({"lengths": torch.ones(3, dtype=torch.int64)}, errors.ConfigError, "lengths must be left out"),
        ({"whiten": "token"}, errors.ConfigError, "lengths must be given"),
        ({"whiten_eps": 1e-8}, errors.ConfigError, "whiten_eps must be left out"),
        ({"per_reward_advantages": torch.zeros(3)}, errors.ShapeError, r"per_reward_advantages must be \[N, K\]"),
        ({"per_reward_advantages": torch.full((3, 2), NAN)}, errors.NonFiniteError, "per_reward_advantages must be finite"),
        ({"group_ids": "abc"}, errors.DtypeError, "group_ids must be"),
    ],
)
def test_errors(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        filter_reward_conflicts(**{"per_reward_advantages": torch.zeros(3, 2), "group_ids": [0, 0, 0], **arguments})
