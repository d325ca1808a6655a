"""Field reports about objectives, aggregation and evidence: each fault that others met, with its minimal input."""

from __future__ import annotations

import math

import pytest
import torch
from cases_objective import DEVICE, close, counted, gradient, raises, tensor
from torch import Tensor

from rosellm.roserlhf.errors import MaskError
from rosellm.roserlhf.losses import clipped_policy_loss, gather_token_logprobs, step_denominator
from rosellm.roserlhf.metrics import merge


def test_R01_mask_drops_its_first_entry_with_the_first_target() -> None:
    # tokens [p0, p1, p2, r0, r1]; the row of p2 predicts r0, the row of r0 predicts r1
    tokens, token_mask = tensor([[0, 1, 2, 3, 4]]), tensor([[0, 0, 0, 1, 1]])
    mask = token_mask[:, 1:]
    assert mask.tolist() == [[0, 0, 1, 1]]
    logits = tensor(torch.linspace(-1, 1, 30).reshape(1, 5, 6).tolist(), grad=True)
    current = gather_token_logprobs(logits[:, :-1], tokens[:, 1:])
    out = clipped_policy_loss(current, current.detach(), torch.ones_like(current), mask)
    touched = torch.autograd.grad(out.loss, logits)[0].abs().sum(-1).gt(0)
    assert touched.tolist() == [[False, False, True, True, False]]
    assert out.partials["clip_fraction"].count == 2


def test_R11_temperature_belongs_to_both_sides_of_the_ratio() -> None:
    logits, temperature = tensor([[0.0, math.log(3.0)]]), 0.5
    behaviour = math.log(0.9)  # 3^2 / (1 + 3^2): what an engine sampling at T = 0.5 reports
    current = gather_token_logprobs(logits / temperature, tensor([1]))
    close(current, [behaviour])
    close(clipped_policy_loss(current, tensor([behaviour]), tensor([1.0]), tensor([1])).mean_ratio, 1.0)


def test_R15_bfloat16_logits_are_computed_in_float32() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn(8, 32000, generator=generator)).bfloat16()
    ids = torch.randint(0, 32000, (8,), generator=generator)
    seen = gather_token_logprobs(logits.to(DEVICE), ids.to(DEVICE))
    reference = logits.double().log_softmax(-1).gather(-1, ids[:, None]).squeeze(-1)
    assert seen.dtype == torch.float32
    assert (seen.cpu().double() - reference).abs().max() < 1e-4
    again = gather_token_logprobs(logits.to(DEVICE), ids.to(DEVICE))
    assert (again - seen).exp().eq(1).all()


def test_R02_an_eos_that_equals_the_pad_id_is_trained() -> None:
    # replies [5, 6, 2] and [5, 6, 7, 8, 2], padded with 2: the mask comes from lengths, never from ids
    tokens = tensor([[5, 6, 2, 2, 2], [5, 6, 7, 8, 2]])
    mask = torch.arange(5, device=DEVICE) < tensor([3, 5])[:, None]
    assert mask.long().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    logits = tensor([[[0.0] * 9] * 5] * 2, grad=True)
    current = gather_token_logprobs(logits, tokens)
    out = clipped_policy_loss(current, current.detach() - 0.1, torch.ones_like(current), mask)
    touched = torch.autograd.grad(out.loss, logits)[0].abs().sum(-1).gt(0)
    assert touched.tolist() == mask.tolist()
    assert out.partials["approximate_kl"].count == 8


def test_R03_a_tool_result_inside_the_response_is_not_trained() -> None:
    mask, old = tensor([[1, 1, 0, 0, 1, 1]]), tensor([[-1.0] * 6])
    outputs = []
    for rubbish in (0.0, 1e30, math.nan):
        current = tensor([[-1.0, -1.0, rubbish, rubbish, -1.0, -1.0]], grad=True)
        out = clipped_policy_loss(current, old, tensor([[1.0, 1.0, rubbish, rubbish, 1.0, 1.0]]), mask)
        assert gradient(out.loss, current) == [[-0.25, -0.25, 0.0, 0.0, -0.25, -0.25]]  # denominator 4
        outputs.append([out.loss.item(), out.objective.item(), *(p.sum.item() for p in out.partials.values())])
    assert outputs[0] == outputs[1] == outputs[2]


