"""The store, measured: appending and scanning against JSONL, exporting against pyarrow, and what recording costs the main job.

Run: `python benchmarks/store.py [--records 3840] [--repeats 11] [--steps 10] [--skip-recording] [--skip-export] [--folder DIR]
[--json FILE]`

JSONL is written the fastest way there is: `orjson` encodes the record objects as they are, a batch of 64 lines is one write and
one fsync. The event log writes a batch of 64 records in one transaction and waits for the disk as well (`EventLog.flush`). Both
take the same objects, of 2,000 tokens, 1,200 of them sampled, batch by batch; the numbers are medians over the batches. Moving
what was appended from the write-ahead log into the file is SQLite's business now and then: it shows in the mean, and when the log
is closed.

Scanning reads of every record of one policy version what credit needs: step, group, reward components, whether it is scored,
ending, sampled tokens. All records are of that version.

Recording is the time inside the methods of `EventLog` over the wall time of the whole run, for a shortened main job. What is
measured of the export, of 10,000 records, and of the scan of 100,000 says `store_export.py`, which can be run alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.trajectory import (
    ParsedAction,
    PolicyAction,
    SamplingParameters,
    TokenSpan,
    ToolCall,
    ToolResult,
    Trajectory,
    TransitionRecord,
)

TARGETS = {
    "append_speedup": (1.3, "higher"),
    "bytes_share": (0.4, "lower"),
    "scan_speedup": (20.0, "higher"),
    "recording_share": (0.03, "lower"),
    "export_ratio": (1.6, "lower"),
    "scan_peak_mb": (600.0, "lower"),
}
BATCH, VOCABULARY, TURNS = 64, 50_000, 10
LINES, LOG = "records.jsonl", "events.db"
HASH = "b5308363a8ddcbb4bba05e4237e05d2cae75458613fc1f9c2c7530e0a54137a4"


def record(number: int) -> Trajectory:
    """Make a record of 2,000 tokens in ten turns: 80 of prompt, 120 sampled a turn, 80 observed after each turn but the last."""
    rng = random.Random(number)
    task = f"task-{number // 8:05d}"
    made = Trajectory(
        f"bench-0/train/{number // BATCH}/{task}/{number % 8}",
        task,
        "shop-1",
        HASH,
        group_id=f"bench-0/train/{number // BATCH}/{task}",
        run_id="bench-0",
        step=number // BATCH,
        member=number % 8,
        initial_state_hash=f"{rng.getrandbits(96):024x}",
        seeds={"environment": rng.getrandbits(62), "run": 0},
        hashes={"tokenizer": HASH},
        prompt=[TokenSpan(ids(rng, 60), "user"), TokenSpan(ids(rng, 20), "assistant", [False] * 20)],
    )
    for turn in range(TURNS):
        made.append(*exchange(rng, turn, task, number))
    made.seal()
    return made


def exchange(rng: random.Random, turn: int, task: str, number: int) -> tuple[PolicyAction, TransitionRecord]:
    """Make one tool call and its answer."""
    last = turn == TURNS - 1
    call = ToolCall("call-0", "search", {"query": words(rng, 6), "limit": rng.randrange(20)})
    action = PolicyAction(
        turn,
        ids(rng, 120),
        [float32(-rng.expovariate(3.0)) for _ in range(120)],
        "v0",
        words(rng, 50),
        ParsedAction("", [call]),
        sampling=SamplingParameters(max_tokens=256, seed_key=(0, "train", number // BATCH, task, number % 8, turn)),
        stop_reason="stop",
    )
    shown = [] if last else [TokenSpan(ids(rng, 79), "tool"), TokenSpan(ids(rng, 1), "assistant", [False])]
    answer = TransitionRecord(
        turn,
        None,
        {"correct": float(rng.random() < 0.5), "cost": -0.01, "format": 0.0} if last else {},
        last,
        False,
        f"{rng.getrandbits(96):024x}",
        results=[ToolResult("call-0", "ok", words(rng, 30), latency=rng.random())],
        observation=shown,
        cause="finished" if last else None,
    )
    return action, answer


def ids(rng: random.Random, count: int) -> list[int]:
    """Draw token ids."""
    return [rng.randrange(VOCABULARY) for _ in range(count)]


def words(rng: random.Random, count: int) -> str:
    """Draw text."""
    return " ".join(f"word{rng.randrange(3000)}" for _ in range(count))


def float32(value: float) -> float:
    """Round to what an engine reports."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def append_jsonl(records: Sequence[Trajectory], file: BinaryIO) -> None:
    """Write a batch as lines and wait for the disk."""
    file.write(b"".join([orjson.dumps(trajectory, option=orjson.OPT_APPEND_NEWLINE) for trajectory in records]))
    os.fsync(file.fileno())


