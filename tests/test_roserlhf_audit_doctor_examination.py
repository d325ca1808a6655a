"""The nine steps: a healthy subject passes, and each planted fault is named by the matching step and by no other."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import loop_worlds
import pytest
import torch
from torch import Tensor

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.examination import order
from rosellm.roserlhf.audit.examination.overfitting import Bounds
from rosellm.roserlhf.audit.examination.subject import Subject
from rosellm.roserlhf.batching import credit as batching_credit
from rosellm.roserlhf.batching import rollout as batching_rollout
from rosellm.roserlhf.batching.credit import total_reward
from rosellm.roserlhf.batching.rows import Row, row_of
from rosellm.roserlhf.batching.scored import PerGroup
from rosellm.roserlhf.batching.tensors import pad
from rosellm.roserlhf.engine import batch
from rosellm.roserlhf.engine.choice import Chosen
from rosellm.roserlhf.engine.choice import choose as honest_choice
from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.engine.protocol import Ack, PolicyHandle, Request, Sampling
from rosellm.roserlhf.environment.protocol import StepResult, ToolRunner
from rosellm.roserlhf.learner import policy
from rosellm.roserlhf.learner.step import Stepper, StepReport
from rosellm.roserlhf.losses import clipped_policy_loss, policy_logprobs
from rosellm.roserlhf.models.causal import weights, weights_hash
from rosellm.roserlhf.rollout import episode
from rosellm.roserlhf.rollout.collect import Planned, plan
from rosellm.roserlhf.store import events
from rosellm.roserlhf.trainer import learning
from rosellm.roserlhf.trainer import world as trainer_world
from rosellm.roserlhf.trainer.world import World
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure, Trajectory

Patch = pytest.MonkeyPatch
QUICK = Bounds(candidates=12, tasks=2, members=8, updates=30)
"""Bounds of step 6 for a model that learns in a moment."""


class Begins(loop_worlds.Lookup):
    """Succeeds when the first reply begins with a character of even code: half of all random policies' episodes do."""

    reward_weights: ClassVar[Mapping[str, float]] = {"correct": 1.0}

    async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
        self.said = self.said or (action.raw if isinstance(action, ParseFailure) else action.calls[0].name)
        return await super(loop_worlds.Lookup, self).step(action, run)

    def score(self) -> Mapping[str, float | None]:
        return {"correct": float(ord(self.said[0]) % 2 == 0)}


@pytest.fixture(scope="module")
def subject() -> Subject:
    recipe = loop_worlds.tiny(collect={"max_turns": 2})
    world = World.build(recipe.config, "doctor", Begins)
    model = world.new_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)  # far from uniform, so that a temperature, a nucleus or another context shows
    return Subject(model, "v0", recipe, world)


def examined(subject: Subject, **how: Any) -> dict[int, Outcome]:
    return dict(enumerate(order.examine(subject, bounds=QUICK, **how), start=1))


def failed(outcomes: Mapping[int, Outcome]) -> list[int]:
    return [number for number, outcome in outcomes.items() if outcome.verdict == "failed"]


def test_a_healthy_subject_passes_and_is_not_modified(subject: Subject) -> None:
    before = weights_hash(weights(subject.model))
    seen: list[tuple[int, str]] = []
    outcomes = examined(subject, on_step=lambda number, name: seen.append((number, name)))
    assert {number: outcome.verdict for number, outcome in outcomes.items()} == {
        **dict.fromkeys(range(1, 9), "passed"),
        9: "not built yet",
    }, outcomes
    assert [number for number, _ in seen] == list(range(1, 9))
    assert weights_hash(weights(subject.model)) == before
    assert any("submit(" in line or "'<assistant>'" in line for line in outcomes[1].lines)


@pytest.fixture
def here(monkeypatch: Patch) -> Patch:
    """Leave out step 8, which starts processes that a patch does not reach, and step 6, which only a fault of its own concerns."""
    monkeypatch.setattr(order, "STEPS", (*order.STEPS[:5], order.STEPS[6]))
    return monkeypatch


