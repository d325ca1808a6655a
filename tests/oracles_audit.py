"""Healthy batches for the audit: sampled from real distributions, laid out in all the ways that trainers lay them out.

One token is sampled from explicit logits per trained position, so temperature, top-p, drift and precision are what they would be in a
real run, and every fault of `audit_faults` can be planted in the same batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

VOCABULARY = 40
STOP, PAD = 2, 0
FIRST = 10
"""Smallest id of ordinary text."""
SYSTEM, USER, ASSISTANT, TOOL, SCAFFOLD, PADDING = 1, 2, 3, 4, 5, 0


@dataclass
class Row:
    """One rollout under construction, token by token."""

    ids: list[int] = field(default_factory=list)
    mask: list[bool] = field(default_factory=list)
    roles: list[int] = field(default_factory=list)
    content: list[bool] = field(default_factory=list)
    reasoning: list[bool] = field(default_factory=list)
    logits: list[Tensor] = field(default_factory=list)
    """Of the sampled tokens, in order."""
    truncated: bool = False

    def add(self, ids: list[int], role: int, *, mask: bool = False, content: bool = True, reasoning: bool = False) -> None:
        """Append tokens of one kind."""
        self.ids += ids
        self.mask += [mask] * len(ids)
        self.roles += [role] * len(ids)
        self.content += [content] * len(ids)
        self.reasoning += [reasoning] * len(ids)


@dataclass(frozen=True)
class Shape:
    """What kind of batch to make."""

    groups: int = 4
    members: int = 4
    turns: int = 2
    longest_action: int = 12
    longest_prompt: int = 12
    certain: float = 0.0
    """Share of positions at which the policy is all but certain."""
    left_padded: bool = False
    filler: str = "zero"
    """What old_logprobs hold outside the mask: zero, nan or forward (real numbers everywhere)."""
    truncated: float = 0.2
    """Share of rollouts whose last action was cut."""
    temperature: float = 1.0
    top_p: float = 1.0
    drift: float = 0.0
    """Size of a change of the logits since sampling; 0: fresh."""
    noise: float = 0.003
    """Difference between two engines."""


@dataclass
class World:
    """A batch as arguments of `check_batch`, and what they were made of."""

    shape: Shape
    arguments: dict[str, Any]
    logits: Tensor
    """[N, V] of the sampled tokens, in row-major order."""
    chosen: Tensor
    """[N]."""
    generator: torch.Generator


def _uniform(generator: torch.Generator) -> float:
    return float(torch.rand((), generator=generator))


def _between(low: int, high: int, generator: torch.Generator) -> int:
    return int(torch.randint(low, high + 1, (), generator=generator))


def _text(count: int, generator: torch.Generator) -> list[int]:
    return torch.randint(FIRST, VOCABULARY, (count,), generator=generator).tolist()


def log_distribution(logits: Tensor, temperature: float = 1.0, top_p: float = 1.0) -> Tensor:
    """The distribution that is really sampled from."""
    logprobs = (logits.double() / temperature).log_softmax(-1)
    if top_p < 1:
        ordered, order = logprobs.sort(-1, descending=True)
        before = ordered.exp().cumsum(-1) - ordered.exp()
        kept = torch.zeros_like(logprobs, dtype=torch.bool).scatter(-1, order, before < top_p)
        logprobs = logprobs.masked_fill(~kept, -torch.inf).log_softmax(-1)
    return logprobs


def _action_logits(shape: Shape, generator: torch.Generator) -> Tensor:
    scale = 60.0 if _uniform(generator) < shape.certain else 0.5 + 4.5 * _uniform(generator)
    logits = scale * torch.randn(VOCABULARY, generator=generator)
    logits[:FIRST] = -1e4
    return logits


def _action(row: Row, shape: Shape, cut: bool, generator: torch.Generator) -> list[int]:
    length = _between(2, shape.longest_action, generator)
    chosen: list[int] = []
    for step in range(length):
        logits = _action_logits(shape, generator)
        if step == length - 1 and not cut:
            logits[STOP] = logits.max() + 3
            token = STOP
        else:
            token = int(torch.multinomial(log_distribution(logits, shape.temperature, shape.top_p).exp(), 1, generator=generator))
        row.logits.append(logits)
        chosen.append(token)
    half = len(chosen) // 2
    row.add(chosen[:half], ASSISTANT, mask=True, reasoning=True)
    row.add(chosen[half:], ASSISTANT, mask=True)
    return chosen


def _rollout(prompt: list[int], shape: Shape, generator: torch.Generator) -> Row:
    row = Row()
    row.add(prompt, USER)
    turns = _between(1, shape.turns, generator)
    row.truncated = _uniform(generator) < shape.truncated
    for turn in range(turns):
        row.add([5, 6], SCAFFOLD, content=False)
        _action(row, shape, row.truncated and turn == turns - 1, generator)
        if turn < turns - 1:
            row.add([7], SCAFFOLD, content=False)
            row.add(_text(_between(2, 6, generator), generator), TOOL)
    return row


def make_world(seed: int, shape: Shape | None = None) -> World:
    """Sample a healthy batch."""
    shape = shape or Shape()
    generator = torch.Generator().manual_seed(seed)
    prompts = [[1, *_text(_between(3, shape.longest_prompt, generator), generator)] for _ in range(shape.groups)]
    rows = [_rollout(prompt, shape, generator) for prompt in prompts for _ in range(shape.members)]
    width = max(len(row.ids) for row in rows) + _between(1, 3, generator)

    def padded(column: str, fill: Any) -> Tensor:
        blank = {len(row.ids): [fill] * (width - len(row.ids)) for row in rows}
        cells = [
            blank[len(row.ids)] + getattr(row, column) if shape.left_padded else getattr(row, column) + blank[len(row.ids)]
            for row in rows
        ]
        return torch.tensor(cells)

    mask, ids = padded("mask", False), padded("ids", PAD)
    logits = torch.stack([logits for row in rows for logits in row.logits])
    chosen = ids[mask]
    for row in rows:
        row.content = [True] * len(row.ids)
    valid = padded("content", False)
    old = _gather(log_distribution(logits, shape.temperature, shape.top_p), chosen)
    moved = logits + shape.drift * torch.randn(logits.shape, generator=generator)
    current = _gather(log_distribution(moved, shape.temperature, 1.0 if shape.drift else shape.top_p), chosen)
    if shape.drift and shape.top_p < 1:
        current = old + shape.drift * 0.1 * torch.randn(old.shape, generator=generator) * (-old).clamp(max=1)
    current = current + shape.noise * torch.randn(current.shape, generator=generator) * (-current).clamp(max=1)
    rewards = torch.randint(0, 2, (len(rows),), generator=generator).float()
    rewards[0], rewards[1] = 0.0, 1.0  # at least one group tells something
    grouped = rewards.view(shape.groups, shape.members)
    centred = grouped - grouped.mean(1, keepdim=True)
    spread = grouped.std(1, correction=0, keepdim=True)
    truncated = torch.tensor([row.truncated for row in rows])
    arguments: dict[str, Any] = {
        "input_ids": ids,
        "action_mask": mask,
        "old_logprobs": _scatter(old, mask, shape.filler, generator),
        "current_logprobs": _scatter(current.clamp(max=0.0), mask, "forward", generator),
        "advantages": torch.where(spread > 0, centred / spread.clamp(min=1e-6), 0.0).flatten(),
        "rewards": rewards,
        "group_ids": [f"task-{index // shape.members}" for index in range(len(rows))],
        "rollout_ids": [f"rollout-{index}" for index in range(len(rows))],
        "roles": padded("roles", PADDING),
        "reasoning_mask": padded("reasoning", False),
        "valid_mask": valid,
        "stop_ids": [STOP],
        "truncated": truncated,
        "terminated": ~truncated,
        "scored": torch.ones(len(rows), dtype=torch.bool),
        "lag": 1 if shape.drift else 0,
        "before_update": not shape.drift,
        "credit": "trajectory",
    }
    return World(shape, arguments, logits, chosen, generator)


def _gather(logprobs: Tensor, chosen: Tensor) -> Tensor:
    return logprobs.gather(1, chosen[:, None])[:, 0]


def _scatter(values: Tensor, mask: Tensor, filler: str, generator: torch.Generator) -> Tensor:
    """Lay log-probabilities of sampled tokens out over the batch."""
    if filler == "forward":
        places = torch.arange(mask.numel(), dtype=torch.float64).view(mask.shape)
        out = -3 * (places * 0.618034 % 1) - 1e-3  # the same for whoever scores them
    else:
        out = torch.full(mask.shape, float("nan") if filler == "nan" else 0.0, dtype=torch.float64)
    out[mask] = values
    return out.float()


def with_critic(world: World, gamma: float = 0.97, gae_lambda: float = 0.9) -> World:
    """Add values, token rewards, bootstrap values, and the generalized advantages of the actions, by the slow recursion."""
    arguments, generator = world.arguments, world.generator
    mask, truncated = arguments["action_mask"], arguments["truncated"]
    values = torch.randn(mask.shape, generator=generator, dtype=torch.float64)
    rewards = torch.zeros(mask.shape, dtype=torch.float64)
    bootstrap = torch.randn(len(mask), generator=generator, dtype=torch.float64)
    advantages = torch.zeros(mask.shape, dtype=torch.float64)
    for row in range(len(mask)):
        places = mask[row].nonzero()[:, 0].tolist()
        if not places:
            continue
        rewards[row, places[-1]] = arguments["rewards"][row]
        following, carried = float(bootstrap[row]) if bool(truncated[row]) else 0.0, 0.0
        for place in reversed(places):
            delta = float(rewards[row, place]) + gamma * following - float(values[row, place])
            carried = delta + gamma * gae_lambda * carried
            advantages[row, place] = carried
            following = float(values[row, place])
    arguments |= {
        "values": values.float(),
        "rewards": rewards.float(),
        "advantages": advantages.float(),
        "returns": (advantages + values).float(),
        "bootstrap_values": bootstrap.float(),
        "gamma": gamma,
        "gae_lambda": gae_lambda,
        "credit": "token",
    }
    return world


def with_loss(world: World, aggregation: str = "token") -> World:
    """Add token losses and their declared mean."""
    arguments = world.arguments
    mask = arguments["action_mask"]
    token_loss = torch.randn(mask.shape, generator=world.generator) + 0.5
    arguments |= {"token_loss": token_loss, "aggregation": aggregation, "loss": mean_of(token_loss, mask, aggregation)}
    return world


def mean_of(token_loss: Tensor, mask: Tensor, aggregation: str) -> Tensor:
    """The three usual means, by loops."""
    rows = [token_loss[row][mask[row]] for row in range(len(mask)) if mask[row].any()]
    if aggregation == "token":
        return torch.cat(rows).mean()
    if aggregation == "sequence_mean":
        return torch.stack([row.mean() for row in rows]).mean()
    return torch.stack([row.sum() for row in rows]).mean()


def healthy_arguments(seed: int) -> dict[str, Any]:
    """A random healthy batch in a random layout, as a random user would pass it."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + 17)

    def one_of(*options: Any) -> Any:
        return options[_between(0, len(options) - 1, generator)]

    shape = Shape(
        groups=_between(1, 6, generator),
        members=_between(2, 8, generator),
        turns=_between(1, 4, generator),
        longest_action=one_of(3, 8, 20),
        longest_prompt=one_of(4, 12, 30),
        certain=one_of(0.0, 0.0, 0.5, 0.95),
        left_padded=one_of(True, False),
        filler=one_of("zero", "nan", "forward"),
        truncated=one_of(0.0, 0.2, 1.0),
        temperature=one_of(1.0, 1.0, 0.6, 1.4),
        top_p=one_of(1.0, 1.0, 0.9),
        drift=one_of(0.0, 0.05, 0.2, 0.4),
        noise=one_of(0.0, 0.003, 0.01),
    )
    world = make_world(seed, shape)
    arguments = world.arguments
    _other_advantages(arguments, one_of("population", "sample", "centred", "leave_one_out", "batch", "raw"), shape)
    if one_of(True, False, False):
        with_critic(world)
    elif one_of(True, False):
        _broadcast_advantages(arguments, one_of("column", "tokens", "masked tokens"))
    if one_of(True, False, False):
        with_loss(world, one_of("token", "sequence_mean", "sequence_sum"))
    excluded = one_of(True, False, False) and _exclude_row(arguments, generator)
    if one_of(True, False, False):
        arguments |= {"action_mask": arguments["action_mask"] & ~arguments["reasoning_mask"], "reasoning_excluded": True}
        _forget(arguments, "loss", "returns", "values")
    if one_of(True, False, False, False):
        _only_completions(arguments, generator)
    _other_types(arguments, one_of("bool", "int", "float", "int64", "numpy"), one_of(torch.float32, torch.float64))
    for name in list(arguments):
        kept = ("action_mask", "reasoning_excluded", "truncated" if excluded else "")
        if name not in kept and _uniform(generator) < 0.25:
            _forget(arguments, name)
    return arguments


