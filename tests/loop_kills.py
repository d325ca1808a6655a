"""Run in a process of its own: `python loop_kills.py FOLDER COUNT [interrupts]`; prints what it did as JSON.

Loading libraries takes longer than a whole small run, so they are loaded once and every training process is a fork.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loop_worlds import lines, tiny

from rosellm.roserlhf.cli import main as roserlhf
from rosellm.roserlhf.config import dump_toml
from rosellm.roserlhf.trainer.recipe import Recipe
from rosellm.roserlhf.trainer.run import train


def eight() -> Recipe:
    """Eight steps with everything that a run does: warm start, evaluations, checkpoints between and at the steps."""
    return tiny(steps=8, checkpoint_every=3, keep_checkpoints=1, evaluate={"every": 4}, optimizer={"epochs": 2})


def forked(work: Callable[[], object], output: Path | None = None) -> int:
    """Start a process that does one piece of work and ends with its exit code; return its id."""
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        if output is not None:
            sink = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
        code = int(work() or 0)  # type: ignore[call-overload]
        sys.stdout.flush()
    except Exception:  # noqa: BLE001 - the fork must not go on as its parent would
        traceback.print_exc()
    finally:
        os._exit(code)


def go_on(out: Path) -> None:
    """Begin a run, or go on with it; before `run.toml` there is nothing to go on with."""
    resume = (out / "run.toml").is_file()
    if not resume:
        shutil.rmtree(out, ignore_errors=True)
    train(eight(), out=out, resume=resume)


def ended(process: int) -> int:
    """Wait for a process; return its exit code, negative for the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def kill(folder: Path, count: int) -> dict[str, Any]:
    """Kill training processes at random moments, `count` times, and let every run come to its end."""
    start = time.monotonic()
    if ended(forked(lambda: go_on(folder / "whole"))):
        raise SystemExit("the uninterrupted run failed")
    whole = time.monotonic() - start
    runs: dict[str, list[float]] = {}
    left, out = count, folder / "0"
    while True:
        moments = runs.setdefault(out.name, [])
        moment = random.uniform(0, whole) if left else 60.0
        process = forked(lambda out=out: go_on(out))  # type: ignore[misc]
        finished = _finished(process, moment)
        if finished is None:
            os.kill(process, signal.SIGKILL)
            finished = ended(process)
        if finished == -signal.SIGKILL and left:
            moments.append(round(moment, 3))
            left -= 1
            continue
        if finished:
            raise SystemExit(f"{out} failed with {finished} after {moments}")
        if not left:
            return {"seconds": whole, "runs": runs}
        out = folder / str(len(runs))


def _finished(process: int, seconds: float) -> int | None:
    """Exit code of a process that ends within some seconds; None if it does not."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    return None


def interrupt(folder: Path) -> dict[str, Any]:
    """Send Ctrl-C to the command: once, and twice; go on with both runs."""
    config, found = folder / "tiny.toml", dict[str, Any]()
    folder.mkdir()
    short = {"max_steps": 1, "demonstrations": 4, "check_tasks": 1}
    recipe = tiny(environment="loop_worlds:Patient", evaluate={"every": 0, "tasks": 1}, checkpoint_every=100, warm_start=short)
    config.write_text(dump_toml(recipe.config))
    os.environ["LOOKUP_SECONDS"] = "0.2"  # twelve episodes: more than two seconds a step, longer than a busy machine looks away
    for name, times in (("once", 1), ("twice", 2)):
        out, said = folder / name, folder / f"{name}.txt"
        process = forked(lambda out=out: roserlhf(["train", "--config", str(config), "--out", str(out)]), said)  # type: ignore[misc]
        while not ((out / "metrics.jsonl").is_file() and any(line["phase"] == "train" for line in lines(out))):
            time.sleep(0.005)
        time.sleep(0.1)  # into the next step
        for _ in range(times):
            os.kill(process, signal.SIGINT)
            time.sleep(0.1)
        code = ended(process)
        steps = sorted(int(path.name) for path in (out / "checkpoints").iterdir())
        made = [line["step"] for line in lines(out) if line["phase"] == "train"]
        found[name] = {"code": code, "said": said.read_text().splitlines(), "checkpoints": steps, "made": made}
    os.environ["LOOKUP_SECONDS"] = "0"
    for name in found:
        found[name]["resumed"] = ended(forked(lambda n=name: roserlhf(["train", "--resume", str(folder / n)]), folder / "rest.txt"))  # type: ignore[misc]
    found["straight"] = ended(forked(lambda: train(recipe, out=folder / "straight") and None))
    return found


def main(folder: Path, count: int, *, interrupts: bool) -> None:
    """Make both kinds of runs below a folder and print what was done."""
    importlib.import_module("transformers.models.llama.modeling_llama")  # two seconds that every fork would take
    gc.collect()
    gc.freeze()  # which every fork would walk
    done = {"killed": kill(folder / "killed", count)}
    print(json.dumps(done | ({"interrupted": interrupt(folder / "interrupted")} if interrupts else {})))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), interrupts="interrupts" in sys.argv)
