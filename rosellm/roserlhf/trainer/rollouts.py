"""The records of a step → its rollouts, each record with the context it was sampled in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rosellm.roserlhf.batching.rollout import Rollout, rollouts_of
from rosellm.roserlhf.store.forest.forest import Forest
from rosellm.roserlhf.trajectory import Trajectory


def whole_rollouts(records: Iterable[Trajectory]) -> list[Rollout]:
    """Put the records of each episode together and look up the contexts that stand in other records.

    Args:
        records: those of one episode in order, its root first.

    Returns:
        Rollouts in the order of their roots.

    Raises:
        RecordError: records contradict each other, or a context was not recorded.
    """
    found = rollouts_of(records)
    linked = [record for rollout in found if len(rollout.records) > 1 for record in rollout.records]
    return _with_contexts(found, linked) if linked else found


def _with_contexts(rollouts: Sequence[Rollout], linked: Sequence[Trajectory]) -> list[Rollout]:
    forest = Forest(linked, live=True)
    contexts = {record.trajectory_id: forest.context(record.trajectory_id).spans for record in linked if record.parent is not None}
    return [Rollout(rollout.records, contexts) for rollout in rollouts]
