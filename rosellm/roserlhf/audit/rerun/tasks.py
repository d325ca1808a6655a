"""The tasks of stored episodes: `phase, step → the run's own stream of tasks → the task of an id`, drawn again from the seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from rosellm.roserlhf.environment.protocol import Task
from rosellm.roserlhf.trainer.world import World

MOST_DRAWS = 100_000
"""Draws after which a task counts as one that the environment does not draw any more."""


class StoredTasks:
    """Draws the tasks of stored episodes again: each purpose of a run has a stream of its own.

    Args:
        world: of the run.
        wanted: (phase, step, task id) of every episode that will be asked for.
    """

    def __init__(self, world: World, wanted: Iterable[tuple[str, int, str]]) -> None:
        self._world = world
        self._wanted: dict[tuple[str, int], set[str]] = {}
        for phase, step, task_id in wanted:
            self._wanted.setdefault(_place(phase, step), set()).add(task_id)
        self._found: dict[tuple[str, int], dict[str, Task]] = {}

    def find(self, phase: str, step: int, task_id: str) -> Task | None:
        """Return a task; None if the environment does not draw it any more."""
        place = _place(phase, step)
        if place not in self._found:
            left, found = set(self._wanted[place]), dict[str, Task]()
            for task in islice(self._stream(*place), MOST_DRAWS):
                if task.task_id in left:
                    found[task.task_id] = task
                    left.discard(task.task_id)
                if not left:
                    break
            self._found[place] = found
        return self._found[place].get(task_id)

    def _stream(self, phase: str, step: int) -> Iterator[Task]:
        if phase == "held_out":
            return self._world.tasks("held_out", "evaluate")
        return self._world.tasks("train", phase, step)


def _place(phase: str, step: int) -> tuple[str, int]:
    return ("held_out", 0) if phase.startswith("evaluate") else (phase, step)
