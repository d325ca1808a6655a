"""A log whose writer is killed, or whose disk is full, at any moment: nothing acknowledged is lost, nothing is there twice."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import subprocess
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store import EventLog, Ledger, LedgerEntry, State, Update, UpdatedRow
from rosellm.roserlhf.store.encoding import pack_record
from rosellm.roserlhf.trajectory import PolicyAction, ScoreRecord, Trajectory, TransitionRecord

pytestmark = pytest.mark.filterwarnings("ignore:.*ends in the middle of a write:RuntimeWarning")
PATH: tuple[State, ...] = ("launched", "finished", "admitted", "trained")


def episode(number: int, tokens: int = 20) -> Trajectory:
    acted = PolicyAction(0, range(tokens), [-0.5 - number] * tokens, "v0", "text " * tokens, stop_reason="stop")
    end = TransitionRecord(0, None, {"correct": float(number)}, True)
    return Trajectory(f"t{number}", "task", "shop-1", "tok-1", [acted], [end], group_id="g")


def entry(number: int, state: State, tokens: int = 20) -> LedgerEntry:
    sampled = tokens if state == "finished" else None
    return LedgerEntry(f"t{number}", state, step=number, sampled=sampled, trained=tokens if state == "trained" else None)


def write_one(log: EventLog, number: int, before: State | None, *, is_new: bool) -> None:
    """Append what belongs to one number, as far as it is not there: even ones in one commit, odd ones bit by bit."""
    together = log.transaction() if number % 2 == 0 else contextlib.nullcontext()
    with together:
        assert log.append_trajectory(episode(number), step=number, phase="train") is is_new
        for state in PATH[0 if before is None else PATH.index(before) + 1 :]:
            log.append_entries([entry(number, state)])
        log.append_score(ScoreRecord(f"t{number}", 0, {"judge": float(number)}, "judge-1"))
        log.add_policy(f"v{number}", step=number)


def go_on(log: EventLog) -> int:
    """Complete the last number, of which a part may be there; return the next one."""
    stored = log.sampled_tokens()
    if not stored:
        return 0
    last = max(stored)
    state = Ledger(log.ledger(step=last)).state(f"t{last}")
    write_one(log, last, state, is_new=False)
    return last + 1


def write_until_killed(path: Path, acknowledge: int) -> None:
    with EventLog.open(path) as log:
        for number in count(go_on(log)):
            write_one(log, number, None, is_new=True)
            if number % 7 == 0:
                log.flush()
            os.write(acknowledge, number.to_bytes(4, "big"))


@contextlib.contextmanager
def writer(path: Path) -> Iterator[Callable[[], list[int]]]:
    """Fork a process that writes; the function kills it and returns what it acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            write_until_killed(path, writing)
        finally:
            os._exit(1)
    os.close(writing)

    def kill() -> list[int]:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the writer must not have ended by itself"
        data = b""
        while part := os.read(reading, 65536):
            data += part
        return [int.from_bytes(data[i : i + 4], "big") for i in range(0, len(data) - 3, 4)]

    yield kill
    os.close(reading)


