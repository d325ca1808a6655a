"""Shared by the tests of the policy losses: the device, all objectives under one call, and one batch laid out in different ways."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import oracles_objective as oracles
import pytest
import torch
from torch import Tensor

from rosellm.roserlhf import checks, losses
from rosellm.roserlhf.masked import Partial

DEVICE = torch.device(os.environ.get("ROSERLHF_TEST_DEVICE", "cpu"))
LOW, HIGH = 0.2, 0.3
HORIZON = 8.0
BETA = 0.2
CAP = 1.2
AGGREGATIONS = ("token", "sequence_mean", "sequence_sum", "rollout", "horizon")


def tensor(data: Any, *, grad: bool = False, dtype: torch.dtype = torch.float64) -> Tensor:
    """A leaf on the test device; bool and int data keep their type."""
    if not torch.tensor(data).is_floating_point():
        return torch.tensor(data, device=DEVICE)
    return torch.tensor(data, device=DEVICE, dtype=dtype, requires_grad=grad)


def logs(ratios: list[Any]) -> Tensor:
    """Current log-probabilities whose ratio to 0 is exactly what is given: rounding is steered until `exp` hits it."""
    wanted = tensor(ratios)
    found = wanted.log()
    for step in range(-4, 5):
        moved = wanted.log() * (1 + step * 2.0**-52)
        found = torch.where(moved.exp() == wanted, moved, found)
    return found.requires_grad_()


def gradient(loss: Tensor, at: Tensor) -> list[Any]:
    return list(torch.autograd.grad(loss, at)[0].tolist())


def counted(partial: Partial) -> tuple[float, float]:
    return partial.sum.item(), partial.count.item()


def close(seen: Any, wanted: Any) -> None:
    torch.testing.assert_close(
        torch.as_tensor(seen, dtype=torch.float64).cpu(), torch.tensor(wanted, dtype=torch.float64), rtol=1e-9, atol=1e-12
    )


@contextlib.contextmanager
def raises(error: type[Exception], match: str) -> Iterator[None]:
    """`pytest.raises` for value checks: on an accelerator they are raised when the deferred flags are read."""
    with pytest.raises(error, match=match):
        yield
        checks.raise_deferred()


class Sequence(NamedTuple):
    """One response: token lists of one length, one advantage of the whole, the rollout it belongs to."""

    current: list[float]
    old: list[float]
    advantages: list[float]
    mask: list[int]
    credit: float
    rollout: int


class Batch(NamedTuple):
    """Sequences laid out as tensors; `places[i][t]` is the flat position of token t of sequence i."""

    current: Tensor
    old: Tensor
    advantages: Tensor
    mask: Tensor
    sequence_advantages: Tensor
    sequence_ids: Tensor | None
    rollout_ids: Tensor
    places: list[list[int]]
    cu_seqlens: Tensor | None = None
    position_ids: Tensor | None = None


class Objective(NamedTuple):
    """A policy loss with all but its batch filled in, and its oracle."""

    run: Callable[..., Any]
    oracle: Callable[[list[Sequence]], oracles.Tokens]


def _columns(sequences: list[Sequence]) -> tuple[list[list[float]], list[list[float]], list[list[float]], list[list[int]]]:
    return (
        [s.current for s in sequences],
        [s.old for s in sequences],
        [s.advantages for s in sequences],
        [s.mask for s in sequences],
    )


def _reinforce(sequences: list[Sequence]) -> oracles.Tokens:
    current, _, advantages, mask = _columns(sequences)
    return oracles.reinforce(current, advantages, mask)


def _gspo(sequences: list[Sequence]) -> oracles.Tokens:
    current, old, _, mask = _columns(sequences)
    return oracles.gspo(current, old, [s.credit for s in sequences], mask, LOW, HIGH)


def _reference(old: list[list[float]]) -> list[list[float]]:
    return [[0.8 * value - 0.1 for value in row] for row in old]


def _grpo(sequences: list[Sequence]) -> oracles.Tokens:
    current, old, advantages, mask = _columns(sequences)
    surrogate = oracles.clipped(current, old, advantages, mask, LOW, HIGH)
    return oracles.less_divergence(surrogate, current, _reference(old), mask, BETA, gradient="k2")


def _decoupled(sequences: list[Sequence], truncate: bool) -> oracles.Tokens:
    current, proximal, advantages, mask = _columns(sequences)
    behaviour = [[1.3 * value for value in row] for row in proximal]
    return oracles.decoupled(current, proximal, behaviour, advantages, mask, LOW, HIGH, CAP, truncate)


OBJECTIVES: dict[str, Objective] = {
    "reinforce": Objective(
        lambda b, **how: losses.reinforce_policy_loss(b.current, b.advantages, b.mask, old_logprobs=b.old, **how), _reinforce
    ),
    "clipped": Objective(
        lambda b, **how: losses.clipped_policy_loss(b.current, b.old, b.advantages, b.mask, clip_low=LOW, clip_high=HIGH, **how),
        lambda s: oracles.clipped(*_columns(s), LOW, HIGH),
    ),
    "dual_clipped": Objective(
        lambda b, **how: losses.clipped_policy_loss(
            b.current, b.old, b.advantages, b.mask, clip_low=LOW, clip_high=HIGH, dual_clip=1.5, **how
        ),
        lambda s: oracles.dual_clipped(*_columns(s), LOW, HIGH, 1.5),
    ),
    "grpo": Objective(
        lambda b, **how: losses.clipped_policy_loss(
            b.current,
            b.old,
            b.advantages,
            b.mask,
            clip_low=LOW,
            clip_high=HIGH,
            reference_logprobs=0.8 * b.old - 0.1,
            kl_coefficient=BETA,
            kl_estimator="k3_k2_gradient",
            **how,
        ),
        _grpo,
    ),
    "decoupled": Objective(
        lambda b, **how: losses.decoupled_policy_loss(
            b.current, b.old, 1.3 * b.old, b.advantages, b.mask, clip_low=LOW, clip_high=HIGH, behaviour_cap=CAP, **how
        ),
        lambda s: _decoupled(s, truncate=False),
    ),
    "decoupled_truncated": Objective(
        lambda b, **how: losses.decoupled_policy_loss(
            b.current,
            b.old,
            1.3 * b.old,
            b.advantages,
            b.mask,
            clip_low=LOW,
            clip_high=HIGH,
            behaviour_cap=CAP,
            cap="truncate",
            **how,
        ),
        lambda s: _decoupled(s, truncate=True),
    ),
    "cispo": Objective(
        lambda b, **how: losses.cispo_policy_loss(b.current, b.old, b.advantages, b.mask, ratio_max=1.3, ratio_min=0.5, **how),
        lambda s: oracles.cispo(*_columns(s), 0.5, 1.3),
    ),
    "total_variation": Objective(
        lambda b, **how: losses.total_variation_policy_loss(b.current, b.old, b.advantages, b.mask, **how),
        lambda s: oracles.total_variation(*_columns(s), 0.2, 0.2),
    ),
    "total_variation_capped": Objective(
        lambda b, **how: losses.total_variation_policy_loss(
            b.current,
            b.old,
            b.advantages,
            b.mask,
            max_increase=0.02,
            max_decrease=0.5,
            ratio_max=1.4,
            square_coefficient=0.1,
            **how,
        ),
        lambda s: oracles.total_variation(*_columns(s), 0.02, 0.5, 1.4, 0.1),
    ),
    "sapo": Objective(
        lambda b, **how: losses.sapo_policy_loss(b.current, b.old, b.advantages, b.mask, tau_negative=2.0, **how),
        lambda s: oracles.sapo(*_columns(s), 1.0, 2.0),
    ),
    "sao": Objective(
        lambda b, **how: losses.sao_policy_loss(b.current, b.old, b.advantages, b.mask, clip_low=LOW, clip_high=HIGH, **how),
        lambda s: oracles.sao(*_columns(s), LOW, HIGH),
    ),
    "sao_attached": Objective(
        lambda b, **how: losses.sao_policy_loss(
            b.current, b.old, b.advantages, b.mask, clip_low=LOW, clip_high=HIGH, detach_ratio=False, **how
        ),
        lambda s: oracles.sao(*_columns(s), LOW, HIGH, detach_ratio=False),
    ),
    "gspo": Objective(
        lambda b, **how: losses.gspo_policy_loss(
            b.current, b.old, b.sequence_advantages, b.mask, clip_low=LOW, clip_high=HIGH, **how
        ),
        _gspo,
    ),
    "gspo_token": Objective(
        lambda b, **how: losses.gspo_token_policy_loss(b.current, b.old, b.advantages, b.mask, clip_low=LOW, clip_high=HIGH, **how),
        lambda s: oracles.gspo_token(*_columns(s), LOW, HIGH),
    ),
    "value": Objective(
        lambda b, **how: losses.value_loss(b.current, b.advantages, b.mask, **how),
        lambda s: oracles.value([one.current for one in s], [one.advantages for one in s], [one.mask for one in s]),
    ),
    "value_clipped": Objective(
        lambda b, **how: losses.value_loss(b.current, b.advantages, b.mask, old_values=b.old, clip=0.3, **how),
        lambda s: oracles.value(
            [one.current for one in s], [one.advantages for one in s], [one.mask for one in s], [one.old for one in s], 0.3
        ),
    ),
}
"""Every loss of a policy or critic under one call; the columns of a batch stand for whatever the loss reads in their place."""


def a_batch() -> list[Sequence]:
    """Ragged responses with a tool result inside, ratios on both sides of the bounds, a fully masked one, two in one rollout."""
    return [
        Sequence([-0.9, -1.3, -0.4], [-1.0, -0.5, -0.4], [1.0, 1.0, -2.0], [1, 1, 1], 1.0, 7),
        Sequence(
            [-0.2, -2.0, -0.1, -1.5, -0.7], [-0.7, -1.0, -9.0, -1.4, -0.6], [0.5, -1.0, 99.0, 2.0, 0.0], [1, 1, 0, 1, 1], -0.5, 3
        ),
        Sequence([-0.3, -0.8], [-0.5, -0.2], [3.0, 3.0], [0, 0], 5.0, 9),
        Sequence([-1.1], [-1.6], [-1.5], [1], -1.5, 7),
        Sequence([-0.6, -0.6, -0.6, -0.6], [-0.7, -0.5, -0.65, -1.2], [0.7, 0.7, 0.7, 0.7], [1, 1, 1, 1], 0.7, 4),
    ]


def how_to(aggregation: str, batch: Batch) -> dict[str, Any]:
    """The aggregation arguments that a batch needs."""
    how: dict[str, Any] = {
        "aggregation": aggregation,
        "sequence_ids": batch.sequence_ids,
        "cu_seqlens": batch.cu_seqlens,
        "position_ids": batch.position_ids,
    }
    if aggregation == "rollout":
        how["rollout_ids"] = batch.rollout_ids
    if aggregation == "horizon":
        how["horizon"] = HORIZON
    return how


def padded(sequences: list[Sequence], *, left: int = 0, right: int = 0, filler: float = 0.0) -> Batch:
    """One row per sequence, padded to the longest plus `left` and `right` columns."""
    width = left + max(len(s.mask) for s in sequences) + right
    places = [[i * width + left + t for t in range(len(s.mask))] for i, s in enumerate(sequences)]
    return _batch(sequences, places, (len(sequences), width), filler, packed=False)


def spread_out(sequences: list[Sequence], filler: float = 0.0) -> Batch:
    """One row per sequence with a masked column after every token."""
    width = 2 * max(len(s.mask) for s in sequences)
    places = [[i * width + 2 * t for t in range(len(s.mask))] for i, s in enumerate(sequences)]
    return _batch(sequences, places, (len(sequences), width), filler, packed=False)


def packed(sequences: list[Sequence], *, rows: int = 1, flat: bool = False, filler: float = 0.0) -> Batch:
    """Sequences end to end in `rows` rows with padding behind, told apart by ids; `flat` drops the row dimension."""
    shares = [list(range(row, len(sequences), rows)) for row in range(rows)]
    width = max(sum(len(sequences[i].mask) for i in share) for share in shares) + 2
    places: list[list[int]] = [[] for _ in sequences]
    for row, share in enumerate(shares):
        at = row * width
        for i in share:
            places[i] = list(range(at, at + len(sequences[i].mask)))
            at += len(sequences[i].mask)
    return _batch(sequences, places, (rows * width,) if flat else (rows, width), filler, packed=True)


def by_boundaries(sequences: list[Sequence], filler: float = 0.0) -> Batch:
    """Sequences end to end in one row and nothing else, told apart by their boundaries."""
    ends = [0]
    for sequence in sequences:
        ends.append(ends[-1] + len(sequence.mask))
    places = [list(range(start, end)) for start, end in itertools.pairwise(ends)]
    batch = _batch(sequences, places, (1, ends[-1]), filler, packed=False)
    return batch._replace(cu_seqlens=tensor(ends).int())


def by_positions(sequences: list[Sequence], filler: float = 0.0) -> Batch:
    """Sequences end to end in one row with padding behind, told apart by positions that start anew."""
    batch = packed(sequences, filler=filler)
    positions = torch.ones_like(batch.mask)
    for own in batch.places:
        positions.view(-1)[own] = torch.arange(len(own), device=DEVICE)
    return batch._replace(sequence_ids=None, position_ids=positions)


def _batch(sequences: list[Sequence], places: list[list[int]], shape: tuple[int, ...], filler: float, *, packed: bool) -> Batch:
    def laid_out(column: Callable[[Sequence], list[float]], grad: bool = False) -> Tensor:
        flat = [filler] * math.prod(shape)
        for sequence, own in zip(sequences, places, strict=True):
            for place, value in zip(own, column(sequence), strict=True):
                flat[place] = value
        return tensor(flat).view(shape).clone().requires_grad_(grad)

    def labels(of: Callable[[int], int]) -> Tensor:
        flat = [-1] * math.prod(shape)
        for i, own in enumerate(places):
            for place in own:
                flat[place] = of(i)
        return tensor(flat).view(shape)

    mask = [0] * math.prod(shape)
    for sequence, own in zip(sequences, places, strict=True):
        for place, on in zip(own, sequence.mask, strict=True):
            mask[place] = on
    return Batch(
        current=laid_out(lambda s: s.current, grad=True),
        old=laid_out(lambda s: s.old),
        advantages=laid_out(lambda s: s.advantages),
        mask=tensor(mask).view(shape),
        sequence_advantages=tensor([s.credit for s in sequences]),
        sequence_ids=labels(lambda i: i) if packed else None,
        rollout_ids=labels(lambda i: sequences[i].rollout),
        places=places,
    )


def gradient_of(batch: Batch) -> list[list[float]]:
    """The gradient of the current log-probabilities, per sequence and token."""
    assert batch.current.grad is not None
    flat = batch.current.grad.flatten().tolist()
    return [[flat[place] for place in own] for own in batch.places]
