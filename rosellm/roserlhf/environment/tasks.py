"""Train and held-out tasks that never overlap: the hash of a task's content decides its side, however often it is drawn."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.environment.protocol import Task
from rosellm.roserlhf.errors import RangeError

Split = Literal["train", "held_out"]
_HELD_OUT_SHARE = 0.1
_PATIENCE = 10_000
"""Draws in a row on the other side after which a side counts as empty."""


def split_of(task: Task) -> Split:
    """Tell on which side a task lies: a fixed tenth of all contents is held out."""
    return "held_out" if int(task.task_id[:8], 16) < _HELD_OUT_SHARE * 16**8 else "train"


def tasks(environment: type[ToolEnvironment], split: Split, stream: str) -> Iterator[Task]:
    """Draw tasks of one side without end, in an order that depends on `stream` alone.

    Raises:
        RangeError: the environment draws no task of this side.
    """
    rng, missed = random.Random(stream), 0
    while missed < _PATIENCE:
        task = environment.task_from(environment.make_task(rng))
        missed += 1
        if split_of(task) == split:
            missed = 0
            yield task
    fix = "make_task needs a larger choice, a tenth of it is held out"
    raise checks.fail(
        RangeError, "environment", f"draw {split} tasks", f"none in {_PATIENCE} draws of {environment.__name__}", fix=fix
    )


def distinct(stream: Iterator[Task], count: int) -> list[Task]:
    """Take the first `count` tasks of different content, fewer if there seem to be no more.

    The search ends after 100 + 10 × (tasks found) repetitions in a row; so the last of n equally likely tasks is missed with
    probability e⁻¹⁰ at most.
    """
    found: dict[str, Task] = {}
    repeated = 0
    while len(found) < count and repeated < 100 + 10 * len(found):
        task = next(stream)
        repeated = repeated + 1 if task.task_id in found else 0
        found.setdefault(task.task_id, task)
    return list(found.values())