def append_log(records: Sequence[Trajectory], log: EventLog, step: int) -> None:
    """Write a batch in one commit and wait for the disk."""
    with log.transaction():
        for trajectory in records:
            log.append_trajectory(trajectory, step=step, phase="train")
    log.flush()


def scan_jsonl(path: Path) -> float:
    """Sum a reward over all records of the version, as credit would read them."""
    total = 0.0
    with path.open("rb") as file:
        for line in file:
            row = orjson.loads(line)
            actions, transitions = row["actions"], row["transitions"]
            if "v0" not in {span["version"] for action in actions for span in action["version_spans"]}:
                continue
            rewards: dict[str, float] = {}
            for transition in transitions:
                for name, value in transition["reward_components"].items():
                    rewards[name] = rewards.get(name, 0.0) + value
            kept = (row["step"], row["group_id"], sum(len(a["token_ids"]) for a in actions), transitions[-1]["terminated"])
            total += rewards["correct"] * kept[2]
    return total


def scan_log(path: Path) -> float:
    """Sum the same from the columns."""
    with EventLog.read(path) as log:
        return sum((s.rewards["correct"] or 0.0) * s.sampled_tokens for s in log.summaries(version="v0"))


def timed(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Return the seconds that a call took, and what it returned."""
    start = time.perf_counter()
    result = work(*arguments)
    return time.perf_counter() - start, result


def measure_appending(count: int, folder: Path) -> dict[str, float]:
    """Append batch by batch to both, the one that goes first changing with every batch, and compare the medians."""
    seconds: dict[str, list[float]] = {"append_jsonl": [], "append_log": []}
    with (folder / LINES).open("wb", buffering=0) as file:
        log = EventLog.create(folder / LOG)
        for step in range(count // BATCH):
            records = [record(step * BATCH + i) for i in range(BATCH)]
            sides: list[tuple[str, Callable[..., None], tuple[Any, ...]]] = [
                ("append_jsonl", append_jsonl, (records, file)),
                ("append_log", append_log, (records, log, step)),
            ]
            for name, append, arguments in sides if step % 2 else reversed(sides):
                seconds[name].append(timed(append, *arguments)[0])
        closing = timed(log.close)[0]
    middle = {name: statistics.median(values) / BATCH for name, values in seconds.items()}
    for name, value in middle.items():
        mean = statistics.fmean(seconds[name]) / BATCH
        print(f"{name:<34} {value * 1e6:10.1f} µs a record (mean {mean * 1e6:.1f})   {1 / value:10.0f} records/s")
    print(f"{'closing the log, once':<34} {closing * 1e3:10.1f} ms")
    sizes = [(folder / name).stat().st_size for name in (LINES, LOG)]
    print(f"{'bytes a record':<34} {sizes[0] / count:10.0f} JSONL   {sizes[1] / count:10.0f} log")
    return {"append_speedup": middle["append_jsonl"] / middle["append_log"], "bytes_share": sizes[1] / sizes[0]}


def measure_scanning(repeats: int, folder: Path) -> dict[str, float]:
    """Scan both for what credit needs, in alternating rounds, and compare the medians."""
    seconds: dict[str, list[float]] = {"scan_jsonl": [], "scan_log": []}
    for _ in range(repeats):
        sums = []
        for name, scan, file in (("scan_jsonl", scan_jsonl, LINES), ("scan_log", scan_log, LOG)):
            took, total = timed(scan, folder / file)
            seconds[name].append(took)
            sums.append(total)
        if sums[0] != sums[1]:
            raise SystemExit(f"the two scans must agree, got {sums}")
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    for name, value in middle.items():
        print(f"{name:<34} {value * 1e3:10.1f} ms")
    return {"scan_speedup": middle["scan_jsonl"] / middle["scan_log"]}


class Stopwatch:
    """Wall time inside wrapped calls; of nested ones only the outermost counts."""

    def __init__(self) -> None:
        """Start at zero."""
        self.seconds: dict[str, float] = {}
        self._depth = 0

    @contextlib.contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Count the block under a name."""
        start = time.perf_counter()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def wrap(self, cls: Any, name: str) -> None:
        """Count every call of a method."""
        method = getattr(cls, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            with self.running(name):
                return method(*arguments, **options)

        setattr(cls, name, counted)

    def wrap_transaction(self, cls: Any) -> None:
        """Count beginning and ending a transaction, not the block inside."""
        method = cls.transaction

        @contextlib.contextmanager
        def counted(log: EventLog) -> Iterator[None]:
            block = method(log)
            with self.running("transaction"):
                block.__enter__()
            try:
                yield
            except BaseException:
                with self.running("transaction"):
                    block.__exit__(*sys.exc_info())
                raise
            with self.running("transaction"):
                block.__exit__(None, None, None)

        cls.transaction = counted


def measure_recording(steps: int, folder: Path) -> dict[str, float]:
    """Run a shortened main job and say which share of it recording took."""
    from rosellm.roserlhf import recipes, train

    watch = Stopwatch()
    for name in ("append_trajectory", "append_entries", "append_ledger", "append_metrics", "append_update", "add_policy"):
        watch.wrap(EventLog, name)
    for name in ("flush", "supersede", "close", "metrics", "policies"):
        watch.wrap(EventLog, name)
    watch.wrap_transaction(EventLog)
    whole, _ = timed(lambda: train(recipes.grpo(seed=0, steps=steps), out=folder / "run"))
    spent = sum(watch.seconds.values())
    for name, value in sorted(watch.seconds.items(), key=lambda item: -item[1]):
        print(f"{'recording: ' + name:<34} {value:10.3f} s")
    print(f"{'recording in all':<34} {spent:10.3f} s of {whole:.1f} s")
    return {"recording_share": spent / whole}


def judged(found: dict[str, float]) -> dict[str, dict[str, Any]]:
    """Hold every number against its target."""
    rows = {}
    for name, value in found.items():
        target, better = TARGETS[name]
        good = value >= target if better == "higher" else value <= target
        rows[name] = {"value": value, "target": target, "better": better, "ok": good}
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a line a number, and return 0 if all targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=3840, help="records of 2,000 tokens")
    parser.add_argument("--repeats", type=int, default=11, help="rounds of scanning, of which the median is taken")
    parser.add_argument("--steps", type=int, default=10, help="training steps of the shortened main job")
    parser.add_argument("--skip-recording", action="store_true", help="leave the main job out")
    parser.add_argument("--skip-export", action="store_true", help="leave the export and the scan of a Parquet file out")
    parser.add_argument("--folder", type=Path, help="write here, to measure another disk; must exist")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to this file")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        found = measure_appending(options.records, Path(scratch))
        found |= measure_scanning(options.repeats, Path(scratch))
        if not options.skip_export:
            from store_export import measure_export, measure_scan  # which takes its records from here

            found |= measure_export(10_000, 5, Path(scratch)) | measure_scan(100_000, Path(scratch))
        if not options.skip_recording:
            found |= measure_recording(options.steps, Path(scratch))
    rows = judged(found)
    for name, row in rows.items():
        sign = "≥" if row["better"] == "higher" else "≤"
        print(f"{name:<34} {row['value']:10.4g}   target {sign} {row['target']:g}   {'ok' if row['ok'] else 'MISSED'}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0 if all(row["ok"] for row in rows.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
