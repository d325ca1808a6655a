"""Every objective: derivatives by finite differences, half precision, degenerate groups, extreme ratios, any shape, any split."""

from __future__ import annotations

import itertools
import math
from typing import Any

import cases_objective as cases
import oracles_objective as oracles
import pytest
import torch
from cases_objective import AGGREGATIONS, DEVICE, HORIZON, OBJECTIVES, Batch, Sequence, a_batch, tensor
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.losses import gather_token_logprobs, rollout_denominators, step_denominator

CONSTANT_FACTOR = ("grpo", "sao", "cispo", "gspo_token", "total_variation_capped")
"""Their gradient is by design not the derivative of their value: a factor or a whole ratio is held constant."""
CRITICS = ("value", "value_clipped")
REJECTING = ("sao", "sao_attached", "total_variation", "decoupled")
everything = pytest.mark.parametrize(("name", "aggregation"), list(itertools.product(OBJECTIVES, AGGREGATIONS)))


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name not in CONSTANT_FACTOR])
@pytest.mark.parametrize("aggregation", ["token", "sequence_mean"])
def test_gradient_is_the_derivative_of_the_value(name: str, aggregation: str) -> None:
    batch = cases.padded(a_batch())
    how = cases.how_to(aggregation, batch)
    assert torch.autograd.gradcheck(lambda at: OBJECTIVES[name].run(batch._replace(current=at), **how).loss, (batch.current,))


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("now_and_then", [(-2.0, -91.0), (-91.0, -2.0), (-0.0, -1e4)], ids=str)
def test_extreme_ratios_are_finite_and_counted(name: str, now_and_then: tuple[float, float]) -> None:
    # float32, where exp(89) is already infinite
    now, then = (torch.full((2, 2), value, device=DEVICE) for value in now_and_then)
    for credit in (1.0, -1.0):
        current = now.clone().requires_grad_()
        batch = _batch(current, then, torch.full_like(now, credit), torch.ones_like(now))
        out = OBJECTIVES[name].run(batch, aggregation="sequence_mean")
        slopes = torch.autograd.grad(out.loss, current)[0]
        assert out.loss.isfinite()
        assert out.token_loss.isfinite().all()
        assert slopes.isfinite().all()
        for key, partial in out.partials.items():
            assert partial.sum.isfinite(), key
        if name not in CRITICS:
            clamped = out.partials["log_ratio_clamped_fraction"]
            assert clamped.sum == clamped.count > 0


def _batch(current: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor, mask: torch.Tensor) -> Batch:
    """Rows whose sequence advantage is that of their first token."""
    return Batch(current, old, advantages, mask, advantages[:, 0], None, torch.arange(len(mask), device=DEVICE), [])


@pytest.mark.parametrize("name", REJECTING)
def test_with_every_token_rejected_the_loss_is_zero_and_connected(name: str) -> None:
    # ratio 10 up, probability 0.9 against 0.09, behaviour weight 0.09^-0.3 = 2.06: outside of every bound
    current, old = tensor([[0.9, 0.9]]).log().requires_grad_(), tensor([[0.09, 0.09]]).log()
    out = OBJECTIVES[name].run(_batch(current, old, tensor([[1.0, 1.0]]), tensor([[1, 1]])))
    assert out.loss == 0.0
    assert torch.autograd.grad(out.loss, current)[0].tolist() == [[0.0, 0.0]]
    assert out.partials["objective"].count == 2


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name not in (*CRITICS, "grpo", "total_variation_capped")])
def test_a_group_in_which_all_failed_teaches_nothing(name: str) -> None:
    batch = cases.padded([one._replace(advantages=[0.0] * len(one.mask), credit=0.0) for one in a_batch()])
    out = OBJECTIVES[name].run(batch)
    assert out.loss == 0.0
    assert torch.autograd.grad(out.loss, batch.current)[0].eq(0).all()


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name not in (*CRITICS, "grpo", "total_variation_capped")])
def test_a_weight_of_the_advantage_is_a_weight_of_the_loss(name: str) -> None:
    # what lets a correction for stale data multiply the advantages, whatever the objective; powers of 2 are exact
    batch = cases.padded(a_batch())
    weights = torch.tensor([0.5, 4.0, 1.0, 2.0, 0.0], dtype=torch.float64, device=DEVICE)[:, None]
    plain = OBJECTIVES[name].run(batch).token_loss
    weighted = (
        OBJECTIVES[name]
        .run(batch._replace(advantages=batch.advantages * weights, sequence_advantages=batch.sequence_advantages * weights[:, 0]))
        .token_loss
    )
    assert weighted.tolist() == (plain * weights).tolist()
    slopes = [torch.autograd.grad(loss.sum(), batch.current)[0] for loss in (plain * weights, weighted)]
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-12, atol=0.0)


@everything
def test_one_token_in_one_sequence(name: str, aggregation: str) -> None:
    one = [a_batch()[3]]
    batch = cases.padded(one)
    loss = OBJECTIVES[name].run(batch, **cases.how_to(aggregation, batch)).loss
    _same(loss, batch, name, one, aggregation)


def test_one_token_sequences_make_gspo_ppo() -> None:
    one = [a_batch()[3], Sequence([-0.5], [-0.9], [2.0], [1], 2.0, 1)]
    losses = [OBJECTIVES[name].run(cases.padded(one)).loss.item() for name in ("gspo", "gspo_token", "clipped")]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-12)


