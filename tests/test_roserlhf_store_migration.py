"""A log of an earlier schema: it reads as it was written, bit for bit, and is of one schema at every moment."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import time
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from golden_log import fill

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store import EventLog, Ledger

GOLDEN = Path(__file__).parent / "data" / "events_v1.db"
HASHES = json.loads(GOLDEN.with_suffix(".json").read_text(encoding="utf-8"))

pytestmark = pytest.mark.filterwarnings("ignore:.*is translated for this reading:RuntimeWarning")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(GOLDEN, tmp_path / "events.db"))


def everything(log: EventLog) -> dict[str, Any]:
    """All a log says; `repr` tells 0.0 from -0.0 and takes NaN for NaN."""
    rows: dict[str, Any] = {
        "trajectories": log.trajectories(include_superseded=True),
        "summaries": log.summaries(include_superseded=True),
        "live": log.trajectories(),
        "scores": log.scores(include_superseded=True),
        "live scores": log.scores(),
        "ledger": log.ledger(include_superseded=True),
        "policies": log.policies(include_superseded=True),
        "metrics": log.metrics(include_superseded=True),
        "updates": log.updates(include_superseded=True),
    }
    return {name: [repr(row) for row in found] for name, found in rows.items()}


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_an_old_log_reads_as_it_was_written(path: Path, tmp_path: Path) -> None:
    with EventLog.create(tmp_path / "fresh.db") as fresh:
        fill(fresh)
        wanted = everything(fresh)
    before = path.read_bytes()
    with pytest.warns(RuntimeWarning, match="is of an older schema and is translated for this reading"):
        log = EventLog.read(path)
    with log:
        assert everything(log) == wanted
        assert [s.trajectory.content_hash() for s in log.trajectories(include_superseded=True)] == HASHES
        with pytest.raises(StoreError, match="was opened for reading"):
            log.append_metrics("train", 0, {})
    assert path.read_bytes() == before
    assert version(path) == 1


def test_an_old_log_is_continued(path: Path) -> None:
    with EventLog.read(path) as log:
        wanted = everything(log)
    with EventLog.open(path) as log:
        assert everything(log) == wanted
        assert [s.trajectory.content_hash() for s in log.trajectories(include_superseded=True)] == HASHES
        log.append_ledger("d", "finished", step=0, sampled=1)
        with pytest.raises(StoreError, match="attempt 'a' must stay trained"):
            log.append_ledger("a", "finished", step=0, sampled=1)
        again = next(log.trajectories())
        assert not log.append_trajectory(again.trajectory, step=again.step, phase=again.phase)
        assert log.supersede(0)
    assert version(path) == 2
    with EventLog.read(path) as log:
        assert list(log.trajectories()) == []
        assert Ledger(log.ledger(include_superseded=True)).summary().superseded == 4


def test_an_old_log_in_a_folder_that_cannot_be_written_is_read(path: Path) -> None:
    os.chmod(path.parent, 0o555)
    try:
        with EventLog.read(path) as log:
            assert [s.trajectory.content_hash() for s in log.trajectories(include_superseded=True)] == HASHES
    finally:
        os.chmod(path.parent, 0o755)


def test_a_damaged_row_of_an_old_log_is_named_and_the_file_stays(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE trajectories SET record = zeroblob(9) WHERE row = 2")
        connection.commit()
    for way in (EventLog.read, EventLog.open):
        with pytest.raises(StoreError, match="row 2 of trajectories does not match its checksum"):
            way(path)
    assert version(path) == 1


def test_a_migration_that_is_killed_leaves_one_schema_or_the_other(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:  # enough rows that a kill falls into the middle
        columns = "trajectory_id, task_id, group_id, phase, step, tokens, superseded, checksum, record"
        for _ in range(5):
            connection.execute(
                f"INSERT INTO trajectories ({columns}) SELECT {columns.replace('superseded', '1')} FROM trajectories"
            )
        connection.commit()
    with EventLog.read(path) as log:
        wanted = everything(log)
    seen = set()
    for delay in (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.15):
        copy = Path(shutil.copy(path, path.with_name("copy.db")))
        child = os.fork()
        if not child:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                EventLog.open(copy).close()
            os._exit(0)
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        seen.add(version(copy))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with EventLog.read(copy) as log:
                assert everything(log) == wanted
            with EventLog.open(copy) as log:
                assert everything(log) == wanted
        for leftover in path.parent.glob("copy.db*"):
            leftover.unlink()
    assert 1 in seen
