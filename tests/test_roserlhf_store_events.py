"""The event log: exact round trips, atomic appends, one writer, kills and damage."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import struct
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_strategies import PROPERTY, trajectories

from rosellm.roserlhf.errors import MissingExtraError, RecordError, StoreError
from rosellm.roserlhf.store import EventLog, Ledger, Metrics, Policy, Update, UpdatedRow, encoding
from rosellm.roserlhf.trajectory import PolicyAction, ScoreRecord, TokenSpan, Trajectory, TransitionRecord, VersionSpan


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.db"


@pytest.fixture
def log(path: Path) -> Iterator[EventLog]:
    with EventLog.create(path) as opened:
        yield opened


def episode(name: str = "run/0/task/0/0", tokens: int = 3, reward: float | None = 1.0) -> Trajectory:
    acted = PolicyAction(0, range(tokens), [-0.5] * tokens, "v1", "hi", stop_reason="stop")
    return Trajectory(
        name, "task", "shop-1", "tok-1", [acted], [TransitionRecord(0, None, {"correct": reward}, True)], group_id="g"
    )


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


# --- what comes back is what went in --------------------------------------------------------------------------------------------


@settings(PROPERTY, max_examples=15)
@given(st.lists(trajectories(trajectory_id="t"), min_size=1, max_size=3))
def test_records_survive_the_file(records: list[Trajectory]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "events.db")
        with EventLog.create(file) as log:
            for step, trajectory in enumerate(records):
                log.supersede(step)
                log.append_trajectory(trajectory, step=step, phase=f"phase-{step}")
        with EventLog.read(file) as log:
            back = list(log.trajectories())
    assert [s.trajectory for s in back] == records
    assert [(s.step, s.phase) for s in back] == [(i, f"phase-{i}") for i in range(len(records))]
    assert [s.trajectory.content_hash() for s in back] == [t.content_hash() for t in records]


def test_R49_extreme_numbers_stay_what_they_are(log: EventLog) -> None:
    logprobs = [-1e-45, -5e-324, -0.0, -1.7976931348623157e308, -(0.1 + 0.2)]
    rewards = {"sum": 0.1 + 0.2, "tiny": 5e-324, "minus": -0.0, "none": None}
    trajectory = Trajectory(
        "t", "k", "e", "h", [PolicyAction(0, range(5), logprobs, "v", "")], [TransitionRecord(0, None, rewards, True)]
    )
    log.append_trajectory(trajectory, step=0, phase="train")
    back = log.trajectory("t").trajectory
    assert [bits(x) for x in back.actions[0].old_logprobs] == [bits(x) for x in logprobs]
    kept = back.transitions[0].reward_components
    assert kept["none"] is None
    assert [bits(kept[k] or 0.0) for k in ("sum", "tiny")] == [bits(0.1 + 0.2), bits(5e-324)]
    assert bits(kept["minus"]) == bits(-0.0)  # type: ignore[arg-type]
    log.append_metrics(
        "train", 0, {"loss": math.nan, "best": -math.inf, "ratio": np.float32(0.5), "why": None, "per": [1.0, math.nan]}
    )
    values = log.metrics()[0].values
    assert [bits(values["loss"]), values["best"], values["ratio"], values["why"]] == [bits(math.nan), -math.inf, 0.5, None]
    assert math.isnan(values["per"][1])
    for bad in (math.nan, -math.inf):
        with pytest.raises(RecordError, match=r"reward_components\['correct'\] must be a finite number"):
            episode(reward=bad)


def test_R51_counters_do_not_wrap(log: EventLog) -> None:
    big, now = 3_000_000_000, 1_764_424_800_123_456_789
    trajectory = Trajectory(
        "t", "k", "e", "h", [PolicyAction(0, [2**40, 2**31], [-1.0, -1.0], "v", "")], seeds={"run": 2**40}, timing={"ns": now},
        transitions=[TransitionRecord(0, None, {}, True)],
    )  # fmt: skip
    log.append_trajectory(trajectory, step=2**40, phase="train")
    log.append_metrics("train", 2**40, {"tokens": big, "offset": 1_500_000_000 + 1_500_000_000, "now": now, "huge": 2**80})
    for state, counts in (("launched", {}), ("finished", {"sampled": big}), ("admitted", {}), ("trained", {"trained": big})):
        log.append_ledger("t", state, step=2**40, **counts)  # type: ignore[arg-type]
    back = log.trajectory("t")
    assert back.step == 2**40
    assert back.trajectory.actions[0].token_ids == (2**40, 2**31)
    assert back.trajectory.seeds == {"run": 2**40}
    assert back.trajectory.timing == {"ns": now}
    assert log.metrics()[0].values == {"tokens": big, "offset": 3_000_000_000, "now": now, "huge": 2**80}
    assert Ledger(log.ledger()).tokens(2**40).trained == big


def test_R42_both_versions_of_a_reply_come_back(log: EventLog) -> None:
    spans = [VersionSpan(0, 57, "v7"), VersionSpan(57, 128, "v8", "stale")]
    reply = PolicyAction(0, range(128), [-0.1] * 128, "v7", "", version_spans=spans)
    log.append_trajectory(Trajectory("t", "k", "e", "h", [reply], [TransitionRecord(0, None, {}, True)]), step=0, phase="train")
    for step, (version, parent) in enumerate([("v7", None), ("v8", "v7"), ("v9", "v8")]):
        log.add_policy(version, step=step, parent=parent)
    back = log.trajectory("t").trajectory
    assert back.actions[0].version_spans == tuple(spans)
    assert back.behavior_policy_versions == ("v7", "v8")
    order = [policy.version for policy in log.policies()]
    assert order.index("v9") - order.index(back.actions[0].policy_version) == 2


def test_R28_every_record_comes_back_with_its_own_end(log: EventLog) -> None:
    cut = Trajectory("cut", "k", "e", "h", [PolicyAction(0, [1], [-1.0], "v", "", stop_reason="interrupted")])
    limit = Trajectory(
        "limit", "k", "e", "h", [PolicyAction(0, [1], [-1.0], "v", "")], [TransitionRecord(0, None, {}, False, True)]
    )
    broken = Trajectory("broken", "k", "e", "h")
    broken.fail("infrastructure", "the engine died")
    for trajectory in (episode("ended"), cut, limit, broken):
        log.append_trajectory(trajectory, step=0, phase="train")
    back = {s.trajectory.trajectory_id: s.trajectory for s in log.trajectories()}
    assert {name: t.ending for name, t in back.items()} == {
        "ended": "terminated",
        "cut": "interrupted",
        "limit": "truncated",
        "broken": None,
    }
    assert back["broken"].is_unscored


def test_R54_what_is_at_rest_never_changes(log: EventLog) -> None:
    trajectory = Trajectory("t", "k", "e", "h", [PolicyAction(0, [1], [-1.0], "v", "")], [TransitionRecord(0, None)])
    log.append_trajectory(trajectory, step=0, phase="train")
    with pytest.raises(RecordError, match="sealed"):
        trajectory.append(PolicyAction(1, [1], [-1.0], "v", ""), TransitionRecord(1, None))
    assert log.trajectory("t").trajectory == trajectory


# --- reading --------------------------------------------------------------------------------------------------------------------


def test_records_are_found_by_phase_step_and_id(log: EventLog) -> None:
    for step in range(3):
        for phase in ("train", "evaluate"):
            log.append_trajectory(episode(f"t{step}", tokens=step + 1), step=step, phase=phase)

    def names(**wanted: Any) -> list[tuple[int, str]]:
        return [(s.step, s.phase) for s in log.trajectories(**wanted)]

    assert names() == [(s, p) for s in range(3) for p in ("train", "evaluate")]
    assert names(phase="train") == [(0, "train"), (1, "train"), (2, "train")]
    assert names(step=1) == [(1, "train"), (1, "evaluate")]
    assert names(phase="evaluate", step=2) == [(2, "evaluate")]
    assert names(phase="test") == []
    assert log.sampled_tokens() == {0: 2, 1: 4, 2: 6}
    assert log.sampled_tokens(phase="train") == {0: 1, 1: 2, 2: 3}
    assert log.trajectory("t1", phase="train").step == 1
    with pytest.raises(
        StoreError, match=r"trajectory_id must name one stored record, got 't1', found in phases \['train', 'evaluate'\]"
    ):
        log.trajectory("t1")
    with pytest.raises(StoreError, match="trajectory_id must name one stored record, got 't9'"):
        log.trajectory("t9")


def test_what_is_appended_while_reading_is_not_read(log: EventLog) -> None:
    for i in range(600):
        log.append_metrics("train", i, {"i": i})
        log.append_trajectory(episode(f"t{i}"), step=i, phase="train")
    seen = []
    for stored in log.trajectories():
        seen.append(stored.step)
        if stored.step % 100 == 0:
            log.append_trajectory(episode(f"late-{stored.step}"), step=1000, phase="train")
    assert seen == list(range(600))
    assert [m.values["i"] for m in log.metrics()] == list(range(600))


def test_scores_are_added_and_never_replace(log: EventLog) -> None:
    log.append_trajectory(episode("t"), step=0, phase="train")
    scores = [ScoreRecord("t", 0, {"judge": None}, "judge-1"), ScoreRecord("t", 0, {"judge": 0.1 + 0.2}, "judge-2")]
    for score in scores:
        log.append_score(score)
    assert list(log.scores()) == list(log.scores("t")) == scores
    assert log.trajectory("t").trajectory.transitions[0].reward_components == {"correct": 1.0}
    with pytest.raises(StoreError, match="trajectory_id must name a stored record, got 'x'"):
        log.append_score(ScoreRecord("x", 0, {}, "judge-1"))


def test_a_ledger_path_is_checked_when_it_is_written(log: EventLog) -> None:
    log.append_ledger("a", "launched", step=0, detail={"worker": 3})
    with pytest.raises(StoreError, match="attempt 'a' must go from launched to finished or failed, got trained"):
        log.append_ledger("a", "trained", step=0, trained=3)
    log.append_ledger("a", "failed", step=0, reason="timeout", sampled=3)
    log.append_ledger("a", "admitted", step=0)
    with pytest.raises(
        StoreError, match=r"attempt 'a' must place each of its 3 sampled tokens once, got 2 trained and \{\} excluded"
    ):
        log.append_ledger("a", "trained", step=1, trained=2)
    log.append_ledger("a", "trained", step=1, trained=2, excluded={"stale": 1})
    entries = list(log.ledger())
    assert [(e.state, e.step, e.reason) for e in entries] == [
        ("launched", 0, None), ("failed", 0, "timeout"), ("admitted", 0, None), ("trained", 1, None),
    ]  # fmt: skip
    assert entries[0].detail == {"worker": 3}
    assert [e.state for e in log.ledger(step=1)] == ["trained"]
    ledger = Ledger(entries)
    ledger.balance(recorded={0: 3})
    assert ledger.tokens().excluded == {"stale": 1}


def test_the_policy_table_has_each_version_once_and_its_parent_before_it(log: EventLog) -> None:
    log.add_policy("a", step=0, content_hash="h")
    log.add_policy("b", step=1, parent="a")
    assert log.policies() == (Policy("a", 0, None, "h"), Policy("b", 1, "a"))
    with pytest.raises(StoreError, match="version must be new in the policy table, got 'a', which is there already"):
        log.add_policy("a", step=2)
    with pytest.raises(StoreError, match="parent must be in the policy table, got 'z'"):
        log.add_policy("c", step=2, parent="z")


def test_an_id_is_stored_once_in_a_phase(log: EventLog) -> None:
    log.append_trajectory(episode("t"), step=0, phase="train")
    for again, step, other in ((episode("t"), 1, "step 0"), (episode("t", reward=0.0), 0, "other content")):
        with pytest.raises(StoreError) as caught:
            log.append_trajectory(again, step=step, phase="train")
        assert str(caught.value) == (
            f"trajectory_id must be new in phase 'train', got 't', which is stored already with {other}; "
            "supersede its step before it runs again"
        )
    assert [s.trajectory for s in log.trajectories()] == [episode("t")]


def test_what_is_stored_already_is_stored_once(log: EventLog, path: Path) -> None:
    assert log.append_trajectory(episode("t"), step=0, phase="train")
    assert not log.append_trajectory(episode("t"), step=0, phase="train")
    slower = episode("t")
    slower = dataclasses.replace(slower, timing={"rollout": 3.0})  # not part of the content
    assert not log.append_trajectory(slower, step=0, phase="train")
    assert log.append_trajectory(episode("t"), step=0, phase="evaluate"), "another phase has its own records"
    for score, is_new in ((0.5, True), (0.5, False), (-0.0, True), (0.0, True), (None, True)):
        assert log.append_score(ScoreRecord("t", 0, {"judge": score}, "judge-1")) is is_new
    assert log.add_policy("v0", step=0)
    assert not log.add_policy("v0", step=0)
    change = update(0, 0)
    assert log.append_update(change)
    assert not log.append_update(update(0, 0))
    assert [len(list(rows)) for rows in (log.trajectories(), log.scores(), log.policies(), log.updates())] == [2, 4, 1, 1]
    with pytest.raises(StoreError, match="number must be new in step 0, got 0, which is stored with other content"):
        log.append_update(dataclasses.replace(change, loss=2.0))


def update(step: int, number: int) -> Update:
    rows = [UpdatedRow("t", array("f", [-0.5, -0.0, -1e-45])), UpdatedRow("u", array("f"))]
    fields: dict[str, Any] = {"denominator": 3.0, "loss": math.nan, "gradient_norm": math.inf, "learning_rate": 1e-3}
    return Update(step, number, epoch=0, rows=rows, **fields)


def test_summaries_say_what_credit_needs_without_the_records(log: EventLog) -> None:
    def sampled_by(name: str, *versions: str, reward: float | None = 1.0) -> Trajectory:
        spans = [VersionSpan(i, i + 1, version) for i, version in enumerate(versions)]
        acted = PolicyAction(0, range(len(spans)), [-0.5] * len(spans), versions[0], "", version_spans=spans)
        end = TransitionRecord(0, None, {"correct": reward, "cost": -0.0}, True)
        return Trajectory(name, "task", "e", "h", [acted], [end], group_id="g")

    broken = Trajectory("broken", "task", "e", "h")
    broken.fail("infrastructure", "engine died")
    stored = [
        sampled_by("one", "v1"), sampled_by("two", "v2", reward=None), sampled_by("mixed", "v1", "v2"), broken,
        sampled_by("other", "v1", "v3"), sampled_by("again", "v2"),
    ]  # fmt: skip
    for i, trajectory in enumerate(stored):
        log.append_trajectory(trajectory, step=i, phase="train" if i < 5 else "evaluate")
    found = {s.trajectory_id: s for s in log.summaries()}
    assert list(found) == [t.trajectory_id for t in stored]
    for trajectory in stored:
        summary = found[trajectory.trajectory_id]
        assert summary.policy_versions == trajectory.behavior_policy_versions
        assert summary.rewards == trajectory.reward_totals()
        assert (summary.sampled_tokens, summary.group_id) == (trajectory.sampled_tokens, trajectory.group_id)
        assert (summary.unscored, summary.ending) == (trajectory.is_unscored, trajectory.ending)
    assert [s.trajectory_id for s in log.summaries(version="v1")] == ["one", "mixed", "other"]
    assert [s.trajectory_id for s in log.summaries(version="v2")] == ["two", "mixed", "again"]
    assert [s.trajectory_id for s in log.summaries(version="v2", phase="train")] == ["two", "mixed"]
    assert [s.trajectory_id for s in log.summaries(version="v2", step=5)] == ["again"]
    assert list(log.summaries(version="v9")) == []
    packed = list(log.packed_trajectories(phase="train"))
    assert [p.summary for p in packed] == [found[t.trajectory_id] for t in stored[:5]]
    assert [encoding.unpack_record(p.packed) for p in packed] == stored[:5]
    log.supersede(3)
    assert [s.trajectory_id for s in log.summaries(version="v1")] == ["one", "mixed"]
    assert [s.superseded for s in log.summaries(include_superseded=True)] == [False] * 3 + [True] * 3


def test_hostile_names_are_data(log: EventLog, path: Path) -> None:
    names = [
        "../../etc/passwd",
        "/absolute",
        "x" * 10_000,
        "nul\x00nul",
        "nul\x00",
        "\ud800",
        "\udfff\x00",
        "'; DROP TABLE ledger; --",
        "🦊",
    ]
    for name in names:
        made = dataclasses.replace(episode(name), task_id=name, group_id=name, sealed=False)
        assert log.append_trajectory(made, step=0, phase=name)
        assert not log.append_trajectory(made, step=0, phase=name)
        log.append_score(ScoreRecord(name, 0, {name: 1.0}, name))
        log.append_ledger(name, "launched", step=0, group=name, retry_of=name)
        log.append_ledger(name, "failed", step=0, reason=name, sampled=3)
        log.add_policy(name, step=0, content_hash=name)
        log.append_metrics(name, 0, {name: name})
        log.append_update(dataclasses.replace(update(0, names.index(name)), skipped=name))
        assert log.trajectory(name, phase=name).trajectory == made
        assert [s.trajectory_id for s in log.scores(name)] == [name]
    assert [s.trajectory.task_id for s in log.trajectories()] == names
    assert [(s.trajectory_id, s.group_id, s.phase) for s in log.summaries()] == [(n, n, n) for n in names]
    assert [e.attempt_id for e in log.ledger() if e.state == "failed"] == names
    assert [e.reason for e in log.ledger() if e.state == "failed"] == names
    assert [p.version for p in log.policies()] == names
    assert [m.phase for m in log.metrics()] == names
    assert [u.skipped for u in log.updates()] == names
    assert {p.name.removeprefix("events.db") for p in path.parent.iterdir()} == {"", "-shm", "-wal", ".lock", ".lock-journal"}


def test_a_million_tokens_are_a_record_like_any_other(log: EventLog) -> None:
    count = 10**6
    acted = PolicyAction(0, [7] * count, [-0.5] * count, "v", "")
    huge = Trajectory("huge", "k", "e", "h", [acted], [TransitionRecord(0, None, {}, True)])
    log.append_trajectory(huge, step=0, phase="train")
    back = log.trajectory("huge").trajectory
    assert back.sampled_tokens == count
    assert back == huge


def test_updates_come_back_bit_for_bit(log: EventLog) -> None:
    stored = [update(1, 0), update(1, 1), update(2, 0)]
    for change in stored:
        log.append_update(change)
    back = list(log.updates())
    assert [repr(u) for u in back] == [repr(u) for u in stored]
    assert back[0].rows[0].current_logprobs.tobytes() == stored[0].rows[0].current_logprobs.tobytes()
    assert [u.number for u in log.updates(1)] == [0, 1]
    assert log.supersede(2) == 1
    assert [(u.step, u.number) for u in log.updates()] == [(1, 0), (1, 1)]
    assert len(list(log.updates(include_superseded=True))) == 3
    log.append_update(dataclasses.replace(update(2, 0), skipped="gradient not finite"))
    assert [u.skipped for u in log.updates(2)] == ["gradient not finite"]


# --- steps that run again -------------------------------------------------------------------------------------------------------


def test_superseded_steps_leave_the_default_reads_and_their_ids_are_free(log: EventLog) -> None:
    def run_step(step: int, reward: float) -> None:
        log.append_trajectory(episode(f"t{step}", reward=reward), step=step, phase="train")
        log.append_score(ScoreRecord(f"t{step}", 0, {"judge": reward}, "judge-1"))
        for state, counts in (("launched", {}), ("finished", {"sampled": 3}), ("admitted", {}), ("trained", {"trained": 3})):
            log.append_ledger(f"t{step}", state, step=step, **counts)  # type: ignore[arg-type]
        log.add_policy(f"v{step}", step=step, parent=f"v{step - 1}" if step else None)
        log.append_metrics("train", step, {"reward": reward})

    for step in range(3):
        run_step(step, 0.0)
    assert log.supersede(3) == 0
    # Two steps of one record, one score, four ledger events, one version and one row of metrics.
    assert log.supersede(1) == 2 * (1 + 1 + 4 + 1 + 1)
    assert [s.step for s in log.trajectories()] == [0]
    assert [s.components for s in log.scores()] == [{"judge": 0.0}]
    assert [p.version for p in log.policies()] == ["v0"]
    assert [m.step for m in log.metrics()] == [0]
    assert Ledger(log.ledger()).steps() == (0,)
    for step in (1, 2):
        run_step(step, 1.0)
    again = list(log.trajectories())
    assert [s.trajectory.reward_totals()["correct"] for s in again] == [0.0, 1.0, 1.0]
    assert [(s.step, s.superseded) for s in log.trajectories(include_superseded=True)] == [
        (0, False), (1, True), (2, True), (1, False), (2, False),
    ]  # fmt: skip
    assert [p.version for p in log.policies(include_superseded=True)] == ["v0", "v1", "v2", "v1", "v2"]
    assert len(list(log.scores(include_superseded=True))) == 5
    assert log.metrics(include_superseded=True)[1] == Metrics("train", 1, {"reward": 0.0}, superseded=True)
    Ledger(log.ledger()).balance(recorded=log.sampled_tokens())
    assert len(list(log.ledger(include_superseded=True))) == 20


def test_an_attempt_whose_training_is_superseded_can_be_trained_again(log: EventLog) -> None:
    for state, step, counts in (
        ("launched", 3, {}),
        ("finished", 3, {"sampled": 5}),
        ("admitted", 3, {}),
        ("trained", 4, {"trained": 5}),
    ):
        log.append_ledger("a", state, step=step, **counts)  # type: ignore[arg-type]
    log.supersede(4)
    assert Ledger(log.ledger()).tokens(3).pending == 5
    log.append_ledger("a", "trained", step=4, trained=4, excluded={"stale": 1})
    Ledger(log.ledger()).balance()


# --- atomic commits -------------------------------------------------------------------------------------------------------------


def test_a_transaction_is_all_or_nothing(path: Path) -> None:
    with EventLog.create(path) as log, EventLog.read(path) as reader:
        with log.transaction():
            log.append_trajectory(episode("a"), step=0, phase="train")
            with log.transaction():
                log.append_metrics("train", 0, {"reward": 1.0})
            assert list(reader.trajectories()) == []
        assert len(list(reader.trajectories())) == len(reader.metrics()) == 1
        with pytest.raises(KeyError, match="stop"), log.transaction():
            log.append_trajectory(episode("b"), step=1, phase="train")
            log.add_policy("v1", step=1)
            raise KeyError("stop")
        assert [s.trajectory.trajectory_id for s in log.trajectories()] == ["a"]
        assert log.policies() == ()
        log.append_trajectory(episode("b"), step=1, phase="train")
        assert len(list(reader.trajectories())) == 2


def test_an_append_that_is_refused_leaves_nothing_behind(log: EventLog) -> None:
    with pytest.raises(RecordError, match=r"values\['x'\] must be a JSON value"):
        log.append_metrics("train", 0, {"x": object()})
    with pytest.raises(RecordError, match="step must be an integer ≥ 0, got -1"):
        log.append_metrics("train", -1, {})
    with pytest.raises(RecordError, match="phase must be a non-empty string"):
        log.append_trajectory(episode(), step=0, phase="")
    with pytest.raises(StoreError, match="a name must be valid Unicode and a number fit 64 bits"):
        log.append_metrics("train", 2**63, {})
    assert log.metrics() == ()
    assert list(log.trajectories()) == []
    log.append_metrics("train", 0, {})


WRITER = """
import sys
from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.trajectory import *
path, first = sys.argv[1], int(sys.argv[2])
log = EventLog.open(path)
i = first
while True:
    with log.transaction():
        for half in range(2):
            action = PolicyAction(0, range(50), [-0.5] * 50, "v1", "text " * 50)
            record = Trajectory(f"{i}-{half}", "k", "e", "h", [action], [TransitionRecord(0, None, {"correct": 1.0}, True)])
            log.append_trajectory(record, step=i, phase="train")
    print(i, flush=True)
    i += 1
