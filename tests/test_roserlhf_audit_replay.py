"""Replay: a run that was left alone is equal to the last bit; whatever was changed since is named where it was changed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import re
import shutil
import sqlite3
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from loop_tampering import flip_weight, of_kind, of_trajectory, rewrite, with_action, with_logprob, with_reward
from loop_worlds import Lookup, lines, tiny

from rosellm.roserlhf.audit import Replay, replay
from rosellm.roserlhf.audit.rerun import replay as rerun_module
from rosellm.roserlhf.audit.rerun import step as rerun_step_module
from rosellm.roserlhf.audit.rerun.comparison import DRIFTING, GROWTH, QUANTITIES, STEPS, Comparison, Tolerance
from rosellm.roserlhf.cli import main
from rosellm.roserlhf.errors import CheckpointError, RangeError, RunFolderError, StoreError
from rosellm.roserlhf.store import EventLog, LedgerEntry, Metrics, Policy, Update
from rosellm.roserlhf.trainer import learning, world
from rosellm.roserlhf.trainer import run as run_module
from rosellm.roserlhf.trainer.checkpoint import checkpoint_steps
from rosellm.roserlhf.trainer.progress import Progress
from rosellm.roserlhf.trainer.provenance import provenance, this_machine
from rosellm.roserlhf.trainer.run import train
from rosellm.roserlhf.trajectory import Trajectory

QUICK: dict[str, Any] = {"evaluate": {"tasks": 2, "every": 0}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 4 steps with checkpoints 0, 2 and 4, two epochs of two updates each."""
    folder = tmp_path_factory.mktemp("made") / "run"
    train(tiny(**QUICK, optimizer={"epochs": 2}), out=folder)
    assert checkpoint_steps(folder / "checkpoints") == [0, 2, 4]
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy of it that may be spoilt."""
    return Path(shutil.copytree(made, tmp_path / "run"))


def compared(found: Replay) -> dict[str, int]:
    return {line.quantity: line.compared for line in found.quantities}


# ---- a run that was left alone


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_every_step_is_equal_bit_for_bit(made: Path, step: int) -> None:
    found = replay(made, step=step)
    assert (found.equal, found.first, found.elsewhere) == (True, None, ())
    assert found.checkpoint == {1: 0, 2: 0, 3: 2, 4: 2}[step]
    assert {line.quantity for line in found.quantities} == set(QUANTITIES)
    assert all((line.differing, line.largest or 0.0) == (0, 0.0) for line in found.quantities)
    steps = range(found.checkpoint + 1, step + 1)
    assert compared(found)["weights"] == len(steps)
    assert compared(found)["gradient norm"] == 4 * len(steps)
    with EventLog.read(made / "events.db") as log:
        tokens = sum(len(row.current_logprobs) for update in log.updates() for row in update.rows if update.step in steps)
        records = sum(stored.step in steps for stored in log.trajectories(phase="train"))
    assert compared(found)["current log-probability"] == tokens
    assert compared(found)["reward"] == compared(found)["row"] == records


@pytest.mark.parametrize(
    "options",
    [
        {"recipe": "reinforce", "optimizer": {"minibatches": 1}, "keep_checkpoints": 1},
        {"drop_uniform_groups": False, "collect": {"temperature": 0.7, "top_p": 0.8}, "optimizer": {"epochs": 2, "minibatches": 3}},
        {"warm_start": {"max_steps": 0}, "optimizer": {"micro_batch_rows": 1, "weight_decay": 0.1}, "keep_checkpoints": 1},
    ],
)
def test_every_recipe_and_option_is_replayed_from_the_first_checkpoint(tmp_path: Path, options: dict[str, Any]) -> None:
    train(tiny(**QUICK, steps=3, **options), out=tmp_path / "run")
    for step in checkpoint_steps(tmp_path / "run" / "checkpoints")[1:]:
        shutil.rmtree(tmp_path / "run" / "checkpoints" / str(step))
    found = replay(tmp_path / "run", step=3)
    assert (found.checkpoint, found.equal) == (0, True), found.first


def test_one_checkpoint_besides_the_first_is_enough_after_any_number_of_resumes(tmp_path: Path) -> None:
    options: dict[str, Any] = {**QUICK, "keep_checkpoints": 1, "warm_start": {"max_steps": 1}}
    train(tiny(**options), out=tmp_path / "run", should_stop=lambda: True)
    while train(tiny(**options), out=tmp_path / "run", resume=True, should_stop=lambda: True).status == "interrupted":
        assert checkpoint_steps(tmp_path / "run" / "checkpoints")[0] == 0
    assert checkpoint_steps(tmp_path / "run" / "checkpoints") == [0, 4]
    found = replay(tmp_path / "run", step=4)
    assert (found.checkpoint, found.equal) == (0, True), found.first


def test_neither_threads_nor_workers_matter(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    monkeypatch.setattr(learning, "worker_count", lambda device: 3)
    try:
        assert replay(made, step=4).equal
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_the_folder_is_enough_when_the_environment_is_gone_or_changed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> None:
        raise AssertionError(f"the environment {name} was asked for")

    monkeypatch.setattr(world, "environment_class", gone)
    monkeypatch.setattr(Lookup, "reward_weights", {"correct": 2.0})
    shutil.rmtree(run / "tokenizer")
    shutil.rmtree(run / "model")
    moved = run.rename(run.parent / "moved")
    assert replay(moved, step=4).equal


class Weighed(Lookup):
    """Its weighted sum depends on the order of its components in the last bit: 0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1."""

    reward_weights: ClassVar[Mapping[str, float]] = {"c": 0.1, "b": 0.2, "a": 0.3, "correct": 1.0}

    def score(self) -> Mapping[str, float | None]:
        return {**super().score(), "a": 1.0, "b": 1.0, "c": 1.0}


def test_rewards_are_added_up_in_the_order_of_their_weights(tmp_path: Path) -> None:
    train(tiny(**QUICK, steps=1, warm_start={"max_steps": 1}), environment=Weighed, out=tmp_path / "run")
    found = replay(tmp_path / "run", step=1)
    assert found.equal, found.first


def test_superseded_steps_play_no_part(tmp_path: Path) -> None:
    calls = [0]

    def after_three() -> bool:
        calls[0] += 1
        return calls[0] == 12 + 2  # twelve cloning steps, asked once each but for the last, and three of training

    folder = tmp_path / "run"
    assert train(tiny(**QUICK), out=folder, should_stop=after_three).status == "interrupted"
    assert checkpoint_steps(folder / "checkpoints") == [0, 2, 3]
    shutil.rmtree(folder / "checkpoints" / "3")  # step 3 is made again
    train(tiny(**QUICK), out=folder, resume=True)
    with EventLog.read(folder / "events.db") as log:
        assert len(list(log.updates(step=3, include_superseded=True))) == 2 * len(list(log.updates(step=3)))
    for step in (3, 4):
        assert replay(folder, step=step).equal


def test_updates_that_were_refused_are_replayed_as_refused(tmp_path: Path) -> None:
    recipe = tiny(**QUICK, steps=3, collect={"tasks": 6})
    plain = recipe.objective

    def exploding(*args: Any, **options: Any) -> Any:
        output = plain(*args, **options)  # the loss of the micro-batches with one advantage sign only is infinite
        return dataclasses.replace(output, loss=output.loss * math.inf) if bool((args[2][args[3]] > 0).all()) else output

    composed = dataclasses.replace(recipe, objective=exploding)
    train(
        dataclasses.replace(composed, config=tiny(**QUICK, steps=3, optimizer={"micro_batch_rows": 1}).config), out=tmp_path / "r"
    )
    skipped = [line["updates"]["skipped"] for line in lines(tmp_path / "r") if line["phase"] == "train"]
    assert ["the gradient is not finite"] in [reasons[:1] for reasons in skipped]
    config = tiny(**QUICK, steps=3, optimizer={"micro_batch_rows": 1}).config
    assert replay(tmp_path / "r", step=3, recipe=dataclasses.replace(composed, config=config)).equal
    found = replay(tmp_path / "r", step=3)  # without that objective the updates would have been made
    assert found.first is not None


def test_a_step_without_a_signal_is_replayed_as_one(tmp_path: Path) -> None:
    class Uniform(Lookup):
        """Everyone gets the same."""

        def score(self) -> Mapping[str, float | None]:
            return {"correct": 0.0, "parity": 0.35}

    Uniform.__name__ = Uniform.__qualname__ = "Lookup"  # the same tasks
    train(tiny(**QUICK, steps=1, warm_start={"max_steps": 0}), environment=Uniform, out=tmp_path / "run")
    found = replay(tmp_path / "run", step=1)
    assert found.equal
    with EventLog.read(tmp_path / "run" / "events.db") as log:
        (update,) = log.updates()
    assert (update.rows, update.skipped, update.denominator) == ((), "no tokens to train", 0.0)


def test_a_run_that_is_still_written_is_read(tmp_path: Path) -> None:
    found: list[Replay] = []

    def tell(progress: Progress) -> None:
        if (progress.phase, progress.step) == ("train", 3):
            found.append(replay(tmp_path / "run", step=3))
            with pytest.raises(RangeError, match="got 4; the run has made steps 1 to 3"):
                replay(tmp_path / "run", step=4)

    train(tiny(**QUICK), out=tmp_path / "run", on_progress=tell)
    assert [one.equal for one in found] == [True]


# ---- what was changed since is named


def members(folder: Path, step: int) -> list[Trajectory]:
    """Records of a step that were trained, in the order of the log."""
    with EventLog.read(folder / "events.db") as log:
        trained = {row.trajectory_id for update in log.updates(step=step) for row in update.rows}
        stored = log.trajectories(phase="train", step=step)
        return [one.trajectory for one in stored if one.trajectory.trajectory_id in trained]


def context_before(trajectory: Trajectory, turn: int) -> int:
    """Ids before the first token of a turn."""
    count = sum(len(span.token_ids) for span in trajectory.prompt if hasattr(span, "token_ids"))
    for action, transition in zip(trajectory.actions[:turn], trajectory.transitions, strict=False):
        count += len(action.token_ids) + sum(len(span.token_ids) for span in transition.observation)
    return count


def test_an_edited_reward_is_named(run: Path) -> None:
    one = members(run, 3)[1]
    old = one.reward_totals()["correct"]
    rewrite(run, of_trajectory(one.trajectory_id, lambda t: with_reward(t, "correct", 3.0)))
    found = replay(run, step=4)
    assert found.first is not None
    assert (found.first.step, found.first.quantity, found.first.trajectory_id) == (3, "reward", one.trajectory_id)
    weighted = 0.5 * (one.reward_totals()["parity"] or 0.0)
    assert (found.first.recorded, found.first.recomputed) == ((old or 0.0) + weighted, 3.0 + weighted)
    differing = {line.quantity: line.differing for line in found.quantities}
    assert differing["reward"] == 1
    assert differing["advantage"] >= 1
    assert differing["weights"] == 2


@pytest.mark.parametrize("where", ["logprob", "token"])
def test_an_edited_token_is_named(run: Path, where: str) -> None:
    one = next(t for t in members(run, 3) if len(t.actions) > 1 and len(t.actions[1].token_ids) > 1)
    place = 1

    def change(action: Any) -> Any:
        if where == "logprob":
            numbers = list(action.old_logprobs)
            numbers[place] -= 2.0
            return dataclasses.replace(action, old_logprobs=numbers)
        ids = list(action.token_ids)
        ids[place] = (ids[place] + 40) % 90
        return dataclasses.replace(action, token_ids=ids)

    rewrite(run, of_trajectory(one.trajectory_id, lambda t: with_action(t, 1, change)))
    first = replay(run, step=3).first
    assert first is not None
    assert (first.quantity, first.trajectory_id) == ("behaviour log-probability", one.trajectory_id)
    assert (first.turn, first.position) == (1, context_before(one, 1) + place)
    changed = change(one.actions[1])
    assert first.token_id == changed.token_ids[place]
    assert first.recorded == pytest.approx(changed.old_logprobs[place])
    if where == "logprob":
        assert first.recomputed == pytest.approx(first.recorded + 2.0, abs=1e-4)


def test_an_edit_too_small_to_locate_still_names_the_record(run: Path) -> None:
    one = members(run, 4)[0]

    def change(action: Any) -> Any:
        numbers = list(action.old_logprobs)
        numbers[0] -= 1e-7
        return dataclasses.replace(action, old_logprobs=numbers)

    rewrite(run, of_trajectory(one.trajectory_id, lambda t: with_action(t, 0, change)))
    first = replay(run, step=4).first
    assert first is not None
    assert (first.step, first.quantity, first.trajectory_id) == (4, "hash of the row", one.trajectory_id)


def test_a_missing_record_is_named(run: Path) -> None:
    one = members(run, 4)[2]
    rewrite(run, of_trajectory(one.trajectory_id, lambda t: None))
    first = replay(run, step=4).first
    assert first is not None
    assert (first.quantity, first.trajectory_id, first.recorded, first.recomputed) == (
        "record",
        one.trajectory_id,
        "launched",
        None,
    )


def _other_advantage(entry: LedgerEntry) -> LedgerEntry:
    if entry.state != "trained":
        return entry
    return dataclasses.replace(entry, detail={**entry.detail, "advantage": 9.0})


CHANGES: dict[str, tuple[type[Any], Callable[[Any], Any], str, dict[str, Any]]] = {
    "advantage": (LedgerEntry, _other_advantage, "advantage", {"recorded": 9.0}),
    "loss": (Update, lambda u: dataclasses.replace(u, loss=u.loss + 1e-9), "loss", {"update": 0}),
    "denominator": (Update, lambda u: dataclasses.replace(u, denominator=1.0), "denominator", {"update": 0, "recorded": 1.0}),
    "gradient norm": (
        Update,
        lambda u: dataclasses.replace(u, gradient_norm=0.0),
        "gradient norm",
        {"update": 0, "recorded": 0.0},
    ),
    "learning rate": (Update, lambda u: dataclasses.replace(u, learning_rate=1.0), "learning rate", {"update": 0}),
    "skipped": (
        Update,
        lambda u: dataclasses.replace(u, skipped="bored"),
        "why the update was skipped",
        {"update": 0, "recorded": "bored", "recomputed": None},
    ),
    "row order": (Update, lambda u: dataclasses.replace(u, rows=u.rows[::-1]), "rows of the update", {"update": 0}),
    "lost update": (Update, lambda u: None, "number of updates", {"recorded": 3, "recomputed": 4}),
    "metric": (
        Metrics,
        lambda m: m if m.phase != "train" else dataclasses.replace(m, values={**m.values, "success": 0.99}),
        "metric success",
        {"recorded": 0.99},
    ),
    "policy": (Policy, lambda p: dataclasses.replace(p, content_hash="0" * 64), "hash of the weights v3", {"recorded": "0" * 64}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_account_is_named_and_nothing_else_differs(run: Path, name: str) -> None:
    kind, change, quantity, expected = CHANGES[name]
    rewrite(run, of_kind(kind, 3, change))
    found = replay(run, step=4)
    assert found.first is not None
    assert (found.first.step, found.first.quantity) == (3, quantity)
    assert {key: getattr(found.first, key) for key in expected} == expected
    if name != "lost update":  # the records were left alone, so what was made of them is what was recorded
        assert sum(line.differing for line in found.quantities) == 1


def test_a_changed_logprob_of_the_evidence_is_named_by_its_token(run: Path) -> None:
    with EventLog.read(run / "events.db") as log:
        update = next(iter(log.updates(step=3)))
    row = update.rows[1]
    rewrite(run, of_kind(Update, 3, lambda u: with_logprob(u, 1, 2, -0.125)))
    found = replay(run, step=3)
    first = found.first
    assert first is not None
    assert (first.quantity, first.update, first.trajectory_id) == ("current log-probability", 0, row.trajectory_id)
    assert (first.recorded, first.recomputed) == (-0.125, row.current_logprobs[2])
    record = next(t for t in members(run, 3) if t.trajectory_id == row.trajectory_id)
    turn, before = (0, 0) if len(record.actions[0].token_ids) > 2 else (1, len(record.actions[0].token_ids))
    assert (first.turn, first.position) == (turn, context_before(record, turn) + 2 - before)
    assert first.token_id == record.actions[turn].token_ids[2 - before]
    assert str(first) == (
        f"step 3, update 0, trajectory {row.trajectory_id!r}, turn {turn}, position {first.position} (token {first.token_id}): "
        f"current log-probability recorded as -0.125, recomputed as {row.current_logprobs[2]!r}"
    )


def test_a_flipped_weight_that_the_hashes_were_fixed_for_is_named(run: Path) -> None:
    flip_weight(run / "checkpoints" / "2", fix_hash=True)
    found = replay(run, step=3)
    assert found.first is not None
    assert (found.first.step, found.first.quantity) == (2, "weights of checkpoint 2")
    assert replay(run, step=2).equal  # starts at checkpoint 0


def test_R66_a_damaged_checkpoint_is_named_and_the_one_before_it_is_taken(run: Path) -> None:
    flip_weight(run / "checkpoints" / "2", fix_hash=False)
    found = replay(run, step=4)
    assert found.checkpoint == 0
    assert found.first is not None
    assert (found.first.step, found.first.quantity) == (2, "checkpoint")
    assert "another model.safetensors" in found.first.recomputed
    assert sum(line.differing for line in found.quantities) == 1  # the step itself is as it was
    flip_weight(run / "checkpoints" / "0", fix_hash=False)
    with pytest.raises(CheckpointError, match="must hold a whole checkpoint before step 4 to be replayed, got none; checkpoint "):
        replay(run, step=4)


def test_a_record_whose_checksum_is_wrong_is_refused(run: Path) -> None:
    with contextlib.closing(sqlite3.connect(run / "events.db")) as database:
        database.execute("UPDATE ledger SET sampled = sampled + 1 WHERE step = 4 AND sampled IS NOT NULL")
        database.commit()
    with pytest.raises(StoreError, match=r"is damaged: row \d+ of ledger"):
        replay(run, step=4)


# ---- elsewhere


def another_machine(device: torch.device) -> dict[str, str]:
    return {**here(device), "torch": "1.0", "processor": "an abacus"}


here = this_machine


def test_elsewhere_the_tolerance_is_stated_and_hashes_are_no_pass(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rerun_module, "this_machine", another_machine)
    found = replay(run, step=4)
    assert found.equal
    assert [reason.partition(" ")[0] for reason in found.elsewhere] == ["processor", "torch"]
    assert "here it is '1.0'" in found.elsewhere[1]
    table = {line.quantity: line for line in found.quantities}
    assert (table["weights"].allowed, table["weights"].compared, table["weights"].incomparable) == (None, 0, 2)
    assert table["loss"].allowed == DRIFTING["loss"] * GROWTH  # steps 3 and 4 after checkpoint 2
    assert table["checkpoint"].allowed == table["row"].allowed == 0.0  # no arithmetic lies between: the same everywhere
    rewrite(run, of_kind(Update, 3, lambda u: with_logprob(u, 1, 2, -30.0)))
    first = replay(run, step=4).first
    assert first is not None
    assert first.quantity == "current log-probability"


def test_a_run_that_moved_between_machines_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = {**QUICK, "warm_start": {"max_steps": 1}}
    train(tiny(**short), out=tmp_path / "run", should_stop=lambda: True)
    for _ in range(2):
        train(tiny(**short), out=tmp_path / "run", resume=True, should_stop=lambda: True)
    monkeypatch.setattr(run_module, "this_machine", another_machine)
    train(tiny(**short), out=tmp_path / "run", resume=True)
    for step, reasons in ((1, 0), (2, 0), (3, 0), (4, 2)):
        assert len(replay(tmp_path / "run", step=step).elsewhere) == reasons


def test_what_was_recorded_about_the_machine_says_whether_bits_can_be_compared(made: Path) -> None:
    with EventLog.read(made / "events.db") as log:
        entered = provenance(log, 4)
    assert {"system", "processor", "instructions", "threads", "device", "torch", "numpy", "transformers"} <= set(entered.machine)
    assert entered.machine["threads"] == "1"
    assert (entered.reward_weights, entered.success_component) == ({"correct": 1.0, "parity": 0.5}, "correct")


def test_far_from_a_checkpoint_only_what_rounding_cannot_change_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tiny(**QUICK, steps=STEPS + 2, checkpoint_every=100), out=tmp_path / "run")
    monkeypatch.setattr(rerun_module, "this_machine", another_machine)
    table = {line.quantity: line for line in replay(tmp_path / "run", step=STEPS + 2).quantities}
    assert (table["loss"].compared, table["loss"].incomparable) == (2 * STEPS, 2 * 2)
    assert (table["reward"].incomparable, table["advantage"].incomparable, table["row"].incomparable) == (0, 0, 0)


def test_numbers_are_equal_by_bits_here_and_by_distance_elsewhere() -> None:
    pairs = [(math.nan, math.nan, True, True), (0.0, -0.0, False, True), (1.0, 1.0 + 1e-15, False, True), (1.0, 1.1, False, False)]
    pairs += [(1e6, 1e6 + 50, False, True), (math.inf, math.inf, True, True), (math.inf, 1.0, False, False)]
    for recorded, recomputed, exact, near in pairs:
        for elsewhere, expected in ((False, exact), (True, near)):
            found = Comparison(Tolerance(elsewhere, 0)).value("metric", 1, recorded, recomputed)
            assert found is expected, (recorded, recomputed)
    for elsewhere in (False, True):
        assert not Comparison(Tolerance(elsewhere, 0)).value("metric", 1, None, 0.0)  # None is not 0
        assert not Comparison(Tolerance(elsewhere, 0)).value("metric", 1, math.nan, 0.0)


# ---- resumed with other rewards


def test_a_resumed_run_keeps_its_reward_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tiny(**QUICK, warm_start={"max_steps": 1}), out=tmp_path / "run", should_stop=lambda: True)
    train(tiny(**QUICK, warm_start={"max_steps": 1}), out=tmp_path / "run", resume=True, should_stop=lambda: True)
    for weights, said in (
        ({"correct": 1.0}, "reward_weights.parity = None where 0.5"),
        ({"correct": 2.0, "parity": 0.5}, "reward_weights.correct = 2.0 where 1.0"),
        ({"correct": 1.0, "parity": 0.5, "style": 1.0}, "reward_weights.style = 1.0 where None"),
    ):
        monkeypatch.setattr(Lookup, "reward_weights", weights)
        with pytest.raises(
            RunFolderError, match=rf"must reward as when the run was started, got {re.escape(said)} is what events.db"
        ):
            train(tiny(**QUICK, warm_start={"max_steps": 1}), out=tmp_path / "run", resume=True)
    monkeypatch.undo()
    assert train(tiny(**QUICK, warm_start={"max_steps": 1}), out=tmp_path / "run", resume=True).status == "finished"


# ---- wrong usage, the command, Ctrl-C


@pytest.mark.parametrize("step", [0, 5, -1, True, "3", 2.0])
def test_a_step_that_was_not_made_is_refused(made: Path, step: Any) -> None:
    with pytest.raises(RangeError, match=r"step must be a training step that was made, got .*; the run has made steps 1 to 4"):
        replay(made, step=step)


def test_what_is_no_run_or_a_changed_one_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"run must be a run folder, which holds run\.toml, got "):
        replay(tmp_path / "nothing", step=1)
    file = run / "run.toml"
    file.write_text(file.read_text().replace("clip_low = 0.2", "clip_low = 0.3"))
    with pytest.raises(RunFolderError, match=r"run\.toml must be as the run was started, got clip_low = 0\.3 where 0\.2 is what"):
        replay(run, step=1)


def test_a_run_that_recorded_too_little_is_refused(run: Path) -> None:
    rewrite(run, lambda item: None if isinstance(item, Metrics) and item.phase == "process" else item)
    with pytest.raises(RunFolderError, match="run must say which machine and reward weights made step 3, got nothing about it"):
        replay(run, step=3)


def test_an_interrupt_leaves_no_thread_behind(made: Path) -> None:
    before = set(threading.enumerate())

    def tell(progress: Progress) -> None:
        if progress.step == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(made, step=2, on_progress=tell)
    assert set(threading.enumerate()) == before


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run the command here; return exit code, output and errors."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name, value in (("OMP_WAIT_POLICY", "PASSIVE"), ("KMP_BLOCKTIME", "0"), ("COLUMNS", "200")):
        monkeypatch.setenv(name, value)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["replay", *arguments])
        return (code, *capsys.readouterr())

    return call


def test_the_command_says_equal_or_what_differs(run: Path, command: Callable[..., Any], tmp_path: Path) -> None:
    code, out, err = command(str(run), "--step", "4", "--json", str(tmp_path / "found.json"))
    assert (code, err) == (0, "")
    assert f"{run}: steps 3 to 4 computed again from checkpoint 2" in out
    assert "same machine, same versions: every number must be the same bit for bit" in out
    assert out.splitlines()[-1] == "equal"
    saved = json.loads((tmp_path / "found.json").read_text())
    assert (saved["equal"], saved["step"], saved["checkpoint"], saved["first"]) == (True, 4, 2, None)
    one = members(run, 3)[0]
    rewrite(run, of_trajectory(one.trajectory_id, lambda t: with_reward(t, "correct", 3.0)))
    code, out, err = command(str(run), "--step", "3", "--json", str(tmp_path / "found.json"))
    assert (code, err) == (1, "")
    assert out.splitlines()[-1].startswith(f"first difference: step 3, trajectory {one.trajectory_id!r}: reward recorded as ")
    assert json.loads((tmp_path / "found.json").read_text())["first"]["trajectory_id"] == one.trajectory_id


def test_the_command_elsewhere_prints_what_is_allowed(
    made: Path, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rerun_module, "this_machine", another_machine)
    code, out, _ = command(str(made), "--step", "1")
    assert code == 0
    assert "the same bits cannot be expected here:" in out
    assert "processor was" in out
    rows = [line.split() for line in out.splitlines()]
    assert ["weights", "0", "1", "0"] in rows
    assert out.splitlines()[-1] == "equal within what is allowed, as far as it can be compared here"


def test_what_stands_in_the_folder_is_shown_and_never_sent_to_the_terminal(run: Path, command: Callable[..., Any]) -> None:
    hostile = "\x1b]0;owned\x07[red]"
    rewrite(run, of_kind(Metrics, 4, lambda m: dataclasses.replace(m, values={**m.values, hostile: 1.0})))
    code, out, _ = command(str(run), "--step", "4")
    assert code == 1
    assert "\x1b" not in out
    assert out.splitlines()[-1] == (
        "first difference: step 4: metric ⟨U+001B⟩]0;owned⟨U+0007⟩[red] recorded as 1.0, recomputed as None"
    )


def test_an_interrupted_command_ends_with_130(run: Path, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rerun_step_module, "learn", interrupted)
    code, out, err = command(str(run), "--step", "4")
    assert (code, err) == (130, "")
    assert "equal" not in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--step", "9"], "step must be a training step that was made, got 9; the run has made steps 1 to 4"),
        (["--step", "0"], "step must be greater than or equal to 1, got 0 (int)"),
        ([], "--step must be given, got none; it is the training step to compute again; --environment plays episodes again"),
        (["--step", "1", "--jsn", "x"], "unknown option --jsn; did you mean --json?"),
    ],
)
def test_wrong_usage_is_exit_code_2(made: Path, command: Callable[..., Any], arguments: list[str], said: str) -> None:
    assert command(str(made), *arguments) == (2, "", f"roserlhf: error: {said}\n")


def test_no_run_is_exit_code_2_and_a_damaged_one_1(run: Path, command: Callable[..., Any], tmp_path: Path) -> None:
    code, _, err = command(str(tmp_path / "nowhere"), "--step", "1")
    assert (code, err) == (2, f"roserlhf: error: RUN must be a run folder, got {tmp_path / 'nowhere'}, which holds no run.toml\n")
    shutil.rmtree(run / "checkpoints")
    code, _, err = command(str(run), "--step", "1")
    assert (code, err) == (1, "roserlhf: error: run must hold a whole checkpoint before step 1 to be replayed, got none\n")