def test_R04_another_tensor_in_place_of_the_mask_is_refused() -> None:
    zeros, advantages = tensor([[0.0] * 3]), tensor([[2.0, -1.0, 0.0]])
    with raises(MaskError, match="action_mask must be boolean or exactly 0/1, got"):
        clipped_policy_loss(zeros, zeros, advantages, advantages)
    close(clipped_policy_loss(zeros, zeros, advantages, tensor([[1, 1, 1]])).loss, -1 / 3)


def token_losses(values: list[float]) -> tuple[Tensor, Tensor]:
    """Log-probabilities at ratio 1 and the advantages that make these token losses."""
    return tensor([[0.0] * len(values)], grad=True), tensor([[-value for value in values]])


@pytest.mark.parametrize("split", [[[4.0], [0.0, 0.0, 0.0]], [[4.0, 0.0, 0.0, 0.0]], [[4.0], [0.0], [0.0], [0.0]]], ids=len)
def test_R23_every_split_gives_the_same_mean(split: list[list[float]]) -> None:
    # sum 4 over 4 tokens = 1; a mean of means gives 2 for the first split, dividing twice gives 1/2
    width = max(map(len, split))
    parts = [token_losses(values + [7.0] * (width - len(values))) for values in split]
    masks = [tensor([[1] * len(values) + [0] * (width - len(values))]) for values in split]
    denominator = step_denominator(masks, "token")
    assert denominator == 4
    total, slopes = 0.0, []
    for (current, advantages), mask in zip(parts, masks, strict=True):
        out = clipped_policy_loss(current, current.detach(), advantages, mask, denominator=denominator)
        total += out.loss.item()
        slopes += torch.autograd.grad(out.loss, current)[0][mask == 1].tolist()
    assert total == 1.0
    assert slopes == [1.0, 0.0, 0.0, 0.0]  # -ratio * A / 4


def test_R26_an_empty_micro_batch_trains_like_its_absence() -> None:
    # A has no live token, B has token losses 1 and 3
    empty, full = token_losses([5.0, 5.0]), token_losses([1.0, 3.0])
    masks = [tensor([[0, 0]]), tensor([[1, 1]])]
    denominator = step_denominator(masks, "token")
    outputs = [
        clipped_policy_loss(current, current.detach(), advantages, mask, denominator=denominator)
        for (current, advantages), mask in zip((empty, full), masks, strict=True)
    ]
    alone = clipped_policy_loss(full[0], full[0].detach(), full[1], masks[1])
    assert sum(out.loss.item() for out in outputs) == alone.loss.item() == 2.0
    assert gradient(outputs[0].loss, empty[0]) == [[0.0, 0.0]]
    assert gradient(outputs[1].loss, full[0]) == gradient(alone.loss, full[0])
    assert merge([out.partials for out in outputs])["empty_batch_fraction"].sum == 1
    with raises(MaskError, match="action_mask must select at least one position, got an empty mask; pass denominator="):
        clipped_policy_loss(empty[0], empty[0].detach(), empty[1], masks[0])


def test_R32_diagnostics_stay_finite_when_policies_drift_apart() -> None:
    for dtype in (torch.float32, torch.float64):
        current = torch.tensor([[-120.0, 0.0]], device=DEVICE, dtype=dtype, requires_grad=True)
        old = torch.tensor([[0.0, -120.0]], device=DEVICE, dtype=dtype)
        out = clipped_policy_loss(current, old, torch.ones_like(old), torch.ones_like(old))
        assert out.approximate_kl.isfinite()
        assert out.approximate_kl >= 0
        assert torch.autograd.grad(out.loss, current)[0].isfinite().all()


