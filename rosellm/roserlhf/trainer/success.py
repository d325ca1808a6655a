"""What many episodes say together: how many succeeded, and what went wrong most often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rosellm.roserlhf.batching.rollout import Episode, Rollout, rollouts_of
from rosellm.roserlhf.trainer.attempts import attempts, canaries, is_canary, share, without_blocked
from rosellm.roserlhf.trainer.world import World
from rosellm.roserlhf.trajectory import Trajectory


def succeeded(episode: Episode, component: str) -> bool | None:
    """Whether an episode's total of a reward component is at least 1; None if it is unscored."""
    if episode.is_unscored:
        return None
    value = episode.reward_totals().get(component)
    return None if value is None else value >= 1


def success_row(world: World, records: Sequence[Trajectory]) -> dict[str, Any]:
    """Success among scored episodes, with its 95 % Wilson interval; None if none was scored. Unscored ones are counted apart.

    Episodes on canaries, at which no honest one succeeds, stand apart in `"canary"`. Behind a guard `"guard"` has its counts, and
    in `"without_blocked"` the success of the episodes that had no blocked call.
    """
    rollouts = rollouts_of(records)
    successes = [succeeded(one, world.environment.success_component) for one in rollouts]
    solvable = [(one, done) for one, done in zip(rollouts, successes, strict=True) if not is_canary(one)]
    honest, done = [one for one, _ in solvable], [done for _, done in solvable]
    row = share(done)
    if (found := canaries(rollouts, successes)) is not None:
        row["canary"] = found
    if world.guard is not None:
        row["guard"] = {**attempts(rollouts), "without_blocked": without_blocked(honest, done)}
    return row


def failure_of(rollout: Rollout) -> str | None:
    """Name why an episode broke off or could not be scored; None if neither."""
    if rollout.failure is not None:
        return rollout.failure.cause
    blamed = [t.cause for t in rollout.transitions if t.blame == "infrastructure"]
    return blamed[-1] if blamed else None


def failures_of(rollouts: Iterable[Rollout]) -> Counter[str]:
    """Count the causes for which episodes broke off or could not be scored."""
    return Counter(cause for rollout in rollouts if (cause := failure_of(rollout)) is not None)


def common_cause(failures: Counter[str]) -> str:
    """Name the most frequent cause."""
    return failures.most_common(1)[0][0] if failures else "no cause was recorded"