def shifted(row: Row) -> Row:
    def right(mask: tuple[bool, ...]) -> tuple[bool, ...]:
        return (False, *mask[:-1])

    return dataclasses.replace(row, policy_mask=right(row.policy_mask), loss_mask=right(row.loss_mask))


def shift_the_mask(patch: Patch, subject: Subject) -> None:
    patch.setattr(batching_rollout, "row_of", lambda trajectory, **how: shifted(row_of(trajectory, **how)))


def train_an_observation(patch: Patch, subject: Subject) -> None:
    def build(trajectory: Trajectory, **how: Any) -> Row:
        row = row_of(trajectory, **how)
        return dataclasses.replace(row, loss_mask=(True, *row.loss_mask[1:]))

    patch.setattr(batching_rollout, "row_of", build)


def drop_the_stop_token(patch: Patch, subject: Subject) -> None:
    def build(trajectory: Trajectory, **how: Any) -> Row:
        row = row_of(trajectory, **how)
        ids, policy_mask = row.token_ids[:-1], row.policy_mask[:-1]
        return dataclasses.replace(row, token_ids=ids, policy_mask=policy_mask, loss_mask=row.loss_mask[:-1])

    patch.setattr(batching_rollout, "row_of", build)


def mask_the_stop_token(patch: Patch, subject: Subject) -> None:
    def build(trajectory: Trajectory, **how: Any) -> Row:
        row = row_of(trajectory, **how)
        return dataclasses.replace(row, loss_mask=(*row.loss_mask[:-1], False))

    patch.setattr(batching_rollout, "row_of", build)


def flip_the_reward(patch: Patch, subject: Subject) -> None:
    patch.setattr(learning, "total_reward", lambda *args: 1.0 - (total_reward(*args) or 0.0))


def tokenize_the_history_again(patch: Patch, subject: Subject) -> None:
    world = subject.world
    assert world is not None

    def request(prompt_ids: tuple[int, ...], *rest: Any) -> Request:
        text = "".join(world.codec.text((i,)) for i in prompt_ids)
        return Request(tuple(world.tokenizer(text, add_special_tokens=False).input_ids), *rest)

    patch.setattr(episode, "Request", request)


def name_stale_weights_fresh(patch: Patch, subject: Subject) -> None:
    async def publish(self: LocalEngine, handle: PolicyHandle) -> Ack:
        self._version = handle.version
        return Ack(handle.version)

    patch.setattr(LocalEngine, "publish", publish)


def ignore_the_temperature_in_training(patch: Patch, subject: Subject) -> None:
    patch.setattr(
        policy, "policy_logprobs", lambda model, ids, *, temperature, **how: policy_logprobs(model, ids, temperature=1.0, **how)
    )


def shift_the_log_probabilities(patch: Patch, subject: Subject) -> None:
    patch.setattr(policy, "policy_logprobs", lambda *args, **how: policy_logprobs(*args, **how).roll(1, 1))


def record_before_the_temperature(patch: Patch, subject: Subject) -> None:
    def choose(logits: Tensor, samplings: Sequence[Sampling], draws: Sequence[float]) -> Chosen:
        found = honest_choice(logits, samplings, draws)
        raw = logits.log_softmax(-1).gather(-1, torch.tensor(found.tokens)[:, None])[:, 0].tolist()
        return found._replace(logprobs=raw)

    patch.setattr(batch, "choose", choose)


def sample_from_a_nucleus(patch: Patch, subject: Subject) -> None:
    def choose(logits: Tensor, samplings: Sequence[Sampling], draws: Sequence[float]) -> Chosen:
        warmth = torch.tensor([one.temperature for one in samplings])[:, None]
        ordered, places = (logits / warmth).softmax(-1).sort(-1, descending=True)
        outside = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, places, ordered.cumsum(-1) - ordered >= 0.8)
        return honest_choice(logits.masked_fill(outside, -torch.inf), samplings, draws)

    patch.setattr(batch, "choose", choose)


