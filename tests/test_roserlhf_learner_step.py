"""One optimizer step: exact under any number of workers, true to rounding under any cut, refused when nothing sound can be done."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from loop_models import tiny_model
from loop_rows import largest_difference, parameters_of, same_bits
from torch import Tensor, nn

from rosellm.roserlhf.errors import NonFiniteError
from rosellm.roserlhf.learner.step import Stepper
from rosellm.roserlhf.masked import Partial

OPTIONS: dict[str, Any] = {"learning_rate": 1e-2, "weight_decay": 0.01, "gradient_clip": 1.0}


def losses(model: nn.Module, pieces: Sequence[Tensor], **options: Any) -> tuple[Any, dict[str, Tensor]]:
    """Take one step whose micro-batches are `pieces` of token ids; the loss is a mean over all tokens."""
    total = sum(piece.numel() for piece in pieces)
    stepper: Stepper[Tensor] = Stepper(model, **{**OPTIONS, **options})

    def loss_of(ids: Tensor) -> tuple[Tensor, Mapping[str, Partial]]:
        value = model(ids).logits.logsumexp(-1).sum() / total
        return value, {"tokens": Partial(torch.tensor(float(ids.numel())), torch.tensor(1.0))}

    try:
        report = stepper.step(pieces, loss_of, learning_rate=1e-2)
    finally:
        stepper.close()
    return report, parameters_of(model)


IDS = torch.randint(11, (12, 5), generator=torch.Generator().manual_seed(0))


def test_the_number_of_workers_changes_no_bit() -> None:
    pieces = [IDS[i : i + 2] for i in range(0, 12, 2)]
    (one, first), *others = [losses(tiny_model(), pieces, workers=workers) for workers in (1, 2, 3, 6)]
    for report, parameters in others:
        assert same_bits(parameters, first)
        assert report.gradient_norm == one.gradient_norm


def test_R23_the_cut_into_micro_batches_changes_only_rounding() -> None:
    cuts = [[IDS], list(IDS.split(1)), [IDS[:1], IDS[1:3], IDS[3:]], list(IDS.split(4))]
    (whole, first), *others = [losses(tiny_model(dtype=torch.float64), pieces, workers=2) for pieces in cuts]
    for report, parameters in others:
        assert report.gradient_norm == pytest.approx(whole.gradient_norm, rel=1e-9)
        assert largest_difference(parameters, first) < 1e-9
        assert float(report.partials["tokens"].sum) == 60.0


@pytest.mark.parametrize("clip", [1e-3, 0.5, 1e6])
def test_the_gradient_is_clipped_to_the_global_norm(clip: float, monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = tiny_model(), []

    def note(self: torch.optim.AdamW, closure: None = None) -> None:
        seen.append(math.sqrt(sum(float((p.grad.double() ** 2).sum()) for group in self.param_groups for p in group["params"])))

    monkeypatch.setattr(torch.optim.AdamW, "step", note)
    report, _ = losses(model, [IDS], gradient_clip=clip)
    assert seen == [pytest.approx(min(clip, report.gradient_norm), rel=1e-4)]
    assert report.gradient_norm > 0.5  # reported before clipping


def test_no_micro_batch_means_no_update_and_it_says_so() -> None:
    model = tiny_model()
    before = parameters_of(model)
    report, after = losses(model, [])
    assert (report.skipped, report.gradient_norm, dict(report.partials)) == ("no tokens to train", 0.0, {})
    assert same_bits(after, before)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_R69_a_gradient_that_is_not_finite_is_refused_and_poisons_nothing(bad: float) -> None:
    model, healthy = tiny_model(), tiny_model()
    stepper: Stepper[float] = Stepper(model, **OPTIONS, workers=2)
    reference: Stepper[float] = Stepper(healthy, **OPTIONS, workers=2)

    def loss_with(net: nn.Module) -> Any:
        return lambda factor: (net(IDS).logits.square().mean() * factor, {})

    for factors in ([1.0, 1.0], [1.0, bad], [1.0, 2.0]):
        before = parameters_of(model)
        report = stepper.step(factors, loss_with(model), learning_rate=1e-2)
        if bad in factors or any(math.isnan(f) for f in factors):
            assert report.skipped == "the gradient is not finite"
            assert not math.isfinite(report.gradient_norm)
            assert same_bits(parameters_of(model), before)
        else:
            reference.step(factors, loss_with(healthy), learning_rate=1e-2)
    # as if the bad step had never been: weights and moments
    assert same_bits(parameters_of(model), parameters_of(healthy))
    moments = [v for state in stepper.optimizer.state.values() for v in state.values()]
    assert moments
    assert all(bool(v.isfinite().all()) for v in moments)
    stepper.close()
    reference.close()


def test_a_failing_micro_batch_is_heard_and_changes_nothing() -> None:
    model = tiny_model()
    before = parameters_of(model)
    stepper: Stepper[int] = Stepper(model, **OPTIONS, workers=2)

    def loss_of(number: int) -> tuple[Tensor, Mapping[str, Partial]]:
        if number == 2:
            raise NonFiniteError("advantages must be finite, got nan")
        return model(IDS).logits.square().mean(), {}

    with pytest.raises(NonFiniteError, match="advantages"):
        stepper.step(range(4), loss_of, learning_rate=1e-2)
    assert same_bits(parameters_of(model), before)
    assert not stepper.optimizer.state
    stepper.close()


def test_each_step_has_its_own_learning_rate_and_leaves_no_gradient_behind() -> None:
    model = tiny_model()
    stepper: Stepper[Tensor] = Stepper(model, **{**OPTIONS, "weight_decay": 0.0}, workers=1)
    for rate in (1e-3, 1e-5):
        before = parameters_of(model)
        stepper.step([IDS], lambda ids: (model(ids).logits.square().mean(), {}), learning_rate=rate)
        # the first steps of Adam are as long as the learning rate, whatever the gradient
        assert largest_difference(parameters_of(model), before) == pytest.approx(rate, rel=0.05)
    assert all(parameter.grad is None for parameter in model.parameters())
    stepper.close()
