"""Recipes in the whole loop: the learner received what the recipe says, and replay, explanation and doctor agree."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Unpack

import loop_worlds
import pytest
import torch
from loop_worlds import tiny
from torch import Tensor

from rosellm.roserlhf import Run, recipes, train
from rosellm.roserlhf.audit.examination import order
from rosellm.roserlhf.audit.examination.subject import Subject
from rosellm.roserlhf.audit.explanation.credit_formula import formula_of
from rosellm.roserlhf.audit.explanation.explain import Explanation, explain
from rosellm.roserlhf.audit.explanation.numbers import brief
from rosellm.roserlhf.audit.explanation.token_arithmetic import arithmetic
from rosellm.roserlhf.audit.inspection.order import inspect_run
from rosellm.roserlhf.audit.rerun.replay import replay
from rosellm.roserlhf.batching.credit import compared, total_reward
from rosellm.roserlhf.batching.scored import ScoredRollouts, scored_rollouts
from rosellm.roserlhf.losses import Layout
from rosellm.roserlhf.models.causal import weights_hash
from rosellm.roserlhf.store import Update
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.trainer.recipe import Recipe
from rosellm.roserlhf.trainer.world import World
from rosellm.roserlhf.trajectory import Trajectory

WEIGHTS = loop_worlds.Lookup.reward_weights


class Witness:
    """Stands where the objective stands and keeps what it was given."""

    def __init__(self, recipe: Recipe) -> None:
        self.objective, self.seen = recipe.objective, list[tuple[Tensor, Tensor]]()

    def __call__(
        self,
        current: Tensor,
        old: Tensor,
        advantages: Tensor,
        mask: Tensor,
        /,
        *,
        denominator: Tensor | float,
        **layout: Unpack[Layout],
    ) -> Any:
        self.seen.append((advantages, mask))
        return self.objective(current, old, advantages, mask, denominator=denominator, **layout)


def short(name: str, **options: Any) -> Recipe:
    return tiny(**{"recipe": name, "steps": 2, "evaluate": {"every": 0, "tasks": 4}, "warm_start": {"max_steps": 8}, **options})


def trained(folder: Path, name: str, **options: Any) -> tuple[Run, Witness]:
    recipe = short(name, **options)
    witness = Witness(recipe)
    run = train(dataclasses.replace(recipe, objective=witness), out=folder)
    assert run.status == "finished"
    checks = list(inspect_run(run.folder))
    assert [check.verdict for check in checks] == ["passed"] * len(checks), checks
    return run, witness


def scored(log: EventLog, step: int) -> tuple[list[Trajectory], ScoredRollouts]:
    episodes = [stored.trajectory for stored in log.trajectories(phase="train", step=step)]
    rewards = [total_reward(episode, WEIGHTS) for episode in episodes]
    groups, _ = compared(episodes, rewards)
    totals = [rewards[i] or 0.0 for i in groups]
    return [episodes[i] for i in groups], scored_rollouts([episodes[i] for i in groups], totals, list(groups.values()), WEIGHTS)


def recorded(log: EventLog, step: int) -> dict[str, Any]:
    ends = [entry for entry in log.ledger(step=step) if entry.state in ("trained", "rejected")]
    return {entry.attempt_id: entry.detail["advantage"] for entry in ends}


def explained(folder: Path, name: str) -> Explanation:
    told = explain(folder, name)
    assert told.problems == ()
    return told


@pytest.mark.parametrize(
    ("name", "unit"), [("rloo", "rows"), ("dr_grpo", "rows"), ("gspo", "rows"), ("sapo", "rows"), ("cispo", "tokens")]
)
def test_a_run_divides_by_the_unit_of_its_recipe_and_is_replayed(tmp_path: Path, name: str, unit: str) -> None:
    run, witness = trained(tmp_path / "run", name)
    with EventLog.read(run.folder / "events.db") as log:
        updates: list[Update] = list(log.updates())
        advantages = recorded(log, 1)
        wanted = short(name).credit(scored(log, 1)[1]).tolist()
        found = [advantages[episode.trajectory_id] for episode in scored(log, 1)[0]]
        first = next(entry.attempt_id for entry in log.ledger() if entry.state == "trained" and advantages.get(entry.attempt_id))
    assert found == wanted
    made = [update for update in updates if update.skipped is None]
    assert made
    for update in made:
        assert update.denominator == (len(update.rows) if unit == "rows" else sum(len(row.current_logprobs) for row in update.rows))
    assert len(made) == (2 if name == "rloo" else 4)  # without a ratio one update a step
    for given, mask in witness.seen:  # one advantage for all tokens of an episode
        assert all(len({*row[chosen].tolist()}) == 1 for row, chosen in zip(given, mask, strict=True))
    told = explained(run.folder, first)
    assert told.credit.recorded == told.credit.recomputed
    assert replay(run.folder, step=2).equal


def test_dr_grpo_keeps_groups_without_a_signal_and_divides_by_the_generation_budget(tmp_path: Path) -> None:
    run, _ = trained(tmp_path / "run", "dr_grpo")
    with EventLog.read(run.folder / "events.db") as log:
        assert not [entry for entry in log.ledger() if entry.reason == "uniform group"]
    # at ratio 1 the gradient of a token is A over rows times 3 turns of 6 tokens
    current = torch.zeros(1, 2, requires_grad=True)
    mask = torch.ones(1, 2, dtype=torch.bool)
    loss = short("dr_grpo").objective(current, torch.zeros(1, 2), torch.ones(1, 2), mask, denominator=1.0).loss
    assert torch.autograd.grad(loss, current)[0].tolist() == [pytest.approx([-1 / 18, -1 / 18])]


def test_dapo_takes_a_penalty_from_long_episodes_and_explains_it(tmp_path: Path) -> None:
    run, _ = trained(tmp_path / "run", "dapo", max_length=18, cache_length=16, warm_start={"max_steps": 40})
    with EventLog.read(run.folder / "events.db") as log:
        episodes, given = scored(log, 1)
        advantages = recorded(log, 1)
    penalty = ((18 - 16 - given.known("lengths").double()) / 16).clamp(-1, 0)
    assert len(penalty.unique()) > 1
    punished = dataclasses.replace(given, rewards=given.rewards + penalty)
    wanted = recipes.grpo().credit(punished)
    assert [advantages[episode.trajectory_id] for episode in episodes] == pytest.approx(wanted.tolist(), abs=1e-6)
    told = explained(run.folder, episodes[0].trajectory_id)
    assert told.credit.formula[0].startswith(f"penalty of {episodes[0].sampled_tokens} sampled tokens (0 up to 2, -1 from 18) = -")
    value = float(told.credit.formula[-1].rpartition("=")[2].removesuffix(", exactly"))
    assert value == pytest.approx(advantages[episodes[0].trajectory_id], abs=1e-5)


@pytest.fixture(scope="module")
def gigpo_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Witness]:
    return trained(tmp_path_factory.mktemp("gigpo") / "run", "gigpo", collect={"group_size": 6})


def test_gigpo_gives_the_turns_of_an_episode_their_own_advantages(gigpo_run: tuple[Run, Witness]) -> None:
    run, witness = gigpo_run
    given, masks = zip(*witness.seen, strict=True)
    several = [
        len({*row[chosen].tolist()})
        for part, mask in zip(given, masks, strict=True)
        for row, chosen in zip(part, mask, strict=True)
    ]
    assert max(several) > 1  # that is what the learner was given
    with EventLog.read(run.folder / "events.db") as log:
        episodes, known = scored(log, 1)
        advantages = recorded(log, 1)
    wanted = iter(recipes.gigpo().credit(known).tolist())
    for episode in episodes:
        assert advantages[episode.trajectory_id] == [next(wanted) for _ in episode.actions]
    assert replay(run.folder, step=2).equal


def turns_apart(folder: Path) -> Iterator[Explanation]:
    with EventLog.read(folder / "events.db") as log:
        ends = [entry for entry in log.ledger() if entry.state == "trained" and len({*entry.detail["advantage"]}) > 1]
    for entry in ends:
        yield explained(folder, entry.attempt_id)


def test_an_explanation_shows_the_advantage_of_the_tokens_own_turn_and_its_parts(gigpo_run: tuple[Run, Witness]) -> None:
    told = next(turns_apart(gigpo_run[0].folder))
    assert isinstance(told.credit.recorded, tuple)
    assert told.credit.recorded == told.credit.recomputed
    for token in [token for token in told.tokens if token.sampled]:
        assert token.turn is not None
        mine = told.credit.recorded[token.turn]
        assert told.credit.of_turn(token.turn) == mine
        lines = dict(arithmetic(told, token))["advantage"]
        assert lines[-1] == f"of turn {token.turn}: A = {mine!r}"
        parts = next(line for line in lines if line.startswith("A = A_E + omega * A_S"))
        assert float(parts.rpartition("=")[2]) == pytest.approx(mine, rel=1e-5)
        for one in [one for update in told.updates for one in update.tokens if one.position == token.position]:
            assert one.verdict is not None
            if mine and one.verdict.gradient:
                assert one.verdict.weight == pytest.approx(
                    one.ratio, rel=1e-3
                )  # derivative over share and the turn's own advantage
    assert "turn 1: A = A_E + omega * A_S" in told.as_html()
    assert isinstance(told.as_json()["credit"]["advantage"], list)


def test_a_group_that_gigpo_can_tell_apart_by_its_turns_is_not_uniform(gigpo_run: tuple[Run, Witness]) -> None:
    with EventLog.read(gigpo_run[0].folder / "events.db") as log:
        dropped = {entry.attempt_id for entry in log.ledger() if entry.reason == "uniform group"}
        everyone = recorded(log, 1) | recorded(log, 2)
    for name, advantage in everyone.items():
        if name in dropped:
            assert {*advantage} == {0.0}


def test_gdpo_weighs_standardised_components(tmp_path: Path) -> None:
    run, _ = trained(tmp_path / "run", "gdpo")
    with EventLog.read(run.folder / "events.db") as log:
        episodes, known = scored(log, 1)
        advantages = recorded(log, 1)
    components = known.known("components")
    assert components.shape == (len(episodes), 2)
    sums = torch.zeros(len(episodes), dtype=torch.float64)
    for weight, column in zip(WEIGHTS.values(), components.T, strict=True):
        sums += weight * recipes.grpo().credit(dataclasses.replace(known, rewards=column))
    wanted = (sums - sums.mean()) / (sums.std(correction=0) + 1e-8)
    assert [advantages[episode.trajectory_id] for episode in episodes] == pytest.approx(wanted.tolist())
    told = explained(run.folder, episodes[0].trajectory_id)
    assert [line.partition(":")[0] for line in told.credit.formula[:2]] == [*WEIGHTS]
    assert told.credit.formula[-2] == (
        f"over the {len(sums)} episodes of the step: mean of S = {brief(round(float(sums.mean()), 12))}, "
        f"standard deviation s = {brief(float(sums.std(correction=0)))}"
    )
    assert told.credit.formula[-1].startswith("A = (S - mean) / (s + 1e-08) = (")
    assert float(told.credit.formula[-1].rpartition("=")[2]) == pytest.approx(float(wanted[0]), rel=1e-5)
    assert replay(run.folder, step=2).equal


@pytest.mark.parametrize(("whiten", "last"), [("rollout", "A = (S - mean) / (s + 1e-08)"), ("token", "A = (S - mean) / s")])
def test_an_explanation_of_gdpo_works_out_how_sums_are_whitened(whiten: Any, last: str) -> None:
    # S is 1/2 * (+-1): +1/2 and -1/2, and 0, 0 in the uniform group; the first episode has 7 of 10 tokens
    given = ScoredRollouts(
        rewards=torch.zeros(4, dtype=torch.float64),
        group_ids=torch.tensor([0, 0, 1, 1]),
        components=torch.tensor([[1.0], [0.0], [1.0], [1.0]], dtype=torch.float64),
        weights=torch.tensor([0.5], dtype=torch.float64),
        lengths=torch.tensor([7, 1, 1, 1]),
    )
    credit = recipes.gdpo(whiten=whiten).credit
    *_, over, line = formula_of(credit, given, 0).lines
    # mean 0 and s = sqrt(1/8) of episodes; of tokens mean (7 - 1) / 20 and s = sqrt((7 + 1) / 40 - 0.09)
    mean, deviation, count = ("0", "0.353553", "4 episodes") if whiten == "rollout" else ("0.3", "0.331662", "10 tokens")
    assert over == f"over the {count} of the step: mean of S = {mean}, standard deviation s = {deviation}"
    assert line.startswith(last)
    assert float(line.rpartition("=")[2]) == pytest.approx(float(credit(given)[0]), rel=1e-5)
    assert formula_of(credit, dataclasses.replace(given, components=torch.ones(4, 1, dtype=torch.float64)), 0).lines[-1] == (
        "all sums are equal: A = 0, exactly"
    )


@pytest.mark.parametrize("name", [name for name in recipes.RECIPES if name not in ("grpo", "reinforce")])
def test_the_doctor_computes_the_credit_of_every_recipe_by_hand(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tiny(recipe=name, collect={"max_turns": 2})
    world = World.build(recipe.config, "doctor", loop_worlds.Lookup)
    model = world.new_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
    monkeypatch.setattr(order, "STEPS", (*order.STEPS[:5], order.STEPS[6]))  # learning and processes have tests of their own
    before = weights_hash({key: value.clone() for key, value in model.state_dict().items()})
    outcomes = list(order.examine(Subject(model, "v0", recipe, world)))
    assert [outcome.verdict for outcome in outcomes] == [*["passed"] * 6, "not built yet"], outcomes
    assert weights_hash(model.state_dict()) == before