def group_by_position(patch: Patch, subject: Subject) -> None:
    def planned(*args: Any, **how: Any) -> list[Planned]:
        episodes = plan(*args, **how)
        return [dataclasses.replace(e, group_id=episodes[i - 1].group_id) for i, e in enumerate(episodes)]

    patch.setattr(trainer_world, "plan", planned)


def normalise_over_the_batch(patch: Patch, subject: Subject) -> None:
    patch.setattr(batching_credit, "_groups", lambda trajectories: [list(range(len(trajectories)))])


def round_what_is_stored(patch: Patch, subject: Subject) -> None:
    honest = events.EventLog.append_trajectory

    def append(self: events.EventLog, trajectory: Trajectory, **where: Any) -> Any:
        actions = [
            dataclasses.replace(action, old_logprobs=[round(logprob, 4) for logprob in action.old_logprobs])
            for action in trajectory.actions
        ]
        return honest(self, dataclasses.replace(trajectory, actions=actions), **where)

    patch.setattr(events.EventLog, "append_trajectory", append)


def draw_from_an_unkeyed_stream(patch: Patch, subject: Subject) -> None:

    def padded(rows: Sequence[Row], *where: Any, **how: Any) -> Any:
        batch = pad(rows, *where, **how)
        return dataclasses.replace(batch, advantages=batch.advantages * (1 + 1e-4 * random.random()))

    patch.setattr(policy, "pad", padded)


FAULTS: list[tuple[Callable[[Patch, Subject], None], int, str]] = [
    (shift_the_mask, 1, "shifted by one to the right"),
    (train_an_observation, 1, "did not sample were in the loss"),
    (drop_the_stop_token, 1, "row builder"),
    (mask_the_stop_token, 1, "stop tokens, calls or thoughts are dropped"),
    (tokenize_the_history_again, 1, "decoded and encoded again"),
    (name_stale_weights_fresh, 2, "stale weights labelled fresh"),
    (ignore_the_temperature_in_training, 2, "trainer ignores the sampling temperature"),
    (record_before_the_temperature, 2, "engine records log-probabilities before the temperature"),
    (sample_from_a_nucleus, 2, "top-p or top-k"),
    (shift_the_log_probabilities, 2, "a shift by one"),
    (flip_the_reward, 3, "components are weighted or summed wrongly"),
    (group_by_position, 3, "wrong group ids"),
    (normalise_over_the_batch, 3, "wrong members"),
    (round_what_is_stored, 7, "store does not give back"),
]


@pytest.mark.parametrize(("plant", "step", "cause"), FAULTS, ids=[plant.__name__ for plant, _, _ in FAULTS])
def test_a_fault_is_named_by_its_step(
    subject: Subject, here: Patch, plant: Callable[[Patch, Subject], None], step: int, cause: str
) -> None:
    plant(here, subject)
    numbers = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 7, 7: 9}
    outcomes = {numbers[place]: outcome for place, outcome in examined(subject).items()}
    assert failed(outcomes) == [step], outcomes
    found = outcomes[step]
    assert cause in found.cause + found.evidence
    assert found.fix


def test_what_rests_on_a_failed_step_is_skipped_and_says_so(subject: Subject, monkeypatch: Patch) -> None:
    shift_the_mask(monkeypatch, subject)
    outcomes = examined(subject)
    assert [outcomes[n].verdict for n in range(1, 10)] == ["failed", *["skipped"] * 7, "not built yet"]
    assert outcomes[4].evidence == "rests on 'one trajectory, frozen and printed', which failed"


def local_means(*args: Any, denominator: Tensor | float) -> Any:
    """Each micro-batch divides by its own count."""
    return clipped_policy_loss(*args)


def over_the_padded_width(current: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, *, denominator: Tensor | float) -> Any:
    output = clipped_policy_loss(current, old, advantages, mask, denominator=denominator)
    return dataclasses.replace(output, loss=output.loss * (1 + 0.01 * mask.shape[1]))


