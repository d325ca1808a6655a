"""Kept supports in flat form, and `gather_token_logprobs` under temperature, support, scale and soft-cap."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from cases_objective import DEVICE, close, raises, tensor
from torch import Tensor

from rosellm.roserlhf.errors import DtypeError, RangeError, ShapeError
from rosellm.roserlhf.losses import KeptSupport, clipped_policy_loss, gather_token_logprobs, selected_logprobs
from rosellm.roserlhf.objective.support import outside

GATHER: Any = gather_token_logprobs


def test_a_support_renormalises_over_what_was_kept() -> None:
    # probabilities 1/8, 3/8, 4/8; kept {1, 2}: 3/7 and 4/7; nothing listed: the whole vocabulary
    logits = tensor([[1.0, 3.0, 4.0]] * 3).log()
    found = gather_token_logprobs(logits, tensor([1, 2, 0]), support=KeptSupport.of([[2, 1], (1, 2), None], device=DEVICE))
    close(found.exp(), [3 / 7, 4 / 7, 1 / 8])


def test_a_token_that_was_left_out_gets_no_gradient() -> None:
    logits = tensor([[0.1, 0.2, 0.3]], grad=True)
    found = gather_token_logprobs(logits, tensor([0]), support=KeptSupport.of([[0, 2]], device=DEVICE))
    (gradient,) = torch.autograd.grad(found.sum(), logits)
    p = 1 / (1 + math.exp(0.2))  # of id 0 among {0, 2}
    close(gradient, [[1 - p, 0.0, -(1 - p)]])


def test_flat_form_and_selection() -> None:
    support = KeptSupport.of([[4, 2], None, [], [7], [1, 0, 3]], device=DEVICE)
    assert support.ids.tolist() == [4, 2, 7, 1, 0, 3]
    assert support.offsets.tolist() == [0, 2, 2, 2, 3, 6]
    assert support.positions().tolist() == [0, 0, 3, 4, 4, 4]
    some = support.select(tensor([1, 3, 4]))
    assert some.ids.tolist() == [7, 1, 0, 3]
    assert some.offsets.tolist() == [0, 0, 1, 4]
    assert support.select(torch.zeros(0, dtype=torch.int64, device=DEVICE)).offsets.tolist() == [0]
    assert KeptSupport.of([]).offsets.tolist() == [0]


def test_a_block_of_the_vocabulary_sees_its_own_ids_only() -> None:
    support = KeptSupport.of([[4, 2], None, [7]], device=DEVICE)
    assert outside(support, 2, 3).tolist() == [[False, True, False], [False] * 3, [True] * 3]  # ids 2, 3, 4
    assert outside(support, 5, 3).tolist() == [[True] * 3, [False] * 3, [True, True, False]]  # ids 5, 6, 7


def test_raw_logits_take_scale_then_softcap_then_temperature() -> None:
    logits = tensor([[1.0, 0.0]])
    z = 2 * math.tanh(3.0 * 1.0 / 2) / 0.5
    found = gather_token_logprobs(logits, tensor([0]), scale=3.0, softcap=2.0, temperature=0.5)
    close(found, [-math.log1p(math.exp(-z))])


def test_defaults_are_log_softmax_bit_for_bit() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4, 5, 33, generator=generator)
    ids = torch.randint(0, 33, (4, 5), generator=generator)
    assert torch.equal(gather_token_logprobs(logits, ids), logits.log_softmax(-1).gather(-1, ids[..., None]).squeeze(-1))
    tempered = (logits / 0.7).log_softmax(-1).gather(-1, ids[..., None]).squeeze(-1)
    assert torch.equal(gather_token_logprobs(logits, ids, temperature=0.7), tempered)


def test_R15_half_precision_logits_are_divided_by_the_temperature_in_float32() -> None:
    logits = (3 * torch.randn(8, 3200, generator=torch.Generator().manual_seed(0))).bfloat16()
    ids = torch.arange(8)
    reference = (logits.double() / 0.7).log_softmax(-1)[ids, ids]
    assert (gather_token_logprobs(logits, ids, temperature=0.7).double() - reference).abs().max() < 1e-4


def nucleus(probabilities: Tensor, mass: float) -> list[int]:
    """The smallest set of most probable ids that holds `mass`."""
    order = probabilities.argsort(descending=True)
    count = int((probabilities[order].cumsum(0) < mass).sum()) + 1
    return sorted(order[:count].tolist())


@pytest.mark.parametrize("way", ["logits", "hidden"])
@pytest.mark.parametrize(("temperature", "mass"), [(1.0, 0.9), (0.6, 0.8), (1.3, 0.95), (0.6, 1.0)])
def test_R11_behaviour_equal_to_target_is_ratio_1_at_any_temperature_and_top_p(way: str, temperature: float, mass: float) -> None:
    generator = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(40, 8, generator=generator), torch.randn(50, 8, generator=generator)
    kept, ids, behaviour = [], [], []
    for row in (hidden.double() @ weight.double().t() / temperature).softmax(
        -1
    ):  # the engine: temper, truncate, renormalise, sample
        names = nucleus(row, mass)
        renormalised = row[names] / row[names].sum()
        pick = int(torch.multinomial(renormalised, 1, generator=generator))
        kept.append(names)
        ids.append(names[pick])
        behaviour.append(renormalised[pick].log())
    targets, support = torch.tensor(ids), KeptSupport.of(kept)
    if way == "logits":
        current = gather_token_logprobs(hidden @ weight.t(), targets, temperature=temperature, support=support)
    else:
        current = selected_logprobs(hidden, weight, targets, temperature=temperature, support=support)
    old = torch.stack(behaviour).float()
    assert (current - old).abs().max() < 1e-5
    out = clipped_policy_loss(current, old, torch.ones(40), torch.ones(40, dtype=torch.bool))
    assert out.mean_ratio == pytest.approx(1.0, abs=1e-5)
    full = gather_token_logprobs(hidden @ weight.t(), targets, temperature=temperature)
    assert mass == 1.0 or (full - old).exp().mean() < 0.99  # the whole vocabulary is another policy: every ratio is too low


def support_of(ids: list[int], offsets: list[int]) -> tuple[Tensor, Tensor]:
    return torch.tensor(ids, device=DEVICE), torch.tensor(offsets, device=DEVICE)


@pytest.mark.parametrize(
    ("error", "message", "support"),
    [
        (RangeError, r"target_ids must be in their support, got the value 1 at \[1\]; .*align", support_of([0, 0, 2], [0, 1, 3])),
        (
            RangeError,
            r"support offsets must rise from 0 to the number of ids",
            support_of([0, 1], [0, 1, 3]),
        ),
        (RangeError, "support offsets must rise from 0", support_of([0, 1], [0, 3, 2])),
        (RangeError, "support offsets must rise from 0", support_of([0, 1], [1, 1, 2])),
        (RangeError, r"support ids must be in \[0, 3\), got the value 3 at \[1\]", support_of([0, 3], [0, 1, 2])),
        (ShapeError, "support offsets must hold one number more than target_ids has positions, 3, got 2", support_of([0], [0, 1])),
        (DtypeError, r"support must be a pair of tensors \(ids, offsets\), got list", [[0], [1]]),
        (
            DtypeError,
            "support ids must be an integer tensor",
            (torch.ones(1, device=DEVICE), torch.tensor([0, 1, 1], device=DEVICE)),
        ),
        (ShapeError, r"support ids must be a vector, got shape \(1, 1\)", support_of([[0]], [0, 1, 1])),  # type: ignore[list-item]
    ],
)
def test_a_support_that_does_not_fit_is_an_error(error: type[Exception], message: str, support: Any) -> None:
    with raises(error, match=message):
        GATHER(tensor([[0.0, 0.0, 0.0]] * 2), tensor([0, 1]), support=support)


@pytest.mark.parametrize("option", ["temperature", "scale", "softcap"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_options_are_positive_and_finite(option: str, value: float) -> None:
    with pytest.raises(RangeError, match=rf"{option} must be in \(0, inf\)"):
        GATHER(tensor([[0.0, 0.0]]), tensor([0]), **{option: value})
