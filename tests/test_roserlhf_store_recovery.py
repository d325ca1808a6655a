"""A damaged log: never a wrong record, and every whole row is saved."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store import EventLog, Ledger, Update, UpdatedRow, recover
from rosellm.roserlhf.trajectory import PolicyAction, ScoreRecord, TokenSpan, Trajectory, TransitionRecord

pytestmark = pytest.mark.filterwarnings("ignore:.*ends in the middle of a write:RuntimeWarning")


def episode(number: int, run: int = 0) -> Trajectory:
    rng = random.Random(f"{run}/{number}")
    tokens = rng.choice([3, 40, 3000])  # in its leaf, filling it, going on in overflow pages
    acted = PolicyAction(
        0, [rng.randrange(60000) for _ in range(tokens)], [-rng.random() for _ in range(tokens)], "v1", "x" * tokens
    )
    end = TransitionRecord(0, None, {"correct": rng.random()}, True)
    return Trajectory(f"t/{number}", "task", "shop-1", "tok-1", [acted], [end], prompt=[TokenSpan(range(9), "user")])


def fill(log: EventLog) -> None:
    """Thirty records with all that belongs to them; the last ten steps run twice."""
    for run in range(2):
        if run:
            log.supersede(20)
        for step in range(20 if run else 0, 30):
            made = episode(step, run)
            with log.transaction():
                log.append_trajectory(made, step=step, phase="train")
                log.append_score(ScoreRecord(made.trajectory_id, 0, {"judge": 0.5 * run}, "judge-1"))
                log.append_ledger(made.trajectory_id, "launched", step=step)
                log.append_ledger(made.trajectory_id, "finished", step=step, sampled=made.sampled_tokens)
                log.append_ledger(made.trajectory_id, "rejected", step=step, reason="uniform group")
                log.add_policy(f"v{step}", step=step)
                log.append_metrics("train", step, {"reward": step, "why": "y" * 50})
                row = UpdatedRow(made.trajectory_id, array("f", [-0.5] * 300))
                log.append_update(
                    Update(step, 0, epoch=0, rows=[row], denominator=1.0, loss=0.5, gradient_norm=1.0, learning_rate=0.1)
                )


Rows = dict[str, list[str]]
READS: dict[str, Callable[[EventLog], Iterable[Any]]] = {
    "trajectories": lambda log: log.trajectories(include_superseded=True),
    "live": lambda log: log.trajectories(),
    "summaries": lambda log: log.summaries(include_superseded=True),
    "scores": lambda log: log.scores(include_superseded=True),
    "ledger": lambda log: log.ledger(include_superseded=True),
    "policies": lambda log: log.policies(include_superseded=True),
    "metrics": lambda log: log.metrics(include_superseded=True),
    "updates": lambda log: log.updates(include_superseded=True),
}


def read_all(log: EventLog) -> Rows:
    return {name: [repr(row) for row in read(log)] for name, read in READS.items()}


def readable(log: EventLog) -> Rows:
    """What can be read until the first complaint."""
    found: Rows = {name: [] for name in READS}
    for name, read in READS.items():
        try:
            for row in read(log):
                found[name].append(repr(row))
        except StoreError:
            continue
    return found


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rows]:
    """A log as a killed process leaves it: part of it in the file, part in its write-ahead log."""
    folder = tmp_path_factory.mktemp("healthy")
    with EventLog.create(folder / "open.db") as log:
        log._database._connection.execute("PRAGMA wal_autocheckpoint = 60")
        fill(log)
        for suffix in ("", "-wal"):
            shutil.copy(f"{folder / 'open.db'}{suffix}", f"{folder / 'events.db'}{suffix}")
        rows = read_all(log)
    with EventLog.read(copied(folder / "events.db", folder / "check")) as log:
        assert read_all(log) == rows
    assert (folder / "events.db").stat().st_size > 100_000
    assert Path(f"{folder / 'events.db'}-wal").stat().st_size > 100_000
    return folder / "events.db", rows


def copied(path: Path, folder: Path) -> Path:
    folder.mkdir()
    for file in path.parent.glob("events.db*"):
        shutil.copy(file, folder)
    return folder / path.name


def check(path: Path, rows: Rows) -> None:
    """A damaged log gives right rows or an error; what is saved of it is right, and what is lost is known."""
    before = path.read_bytes()
    try:
        with EventLog.read(path) as log:
            for name, some in readable(log).items():
                if name != "live":  # superseded rows come back to life where a log was cut
                    assert {plain(row) for row in some} <= {plain(row) for row in rows[name]}, name
    except StoreError:
        assert before == path.read_bytes()
    path.with_name(path.name + "-shm").unlink(missing_ok=True)
    saved = recover(path)
    assert saved.damaged.read_bytes() == before
    with EventLog.open(path) as log:
        found = read_all(log)
        for name in READS.keys() - {"live"}:
            assert {plain(row) for row in found[name]} <= {plain(row) for row in rows[name]}, name
            assert len(found[name]) == saved.kept.get("trajectories" if name == "summaries" else name, 0)
        kept = [s.trajectory for s in log.trajectories(include_superseded=True)]
        lost = len(rows["trajectories"]) - len(kept)
        last = log._database.rows("SELECT COALESCE(MAX(row), 0) FROM trajectories")[0][0]
        named = saved.lost_rows.get("trajectories", ())
        assert len(named) + max(0, len(rows["trajectories"]) - max([last, *named])) == lost
        Ledger(entry for entry in log.ledger())
        assert log.append_trajectory(episode(99), step=99, phase="train")
        log.append_ledger("new", "launched", step=99)


def plain(row: str) -> str:
    """A row without its mark, which damage can take off a row that is otherwise whole."""
    return row.replace("superseded=True", "").replace("superseded=False", "")


@pytest.mark.parametrize("seed", range(40))
def test_flipped_bytes_never_give_a_wrong_record(seed: int, healthy: tuple[Path, Rows], tmp_path: Path) -> None:
    source, rows = healthy
    rng = random.Random(seed)
    path = copied(source, tmp_path / "log")
    for file in (path, Path(f"{path}-wal")):
        data = bytearray(file.read_bytes())
        for _ in range(rng.choice([0, 1, 3, 10])):
            start = rng.randrange(len(data))
            length = rng.choice([1, 1, 1, 4, 512, 8192])
            data[start : start + length] = rng.randbytes(len(data[start : start + length]))
        file.write_bytes(data)
    check(path, rows)


@pytest.mark.parametrize("share", [0.999, 0.9, 0.5, 0.2])
def test_a_truncated_file_gives_what_is_left(share: float, healthy: tuple[Path, Rows], tmp_path: Path) -> None:
    source, rows = healthy
    path = copied(source, tmp_path / "log")
    os.truncate(path, int(path.stat().st_size * share))
    check(path, rows)


def cut_log(path: Path) -> None:
    os.truncate(f"{path}-wal", os.path.getsize(f"{path}-wal") * 2 // 3)


def without_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def without_header(path: Path) -> None:
    path.write_bytes(bytes(200) + path.read_bytes()[200:])


def without_both_headers(path: Path) -> None:
    without_header(path)
    log = Path(f"{path}-wal")
    log.write_bytes(os.urandom(32) + log.read_bytes()[32:])


@pytest.mark.parametrize("damage", [cut_log, without_log, without_header, without_both_headers])
def test_missing_parts_cost_only_what_they_held(damage: Callable[[Path], None], healthy: tuple[Path, Rows], tmp_path: Path) -> None:
    source, rows = healthy
    path = copied(source, tmp_path / "log")
    damage(path)
    check(path, rows)


def test_a_healthy_log_loses_nothing(healthy: tuple[Path, Rows], tmp_path: Path) -> None:
    source, rows = healthy
    path = copied(source, tmp_path / "log")
    saved = recover(path)
    assert saved.is_whole
    assert saved.superseded == 0
    assert saved.kept == {
        "trajectories": 40, "scores": 40, "ledger": 120, "policies": 40, "metrics": 40, "updates": 40,
    }  # fmt: skip
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "events.db",
        "events.db.damaged",
        "events.db.damaged-wal",
        "events.db.lock",
    ]
    with EventLog.read(path) as log:
        assert read_all(log) == rows
    again = recover(path)
    assert again.damaged.name == "events.db.damaged-2"
    with EventLog.read(path) as log:
        assert read_all(log) == rows


def test_a_lost_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    with EventLog.create(path) as log:
        fill(log)
    damaged = bytearray(path.read_bytes())
    place = damaged.find(b"x" * 1000)
    assert place > 0
    damaged[place] ^= 1
    path.write_bytes(damaged)
    saved = recover(path)
    assert len(saved.lost_ids) == 1
    assert len(saved.lost_rows["trajectories"]) == 1
    assert saved.lost_rows.keys() == {"trajectories"}
    assert not saved.is_whole
    number = int(saved.lost_ids[0].split("/")[1])
    with EventLog.read(path) as log:
        assert len(list(log.trajectories(include_superseded=True))) == 39
        for run in range(2):
            wanted = list(log.trajectories(step=number, include_superseded=True))
            assert all(s.trajectory in (episode(number, run), episode(number, 1 - run)) for s in wanted)


@pytest.mark.parametrize(
    "content",
    [b"", b"garbage " * 5000, bytes(100_000), b"SQLite format 3\0" + bytes(5000)],
    ids=["empty", "text", "zeros", "header"],
)
def test_what_holds_no_row_is_left_as_it_is(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="holds no whole row of an event log, nothing was changed"):
        recover(path)
    assert path.read_bytes() == content
    assert sorted(p.name for p in tmp_path.iterdir()) == ["events.db", "events.db.lock"]


def test_a_log_that_is_written_is_not_recovered(healthy: tuple[Path, Rows], tmp_path: Path) -> None:
    path = copied(healthy[0], tmp_path / "log")
    with EventLog.open(path), pytest.raises(StoreError, match="has a writer already"):
        recover(path)
    with pytest.raises(StoreError, match="must be an event log, got no such file"):
        recover(tmp_path / "nothing.db")


@pytest.mark.parametrize("call", range(1, 12))
def test_a_recovery_that_is_killed_can_be_made_again(call: int, healthy: tuple[Path, Rows], tmp_path: Path) -> None:
    path = copied(healthy[0], tmp_path / "run")
    process = os.fork()
    if not process:
        left = [call]

        def dying(plain: Any) -> Any:
            def step(*arguments: Any, **options: Any) -> Any:
                result = plain(*arguments, **options)
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                return result

            return step

        os.link, os.replace, Path.unlink = dying(os.link), dying(os.replace), dying(Path.unlink)  # type: ignore[method-assign]
        try:
            recover(path)
        finally:
            os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(process, 0)[1])
    with contextlib.suppress(StoreError), EventLog.read(path) as log:  # leaves an empty write-ahead log
        list(log.policies())
    saved = recover(path)
    assert (killed, saved.is_whole) == (True, True)
    with EventLog.read(path) as log:
        assert read_all(log) == healthy[1]
    assert not list(path.parent.glob("*.recovering*"))


def test_the_error_of_a_damaged_log_says_how_to_save_it(healthy: tuple[Path, Rows], tmp_path: Path) -> None:
    path = copied(healthy[0], tmp_path / "log")
    without_header(path)
    without_log(path)
    with pytest.raises(StoreError, match=r"restore it from a copy, or `roserlhf doctor RUN --repair` keeps"):
        EventLog.read(path)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*ends in the middle of a write")
        yield
