"""Many episodes at once: `tasks × members → trajectories`, in the order asked for, whatever order they finish in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rosellm.roserlhf.codec.protocol import Codec
from rosellm.roserlhf.engine.protocol import Engine
from rosellm.roserlhf.environment.protocol import Environment, Task
from rosellm.roserlhf.rollout.episode import EpisodeKey, Facts, Limits, run_episode
from rosellm.roserlhf.trajectory import Trajectory


async def collect(
    new_environment: Callable[[], Environment],
    codec: Codec,
    engine: Engine,
    tasks: Sequence[Task],
    *,
    members: int,
    run: str,
    seed: int,
    purpose: str,
    step: int,
    limits: Limits,
    facts: Facts,
) -> list[Trajectory]:
    """Play `members` episodes of every task together.

    Args:
        new_environment: makes one instance per episode.
        tasks: a task that appears twice is played by further members, so no two episodes share a random stream.
        members: episodes per appearance; the members of one task form one group, whose id is step and task.

    Returns:
        Trajectories, task by task, member by member.
    """
    seen: dict[str, int] = {}
    episodes = []
    for task in tasks:
        first = seen.get(task.task_id, 0)
        seen[task.task_id] = first + members
        group = f"{run}/{purpose}/{step}/{task.task_id}" if members > 1 else None
        for member in range(first, first + members):
            key = EpisodeKey(run=run, seed=seed, purpose=purpose, step=step, member=member)
            mine = Facts(
                environment_version=facts.environment_version, group_id=group, hashes=facts.hashes, reward_names=facts.reward_names
            )
            episodes.append(run_episode(new_environment(), codec, engine, task, key=key, limits=limits, facts=mine))
    return list(await asyncio.gather(*episodes))
