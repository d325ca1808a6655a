"""`selected_logprobs` against log-softmax and gather over the whole table of logits: time side by side, memory in fresh processes.

N = 2048 positions, d = 576, V = 49 152, forward and backward, one thread. Times are medians of ratios to the baseline run just
before, because another job on the machine slows both. Peak memory is the high-water mark of a process that does this one thing,
over what it held before; the gradient of the weight, which both sides must hold, is taken off. Float32 has targets, bfloat16 has
none.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from kernels_measure import Results, entry
from torch import Tensor

from rosellm.roserlhf import selected_logprobs

POSITIONS, WIDTH, VOCABULARY = 2048, 576, 49_152
ROUNDS = 3


def baseline(hidden: Tensor, weight: Tensor, ids: Tensor) -> Tensor:
    """The obvious way, frozen here."""
    return torch.log_softmax((hidden @ weight.t()).float(), -1).gather(1, ids[:, None]).squeeze(1)


def chosen(hidden: Tensor, weight: Tensor, ids: Tensor) -> Tensor:
    """The way of the library."""
    return selected_logprobs(hidden, weight, ids)


def half_masked(hidden: Tensor, weight: Tensor, ids: Tensor) -> Tensor:
    """The same with every second position masked."""
    return selected_logprobs(hidden, weight, ids, mask=torch.arange(ids.shape[0]) % 2 == 0)


WAYS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {"baseline": baseline, "chosen": chosen, "half_masked": half_masked}


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Hidden states, weight, ids and the upstream gradient, the same each time, without a temporary of their size."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.empty(POSITIONS, WIDTH, dtype=dtype).normal_(generator=generator)
    weight = torch.empty(VOCABULARY, WIDTH, dtype=dtype).normal_(std=WIDTH**-0.5, generator=generator)
    ids = torch.randint(0, VOCABULARY, (POSITIONS,), generator=generator)
    return hidden, weight, ids, torch.randn(POSITIONS, generator=generator)


def once(way: str, dtype: torch.dtype, frozen: bool) -> float:
    """Seconds of one forward and backward pass."""
    hidden, weight, ids, upstream = inputs(dtype)
    hidden.requires_grad_()
    weight.requires_grad_(not frozen)
    started = time.perf_counter()
    WAYS[way](hidden, weight, ids).backward(upstream)
    return time.perf_counter() - started


def peak_bytes(way: str, dtype: str, frozen: bool) -> int:
    """Run one way in a process of its own and return what its peak lies above its inputs, the weight's gradient taken off."""
    call = [sys.executable, __file__, way, dtype, str(int(frozen))]
    root = Path(__file__).parents[1]
    found = subprocess.run(call, check=True, capture_output=True, text=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    return int(json.loads(found.stdout)["peak"])


def _status(name: str) -> int:
    """Read bytes from the kernel; unlike `ru_maxrss`, the high-water mark here is not inherited from the parent process."""
    (line,) = [line for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024


def _measure_peak(way: str, dtype: torch.dtype, frozen: bool) -> None:
    torch.set_num_threads(1)
    hidden, weight, ids, upstream = inputs(dtype)
    WAYS[way](hidden[:2].clone().requires_grad_(), weight[:64], ids[:2] % 64).sum().backward()
    hidden.requires_grad_()
    weight.requires_grad_(not frozen)
    gc.collect()
    before = _status("VmRSS")
    WAYS[way](hidden, weight, ids).backward(upstream)
    extra = _status("VmHWM") - before
    print(json.dumps({"peak": extra - (0 if frozen else weight.nbytes)}))


def selected_time() -> Results:
    """Time over the baseline's: trainable weight, frozen weight, half of the positions masked."""
    result: Results = {}
    for dtype, targets in ((torch.float32, (1.5, 0.85, 1.1)), (torch.bfloat16, (None, None, None))):
        name = str(dtype).removeprefix("torch.")
        ratios: dict[str, list[float]] = {"trainable": [], "half_masked": [], "frozen": []}
        seconds = []
        once("baseline", dtype, False)  # first touch of fresh memory costs more than the work
        for _ in range(ROUNDS):
            whole = once("baseline", dtype, False)
            ratios["trainable"].append(once("chosen", dtype, False) / whole)
            ratios["half_masked"].append(once("half_masked", dtype, False) / whole)
            whole_frozen = once("baseline", dtype, True)
            ratios["frozen"].append(once("chosen", dtype, True) / whole_frozen)
            seconds.append(whole)
        for (kind, found), target in zip(ratios.items(), targets, strict=True):
            result[f"selected_{name}_{kind}_time_ratio"] = entry(statistics.median(found), at_most=target)
        result[f"selected_{name}_baseline_seconds"] = entry(statistics.median(seconds))
    return result


def selected_memory() -> Results:
    """Extra peak over the baseline's, without the weight's gradient."""
    result: Results = {}
    for dtype, target in (("float32", 0.2), ("bfloat16", None)):
        for kind, frozen in (("trainable", False), ("frozen", True)):
            whole, part = peak_bytes("baseline", dtype, frozen), peak_bytes("chosen", dtype, frozen)
            result[f"selected_{dtype}_{kind}_peak_ratio"] = entry(part / whole, at_most=target)
            result[f"selected_{dtype}_{kind}_peak_mib"] = entry(part / 2**20)
            result[f"selected_{dtype}_{kind}_baseline_peak_mib"] = entry(whole / 2**20)
    return result


def selected_chunks() -> Results:
    """Largest difference that the size of a chunk makes, and the largest error against float64 on 64 rows, float32."""
    hidden, weight, ids, _ = inputs(torch.float32)
    found = [selected_logprobs(hidden, weight, ids, chunk=chunk) for chunk in (100, 1024, 2048)]
    exact = baseline_float64(hidden[:64], weight, ids[:64])
    return {
        "selected_chunk_difference": entry(max(float((one - found[0]).abs().max()) for one in found[1:]), at_most=1e-6),
        "selected_error": entry(float((found[0][:64].double() - exact).abs().max())),
    }


def baseline_float64(hidden: Tensor, weight: Tensor, ids: Tensor) -> Tensor:
    """The obvious way in float64."""
    return torch.log_softmax(hidden.double() @ weight.double().t(), -1).gather(1, ids[:, None]).squeeze(1)


BENCHMARKS: list[Callable[[], Results]] = [selected_chunks, selected_memory, selected_time]

if __name__ == "__main__":
    _measure_peak(sys.argv[1], getattr(torch, sys.argv[2]), sys.argv[3] == "1")
