"""The account of one training step: `launched → finished | failed → admitted → trained, or rejected`, written down and balanced.

With every row's end stand the numbers that decided its part in the loss: total reward, advantage, and a hash of its tokens and
behaviour log-probabilities. A record that is changed afterwards no longer has this hash.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from typing import Any

from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.rollout.collect import Planned
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.store.ledger import Ledger, LedgerEntry
from rosellm.roserlhf.trajectory import Trajectory


def row_hash(row: Row) -> str:
    """Hash what of a record enters the loss: ids, masks and behaviour log-probabilities, exclusions apart."""
    digest = hashlib.blake2b(digest_size=16)
    for column in (array("q", row.token_ids), array("b", row.policy_mask), array("d", row.behaviour_logprobs)):
        digest.update(column.tobytes())
    return digest.hexdigest()


class Account:
    """The ledger entries of one step, written to the log and replayed to prove that they balance."""

    def __init__(self, log: EventLog, step: int) -> None:
        self._log, self._step, self._ledger = log, step, Ledger()
        self._recorded = 0

    def launch(self, planned: Sequence[Planned]) -> None:
        """Say which episodes are about to be played."""
        with self._log.transaction():
            for episode in planned:
                self._add(LedgerEntry(episode.trajectory_id, "launched", step=self._step))

    def finish(self, trajectories: Sequence[Trajectory]) -> None:
        """Store the records of the episodes, and how each ended."""
        with self._log.transaction():
            for trajectory in trajectories:
                sampled = trajectory.sampled_tokens
                self._recorded += sampled
                self._log.append_trajectory(trajectory, step=self._step, phase="train")
                state: Any = "finished" if trajectory.is_finished else "failed"
                reason = None if trajectory.failure is None else trajectory.failure.cause
                self._add(LedgerEntry(trajectory.trajectory_id, state, step=self._step, sampled=sampled, reason=reason))

    def place(self, rows: Sequence[Row], rewards: Sequence[float | None]) -> None:
        """Say of every row where its tokens went, then prove that none is missing."""
        for row, reward in zip(rows, rewards, strict=True):
            detail = {"reward": reward, "advantage": row.advantage, "row_hash": row_hash(row)}
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
