"""A run whose template rewrites conversations: it learns the same as without, and who reads the run folder knows what it sees."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from loop_worlds import Lookup, outcome, tiny
from rollout_fakes import Breaking
from test_roserlhf_rollout_rewrite import member

from rosellm.roserlhf import recipes
from rosellm.roserlhf.audit import explain, replay
from rosellm.roserlhf.audit.inspection.order import inspect_run
from rosellm.roserlhf.batching.credit import group_rows, total_reward
from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.batching.tensors import Batch, by_length, micro_batches, pad
from rosellm.roserlhf.cli import main
from rosellm.roserlhf.codec.hf import marker_codec
from rosellm.roserlhf.errors import GroupError
from rosellm.roserlhf.learner.policy import UpdateReport, update_policy
from rosellm.roserlhf.learner.step import Stepper
from rosellm.roserlhf.models.causal import build_llama
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.trainer import world
from rosellm.roserlhf.trainer.recipe import Recipe
from rosellm.roserlhf.trainer.rollouts import whole_rollouts
from rosellm.roserlhf.trainer.run import train
from rosellm.roserlhf.trajectory import Trajectory

WEIGHTS = {"correct": 1.0, "wage": 0.5}
LENGTHS = (["hm", "a", "so so"], ["a", "hm"], ["so so", "hm", "a", "hm"], ["a"])


# -- the update


def rows_of(breaks: Sequence[int], recipe: Recipe) -> list[Row]:
    """Four episodes of one group, broken after the turns in `breaks`."""
    records = [
        record
        for number, lines in enumerate(LENGTHS)
        for record in member(f"m{number}", breaks, lines, [0.3 * (number + 1) ** 2, 0.1, 0.7, 0.2])
    ]
    rollouts = whole_rollouts(records)
    rewards = [total_reward(rollout, WEIGHTS) for rollout in rollouts]
    return group_rows(rollouts, rewards, recipe.credit, drop_uniform=True, weights=WEIGHTS)


def updated(rows: Sequence[Row], recipe: Recipe, micro_batch_rows: int) -> UpdateReport:
    model = build_llama(
        vocabulary_size=200, layers=1, hidden_size=16, heads=2, key_value_heads=1, intermediate_size=16, context_window=128, seed=0
    ).eval()
    stepper: Stepper[Batch] = Stepper(model, learning_rate=0.0, weight_decay=0.0, gradient_clip=1.0)
    try:
        return update_policy(
            stepper,
            rows,
            recipe.objective,
            step=1,
            denominator_mode=recipe.denominator_mode,
            temperature=1.0,
            epochs=1,
            minibatches=1,
            micro_batch_rows=micro_batch_rows,
            learning_rate=0.0,
            shuffle=lambda epoch, count: range(count),
        )
    finally:
        stepper.close()


@pytest.mark.parametrize("name", recipes.RECIPES)
def test_a_rewritten_episode_weighs_in_the_loss_as_much_as_a_whole_one(name: str) -> None:
    # a rewrite that changes no id changes no log-probability: loss, denominator and gradient must stay, whatever the unit is
    recipe = getattr(recipes, name)()
    whole, broken = rows_of((), recipe), rows_of((0, 2), recipe)
    assert (len(whole), len(broken)) == (4, 8)  # 3, 2, 4 and 1 turns: broken after turn 0; 0; 0 and 2; not at all
    expected = updated(whole, recipe, 8).updates[0]
    for micro_batch_rows in (8, 2, 1):
        found = updated(broken, recipe, micro_batch_rows).updates[0]
        assert found.denominator == expected.denominator
        assert found.loss == pytest.approx(expected.loss, rel=1e-5, abs=1e-7)
        assert found.gradient_norm == pytest.approx(expected.gradient_norm, rel=1e-4)


def test_rows_of_one_rollout_share_a_micro_batch_and_a_sequence_id() -> None:
    rows = rows_of((0, 2), recipes.gspo())
    ordered = by_length(rows, whole_rollouts=True)
    parts = micro_batches(ordered, 3, whole_rollouts=True)
    assert sorted(row.trajectory_id for part in parts for row in part) == sorted(row.trajectory_id for row in rows)
    homes = [{row.rollout_id for row in part} for part in parts]
    assert sum(map(len, homes)) == 4  # no rollout stands in two parts
    assert [len(part) for part in micro_batches(by_length(rows), 3)] == [3, 3, len(rows) - 6]
    batch = pad(parts[0], by_rollout=True)
    assert batch.sequence_ids is not None
    assert torch.equal(batch.sequence_ids >= 0, batch.valid_mask)
    assert pad(parts[0]).sequence_ids is None


# -- the run


def broken_world(monkeypatch: pytest.MonkeyPatch, breaks: Sequence[int]) -> None:
    def breaking(tokenizer: Any, tools: Any) -> Breaking:
        return Breaking(marker_codec(tokenizer, tools), breaks)

    monkeypatch.setattr(world, "marker_codec", breaking)


def comparable(found: Mapping[str, Any]) -> dict[str, Any]:
    """What breaks that change no id must not change: rewards, success and tokens; all else is equal up to rounding only."""
    rows = [(row["phase"], row["step"], row.get("success"), row.get("reward"), row.get("tokens")) for row in found["metrics"]]
    return {"rows": rows, "tokens": found["summary"]["tokens"]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that breaks after the first turn of every episode."""
    folder = tmp_path_factory.mktemp("broken") / "run"
    with pytest.MonkeyPatch.context() as patch:
        broken_world(patch, (0,))
        assert train(tiny(steps=2), out=folder).status == "finished"
    return folder


