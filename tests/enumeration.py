"""The toy without sampling: every path, every group of paths, its probability, and what the library makes of it, exactly.

A table policy of 4 tasks × 3 turns × 2 actions has 8 paths per task and 8^G groups of G: 64 of two. `expected_ascent` hands all of
them to the library at once and weighs each group by its probability; `expected_score` is the independent side, which knows neither
groups nor losses: a coefficient per path and turn, times the score of the action, summed over 8 paths.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rosellm.roserlhf.losses import Aggregation, gather_token_logprobs, step_denominator


def _load_toy() -> Any:
    spec = importlib.util.spec_from_file_location("agentic_rl_toy", Path(__file__).parent.parent / "examples" / "agentic_rl_toy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


toy = _load_toy()
TASKS, TURNS, ACTIONS = toy.NUM_TASKS, toy.NUM_TURNS, toy.NUM_ACTIONS
PATHS = torch.tensor(list(itertools.product(range(ACTIONS), repeat=TURNS)))
"""`[8, turns]`, in the order of counting."""

PLACES = torch.arange(len(PATHS)).unsqueeze(-1) >> torch.arange(TURNS, -1, -1) << torch.arange(TURNS, -1, -1)
"""`[8, turns + 1]`: the first of the paths that agree with a path in its first t actions: a name for the state before action t."""

_random = torch.Generator().manual_seed(4)
LOGITS, BEHAVIOUR, REFERENCE = (torch.randn(TASKS, TURNS, ACTIONS, generator=_random, dtype=torch.float64) for _ in range(3))
"""The policy that is trained, the one that sampled where data is stale, and the one to stay near."""
STEP_REWARDS = torch.randn(TASKS, len(PATHS), TURNS, generator=_random, dtype=torch.float64).gather(
    1, PLACES[:, 1:].expand(TASKS, -1, -1)
)
"""`[tasks, 8, turns]`: a reward of any size after every action, which depends on the actions so far."""
VALUES = torch.randn(TASKS, len(PATHS), TURNS, generator=_random, dtype=torch.float64).gather(
    1, PLACES[:, :-1].expand(TASKS, -1, -1)
)
"""`[tasks, 8, turns]`: what an untrained critic says of the state before every action."""
OUTCOMES: Tensor = torch.stack([toy.verify(torch.full((len(PATHS),), task), PATHS) for task in range(TASKS)]).double()
"""`[tasks, 8]`: 1 for the one right path of the task."""
UNTIL_MISTAKE = (torch.stack([target == PATHS for target in toy.TARGET_PATHS]).long().cumprod(-1).roll(1, -1)).bool()
UNTIL_MISTAKE[..., 0] = True
"""`[tasks, 8, turns]`: the turns of an episode that ends at its first wrong action: lengths 1, 2 and 3."""


def log_policy(logits: Tensor) -> Tensor:
    """Log-probability of every action of every path, `[tasks, 8, turns]`."""
    return gather_token_logprobs(logits.unsqueeze(1).expand(-1, len(PATHS), -1, -1), PATHS.expand(TASKS, -1, -1))


def path_probability(logits: Tensor) -> Tensor:
    """`[tasks, 8]`."""
    return log_policy(logits).sum(-1).exp()


def gradient_of(value: Callable[[Tensor], Tensor], at: Tensor = LOGITS) -> Tensor:
    """The gradient of a number that is computed from the logits, `[tasks, turns, actions]`."""
    logits = at.clone().requires_grad_()
    return torch.autograd.grad(value(logits), logits)[0]


def true_gradient(objective: Tensor, at: Tensor = LOGITS) -> Tensor:
    """The policy gradient: that of the expected `objective` `[tasks, 8]`, the tasks added up."""
    return gradient_of(lambda logits: (path_probability(logits) * objective).sum(), at)


def expected_score(coefficients: Tensor, *, sampled_by: Tensor = LOGITS, at: Tensor = LOGITS) -> Tensor:
    """`Σ_path b(path) Σ_turn c(path, turn) ∇ log π(action)` for coefficients `[tasks, 8]` or `[tasks, 8, turns]`."""
    per_turn = coefficients if coefficients.ndim == 3 else coefficients.unsqueeze(-1).expand(-1, -1, TURNS)
    weights = path_probability(sampled_by).unsqueeze(-1) * per_turn
    return gradient_of(lambda logits: (weights * log_policy(logits)).sum(), at)


def against_another(coefficients: Tensor, sampled_by: Tensor = LOGITS) -> Tensor:
    """Average coefficients `[tasks, 8, 8, ...]` of (own path, other path) over the other one, which the same policy sampled."""
    return torch.einsum("ty,txy...->tx...", path_probability(sampled_by), coefficients)


def true_values(rewards: Tensor, at: Tensor = LOGITS) -> Tensor:
    """The expected sum of rewards from every turn on, given the actions before it, `[tasks, 8, turns]`."""
    weights, after = path_probability(at), rewards.flip(-1).cumsum(-1).flip(-1)
    found = torch.empty_like(rewards)
    for turn in range(TURNS):
        same = (PLACES[:, turn].unsqueeze(-1) == PLACES[:, turn]).double()
        found[..., turn] = ((weights * after[..., turn]) @ same) / (weights @ same)
    return found


@dataclass(frozen=True)
class Groups:
    """Every group of `size` of every task: M = tasks × 8^size groups, their members side by side in N = M × size rows."""

    size: int
    task: Tensor
    """`[N]`"""
    path: Tensor
    """`[N]`, an index into `PATHS`."""
    group: Tensor
    """`[N]`, in 0 .. M-1."""
    probability: Tensor
    """`[N]`, of the row's group, given its task."""
    sampled_by: Tensor
    """Logits."""

    def of(self, table: Tensor) -> Tensor:
        """Read a table `[tasks, 8, ...]` for every row."""
        return table[self.task, self.path]

    def by_group(self, values: Tensor) -> Tensor:
        """View rows `[N]` as groups `[M, size]`."""
        return values.view(-1, self.size)


