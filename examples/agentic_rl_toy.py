"""The whole of policy-gradient training in one file, small enough to work out every tensor by hand.

collect -> verify -> advantages -> clipped update, for a table policy that learns four tasks of three actions each. The only reward
is 1 for a path that is right in all three actions, given at its end: untrained, one rollout in eight earns it.

    python examples/agentic_rl_toy.py --steps 150 --group-size 32 --seed 7
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rosellm.roserlhf.advantages import group_standardized_advantages
from rosellm.roserlhf.losses import clipped_policy_loss, gather_token_logprobs

TARGET_PATHS = torch.tensor([[0, 0, 1], [0, 1, 0], [1, 0, 1], [1, 1, 0]])
"""`[tasks, turns]`: the one right action of each turn. Task and turn are all the state there is, so a table can solve it."""
NUM_TASKS, NUM_TURNS = TARGET_PATHS.shape
NUM_ACTIONS = 2

LEARNING_RATE = 0.1
UPDATES_PER_BATCH = 2
REPORT_EVERY = 10


class TablePolicy(nn.Module):
    """One independent choice per task and turn."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(NUM_TASKS, NUM_TURNS, NUM_ACTIONS))

    def forward(self, task_ids: Tensor) -> Tensor:
        """Return the logits `[N, turns, actions]` of the tasks `[N]`."""
        return self.logits[task_ids]


@dataclass(frozen=True)
class RolloutBatch:
    """What was sampled, under the policy that sampled it; N = tasks × group_size, the members of a group side by side."""

    task_ids: Tensor
    """`[N]`"""
    actions: Tensor
    """`[N, turns]`"""
    old_logprobs: Tensor
    """`[N, turns]`, log-probability of each action at the moment it was sampled; recorded, never recomputed."""
    rewards: Tensor
    """`[N]`"""
    group_size: int
    """Rollouts per task."""


def verify(task_ids: Tensor, actions: Tensor) -> Tensor:
    """Return 1 for every path that is right in all its actions and 0 for every other one, `[N]`."""
    return (actions == TARGET_PATHS[task_ids]).all(-1).float()


@torch.no_grad()
def collect_rollouts(policy: nn.Module, group_size: int, generator: torch.Generator) -> RolloutBatch:
    """Sample `group_size` whole paths for every task and verify them."""
    task_ids = torch.arange(NUM_TASKS).repeat_interleave(group_size)
    logits = policy(task_ids)
    choices = torch.multinomial(logits.softmax(-1).flatten(0, 1), 1, generator=generator)
    actions = choices.view(len(task_ids), NUM_TURNS)
    return RolloutBatch(task_ids, actions, gather_token_logprobs(logits, actions), verify(task_ids, actions), group_size)


def token_advantages(batch: RolloutBatch) -> Tensor:
    """Judge every path against the others of its task, and give each of its actions that judgement, `[N, turns]`."""
    by_task = group_standardized_advantages(batch.rewards.view(-1, batch.group_size))
    return by_task.view(-1, 1).expand_as(batch.old_logprobs)


def update(policy: nn.Module, optimizer: torch.optim.Optimizer, batch: RolloutBatch) -> None:
    """Take a few clipped policy-gradient steps on one batch; at the first of them every ratio is one."""
    advantages = token_advantages(batch)
    every_action = torch.ones_like(batch.actions, dtype=torch.bool)
    for _ in range(UPDATES_PER_BATCH):
        current_logprobs = gather_token_logprobs(policy(batch.task_ids), batch.actions)
        loss = clipped_policy_loss(current_logprobs, batch.old_logprobs, advantages, every_action).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def greedy_accuracy(policy: nn.Module) -> float:
    """Return the share of tasks solved by the most probable actions."""
    task_ids = torch.arange(NUM_TASKS)
    return float(verify(task_ids, policy(task_ids).argmax(-1)).mean())


def train(steps: int = 150, group_size: int = 32, seed: int = 7) -> float:
    """Train a fresh policy, print its progress and return its greedy accuracy; same seed, same numbers."""
    generator = torch.Generator().manual_seed(seed)
    policy = TablePolicy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=LEARNING_RATE)
    for step in range(1, steps + 1):
        batch = collect_rollouts(policy, group_size=group_size, generator=generator)
        update(policy, optimizer, batch)
        if step % REPORT_EVERY == 0 or step == steps:
            solved = batch.rewards.view(-1, group_size).mean(-1)
            mixed = int(((solved > 0) & (solved < 1)).sum())
            print(f"step {step:4d}  sampled success {solved.mean():.3f}  groups with a signal {mixed} of {NUM_TASKS}")
    return greedy_accuracy(policy)


def main(argv: Sequence[str] | None = None) -> float:
    """Run the command line and return the greedy accuracy."""
    parser = argparse.ArgumentParser(description="Learn four three-action tasks by group-relative policy gradients.")
    parser.add_argument("--steps", type=_at_least(1), default=150, help="optimisation batches (default 150)")
    parser.add_argument("--group-size", type=_at_least(2), default=32, help="rollouts per task and batch (default 32)")
    parser.add_argument("--seed", type=_at_least(0), default=7, help="seed of the sampling (default 7)")
    arguments = parser.parse_args(argv)
    accuracy = train(steps=arguments.steps, group_size=arguments.group_size, seed=arguments.seed)
    print(f"greedy accuracy: {accuracy:.3f}")
    return accuracy


def _at_least(least: int) -> Callable[[str], int]:
    def integer(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, got {value}")
        return value

    return integer


if __name__ == "__main__":
    main()
