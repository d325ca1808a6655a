"""Train and held-out tasks that never overlap: the hash of a task's content decides its side, however often it is drawn."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Literal

from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.environment.protocol import Task

Split = Literal["train", "held_out"]
_HELD_OUT_SHARE = 0.1


def split_of(task: Task) -> Split:
    """Tell on which side a task lies: a fixed tenth of all contents is held out."""
    return "held_out" if int(task.task_id[:8], 16) < _HELD_OUT_SHARE * 16**8 else "train"


def tasks(environment: type[ToolEnvironment], split: Split, stream: str) -> Iterator[Task]:
    """Draw tasks of one side without end, in an order that depends on `stream` alone."""
    rng = random.Random(stream)
    while True:
        task = environment.task_from(environment.make_task(rng))
        if split_of(task) == split:
            yield task


def distinct(stream: Iterator[Task], count: int, *, patience: int = 1000) -> list[Task]:
    """Take the first `count` tasks of different content; fewer if `patience * count` draws hold no more."""
    found: dict[str, Task] = {}
    for task in itertools.islice(stream, patience * count):
        found.setdefault(task.task_id, task)
        if len(found) == count:
            break
    return list(found.values())