"""


@pytest.mark.filterwarnings("ignore:.*ends in the middle of a write:RuntimeWarning")  # a kill may tear a commit nobody acknowledged
def test_R53_a_killed_writer_loses_nothing_it_acknowledged(path: Path) -> None:
    EventLog.create(path).close()
    acknowledged = -1
    for kill_after in (3, 40, 7):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(acknowledged + 1)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(kill_after)]
            with pytest.raises(StoreError, match="has a writer already"):
                EventLog.open(path)
            writer.send_signal(signal.SIGKILL)
            lines += writer.stdout.readlines()
        acknowledged = int(lines[-1])
        # Read what is there before anyone repairs it, then as a writer.
        for opened in (EventLog.read(path), EventLog.open(path)):
            with opened as log:
                back = [s.trajectory.trajectory_id for s in log.trajectories()]
                whole = [f"{i}-{half}" for i in range(len(back) // 2) for half in range(2)]
                assert back == whole, "a commit of two records is whole or absent"
                assert len(back) // 2 - 1 >= acknowledged
        acknowledged = len(back) // 2 - 1
    with EventLog.open(path) as log:
        log.append_trajectory(episode("after"), step=10**6, phase="train")
        log.flush()
    with EventLog.read(path) as log:
        assert log.trajectory("after").trajectory == episode("after")


def test_R53_a_torn_tail_is_reported_and_skipped(path: Path, tmp_path: Path) -> None:
    log = EventLog.create(path)
    log.append_metrics("train", 0, {"i": 0})
    log.append_metrics("train", 1, {"i": 1})
    torn = tmp_path / "copy" / "events.db"
    torn.parent.mkdir()
    for suffix in ("", "-wal"):  # as a kill leaves them: closing the log would tidy up
        Path(f"{torn}{suffix}").write_bytes(Path(f"{path}{suffix}").read_bytes())
    log.close()
    os.truncate(f"{torn}-wal", os.path.getsize(f"{torn}-wal") - 7)
    with pytest.warns(RuntimeWarning, match="ends in the middle of a write: the unfinished commit is skipped"):
        log = EventLog.open(torn)
    with log:
        assert [m.step for m in log.metrics()] == [0]
        log.append_metrics("train", 1, {"i": 1})
    with EventLog.read(torn) as log:
        assert [m.step for m in log.metrics()] == [0, 1]


def test_long_texts_and_many_tokens_survive(log: EventLog) -> None:
    text = "é\x00\u2028🦊" * 200_000
    acted = PolicyAction(0, range(100_000), [-0.25] * 100_000, "v", text)
    shown = [TokenSpan(range(50_000), "tool", [True, False] * 25_000)]
    trajectory = Trajectory("t", "k", "e", "h", [acted], [TransitionRecord(0, text, observation=shown)])
    log.append_trajectory(trajectory, step=0, phase="train")
    assert log.trajectory("t").trajectory == trajectory


def test_without_msgspec_the_install_command_is_given(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoding._msgpack.cache_clear()
    monkeypatch.setitem(sys.modules, "msgspec", None)
    try:
        with EventLog.create(path) as log, pytest.raises(MissingExtraError, match=r"pip install 'rosellm\[train\]'"):
            log.append_metrics("train", 0, {})
    finally:
        encoding._msgpack.cache_clear()


def test_the_store_loads_neither_torch_nor_msgspec_by_itself() -> None:
    program = (
        "import sys, rosellm.roserlhf.store; print([m for m in ('torch', 'numpy', 'msgspec', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
