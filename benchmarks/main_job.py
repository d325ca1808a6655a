"""The main job, measured: `roserlhf train` on `shop`, three seeds, each with a control.

The control spends the same number of optimizer steps on cloning alone.

Run: `python benchmarks/main_job.py [--seeds 0 1 2] [--skip-control] [--folder DIR] [--json FILE]`

Every number is read from the files that the runs leave behind. Success is measured on held-out tasks that never decide anything;
seconds are wall-clock seconds of the whole run, warm start and evaluation included; memory is the process's high-water mark.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TARGETS = {
    "success_before_sampled": (0.50, "lower"),
    "success_after_sampled": (0.95, "higher"),
    "success_after_greedy": (0.95, "higher"),
    "held_out_tasks": (1000, "higher"),
    "seconds": (300.0, "lower"),
    "peak_gib": (2.0, "lower"),
    "control_sampled": (0.70, "lower"),
}


def run(out: Path, seed: int, *options: str) -> dict[str, Any]:
    """Train from the command line and return the summary."""
    subprocess.run(
        [sys.executable, "-m", "rosellm.roserlhf.cli", "train", "--seed", str(seed), "--out", str(out), *options], check=True
    )
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    return summary


def optimizer_steps(out: Path) -> int:
    """Optimizer steps that a run made: cloning steps and policy updates."""
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    cloning = max((row["step"] for row in rows if row["phase"] == "warm_start"), default=0)
    return int(cloning) + int(sum(row["updates"]["made"] for row in rows if row["phase"] == "train"))


def measure(seed: int, folder: Path, *, control: bool) -> dict[str, float]:
    """Run one seed, and its control, and collect what is to be reported."""
    out = folder / f"seed-{seed}"
    summary = run(out, seed)
    before, after = summary["success_before"], summary["success_after"]
    found = {
        "success_before_sampled": before["sampled"],
        "success_after_sampled": after["sampled"],
        "success_after_greedy": after["greedy"],
        "held_out_tasks": after["n"],
        "seconds": summary["seconds"]["total"],
        "peak_gib": summary["peak_rss_bytes"] / 2**30,
    }
    if control:
        steps = optimizer_steps(out)
        cloned = run(
            folder / f"control-{seed}",
            seed,
            *("--steps", "0", "--warm-start.max-steps", str(steps), "--warm-start.stop-at-success", "1.0"),
        )
        found["control_sampled"] = cloned["success_after"]["sampled"]
    return found


def judged(found: dict[int, dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Hold every number against its target."""
    rows = {}
    for seed, values in found.items():
        for name, value in values.items():
            target, better = TARGETS[name]
            good = value >= target if better == "higher" else value <= target
            rows[f"{name}_seed_{seed}"] = {"value": value, "target": target, "better": better, "ok": good}
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a line a number, and return 0 if all targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--skip-control", action="store_true", help="measure the main runs only")
    parser.add_argument("--folder", type=Path, help="keep the run folders here (it must not hold them already)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to this file")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        found = {seed: measure(seed, folder, control=not options.skip_control) for seed in options.seeds}
    rows = judged(found)
    for name, row in rows.items():
        sign = "≥" if row["better"] == "higher" else "≤"
        print(f"{name:<34} {row['value']:10.4g}   target {sign} {row['target']:g}   {'ok' if row['ok'] else 'MISSED'}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0 if all(row["ok"] for row in rows.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
