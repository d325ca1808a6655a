"""What `audit.check_batch` costs in a training step: milliseconds per call at [64, 4096] on the CPU, with one and two threads.

Run: `python benchmarks/check_batch.py [--repeats N] [--json FILE]`

The batch has a boolean mask, float32 log-probabilities, 64-bit ids and everything that is per row. One is fresh, one was updated:
its ratios differ from 1, so the checks of temperature and top-p look at tokens. `everything` is the updated one with every argument
that is per token as well, and no target is set for it. Wall-clock median of many calls; the processor time of the calling thread,
which another job on the machine inflates less, stands beside it.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from rosellm.roserlhf.audit import check_batch

ROWS, WIDTH, GROUP = 64, 4096, 8
TARGET_MS = 5.0


def make_batch(*, updated: bool) -> dict[str, Any]:
    """One healthy batch: prompts of about 600 tokens, two actions around a tool result, padding on the right."""
    generator = torch.Generator().manual_seed(0)
    mask = torch.zeros(ROWS, WIDTH, dtype=torch.bool)
    ids = torch.randint(10, 50_000, (ROWS, WIDTH), generator=generator)
    for row in range(ROWS):
        ids[row, :600] = ids[row - row % GROUP, :600]
        end = 2000 + 30 * row
        mask[row, 600:1200] = mask[row, 1500:end] = True
        ids[row, 1199] = ids[row, end - 1] = 2
    old = torch.where(mask, -1e-3 - 2 * torch.rand(ROWS, WIDTH, generator=generator), 0.0)
    change = (0.1 if updated else 1e-3) * torch.randn(ROWS, WIDTH, generator=generator)
    current = (old + change * old.abs().clamp(max=1)).clamp(max=0)
    rewards = torch.randint(0, 2, (ROWS,), generator=generator).float()
    grouped = rewards.view(-1, GROUP)
    return {
        "input_ids": ids,
        "action_mask": mask,
        "old_logprobs": old,
        "current_logprobs": current,
        "advantages": (grouped - grouped.mean(1, keepdim=True)).flatten(),
        "rewards": rewards,
        "group_ids": [f"task-{row // GROUP}" for row in range(ROWS)],
        "rollout_ids": [f"rollout-{row}" for row in range(ROWS)],
        "versions": ["v7"] * ROWS,
        "current_version": "v8" if updated else "v7",
        "lag": int(updated),
        "before_update": not updated,
        "stop_ids": [2],
        "scored": torch.ones(ROWS, dtype=torch.bool),
        "terminated": torch.ones(ROWS, dtype=torch.bool),
        "truncated": torch.zeros(ROWS, dtype=torch.bool),
    }


def with_everything(batch: dict[str, Any]) -> dict[str, Any]:
    """Add whatever is per token: roles, masks, versions, a critic with its returns, and the losses of the tokens."""
    generator = torch.Generator().manual_seed(1)
    mask, shape = batch["action_mask"], (ROWS, WIDTH)
    place = torch.arange(WIDTH)
    ends = torch.tensor([2000 + 30 * row for row in range(ROWS)])[:, None]
    roles = torch.where(place < 600, 2, 4).expand(shape).masked_fill(mask, 3).masked_fill(place >= ends, 0).to(torch.int8)
    advantages = (batch["advantages"][:, None] + 0.3 * torch.randn(shape, generator=generator)) * mask
    values = torch.randn(shape, generator=generator)
    token_loss = -advantages * (batch["current_logprobs"] - batch["old_logprobs"]).exp()
    return batch | {
        "roles": roles,
        "valid_mask": (place < ends).clone(),
        "content_mask": torch.ones(shape, dtype=torch.bool),
        "reasoning_mask": mask & (place < 700),
        "versions": torch.full(shape, 7),
        "current_version": 8,
        "advantages": advantages,
        "values": values,
        "returns": advantages + values,
        "credit": "token",
        "token_loss": token_loss,
        "loss": token_loss[mask].mean(),
        "aggregation": "token",
    }


def time_ms(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median wall-clock and processor milliseconds of one call."""
    for _ in range(5):
        call()
    wall, processor = [], []
    for _ in range(repeats):
        started, started_here = time.perf_counter(), time.thread_time()
        call()
        wall.append(time.perf_counter() - started)
        processor.append(time.thread_time() - started_here)
    return 1e3 * statistics.median(wall), 1e3 * statistics.median(processor)


def measure(repeats: int) -> dict[str, dict[str, Any]]:
    """Time both batches with one and with two threads."""
    results: dict[str, dict[str, Any]] = {}
    updated = make_batch(updated=True)
    for name, batch in (("fresh", make_batch(updated=False)), ("updated", updated), ("everything", with_everything(updated))):
        report = check_batch(**batch)
        if report.at_least("warning"):
            raise SystemExit(f"the batch is not healthy:\n{report}")
        for threads in (1, 2):
            torch.set_num_threads(threads)
            wall, processor = time_ms(functools.partial(check_batch, **batch), repeats)
            target = None if name == "everything" else TARGET_MS
            results[f"{name}_ms_{threads}_thread{'s' * (threads > 1)}"] = entry(wall, target)
            results[f"{name}_processor_ms_{threads}_thread{'s' * (threads > 1)}"] = entry(processor, target)
    return results


def entry(value: float, target: float | None) -> dict[str, Any]:
    """One line of the result; without a target it is only told."""
    return {"value": round(value, 3), "target": target, "better": "lower", "ok": target is None or value <= target}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the numbers if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    results = measure(options.repeats)
    for name, result in results.items():
        aim = "" if result["target"] is None else f"   target {result['target']:g}   {'ok' if result['ok'] else 'missed'}"
        print(f"{name:36s} {result['value']:7.2f} ms{aim}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
