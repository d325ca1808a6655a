"""One training step: `launch → collect → credit → update → publish → account`.

The ledger moves every episode along launched → finished | failed → admitted → trained, or to rejected with its reason; at the end
of the step the law must hold: sampled tokens = trained + excluded, and the event log holds exactly those tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from rosellm.roserlhf import checks
from rosellm.roserlhf.batching.credit import group_rows, group_signal, total_reward
from rosellm.roserlhf.batching.rows import Row, exclude
from rosellm.roserlhf.batching.tensors import Batch
from rosellm.roserlhf.engine.streams import seed_of
from rosellm.roserlhf.errors import GroupError
from rosellm.roserlhf.learner.policy import RATIO_EDGES, UpdateReport, update_policy
from rosellm.roserlhf.learner.step import Stepper
from rosellm.roserlhf.metrics import means
from rosellm.roserlhf.rollout.collect import Planned
from rosellm.roserlhf.store.ledger import Ledger, LedgerEntry
from rosellm.roserlhf.trainer.recipe import Recipe
from rosellm.roserlhf.trainer.session import Session
from rosellm.roserlhf.trainer.success import common_cause
from rosellm.roserlhf.trajectory import Trajectory

REFUSED = "update refused"


def learning_rate(recipe: Recipe, step: int) -> float:
    """Learning rate of a step: a linear rise over `warmup_steps`, times a linear decay to `final_fraction` at the last step.

    The rise matters because AdamW's first updates are full-sized whatever the gradient is worth.
    """
    options, steps = recipe.config.optimizer, recipe.config.steps
    rise = min(1.0, step / options.warmup_steps)
    done = (step - 1) / max(1, steps - 1)
    return options.learning_rate * rise * (1 - (1 - options.final_fraction) * done)


def train_step(session: Session, recipe: Recipe, stepper: Stepper[Batch], step: int) -> dict[str, Any]:
    """Run one step and return its metrics, which are already in the log.

    Args:
        session: the run; its engine samples with the weights of step − 1.
        recipe: credit and objective.
        stepper: optimizer of the policy.
        step: counted from 1.

    Raises:
        GroupError: not one episode could be scored: the environment is broken, and going on would teach nothing.
        NonFiniteError: an advantage is no number.
    """
    world, config, before = session.world, recipe.config, session.seconds.copy()
    tasks = list(islice(world.tasks("train", "train", step), config.collect.tasks))
    planned = world.plan(tasks, purpose="train", step=step, members=config.collect.group_size)
    account = _Account(session, step)
    account.launch(planned)
    with session.timed("rollout"):
        trajectories = session.play(planned)
        rewards = [total_reward(t, world.environment.reward_weights) for t in trajectories]
        rows = group_rows(trajectories, rewards, recipe.credit, drop_uniform=config.drop_uniform_groups)
        account.finish(trajectories)
    if all(reward is None for reward in rewards):
        got = f"none of {len(rewards)}, most often: {common_cause(trajectories)}"
        raise checks.fail(GroupError, "rewards", "be known for some episode of the step", got)
    sampled_by = session.engine.version
    with session.timed("learn"):
        update = _update(recipe, stepper, rows, step)
        rows = [row if row.trajectory_id in update.trained or not row.trained else exclude(row, REFUSED) for row in rows]
        session.publish(f"v{step}", step=step, parent=f"v{step - 1}")
    seconds = {name: session.seconds[name] - before[name] for name in ("rollout", "learn")}
    values = _metrics(session, recipe, step, trajectories, rewards, rows, update, sampled_by, seconds)
    with session.log.transaction():
        account.place(rows)
        session.record_metrics("train", step, values)
    return values


def _update(recipe: Recipe, stepper: Stepper[Batch], rows: Sequence[Row], step: int) -> UpdateReport:
    options, seed = recipe.config.optimizer, recipe.config.seed

    def shuffle(epoch: int, count: int) -> list[int]:
        return np.random.default_rng(seed_of((seed, "minibatches", step, epoch))).permutation(count).tolist()  # type: ignore[no-any-return]

    return update_policy(
        stepper,
        rows,
        recipe.objective,
        step=step,
        denominator_mode=recipe.denominator_mode,
        temperature=recipe.config.collect.temperature,
        epochs=options.epochs,
        minibatches=options.minibatches,
        micro_batch_rows=options.micro_batch_rows,
        learning_rate=learning_rate(recipe, step),
        shuffle=shuffle,
    )


class _Account:
    """The ledger entries of one step, written to the log and replayed to prove that they balance."""

    def __init__(self, session: Session, step: int) -> None:
        self._log, self._step, self._ledger = session.log, step, Ledger()
        self._recorded = 0

    def launch(self, planned: Sequence[Planned]) -> None:
        with self._log.transaction():
            for episode in planned:
                self._add(LedgerEntry(episode.trajectory_id, "launched", step=self._step))

    def finish(self, trajectories: Sequence[Trajectory]) -> None:
        with self._log.transaction():
            for trajectory in trajectories:
                sampled = trajectory.sampled_tokens
                self._recorded += sampled
                self._log.append_trajectory(trajectory, step=self._step, phase="train")
                state: Any = "finished" if trajectory.is_finished else "failed"
                reason = None if trajectory.failure is None else trajectory.failure.cause
                self._add(LedgerEntry(trajectory.trajectory_id, state, step=self._step, sampled=sampled, reason=reason))

    def place(self, rows: Sequence[Row]) -> None:
        """Say of every row where its tokens went, then prove that none is missing."""
        for row in rows:
            detail = {"advantage": row.advantage}
            if not row.trained:
                reason = max(row.excluded, key=lambda name: row.excluded[name], default="no sampled token")
                self._add(LedgerEntry(row.trajectory_id, "rejected", step=self._step, reason=reason, detail=detail))
                continue
            self._add(LedgerEntry(row.trajectory_id, "admitted", step=self._step))
            self._add(
                LedgerEntry(
                    row.trajectory_id,
                    "trained",
                    step=self._step,
                    trained=row.trained,
                    excluded=row.excluded,
                    detail=detail,
                )
            )
        self._ledger.balance(recorded={self._step: self._recorded})

    def _add(self, entry: LedgerEntry) -> None:
        self._ledger.add(entry)
        self._log.append_ledger(
            entry.attempt_id,
            entry.state,
            step=entry.step,
            reason=entry.reason,
            detail=entry.detail,
            sampled=entry.sampled,
            trained=entry.trained,
            excluded=entry.excluded,
        )


def _metrics(
    session: Session,
    recipe: Recipe,
    step: int,
    trajectories: Sequence[Trajectory],
    rewards: Sequence[float | None],
    rows: Sequence[Row],
    update: UpdateReport,
    version: str,
    seconds: dict[str, float],
) -> dict[str, Any]:
    successes = [session.world.succeeded(t) for t in trajectories]
    signal = group_signal(trajectories, rewards, successes)
    scored = [reward for reward in rewards if reward is not None]
    lengths = [t.sampled_tokens for t in trajectories]
    diagnostics = means(update.partials)
    clamped = update.partials.get("log_ratio_clamped_fraction")
    saturated = None if clamped is None else int(clamped.sum)
    excluded: Counter[str] = Counter()
    for row in rows:
        excluded.update(row.excluded)
    total = seconds["rollout"] + seconds["learn"]
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
        "learning_rate": learning_rate(recipe, step),
        **{name: diagnostics.get(name) for name in ("approximate_kl", "clip_fraction", "mean_ratio")},
        "diagnostics": diagnostics,
        "max_abs_log_ratio_before_update": update.max_abs_log_ratio_before_update,
        "ratio_histogram": {"edges": list(RATIO_EDGES), "counts": list(update.ratio_counts)},
        "tokens": {"sampled": sum(lengths), "trained": sum(row.trained for row in rows), "excluded": dict(excluded)},
        "response_tokens": {"mean": _mean(lengths), "max": max(lengths)},
        "turns": {"mean": _mean([len(t.actions) for t in trajectories])},
        "ended": dict(Counter(t.ending or "failed" for t in trajectories)),
        "seconds": {**seconds, "evaluate": 0.0, "total": total},
        "tokens_per_second": sum(lengths) / total if total else None,
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
