"""The policy update: aligned with what was sampled, blind to everything else, equal to one plain backward pass."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from loop_models import ask, full_logprobs, request, tiny_model
from loop_rows import largest_difference, parameters_of, same_bits, sampled_rows
from oracles_learner import PlainAdamW, clipped_loss, cloning_loss
from torch import Tensor, nn

from rosellm.roserlhf.batching.rows import Row, exclude
from rosellm.roserlhf.batching.tensors import Batch, pad
from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.errors import NonFiniteError
from rosellm.roserlhf.learner.cloning import clone_step
from rosellm.roserlhf.learner.policy import RATIO_EDGES, UpdateReport, update_policy
from rosellm.roserlhf.learner.step import Stepper
from rosellm.roserlhf.losses import clipped_policy_loss, policy_logprobs
from rosellm.roserlhf.metrics import means

GRPO = functools.partial(clipped_policy_loss, clip_low=0.2, clip_high=0.3)


@pytest.fixture
def new_stepper() -> Iterator[Callable[..., Stepper[Batch]]]:
    made: list[Stepper[Batch]] = []

    def make(model: nn.Module, **options: Any) -> Stepper[Batch]:
        made.append(Stepper(model, **{"learning_rate": 1e-2, "weight_decay": 0.01, "gradient_clip": 1.0, "workers": 2, **options}))
        return made[-1]

    yield make
    for stepper in made:
        stepper.close()


def update(stepper: Stepper[Batch], rows: Sequence[Row], objective: Any = GRPO, **options: Any) -> UpdateReport:
    defaults: dict[str, Any] = {
        "step": 1,
        "denominator_mode": "token",
        "temperature": 1.0,
        "epochs": 1,
        "minibatches": 1,
        "micro_batch_rows": 2,
        "learning_rate": 1e-2,
        "shuffle": lambda epoch, count: range(count),
    }
    return update_policy(stepper, rows, objective, **{**defaults, **options})


# ---- log-probabilities


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_logprobs_are_aligned_to_the_ids_and_padding_changes_none(temperature: float) -> None:
    model = tiny_model(layers=2)
    rows = [(1, 2, 3, 4, 5, 6), (7, 8), (9, 1, 2)]
    for filler in (0, 10):
        padded = torch.tensor([[*row, *[filler] * (6 - len(row))] for row in rows])
        found = policy_logprobs(model, padded, temperature=temperature)
        assert found.dtype == torch.float32
        assert found[:, 0].tolist() == [0.0, 0.0, 0.0]  # nothing predicts the first token
        for row, line in zip(rows, found, strict=True):
            exact = full_logprobs(model, row, temperature=temperature or 1.0)
            assert (line[1 : len(row)].double() - exact).abs().max() < 1e-5


def test_R11_the_learner_divides_by_the_sampling_temperature() -> None:
    # logits [0, ln 3] at temperature 0.5: probabilities [1, 9] / 10, so id 1 has ln 0.9 = -0.10536
    def model(ids: Tensor, use_cache: bool) -> Any:
        return SimpleNamespace(logits=torch.tensor([0.0, math.log(3)]).expand(*ids.shape, 2))

    found = policy_logprobs(model, torch.tensor([[0, 1]]), temperature=0.5)  # type: ignore[arg-type]
    assert found.tolist() == [[0.0, pytest.approx(math.log(0.9), abs=1e-6)]]


def test_the_engines_logprobs_are_the_learners(new_stepper: Callable[..., Stepper[Batch]]) -> None:
    model = tiny_model(layers=2, heads=4, key_value_heads=2)
    engine, rows = LocalEngine(model, version="v0", threads=2, batch_rows=3), []
    for temperature in (1.0, 0.6):
        requests = [request((1, n, 3), n, temperature=temperature, max_tokens=5) for n in range(8)]
        for n, (asked, chunk) in enumerate(zip(requests, ask(engine, requests), strict=True)):
            ids = asked.prompt_ids + chunk.token_ids
            mask = tuple(t >= 3 for t in range(len(ids)))
            old = (0.0, 0.0, 0.0, *chunk.logprobs)
            rows.append(Row(f"r{n}", None, ids, mask, mask, old, tuple(0 if m else -1 for m in mask), advantage=1.0))
        report = update(new_stepper(tiny_model(layers=2, heads=4, key_value_heads=2)), rows, temperature=temperature)
        assert report.max_abs_log_ratio_before_update is not None
        assert report.max_abs_log_ratio_before_update < 1e-5
        rows.clear()
    engine.close()


# ---- the update is the plain one


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_updates_equal_plain_backward_passes_with_adamw(new_stepper: Callable[..., Stepper[Batch]], temperature: float) -> None:
    model = tiny_model(sharpness=8.0, dtype=torch.float64)
    rows = sampled_rows(model, 6, noise=0.4, temperature=temperature)
    orders = {0: [3, 1, 5, 0, 2, 4], 1: [4, 2, 0, 1, 3, 5]}
    stepper = new_stepper(model, gradient_clip=0.5)
    plain = PlainAdamW(model, betas=stepper.optimizer.defaults["betas"], weight_decay=0.01, gradient_clip=0.5)
    report = update(
        stepper, rows, temperature=temperature, epochs=2, minibatches=2, learning_rate=3e-3, shuffle=lambda epoch, _: orders[epoch]
    )
    norms = []
    for epoch in (0, 1):
        for part in (orders[epoch][:3], orders[epoch][3:]):
            chosen = [rows[i] for i in part]
            loss = clipped_loss(plain.model, chosen, clip_low=0.2, clip_high=0.3, temperature=temperature)
            norms.append(plain.step(loss, 3e-3))
    assert [one.gradient_norm for one in report.updates] == pytest.approx(norms, rel=1e-6)
    assert largest_difference(parameters_of(model), parameters_of(plain.model)) < 1e-9
    assert report.trained == {row.trajectory_id for row in rows}


@pytest.mark.parametrize("micro_batch_rows", [1, 2, 4, 100])
def test_R23_micro_batches_change_only_rounding(new_stepper: Callable[..., Stepper[Batch]], micro_batch_rows: int) -> None:
    model, whole = tiny_model(sharpness=8.0, dtype=torch.float64), tiny_model(sharpness=8.0, dtype=torch.float64)
    rows = sampled_rows(model, 7, noise=0.4)
    reference = update(new_stepper(whole), rows, micro_batch_rows=7)
    report = update(new_stepper(model), rows, micro_batch_rows=micro_batch_rows)
    assert largest_difference(parameters_of(model), parameters_of(whole)) < 1e-9
    found, expected = means(report.partials), means(reference.partials)
    for name in ("objective", "approximate_kl", "clip_fraction", "mean_ratio", "sampled_entropy"):
        assert found[name] == pytest.approx(expected[name], rel=1e-6), name
    assert sum(report.ratio_counts) == sum(row.trained for row in rows)


def test_the_order_of_rows_and_the_workers_change_nothing(new_stepper: Callable[..., Stepper[Batch]]) -> None:
    results = []
    for workers, direction in ((1, 1), (4, 1), (2, -1)):
        model = tiny_model(sharpness=8.0)
        update(new_stepper(model, workers=workers), sampled_rows(model, 6, noise=0.3)[::direction])
        results.append(parameters_of(model))
    assert same_bits(results[0], results[1])
    assert same_bits(results[0], results[2])  # rows are sorted by length and id


# ---- what carries no gradient


def test_no_gradient_reaches_prompts_observations_or_padding(new_stepper: Callable[..., Stepper[Batch]]) -> None:
    model = tiny_model(sharpness=8.0)
    rows = sampled_rows(model, 5, noise=0.1)
    batch, seen = pad(rows), []

    class Watched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, ids: Tensor, use_cache: bool) -> Any:
            output = self.inner(ids, use_cache=use_cache)
            output.logits.register_hook(lambda gradient: seen.append((ids, gradient)))
            return output

    update(new_stepper(Watched()), rows, micro_batch_rows=5)
    ((ids, gradient),) = seen
    lines = {tuple(line.tolist()): mask for line, mask in zip(batch.input_ids, batch.loss_mask, strict=True)}
    for line, found in zip(ids, gradient, strict=True):
        expected = torch.cat([lines[tuple(line.tolist())][1:], torch.tensor([False])])  # logits at t predict token t + 1
        assert torch.equal(found.ne(0).any(-1), expected)


@pytest.mark.parametrize("junk", [5.0, math.nan, -math.inf, math.inf])
def test_R03_R36_what_stands_at_masked_positions_changes_no_bit(new_stepper: Callable[..., Stepper[Batch]], junk: float) -> None:
    model, other = tiny_model(sharpness=8.0), tiny_model(sharpness=8.0)
    rows = sampled_rows(model, 5, noise=0.3)
    spoilt = [
        dataclasses.replace(
            row,
            behaviour_logprobs=tuple(
                value if live else junk for value, live in zip(row.behaviour_logprobs, row.loss_mask, strict=True)
            ),
        )
        for row in rows
    ]
    clean, dirty = update(new_stepper(model), rows), update(new_stepper(other), spoilt)
    assert same_bits(parameters_of(model), parameters_of(other))
    assert means(clean.partials) == means(dirty.partials)
    assert clean.max_abs_log_ratio_before_update == dirty.max_abs_log_ratio_before_update
    assert clean.ratio_counts == dirty.ratio_counts


def test_R36_an_excluded_row_may_hold_anything(new_stepper: Callable[..., Stepper[Batch]]) -> None:
    model, other = tiny_model(sharpness=8.0), tiny_model(sharpness=8.0)
    rows = sampled_rows(model, 5, noise=0.3)
    junk = [
        exclude(dataclasses.replace(row, advantage=bad), "unscored") for row, bad in zip(rows, (None, math.nan, 9e9), strict=False)
    ]
    update(new_stepper(model), rows)
    report = update(new_stepper(other), [*junk, *rows])
    assert same_bits(parameters_of(model), parameters_of(other))
    assert report.trained == {row.trajectory_id for row in rows}


# ---- evidence


def test_R38_R43_the_ratio_is_against_the_recorded_logprobs(new_stepper: Callable[..., Stepper[Batch]]) -> None:
    model = tiny_model(sharpness=8.0)
    rows = [
        dataclasses.replace(row, advantage=1.0, behaviour_logprobs=tuple(v - 1.0 for v in row.behaviour_logprobs))
        for row in sampled_rows(model, 4)
    ]
    before = parameters_of(model)
    report = update(new_stepper(model, weight_decay=0.0), rows)
    # every token became e times as likely since it was sampled: clipped at 1.3, and a clipped token has no gradient
    found = means(report.partials)
    assert found["mean_ratio"] == pytest.approx(math.e, rel=1e-5)
    assert found["clip_fraction"] == 1.0
    assert found["objective"] == pytest.approx(1.3, rel=1e-6)
    assert report.max_abs_log_ratio_before_update == pytest.approx(1.0, rel=1e-5)
    assert report.updates[0].gradient_norm == 0.0
    assert same_bits(parameters_of(model), before)
    assert report.ratio_counts[-1] == sum(row.trained for row in rows)  # beyond the last edge, counted in the last bin


def test_every_update_leaves_the_logprobs_that_the_policy_gave_just_before_it(new_stepper: Callable[..., Stepper[Batch]]) -> None:
    model = tiny_model(sharpness=8.0)
    rows = sampled_rows(model, 7, noise=0.3)
    rows[0] = exclude(rows[0], "uniform group")
    rows[1] = dataclasses.replace(rows[1], loss_mask=(*rows[1].loss_mask[:-1], False))  # the last token is out of the loss
    before: list[dict[str, Any]] = []
    stepper = new_stepper(model, workers=3)
    plain = stepper.step

    def noted(*args: Any, **options: Any) -> Any:
        before.append(parameters_of(model))
        return plain(*args, **options)

    stepper.step = noted  # type: ignore[method-assign]
    report = update(stepper, rows, step=4, epochs=2, minibatches=2, learning_rate=0.01)
    assert [(u.step, u.number, u.epoch, u.learning_rate, u.skipped) for u in report.updates] == [
        (4, 0, 0, 0.01, None),
        (4, 1, 0, 0.01, None),
        (4, 2, 1, 0.01, None),
        (4, 3, 1, 0.01, None),
    ]
    by_id = {row.trajectory_id: row for row in rows}
    assert rows[0].trajectory_id not in {row.trajectory_id for u in report.updates for row in u.rows}
    for made, parameters in zip(report.updates, before, strict=True):
        model.load_state_dict(parameters, strict=False)
        assert [row.trajectory_id for row in made.rows] == [
            row.trajectory_id for row in sorted((by_id[r.trajectory_id] for r in made.rows), key=lambda r: len(r.token_ids))
        ]
        for evidence in made.rows:
            row = by_id[evidence.trajectory_id]
            exact = full_logprobs(model, row.token_ids)
            expected = [float(exact[t - 1]) for t, sampled in enumerate(row.policy_mask) if sampled]
            assert evidence.current_logprobs.tolist() == pytest.approx(expected, abs=1e-5)
        assert made.denominator == sum(by_id[row.trajectory_id].trained for row in made.rows)


def test_the_evidence_does_not_depend_on_which_worker_ends_first(new_stepper: Callable[..., Stepper[Batch]]) -> None:
    found = []
    for workers in (1, 4):
        model = tiny_model(sharpness=8.0)
        rows = sampled_rows(model, 8, noise=0.3)

        def slow(*args: Any, **options: Any) -> Any:
            time.sleep(0.02 / args[0].shape[1])  # the shorter the rows, the later: the order of ends is turned round
            return GRPO(*args, **options)

        found.append(update(new_stepper(model, workers=workers), rows, slow, epochs=2))
    assert found[0].updates == found[1].updates
    assert found[0].max_abs_log_ratio_before_update == found[1].max_abs_log_ratio_before_update


def test_the_loss_of_the_evidence_is_the_clipped_one(new_stepper: Callable[..., Stepper[Batch]]) -> None:
    model = tiny_model(sharpness=8.0)
    rows = sampled_rows(model, 5, noise=0.4)
    (made,) = update(new_stepper(model), rows).updates
    by_id, total = {row.trajectory_id: row for row in rows}, 0.0
    for evidence in made.rows:
        row = by_id[evidence.trajectory_id]
        behaviour = [value for value, sampled in zip(row.behaviour_logprobs, row.policy_mask, strict=True) if sampled]
        for current, old in zip(evidence.current_logprobs, behaviour, strict=True):
            ratio, advantage = math.exp(current - old), row.advantage_of(0) or 0.0
            total -= min(ratio * advantage, min(max(ratio, 0.8), 1.3) * advantage)
    # the records, the evidence and the rule are enough: no model is asked
    assert made.loss == pytest.approx(total / made.denominator, rel=1e-5)


def test_the_evidence_is_that_of_the_first_update_and_the_histogram_that_of_the_last(
    new_stepper: Callable[..., Stepper[Batch]],
) -> None:
    model = tiny_model(sharpness=8.0)
    rows = sampled_rows(model, 6)
    report = update(new_stepper(model, gradient_clip=1e9), rows, epochs=3, minibatches=2, learning_rate=0.05)
    assert report.max_abs_log_ratio_before_update is not None
    assert report.max_abs_log_ratio_before_update < 1e-5
    assert len(report.updates) == 6
    assert sum(report.ratio_counts) == sum(row.trained for row in rows[3:])
    middle = len(RATIO_EDGES) // 2
    assert sum(report.ratio_counts[: middle - 1]) + sum(report.ratio_counts[middle + 1 :]) > 0  # by then the policy has moved


def test_R76_centred_advantages_give_no_loss_but_a_gradient(new_stepper: Callable[..., Stepper[Batch]]) -> None:
    model = tiny_model(sharpness=8.0)
    one, two = sampled_rows(model, 2)
    two = dataclasses.replace(
        one, trajectory_id="two", token_ids=(*one.token_ids[:-1], (one.token_ids[-1] + 1) % 11), advantage=-1.0
    )
    with torch.no_grad():
        logits = model(torch.tensor([two.token_ids])).logits[0].log_softmax(-1)
    last = float(logits[-2, two.token_ids[-1]])
    two = dataclasses.replace(two, behaviour_logprobs=(*one.behaviour_logprobs[:-1], last))
    report = update(new_stepper(model), [dataclasses.replace(one, advantage=1.0), two])
    assert means(report.partials)["objective"] == pytest.approx(0.0, abs=1e-6)
    assert report.updates[0].gradient_norm > 0.01


# ---- steps that cannot be taken


@pytest.mark.parametrize("bad", [math.nan, math.inf, None])
def test_R69_an_advantage_that_is_no_number_stops_the_step(new_stepper: Callable[..., Stepper[Batch]], bad: float | None) -> None:
    model = tiny_model(sharpness=8.0)
    rows, before = sampled_rows(model, 5), parameters_of(model)
    rows[2] = dataclasses.replace(rows[2], advantage=bad)
    stepper = new_stepper(model)
    with pytest.raises(NonFiniteError, match="advantages must be finite"):
        update(stepper, rows)
    assert same_bits(parameters_of(model), before)
    assert not stepper.optimizer.state


def test_R26_a_step_without_live_rows_updates_nothing_and_says_so(new_stepper: Callable[..., Stepper[Batch]]) -> None:
    model = tiny_model()
    before = parameters_of(model)
    for rows in ([], [exclude(row, "uniform group") for row in sampled_rows(model, 3)]):
        report = update(new_stepper(model), rows, epochs=2, minibatches=2)
        assert [one.skipped for one in report.updates] == ["no tokens to train"]
        assert [(one.gradient_norm, one.loss, one.denominator, one.rows) for one in report.updates] == [(0.0, 0.0, 0.0, ())]
        assert (report.max_abs_log_ratio_before_update, report.trained, dict(report.partials)) == (None, frozenset(), {})
        assert report.ratio_counts == (0,) * 20
    assert same_bits(parameters_of(model), before)


def test_more_minibatches_than_rows_make_one_update_a_row(new_stepper: Callable[..., Stepper[Batch]]) -> None:
    model = tiny_model()
    report = update(new_stepper(model), sampled_rows(model, 3), minibatches=8)
    assert [one.skipped for one in report.updates] == [None, None, None]


def test_a_refused_update_trains_nobody(new_stepper: Callable[..., Stepper[Batch]]) -> None:
    model = tiny_model()
    before = parameters_of(model)

    def exploding(*args: Any, **options: Any) -> Any:
        output = GRPO(*args, **options)
        return dataclasses.replace(output, loss=output.loss * math.inf)

    report = update(new_stepper(model), sampled_rows(model, 4), exploding, minibatches=2)
    assert [one.skipped for one in report.updates] == ["the gradient is not finite"] * 2
    assert report.trained == frozenset()
    assert same_bits(parameters_of(model), before)


# ---- cloning


def test_cloning_equals_plain_backward_passes(new_stepper: Callable[..., Stepper[Batch]]) -> None:
    model = tiny_model(sharpness=8.0, dtype=torch.float64)
    rows = sampled_rows(model, 5)
    stepper = new_stepper(model, weight_decay=0.0)
    plain = PlainAdamW(model, betas=stepper.optimizer.defaults["betas"], weight_decay=0.0, gradient_clip=1.0)
    for rate in (1e-2, 5e-3):
        loss = cloning_loss(plain.model, rows)
        report = clone_step(stepper, rows, micro_batch_rows=2, learning_rate=rate)
        assert float(report.partials["cloning_loss"].mean()) == pytest.approx(loss.item(), rel=1e-6)
        assert report.gradient_norm == pytest.approx(plain.step(loss, rate), rel=1e-6)
    assert largest_difference(parameters_of(model), parameters_of(plain.model)) < 1e-9


def test_R26_demonstrations_without_tokens_to_imitate_count_nothing(new_stepper: Callable[..., Stepper[Batch]]) -> None:
    model, other = tiny_model(), tiny_model()
    rows = sampled_rows(model, 4)
    empty = [exclude(row, "not imitated") for row in sampled_rows(model, 3, seed=9)]
    clone_step(new_stepper(model), rows, micro_batch_rows=2, learning_rate=1e-2)
    clone_step(new_stepper(other), [*empty, *rows], micro_batch_rows=2, learning_rate=1e-2)
    assert same_bits(parameters_of(model), parameters_of(other))
    report = clone_step(new_stepper(other), empty, micro_batch_rows=2, learning_rate=1e-2)
    assert report.skipped == "no tokens to train"
    assert same_bits(parameters_of(model), parameters_of(other))