def multiplied_by_the_mask(current: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, *, denominator: Tensor | float) -> Any:
    output = clipped_policy_loss(current, old, advantages, mask, denominator=denominator)
    return dataclasses.replace(output, loss=output.loss + (current * ~mask * 0.0).sum())


def leaking(current: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, *, denominator: Tensor | float) -> Any:
    """The value is right, the gradient also reaches what is masked."""
    output = clipped_policy_loss(current, old, advantages, mask, denominator=denominator)
    return dataclasses.replace(output, loss=output.loss + (current - current.detach()).sum() / denominator)


def detached(current: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, *, denominator: Tensor | float) -> Any:
    """The first half of every row is cut off from the graph."""
    half = current.shape[1] // 2
    mixed = torch.cat([current[:, :half].detach(), current[:, half:]], 1)
    return clipped_policy_loss(mixed, old, advantages, mask, denominator=denominator)


@pytest.mark.parametrize(
    ("objective", "step", "cause"),
    [
        (local_means, 4, "mean of micro-batch means"),
        (over_the_padded_width, 4, "padding or neighbours"),
        (leaking, 5, "leaks through a masked position"),
        (multiplied_by_the_mask, 5, "multiplied by 0"),
        (detached, 5, "detached"),
    ],
)
def test_a_faulty_objective_is_named(subject: Subject, here: Patch, objective: Any, step: int, cause: str) -> None:
    outcomes = examined(dataclasses.replace(subject, recipe=dataclasses.replace(subject.recipe, objective=objective)))
    assert failed(outcomes) == [step], outcomes
    assert cause in outcomes[step].cause


def test_an_update_that_never_reaches_the_weights_cannot_overfit(subject: Subject, monkeypatch: Patch) -> None:
    def step(self: Stepper[Any], batches: Sequence[Any], loss_of: Any, *, learning_rate: float) -> StepReport:
        shares = [loss_of(batch)[0].detach() for batch in batches]
        return StepReport({}, float(torch.stack(shares).sum()), 1.0, None)

    monkeypatch.setattr(Stepper, "step", step)
    monkeypatch.setattr(order, "STEPS", order.STEPS[:7])
    few = Bounds(candidates=12, tasks=2, members=8, updates=4)
    outcomes = dict(enumerate(order.examine(subject, bounds=few), start=1))
    assert failed(outcomes) == [6], outcomes[2]
    assert "nothing is learnt" in outcomes[6].cause


def test_an_update_that_depends_on_an_unkeyed_stream_is_not_replayed(subject: Subject, here: Patch) -> None:
    draw_from_an_unkeyed_stream(here, subject)
    here.setattr(order, "STEPS", order.STEPS[-1:])
    here.setattr(order, "STEPS", (dataclasses.replace(order.STEPS[0], rests_on=()),))
    (found, _) = order.examine(subject)
    assert found.verdict == "failed"
    assert "unkeyed random stream" in found.cause


def test_a_credit_function_without_a_hand_computation_is_a_warning(subject: Subject, here: Patch) -> None:
    def centred(rewards: Tensor) -> Tensor:
        return rewards - rewards.mean()

    outcomes = examined(dataclasses.replace(subject, recipe=dataclasses.replace(subject.recipe, credit=PerGroup(centred))))
    assert failed(outcomes) == []
    assert outcomes[3].verdict == "warning"
    assert "the advantages of centred were not compared" in outcomes[3].evidence


def test_what_the_examined_code_raises_is_a_finding(subject: Subject, here: Patch) -> None:
    def broken(*args: Any, **how: Any) -> Any:
        raise ZeroDivisionError("no\ntokens")

    outcomes = examined(dataclasses.replace(subject, recipe=dataclasses.replace(subject.recipe, objective=broken)))
    assert failed(outcomes) == [2, 4, 5, 6]  # 6 is the replay here
    assert outcomes[2].evidence == "ZeroDivisionError: no tokens"
