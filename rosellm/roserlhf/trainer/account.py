"""The account of one training step: `launched → finished | failed → admitted → trained, or rejected`, written down and balanced.

With every row's end stand the numbers that decided its part in the loss: total reward, advantage (a list where turns
have their own), and a hash of its tokens and
behaviour log-probabilities. A record that is changed afterwards no longer has this hash.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence

from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.rollout.collect import Planned
from rosellm.roserlhf.store import EventLog, Ledger, LedgerEntry, State
from rosellm.roserlhf.trajectory import Trajectory


def row_hash(row: Row) -> str:
    """Hash what of a record enters the loss: ids, masks, behaviour log-probabilities and kept support, exclusions apart."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        ids = array("q", row.token_ids).tobytes()
    except OverflowError:  # ids beyond 63 bits are legal
        ids = repr(tuple(row.token_ids)).encode()
    for column in (ids, array("b", row.policy_mask).tobytes(), array("d", row.behaviour_logprobs).tobytes()):
        digest.update(column)
    if row.support is not None:
        digest.update(repr(row.support).encode())
    return digest.hexdigest()


class Account:
    """The ledger entries of one step, written to the log and replayed to prove that they balance."""

    def __init__(self, log: EventLog, step: int) -> None:
        self._log, self._step, self._ledger = log, step, Ledger()
        self._recorded = 0

    def launch(self, planned: Sequence[Planned]) -> None:
        """Say which episodes are about to be played."""
        self._add([LedgerEntry(p.trajectory_id, "launched", step=self._step, group=p.group_id) for p in planned])

    def finish(self, trajectories: Sequence[Trajectory]) -> None:
        """Store the records of the episodes, and how each ended."""
        with self._log.transaction():
            for trajectory in trajectories:
                self._log.append_trajectory(trajectory, step=self._step, phase="train")
            self._add([self._end_of(trajectory) for trajectory in trajectories])

    def place(self, rows: Sequence[Row], rewards: Sequence[float | None]) -> None:
        """Say of every row where its tokens went, then prove that none is missing."""
        self._add([entry for row, reward in zip(rows, rewards, strict=True) for entry in self._places_of(row, reward)])
        self._ledger.balance(recorded={self._step: self._recorded})

    def _end_of(self, trajectory: Trajectory) -> LedgerEntry:
        sampled = trajectory.sampled_tokens
        self._recorded += sampled
        state: State = "finished" if trajectory.is_finished else "failed"
        reason = None if trajectory.failure is None else trajectory.failure.cause
        return LedgerEntry(trajectory.trajectory_id, state, step=self._step, sampled=sampled, reason=reason)

    def _places_of(self, row: Row, reward: float | None) -> list[LedgerEntry]:
        name, step = row.trajectory_id, self._step
        advantage = list(row.advantage) if isinstance(row.advantage, tuple) else row.advantage
        detail = {"reward": reward, "advantage": advantage, "row_hash": row_hash(row)}
        if not row.trained:
            reason = max(row.excluded, key=lambda name: row.excluded[name], default="no sampled token")
            several = row.excluded if len(row.excluded) > 1 else {}  # of one reason the entry need not say how many
            return [LedgerEntry(name, "rejected", step=step, reason=reason, excluded=several, detail=detail)]
        trained = LedgerEntry(name, "trained", step=step, trained=row.trained, excluded=row.excluded, detail=detail)
        return [LedgerEntry(name, "admitted", step=step), trained]

    def _add(self, entries: Sequence[LedgerEntry]) -> None:
        for entry in entries:
            self._ledger.add(entry)
        self._log.append_entries(entries)
