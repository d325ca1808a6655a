"""One suite for all objectives and aggregations: padding, packing, order, splits and masked rubbish change nothing."""

from __future__ import annotations

import itertools
import math

import cases_objective as cases
import oracles_objective as oracles
import pytest
import torch
from cases_objective import AGGREGATIONS, HORIZON, OBJECTIVES, Batch, Sequence, a_batch

from rosellm.roserlhf.losses import rollout_denominators, step_denominator
from rosellm.roserlhf.metrics import merge

everything = pytest.mark.parametrize(("name", "aggregation"), list(itertools.product(OBJECTIVES, AGGREGATIONS)))


def loss_and_gradient(name: str, aggregation: str, batch: Batch) -> tuple[float, list[list[float]]]:
    loss = OBJECTIVES[name].run(batch, **cases.how_to(aggregation, batch)).loss
    loss.backward()
    return loss.item(), cases.gradient_of(batch)


def expected(name: str, aggregation: str, sequences: list[Sequence]) -> tuple[float, list[list[float]]]:
    table = oracles.weights([s.mask for s in sequences], aggregation, [s.rollout for s in sequences], HORIZON)
    return oracles.loss_and_gradient(OBJECTIVES[name].oracle(sequences), table)


def assert_same(seen: tuple[float, list[list[float]]], wanted: tuple[float, list[list[float]]], error: float = 1e-12) -> None:
    assert seen[0] == pytest.approx(wanted[0], rel=error, abs=error / 10)
    for one, other in zip(seen[1], wanted[1], strict=True):
        assert one == pytest.approx(other, rel=error, abs=error / 10)


@everything
def test_equals_the_slow_oracle(name: str, aggregation: str) -> None:
    assert_same(loss_and_gradient(name, aggregation, cases.padded(a_batch())), expected(name, aggregation, a_batch()))


@everything
@pytest.mark.parametrize(
    ("layout", "filler"),
    [
        (lambda s, filler: cases.padded(s, left=3, filler=filler), math.nan),
        (lambda s, filler: cases.padded(s, right=4, filler=filler), -math.inf),
        (lambda s, filler: cases.spread_out(s, filler=filler), math.nan),
        (lambda s, filler: cases.packed(s, filler=filler), -math.inf),
        (lambda s, filler: cases.packed(s, rows=2, filler=filler), math.nan),
        (lambda s, filler: cases.packed(s, flat=True, filler=filler), math.nan),
        (lambda s, filler: cases.by_boundaries(s, filler=filler), math.inf),
        (lambda s, filler: cases.by_positions(s, filler=filler), math.nan),
    ],
    ids=["left", "right", "inside", "one row", "two rows", "no row", "boundaries", "positions"],
)
def test_padding_packing_and_masked_rubbish_change_nothing(name: str, aggregation: str, layout: object, filler: float) -> None:
    assert callable(layout)
    batch: Batch = layout(a_batch(), filler)
    seen = loss_and_gradient(name, aggregation, batch)
    assert_same(seen, expected(name, aggregation, a_batch()))
    assert batch.current.grad is not None
    assert batch.current.grad.flatten()[batch.mask.flatten() == 0].eq(0).all()


@everything
def test_rubbish_inside_a_response_changes_nothing(name: str, aggregation: str) -> None:
    # the third token of the second response is a tool result: mask 0 between live tokens
    clean = loss_and_gradient(name, aggregation, cases.padded(a_batch()))
    for rubbish in (math.nan, math.inf, -math.inf, 1e30):
        batch = cases.padded(a_batch())
        with torch.no_grad():
            for column in (batch.current, batch.old, batch.advantages):
                column[1, 2] = rubbish
        assert_same(loss_and_gradient(name, aggregation, batch), clean)


@everything
def test_order_of_rows_changes_nothing(name: str, aggregation: str) -> None:
    loss, gradient = expected(name, aggregation, a_batch())
    assert_same(loss_and_gradient(name, aggregation, cases.padded(a_batch()[::-1])), (loss, gradient[::-1]))