def test_two_hundred_kills_lose_nothing_acknowledged_and_double_nothing(tmp_path: Path) -> None:
    rng = random.Random(0)
    acknowledged_in_all = 0
    for round_number in range(10):
        path = tmp_path / f"{round_number}.db"
        EventLog.create(path).close()
        acknowledged = -1
        for _ in range(20):
            with writer(path) as kill:
                time.sleep(rng.uniform(0.0, 0.03))
                acknowledged = max([acknowledged, *kill()])
            # Readers see it as it was left, before a writer tidies up.
            with EventLog.read(path) as log:
                stored = [s.trajectory_id for s in log.summaries()]
                assert stored == [f"t{i}" for i in range(len(stored))], "in order, each once"
                assert len(stored) >= acknowledged + 1
                ledger = Ledger(log.ledger())
                assert all(ledger.state(f"t{i}") == "trained" for i in range(acknowledged + 1))
                # Even numbers are one commit; of the last odd one a part may be there.
                entries = len(list(log.ledger()))
                assert entries % 4 == 0 or len(stored) % 2 == 0
        with EventLog.open(path) as log:
            assert go_on(log) == len(stored)
            Ledger(log.ledger()).balance(recorded=log.sampled_tokens())
            assert [s.trajectory for s in log.trajectories()] == [episode(i) for i in range(len(stored))]
            assert [s.trajectory_id for s in log.scores()] == stored
            assert [p.version for p in log.policies()] == [f"v{i}" for i in range(len(stored))]
            assert list(log.problems()) == []
        acknowledged_in_all += acknowledged + 1
    assert acknowledged_in_all > 40  # enough to lose some, on a machine that is busy with other things, too


# --- a full disk ----------------------------------------------------------------------------------------------------------------


def update(number: int, tokens: int) -> Update:
    rows = [UpdatedRow("t0", array("f", [-0.5] * tokens))]
    return Update(number, 0, epoch=0, rows=rows, denominator=1.0, loss=0.0, gradient_norm=0.0, learning_rate=0.0)


Write = Callable[[EventLog, int, int], object]
WRITES: dict[str, Write] = {
    "trajectory": lambda log, n, size: log.append_trajectory(episode(n, size), step=n, phase="train"),
    "score": lambda log, n, size: log.append_score(ScoreRecord("t0", n, {"x" * size: 1.0}, "judge-1")),
    "ledger": lambda log, n, size: log.append_ledger(f"a{n}", "launched", step=n, detail="x" * size),
    "policy": lambda log, n, size: log.add_policy(f"v{n}" + "x" * size, step=n),
    "metrics": lambda log, n, size: log.append_metrics("train", n, {"text": "x" * size}),
    "update": lambda log, n, size: log.append_update(update(n, size)),
    "supersede": lambda log, n, size: log.supersede(1),
}


