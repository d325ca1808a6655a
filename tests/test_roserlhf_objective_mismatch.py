"""Corrections for what really sampled: levels, actions and bounds by hand and against the oracle; with every loss."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import oracles_corrections as oracles
import pytest
import torch
from cases_mismatch import CORRECTIONS, a_batch, of
from cases_objective import DEVICE, close, counted, raises, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rosellm.roserlhf import errors, losses
from rosellm.roserlhf.losses import (
    MismatchCorrection,
    effective_sample_size,
    icepop,
    mis,
    mismatch_correction,
    opsm,
    tis,
)

LEVELS: Any = ("token", "geometric_sequence", "product_sequence", "segment")
RHO = [0.1, 0.5, 1.0, 2.0, 2.1, 5.0, 6.0]


# By hand: two sequences [4, 1] and [1/2, 1/8], geometric means 2 and 1/4, products 4 and 1/16; bounds 1/2 and 2.

TWO = [[4.0, 1.0], [0.5, 0.125]]


@pytest.mark.parametrize(
    ("level", "truncated", "masked"),
    [
        ("token", [[2.0, 1.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.0]]),
        ("geometric_sequence", [[2.0, 2.0], [0.5, 0.5]], [[2.0, 2.0], [0.0, 0.0]]),
        ("product_sequence", [[2.0, 2.0], [0.5, 0.5]], [[0.0, 0.0], [0.0, 0.0]]),
        ("segment", [[2.0, 2.0], [0.5, 0.5]], [[2.0, 2.0], [0.0, 0.0]]),  # one run per row
    ],
)
def test_levels_and_actions_by_hand(level: Any, truncated: Any, masked: Any) -> None:
    truncate = of(TWO, level=level, action="truncate", ratio_min=0.5, ratio_max=2.0)
    close(truncate.weights, truncated)
    assert truncate.keep_mask.all()
    mask = of(TWO, level=level, action="mask", ratio_min=0.5, ratio_max=2.0)
    close(mask.weights, masked)
    assert mask.keep_mask.tolist() == [[w > 0 for w in row] for row in masked]
    filtered = of(TWO, level=level, action="mask", ratio_min=0.5, ratio_max=2.0, weight="one")
    assert filtered.weights.tolist() == [[float(w > 0) for w in row] for row in masked]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("level", LEVELS)
def test_a_ratio_on_a_bound_is_kept_if_closed_and_rejected_if_open(level: Any, dtype: torch.dtype) -> None:
    for ratio in (0.25, 0.5, 1.25, 4.0):
        logs = tensor([[ratio]], dtype=dtype).log()
        bounds: dict[str, Any] = {"ratio_min": min(ratio, 0.75), "ratio_max": max(ratio, 1.125)}
        for closed in (True, False):
            seen = mismatch_correction(
                logs,
                torch.zeros_like(logs),
                tensor([[1]]),
                level=level,
                action="mask",
                bounds="closed" if closed else "open",
                **bounds,
            )
            assert seen.keep_mask.item() is closed


def test_a_segment_is_a_run_of_live_tokens_or_what_its_ids_say() -> None:
    """Ratios 4, 1 | tool | 1/4 in a row: runs [4, 1] -> 2 and [1/4]; with one id for all of them the mean is 1."""
    ratios, mask = [[4.0, 1.0, math.nan, 0.25]], [[1, 1, 0, 1]]
    how: dict[str, Any] = {"level": "segment", "action": "truncate", "ratio_max": 8.0}
    close(of(ratios, mask, **how).weights, [[2.0, 2.0, 0.0, 0.25]])
    close(of(ratios, mask, segment_ids=tensor([[3, 3, -1, 3]]), **how).weights, [[1.0, 1.0, 0.0, 1.0]])
    twice, masks = [*ratios, [1.0, 1.0, 1.0, 9.0]], [*mask, [1, 1, 0, 0]]
    turns = tensor([[0, 0, -1, 1], [0, 0, -1, -1]])  # ids start anew in each row
    close(of(twice, masks, segment_ids=turns, **how).weights, [[2.0, 2.0, 0.0, 0.25], [1.0, 1.0, 0.0, 0.0]])
    packed = of([4.0, 1.0, 1.0, 1.0], cu_seqlens=tensor([0, 2, 4]), **how)  # adjacent tokens of two sequences are two runs
    close(packed.weights, [2.0, 2.0, 1.0, 1.0])
    close(counted(packed.partials["segment_ratio"]), (3.0, 2.0))


# Reference cases.


def test_tis_of_the_reference_case() -> None:
    rho = tensor([RHO])
    close(tis(rho.log(), torch.zeros_like(rho), torch.ones_like(rho)).weights, [[0.1, 0.5, 1.0, 2.0, 2.0, 2.0, 2.0]])


@pytest.mark.parametrize(
    ("level", "wanted"),
    [("product_sequence", [1.5, 0.9048374180359595]), ("geometric_sequence", [1.4190675485932571, 0.951229424500714])],
)
def test_sequence_tis_of_the_reference_case(level: Any, wanted: list[float]) -> None:
    logs = tensor([[0.3, 0.4], [-0.2, 0.1]])
    ones = torch.ones_like(logs)
    seen = mismatch_correction(logs, torch.zeros_like(logs), ones, level=level, action="truncate", ratio_max=1.5)
    close(seen.weights, [[w, w] for w in wanted])


def test_icepop_of_the_reference_case() -> None:
    rho = tensor([RHO])
    seen = icepop(rho.log(), torch.zeros_like(rho), torch.ones_like(rho))
    close(seen.weights, [[0.0, 0.5, 1.0, 2.0, 2.1, 5.0, 0.0]])
    assert seen.keep_mask.tolist() == [[False, True, True, True, True, True, False]]


def test_sequence_filters_of_the_reference_case() -> None:
    """Products 1.284 and 1.350, geometric means 1.087 and 1.105 against the bound 1.25."""
    logs = tensor([[0.1, 0.2, -0.05], [-0.6, 0.5, 0.4]])
    for level, ratios, kept in (
        ("product_sequence", [1.2840254166877416, 1.3498588075760032], False),
        ("geometric_sequence", [1.086904049521229, 1.1051709180756477], True),
    ):
        run = functools.partial(mismatch_correction, logs, torch.zeros_like(logs), torch.ones_like(logs), level=level)  # type: ignore[arg-type]
        close(run(action="truncate", ratio_max=math.inf).weights, [[ratio] * 3 for ratio in ratios])
        assert run(action="mask", ratio_max=1.25).kept_sequences().tolist() == [kept, kept]


def test_mis_filters_by_sequence_and_by_token() -> None:
    """Geometric mean 1 with tokens 1/2, 2 on their open bounds; a mean of 1.0005 inside and one of 1.002 outside."""
    rho = tensor([[0.5, 1.0, 2.0], [1.0005] * 3, [1.002] * 3])
    seen = mis(rho.log(), torch.zeros_like(rho), torch.ones_like(rho))
    assert seen.weights.tolist() == [[0.0, 1.0, 0.0], [1.0] * 3, [0.0] * 3]
    close(seen.partials["geometric_sequence_above_fraction"].mean(), 1 / 3)
    close(seen.partials["token_below_fraction"].mean(), 1 / 9)
    assert counted(seen.partials["kept_fraction"]) == (4.0, 9.0)
    assert seen.kept_sequences().tolist() == [True, True, False]


def test_opsm_of_the_reference_case() -> None:
    """Drifts 0.2, 0.05, 0.2, 0.1 against 0.1: only A < 0 and above it goes; the tie is kept."""
    drift = tensor([[0.2], [0.05], [0.2], [0.1]])
    seen = opsm(-drift, torch.zeros_like(drift), tensor([-1.0, -1.0, 1.0, -1.0]), torch.ones_like(drift), delta=0.1)
    assert seen.keep_mask.tolist() == [[False], [True], [True], [True]]
    assert counted(seen.partials["drifted_fraction"]) == (2.0, 4.0)
    close(seen.partials["drift"].mean(), 0.55 / 4)


def test_opsm_masks_single_tokens_where_the_sign_changes_inside_a_sequence() -> None:
    current, behaviour, mask = [[-2.0, -1.0, -1.0], [-1.0] * 3], [[-1.0] * 3, [-1.0] * 3], [[1, 1, 0], [1, 1, 1]]
    credit = [[-1.0, 1.0, -1.0], [-1.0] * 3]
    seen = opsm(tensor(current), tensor(behaviour), tensor(credit), tensor(mask), delta=0.25)
    assert seen.keep_mask.long().tolist() == oracles.off_policy_masked(current, behaviour, credit, mask, 0.25)
    assert seen.weights.tolist() == [[0.0, 1.0, 0.0], [1.0] * 3]


# Against the oracle, over options and layouts.

ROWS = st.lists(
    st.lists(st.tuples(st.floats(-3, 3), st.integers(0, 1), st.integers(0, 2)), min_size=4, max_size=4), min_size=1, max_size=4
)


@pytest.mark.parametrize("level", LEVELS)
@settings(derandomize=True, max_examples=40, deadline=None)
@given(
    rows=ROWS,
    low=st.floats(0, 0.99),
    high=st.floats(1.01, 10),
    kind=st.sampled_from([("truncate", "ratio", "closed"), ("mask", "ratio", "closed"), ("mask", "one", "open")]),
    with_ids=st.booleans(),
)
def test_correction_equals_the_oracle(
    level: Any, rows: list[list[tuple[float, int, int]]], low: float, high: float, kind: Any, with_ids: bool
) -> None:
    logs, mask, turns = ([[token[k] for token in row] for row in rows] for k in range(3))
    action, weight, bounds = kind
    named = with_ids and level == "segment"
    seen = mismatch_correction(
        tensor(logs),
        torch.zeros_like(tensor(logs)),
        tensor(mask),
        level=level,
        action=action,
        ratio_min=low,
        ratio_max=high,
        bounds=bounds,
        weight=weight,
        segment_ids=tensor(turns) if named else None,
    )
    weights, keep, ratios = oracles.corrected(
        logs,
        mask,  # type: ignore[arg-type]
        level=level,
        action=action,
        low=low,
        high=high,
        closed=bounds == "closed",
        filter_only=weight == "one",
        segments=turns if named else None,  # type: ignore[arg-type]
    )
    close(seen.weights, weights)
    assert seen.keep_mask.long().tolist() == keep
    flat = [w for row, live in zip(weights, mask, strict=True) for w, m in zip(row, live, strict=True) if m]
    units = float(len(ratios))
    close(counted(seen.partials["weight"]), (sum(flat), float(len(flat))))
    close(counted(seen.partials["squared_weight"]), (sum(w * w for w in flat), float(len(flat))))
    close(counted(seen.partials["kept_fraction"]), (float(sum(map(sum, keep))), float(len(flat))))
    close(counted(seen.partials[f"{level}_ratio"]), (sum(ratios), units))
    close(counted(seen.partials[f"{level}_chi_square"]), (sum(r * r - 1 for r in ratios), units))
    close(counted(seen.partials[f"{level}_below_fraction"]), (float(sum(r < low for r in ratios)), units))
    close(counted(seen.partials[f"{level}_above_fraction"]), (float(sum(r > high for r in ratios)), units))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("correct", ["truncate", "mask"])
def test_same_weights_under_padding_packing_and_order(level: Any, correct: Any) -> None:
    generator = torch.Generator().manual_seed(3)
    sequences = [torch.randn(n, generator=generator, dtype=torch.float64).to(DEVICE) for n in (3, 1, 5, 2)]
    masks = [torch.ones(len(s), dtype=torch.bool, device=DEVICE) for s in sequences]
    masks[2][2] = False
    how: dict[str, Any] = {"level": level, "action": correct, "ratio_min": 0.6, "ratio_max": 1.8}

    def run(logs: Tensor, mask: Tensor, **layout: Any) -> MismatchCorrection:
        return mismatch_correction(logs, torch.zeros_like(logs), mask, **how, **layout)

    alone = [run(s.unsqueeze(0), m.unsqueeze(0)) for s, m in zip(sequences, masks, strict=True)]
    wanted = torch.cat([a.weights[0] for a in alone])
    total = functools.reduce(lambda x, y: {k: x[k] + y[k] for k in x}, [a.partials for a in alone])

    padded = torch.full((4, 7), math.nan, dtype=torch.float64, device=DEVICE)
    padded_mask = torch.zeros(4, 7, dtype=torch.bool, device=DEVICE)
    for i, (s, m) in enumerate(zip(sequences, masks, strict=True)):
        padded[i, : len(s)], padded_mask[i, : len(s)] = s, m
    rows = run(padded, padded_mask)
    packed, packed_mask = torch.cat(sequences), torch.cat(masks)
    labels = torch.cat([torch.full((len(s),), 9 - i, device=DEVICE) for i, s in enumerate(sequences)])
    positions = torch.cat([torch.arange(len(s), device=DEVICE) for s in sequences])
    boundaries = torch.tensor([0, 3, 4, 9, 11], device=DEVICE)
    for seen in (
        run(packed, packed_mask, sequence_ids=labels),
        run(packed, packed_mask, cu_seqlens=boundaries),
        run(packed.unsqueeze(0), packed_mask.unsqueeze(0), position_ids=positions.unsqueeze(0)),
    ):
        torch.testing.assert_close(seen.weights.flatten(), wanted)
        for name, partial in seen.partials.items():
            close(counted(partial), counted(total[name]))
    torch.testing.assert_close(torch.cat([rows.weights[i, : len(s)] for i, s in enumerate(sequences)]), wanted)
    order = torch.tensor([2, 0, 3, 1], device=DEVICE)
    torch.testing.assert_close(run(padded[order], padded_mask[order]).weights, rows.weights[order])
    if level != "segment":  # runs are a matter of the order, whole sequences are not
        shuffle = torch.randperm(11, generator=generator).to(DEVICE)
        torch.testing.assert_close(
            run(packed[shuffle], packed_mask[shuffle], sequence_ids=labels[shuffle]).weights, wanted[shuffle]
        )


# What they are for: they multiply the advantage of any objective.

LOSSES: dict[str, Callable[..., Any]] = {
    "reinforce": lambda c, o, a, m, **how: losses.reinforce_policy_loss(c, a, m, **how),
    "clipped": lambda c, o, a, m, **how: losses.clipped_policy_loss(c, o, a, m, **how),
    "cispo": lambda c, o, a, m, **how: losses.cispo_policy_loss(c, o, a, m, ratio_max=1.5, **how),
    "sao": lambda c, o, a, m, **how: losses.sao_policy_loss(c, o, a, m, clip_low=0.5, clip_high=2.0, **how),
    "gspo_token": lambda c, o, a, m, **how: losses.gspo_token_policy_loss(c, o, a, m, clip_low=0.1, clip_high=0.1, **how),
    "sapo": lambda c, o, a, m, **how: losses.sapo_policy_loss(c, o, a, m, **how),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("level", LEVELS)
def test_a_correction_weighs_the_token_losses_of_every_objective(name: str, level: Any) -> None:
    behaviour, proximal, current, advantages, mask = a_batch()
    correction = mismatch_correction(proximal, behaviour, mask, level=level, action="mask", ratio_min=0.6, ratio_max=1.6)
    assert not correction.weights.requires_grad
    weighted, same_mask = correction.apply(advantages, mask)
    assert (same_mask == mask).all()
    plain = LOSSES[name](current, proximal, advantages, mask)
    seen = LOSSES[name](current, proximal, weighted, same_mask)
    torch.testing.assert_close(seen.token_loss, plain.token_loss * correction.weights)
    wanted = losses.aggregate(
        plain.token_loss * correction.weights, mask, aggregation="sequence_mean" if name in ("gspo_token", "sapo") else "token"
    )
    torch.testing.assert_close(seen.loss, wanted)
    for one, other in zip(torch.autograd.grad(seen.loss, current), torch.autograd.grad(wanted, current), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("cap", "action"), [("mask", "mask"), ("truncate", "truncate")])
def test_a_corrected_clip_is_the_decoupled_loss(cap: Any, action: Any) -> None:
    """The reference case of decoupled PPO: weights e^0.2, e^-0.1, e^1.9 > 5, 1; masked, the objective is 0.456497."""
    behaviour, proximal, current = (
        tensor([[-1.0, -0.5, -2.0, -1.0]]),
        tensor([[-0.8, -0.6, -0.1, -1.0]]),
        tensor([[-0.7, -0.9, -0.1, -0.6]]),
    )
    advantages, mask = tensor([[1.0, -1.0, 1.0, 1.0]]), tensor([[1, 1, 1, 1]])
    correction = mismatch_correction(proximal, behaviour, mask, level="token", action=action, ratio_max=5.0)
    credit, live = correction.apply(advantages, mask)
    seen = losses.clipped_policy_loss(current, proximal, credit, live)
    wanted = losses.decoupled_policy_loss(
        current, proximal, behaviour, advantages, mask, clip_low=0.2, clip_high=0.2, behaviour_cap=5.0, cap=cap
    )
    torch.testing.assert_close(seen.token_loss, wanted.token_loss)
    if cap == "mask":
        close(seen.objective, 0.45649721828680884)


def test_rejected_tokens_stay_in_the_denominator_or_leave_it() -> None:
    """Ratios 1 and 8 with advantages 2: loss -2 / 2 with both counted, -2 / 1 with the kept one."""
    proximal = tensor([[1.0, 8.0]]).log()
    seen = icepop(proximal, torch.zeros_like(proximal), tensor([[1, 1]]))
    for denominator, wanted in (("all", -1.0), ("kept", -2.0)):
        credit, mask = seen.apply(tensor([2.0]), tensor([[1, 1]]), denominator)  # type: ignore[arg-type]
        out = losses.clipped_policy_loss(proximal, proximal, credit, mask)
        close(out.loss, wanted)


def test_rejected_members_leave_baseline_numerator_and_denominator_together() -> None:
    """Three rollouts with rewards 1, 0, 5, the last rejected: as if it had never been sampled."""
    behaviour = torch.zeros(3, 2, dtype=torch.float64, device=DEVICE)
    proximal, mask = behaviour + tensor([[0.0], [0.1], [3.0]]), torch.ones(3, 2, dtype=torch.bool, device=DEVICE)
    correction = mismatch_correction(
        proximal, behaviour, mask, level="geometric_sequence", action="mask", ratio_max=2.0, weight="one"
    )
    kept = correction.kept_sequences()
    assert kept.tolist() == [True, True, False]
    advantages = tensor([0.0, 0.0, 0.0])
    rewards = tensor([1.0, 0.0, 5.0])
    advantages[kept] = rewards[kept] - rewards[kept].mean()
    credit, kept_mask = correction.apply(advantages, mask, "kept")
    seen = losses.clipped_policy_loss(proximal, proximal, credit, kept_mask)
    alone = losses.clipped_policy_loss(proximal[:2], proximal[:2], tensor([0.5, -0.5]), mask[:2])
    close(seen.loss, alone.loss.item())
    assert losses.step_denominator([kept_mask], "sequence_mean") == losses.step_denominator([mask[:2]], "sequence_mean")


def test_apply_takes_advantages_of_rows_and_of_packed_sequences() -> None:
    ratios = [2.0, 1.0, 0.5]
    packed = of(ratios, level="token", action="truncate", ratio_max=4.0, cu_seqlens=tensor([0, 2, 3]))
    close(packed.apply(tensor([3.0, -1.0]), tensor([1, 1, 1]))[0], [6.0, 3.0, -0.5])
    close(packed.apply(tensor([3.0, -1.0]), tensor([1, 0, 1]))[0], [6.0, 0.0, -0.5])  # fewer tokens than were corrected
    rows = of([ratios], level="token", action="truncate", ratio_max=4.0)
    for credit in (tensor([2.0]), tensor([[2.0]])):
        close(rows.apply(credit, tensor([[1, 1, 1]]))[0], [[4.0, 2.0, 1.0]])


def test_two_corrections_multiply() -> None:
    """Token ratios truncated at 2 times a filter of sequences by their product: 4 * 1 above 3 goes, 2 * 1 stays."""
    rho = [[4.0, 1.0], [2.0, 1.0]]
    tokens = of(rho, level="token", action="truncate", ratio_max=2.0)
    sequences = of(rho, level="product_sequence", action="mask", ratio_max=3.0, weight="one")
    both = tokens * sequences
    close(both.weights, [[0.0, 0.0], [2.0, 1.0]])
    assert both.keep_mask.tolist() == [[False, False], [True, True]]
    close(counted(both.partials["weight"]), (3.0, 4.0))
    assert {"token_ratio", "product_sequence_ratio"} <= both.partials.keys()
    close((sequences * tokens).weights, both.weights.tolist())
    with raises(errors.MaskError, "right correction must have the action mask of the left one"):
        tokens * of(rho, [[1, 1], [1, 0]], level="token", action="truncate", ratio_max=2.0)


# Laws.


@pytest.mark.parametrize("name", CORRECTIONS)
def test_behaviour_equal_to_target_changes_nothing(name: str) -> None:
    """Sampled at temperature 0.7 from the top two of five: both sides give the probability that was really sampled from."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 6, 5, generator=generator).to(DEVICE) / 0.7
    top = logits.topk(2).indices
    kept = torch.full_like(logits, -math.inf).scatter(-1, top, logits.gather(-1, top))
    ids = top[..., :1]
    sampled = kept.log_softmax(-1).gather(-1, ids).squeeze(-1)
    mask = torch.ones(2, 6, dtype=torch.bool, device=DEVICE)
    seen = CORRECTIONS[name](sampled.clone().requires_grad_(), sampled, mask)
    assert (seen.weights == 1).all()
    assert seen.keep_mask.all()
    assert effective_sample_size(seen.partials) == 12
    assert not seen.weights.requires_grad
    untruncated = logits.log_softmax(-1).gather(-1, ids).squeeze(-1)
    assert not (CORRECTIONS["tis"](untruncated, sampled, mask).weights == 1).any()  # forgetting top-p shows


