"""The metrics of one training step: `episodes, rewards, rows, updates → one row of numbers`, the same when a step is replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rosellm.roserlhf.batching.credit import group_signal
from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.learner.policy import RATIO_EDGES, UpdateReport
from rosellm.roserlhf.metrics import means
from rosellm.roserlhf.trainer.success import succeeded
from rosellm.roserlhf.trajectory import Trajectory

TIMES = ("seconds", "tokens_per_second")
"""What depends on the clock; all else follows from the records and the weights."""

COUNTED = frozenset({"ratio_histogram", "clip_fraction", "saturated_tokens", "log_ratio_clamped_fraction"})
"""What counts tokens beyond a bound: rounding may move a token across it."""


def times(trajectories: Sequence[Trajectory], seconds: Mapping[str, float]) -> dict[str, Any]:
    """Return how long a step took, by stage, and its pace."""
    total, sampled = seconds["rollout"] + seconds["learn"], sum(t.sampled_tokens for t in trajectories)
    return {"seconds": {**seconds, "evaluate": 0.0, "total": total}, "tokens_per_second": sampled / total if total else None}


def measures(
    trajectories: Sequence[Trajectory],
    rewards: Sequence[float | None],
    rows: Sequence[Row],
    update: UpdateReport,
    *,
    version: str,
    success_component: str,
) -> dict[str, Any]:
    """Collect what one step did, times apart.

    Args:
        trajectories, rewards, rows: one each per episode of the step, in one order.
        update: what was learnt from them.
        version: policy that sampled them.
        success_component: names the reward component that says whether an episode succeeded.
    """
    successes = [succeeded(t, success_component) for t in trajectories]
    signal = group_signal(trajectories, rewards, successes)
    scored = [reward for reward in rewards if reward is not None]
    lengths = [t.sampled_tokens for t in trajectories]
    diagnostics = means(update.partials)
    clamped = update.partials.get("log_ratio_clamped_fraction")
    saturated = None if clamped is None else int(clamped.sum)
    excluded: Counter[str] = Counter()
    for row in rows:
        excluded.update(row.excluded)
    return {
        "version": version,
        "rollouts": len(trajectories),
        "success": _mean([float(s) for s in successes if s is not None]),
        "reward": {"total": _mean(scored), "std": _group_std(trajectories, rewards), **_components(trajectories)},
        "groups": {name: getattr(signal, name) for name in ("total", "all_fail", "all_pass", "mixed", "unscored")},
        "zero_variance_share": signal.uniform / signal.total,
        "loss": -diagnostics["objective"] if "objective" in diagnostics else None,
        "gradient_norm": _mean([one.gradient_norm for one in update.updates]),
        "updates": {
            "made": sum(one.skipped is None for one in update.updates),
            "skipped": [one.skipped for one in update.updates if one.skipped],
        },
        "saturated_tokens": saturated,
        "learning_rate": update.updates[0].learning_rate,
        **{name: diagnostics.get(name) for name in ("approximate_kl", "clip_fraction", "mean_ratio")},
        "diagnostics": diagnostics,
        "max_abs_log_ratio_before_update": update.max_abs_log_ratio_before_update,
        "ratio_histogram": {"edges": list(RATIO_EDGES), "counts": list(update.ratio_counts)},
        "tokens": {"sampled": sum(lengths), "trained": sum(row.trained for row in rows), "excluded": dict(excluded)},
        "response_tokens": {"mean": _mean(lengths), "max": max(lengths)},
        "turns": {"mean": _mean([len(t.actions) for t in trajectories])},
        "ended": dict(Counter(t.ending or "failed" for t in trajectories)),
    }


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _group_std(trajectories: Sequence[Trajectory], rewards: Sequence[float | None]) -> float | None:
    """Mean over groups of the population standard deviation of their scored rewards; exactly 0 for equal ones."""
    groups: dict[str | None, list[float]] = {}
    for trajectory, reward in zip(trajectories, rewards, strict=True):
        if reward is not None:
            groups.setdefault(trajectory.group_id, []).append(reward)
    return _mean([float(np.std(g)) if min(g) < max(g) else 0.0 for g in groups.values() if len(g) > 1])


def _components(trajectories: Sequence[Trajectory]) -> dict[str, float | None]:
    """Mean of every named component over the episodes that have it scored; None if none has."""
    found: dict[str, list[float]] = {}
    for trajectory in trajectories:
        for name, value in trajectory.reward_totals().items():
            found.setdefault(name, [])
            if value is not None:
                found[name].append(value)
    return {name: _mean(values) for name, values in found.items()}
