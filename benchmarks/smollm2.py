"""A real language model learns to use a calculator: SmolLM2-135M-Instruct on `arithmetic`, warm-started, then trained.

Run: `make bench-slow`, or `python benchmarks/smollm2.py [--seeds 0 1 2] [--folder DIR] [--json FILE]`; half an hour per seed on two
free cores.

What reinforcement learning adds is the success of the trained model minus that of the warm-started one, sampled once per task on
the same held-out tasks; its interval is the normal one over the differences by task. Warm start and training are timed apart.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rosellm.roserlhf.store.reading import EventReader

CONFIG = Path(__file__).parent.parent / "examples" / "smollm2.toml"
TARGETS = {
    "gain": (0.15, "higher"),
    "gain_low": (0.0, "higher"),
    "warm_start_seconds": (300.0, "lower"),
    "seconds": (2100.0, "lower"),
}
_Z95 = 1.959963984540054


def difference(before: Sequence[float], after: Sequence[float]) -> tuple[float, float, float]:
    """Mean of the differences by task, with the ends of its 95 % interval.

    Example:
        >>> difference([0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0])[0]
        0.5
    """
    by_task = [b - a for a, b in zip(before, after, strict=True)]
    mean, spread = statistics.fmean(by_task), statistics.stdev(by_task) / math.sqrt(len(by_task))
    return mean, mean - _Z95 * spread, mean + _Z95 * spread


def outcomes(folder: Path, step: int) -> dict[str, float]:
    """Success of every held-out task, sampled, at one step; a task whose episode could not be scored is left out."""
    with EventReader.read(folder / "events.db") as log:
        played = [entry.trajectory for entry in log.trajectories(step=step, phase="evaluate-sampled")]
    totals = {one.task_id: one.reward_totals().get("correct") for one in played if not one.is_unscored}
    return {task: float(value >= 1) for task, value in totals.items() if value is not None}


def measure(seed: int, out: Path) -> dict[str, float]:
    """Train one seed from the command line and read what it left behind."""
    command = [
        sys.executable,
        "-m",
        "rosellm.roserlhf.cli",
        "train",
        "--config",
        str(CONFIG),
        "--seed",
        str(seed),
        "--out",
        str(out),
    ]
    subprocess.run(command, check=True)
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    before, after = outcomes(out, 0), outcomes(out, summary["steps"])
    both = sorted(before.keys() & after.keys())
    gain, low, high = difference([before[task] for task in both], [after[task] for task in both])
    return {
        "success_before": statistics.fmean(before.values()),
        "success_after": statistics.fmean(after.values()),
        "gain": gain,
        "gain_low": low,
        "gain_high": high,
        "held_out_tasks": len(both),
        "warm_start_seconds": summary["seconds"]["warm_start"],
        "seconds": summary["seconds"]["total"],
        "peak_gib": summary["peak_rss_bytes"] / 2**30,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every seed, print each number and write the file; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, help="keep the runs here")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(argv)
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        for seed in options.seeds:
            for name, value in measure(seed, folder / f"smollm2-{seed}").items():
                target, better = TARGETS.get(name, (None, None))
                ok = target is None or (value >= target if better == "higher" else value <= target)
                results[f"seed_{seed}_{name}"] = {"value": value, "target": target, "better": better, "ok": ok}
                print(f"seed {seed} {name:20s} {value:10.4g}" + ("" if target is None else "  ok" if ok else "  missed"))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return int(not all(entry["ok"] for entry in results.values()))


if __name__ == "__main__":
    raise SystemExit(main())