def test_stale_data_never_has_mean_ratio_one() -> None:
    behaviour, proximal, _, _, mask = a_batch()
    for level in LEVELS:
        seen = mismatch_correction(proximal, behaviour, mask, level=level, action="truncate", ratio_max=math.inf)
        assert abs(seen.partials[f"{level}_ratio"].mean().item() - 1) > 1e-3


def test_effective_sample_size_adds_over_micro_batches() -> None:
    """Weights 2, 1, 1 and 0.5: (4.5)^2 / 6.25 = 3.24, however they are split."""
    whole = of([[2.0, 1.0, 1.0, 0.5]], level="token", action="truncate", ratio_max=8.0)
    parts = [of([r], level="token", action="truncate", ratio_max=8.0) for r in ([2.0], [1.0, 1.0, 0.5])]
    added = {name: parts[0].partials[name] + parts[1].partials[name] for name in whole.partials}
    close([effective_sample_size(p).item() for p in (whole.partials, added)], [3.24, 3.24])


def test_partials_of_something_else_have_no_effective_sample_size() -> None:
    named = "partials must be those of a correction, with weight, squared_weight, got none named squared_weight"
    with pytest.raises(errors.ArgumentError, match=named):
        effective_sample_size({"weight": losses.Partial(torch.ones(()), torch.ones(()))})


def test_chi_square_by_enumeration() -> None:
    """Weighted by the behaviour policy over all tokens it is sum p^2 / q - 1: for p (3/4, 1/4) and q (1/2, 1/2) 1/4."""
    seen = of([[1.5, 0.5]], level="token", action="truncate", ratio_max=1.0)
    close(seen.partials["token_chi_square"].mean(), 0.25)
