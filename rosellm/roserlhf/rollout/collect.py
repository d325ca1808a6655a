"""Many episodes at once: `tasks × members → records`, in the order asked for, whatever order they finish in."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.protocol import Codec
from rosellm.roserlhf.engine.protocol import Engine
from rosellm.roserlhf.environment.protocol import Environment, Task, ToolRunner
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.tools import ToolSet
from rosellm.roserlhf.rollout.episode import EpisodeKey, Facts, Guarding, Limits, run_episode
from rosellm.roserlhf.trajectory import Trajectory


@dataclass(frozen=True)
class Planned:
    """One episode that is about to be played."""

    task: Task
    key: EpisodeKey
    group_id: str | None
    """Episodes that are compared with each other."""
    canary: bool = False
    """Whether no honest episode can succeed at its task."""

    @property
    def trajectory_id(self) -> str:
        """Id of the record it will leave, the root of its rollout."""
        return self.key.trajectory_id(self.task)


def plan(tasks: Sequence[Task], *, members: int, run: str, seed: int, purpose: str, step: int) -> list[Planned]:
    """Name the episodes of one step: `members` of every task, task by task.

    A task that appears twice is played by further members of the same group, so no two episodes share a random stream.

    Raises:
        RangeError: less than one member.
    """
    checks.number_in(members, "members", 1, math.inf)
    seen: dict[str, int] = {}
    episodes = []
    for task in tasks:
        first = seen.get(task.task_id, 0)
        seen[task.task_id] = first + members
        group = f"{run}/{purpose}/{step}/{task.task_id}"
        keys = [EpisodeKey(run=run, seed=seed, purpose=purpose, step=step, member=first + m) for m in range(members)]
        episodes += [Planned(task, key, group) for key in keys]
    return episodes


async def collect(
    new_environment: Callable[[], Environment],
    codec: Codec,
    engine: Engine,
    episodes: Sequence[Planned],
    *,
    limits: Limits,
    facts: Facts,
    new_runner: Callable[[ToolSet], ToolRunner] = DirectRunner,
    guard: Guarding | None = None,
) -> list[Trajectory]:
    """Play episodes together. If the engine fails, all are stopped and their environments closed before its error is raised.

    Args:
        new_environment: makes one instance per episode.
        codec, engine: shared by all.
        episodes: what to play.
        limits: budgets of each.
        facts: what each record states; the group is the episode's own.
        new_runner: makes what stands between the calls and the tools of one episode.
        guard: puts a guard in front of that; None leaves the calls unguarded.

    Returns:
        Their records in the order of `episodes`; those of one episode follow each other, its root first.
    """

    async def play(episode: Planned) -> tuple[Trajectory, ...]:
        return await run_episode(
            new_environment(),
            codec,
            engine,
            episode.task,
            key=episode.key,
            limits=limits,
            facts=dataclasses.replace(facts, group_id=episode.group_id, canary=episode.canary),
            new_runner=new_runner,
            guard=guard,
        )

    running = [asyncio.create_task(play(episode)) for episode in episodes]
    try:
        return list(chain.from_iterable(await asyncio.gather(*running)))
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
