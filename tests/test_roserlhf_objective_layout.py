"""The four ways to say which tokens are one sequence agree, and each refuses what it cannot mean."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rosellm.roserlhf.errors import ArgumentError, DtypeError, RangeError, ShapeError
from rosellm.roserlhf.losses import (
    aggregate,
    clipped_policy_loss,
    gspo_policy_loss,
    gspo_token_policy_loss,
    sao_policy_loss,
    step_denominator,
)

AGGREGATIONS = ("token", "sequence_mean", "sequence_sum", "horizon")


def layouts(lengths: list[int]) -> dict[str, Any]:
    """The same packing said in every way."""
    ids = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    boundaries = torch.tensor([0, *lengths]).cumsum(0)
    positions = torch.cat([torch.arange(n) for n in lengths])
    return {
        "labels": {"sequence_ids": 5 * ids + 3},
        "indices": {"sequence_ids": ids, "num_sequences": len(lengths)},
        "boundaries": {"cu_seqlens": boundaries.int()},
        "boundaries and number": {"cu_seqlens": boundaries, "num_sequences": len(lengths)},
        "positions": {"position_ids": positions},
        "positions and number": {"position_ids": positions, "num_sequences": len(lengths)},
    }


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 2**16), st.sampled_from(AGGREGATIONS))
def test_every_way_of_packing_gives_the_padded_loss(lengths: list[int], seed: int, aggregation: Any) -> None:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(sum(lengths), generator=generator) < 0.7
    mask[0] = True
    values = torch.randn(sum(lengths), generator=generator, dtype=torch.float64)
    width = max(lengths)
    horizon: Any = {"horizon": 8.0} if aggregation == "horizon" else {}

    def padded(flat: Tensor) -> Tensor:
        rows = [torch.nn.functional.pad(part, (0, width - len(part))) for part in flat.split(lengths)]
        return torch.stack(rows)

    expected = aggregate(padded(values), padded(mask), aggregation=aggregation, **horizon)
    for name, layout in layouts(lengths).items():
        found = aggregate(values, mask, aggregation=aggregation, **horizon, **layout)
        assert torch.allclose(found, expected, atol=1e-12), name
        one_row: Any = {key: value[None] if key in ("sequence_ids", "position_ids") else value for key, value in layout.items()}
        assert torch.allclose(aggregate(values[None], mask[None], aggregation=aggregation, **horizon, **one_row), expected), name
        given_ids: Any = {key: [value] for key, value in layout.items() if key != "num_sequences"}
        assert step_denominator([mask], aggregation, **given_ids) == step_denominator([padded(mask)], aggregation), name


def test_one_advantage_per_packed_sequence() -> None:
    # sequences [a, b], [c]: credit 2 and -3 means token credit [2, 2, -3]; at ratio 1 the token losses are -2, -2, 3
    zeros, ones, credit = torch.zeros(3), torch.ones(3), torch.tensor([2.0, -3.0])
    cu_seqlens = torch.tensor([0, 2, 3])
    out = clipped_policy_loss(zeros, zeros, credit, ones, cu_seqlens=cu_seqlens)
    assert out.token_loss.tolist() == [-2.0, -2.0, 3.0]
    for layout in list(layouts([2, 1]).values())[1:]:  # labels name no place in the advantages
        gspo = gspo_policy_loss(zeros, zeros, credit, ones, clip_low=0.2, clip_high=0.2, **layout)
        assert gspo.token_loss.tolist() == [-2.0, -2.0, 3.0]
        assert gspo.loss == 0.5  # (-2 + 3) / 2, with the sign of a loss
        if "num_sequences" in layout or "cu_seqlens" in layout:
            token = gspo_token_policy_loss(zeros, zeros, credit, ones, clip_low=0.2, clip_high=0.2, **layout)
            assert token.loss == 0.5
            assert token.sequence_ratios.tolist() == [1.0, 1.0]


def test_an_empty_sequence_between_two_is_no_sequence() -> None:
    values, mask, cu_seqlens = torch.tensor([1.0, 3.0, 8.0]), torch.ones(3), torch.tensor([0, 2, 2, 3])
    assert aggregate(values, mask, aggregation="sequence_mean", cu_seqlens=cu_seqlens) == 5.0
    assert aggregate(values, mask, aggregation="horizon", horizon=1.0, cu_seqlens=cu_seqlens) == 6.0


def test_positions_of_a_shard_that_begins_inside_a_sequence() -> None:
    values, positions = torch.tensor([[4.0, 6.0, 1.0]]), torch.tensor([[7, 8, 0]])
    assert aggregate(values, torch.ones(1, 3), aggregation="sequence_mean", position_ids=positions) == 3.0


def test_positions_of_left_padding_are_not_read() -> None:
    values, positions = torch.tensor([[9.0, 4.0, 6.0]]), torch.tensor([[1, 0, 1]])
    mask = torch.tensor([[False, True, True]])
    assert aggregate(values, mask, aggregation="sequence_mean", position_ids=positions) == 5.0


IDS, CUTS, PLACES = torch.tensor([[0, 0, 1]]), torch.tensor([0, 2, 3]), torch.tensor([[0, 1, 0]])
WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"sequnce_ids": IDS}, ArgumentError, "sequnce_ids must be one of the keyword arguments .*; did you mean sequence_ids"),
    ({"sequence_ids": IDS, "cu_seqlens": CUTS}, RangeError, "cu_seqlens must not be given together with sequence_ids"),
    ({"num_sequences": 2}, RangeError, "num_sequences must be given only with sequence_ids, cu_seqlens or position_ids"),
    ({"sequence_ids": IDS, "num_sequences": 2.0}, DtypeError, "num_sequences must be a whole number of at least 0, got 2.0"),
    ({"sequence_ids": IDS, "num_sequences": 1}, RangeError, r"sequence_ids must be in \[0, 1\) wherever its mask is true"),
    ({"cu_seqlens": CUTS, "num_sequences": 3}, RangeError, r"num_sequences must be the number of sequences in cu_seqlens \(2\)"),
    (
        {"position_ids": PLACES, "num_sequences": 1},
        RangeError,
        r"position_ids must start at most num_sequences=1 sequences, got the value 0 at \[0, 2\]",
    ),
    (
        {"cu_seqlens": torch.tensor([0, 2])},
        RangeError,
        r"cu_seqlens must rise from 0 to the number of tokens \(3\), got the value 2",
    ),
    ({"cu_seqlens": torch.tensor([1, 3])}, RangeError, "got the value 1 at"),
    ({"cu_seqlens": torch.tensor([0, 2, 1, 3])}, RangeError, "got the value 1 at"),
    ({"cu_seqlens": torch.tensor([0])}, ShapeError, r"cu_seqlens must have shape \[S \+ 1\]"),
    ({"cu_seqlens": torch.tensor([0.0, 3.0])}, DtypeError, "cu_seqlens must be an integer tensor"),
    ({"position_ids": torch.tensor([[0, 2, 0]])}, RangeError, "position_ids must count up inside a sequence and start at 0"),
    ({"position_ids": torch.tensor([[-1, 0, 1]])}, RangeError, "position_ids must count up"),
    ({"position_ids": torch.tensor([0, 1, 0])}, ShapeError, "position_ids must have the shape of action_mask"),
]


@pytest.mark.parametrize(("layout", "error", "message"), WRONG)
def test_what_cannot_be_meant_is_refused(layout: Any, error: type[Exception], message: str) -> None:
    tokens, ones = torch.zeros(1, 3), torch.ones(1, 3)
    with pytest.raises(error, match=message):
        aggregate(tokens, ones, aggregation="sequence_mean", **layout)
    with pytest.raises(error, match=message):
        sao_policy_loss(tokens, tokens, tokens, ones, clip_low=0.2, clip_high=0.2, **layout)


def test_boundaries_are_for_packed_tokens() -> None:
    with pytest.raises(ShapeError, match=r"cu_seqlens must be given only for packed tokens \[N\] or \[1, N\], got tokens \(2, 3\)"):
        aggregate(torch.zeros(2, 3), torch.ones(2, 3), aggregation="token", cu_seqlens=CUTS)


def test_layouts_compile_without_a_graph_break() -> None:
    def loss(current: Tensor, cuts: Tensor) -> Tensor:
        out = gspo_token_policy_loss(
            current, torch.zeros(6), torch.ones(6), torch.ones(6), clip_low=0.2, clip_high=0.2, cu_seqlens=cuts
        )
        return out.loss

    current, cuts = torch.linspace(-0.1, 0.1, 6), torch.tensor([0, 4, 6])
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    assert torch.equal(compiled(current, cuts), loss(current, cuts))
