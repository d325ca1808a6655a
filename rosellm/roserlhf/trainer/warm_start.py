"""The warm start: scripted demonstrations, many of them faulty, cloned until sampling succeeds sometimes.

Faulty on purpose: a policy that only ever saw perfect scripts either copies them or fails always; reinforcement learning needs both
outcomes. Every batch is drawn by a stream keyed with its step, so a warm start that was stopped goes on to the same weights.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from itertools import islice

from rosellm.roserlhf import checks
from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.batching.tensors import Batch
from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.errors import GroupError, NonFiniteError
from rosellm.roserlhf.learner.cloning import clone_step
from rosellm.roserlhf.learner.step import Stepper
from rosellm.roserlhf.rollout.collect import Planned
from rosellm.roserlhf.rollout.episode import run_episode
from rosellm.roserlhf.rollout.script import ScriptedEngine
from rosellm.roserlhf.trainer.progress import Progress
from rosellm.roserlhf.trainer.rollouts import whole_rollouts
from rosellm.roserlhf.trainer.session import Session
from rosellm.roserlhf.trainer.success import common_cause, failures_of, success_row
from rosellm.roserlhf.trainer.world import World
from rosellm.roserlhf.trajectory import Trajectory

RISE = 20
"""Cloning steps over which the learning rate rises to its configured value."""


async def demonstrate(world: World, episode: Planned, *, fault_rate: float) -> tuple[Trajectory, ...]:
    """Play one scripted episode through the episode loop; its records have certain log-probabilities and are not trainable."""
    rng = random.Random(f"{world.config.seed}/demonstration/{episode.key.member}/{episode.task.task_id}")
    instance: ToolEnvironment = world.environment()
    script = instance.demonstrate(rng, faulty=rng.random() < fault_rate)
    engine = ScriptedEngine(instance, world.codec, script)
    facts = dataclasses.replace(world.facts, trainable=False)
    return await run_episode(instance, world.codec, engine, episode.task, key=episode.key, limits=world.limits, facts=facts)


async def demonstrations(world: World) -> list[Trajectory]:
    """Play the demonstrations of a run, on training tasks."""
    options = world.config.warm_start
    chosen = list(islice(world.tasks("train", "demonstration"), options.demonstrations))
    planned = world.plan(chosen, purpose="demonstration", step=0)
    played = [await demonstrate(world, episode, fault_rate=options.fault_rate) for episode in planned]
    return [record for records in played for record in records]


def warm_start(
    session: Session, stepper: Stepper[Batch], *, done: int, save: Callable[[int, bool], None], should_stop: Callable[[], bool]
) -> bool:
    """Clone until sampled success on training tasks passes the configured mark, or the steps are used up.

    Args:
        session: the run.
        stepper: optimizer of the cloning.
        done: cloning steps that a checkpoint already holds.
        save: called with (steps done, finished) after every check and when stopped.
        should_stop: asked after every step.

    Returns:
        Whether the warm start is finished; False if it was stopped.

    Raises:
        GroupError: no demonstration could be played.
        NonFiniteError: the cloning diverged.
    """
    options, world = session.world.config.warm_start, session.world
    if not options.max_steps:
        save(0, True)
        return True
    episodes = session.run(demonstrations(world))
    if not done:
        with session.log.transaction():
            for episode in episodes:
                session.log.append_trajectory(episode, step=0, phase="demonstration")
    rollouts = whole_rollouts(episodes)
    scripts = [rows for rollout in rollouts if (rows := [row for row in rollout.rows() if row.trained])]
    if not scripts:
        got = f"none of {len(rollouts)}, most often: {common_cause(failures_of(rollouts))}"
        raise checks.fail(GroupError, "demonstrations", "hold one that could be played", got)
    checked = {m.values["step"] for m in session.log.metrics("warm_start")}
    check_tasks = list(islice(world.tasks("train", "warm-start-check"), options.check_tasks))
    for step in range(done + 1, options.max_steps + 1):
        draw = random.Random(f"{world.config.seed}/cloning/{step}")
        order = draw.sample(range(len(scripts)), min(options.batch_size, len(scripts)))
        loss = clone(stepper, [row for i in order for row in scripts[i]], world, step)
        success, finished = None, step == options.max_steps
        if step % options.check_every == 0 or finished:
            session.publish(f"clone-{step}", step=0, parent=None, keep=False)
            played = session.play(world.plan(check_tasks, purpose="warm-start-check", step=step))
            measured = success_row(world, played)
            success = measured["success"]
            finished = finished or (success is not None and success >= options.stop_at_success)
            if step not in checked:  # else a process died between this row and its checkpoint
                session.record_metrics("warm_start", 0, {"step": step, "loss": loss, "success": success, "n": measured["n"]})
        session.tell(Progress(phase="warm_start", step=step, steps=options.max_steps, success=success))
        if finished or step % options.check_every == 0:
            save(step, finished)
        if finished:
            return True
        if should_stop():
            save(step, False)
            return False
    return True


def clone(stepper: Stepper[Batch], rows: list[Row], world: World, step: int) -> float:
    """One cloning step, counted from 1, at the configured learning rate after a linear rise; returns its loss."""
    config = world.config
    rate = config.warm_start.learning_rate * min(1.0, step / RISE)
    report = clone_step(stepper, rows, micro_batch_rows=config.optimizer.micro_batch_rows, learning_rate=rate)
    if report.skipped is not None:
        raise checks.fail(
            NonFiniteError, "cloning step", "lower a finite loss", report.skipped, fix="lower warm_start.learning_rate"
        )
    return float(report.partials["cloning_loss"].mean())
