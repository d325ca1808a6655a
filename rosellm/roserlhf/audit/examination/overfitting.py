"""Step 6: a few tasks, always the same, can be learnt by heart: success on them rises to nearly 1.

Everything works together here: sampling, credit, objective, optimizer, publication. A copy of the model learns, within a bound of
updates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.examination.subject import Episodes, Player, Subject
from rosellm.roserlhf.audit.examination.watched import Training
from rosellm.roserlhf.environment.protocol import Task
from rosellm.roserlhf.trainer.success import succeeded

NAME = "a tiny task set is overfitted"


@dataclass(frozen=True)
class Bounds:
    """How long it may take."""

    candidates: int = 48
    """Tasks tried, to find some that succeed sometimes and fail sometimes."""
    tasks: int = 4
    members: int = 16
    updates: int = 40
    target: float = 0.9
    """Success at which it ends; at 1 no group has two outcomes and nothing is left to learn."""


def overfitting(
    subject: Subject,
    player: Player,
    *,
    bounds: Bounds | None = None,
    on_update: Callable[[int, int, float], None] = lambda *_: None,
) -> Outcome:
    """Train a copy of the model on a few tasks until it has learnt them.

    Args:
        subject: whose model is copied.
        player: samples; it is handed back with the subject's weights.
        bounds: of tasks and updates.
        on_update: told (update, updates at most, success).
    """
    if subject.world is None:
        return Outcome(NAME, "skipped", subject.no_world)
    limits = bounds or Bounds()
    tasks = undecided(subject, player, limits)
    if not tasks:
        why = f"none of {limits.candidates} tasks both failed and succeeded in {limits.members // 2} episodes"
        fix = "clone demonstrations first, or take an earlier checkpoint"
        return Outcome(NAME, "skipped", f"{why}: no reward can tell what is better; {fix}")
    try:
        return _learn(subject, player, tasks, limits, on_update)
    finally:
        player.publish(subject.model, subject.version)


def undecided(subject: Subject, player: Player, bounds: Bounds) -> list[Task]:
    """Choose the tasks that succeed least often among those that succeed sometimes and fail sometimes."""
    candidates = {task.task_id: task for task in subject.tasks(bounds.candidates, step=6)}
    played = player.play(list(candidates.values()), members=bounds.members // 2, step=60)
    outcomes = defaultdict[str, list[bool]](list)
    for task_id, success in _successes(subject, played):
        outcomes[task_id].append(success)
    shares = {task_id: sum(found) / len(found) for task_id, found in outcomes.items()}
    mixed = sorted((share, task_id) for task_id, share in shares.items() if 0 < share < 1)
    return [candidates[task_id] for _, task_id in mixed[: bounds.tasks]]


def _learn(
    subject: Subject, player: Player, tasks: Sequence[Task], bounds: Bounds, on_update: Callable[[int, int, float], None]
) -> Outcome:
    model = subject.model_copy()
    training, seen = Training(subject, model), list[float]()
    try:
        for update in range(bounds.updates + 1):
            episodes = player.play(tasks, members=bounds.members, step=61 + update)
            successes = [success for _, success in _successes(subject, episodes)]
            seen.append(sum(successes) / max(1, len(successes)))
            on_update(update, bounds.updates, seen[-1])
            if seen[-1] >= bounds.target or update == bounds.updates:
                break
            training.step(episodes.live, step=update)
            player.publish(model, f"overfitted-{update + 1}")
    finally:
        training.close()
    evidence = (
        f"success on {len(tasks)} tasks, {bounds.members} episodes each: {seen[0]:.2f}, {seen[-1]:.2f} after "
        f"{len(seen) - 1} updates (asked for {bounds.target:g} within {bounds.updates})"
    )
    if seen[-1] >= bounds.target:
        return Outcome(NAME, "passed", evidence)
    cause = "it learns, but too slowly or not steadily: the learning rate does not fit this model"
    if max(seen) <= seen[0] + 0.1:
        cause = "nothing is learnt: the update does not reach the weights, or the reward does not follow the actions"
    return Outcome(
        NAME, "failed", evidence, cause, "look at gradient norm and reward of the first updates; try another learning rate"
    )


def _successes(subject: Subject, episodes: Episodes) -> list[tuple[str, bool]]:
    assert subject.world is not None
    component = subject.world.environment.success_component
    found = [(trajectory.task_id, succeeded(trajectory, component)) for trajectory in episodes.trajectories]
    return [(task_id, success) for task_id, success in found if success is not None]
