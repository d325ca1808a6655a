"""The export, measured: its time against pyarrow writing the same arrays, and the memory of a scan.

Run: `python benchmarks/store_export.py [--records 10000] [--repeats 5] [--scanned 100000] [--folder DIR] [--json FILE]`

Both sides of the first write the same row groups with the same options and wait for the disk: pyarrow gets Arrow arrays that are
there already (making them is not counted), the export starts at the event log. Rounds alternate, the numbers are medians. The scan
reads a file of records of 2,000 tokens, all its token columns, in a fresh process, and reports that process's high-water mark.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from store import BATCH, record

from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.store.export import arrow
from rosellm.roserlhf.store.export.columns import opened
from rosellm.roserlhf.store.export.folder import sync
from rosellm.roserlhf.store.export.parquet import export_parquet, record_groups, write
from rosellm.roserlhf.store.export.parquet_reading import scan_parquet

TARGETS = {"export_ratio": (1.6, "lower"), "scan_peak_mb": (600.0, "lower")}
TOKENS = 2000


def write_log(path: Path, count: int) -> None:
    """Make the log that is exported."""
    with EventLog.create(path) as log:
        for start in range(0, count, BATCH):
            with log.transaction():
                for i in range(start, min(start + BATCH, count)):
                    log.append_trajectory(record(i), step=start // BATCH, phase="train")


def write_arrays(log: EventLog, path: Path) -> float:
    """Write the arrays of the export with pyarrow alone and return the seconds of writing."""
    schema = arrow.written_schema()
    start = time.perf_counter()
    writer = arrow.open_writer(path, schema)
    seconds = time.perf_counter() - start
    for group in record_groups((opened(stored), None) for stored in log.packed_trajectories()):
        batch = group.batch()
        start = time.perf_counter()
        writer.write_batch(batch)
        seconds += time.perf_counter() - start
    start = time.perf_counter()
    writer.close()
    sync(path)
    return seconds + time.perf_counter() - start


def measure_export(count: int, repeats: int, folder: Path) -> dict[str, float]:
    """Compare an export with writing its arrays, in alternating rounds."""
    write_log(folder / "export.db", count)
    seconds: dict[str, list[float]] = {"arrays": [], "export": []}
    with EventLog.read(folder / "export.db") as log:
        for _ in range(repeats):
            seconds["arrays"].append(write_arrays(log, folder / "arrays.parquet"))
            start = time.perf_counter()
            export_parquet(log, folder / "out", overwrite=True)
            seconds["export"].append(time.perf_counter() - start)
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    for name, value in middle.items():
        print(f"{name:<34} {value:10.3f} s   {value / count * 1e6:8.1f} µs a record")
    size = (folder / "out" / "trajectories.parquet").stat().st_size
    print(f"{'bytes a token, whole file':<34} {size / count / TOKENS:10.2f}")
    return {"export_ratio": middle["export"] / middle["arrays"]}


def write_scanned(path: Path, count: int) -> None:
    """Write a file of `count` records, piece by piece; ids and log-probabilities are coarse, so that it stays small."""
    schema, size = arrow.record_schema(), 512
    rng = np.random.default_rng(0)
    offsets = pa.array(np.arange(size + 1, dtype=np.int32) * TOKENS)
    mask = np.tile(np.arange(TOKENS) % 200 >= 80, size)
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    logprobs = pa.py_buffer(-np.floor(rng.exponential(8.0, size * TOKENS)) / 8)
    values = {
        "token_ids": pa.array(rng.zipf(1.3, size * TOKENS) % 1000),
        "policy_mask": pa.Array.from_buffers(pa.bool_(), size * TOKENS, [None, bits]),
        "turn": pa.array(np.tile(np.arange(TOKENS, dtype=np.int32) // 200, size)),
        "role": pa.array(np.where(mask, "assistant", "tool")),
        "behaviour_logprobs": pa.Array.from_buffers(pa.float64(), size * TOKENS, [bits, logprobs]),
    }
    lists = {n: pa.ListArray.from_arrays(offsets, v, type=schema.field(n).type) for n, v in values.items()}
    columns = [lists.get(f.name, pa.nulls(size, f.type)) for f in schema]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    write(path, schema, (batch.slice(0, min(size, count - start)) for start in range(0, count, size)))


def scan(path: Path) -> tuple[int, float]:
    """Read every token column; return the number of sampled tokens and the mean of their log-probabilities."""
    count, total = 0, 0.0
    for batch in scan_parquet(path, list(arrow.TOKENS)):
        logprobs = batch.column("behaviour_logprobs").flatten().drop_null().to_numpy()
        count, total = count + len(logprobs), total + float(logprobs.sum())
    return count, total / count


def measure_scan(count: int, folder: Path) -> dict[str, float]:
    """Scan `count` records in a process of its own."""
    path = folder / "scanned.parquet"
    write_scanned(path, count)
    start = time.perf_counter()
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, __file__, "--scan", str(path)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=where)
    found: dict[str, float] = json.loads(ran.stdout)
    print(f"{'scanned':<34} {found['sampled']:10.0f} sampled tokens of {count} records, {time.perf_counter() - start:.1f} s")
    path.unlink()
    return {"scan_peak_mb": found["peak_mb"]}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a line a number, and return 0 if all targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000, help="records of 2,000 tokens that are exported")
    parser.add_argument("--repeats", type=int, default=5, help="rounds, of which the median is taken")
    parser.add_argument("--scanned", type=int, default=100_000, help="records of 2,000 tokens that are scanned")
    parser.add_argument("--folder", type=Path, help="write here, to measure another disk; must exist")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to this file")
    parser.add_argument("--scan", type=Path, metavar="FILE", help="only scan this file and print what it took, as JSON")
    options = parser.parse_args(argv)
    if options.scan:
        sampled, mean = scan(options.scan)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        print(json.dumps({"sampled": sampled, "mean": mean, "peak_mb": peak}))
        return 0
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        found = measure_export(options.records, options.repeats, Path(scratch)) | measure_scan(options.scanned, Path(scratch))
    rows: dict[str, dict[str, Any]] = {}
    for name, value in found.items():
        target, better = TARGETS[name]
        rows[name] = {"value": value, "target": target, "better": better, "ok": value <= target}
        print(f"{name:<34} {value:10.4g}   target ≤ {target:g}   {'ok' if value <= target else 'MISSED'}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0 if all(row["ok"] for row in rows.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
