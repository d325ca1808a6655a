"""What many episodes say together: how many succeeded, and what went wrong most often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rosellm.roserlhf.report.interval import wilson_interval
from rosellm.roserlhf.trainer.world import World
from rosellm.roserlhf.trajectory import Trajectory


def succeeded(trajectory: Trajectory, component: str) -> bool | None:
    """Whether an episode's total of a reward component is at least 1; None if it is unscored."""
    if trajectory.is_unscored:
        return None
    value = trajectory.reward_totals().get(component)
    return None if value is None else value >= 1


def success_row(world: World, trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """Success among scored episodes, with its 95 % Wilson interval; None if none was scored. Unscored ones are counted apart."""
    scored = [done for done in (succeeded(t, world.environment.success_component) for t in trajectories) if done is not None]
    unscored = len(trajectories) - len(scored)
    if not scored:
        return {"n": 0, "unscored": unscored, "success": None, "low": None, "high": None}
    share = sum(scored) / len(scored)
    low, high = wilson_interval(share, len(scored))
    return {"n": len(scored), "unscored": unscored, "success": share, "low": low, "high": high}


def common_cause(trajectories: Sequence[Trajectory]) -> str:
    """Name the most frequent cause of failures that left episodes unscored."""
    causes: Counter[str] = Counter()
    for trajectory in trajectories:
        ended = [t.cause for t in trajectory.transitions if t.blame == "infrastructure" and t.cause]
        causes.update([trajectory.failure.cause] if trajectory.failure is not None else ended[-1:])
    return causes.most_common(1)[0][0] if causes else "no cause was recorded"
