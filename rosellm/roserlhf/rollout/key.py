"""Who an episode is: `run, seed, purpose, step, task, member → id, random streams`."""

from __future__ import annotations

from dataclasses import dataclass

from rosellm.roserlhf.engine.streams import seed_of
from rosellm.roserlhf.environment.protocol import Task


@dataclass(frozen=True, kw_only=True)
class EpisodeKey:
    """Who an episode is; every random draw in it is keyed by this and the turn, so it can be made again alone."""

    run: str
    """Name of the run."""
    seed: int
    """Seed of the run."""
    purpose: str
    """`train`, `evaluate-greedy`, …: streams of different purposes never meet."""
    step: int
    """Training step that asks for it."""
    member: int
    """Index among the episodes of the same task in this step."""

    def trajectory_id(self, task: Task) -> str:
        """Readable and unique within the run."""
        return f"{self.run}/{self.purpose}/{self.step}/{task.task_id}/{self.member}"

    def stream(self, task: Task, turn: int) -> tuple[int | str, ...]:
        """Key of the random stream of one turn."""
        return (self.seed, self.purpose, self.step, task.task_id, self.member, turn)

    def environment_seed(self, task: Task) -> int:
        """Seed of the environment's own chance in this episode, 63 bits."""
        return seed_of((self.seed, self.purpose, self.step, task.task_id, self.member, "environment")) >> 65
