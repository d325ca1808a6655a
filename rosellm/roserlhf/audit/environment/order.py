"""The checks of an environment in their order: `name -> Outcomes`, each as soon as it is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator

from rosellm.roserlhf import checks
from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.environment import checks as made
from rosellm.roserlhf.audit.environment.subject import Subject
from rosellm.roserlhf.audit.stages import Stage, in_order

SECONDS = 20.0
"""Time limit of one episode; a tool that runs programs may need some."""
CHECKS = (
    Stage(made.DECLARED, (), made.declared),
    Stage(made.TASKS, (made.DECLARED,), made.drawn),
    Stage(made.SPLITS, (made.DECLARED,), made.splits),
    Stage(made.GOLD, (made.DECLARED,), made.gold),
    Stage(made.EMPTY, (made.DECLARED,), made.empty),
    Stage(made.RANDOM, (made.DECLARED,), made.at_random),
    Stage(made.REPLIES, (made.DECLARED,), made.hostile_replies),
    Stage(made.ARGUMENTS, (made.DECLARED,), made.hostile_arguments),
    Stage(made.SCORE, (made.DECLARED,), made.score),
    Stage(made.RNG, (made.DECLARED,), made.random_state),
    Stage(made.OUTPUT, (made.DECLARED,), made.output),
    Stage(made.REPLAY, (made.TASKS,), made.replay),
    Stage(made.SNAPSHOT, (made.REPLAY,), made.snapshot),
)


def examine_environment(
    name: str, *, seconds: float = SECONDS, on_check: Callable[[int, str], None] = lambda number, name: None
) -> Generator[Outcome, None, None]:
    """Play gold, empty, random and hostile answers in a process of their own, and yield what each check found.

    Args:
        name: built-in name or import path `module:Class`.
        seconds: time limit of one episode.
        on_check: told (number from 1, name) before a check begins.

    Raises:
        ConfigError: there is no such environment, or it cannot be imported.
        RangeError: a time limit that is not above 0.
    """
    checks.number_in(seconds, "seconds", 0, math.inf, open_low=True, open_high=True)
    with Subject(name, seconds) as subject:
        subject.describe()
        yield from in_order(CHECKS, subject, on_check)
