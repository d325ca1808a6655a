"""Step 8: one process equals two that split the rows unevenly and divide by one global denominator."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import Tensor

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.examination import rank
from rosellm.roserlhf.audit.examination.repacking import off_policy_rows
from rosellm.roserlhf.audit.examination.subject import Episodes, Subject
from rosellm.roserlhf.batching.tensors import pad
from rosellm.roserlhf.models.adapters import has_adapters

NAME = "one process equals two"
TOLERANCE = 1e-5
"""Of the gradient's difference, relative to its norm: float32 in another order of summation."""
SECONDS = 60.0
"""How long the two may take before they are ended."""
PER_ROW = ("hidden", "input_ids", "loss_mask", "behaviour", "advantages")


def two_processes(subject: Subject, episodes: Episodes, *, module: str = rank.__name__, seconds: float = SECONDS) -> Outcome:
    """Compute one gradient here and once more in two processes, a third of the rows in one and the rest in the other.

    Args:
        subject: whose objective and output matrix are used.
        episodes: what the rows are made from.
        module: what each of the two runs; called with a folder and its rank.
        seconds: how long they may take.
    """
    if not (dist.is_available() and dist.is_gloo_available()):
        return Outcome(NAME, "skipped", "this torch was built without gloo")
    tensors = _tensors(subject, episodes)
    rows = len(tensors["input_ids"])
    loss, gradient = rank.share(tensors, subject.recipe, temperature=episodes.temperature, group=None, micro_batch=rows)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cut = max(1, rows // 3)
        _hand_out(folder, subject, tensors, cut, episodes.temperature, seconds)
        complaint = _run(folder, module, seconds)
        if complaint is not None:
            fix = "let processes on this machine talk over loopback; both ranks must call every collective"
            return Outcome(NAME, "failed", complaint, "a process died, or waited for the other in vain", fix)
        found = load_file(folder / rank.OUTPUT)
    apart = float((found["gradient"] - gradient).norm() / gradient.norm().clamp(min=torch.finfo(torch.float32).tiny))
    counts = [int(tensors["loss_mask"][part].sum()) for part in (slice(cut), slice(cut, None))]
    evidence = (
        f"{counts[0]} and {counts[1]} tokens on the two ranks: gradients differ by {apart:.2g} of their norm "
        f"(allowed {TOLERANCE:g}), loss {float(found['loss']):.6g} against {loss:.6g}"
    )
    if apart <= TOLERANCE:
        return Outcome(NAME, "passed", evidence)
    cause = "each process divides by its own count, so that tokens weigh more where there are fewer"
    fix = "give step_denominator the process group, and undo what the framework divides by (docs: denominators)"
    return Outcome(NAME, "failed", evidence, cause, fix)


def _tensors(subject: Subject, episodes: Episodes) -> dict[str, Tensor]:
    rows = sorted(off_policy_rows(episodes), key=lambda row: row.trained)  # short ones on one rank, long ones on the other
    batch = pad(rows)
    causal: Any = subject.model.get_base_model() if has_adapters(subject.model) else subject.model
    with torch.no_grad():
        hidden = causal.model(batch.input_ids, use_cache=False).last_hidden_state
    return {
        "hidden": hidden.contiguous(),
        "input_ids": batch.input_ids,
        "loss_mask": batch.loss_mask,
        "behaviour": batch.behaviour_logprobs,
        "advantages": batch.advantages,
        "matrix": causal.lm_head.weight.detach().clone(),
    }


def _hand_out(folder: Path, subject: Subject, tensors: Mapping[str, Tensor], cut: int, temperature: float, seconds: float) -> None:
    for index, part in enumerate((slice(cut), slice(cut, None))):
        own = {name: tensor[part].contiguous() if name in PER_ROW else tensor for name, tensor in tensors.items()}
        save_file(own, folder / f"{index}.{rank.INPUT}")
    options = {"config": subject.recipe.config.model_dump(), "temperature": temperature, "timeout": seconds}
    (folder / rank.OPTIONS).write_text(json.dumps(options), encoding="utf-8")


def _run(folder: Path, module: str, seconds: float) -> str | None:
    """Run both ranks to their end; return what went wrong, or None. However this is left, no process stays behind."""
    paths = [path or os.getcwd() for path in sys.path]
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "GLOO_SOCKET_IFNAME": loopback, "OMP_NUM_THREADS": "1"}
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(_process(folder, module, index, environment)) for index in range(rank.WORLD_SIZE)]
        end = time.monotonic() + seconds
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes):
                break  # one has died: the other would wait for it in vain
            if time.monotonic() > end:
                return f"the two processes did not finish within {seconds:g} s"
            time.sleep(0.02)
    for index, process in enumerate(processes):
        if process.returncode > 0:
            said = (folder / f"{index}.said").read_text(encoding="utf-8", errors="replace").strip().splitlines()
            return f"rank {index} ended with code {process.returncode}: {said[-1] if said else 'nothing was said'}"
    return None if (folder / rank.OUTPUT).is_file() else "the two processes ended without a result"


@contextlib.contextmanager
def _process(folder: Path, module: str, index: int, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{index}.said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(folder), str(index)],
            env=environment,
            stdout=said,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches this process, which ends the others
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
