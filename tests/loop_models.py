"""Very small models and the ways to ask an engine, shared by the tests of engine, learner and trainer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.engine.protocol import Chunk, Request, Sampling
from rosellm.roserlhf.models.causal import build_llama

SIZES: dict[str, Any] = {
    "vocabulary_size": 11,
    "layers": 1,
    "hidden_size": 16,
    "heads": 2,
    "key_value_heads": 1,
    "intermediate_size": 16,
    "context_window": 32,
    "seed": 0,
}


def tiny_model(*, sharpness: float = 20.0, dtype: torch.dtype = torch.float32, **sizes: Any) -> LlamaForCausalLM:
    """Build a tiny model; its initial weights are scaled up so that its distributions are far from uniform.

    Tests that follow AdamW over several updates use float64: where the true gradient is 0, it turns rounding into full-sized steps.
    """
    model = build_llama(**{**SIZES, **sizes})
    model.eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(sharpness / 4)
    torch.nn.Module.to(model, dtype)
    return model


def request(prompt: Sequence[int], *key: int | str, session: str = "", **sampling: Any) -> Request:
    """Write a request in one line; without a key, the prompt is the key."""
    options = {"max_tokens": 6, **sampling}
    return Request(tuple(prompt), Sampling(**options), key or tuple(prompt), session)


async def answer(engine: LocalEngine, asked: Request) -> Chunk:
    """Collect the chunks of one request; the local engine gives one."""
    (chunk,) = [chunk async for chunk in engine.generate(asked)]
    return chunk


def ask(engine: LocalEngine, requests: Sequence[Request]) -> list[Chunk]:
    """Ask for all of them at once, in this order."""

    async def together() -> list[Chunk]:
        return await asyncio.gather(*(answer(engine, asked) for asked in requests))

    return asyncio.run(together())


def full_logprobs(model: torch.nn.Module, ids: Sequence[int], *, temperature: float = 1.0) -> Tensor:
    """log π of every token after the first, by one plain forward pass of `transformers`: `[T − 1]`."""
    with torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0, :-1].double() / temperature
    logprobs: Tensor = logits.log_softmax(-1).gather(-1, torch.tensor(ids[1:])[:, None]).squeeze(-1)
    return logprobs