def groups(size: int, *, sampled_by: Tensor = LOGITS, tasks: int = TASKS) -> Groups:
    """Enumerate the groups of the first `tasks` tasks."""
    members = torch.cartesian_prod(*[torch.arange(len(PATHS))] * size).view(-1, size)
    chances = path_probability(sampled_by)[:tasks, members].prod(-1)
    count = tasks * len(members)
    return Groups(
        size=size,
        task=torch.arange(tasks).repeat_interleave(len(members) * size),
        path=members.flatten().repeat(tasks),
        group=torch.arange(count).repeat_interleave(size),
        probability=chances.flatten().repeat_interleave(size),
        sampled_by=sampled_by,
    )


Objective = Callable[..., Any]
"""`(current, behaviour, advantages, mask, **how) -> an output with a loss`."""


def expected_ascent(
    batch: Groups,
    advantages: Tensor,
    objective: Objective,
    *,
    aggregation: Aggregation = "sequence_sum",
    taken: Tensor | None = None,
    weights: Tensor | None = None,
    logits: Tensor = LOGITS,
    **how: Any,
) -> Tensor:
    """The exact expectation of minus the gradient of the library's loss, where each group is one optimizer step.

    Groups of one denominator share a call, so that every loss is divided by what its own step would count. `taken` `[tasks, 8,
    turns]` masks the turns after an early end; `weights` `[N]` replace the probabilities.
    """
    leaf = logits.clone().requires_grad_()
    old = batch.of(log_policy(batch.sampled_by))
    mask = torch.ones_like(old, dtype=torch.bool) if taken is None else batch.of(taken)
    current = gather_token_logprobs(leaf[batch.task], PATHS[batch.path])
    chances = batch.probability if weights is None else weights
    tokens = batch.by_group(mask.sum(-1)).sum(-1).repeat_interleave(batch.size)
    per_step = tokens if aggregation == "token" else torch.ones_like(tokens)
    total = torch.zeros_like(leaf)
    for units in per_step.unique():
        rows = per_step == units
        parts = [x[rows] for x in (current, old, advantages, mask)]
        ids = torch.arange(int(rows.sum())) if aggregation == "rollout" else None
        steps = int(rows.sum()) // batch.size
        denominator = step_denominator([parts[3]], aggregation, rollout_ids=None if ids is None else [ids]).item() / steps
        leaves = parts[0].detach().requires_grad_()
        loss = objective(leaves, *parts[1:], aggregation=aggregation, denominator=denominator, rollout_ids=ids, **how).loss
        of_tokens = torch.autograd.grad(loss, leaves)[0] * chances[rows].unsqueeze(-1)
        total -= torch.autograd.grad(parts[0], leaf, of_tokens, retain_graph=True)[0]
    return total


def equal(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
