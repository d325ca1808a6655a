"""Run in a process of its own: `python loop_deaths.py FOLDER MOMENT …` trains in children that kill themselves at chosen moments.

The hooks live here, not in the product: each replaces one function by one that kills the process, the first time or later.
"""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from loop_worlds import tiny

from rosellm.roserlhf.engine.llama import LlamaStep
from rosellm.roserlhf.learner.step import Stepper
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.trainer import account, checkpoint, folder, run, step, warm_start

NEVER = 1_000_000


def die() -> None:
    """End as a power cut would: nothing is flushed, no handler runs."""
    os.kill(os.getpid(), signal.SIGKILL)


def at(
    owner: Any, name: str, *, call: int = 1, when: Callable[..., bool] = lambda *_, **__: True, after: bool = False
) -> Callable[[], None]:
    """Make a hook: die in the given one of the calls for which `when` holds, before its work or after it."""

    def install() -> None:
        plain, lock, left = getattr(owner, name), threading.Lock(), [call]

        def dying(*args: Any, **options: Any) -> Any:
            with lock:
                left[0] -= when(*args, **options)
                now = left[0] == 0
                left[0] -= NEVER if now else 0
            if now and not after:
                die()
            result = plain(*args, **options)
            if now:
                die()
            return result

        setattr(owner, name, dying)

    return install


def of_step(number: int) -> Callable[..., bool]:
    return lambda *args, **options: options.get("step", args[-1] if args else None) == number


def of_phase(phase: str, number: int) -> Callable[..., bool]:
    return lambda *_, **options: (options["phase"], options["step"]) == (phase, number)


def replaces_the_old(path: Path, target: Path) -> bool:
    return path.name == ".0.tmp" and (target.parent / ".0.old").exists()


def removes_the_old(path: Path | str, **_: Any) -> bool:
    return Path(path).name == ".0.old" and Path(path).exists()


def sampling_of(number: int) -> Callable[[], None]:
    """Make a hook: die in the second wave of a training step."""

    def install() -> None:
        plain: Callable[..., Any] = getattr(run, "train_step")  # noqa: B009 - run only imports it

        def step_then_die(*args: Any) -> Any:
            if args[-1] == number:
                at(LlamaStep, "forward", call=9)()
            return plain(*args)

        setattr(run, "train_step", step_then_die)  # noqa: B010

    return install


DEATHS: dict[str, list[Callable[[], None]]] = {
    "between run.toml and the event log": [at(folder, "equip")],
    "amid the cloning": [at(warm_start, "clone", call=6)],
    "between a check of the warm start and its checkpoint": [at(run, "save_checkpoint", call=2)],
    "between the renames of a second save": [at(Path, "rename", when=replaces_the_old)],
    "while step 1 is sampled": [sampling_of(1)],
    "while step 3 is sampled": [sampling_of(3)],
    "between update and account": [at(account.Account, "place", call=3)],
    "amid the evaluation of step 2": [at(EventLog, "append_trajectory", when=of_phase("evaluate-sampled", 2))],
    "inside a save": [at(checkpoint, "save_file", call=2 * 4)],
    "after the last checkpoint": [at(run._Loop, "_save", call=3 + 2, after=True)],
    "between summary and report": [at(run, "write_report")],
    "twice": [sampling_of(3), at(account.Account, "place")],
}
"""The moments that every change is tried against."""

MORE_DEATHS: dict[str, list[Callable[[], None]]] = {
    "while the tokenizer is put in place": [at(shutil, "rmtree", call=2)],
    "amid the demonstrations": [at(EventLog, "append_trajectory", call=5)],
    "while the replaced checkpoint is removed": [at(shutil, "rmtree", when=removes_the_old)],
    "between the warm start and the first policy": [at(EventLog, "add_policy")],
    "amid the first evaluation": [at(EventLog, "append_trajectory", call=3, when=of_phase("evaluate-greedy", 0))],
    "between sampling and update": [at(step, "learn", when=of_step(3))],
    "between two updates": [at(Stepper, "step", call=12 + 2 * 2 + 1, after=True)],
    "amid the account": [at(EventLog, "append_entries", call=3 * 2 + 3, after=True)],
    "between account and checkpoint": [at(run._Loop, "_report_step", call=2)],
    "before state.json": [at(checkpoint, "_state_hash", call=5)],
    "between checkpoint and pruning": [at(run, "prune", call=5)],
    "between the modes of an evaluation": [at(EventLog, "append_trajectory", when=of_phase("evaluate-greedy", 2))],
    "amid the last evaluation": [at(EventLog, "append_trajectory", when=of_phase("evaluate-greedy", 4))],
    "while the model is exported": [at(run, "export_model", after=True)],
    "before the summary": [at(run, "write_whole")],
}
"""Further ones, for the slow tests."""


def child(hook: Callable[[], None], out: Path, *, resume: bool) -> int:
    """Train in a forked child that dies by the hook; return its wait status."""
    process = os.fork()
    if not process:
        hook()
        try:
            run.train(tiny(), out=out, resume=resume)
        finally:
            os._exit(0)
    return os.waitpid(process, 0)[1]


def main(out: Path, moments: Sequence[str]) -> None:
    """Leave one dead run for every moment; complain about those that were never reached."""
    importlib.import_module("transformers.models.llama.modeling_llama")  # two seconds that every fork would take
    gc.collect()
    gc.freeze()  # which every fork would walk
    for moment in moments:
        first, *then = (DEATHS | MORE_DEATHS)[moment]
        died = [child(first, out / moment, resume=False), *(child(hook, out / moment, resume=True) for hook in then)]
        if not all(map(os.WIFSIGNALED, died)):
            print(f"never reached: {moment}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
