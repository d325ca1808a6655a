"""Verdicts and derivatives of every objective, none of which the audit knows by name; and the arithmetic of the advantage."""

from __future__ import annotations

import dataclasses
import math
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf import (
    StoreError,
    cispo_policy_loss,
    clipped_policy_loss,
    group_standardized_advantages,
    gspo_policy_loss,
    gspo_token_policy_loss,
    leave_one_out_advantages,
    recipes,
    sao_policy_loss,
    sapo_policy_loss,
)
from rosellm.roserlhf.audit.explanation.credit_formula import group_formula
from rosellm.roserlhf.audit.explanation.update_gradient import UpdateGradient, differentiate
from rosellm.roserlhf.audit.explanation.verdict import Verdict, verdicts
from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.store.updates import Update, UpdatedRow

INTERVAL = (0.75, 1.25)


def row(name: str, advantage: float | None, ratios: Sequence[float], *, excluded: int = 0) -> tuple[Row, UpdatedRow]:
    """One context token, then a sampled token per ratio; the last `excluded` of them are not in the loss."""
    count = len(ratios)
    policy = (False, *[True] * count)
    loss = (False, *[True] * (count - excluded), *[False] * excluded)
    behaviour = (0.0, *[-1.0] * count)
    made = Row(name, "g", (9, *range(count)), policy, loss, behaviour, (-1, *[0] * count), advantage=advantage)
    return made, UpdatedRow(name, array("f", [-1.0 + math.log(ratio) for ratio in ratios]))


def differentiated(objective: Any, rows: Sequence[tuple[Row, UpdatedRow]], denominator: float, micro: int = 8) -> UpdateGradient:
    evidence = Update(
        1, 0, epoch=0, rows=[seen for _, seen in rows], denominator=denominator, loss=0.0, gradient_norm=0.0, learning_rate=0.0
    )
    return differentiate(evidence, {made.trajectory_id: made for made, _ in rows}, objective, micro_batch_rows=micro)


def judged(
    objective: Any, advantage: float, ratios: Sequence[float], *, aggregation_units: float = 1.0
) -> list[tuple[float, Verdict]]:
    one = differentiated(objective, [row("a", advantage, ratios)], aggregation_units).rows["a"]
    found = verdicts(one, objective, aggregation_units, INTERVAL)
    return list(zip(one.derivative.tolist()[1:], found, strict=True))


def words(found: list[tuple[float, Verdict]]) -> list[str]:
    return [verdict.words for _, verdict in found]


def test_clip() -> None:
    objective = partial(clipped_policy_loss, clip_low=0.25, clip_high=0.25)
    up = judged(objective, 2.0, [0.5, 1.0, 1.5])
    assert words(up) == ["not binding: below 0.75, A > 0", "inside", "clip binds: above 1.25, A > 0"]
    # -ratio x A / 1
    assert [slope for slope, _ in up] == pytest.approx([-1.0, -2.0, 0.0])
    assert [verdict.weight for _, verdict in up] == pytest.approx([0.5, 1.0, 0.0])
    assert words(judged(objective, 0.0, [1.5, 1.0])) == ["the advantage is 0"] * 2


def test_a_clamped_log_ratio_is_named() -> None:
    objective = partial(clipped_policy_loss, clip_low=0.25, clip_high=0.25, max_log_ratio=0.5)
    # log 2 = 0.69 is beyond 0.5; with A < 0 the clip would not bind, so the bound alone takes the gradient
    assert words(judged(objective, -1.0, [2.0, 1.0])) == ["log-ratio beyond its bound", "inside"]


def test_reinforce_has_no_ratio() -> None:
    recipe = recipes.reinforce()
    found = judged(recipe.objective, 2.0, [1.5, 1.0])
    assert [slope for slope, _ in found] == pytest.approx([-2.0, -2.0])
    assert words(found)[0] == "weight 1"


def test_sapo_has_a_gate() -> None:
    objective = partial(sapo_policy_loss, aggregation="token")
    (slope, verdict), (at_one, full) = judged(objective, 1.0, [1.5, 1.0])
    # p = sigmoid(0.5): the weight is 4 p (1 - p) times the ratio
    p = 1 / (1 + math.exp(-0.5))
    assert verdict.weight == pytest.approx(4 * p * (1 - p) * 1.5, rel=1e-5)
    assert slope == pytest.approx(-4 * p * (1 - p) * 1.5, rel=1e-5)
    assert verdict.words == "weight 1.41002"
    assert at_one == pytest.approx(-1.0)
    assert full.words == "inside"


def test_sao_rejects_on_both_sides() -> None:
    objective = partial(sao_policy_loss, clip_low=0.25, clip_high=0.25)
    found = judged(objective, -1.0, [0.5, 1.0, 1.5])
    assert words(found) == ["rejected below", "inside", "rejected above"]
    assert [verdict.gradient for _, verdict in found] == [False, True, False]


@pytest.mark.parametrize("loss", [gspo_policy_loss, gspo_token_policy_loss])
def test_gspo_judges_the_whole_sequence(loss: Callable[..., Any]) -> None:
    def objective(current: Any, old: Any, advantages: Any, mask: Any, *, denominator: Any) -> Any:
        credit = advantages[:, -1] if loss is gspo_policy_loss else advantages
        return loss(current, old, credit, mask, clip_low=0.25, clip_high=0.25, denominator=denominator)

    # geometric mean of 4 and 0.25 is 1: inside, although each token's own ratio is far outside
    inside = judged(objective, 1.0, [4.0, 0.25])
    # each of the two tokens gets s A / (n N) = 1 / 2, and weighs 1/2 in the loss: weight s = 1
    assert [slope for slope, _ in inside] == pytest.approx([-0.5, -0.5], rel=1e-5)
    assert words(inside) == ["weight 1"] * 2
    # geometric mean of 4 and 1 is 2, above 1.25: no token keeps a gradient, not even the one whose own ratio is 1
    clipped = judged(objective, 1.0, [4.0, 1.0])
    assert [slope for slope, _ in clipped] == [0.0, 0.0]
    assert words(clipped) == ["clip binds: its sequence above 1.25, A > 0"] * 2
    # with a negative advantage it is the side that keeps its gradient, s A / (n N) of the loss' -A
    assert words(judged(objective, -1.0, [4.0, 1.0])) == ["not binding: its sequence above 1.25, A < 0"] * 2


