"""What many episodes say together: how many succeeded, and what went wrong most often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rosellm.roserlhf.batching.rollout import Episode, Rollout, rollouts_of
from rosellm.roserlhf.report.interval import wilson_interval
from rosellm.roserlhf.trainer.world import World
from rosellm.roserlhf.trajectory import Trajectory


def succeeded(episode: Episode, component: str) -> bool | None:
    """Whether an episode's total of a reward component is at least 1; None if it is unscored."""
    if episode.is_unscored:
        return None
    value = episode.reward_totals().get(component)
    return None if value is None else value >= 1


def success_row(world: World, records: Sequence[Trajectory]) -> dict[str, Any]:
    """Success among scored episodes, with its 95 % Wilson interval; None if none was scored. Unscored ones are counted apart."""
    rollouts = rollouts_of(records)
    scored = [done for done in (succeeded(one, world.environment.success_component) for one in rollouts) if done is not None]
    unscored = len(rollouts) - len(scored)
    if not scored:
        return {"n": 0, "unscored": unscored, "success": None, "low": None, "high": None}
    share = sum(scored) / len(scored)
    low, high = wilson_interval(share, len(scored))
    return {"n": len(scored), "unscored": unscored, "success": share, "low": low, "high": high}


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
