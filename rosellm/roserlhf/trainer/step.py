"""One training step: `launch → collect → credit → update → publish → account`.

The ledger moves every episode along launched → finished | failed → admitted → trained, or to rejected with its reason; at the end
of the step the law must hold: sampled tokens = trained + excluded, and the event log holds exactly those tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.batching.rollout import rollouts_of
from rosellm.roserlhf.batching.tensors import Batch
from rosellm.roserlhf.errors import GroupError
from rosellm.roserlhf.learner.step import Stepper
from rosellm.roserlhf.trainer.account import Account
from rosellm.roserlhf.trainer.learning import credited, learn
from rosellm.roserlhf.trainer.measures import guard_cost, measures, times
from rosellm.roserlhf.trainer.recipe import Recipe
from rosellm.roserlhf.trainer.session import Session
from rosellm.roserlhf.trainer.success import common_cause, failures_of


def train_step(session: Session, recipe: Recipe, stepper: Stepper[Batch], step: int) -> dict[str, Any]:
    """Run one step and return its metrics, which are already in the log.

    Args:
        session: the run; its engine samples with the weights of step − 1.
        recipe: credit and objective.
        stepper: optimizer of the policy.
        step: counted from 1.

    Raises:
        GroupError: more episodes failed than may, or not one could be scored: going on would teach what survives the failures.
        NonFiniteError: an advantage is no number.
    """
    world, config, before = session.world, recipe.config, session.seconds.copy()
    tasks = list(islice(world.tasks("train", "train", step), config.collect.tasks))
    planned = world.plan(tasks, purpose="train", step=step, members=config.collect.group_size)
    account = Account(session.log, step)
    account.launch(planned)
    tally = None if world.guard is None else replace(world.guard.tally)
    with session.timed("rollout"):
        records = session.play(planned)
        rewards, rows = credited(recipe, records, world.reward_weights)
        account.finish(records)
    _require_scores(rewards, failures_of(rollouts_of(records)), config.max_failed_share)
    sampled_by = session.engine.version
    with session.timed("learn"):
        rows, update = learn(recipe, stepper, rows, step)
        session.publish(f"v{step}", step=step, parent=f"v{step - 1}")
    seconds = {name: session.seconds[name] - before[name] for name in ("rollout", "learn")}
    component = world.environment.success_component
    guarded = world.guard is not None
    values = measures(records, rewards, rows, update, version=sampled_by, success_component=component, guarded=guarded)
    values |= times(records, seconds) | ({} if world.guard is None or tally is None else guard_cost(world.guard.tally - tally))
    with session.log.transaction():
        account.place(rows, rewards)
        for one in update.updates:
            session.log.append_update(one)
        session.record_metrics("train", step, values)
    return values


def _require_scores(rewards: Sequence[float | None], failures: Counter[str], most: float) -> None:
    """Stop a run whose surroundings are broken, rather than let it learn from the episodes that they happen to spare."""
    count, failed = len(rewards), failures.total()
    if all(reward is None for reward in rewards):
        got = f"none of {count}, most often: {common_cause(failures)}"
        raise checks.fail(GroupError, "rewards", "be known for some episode of the step", got)
    if failed > most * count:
        got = f"{failed} that failed, most often ({failures.most_common(1)[0][1]} times): {common_cause(failures)}"
        fix = f"mend that, or raise max_failed_share = {most:g}"
        raise checks.fail(GroupError, "a step", f"have at most {most * count:g} failed episodes of {count}", got, fix=fix)