@pytest.mark.parametrize(
    ("current", "old", "advantage"),
    [(-1.0, -100.0, 1.0), (math.nan, -1.0, 1.0), (-math.inf, -math.inf, 1.0), (math.inf, 1.0, 1.0), (-1.0, -1.0, math.nan)],
    ids=["overflow", "nan", "both -inf", "inf", "advantage"],
)
def test_R36_a_masked_token_cannot_poison_the_step(current: float, old: float, advantage: float) -> None:
    alone = clipped_policy_loss(tensor([[-1.0]]), tensor([[-1.0]]), tensor([[1.0]]), tensor([[1]]))
    live = tensor([[current, -1.0]], grad=True)
    out = clipped_policy_loss(live, tensor([[old, -1.0]]), tensor([[advantage, 1.0]]), tensor([[0, 1]]))
    assert out.loss == -1.0
    assert gradient(out.loss, live) == [[0.0, -1.0]]
    for name, partial in alone.partials.items():
        assert counted(out.partials[name]) == counted(partial)


def test_R37_overflow_on_a_live_token_is_finite_and_counted() -> None:
    # log-ratio 89 overflows float32; it is clamped to 20
    current = torch.tensor([[-2.0]], device=DEVICE, requires_grad=True)
    old, mask = torch.tensor([[-91.0]], device=DEVICE), tensor([[1]])
    up = clipped_policy_loss(current, old, torch.ones(1, 1, device=DEVICE), mask)
    assert up.loss.item() == pytest.approx(-1.2)
    assert gradient(up.loss, current) == [[0.0]]
    down = clipped_policy_loss(current, old, -torch.ones(1, 1, device=DEVICE), mask)
    assert down.loss.item() == pytest.approx(math.exp(20.0))
    assert gradient(down.loss, current) == [[0.0]]
    for out in (up, down):
        assert out.partials["log_ratio_clamped_fraction"].sum == 1
        assert out.approximate_kl.isfinite()


def test_R38_the_ratio_is_taken_against_the_record() -> None:
    # e^1 = 2.718 is beyond 1.2; a ratio against itself would give -1 with gradient -1
    current = tensor([[-1.0]], grad=True)
    out = clipped_policy_loss(current, tensor([[-2.0]]), tensor([[1.0]]), tensor([[1]]))
    close(out.loss, -1.2)
    assert out.clip_fraction == 1.0
    assert gradient(out.loss, current) == [[0.0]]
    near = tensor([[-1.9]], grad=True)
    out = clipped_policy_loss(near, tensor([[-2.0]]), tensor([[1.0]]), tensor([[1]]))
    close(out.loss, -1.1051709180756477)
    close(gradient(out.loss, near), [[-1.1051709180756477]])


def test_R43_stale_data_show_their_ratio() -> None:
    # recorded by v0: -2; the learner at v2 gives -1
    out = clipped_policy_loss(tensor([[-1.0]]), tensor([[-2.0]]), tensor([[1.0]]), tensor([[1]]), clip_low=0.2)
    close(out.mean_ratio, math.e)
    close(out.loss, -1.2)
    assert out.clip_fraction == 1.0


def test_R76_loss_zero_with_a_gradient_and_without() -> None:
    # rewards [1, 0] standardised: A = [1, -1], equal lengths, ratio 1: the loss is 0, its gradient is not
    current = tensor([[-1.0, -1.0], [-1.0, -1.0]], grad=True)
    out = clipped_policy_loss(current, current.detach(), tensor([1.0, -1.0]), tensor([[1, 1], [1, 1]]))
    assert out.loss == 0.0
    assert gradient(out.loss, current) == [[-0.25, -0.25], [0.25, 0.25]]
    # uniform rewards: A = 0 and there is no signal
    none = clipped_policy_loss(current, current.detach(), tensor([0.0, 0.0]), tensor([[1, 1], [1, 1]]))
    assert gradient(none.loss, current) == [[0.0, 0.0], [0.0, 0.0]]
