"""No objective waits for the device, and each compiles to one graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import cases_objective as cases
import pytest
import torch
from cases_objective import AGGREGATIONS, DEVICE, OBJECTIVES, Batch, a_batch, tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.losses import direct_double_sided_mask, gather_token_logprobs, sequence_log_ratio, step_denominator


@pytest.fixture(autouse=True)
def _nothing_deferred() -> Iterator[None]:
    torch.compiler.reset()
    yield
    checks._deferred.clear()


def without_data(batch: Batch) -> Batch:
    """The batch on the meta device, where reading any value on the host raises."""
    parts: dict[str, Any] = {name: part for name, part in batch._asdict().items() if isinstance(part, torch.Tensor)}
    return batch._replace(**{name: part.detach().to("meta") for name, part in parts.items()})


@pytest.mark.parametrize(("name", "aggregation"), list(itertools.product(OBJECTIVES, AGGREGATIONS)))
@pytest.mark.parametrize("layout", [cases.padded, cases.packed], ids=["padded", "packed"])
def test_nothing_is_read_on_the_host(name: str, aggregation: str, layout: Callable[..., Batch]) -> None:
    batch = without_data(layout(a_batch()))
    batch.current.requires_grad_()
    out = OBJECTIVES[name].run(batch, **cases.how_to(aggregation, batch))
    torch.autograd.grad(out.loss, batch.current)
    denominator = torch.tensor(3, device="meta")
    out = OBJECTIVES[name].run(batch, **cases.how_to(aggregation, batch), denominator=denominator)
    torch.autograd.grad(out.loss, batch.current)
    assert checks._deferred  # the value checks were not forgotten but left on the device


def test_the_small_functions_read_nothing_either() -> None:
    batch = without_data(cases.padded(a_batch()))
    sequence_log_ratio(batch.current, batch.old, batch.mask, length_normalize=True)
    direct_double_sided_mask(batch.current, clip_low=0.2, clip_high=0.2)
    gather_token_logprobs(torch.empty(2, 7, device="meta"), torch.empty(2, dtype=torch.int64, device="meta"))
    step_denominator([batch.mask], "token")
    step_denominator([batch.mask], "sequence_mean")
    packed = without_data(cases.packed(a_batch()))
    assert packed.sequence_ids is not None
    step_denominator([packed.mask], "horizon", sequence_ids=[packed.sequence_ids])


def compiled(name: str, batch: Batch, backend: str, **how: Any) -> Any:
    def call(current: torch.Tensor) -> Any:
        return OBJECTIVES[name].run(batch._replace(current=current), **how)

    return torch.compile(call, fullgraph=True, backend=backend)(batch.current)


def assert_same_output(name: str, batch: Batch, backend: str, **how: Any) -> None:
    seen, wanted = compiled(name, batch, backend, **how), OBJECTIVES[name].run(batch, **how)
    torch.testing.assert_close(seen.loss, wanted.loss, rtol=1e-12, atol=1e-12)
    for one, other in zip(
        torch.autograd.grad(seen.loss, batch.current), torch.autograd.grad(wanted.loss, batch.current), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    for key, partial in wanted.partials.items():
        torch.testing.assert_close(seen.partials[key].mean(), partial.mean(), equal_nan=True)


VARIANTS = ("dual_clipped", "decoupled_truncated", "total_variation_capped", "sao_attached", "value")
"""Settings of an objective that is tried anyway."""
EVERY_LAYOUT: dict[str, Callable[..., Batch]] = {
    "padded": cases.padded,
    "labels": cases.packed,
    "boundaries": cases.by_boundaries,
    "positions": cases.by_positions,
}


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name not in VARIANTS])
def test_every_objective_is_one_graph(name: str) -> None:
    # both backends need one graph; the first also traces the backward pass, which is slow
    backend = "aot_eager" if name == "gspo" else "eager"
    assert_same_output(name, cases.padded(a_batch(), filler=float("nan")), backend, aggregation="sequence_mean")


def test_packed_sequences_are_one_graph() -> None:
    batch = cases.packed(a_batch())
    assert_same_output("grpo", batch, "eager", denominator=7.0, **cases.how_to("rollout", batch))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "aggregation"), list(itertools.product(OBJECTIVES, AGGREGATIONS)))
def test_everything_is_one_graph_forward_and_backward(name: str, aggregation: str) -> None:
    for layout, make in EVERY_LAYOUT.items():
        batch = make(a_batch())
        try:
            assert_same_output(name, batch, "aot_eager", **cases.how_to(aggregation, batch))
        except Exception as error:
            raise AssertionError(layout) from error
        torch.compiler.reset()


def test_value_checks_are_skipped_in_a_graph() -> None:
    batch = cases.padded(a_batch())
    bad = batch._replace(mask=torch.full_like(batch.mask, 2))
    compiled("clipped", bad, "eager", aggregation="token", denominator=1.0)
    with cases.raises(ValueError, match="action_mask"):
        OBJECTIVES["clipped"].run(bad)


def test_gather_token_logprobs_is_one_graph() -> None:
    logits, ids = tensor([[0.0, 1.0, 2.0]]), torch.tensor([2], device=DEVICE)
    call = torch.compile(gather_token_logprobs, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(call(logits, ids), gather_token_logprobs(logits, ids))


def test_deterministic_algorithms_are_possible() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        for name, objective in OBJECTIVES.items():
            batch = cases.packed(a_batch())
            losses = [objective.run(batch, **cases.how_to("sequence_mean", batch)).loss for _ in range(2)]
            assert losses[0] == losses[1], name
            torch.autograd.grad(losses[0], batch.current)
    finally:
        torch.use_deterministic_algorithms(False)
