"""The inspection of a run folder: a real run passes, and whatever is changed in it afterwards is named by its check alone."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import loop_tampering as tampering
import loop_worlds
import pytest
import torch
from safetensors.torch import load_file, save_file

from rosellm.roserlhf import train
from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.inspection.order import inspect_run
from rosellm.roserlhf.cli import main
from rosellm.roserlhf.errors import RunFolderError
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.store.ledger import LedgerEntry
from rosellm.roserlhf.store.rows import Metrics, StoredTrajectory
from rosellm.roserlhf.store.tables import TRAJECTORIES, Table, checksum
from rosellm.roserlhf.store.updates import Update

NAMES = (
    "configuration", "event log", "policy table", "records", "ledger", "tokens", "updates", "metrics",
    "checkpoints", "first checkpoint", "exported model", "tokenizer", "summary", "leftovers",
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doctor") / "run"
    recipe = loop_worlds.tiny(warm_start={"max_steps": 4}, collect={"group_size": 3})
    train(recipe, out=folder)
    return folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "run")


def inspected(folder: Path) -> dict[str, Outcome]:
    return {outcome.name: outcome for outcome in inspect_run(folder)}


def sql(folder: Path, statement: str, *values: Any) -> list[Any]:
    with sqlite3.connect(folder / "events.db") as connection:
        found = connection.execute(statement, values).fetchall()
    connection.close()
    return found


def edited(folder: Path, table: Table, row: int, **columns: Any) -> None:
    """Change a row and make its checksum right again."""
    for name, value in columns.items():
        sql(folder, f"UPDATE {table.name} SET {name} = ? WHERE row = ?", value, row)
    (values,) = sql(folder, f"SELECT {', '.join(table.columns)} FROM {table.name} WHERE row = ?", row)
    sql(folder, f"UPDATE {table.name} SET checksum = ? WHERE row = ?", checksum(table, row, values), row)


def trained_row(folder: Path) -> tuple[int, str]:
    (found, *_) = sql(folder, "SELECT row, attempt_id FROM ledger WHERE state = 'trained'")
    return int(found[0]), str(found[1])


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(bytes(data))


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file but those that SQLite keeps beside a database while anybody reads it."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal"))}


def test_a_run_passes_every_check_and_is_left_as_it_was(run: Path) -> None:
    before = contents(run)
    outcomes = inspected(run)
    assert tuple(outcomes) == NAMES
    assert {outcome.verdict for outcome in outcomes.values()} == {"passed"}, outcomes
    assert contents(run) == before


def cut_run_toml(folder: Path) -> None:
    path = folder / "run.toml"
    path.write_bytes(path.read_bytes()[:5])


def forget_an_option(folder: Path) -> None:
    path = folder / "run.toml"
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith("gradient_clip")))


def edit_an_option(folder: Path) -> None:
    replaced(folder / "run.toml", "learning_rate = 0.01", "learning_rate = 0.02")


def damage_the_database(folder: Path) -> None:
    (folder / "events.db").write_bytes(b"nothing of the kind" * 100)


def lose_the_database(folder: Path) -> None:
    (folder / "events.db").unlink()


def flip_a_ledger_row(folder: Path) -> None:
    sql(folder, "UPDATE ledger SET sampled = sampled + 1 WHERE row = (SELECT MIN(row) FROM ledger WHERE sampled > 0)")


def flip_a_record(folder: Path) -> None:
    sql(folder, "UPDATE records SET record = CAST(record || x'00' AS BLOB) WHERE row = 5")


def exchange_two_records(folder: Path) -> None:
    (five,), (six,) = sql(folder, "SELECT record FROM records WHERE row IN (5, 6)")
    for row, record in ((5, six), (6, five)):
        sql(folder, "UPDATE records SET record = ? WHERE row = ?", record, row)


def edit_a_column(folder: Path) -> None:
    edited(folder, TRAJECTORIES, 5, tokens=sql(folder, "SELECT tokens FROM trajectories WHERE row = 5")[0][0] + 1)


def name_an_unknown_policy(folder: Path) -> None:
    def change(item: Any) -> Any:
        if not isinstance(item, StoredTrajectory) or item.phase != "train":
            return item
        other = dataclasses.replace(item.trajectory.actions[0], policy_version="v77", version_spans=())
        actions = [other, *item.trajectory.actions[1:]]
        return dataclasses.replace(item, trajectory=dataclasses.replace(item.trajectory, actions=actions))

    tampering.rewrite(folder, change)


def label_stale_weights_fresh(folder: Path) -> None:
    """A record of step 2 claims to come from the weights that step 2 made."""

    def change(item: Any) -> Any:
        if not isinstance(item, StoredTrajectory) or (item.phase, item.step) != ("train", 2):
            return item
        actions = [dataclasses.replace(a, policy_version="v2", version_spans=()) for a in item.trajectory.actions]
        return dataclasses.replace(item, trajectory=dataclasses.replace(item.trajectory, actions=actions))

    tampering.rewrite(folder, change)


def edit_a_log_probability(folder: Path) -> None:
    name = trained_row(folder)[1]

    def change(trajectory: Any) -> Any:
        return tampering.with_action(
            trajectory, 0, lambda a: dataclasses.replace(a, old_logprobs=[a.old_logprobs[0] - 1e-6, *a.old_logprobs[1:]])
        )

    tampering.rewrite(folder, tampering.of_trajectory(name, change))


def exchange_two_policies(folder: Path) -> None:
    steps = {"v1": 2, "v2": 1}
    tampering.rewrite(
        folder, lambda item: dataclasses.replace(item, step=steps[item.version]) if getattr(item, "version", "") in steps else item
    )


def lose_a_hash(folder: Path) -> None:
    tampering.rewrite(
        folder, lambda item: dataclasses.replace(item, content_hash=None) if getattr(item, "version", "") == "v3" else item
    )


def lose_a_record(folder: Path) -> None:
    tampering.rewrite(folder, tampering.of_trajectory(trained_row(folder)[1], lambda trajectory: None))


def lose_a_ledger_event(folder: Path) -> None:
    name = trained_row(folder)[1]
    tampering.rewrite(
        folder, lambda item: None if isinstance(item, LedgerEntry) and (item.attempt_id, item.state) == (name, "trained") else item
    )


def move_tokens_in_the_ledger(folder: Path) -> None:
    def change(item: Any) -> Any:
        if not isinstance(item, LedgerEntry) or item.state != "trained":
            return item
        return dataclasses.replace(item, trained=(item.trained or 0) - 1, excluded={"stale prefix cache": 1})

    tampering.rewrite(folder, change)


def lose_tokens_in_the_metrics(folder: Path) -> None:
    def fewer(values: Mapping[str, Any]) -> dict[str, Any]:
        tokens = values["tokens"]
        return {**values, "tokens": {**tokens, "trained": tokens["trained"] - 1}}

    def change(item: Any) -> Any:
        if not isinstance(item, Metrics) or item.phase != "train":
            return item
        return dataclasses.replace(item, values=fewer(item.values))

    tampering.rewrite(folder, change)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    (folder / "metrics.jsonl").write_text(
        "".join(json.dumps(fewer(line) if line["phase"] == "train" else line) + "\n" for line in lines)
    )


def lose_an_update(folder: Path) -> None:
    tampering.rewrite(folder, lambda item: None if isinstance(item, Update) and (item.step, item.number) == (2, 0) else item)


def lose_the_updates_of_a_step(folder: Path) -> None:
    tampering.rewrite(folder, lambda item: None if isinstance(item, Update) and item.step == 2 else item)


def of_a_made_update(change: Callable[[Update], Update]) -> tampering.Change:
    return lambda item: change(item) if isinstance(item, Update) and item.skipped is None and item.step == 1 else item


def put_nan_into_the_evidence(folder: Path) -> None:
    tampering.rewrite(folder, of_a_made_update(lambda update: tampering.with_logprob(update, 0, 0, float("nan"))))


def cut_the_evidence(folder: Path) -> None:
    def change(update: Update) -> Update:
        first, *rest = update.rows
        return dataclasses.replace(update, rows=[dataclasses.replace(first, current_logprobs=first.current_logprobs[:-1]), *rest])

    tampering.rewrite(folder, of_a_made_update(change))


def put_a_loss_of_infinity(folder: Path) -> None:
    tampering.rewrite(folder, of_a_made_update(lambda update: dataclasses.replace(update, loss=float("inf"))))


def edit_a_metric(folder: Path) -> None:
    replaced(folder / "metrics.jsonl", '"phase": "train", "step": 1,', '"phase": "train", "step": 1, "bonus": 3,')


def lose_a_line(folder: Path) -> None:
    path = folder / "metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def tear_a_line(folder: Path) -> None:
    path = folder / "metrics.jsonl"
    path.write_text(path.read_text()[:-20])


def flip_a_checkpoint(folder: Path) -> None:
    flipped(folder / "checkpoints" / "2" / "model.safetensors")


def exchange_weights_under_a_right_hash(folder: Path) -> None:
    tampering.flip_weight(folder / "checkpoints" / "2", fix_hash=True)


def put_nan_into_the_optimizer(folder: Path) -> None:
    checkpoint = folder / "checkpoints" / "4"
    tensors = load_file(checkpoint / "optimizer.safetensors")
    tensors[next(name for name in tensors if "exp_avg" in name)].view(-1)[0] = torch.nan
    save_file(tensors, checkpoint / "optimizer.safetensors")
    state = json.loads((checkpoint / "state.json").read_text())
    state["sha256"]["optimizer.safetensors"] = hashlib.sha256((checkpoint / "optimizer.safetensors").read_bytes()).hexdigest()
    (checkpoint / "state.json").write_text(json.dumps(state))


def lose_part_of_a_checkpoint(folder: Path) -> None:
    (folder / "checkpoints" / "4" / "optimizer.safetensors").unlink()


def lose_the_first_checkpoint(folder: Path) -> None:
    shutil.rmtree(folder / "checkpoints" / "0")


def flip_the_exported_model(folder: Path) -> None:
    flipped(folder / "model" / "model.safetensors")


def lose_the_exported_model(folder: Path) -> None:
    (folder / "model" / "model.safetensors").unlink()


def edit_the_tokenizer(folder: Path) -> None:
    replaced(folder / "tokenizer" / "tokenizer.json", '"submit("', '"submIt("')


def lose_the_tokenizer(folder: Path) -> None:
    shutil.rmtree(folder / "tokenizer")


def embellish_the_summary(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    summary["success_after"]["sampled"] = 0.99
    (folder / "summary.json").write_text(json.dumps(summary))


def tear_the_summary(folder: Path) -> None:
    path = folder / "summary.json"
    path.write_text(path.read_text()[:50])


TAMPERED: list[tuple[Callable[[Path], None], str, str]] = [
    (cut_run_toml, "configuration", "TOML"),
    (forget_an_option, "configuration", "optimizer.gradient_clip"),
    (edit_an_option, "configuration", "learning_rate = 0.02"),
    (damage_the_database, "event log", "file is not a database"),
    (lose_the_database, "event log", "no such file"),
    (flip_a_ledger_row, "event log", "of ledger does not match its checksum"),
    (flip_a_record, "event log", "row 5 of "),
    (exchange_two_records, "event log", "2 problems, the first: row 5 of trajectories differs from its record"),
    (edit_a_column, "event log", "row 5 of trajectories differs from its record in tokens"),
    (name_an_unknown_policy, "records", "v77, which the policy table does not have"),
    (label_stale_weights_fresh, "records", "v2, which that step or a later one made"),
    (edit_a_log_probability, "ledger", "row hash"),
    (exchange_two_policies, "policy table", "version v1: it is of step 2"),
    (lose_a_hash, "policy table", "no hash of its weights"),
    (lose_a_record, "ledger", "tokens that the stored records"),
    (lose_a_ledger_event, "ledger", "open attempt"),
    (move_tokens_in_the_ledger, "tokens", "the metrics say"),
    (lose_tokens_in_the_metrics, "tokens", "trained or excluded"),
    (lose_an_update, "updates", "took part in no update that was made"),
    (lose_the_updates_of_a_step, "updates", "step 2 has no evidence"),
    (put_nan_into_the_evidence, "updates", "is nan"),
    (cut_the_evidence, "updates", "log-probabilities of"),
    (put_a_loss_of_infinity, "updates", "its loss is inf"),
    (edit_a_metric, "metrics", "bonus is 3"),
    (lose_a_line, "metrics", "lines"),
    (tear_a_line, "metrics", "no JSON"),
    (flip_a_checkpoint, "checkpoints", "another model.safetensors"),
    (exchange_weights_under_a_right_hash, "checkpoints", "the policy table says"),
    (put_nan_into_the_optimizer, "checkpoints", "NaN or infinity"),
    (lose_part_of_a_checkpoint, "checkpoints", "no optimizer.safetensors"),
    (lose_the_first_checkpoint, "first checkpoint", "the oldest is 2"),
    (flip_the_exported_model, "exported model", "v4 is"),
    (lose_the_exported_model, "exported model", "cannot be read"),
    (edit_the_tokenizer, "tokenizer", "records were made with"),
    (lose_the_tokenizer, "tokenizer", "tokenizer.json"),
    (embellish_the_summary, "summary", "0.99"),
    (tear_the_summary, "summary", "JSONDecodeError"),
]  # fmt: skip


@pytest.mark.parametrize(("tamper", "check", "evidence"), TAMPERED, ids=[t.__name__ for t, _, _ in TAMPERED])
def test_what_was_changed_is_named_by_its_check_alone(run: Path, tamper: Callable[[Path], None], check: str, evidence: str) -> None:
    tamper(run)
    outcomes = inspected(run)
    assert [name for name, outcome in outcomes.items() if outcome.verdict == "failed"] == [check], outcomes
    assert evidence in outcomes[check].evidence
    assert outcomes[check].cause
    assert outcomes[check].fix


@pytest.mark.parametrize("table", ["trajectories", "records", "ledger", "policies", "metrics", "updates"])
def test_a_row_that_is_gone_is_named_with_its_number(run: Path, table: str) -> None:
    sql(run, f"DELETE FROM {table} WHERE row = 2")
    outcomes = inspected(run)
    assert [name for name, outcome in outcomes.items() if outcome.verdict == "failed"] == ["event log"]
    wanted = "row 2 of trajectories has lost its record" if table == "records" else f"rows 2 to 2 of {table} are missing"
    assert wanted in outcomes["event log"].evidence
    assert "--repair" in outcomes["event log"].fix


def test_a_damaged_log_is_repaired_and_what_is_lost_is_listed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = sql(run, "SELECT trajectory_id FROM trajectories WHERE row = 5")[0][0]
    flip_a_record(run)
    assert main(["doctor", str(run), "--repair"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "repair: warning" in out
    assert "1 rows of trajectories, 1 trajectories by name" in out
    assert f"lost: {lost}" in out
    assert "the damaged file is events.db.damaged" in out
    assert (run / "events.db.damaged").is_file()
    assert "rows 5 to 5 of trajectories are missing" in out


def test_a_damaged_index_is_repaired_without_loss(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run / "events.db"
    path.write_bytes(bytes(100) + path.read_bytes()[100:])  # the header: SQLite opens nothing without it
    assert inspected(run)["event log"].verdict == "failed"
    assert main(["doctor", str(run), "--repair"]) == 0
    assert "nothing is known to be lost" in " ".join(capsys.readouterr().out.split())


def test_there_is_nothing_to_repair_in_a_whole_log_or_without_one(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(run)
    assert main(["doctor", str(run), "--repair"]) == 0
    assert "there is nothing to repair" in capsys.readouterr().out
    assert contents(run) == before
    lose_the_database(run)
    assert main(["doctor", str(run), "--repair"]) == 1
    assert "repair: failed" in capsys.readouterr().out


def test_the_command_exits_with_1_when_a_check_failed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run.parent / "found.json"
    assert main(["doctor", str(run), "--json", str(found)]) == 0
    assert "14 passed" in capsys.readouterr().out
    embellish_the_summary(run)
    assert main(["doctor", str(run), "--json", str(found)]) == 1
    out = capsys.readouterr().out
    assert "summary: failed" in out
    assert "likely cause: the file was edited" in out
    verdicts = {outcome["name"]: outcome["verdict"] for outcome in json.loads(found.read_text())["outcomes"]}
    assert verdicts == {**dict.fromkeys(NAMES, "passed"), "summary": "failed"}


def test_leftovers_and_an_unfinished_run_are_no_failure(run: Path) -> None:
    (run / ".new").mkdir()
    (run / "checkpoints" / ".4.tmp").mkdir()
    (run / "summary.json").unlink()
    outcomes = inspected(run)
    assert {name: outcome.verdict for name, outcome in outcomes.items() if outcome.verdict != "passed"} == {
        "exported model": "skipped",
        "summary": "info",
        "leftovers": "info",
    }
    assert "checkpoints/.4.tmp" in outcomes["leftovers"].evidence


def test_metrics_that_a_dying_process_left_ahead_or_behind_are_no_failure_of_an_unfinished_run(run: Path) -> None:
    path = run / "metrics.jsonl"
    written = path.read_text()
    last = written.splitlines(keepends=True)[-1]
    ways = (written + last, written + last[:-9], written[:-9], written.removesuffix(last))
    for verdict in ("failed", "info"):
        for text in ways:
            path.write_text(text)
            assert inspected(run)["metrics"].verdict == verdict
        (run / "summary.json").unlink(missing_ok=True)
    path.write_text(written.removesuffix(last) + last.replace("phase", "phrase"))
    assert inspected(run)["metrics"].verdict == "failed"


def test_no_run_folder_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunFolderError, match="run must be a folder with"):
        list(inspect_run(tmp_path))
    assert main(["doctor", str(tmp_path / "nowhere")]) == 2
    assert "RUN must be a run folder" in capsys.readouterr().err


def test_an_attempt_to_write_into_the_terminal_is_shown(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run / "metrics.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), "loss": "\x1b[31m[bold]red"}), *rest]))
    assert main(["doctor", str(run)]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[bold]red" in out


def test_a_torn_tail_is_no_damage(run: Path) -> None:
    with EventLog.open(run / "events.db") as log:
        log.append_metrics("process", 9, {"machine": {}})
        wal = (run / "events.db-wal").read_bytes()
        (run / "events.db-wal").write_bytes(wal[:-7])
        shutil.copytree(run, run.parent / "killed")
    outcomes = inspected(run.parent / "killed")
    assert {outcome.verdict for outcome in outcomes.values()} == {"passed"}, outcomes
    assert "ends in the middle of a write" in outcomes["event log"].evidence


def test_a_log_that_is_written_meanwhile_can_be_inspected(run: Path) -> None:
    with EventLog.open(run / "events.db"):
        assert {outcome.verdict for outcome in inspected(run).values()} == {"passed"}


def test_a_run_that_goes_on_is_inspected_as_of_one_moment(run: Path) -> None:
    def go_on(number: int, check: str) -> None:
        if check == "ledger":
            with EventLog.open(run / "events.db") as log:
                log.append_ledger("new", "launched", step=9)
                log.append_ledger("new", "finished", step=9, sampled=5)
        if check == "checkpoints":
            shutil.rmtree(run / "checkpoints" / "2")

    outcomes = {outcome.name: outcome for outcome in inspect_run(run, go_on)}
    assert {outcome.verdict for outcome in outcomes.values()} == {"passed"}, outcomes
    assert outcomes["checkpoints"].evidence.startswith("2 whole")
    assert inspected(run)["ledger"].verdict == "failed"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "doctor must be given one of RUN, --model, --env, --tokenizer and --batch, got none"),
        (["run", "other"], "arguments must be RUN"),
        (["run", "--env", "shop"], "--env must come with --model, got RUN"),
        (["--model", "nowhere"], "--model must be a run folder, one of its checkpoints/<step> or a folder with config.json"),
        (["--model", "run", "--html", "page.html"], "--html must come with --batch, got --model"),
        (["--model", "run", "--repair"], "--repair must come with RUN, got --model"),
        (["--model", "run", "--batch", "file.npz"], "got --model and --batch"),
        (["run"], "RUN must be a run folder"),
        (["run", "--json", "nowhere/found.json"], "--json must name a file in a folder that exists"),
        (["--modle", "run"], "did you mean --model?"),
    ],
)
def test_a_wrong_call_is_2(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *arguments]) == 2
    assert complaint in capsys.readouterr().err
