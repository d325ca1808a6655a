"""What a program in the sandbox costs: `python benchmarks/sandbox.py [--repeat N]` prints medians in milliseconds, side by side.

The kinds take turns, round by round, so that a machine that slows down slows all of them. The bare interpreter of the same program,
without any sandbox, is what the rest is compared with.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence

from rosellm.roserlhf.environment.sandbox import Kind, Sandbox, unit_tests
from rosellm.roserlhf.errors import SandboxError

KINDS: tuple[Kind, ...] = ("bubblewrap", "landlock")
ROWS = ("one program", "first cell of a session", "another cell", "unit tests (two boxes)")


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds of one call."""
    before = time.perf_counter()
    await work()
    return 1000 * (time.perf_counter() - before)


async def one_round(sandbox: Sandbox) -> list[float]:
    """Measure each row once."""
    program = await timed(lambda: sandbox.run("pass"))
    async with sandbox.session() as session:
        first = await timed(lambda: session.run("x = 1"))
        again = await timed(lambda: session.run("x"))
    tests = await timed(lambda: unit_tests(sandbox, "def f(x): return x", "from solution import f\nassert f(1) == 1"))
    return [program, first, again, tests]


async def measure(sandboxes: Sequence[Sandbox], repeat: int) -> dict[Kind, list[list[float]]]:
    """Let the sandboxes take turns."""
    times: dict[Kind, list[list[float]]] = {sandbox.kind: [] for sandbox in sandboxes}
    for _ in range(repeat):
        for sandbox in sandboxes:
            times[sandbox.kind].append(await one_round(sandbox))
    return times


def available() -> list[Sandbox]:
    """Sandboxes that work here."""
    found = []
    for kind in KINDS:
        try:
            found.append(Sandbox(kind=kind))
        except SandboxError as error:
            print(error)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=41)
    repeat = parser.parse_args(arguments).repeat
    bare = []
    for _ in range(repeat):
        before = time.perf_counter()
        subprocess.run(["/usr/bin/python3", "-S", "-c", "pass"], check=True)
        bare.append(1000 * (time.perf_counter() - before))
    times = asyncio.run(measure(available(), repeat))
    print(f"median of {repeat}, ms" + "".join(f"{kind:>14}" for kind in times))
    for number, row in enumerate(ROWS):
        print(f"{row:<24}" + "".join(f"{statistics.median(each[number] for each in rounds):14.1f}" for rounds in times.values()))
    print(f"{'bare interpreter':<24}{statistics.median(bare):14.1f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