def _same(loss: torch.Tensor, batch: Batch, name: str, sequences: list[Sequence], aggregation: str) -> None:
    """Compare with the oracle after a backward pass of `loss`."""
    loss.backward()
    table = oracles.weights([s.mask for s in sequences], aggregation, [s.rollout for s in sequences], HORIZON)
    wanted = oracles.loss_and_gradient(OBJECTIVES[name].oracle(sequences), table)
    assert loss.item() == pytest.approx(wanted[0], rel=1e-10, abs=1e-11)
    for seen, row in zip(cases.gradient_of(batch), wanted[1], strict=True):
        assert seen == pytest.approx(row, rel=1e-10, abs=1e-11)


# ---- half precision


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name not in CRITICS])
def test_bfloat16_logits_give_the_loss_of_their_float32_values(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 7, generator=generator).to(DEVICE).bfloat16()
    ids, mask = torch.tensor([[1, 2, 3], [4, 5, 6]], device=DEVICE), tensor([[1, 1, 1], [1, 1, 0]])
    old = gather_token_logprobs(logits.float(), ids) - 0.1
    credit = torch.tensor([[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]], device=DEVICE)
    slopes = []
    for leaf in (logits.clone().requires_grad_(), logits.float().requires_grad_()):
        out = OBJECTIVES[name].run(_batch(gather_token_logprobs(leaf, ids), old, credit, mask))
        assert out.loss.dtype == torch.float32
        slopes.append((out.loss.item(), torch.autograd.grad(out.loss, leaf)[0]))
    assert slopes[0][1].dtype == torch.bfloat16
    assert slopes[0][0] == slopes[1][0]
    torch.testing.assert_close(slopes[0][1].float(), slopes[1][1], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_autocast_changes_nothing(name: str) -> None:
    plain = OBJECTIVES[name].run(_float32(cases.padded(a_batch())))
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        batch = _float32(cases.padded(a_batch()))
        out = OBJECTIVES[name].run(batch)
    assert out.loss.dtype == out.token_loss.dtype == torch.float32
    assert out.loss == plain.loss
    assert torch.autograd.grad(out.loss, batch.current)[0].isfinite().all()


def _float32(batch: Batch) -> Batch:
    return batch._replace(
        current=batch.current.detach().float().requires_grad_(),
        old=batch.old.float(),
        advantages=batch.advantages.float(),
        sequence_advantages=batch.sequence_advantages.float(),
    )


# ---- any shape, any split

numbers = st.floats(-2.0, 2.0, allow_nan=False)
a_token = st.tuples(numbers, numbers, numbers, st.integers(0, 1))


@st.composite
def some_sequences(draw: st.DrawFn) -> list[Sequence]:
    rows = draw(st.lists(st.tuples(st.lists(a_token, min_size=1, max_size=5), numbers, st.integers(0, 3)), min_size=1, max_size=5))
    made = []
    for row, credit, rollout in rows:
        current, old, advantages, mask = (list(column) for column in zip(*row, strict=True))
        made.append(Sequence(current, old, advantages, mask, credit, rollout))
    made[0].mask[0] = 1  # not everything is masked
    return made


@settings(derandomize=True, max_examples=30, deadline=None)
@given(
    some_sequences(),
    st.sampled_from([cases.padded, cases.spread_out, cases.packed, cases.by_boundaries, cases.by_positions]),
    st.sampled_from(AGGREGATIONS),
    st.sampled_from([math.nan, math.inf, 1e30]),
)
def test_property_any_ragged_batch_in_any_layout(sequences: list[Sequence], layout: Any, aggregation: str, filler: float) -> None:
    for name in OBJECTIVES:
        batch = layout(sequences, filler=filler)
        loss = OBJECTIVES[name].run(batch, **cases.how_to(aggregation, batch)).loss
        _same(loss, batch, name, sequences, aggregation)


def eight() -> list[Sequence]:
    """Responses of four rollouts, two of which were forked: three rows of rollout 7, two of rollout 3."""
    more = a_batch()[:3]
    rollouts = [7, 3, 9, 7, 4, 7, 3, 5]
    return [one._replace(rollout=rollout) for one, rollout in zip([*a_batch(), *more[::-1]], rollouts, strict=True)]


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_micro_batches_and_ranks_add_up(name: str, aggregation: str) -> None:
    sequences = eight()
    table = oracles.weights([s.mask for s in sequences], aggregation, [s.rollout for s in sequences], HORIZON)
    wanted = oracles.loss_and_gradient(OBJECTIVES[name].oracle(sequences), table)
    for ranks, size in ((1, 8), (1, 4), (1, 2), (2, 4), (2, 1), (4, 2), (4, 1)):
        shares = [list(range(rank, 8, ranks)) for rank in range(ranks)]
        parts = [share[start : start + size] for share in shares for start in range(0, len(share), size)]
        batches = [cases.padded([sequences[i] for i in part]) for part in parts]
        masks = [batch.mask for batch in batches]
        rollout = aggregation == "rollout"
        denominators: Any = (
            rollout_denominators(masks, [batch.rollout_ids for batch in batches])
            if rollout
            else [step_denominator(masks, aggregation)] * len(parts)  # type: ignore[arg-type]
        )
        total, slopes = 0.0, dict[int, list[float]]()
        for part, batch, denominator in zip(parts, batches, denominators, strict=True):
            loss = OBJECTIVES[name].run(batch, **cases.how_to(aggregation, batch), denominator=denominator).loss
            loss.backward()
            total += loss.item()
            slopes.update(zip(part, cases.gradient_of(batch), strict=True))
        assert total == pytest.approx(wanted[0], rel=1e-10), (ranks, size)
        for i in range(8):
            assert slopes[i] == pytest.approx(wanted[1][i], rel=1e-10, abs=1e-12), (ranks, size)
