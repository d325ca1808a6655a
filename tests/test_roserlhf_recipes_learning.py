"""Every recipe learns the toy through its own credit and objective: four tasks, three actions each, a reward at the end."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_roserlhf_toy import toy
from torch import Tensor

from rosellm.roserlhf import gather_token_logprobs, recipes, step_denominator
from rosellm.roserlhf.batching.scored import ScoredRollouts
from rosellm.roserlhf.trainer.recipe import Recipe

TURNS = toy.NUM_TURNS
PLACE = torch.tensor([4, 2, 1])
OPTIONS: dict[str, dict[str, Any]] = {"dapo": {"max_length": 10}, "dr_grpo": {"horizon": TURNS}}
"""The toy's episodes are of three tokens; elsewhere the defaults."""


def scored_rollouts(batch: Any) -> ScoredRollouts:
    """The batch as credit sees it: `solved` and, as a second component, the share of right actions; a state is task and prefix."""
    rollouts = len(batch.rewards)
    solved, share = batch.rewards.double(), (batch.actions == toy.TARGET_PATHS[batch.task_ids]).double().mean(-1)
    turn_rewards = torch.zeros(rollouts, TURNS, dtype=torch.float64)
    turn_rewards[:, -1] = solved
    # before turn t the state is t and what was done so far: rollouts of a task meet again and again
    prefixes = (batch.actions * PLACE).cumsum(-1) - batch.actions * PLACE + 8 * torch.arange(TURNS)
    return ScoredRollouts(
        rewards=solved,
        group_ids=batch.task_ids,
        components=torch.stack([solved, share], -1),
        weights=torch.tensor([1.0, 0.5], dtype=torch.float64),
        lengths=torch.full((rollouts,), TURNS),
        turn_rollouts=torch.arange(rollouts).repeat_interleave(TURNS),
        turn_rewards=turn_rewards.flatten(),
        turn_states=prefixes.flatten(),
    )


def token_advantages(recipe: Recipe, batch: Any) -> Tensor:
    found = recipe.credit(scored_rollouts(batch))
    by_turn = found.shape != batch.rewards.shape
    return (found.view(-1, TURNS) if by_turn else found[:, None].expand(-1, TURNS)).float()


def update(recipe: Recipe, policy: Any, optimizer: torch.optim.Optimizer, batch: Any) -> None:
    options, mask = recipe.config.optimizer, torch.ones_like(batch.actions, dtype=torch.bool)
    denominator = step_denominator([mask], recipe.denominator_mode)
    for _ in range(options.epochs * options.minibatches):  # twice, or once without a ratio
        current = gather_token_logprobs(policy(batch.task_ids), batch.actions)
        advantages = token_advantages(recipe, batch)
        loss = recipe.objective(current, batch.old_logprobs, advantages, mask, denominator=denominator).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", recipes.RECIPES)
def test_every_recipe_learns_the_toy(name: str, seed: int) -> None:
    recipe = recipes.recipe_from(recipes.options_to_config({"recipe": name, **OPTIONS.get(name, {})}))
    generator, policy = torch.Generator().manual_seed(seed), toy.TablePolicy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=toy.LEARNING_RATE)
    assert toy.greedy_accuracy(policy) == 0.0
    for _ in range(120):
        update(recipe, policy, optimizer, toy.collect_rollouts(policy, group_size=16, generator=generator))
    assert toy.greedy_accuracy(policy) == 1.0
    assert float(toy.collect_rollouts(policy, group_size=64, generator=generator).rewards.mean()) > 0.9


def test_gigpo_tells_the_turns_of_a_rollout_apart() -> None:
    batch = toy.collect_rollouts(toy.TablePolicy(), group_size=32, generator=torch.Generator().manual_seed(0))
    found = token_advantages(recipes.gigpo(), batch)
    failed = (batch.rewards == 0) & (batch.actions[:, 0] != toy.TARGET_PATHS[batch.task_ids, 0])
    # after a wrong first action nothing can succeed: all visits of that state return 0, and only the first turn is to blame
    first, later = found[failed, 0], found[failed, 1:]
    assert (first < later.amin(-1)).all()
    assert torch.equal(later[:, 0], later[:, 1])
