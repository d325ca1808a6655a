"""The account of one training step: `launched → finished | failed → admitted → trained, or rejected`, written down and balanced.

An attempt is an episode, whatever the number of its records: it is named after its root, and its tokens are those of all of them.
With its end stand the numbers that decided its part in the loss: total reward, advantage (a list where turns have their own), and
a hash of the tokens and behaviour log-probabilities of its row (a list where it has several). A record that is changed afterwards
no longer has this hash.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rosellm.roserlhf.batching.rollout import Rollout, rollouts_of
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


def hash_of(rows: Sequence[Row]) -> str | tuple[str, ...]:
    """Hash the rows of one episode: one hash, or one for each of its records in order."""
    hashes = tuple(map(row_hash, rows))
    return hashes[0] if len(hashes) == 1 else hashes


def advantage_of(rows: Sequence[Row]) -> float | tuple[float, ...] | None:
    """Join the advantages of one episode's rows: the one that all of them have, or one for each turn."""
    parts = [row.advantage if isinstance(row.advantage, tuple) else None for row in rows]
    return rows[0].advantage if None in parts else tuple(value for part in parts if part is not None for value in part)


def kept(value: Any) -> Any:
    """Write a tuple as the list that the ledger gives back."""
    return list(value) if isinstance(value, tuple) else value


class Account:
    """The ledger entries of one step, written to the log and replayed to prove that they balance."""

    def __init__(self, log: EventLog, step: int) -> None:
        self._log, self._step, self._ledger = log, step, Ledger()
        self._recorded = 0

    def launch(self, planned: Sequence[Planned]) -> None:
        """Say which episodes are about to be played."""
        self._add([LedgerEntry(p.trajectory_id, "launched", step=self._step, group=p.group_id) for p in planned])

    def finish(self, records: Sequence[Trajectory]) -> None:
        """Store the records of the episodes, and how each ended."""
        with self._log.transaction():
            for record in records:
                self._log.append_trajectory(record, step=self._step, phase="train")
                self._recorded += record.sampled_tokens
            self._add([self._end_of(rollout) for rollout in rollouts_of(records)])

    def place(self, rows: Sequence[Row], rewards: Sequence[float | None]) -> None:
        """Say of every episode where its tokens went, then prove that none is missing.

        Args:
            rows: those of one episode follow each other.
            rewards: one for each episode, in the same order.
        """
        episodes = [list(parts) for _, parts in groupby(rows, key=lambda row: row.rollout_id)]
        self._add([entry for parts, reward in zip(episodes, rewards, strict=True) for entry in self._places_of(parts, reward)])
        self._ledger.balance(recorded={self._step: self._recorded})

    def _end_of(self, rollout: Rollout) -> LedgerEntry:
        state: State = "finished" if rollout.failure is None else "failed"
        reason = None if rollout.failure is None else rollout.failure.cause
        return LedgerEntry(rollout.trajectory_id, state, step=self._step, sampled=rollout.sampled_tokens, reason=reason)

    def _places_of(self, rows: Sequence[Row], reward: float | None) -> list[LedgerEntry]:
        name, step = rows[0].rollout_id, self._step
        detail = {"reward": reward, "advantage": kept(advantage_of(rows)), "row_hash": kept(hash_of(rows))}
        excluded: Counter[str] = Counter()
        for row in rows:
            excluded.update(row.excluded)
        trained = sum(row.trained for row in rows)
        if not trained:
            reason = max(excluded, key=lambda name: excluded[name], default="no sampled token")
            several = excluded if len(excluded) > 1 else {}  # of one reason the entry need not say how many
            return [LedgerEntry(name, "rejected", step=step, reason=reason, excluded=several, detail=detail)]
        end = LedgerEntry(name, "trained", step=step, trained=trained, excluded=excluded, detail=detail)
        return [LedgerEntry(name, "admitted", step=step), end]

    def _add(self, entries: Sequence[LedgerEntry]) -> None:
        for entry in entries:
            self._ledger.add(entry)
        self._log.append_entries(entries)