def _forget(arguments: dict[str, Any], *names: str) -> None:
    for name in names:
        arguments.pop(name, None)


def _other_advantages(arguments: dict[str, Any], kind: str, shape: Shape) -> None:
    rewards = arguments["rewards"].view(shape.groups, shape.members)
    centred = rewards - rewards.mean(1, keepdim=True)
    if kind == "sample":
        centred = centred / (rewards.std(1, keepdim=True) + 1e-4)
    elif kind == "population":
        return
    elif kind == "leave_one_out":
        centred = centred * shape.members / (shape.members - 1)
    elif kind == "batch":
        centred = (rewards - rewards.mean()) / (rewards.std() + 1e-8)
    elif kind == "raw":
        centred = rewards
    arguments["advantages"] = centred.flatten()


def _broadcast_advantages(arguments: dict[str, Any], layout: str) -> None:
    advantages, mask = arguments["advantages"][:, None], arguments["action_mask"]
    if layout != "column":
        advantages = advantages.expand(mask.shape)
    arguments["advantages"] = torch.where(mask, advantages, 0.0) if layout == "masked tokens" else advantages


def _exclude_row(arguments: dict[str, Any], generator: torch.Generator) -> bool:
    """Leave a row that was cut out of the loss."""
    if "loss" in arguments or "values" in arguments:
        return False
    row = _between(0, len(arguments["rewards"]) - 1, generator)
    arguments["action_mask"] = arguments["action_mask"].clone()
    arguments["action_mask"][row] = False
    arguments["truncated"][row], arguments["terminated"][row] = True, False
    return True


def _only_completions(arguments: dict[str, Any], generator: torch.Generator) -> None:
    """Cut the prompt off, as trainers do that keep prompts and completions apart: only if all prompts end in one column."""
    mask = arguments["action_mask"]
    places = torch.arange(mask.shape[1]).expand(mask.shape)
    first = int(places[mask].min()) if mask.any() else 0
    for name, value in arguments.items():
        if isinstance(value, Tensor) and value.shape == mask.shape:
            arguments[name] = value[:, first:]
    arguments.pop("group_ids")  # what is before the first trained token is now part of a prompt


def _other_types(arguments: dict[str, Any], mask: str, dtype: torch.dtype) -> None:
    kinds = {"int": torch.int32, "float": torch.float32, "int64": torch.int64}
    if mask in kinds:
        arguments["action_mask"] = arguments["action_mask"].to(kinds[mask])
    for name, value in arguments.items():
        if isinstance(value, Tensor) and value.is_floating_point() and value.ndim == 2:
            arguments[name] = value.to(dtype)
        if mask == "numpy" and isinstance(arguments[name], Tensor) and name not in ("loss", "denominator"):
            arguments[name] = arguments[name].numpy()
