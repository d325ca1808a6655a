"""What a step learns from its records: `records → rewards → rows with advantages → updates`.

The trainer and the replay both call these functions: a replayed step is computed by the code that computed it first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import nn

from rosellm.roserlhf.batching.credit import group_rows, total_reward
from rosellm.roserlhf.batching.rows import Row, exclude
from rosellm.roserlhf.batching.tensors import Batch
from rosellm.roserlhf.engine.streams import seed_of
from rosellm.roserlhf.learner.policy import UpdateReport, update_policy
from rosellm.roserlhf.learner.step import Stepper
from rosellm.roserlhf.trainer.checkpoint import Checkpoint, load_optimizer
from rosellm.roserlhf.trainer.config import TrainConfig
from rosellm.roserlhf.trainer.guarding import handled, masked
from rosellm.roserlhf.trainer.recipe import Recipe
from rosellm.roserlhf.trainer.rollouts import whole_rollouts
from rosellm.roserlhf.trainer.threads import worker_count
from rosellm.roserlhf.trajectory import Trajectory

REFUSED = "update refused"


def learning_rate(recipe: Recipe, step: int) -> float:
    """Learning rate of a step: a linear rise over `warmup_steps`, times a linear decay to `final_fraction` at the last step.

    The rise matters because AdamW's first updates are full-sized whatever the gradient is worth.
    """
    options, steps = recipe.config.optimizer, recipe.config.steps
    rise = min(1.0, step / options.warmup_steps)
    done = (step - 1) / max(1, steps - 1)
    return options.learning_rate * rise * (1 - (1 - options.final_fraction) * done)


def new_stepper(config: TrainConfig, model: nn.Module, *, learning_rate: float, weight_decay: float) -> Stepper[Batch]:
    """Build an optimizer with its workers."""
    clip, device = config.optimizer.gradient_clip, next(model.parameters()).device
    return Stepper(model, learning_rate=learning_rate, weight_decay=weight_decay, gradient_clip=clip, workers=worker_count(device))


def training_stepper(config: TrainConfig, model: nn.Module, checkpoint: Checkpoint | None) -> Stepper[Batch]:
    """Build the optimizer of the training steps as a checkpoint left it; the moments in that of step 0 are the warm start's."""
    options = config.optimizer
    stepper = new_stepper(config, model, learning_rate=options.learning_rate, weight_decay=options.weight_decay)
    if checkpoint is not None and checkpoint.step:
        load_optimizer(stepper.optimizer, checkpoint.optimizer)
    return stepper


def credited(
    recipe: Recipe, records: Sequence[Trajectory], reward_weights: Mapping[str, float]
) -> tuple[list[float | None], list[Row]]:
    """Weigh the rewards of one step's episodes and give each record its row with its advantages or its exclusion.

    What the guard's events do to rewards, groups and masks is done here, by the configuration.

    Args:
        records: of all episodes of the step, those of one episode in order, its root first.
        reward_weights: by component.

    Returns:
        One reward for each episode, and one row for each record, episode by episode in the order of their roots.
    """
    guard, drop = recipe.config.guard, recipe.config.drop_uniform_groups
    rollouts = handled(whole_rollouts(records), guard, reward_weights)
    rewards = [total_reward(rollout, reward_weights) for rollout in rollouts]
    rows = group_rows(rollouts, rewards, recipe.credit, drop_uniform=drop, weights=reward_weights)
    return rewards, masked(rows, rollouts, guard)


def learn(recipe: Recipe, stepper: Stepper[Batch], rows: Sequence[Row], step: int) -> tuple[list[Row], UpdateReport]:
    """Make the updates of one step.

    Returns:
        The rows, those that no update took excluded as `update refused`, and what the updates did.

    Raises:
        NonFiniteError: an advantage is no number.
    """
    options, seed = recipe.config.optimizer, recipe.config.seed

    def shuffle(epoch: int, count: int) -> list[int]:
        return np.random.default_rng(seed_of((seed, "minibatches", step, epoch))).permutation(count).tolist()  # type: ignore[no-any-return]

    update = update_policy(
        stepper,
        rows,
        recipe.objective,
        step=step,
        denominator_mode=recipe.denominator_mode,
        temperature=recipe.config.collect.temperature,
        epochs=options.epochs,
        minibatches=options.minibatches,
        micro_batch_rows=options.micro_batch_rows,
        learning_rate=learning_rate(recipe, step),
        shuffle=shuffle,
    )
    return [row if row.trajectory_id in update.trained or not row.trained else exclude(row, REFUSED) for row in rows], update
