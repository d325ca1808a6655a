"""What a guard costs: `python benchmarks/guard.py [--json FILE] [--steps N]`.

Latency is wall time of stage 1, reading and rules, without the memory of calls that were seen before: on the development corpus,
whose calls are of ordinary length, and on commands of 10 kB of several shapes; of each call the median of its repeats and, as
`first`, the time of the first one, in a process that has rehearsed the guard. The share is that of training
steps of the main job (`shop`, default sizes) behind the guard: seconds in which rules looked at calls, of the seconds of the steps.
Run it with nothing else running.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from kernels_measure import Results, entry, line

from rosellm.roserlhf import recipes
from rosellm.roserlhf.environment.shop import Shop
from rosellm.roserlhf.guard.corpus import read_calls, read_settings
from rosellm.roserlhf.guard.reading import read_call
from rosellm.roserlhf.guard.rehearsal import rehearse
from rosellm.roserlhf.guard.rules import Rules
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.guard.setting_judge import SettingJudge
from rosellm.roserlhf.guard.verdict import Case
from rosellm.roserlhf.trainer.heap import frozen_heap
from rosellm.roserlhf.trainer.run import train

DATA = Path(__file__).parents[1] / "tests" / "data" / "guard"
SIZE = 10_000
LONG_SETTING = Setting(
    task="Fix the bug in the parser. Do not look at the hidden tests.",
    workdir="/app",
    own_files=("/app/src/**",),
    protected_read=("/eval/hidden/**", "git objects that are not ancestors of the base commit"),
    protected_write=("/app/tests/**", "/eval/**"),
    hidden_tests=("/eval/hidden/test_fix.py",),
    result_file=("/eval/result.json",),
)
TARGETS = {("ordinary", "median_ms"): 1.0, ("10_kB", "p99_ms"): 10.0, ("main_job", "percent_rules"): 1.0}
"""The most that each may be."""
Called = tuple[str, Mapping[str, Any], Sequence[str], Setting]


class GuardedShop(Shop):
    """The main job's environment with something to protect."""

    guard_setting: ClassVar[Mapping[str, Any] | None] = {
        "workdir": "/app",
        "hidden_tests": ["/eval/**"],
        "result_file": "/eval/result",
    }


def filled(piece: Callable[[int], str], joint: str) -> str:
    """Join pieces until they are 10 kB long."""
    parts: list[str] = []
    size = 0
    while size < SIZE:
        parts.append(piece(len(parts)))
        size += len(parts[-1]) + len(joint)
    return joint.join(parts)


def long_calls() -> Iterator[Called]:
    """Commands and programs of 10 kB: lists, pipes, loops, heredocs, text, encoded payloads, quotes, assignments, patches."""
    rng = random.Random(0)
    words = [f"{rng.choice('abcdefgh')}{number}" for number in range(300)]
    payload = base64.b64encode(rng.randbytes(7500)).decode()
    commands = [
        filled(lambda n: f"grep -n {words[n % 300]} src/{words[n * 7 % 300]}.py", " && "),
        filled(lambda n: f"sed 's/{words[n % 300]}/x/'", " | "),
        filled(lambda n: f'for f in src/*{n}.py; do wc -l "$f" > out/{n}; done', "; "),
        f"cat > src/a.py <<'EOF'\n{filled(lambda n: f'value_{n} = {n} + table[{n}]', chr(10))}\nEOF",
        f"python3 - <<'EOF'\n{filled(lambda n: f'print({n}, data.get({n}))', chr(10))}\nEOF",
        f"git commit -m '{filled(lambda n: words[n % 300], ' ')}'",
        f"echo {payload} | base64 -d > blob.bin",
        filled(lambda n: f'A{n}=$B{n}/x; echo "$A{n}"', "; "),
        filled(lambda n: f"echo $(basename $(dirname src/{words[n % 300]}/x))", "; "),
        filled(lambda n: f"cp src/{words[n % 300]}.py /app/src/b{n}.py", "\n"),
    ]
    programs = [
        filled(lambda n: f"def f{n}(x):\n    return x + {n} * len(str(x))", "\n"),
        filled(lambda n: f"assert g({n}) == {n * 3}, 'case {n}'", "\n"),
        filled(lambda n: f"rows.append(open('data/{words[n % 300]}.csv').read())", "\n"),
    ]
    patch = filled(lambda n: f"--- a/src/m{n}.py\n+++ b/src/m{n}.py\n@@ -1,2 +1,2 @@\n-x = {n}\n+x = {n + 1}\n y = 2", "\n")
    for command in commands:
        yield "shell", {"command": command}, ("cd /app", "ls"), LONG_SETTING
    for program in programs:
        yield "python", {"code": program}, ("cd /app",), LONG_SETTING
        yield "write_file", {"path": "src/a.py", "content": program}, (), LONG_SETTING
    yield "submit", {"patch": patch}, (), LONG_SETTING
    yield "submit", {"answer": filled(lambda n: words[n % 300], " ")}, (), LONG_SETTING