def test_a_capped_weight_keeps_its_gradient() -> None:
    found = judged(partial(cispo_policy_loss, ratio_max=1.5), -2.0, [1.25, 4.0])
    assert [slope for slope, _ in found] == pytest.approx([2.5, 3.0])
    assert words(found) == ["inside", "weight capped at 1.5"]


def test_each_token_is_judged_by_the_advantage_of_its_own_turn() -> None:
    objective = partial(clipped_policy_loss, clip_low=0.25, clip_high=0.25)
    made, seen = row("a", None, [1.5, 1.5, 0.5, 1.0])
    made = dataclasses.replace(made, turns=(-1, 0, 1, 1, 2), advantage=(1.0, -2.0, 0.0))
    one = differentiated(objective, [(made, seen)], 1.0).rows["a"]
    found = verdicts(one, objective, 1.0, INTERVAL)
    assert [verdict.words for verdict in found] == [
        "clip binds: above 1.25, A > 0",
        "not binding: above 1.25, A < 0",
        "clip binds: below 0.75, A < 0",
        "the advantage is 0",
    ]
    assert one.derivative.tolist() == pytest.approx([0.0, 0.0, 3.0, 0.0, 0.0])
    assert [verdict.weight for verdict in found] == [pytest.approx(0.0), pytest.approx(1.5), pytest.approx(0.0), None]
    # what is counted among one sign holds for tokens of that sign only
    assert [name for verdict in found for name in verdict.holds if name.endswith("positive")] == ["clip_fraction_positive"]


def test_the_gradient_does_not_depend_on_micro_batches_and_skips_what_is_excluded() -> None:
    objective = partial(clipped_policy_loss, clip_low=0.25, clip_high=0.25)
    rows = [row("a", 1.0, [1.0, 1.1, 1.5], excluded=1), row("b", -2.0, [0.9]), row("c", 0.5, [1.2, 0.8])]
    whole, cut = differentiated(objective, rows, 5.0), differentiated(objective, rows, 5.0, micro=1)
    assert cut.loss == pytest.approx(whole.loss)
    # tokens in the loss: 1, 1.1 | 0.9 (A = -2) | 1.2, 0.8 (A = 0.5), each over 5
    assert whole.absolute == pytest.approx((1 + 1.1 + 1.8 + 0.6 + 0.4) / 5)
    assert cut.absolute == pytest.approx(whole.absolute)
    assert whole.rows["a"].derivative.tolist() == pytest.approx([0.0, -0.2, -0.22, 0.0])
    assert torch.equal(whole.rows["b"].derivative, cut.rows["b"].derivative)


def test_evidence_of_the_wrong_length_is_an_error() -> None:
    made, _ = row("a", 1.0, [1.0, 1.0])
    with pytest.raises(StoreError, match="hold one for each of the 2 tokens that 'a' sampled, got 1"):
        differentiated(clipped_policy_loss, [(made, UpdatedRow("a", array("f", [-1.0])))], 2.0)


def test_a_row_with_few_clipped_tokens_takes_few_questions() -> None:
    calls = 0

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        return clipped_policy_loss(*arguments, clip_low=0.25, clip_high=0.25, **named)

    ratios = [1.0] * 1024
    ratios[700] = 2.0
    one = differentiated(counted, [row("a", 1.0, ratios)], 1024.0).rows["a"]
    calls = 0
    found: list[Verdict] = verdicts(one, counted, 1024.0, INTERVAL)
    assert [index for index, verdict in enumerate(found) if not verdict.gradient] == [700]
    assert calls <= 2 * 10 + 1


REWARDS = st.lists(st.floats(-100, 100, allow_subnormal=False).map(lambda x: round(x, 3)), min_size=2, max_size=20)


@given(rewards=REWARDS, place=st.integers(0, 19), credit=st.sampled_from([group_standardized_advantages, leave_one_out_advantages]))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_the_formula_ends_in_the_advantage(rewards: list[float], place: int, credit: Callable[..., torch.Tensor]) -> None:
    place %= len(rewards)
    formula = group_formula(credit, rewards, place)
    value = float(formula.lines[-1].rpartition("=")[2].removesuffix(", exactly"))
    exact = float(credit(torch.tensor(rewards, dtype=torch.float64))[place])
    assert value == pytest.approx(exact, rel=1e-5, abs=1e-9)
    assert formula.baseline is not None


def test_formulas_of_bound_and_of_unknown_credit_functions() -> None:
    assert group_formula(partial(group_standardized_advantages, eps=0.5), [1.0, -1.0], 1).lines[-1] == (
        "A = (R - mean) / (s + 0.5) = (-1 - 0) / (1 + 0.5) = -0.666667"
    )

    def mine(rewards: torch.Tensor) -> torch.Tensor:
        return rewards

    unknown = group_formula(mine, [1.0, 0.5], 1)
    assert unknown.baseline is None
    assert unknown.lines[0].endswith("mine(1, 0.5)[1]")
    assert "20 rewards" in group_formula(leave_one_out_advantages, [float(i) for i in range(21)], 0).lines[0]