def child_of(folder: Path) -> Trajectory:
    with EventLog.read(folder / "events.db") as log:
        return next(s.trajectory for s in log.trajectories(phase="train") if s.trajectory.parent is not None)


def test_breaks_change_nothing_that_is_learnt(run: Path, tmp_path: Path) -> None:
    whole = train(tiny(steps=2), out=tmp_path / "whole")
    assert comparable(outcome(run)) == comparable(outcome(whole.folder))


def test_metrics_summary_and_ledger_count_rollouts_and_rewrites(run: Path) -> None:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["phase"] == "train"]
    with EventLog.read(run / "events.db") as log:
        records = [s.trajectory for s in log.trajectories(phase="train")]
        launched = [entry.attempt_id for entry in log.ledger() if entry.state == "launched"]
    children = [record for record in records if record.parent is not None]
    assert children
    assert [row["rollouts"] for row in steps] == [12, 12]
    assert sum(row["rewrites"].get("reasoning stripped", 0) for row in steps) == len(children)
    assert sorted(launched) == sorted(record.trajectory_id for record in records if record.parent is None)
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["rewrites"], summary["failures"]) == ({"reasoning stripped": len(children)}, {})
    assert sum(record.sampled_tokens for record in records) == summary["tokens"]["sampled"]


def test_doctor_and_replay_find_nothing_wrong(run: Path) -> None:
    found = list(inspect_run(run))
    assert [check.verdict for check in found] == ["passed"] * len(found), found
    assert replay(run, step=2).equal


def test_explain_tells_the_tokens_of_a_child_at_their_places(run: Path) -> None:
    child = child_of(run)
    told = explain(run, child.trajectory_id)
    assert told.problems == ()
    assert child.parent is not None
    assert any(f"record 2 of 2 of one episode, after {child.parent.record_id}" in line for line in told.headline)
    sampled = [token.token_id for token in told.tokens if token.sampled]
    assert sampled == [token for action in child.actions for token in action.token_ids]
    parent = explain(run, child.parent.record_id)
    assert (parent.problems, parent.credit.reward, parent.credit.members) == ((), told.credit.reward, told.credit.members)
    # the child begins with what its parent ended with
    assert [token.token_id for token in told.tokens[: len(parent.tokens)]] == [token.token_id for token in parent.tokens]
    places = [token.position for update in told.updates for token in update.tokens]
    assert all(told.tokens[place].sampled for place in places)


def test_show_and_report_read_episodes_not_records(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run), "--limit", "20"]) == 0
    shown = capsys.readouterr().out
    assert "12 of 12 trajectories" in shown
    assert "rewritten once" in shown
    child = child_of(run)
    assert main(["show", str(run), child.trajectory_id]) == 0
    shown = capsys.readouterr().out
    assert child.parent is not None
    assert f"rewrite of {child.parent.record_id}" in shown.replace("\n", "")
    assert "not in the ledger" not in shown
    page = (run / "report.html").read_text()
    assert "Conversations that the template rewrote" in page
    assert "reasoning stripped" in page
    assert "Why rollouts failed" not in page  # none did


def test_an_export_and_its_import_keep_every_record_and_link(run: Path, tmp_path: Path) -> None:
    assert main(["export", str(run), "--out", str(tmp_path / "out")]) == 0
    assert main(["import", str(tmp_path / "out"), "--out", str(tmp_path / "back")]) == 0
    with EventLog.read(run / "events.db") as one, EventLog.read(tmp_path / "back" / "events.db") as other:
        assert [s.trajectory for s in other.trajectories()] == [s.trajectory for s in one.trajectories()]
        assert list(other.ledger()) == list(one.ledger())


def test_a_killed_run_goes_on_to_the_same_numbers(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken_world(monkeypatch, (0,))
    asked = iter([False] * 11 + [True] + [False] * 99)
    first = train(tiny(steps=2), out=tmp_path / "run", should_stop=lambda: next(asked))
    assert first.status == "interrupted"
    assert train(tiny(steps=2), out=tmp_path / "run", resume=True).status == "finished"
    assert outcome(tmp_path / "run") == outcome(run)


# -- failures


class Flaky(Lookup):
    """Every third verdict cannot be had."""

    asked = 0

    def score(self) -> Mapping[str, float | None]:
        type(self).asked += 1
        if type(self).asked % 3 == 0:
            raise OSError("the grader is gone")
        return super().score()


def test_R58_failures_are_counted_and_too_many_stop_the_run(tmp_path: Path) -> None:
    options: dict[str, Any] = {"steps": 1, "warm_start": {"max_steps": 0}, "evaluate": {"tasks": 2, "every": 0}}
    done = train(tiny(**options), environment=Flaky, out=tmp_path / "run")
    assert done.summary is not None
    assert done.summary["failures"] == {"score raised OSError: the grader is gone": 4}  # 12 episodes
    with pytest.raises(GroupError) as raised:
        train(tiny(**options, max_failed_share=0.3), environment=Flaky, out=tmp_path / "stopped")
    assert str(raised.value) == (
        "step 1: a step must have at most 3.6 failed episodes of 12, got 4 that failed, most often (4 times): "
        "score raised OSError: the grader is gone; mend that, or raise max_failed_share = 0.3"
    )
