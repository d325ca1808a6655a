"""The metrics of one training step: `episodes, rewards, rows, updates → one row of numbers`, the same when a step is replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rosellm.roserlhf.batching.credit import group_signal
from rosellm.roserlhf.batching.rollout import Rollout, rollouts_of
from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.guard.guard import Tally
from rosellm.roserlhf.learner.policy import RATIO_EDGES, UpdateReport
from rosellm.roserlhf.metrics import means
from rosellm.roserlhf.rollout.episode import CANARY
from rosellm.roserlhf.trainer.attempts import attempts, canaries, is_canary
from rosellm.roserlhf.trainer.success import failures_of, succeeded
from rosellm.roserlhf.trajectory import Trajectory

TIMES = ("seconds", "tokens_per_second", "guard_cost")
"""What depends on the clock; all else follows from the records and the weights."""

COUNTED = frozenset({"ratio_histogram", "clip_fraction", "saturated_tokens", "log_ratio_clamped_fraction"})
"""What counts tokens beyond a bound: rounding may move a token across it."""

SHOWN_CAUSES, OTHER = 8, "other causes"
UNNAMED = "cause not recorded"


def times(records: Sequence[Trajectory], seconds: Mapping[str, float]) -> dict[str, Any]:
    """Return how long a step took, by stage, and its pace."""
    total, sampled = seconds["rollout"] + seconds["learn"], sum(record.sampled_tokens for record in records)
    return {"seconds": {**seconds, "evaluate": 0.0, "total": total}, "tokens_per_second": sampled / total if total else None}


def guard_cost(tally: Tally) -> dict[str, Any]:
    """Return what the guard's looking took: calls, and seconds of rules and of judges (which may have run side by side)."""
    return {"guard_cost": {"calls": tally.calls, "rules": tally.rules_seconds, "judge": tally.judge_seconds}}


def measures(
    records: Sequence[Trajectory],
    rewards: Sequence[float | None],
    rows: Sequence[Row],
    update: UpdateReport,
    *,
    version: str,
    success_component: str,
    guarded: bool = False,
) -> dict[str, Any]:
    """Collect what one step did, times apart.

    Args:
        records: of the step, those of one episode in order, its root first.
        rewards: one for each episode, in the order of the roots.
        rows: one for each record.
        update: what was learnt from them.
        version: policy that sampled them.
        success_component: names the reward component that says whether an episode succeeded.
        guarded: whether a guard stood in front of the tools.
    """
    rollouts = rollouts_of(records)
    successes = [succeeded(rollout, success_component) for rollout in rollouts]
    solvable = [done for one, done in zip(rollouts, successes, strict=True) if done is not None and not is_canary(one)]
    canary = canaries(rollouts, successes)
    signal = group_signal(rollouts, rewards, successes)
    scored = [reward for reward in rewards if reward is not None]
    lengths = [rollout.sampled_tokens for rollout in rollouts]
    diagnostics = means(update.partials)
    clamped = update.partials.get("log_ratio_clamped_fraction")
    saturated = None if clamped is None else int(clamped.sum)
    excluded: Counter[str] = Counter()
    for row in rows:
        excluded.update(row.excluded)
    return {
        "version": version,
        "rollouts": len(rollouts),
        "success": _mean([float(done) for done in solvable]),
        "reward": {"total": _mean(scored), "std": _group_std(rollouts, rewards), **_components(rollouts)},
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
        "turns": {"mean": _mean([len(rollout.turns) for rollout in rollouts])},
        "ended": dict(Counter("failed" if one.failure else one.ending or "failed" for one in rollouts)),
        "failures": _most_common(failures_of(rollouts)),
        "rewrites": dict(rewrites_of(records)),
        **({} if canary is None else {"canary": canary}),
        **({"guard": attempts(rollouts)} if guarded else {}),
    }


def rewrites_of(records: Iterable[Trajectory]) -> Counter[str]:
    """Count by cause how often a template rewrote a conversation that went on."""
    causes = {record.trajectory_id: record.transitions[-1].cause for record in records if record.ending == "handed_off"}
    children = [record.parent.record_id for record in records if record.parent is not None and record.parent.kind == "rewrite"]
    return Counter(causes.get(parent) or UNNAMED for parent in children)


def _most_common(causes: Counter[str]) -> dict[str, int]:
    """Keep the causes that are met most often, and the number of the rest: causes are words of whoever failed."""
    kept = dict(causes.most_common(SHOWN_CAUSES))
    rest = causes.total() - sum(kept.values())
    return {**kept, **({OTHER: rest} if rest else {})}


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _group_std(rollouts: Sequence[Rollout], rewards: Sequence[float | None]) -> float | None:
    """Mean over groups of the population standard deviation of their scored rewards; exactly 0 for equal ones."""
    groups: dict[str | None, list[float]] = {}
    for rollout, reward in zip(rollouts, rewards, strict=True):
        if reward is not None:
            groups.setdefault(rollout.group_id, []).append(reward)
    return _mean([float(np.std(g)) if min(g) < max(g) else 0.0 for g in groups.values() if len(g) > 1])


def _components(rollouts: Sequence[Rollout]) -> dict[str, float | None]:
    """Mean of every named component over the episodes that have it scored; None if none has."""
    found: dict[str, list[float]] = {}
    for rollout in rollouts:
        for name, value in rollout.reward_totals().items():
            if name == CANARY:  # a mark, no reward
                continue
            found.setdefault(name, [])
            if value is not None:
                found[name].append(value)
    return {name: _mean(values) for name, values in found.items()}
