"""Step 7: the update made from stored records is the update that was made: the same weights, bit for bit."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.examination.hand_credit import rescored
from rosellm.roserlhf.audit.examination.subject import Episodes, Subject
from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.models.causal import weights, weights_hash
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.trainer.learning import credited, learn, new_stepper
from rosellm.roserlhf.trajectory import Trajectory

NAME = "offline replay equals the online update"


def offline_replay(subject: Subject, episodes: Episodes) -> Outcome:
    """Update a copy from the episodes at hand and another one from the same episodes read back from an event log."""
    trajectories, reward_weights = episodes.trajectories, subject.reward_weights
    _, online_rows = credited(subject.recipe, trajectories, reward_weights)
    if not any(row.trained for row in online_rows):  # every group is uniform: only made-up rewards give an update to repeat
        trajectories = rescored(trajectories, [float(index % 3) for index in range(len(trajectories))], reward_weights)
        _, online_rows = credited(subject.recipe, trajectories, reward_weights)
    _, offline_rows = credited(subject.recipe, _stored(trajectories), reward_weights)
    online = _updated(subject, online_rows)
    if (difference := first_difference(online_rows, offline_rows)) is not None:
        return Outcome(
            NAME, "failed", difference, "the store does not give back what it was given", "store every field bit for bit"
        )
    offline = _updated(subject, offline_rows)
    if offline != online:
        evidence = f"the rows are equal in every bit, the weights are not: online {online:.12}, offline {offline:.12}"
        cause = "the update depends on more than rows and weights: an unkeyed random stream, dropout, or the order of threads"
        return Outcome(NAME, "failed", evidence, cause, "key every random stream; keep the model in evaluation mode")
    trained = sum(row.trained for row in online_rows)
    return Outcome(NAME, "passed", f"weights {online[:12]} both times, from {trained} trained tokens of {len(online_rows)} records")


def _stored(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Put records into an event log and read them back."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.db"
        with EventLog.create(path) as log, log.transaction():
            for trajectory in trajectories:
                log.append_trajectory(trajectory, step=1, phase="train")
        with EventLog.read(path) as log:
            return [found.trajectory for found in log.trajectories(phase="train", step=1)]


def first_difference(online: Sequence[Row], offline: Sequence[Row]) -> str | None:
    """Name the first trajectory, quantity and place where two lists of rows differ."""
    if len(online) != len(offline):
        return f"{len(online)} records went in, {len(offline)} came back"
    for one, other in zip(online, offline, strict=True):
        for name, value in vars(one).items():
            back = vars(other)[name]
            if value == back:
                continue
            if isinstance(value, tuple) and isinstance(back, tuple):
                pairs = enumerate(zip(value, back, strict=False))
                place = next((i for i, (a, b) in pairs if a != b), min(len(value), len(back)))
                shown = [v[place] if place < len(v) else "missing" for v in (value, back)]
                return f"{name} of {one.trajectory_id} at position {place} was {shown[0]}, {shown[1]} came back"
            return f"{name} of {one.trajectory_id} was {value}, {back} came back"
    return None


def _updated(subject: Subject, rows: Sequence[Row]) -> str:
    options, model = subject.recipe.config.optimizer, subject.model_copy()
    stepper = new_stepper(subject.recipe.config, model, learning_rate=options.learning_rate, weight_decay=options.weight_decay)
    try:
        learn(subject.recipe, stepper, rows, step=1)
    finally:
        stepper.close()
    return weights_hash(weights(model))
