"""Speed and memory of the estimators and objectives against the obvious loops, which are frozen in these files.

Run: `nice -n -15 python benchmarks/kernels.py [--only NAME ...] [--json FILE]`, on one thread (`OMP_NUM_THREADS=1`), with nothing
else running. Checks are on, as in a training step.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import kernels_selected
import kernels_time
import torch

BENCHMARKS: list[Callable[[], dict[str, dict[str, Any]]]] = [*kernels_time.BENCHMARKS, *kernels_selected.BENCHMARKS]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the numbers if asked to; 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="run benchmarks whose name contains this; may be repeated")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    results: dict[str, dict[str, Any]] = {}
    for benchmark in BENCHMARKS:
        if options.only and not any(name in benchmark.__name__ for name in options.only):
            continue
        for name, result in benchmark().items():
            results[name] = result
            aim = "" if result["target"] is None else f"   target {result['target']:g}   {'ok' if result['ok'] else 'missed'}"
            print(f"{name:48s} {result['value']:12.6g}{aim}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 0 if all(result["ok"] for result in results.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
