"""Speed and memory of the estimators and objectives against the obvious code, which is frozen in these files.

Run: `make bench-kernels`, or `nice -n -15 python benchmarks/kernels.py [--only NAME ...] [--json FILE]`, with nothing else running.
Everything is on one thread and on the CPU, with checks on, as in a training step.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

import kernels_compile
import kernels_groups
import kernels_selected
import kernels_time
import torch
from kernels_measure import Results, line

BENCHMARKS: list[Callable[[], Results]] = [
    *kernels_time.BENCHMARKS,
    *kernels_groups.BENCHMARKS,
    *kernels_compile.BENCHMARKS,
    *kernels_selected.BENCHMARKS,
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the numbers if asked to; 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join(benchmark.__name__ for benchmark in BENCHMARKS)
    parser.add_argument("--only", action="append", help=f"run benchmarks whose name contains this; may be repeated; {names}")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}, one thread")
    results: Results = {}
    for benchmark in BENCHMARKS:
        if options.only and not any(name in benchmark.__name__ for name in options.only):
            continue
        print(f"\n{benchmark.__name__}", flush=True)
        for name, result in benchmark().items():
            results[name] = result
            print(f"  {line(name, result)}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    missed = [name for name, result in results.items() if not result["ok"]]
    print(f"\n{sum(result['target'] is not None for result in results.values())} targets, missed: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