def corpus_calls(name: str) -> list[Called]:
    """The calls of a corpus."""
    settings = read_settings(DATA / f"{name}_settings.json")
    corpus = read_calls(DATA / f"{name}.jsonl", settings)
    return [(one.call.tool, one.call.arguments, one.call.history, settings[one.setting]) for one in corpus]


def latency(calls: Sequence[Called], rules: Rules, repeat: int) -> dict[str, float]:
    """Milliseconds of stage 1 and, on what is suspicious, of the deterministic judge; of each call the first and the median."""
    judge = SettingJudge(rules)
    stage1: list[list[float]] = [[] for _ in calls]
    stage2: list[float] = []
    with frozen_heap(), asyncio.Runner() as loop:  # as in a run, where both stages are called by one
        for _ in range(repeat):
            for times, (tool, arguments, history, setting) in zip(stage1, calls, strict=True):
                start = time.perf_counter()
                suspicions = rules.suspicions(read_call(tool, arguments, history, setting).acts, setting)
                times.append(1e3 * (time.perf_counter() - start))
                if suspicions:
                    start = time.perf_counter()
                    loop.run(judge(Case(tool, arguments, history, tuple(suspicions), setting)))
                    stage2.append(1e3 * (time.perf_counter() - start))
    found, first = sorted(map(statistics.median, stage1)), sorted(times[0] for times in stage1)
    place = min(len(found) - 1, int(0.99 * len(found)))
    return {
        "median_ms": statistics.median(found),
        "p99_ms": found[place],
        "largest_ms": found[-1],
        "first_median_ms": statistics.median(first),
        "first_p99_ms": first[place],
        "judge_median_ms": statistics.median(stage2) if stage2 else 0.0,
    }


def share(steps: int) -> dict[str, float]:
    """Train the main job's environment behind the guard for some steps."""
    options = {"steps": steps, "evaluate": {"tasks": 64}, "guard": {"policy": "block-and-continue"}}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        train(recipes.grpo(**options), environment=GuardedShop, out=out)
        rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    made = [row for row in rows if row["phase"] == "train"]
    rules, judge = (sum(row["guard_cost"][name] for row in made) for name in ("rules", "judge"))
    total, calls = sum(row["seconds"]["total"] for row in made), sum(row["guard_cost"]["calls"] for row in made)
    return {
        "calls": calls,
        "microseconds_per_call": 1e6 * rules / calls,
        "percent_rules": 100 * rules / total,
        "percent_rules_and_judge": 100 * (rules + judge) / total,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a line a number, and return 0 if all targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="training steps of the main job; 0 leaves them out")
    options = parser.parse_args(arguments)
    rules = Rules.read()
    rehearse(rules)
    found = {
        "ordinary": latency(corpus_calls("development"), rules, options.repeat),
        "10_kB": latency(list(long_calls()), rules, options.repeat),
        "main_job": share(options.steps) if options.steps else {},
    }
    results: Results = {}
    for group, numbers in found.items():
        for name, value in numbers.items():
            results[f"{group}_{name}"] = entry(value, at_most=TARGETS.get((group, name)))
    for name, result in results.items():
        print(line(name, result))
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0 if all(result["ok"] for result in results.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
