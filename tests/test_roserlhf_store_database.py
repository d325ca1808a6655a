"""The file of an event log: one writer, many readers, other files, other schemas, damage."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store import EventLog, encoding
from rosellm.roserlhf.trajectory import PolicyAction, Trajectory, TransitionRecord


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.db"


def episode(name: str = "run/0/task/0/0", tokens: int = 3, reward: float | None = 1.0) -> Trajectory:
    acted = PolicyAction(0, range(tokens), [-0.5] * tokens, "v1", "hi", stop_reason="stop")
    return Trajectory(
        name, "task", "shop-1", "tok-1", [acted], [TransitionRecord(0, None, {"correct": reward}, True)], group_id="g"
    )


# --- one writer, many readers ---------------------------------------------------------------------------------------------------


def test_there_is_one_writer_and_readers_do_not_wait(path: Path) -> None:
    with EventLog.create(path) as log:
        with pytest.raises(StoreError, match="has a writer already; an event log has one at a time"):
            EventLog.open(path)
        with EventLog.read(path) as one, EventLog.read(path) as two, log.transaction():
            log.append_metrics("train", 0, {})
            start = time.monotonic()
            assert one.metrics() == two.metrics() == ()
            assert time.monotonic() - start < 5
        log.append_metrics("train", 1, {})
    with EventLog.open(path) as log:
        assert len(log.metrics()) == 2


def test_flush_waits_for_no_reader(path: Path) -> None:
    with EventLog.create(path) as log, contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        log.flush()
        other.execute("BEGIN")
        other.execute("SELECT * FROM metrics").fetchall()
        log.append_metrics("train", 0, {})
        log.flush()
        other.execute("COMMIT")
        with pytest.raises(StoreError, match="cannot be flushed inside a transaction"), log.transaction():
            log.append_metrics("train", 1, {})
            log.flush()
        assert len(log.metrics()) == 1
    with EventLog.open(path) as log:
        log.flush()  # nothing to wait for: closing the log moved everything into the file


def test_a_reader_cannot_write(path: Path) -> None:
    EventLog.create(path).close()
    with EventLog.read(path) as log:
        for write in (
            lambda: log.append_metrics("train", 0, {}),
            lambda: log.append_trajectory(episode(), step=0, phase="train"),
            lambda: log.append_ledger("a", "launched", step=0),
            lambda: log.supersede(0),
            log.flush,
        ):
            with pytest.raises(StoreError, match="was opened for reading and cannot be written"):
                write()


def test_a_run_folder_can_be_moved(path: Path, tmp_path: Path) -> None:
    with EventLog.create(path) as log:
        log.append_trajectory(episode("t"), step=0, phase="train")
    moved = tmp_path / "mo ved #1?"
    moved.mkdir()
    path.rename(moved / "events.db")
    with EventLog.open(moved / "events.db") as log:
        assert log.trajectory("t").trajectory == episode("t")


# --- files that are no event log, or no longer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [EventLog.open, EventLog.read])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: None, "must be an event log, got no such file"),
        (lambda p: p.mkdir(), "must be an event log, got a folder"),
        (
            lambda p: p.write_text("metrics, not a database " * 400),
            "file is not a database; the file is damaged or not an event log",
        ),
        (lambda p: p.touch(), "must be an event log, got another SQLite database"),
        (
            lambda p: sqlite3.connect(p).execute("CREATE TABLE t (x)").connection.close(),
            "must be an event log, got another SQLite database",
        ),
    ],
)
def test_another_file_is_refused_in_one_sentence(path: Path, way: Any, make: Any, message: str) -> None:
    make(path)
    with pytest.raises(StoreError) as caught:
        way(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("way", [EventLog.open, EventLog.read])
def test_another_schema_version_is_refused(path: Path, way: Any) -> None:
    EventLog.create(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 3")
    connection.close()
    rule = "must have schema version 2 or an older one, got 3; use the rosellm that wrote it, or a newer one"
    with pytest.raises(StoreError, match=rule):
        way(path)


def test_creating_never_overwrites_and_leaves_nothing_behind(path: Path, tmp_path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(StoreError, match="must not exist yet; open it to append to it"):
        EventLog.create(path)
    assert path.read_text() == "precious"
    with pytest.raises(StoreError, match="cannot be created: unable to open database file; check that the folder exists"):
        EventLog.create(tmp_path / "no" / "events.db")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["events.db"]


def _as_nobody(program: str, *arguments: str) -> str:
    """Run a program that may write nowhere: root is allowed everything, so it becomes another user first."""
    drop = "import os\nif os.geteuid() == 0: os.setgid(65534); os.setuid(65534)\n"
    loaded = "import sys\nfrom rosellm.roserlhf.errors import StoreError\nfrom rosellm.roserlhf.store import EventLog, encoding\n"
    loaded += "encoding.pack(1)\n"
    done = subprocess.run([sys.executable, "-c", loaded + drop + program, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def test_a_folder_that_cannot_be_written_can_be_read() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "events.db")
        with EventLog.create(file) as log:
            log.append_metrics("train", 0, {"reward": 0.5})
        os.chmod(file, 0o444)
        os.chmod(folder, 0o555)
        try:
            read = "with EventLog.read(sys.argv[1]) as log: print(dict(log.metrics()[0].values))"
            assert _as_nobody(read, str(file)) == "{'reward': 0.5}\n"
            for way, doing in (("create", "created"), ("open", "opened for writing")):
                attempt = f"try: EventLog.{way}(sys.argv[1])\nexcept StoreError as error: print(error)"
                target = file if way == "open" else Path(folder, "new.db")
                said = _as_nobody(attempt, str(target))
                assert said.startswith(f"{target} cannot be {doing}: ")
                assert said.endswith("check that the folder exists and that you may write in it\n")
        finally:
            os.chmod(folder, 0o755)


def test_a_damaged_record_is_named_and_the_others_are_read(path: Path) -> None:
    with EventLog.create(path) as log:
        for name in "abc":
            log.append_trajectory(episode(name), step=0, phase="train")
    with sqlite3.connect(path) as connection:
        record = connection.execute("SELECT record FROM records WHERE row = 2").fetchone()[0]
        connection.execute("UPDATE records SET record = ? WHERE row = 2", (record[:-1] + bytes([record[-1] ^ 1]),))
    connection.close()
    with EventLog.read(path) as log:
        with pytest.raises(StoreError, match="is damaged: row 2 of records does not match its hash"):
            log.trajectory("b")
        assert log.trajectory("a").trajectory == episode("a")
        assert log.trajectory("c").trajectory == episode("c")


@pytest.mark.parametrize("value", ["text", 5, 0.5])
def test_a_record_that_turned_into_another_kind_of_value_is_damaged(path: Path, value: object) -> None:
    with EventLog.create(path) as log:
        log.append_trajectory(episode("a"), step=0, phase="train")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE records SET record = ?", (value,))
        connection.commit()
    with EventLog.read(path) as log:
        with pytest.raises(StoreError, match="is damaged: row 1 of records does not match its hash"):
            log.trajectory("a")
        assert list(log.problems()) == [f"row 1 of records holds no record: {type(value).__name__} in place of bytes"]


def test_every_problem_of_a_log_is_named(path: Path) -> None:
    with EventLog.create(path) as log:
        for name in "abcdef":
            log.append_trajectory(episode(name), step=0, phase="train")
            log.append_metrics("train", 0, {"reward": 1.0})
        log.append_trajectory(episode("\ud800"), step=1, phase="\udfff")
        log.supersede(1)
        assert list(log.problems()) == []
    with contextlib.closing(sqlite3.connect(path)) as connection:
        other = encoding.pack_record(episode("b", reward=0.0)).to_bytes()
        connection.execute("UPDATE records SET record = ? WHERE row = 2", (other,))
        connection.execute("UPDATE trajectories SET step = 5 WHERE row = 3")
        connection.execute("UPDATE trajectories SET superseded = 1 WHERE row = 4")
        connection.execute("DELETE FROM records WHERE row = 5")
        connection.execute("UPDATE records SET record = x'02' WHERE row = 6")
        connection.execute("DELETE FROM metrics WHERE row IN (2, 3)")
        connection.commit()
    with EventLog.read(path) as log:
        found = list(log.problems())
    assert found[:-1] == [
        "row 3 of trajectories does not match its checksum",
        "row 4 of trajectories does not match its checksum",
        "rows 2 to 3 of metrics are missing",
        "row 2 of trajectories differs from its record in rewards, digest",
        "row 5 of trajectories has lost its record",
    ]
    assert found[-1].startswith("row 6 of records holds no record: a stored record must be whole")


def test_a_damaged_file_is_refused_in_one_sentence(path: Path) -> None:
    with EventLog.create(path) as log:
        for i in range(300):
            log.append_trajectory(episode(f"t{i}", tokens=20), step=i, phase="train")
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size // 2))
    for shorter in (size, 4096 * 3 - 7):
        os.truncate(path, shorter)
        with pytest.raises(StoreError, match="damaged"), EventLog.read(path) as log:
            list(log.trajectories())