@everything
@pytest.mark.parametrize(
    ("split", "layout"),
    [
        ([[0, 1], [2], [3, 4]], cases.padded),
        ([[2], [4], [1], [0], [3]], cases.packed),
        ([[3, 0], [4, 2, 1]], cases.padded),
    ],
    ids=["three padded", "each packed", "two padded"],
)
def test_micro_batches_add_up(name: str, aggregation: str, split: list[list[int]], layout: object) -> None:
    assert callable(layout)
    sequences = a_batch()
    parts: list[Batch] = [layout([sequences[i] for i in part]) for part in split]
    masks, rollouts = [part.mask for part in parts], [part.rollout_ids for part in parts]
    labels = [part.sequence_ids for part in parts if part.sequence_ids is not None] or None
    denominators = (
        rollout_denominators(masks, rollouts)
        if aggregation == "rollout"
        else [step_denominator(masks, aggregation, sequence_ids=labels)] * len(parts)  # type: ignore[arg-type]
    )
    total, partials = 0.0, []
    gradient: dict[int, list[float]] = {}
    for part, places, denominator in zip(parts, split, denominators, strict=True):
        out = OBJECTIVES[name].run(part, **cases.how_to(aggregation, part), denominator=denominator)
        out.loss.backward()
        total += out.loss.item()
        partials.append(out.partials)
        gradient.update(zip(places, cases.gradient_of(part), strict=True))
    assert_same((total, [gradient[i] for i in range(len(sequences))]), expected(name, aggregation, sequences))

    merged = merge(partials)
    whole = cases.padded(sequences)
    statistics = OBJECTIVES[name].run(whole, **cases.how_to(aggregation, whole)).partials
    assert merged.pop("empty_batch_fraction").sum == sum(part == [2] for part in split)
    for key, partial in merged.items():
        assert partial.mean().item() == pytest.approx(statistics[key].mean().item(), rel=1e-6, nan_ok=True), key


@everything
def test_empty_micro_batch_gives_a_connected_zero(name: str, aggregation: str) -> None:
    batch = cases.padded([a_batch()[2]], filler=math.nan)
    out = OBJECTIVES[name].run(batch, **cases.how_to(aggregation, batch), denominator=5)
    out.loss.backward()
    assert out.loss.item() == 0.0
    assert cases.gradient_of(batch) == [[0.0, 0.0]]
    assert out.partials["empty_batch_fraction"].mean() == 1.0
    for partial in out.partials.values():
        assert partial.sum.isfinite()
        assert partial.count.isfinite()


@everything
def test_partials_add_up_to_the_step(name: str, aggregation: str) -> None:
    whole = cases.padded(a_batch())
    out = OBJECTIVES[name].run(whole, **cases.how_to(aggregation, whole))
    assert out.objective.item() == pytest.approx(out.partials["objective"].mean().item(), rel=1e-12)
    assert out.objective.item() == -out.loss.item()
    assert not out.objective.requires_grad
    for partial in out.partials.values():
        assert not partial.sum.requires_grad
        assert partial.sum.shape == partial.count.shape == ()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_token_loss_is_the_loss_before_aggregation(name: str) -> None:
    batch = cases.padded(a_batch(), filler=math.nan)
    out = OBJECTIVES[name].run(batch, aggregation="token")
    values = OBJECTIVES[name].oracle(a_batch()).values
    for i, row in enumerate(values):
        assert out.token_loss[i, : len(row)].tolist() == pytest.approx([-value for value in row], rel=1e-12)
    assert out.token_loss[batch.mask == 0].eq(0).all()
    assert out.loss.item() == pytest.approx(out.token_loss.sum().item() / 12, rel=1e-12)  # 3 + 4 + 0 + 1 + 4 live tokens
    assert out.token_loss.requires_grad


@pytest.mark.parametrize("name", OBJECTIVES)
def test_evidence_gets_no_gradient(name: str) -> None:
    batch = cases.padded(a_batch())
    evidence = [batch.old, batch.advantages, batch.sequence_advantages]
    for one in evidence:
        one.requires_grad_(True)
    OBJECTIVES[name].run(batch, aggregation="token").loss.backward()
    assert [one.grad for one in evidence] == [None, None, None]
    assert batch.current.grad is not None


@pytest.mark.parametrize("name", OBJECTIVES)
def test_boolean_and_number_masks_are_the_same(name: str) -> None:
    for dtype in (torch.bool, torch.int32, torch.float32, torch.bfloat16):
        batch = cases.padded(a_batch())
        seen = loss_and_gradient(name, "token", batch._replace(mask=batch.mask.to(dtype)))
        assert_same(seen, expected(name, "token", a_batch()))


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_precision_is_kept(name: str, dtype: torch.dtype) -> None:
    batch = cases.padded(a_batch())
    cast = batch._replace(
        current=batch.current.detach().to(dtype).requires_grad_(),
        old=batch.old.to(dtype),
        advantages=batch.advantages.to(dtype),
        sequence_advantages=batch.sequence_advantages.to(dtype),
    )
    out = OBJECTIVES[name].run(cast, aggregation="sequence_mean")
    assert out.loss.dtype == out.token_loss.dtype == dtype
    out.loss.backward()
    seen, wanted = (out.loss.item(), cases.gradient_of(cast)), expected(name, "sequence_mean", a_batch())
    assert_same(seen, wanted, 1e-5 if dtype == torch.float32 else 1e-12)
