"""One training step once more: `records → rewards → rows → updates → metrics → weights`, each held against what was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch

from rosellm.roserlhf.audit.rerun.comparison import Comparison, Difference, leaves
from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.batching.tensors import Batch, pad
from rosellm.roserlhf.learner.step import Stepper
from rosellm.roserlhf.losses import policy_logprobs
from rosellm.roserlhf.models.causal import weights, weights_hash
from rosellm.roserlhf.store import EventLog, LedgerEntry, Policy, Update
from rosellm.roserlhf.trainer.account import advantage_of, kept, row_hash
from rosellm.roserlhf.trainer.learning import credited, learn
from rosellm.roserlhf.trainer.measures import COUNTED, TIMES, measures
from rosellm.roserlhf.trainer.provenance import provenance
from rosellm.roserlhf.trainer.recipe import Recipe
from rosellm.roserlhf.trajectory import Trajectory

_ODD = 1e-2
"""A recorded log-probability this far from what the sampling policy says was not sampled so; the engine itself is within 1e-4."""


@dataclass(frozen=True)
class Recorded:
    """The event log, and what of it every step needs, read once."""

    log: EventLog
    metrics: Mapping[int, Mapping[str, Any]]
    """Of the training steps that were made."""
    policies: Mapping[str, Policy]
    """By version."""

    @classmethod
    def read(cls, log: EventLog) -> Recorded:
        """Read it."""
        policies = {policy.version: policy for policy in log.policies()}
        return cls(log, {row.step: row.values for row in log.metrics("train")}, policies)


class StepRerun:
    """Replays one step on a model that stands where the step began, and leaves it where the step ended."""

    def __init__(self, recorded: Recorded, recipe: Recipe, stepper: Stepper[Batch], step: int, comparison: Comparison) -> None:
        self._recorded, self._recipe, self._stepper, self._step, self._comparison = recorded, recipe, stepper, step, comparison
        self._log, self._provenance = recorded.log, provenance(recorded.log, step)

    def run(self) -> None:
        """Replay the step."""
        ledger = list(self._log.ledger(step=self._step))
        trajectories = [stored.trajectory for stored in self._log.trajectories(phase="train", step=self._step)]
        self._compare_records(ledger, trajectories)
        rewards, rows = credited(self._recipe, trajectories, self._provenance.reward_weights)
        self._compare_ends(ledger, rewards, rows)
        rows, report = learn(self._recipe, self._stepper, rows, self._step)
        self._compare_updates(report.updates, {row.trajectory_id: row for row in rows})
        policy = self._recorded.policies.get(f"v{self._step}")
        options = {"version": (policy and policy.parent) or "", "success_component": self._provenance.success_component}
        guarded = self._recipe.config.guard.on
        found_metrics = measures(trajectories, rewards, rows, report, guarded=guarded, **options) if trajectories else {}
        self._compare_metrics(found_metrics)
        found = weights_hash(weights(self._stepper.model))
        self._value("weights", policy and policy.content_hash, found, name=f"hash of the weights v{self._step}")

    def _value(self, quantity: str, recorded: Any, recomputed: Any, **place: Any) -> bool:
        return self._comparison.value(quantity, self._step, recorded, recomputed, **place)

    def _compare_records(self, ledger: Sequence[LedgerEntry], trajectories: Sequence[Trajectory]) -> None:
        """Every episode that was launched must have its record, and every record its launch."""
        launched = dict.fromkeys(entry.attempt_id for entry in ledger if entry.state == "launched")
        found = dict.fromkeys(trajectory.trajectory_id for trajectory in trajectories if trajectory.is_rollout)
        for name in launched | found:
            state, record = "launched" if name in launched else None, "a record" if name in found else None
            if state and record:
                self._value("record", state, state)
            else:
                self._comparison.differs("record", Difference(self._step, "record", state, record, trajectory_id=name))

    def _compare_ends(self, ledger: Sequence[LedgerEntry], rewards: Sequence[float | None], rows: Sequence[Row]) -> None:
        """Rows, rewards and advantages of every episode against the ledger."""
        ends = {entry.attempt_id: entry.detail for entry in ledger if entry.state in ("rejected", "trained")}
        episodes = [(name, list(parts)) for name, parts in groupby(rows, key=lambda row: row.rollout_id)]
        details = [detail if isinstance(detail := ends.get(name), Mapping) else {} for name, _ in episodes]
        for (_, parts), detail in zip(episodes, details, strict=True):
            hashes = detail.get("row_hash") if len(parts) > 1 else [detail.get("row_hash")]
            known = hashes if isinstance(hashes, list) and len(hashes) == len(parts) else [None] * len(parts)
            for row, recorded in zip(parts, known, strict=True):
                self._compare_row(row, recorded)
        for (name, _), detail, reward in zip(episodes, details, rewards, strict=True):
            self._value("reward", detail.get("reward"), reward, trajectory_id=name)
        for (name, parts), detail in zip(episodes, details, strict=True):
            self._compare_advantage(name, parts, detail.get("advantage"))

    def _compare_advantage(self, name: str, rows: Sequence[Row], recorded: Any) -> None:
        """Hold the advantage of an episode against the ledger, turn by turn where turns have their own."""
        found = kept(advantage_of(rows))
        if not isinstance(found, list) or not isinstance(recorded, list) or len(found) != len(recorded):
            self._value("advantage", recorded, found, trajectory_id=name)
            return
        for turn, (was, now) in enumerate(zip(recorded, found, strict=True), rows[0].first_turn):
            self._value("advantage", was, now, trajectory_id=name, turn=turn)

    def _compare_row(self, row: Row, recorded: str | None) -> None:
        """Hold a row against its hash; where they differ, ask the policy that sampled it which token it never said like that."""
        hashed = row_hash(row)
        if hashed == recorded:
            self._value("row", recorded, hashed)
            return
        difference = Difference(self._step, "hash of the row", recorded, hashed, trajectory_id=row.trajectory_id)
        self._comparison.differs("row", self._odd_token(row) or difference)

    def _odd_token(self, row: Row) -> Difference | None:
        """Find the first token of a row that the policy, as it stood before the step, would not have sampled as recorded."""
        drift = self._comparison.tolerance.allowed("current log-probability", self._step)
        if drift is None:
            return None
        with torch.inference_mode():
            batch = pad([row], self._stepper.parameters[0].device)
            temperature = self._recipe.config.collect.temperature
            model, support = self._stepper.model, batch.support
            said = policy_logprobs(model, batch.input_ids, temperature=temperature, support=support)[0].tolist()
        for t, (sampled, was, now) in enumerate(zip(row.policy_mask, row.behaviour_logprobs, said, strict=True)):
            if sampled and not abs(now - was) <= max(_ODD, drift):
                name, place = row.trajectory_id, _token(row, t)
                return Difference(self._step, "behaviour log-probability", was, now, trajectory_id=name, **place)
        return None

    def _compare_updates(self, updates: Sequence[Update], rows: Mapping[str, Row]) -> None:
        recorded = list(self._log.updates(step=self._step))
        self._value("update", len(recorded), len(updates), name="number of updates")
        for was, now in zip(recorded, updates, strict=False):
            place = {"update": now.number}
            self._value("learning rate", was.learning_rate, now.learning_rate, **place)
            self._value("denominator", was.denominator, now.denominator, **place)
            for name in ("number", "epoch"):
                self._value("update", getattr(was, name), getattr(now, name), name=f"{name} of the update", **place)
            ids = [[row.trajectory_id for row in one.rows] for one in (was, now)]
            if self._value("update", ids[0], ids[1], name="rows of the update", **place):
                self._compare_logprobs(was, now, rows)
            self._value("loss", was.loss, now.loss, **place)
            self._value("gradient norm", was.gradient_norm, now.gradient_norm, **place)
            self._value("update", was.skipped, now.skipped, name="why the update was skipped", **place)

    def _compare_logprobs(self, was: Update, now: Update, rows: Mapping[str, Row]) -> None:
        for one, other in zip(was.rows, now.rows, strict=True):
            row, place = rows[one.trajectory_id], {"update": now.number, "trajectory_id": one.trajectory_id}
            counts = len(one.current_logprobs), len(other.current_logprobs)
            if self._value("update", *counts, name="number of sampled tokens", **place):
                places = [{**place, **_token(row, t)} for t, sampled in enumerate(row.policy_mask) if sampled]
                quantity = "current log-probability"
                self._comparison.numbers(quantity, self._step, one.current_logprobs, other.current_logprobs, places)

    def _compare_metrics(self, found: Mapping[str, Any]) -> None:
        was, now = (dict(leaves(values)) for values in (self._recorded.metrics.get(self._step, {}), found))
        for path in dict.fromkeys([*was, *now]):
            parts = path.replace("[", ".").split(".")
            if parts[0] not in TIMES:
                quantity = "counted metric" if COUNTED & {*parts} else "metric"
                self._value(quantity, was.get(path), now.get(path), name=f"metric {path}")


def _token(row: Row, position: int) -> dict[str, int]:
    return {"turn": row.turns[position], "position": position, "token_id": row.token_ids[position]}