@contextlib.contextmanager
def no_file_may_grow(path: Path) -> Iterator[None]:
    """Refuse every write beyond the present end of the log, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (Path(f"{path}-wal").stat().st_size + 100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def contents(log: EventLog) -> dict[str, list[str]]:
    reads = (log.trajectories, log.scores, log.ledger, log.policies, log.metrics, log.updates)
    return {read.__name__: [repr(row) for row in read(include_superseded=True)] for read in reads}


@pytest.mark.parametrize("size", [1, 200_000], ids=["small", "large"])
@pytest.mark.parametrize("kind", WRITES)
def test_a_full_disk_is_one_clear_error_and_no_damage(kind: str, size: int, tmp_path: Path) -> None:
    path, write = tmp_path / "events.db", WRITES[kind]
    with EventLog.create(path) as log:
        for number in range(3):
            log.append_trajectory(episode(number), step=number, phase="train")
        if kind != "supersede":
            write(log, 10, 1)
        before = contents(log)
        for number in range(20, 23):
            with no_file_may_grow(path), pytest.raises(StoreError, match=r"events\.db cannot be written: ") as caught:
                write(log, number, size)
            assert "\n" not in str(caught.value)
            assert contents(log) == before
        with no_file_may_grow(path):
            log.flush()
        with EventLog.read(path) as reader:
            assert contents(reader) == before
        write(log, 20, size)
        after = contents(log)
        assert kind == "supersede" or after != before
        log.append_ledger("later", "launched", step=9)
        assert list(log.problems()) == []
    with EventLog.open(path) as log:
        assert contents(log) == {**after, "ledger": [repr(e) for e in log.ledger(include_superseded=True)]}


def test_whoever_swallows_the_error_of_a_full_disk_commits_nothing(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    with EventLog.create(path) as log:
        log.append_metrics("train", 0, {})
        with (
            pytest.raises(StoreError, match="an earlier write of this transaction failed, and all of it is undone"),
            log.transaction(),
        ):
            log.append_metrics("train", 1, {})
            with no_file_may_grow(path), contextlib.suppress(StoreError):
                for number in range(40):  # more than SQLite keeps in memory
                    log.append_trajectory(episode(number, 20_000), step=1, phase="train")
            log.append_metrics("train", 2, {})
        assert [m.step for m in log.metrics()] == [0]
        assert list(log.trajectories()) == []
        with log.transaction():
            log.append_metrics("train", 3, {})
        assert list(log.problems()) == []


def test_a_refused_append_inside_a_transaction_does_not_spoil_it(tmp_path: Path) -> None:
    with EventLog.create(tmp_path / "events.db") as log:
        with log.transaction():
            log.append_ledger("a", "launched", step=0)
            with pytest.raises(StoreError, match="must go from launched to finished or failed"):
                log.append_entries([LedgerEntry("b", "launched", step=0), LedgerEntry("a", "admitted", step=0)])
            with pytest.raises(StoreError, match="fit 64 bits"):
                log.append_metrics("train", 2**63, {})
            with pytest.raises(StoreError, match="superseded must be False in an entry that is appended, got True"):
                log.append_entries([LedgerEntry("c", "launched", step=0, superseded=True)])
            log.append_ledger("a", "finished", step=0, sampled=1)
        assert [(e.attempt_id, e.state) for e in log.ledger()] == [("a", "launched"), ("a", "finished")]
        assert list(log.problems()) == []


def test_an_undone_transaction_is_forgotten(tmp_path: Path) -> None:
    with EventLog.create(tmp_path / "events.db") as log:
        log.append_ledger("a", "launched", step=0)
        with pytest.raises(KeyError), log.transaction():
            log.append_ledger("a", "finished", step=0, sampled=5)
            log.append_ledger("b", "launched", step=0)
            raise KeyError
        with pytest.raises(StoreError, match="attempt 'b' must go from nothing to launched, got finished"):
            log.append_ledger("b", "finished", step=0, sampled=1)
        log.append_ledger("a", "failed", step=0, sampled=2, reason="timeout")
        assert [(e.attempt_id, e.state) for e in log.ledger()] == [("a", "launched"), ("a", "failed")]
        assert list(log.problems()) == []


def test_a_real_full_disk(tmp_path: Path) -> None:
    folder = tempfile.mkdtemp(dir=tmp_path)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        path = Path(folder, "events.db")
        with EventLog.create(path) as log:
            stored = 0
            with pytest.raises(StoreError, match="cannot be written: database or disk is full"):
                for number in count():
                    log.append_trajectory(episode(number, 500), step=number, phase="train")
                    stored += 1
            assert stored
            assert [s.trajectory for s in log.trajectories()] == [episode(n, 500) for n in range(stored)]
        with EventLog.read(path) as log:
            assert [s.trajectory for s in log.trajectories()] == [episode(n, 500) for n in range(stored)]
            assert list(log.problems()) == []
        full = Path(folder, "full")
        with contextlib.suppress(OSError):
            full.write_bytes(bytes(2**20))
        with pytest.raises(StoreError, match="cannot be created: "):
            EventLog.create(Path(folder, "new.db"))
        assert not list(Path(folder).glob("new.db*"))
        full.unlink()
        subprocess.run(["mount", "-o", "remount,size=8m", folder], check=True)
        with EventLog.open(path) as log:
            log.append_trajectory(episode(stored, 500), step=stored, phase="train")
            assert [s.trajectory for s in log.trajectories()] == [episode(n, 500) for n in range(stored + 1)]
    finally:
        subprocess.run(["umount", folder], check=True)


def test_what_the_writer_packs_is_what_the_reader_gets() -> None:
    assert len(pack_record(episode(0)).token_ids) == 20  # the processes that are forked start with everything loaded
