"""A record at a glance: `Packed -> one value for each readable column of an export`, without building the record."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from rosellm.roserlhf.store.encoding import Packed
from rosellm.roserlhf.store.export.glance import glance
from rosellm.roserlhf.store.export.outcomes import Outcome
from rosellm.roserlhf.store.rows import PackedTrajectory, TrajectorySummary

READABLE: dict[str, str] = {
    "trajectory_id": "text",
    "run_id": "text",
    "step": "count",
    "phase": "text",
    "superseded": "flag",
    "task_id": "text",
    "group_id": "text",
    "member": "count",
    "attempt": "count",
    "parent_id": "text",
    "parent_turn": "count",
    "parent_kind": "text",
    "environment_version": "text",
    "tokenizer_hash": "text",
    "policy_name": "text",
    "trainable": "flag",
    "policy_versions": "names",
    "ending": "text",
    "unscored": "flag",
    "blame": "text",
    "cause": "text",
    "reward_sum": "number",
    "rewards": "rewards",
    "turn_rewards": "turn_rewards",
    "ledger_state": "text",
    "ledger_reason": "text",
    "trained_tokens": "count",
    "excluded_tokens": "tokens",
    "advantage": "number",
    "turns": "count",
    "row_tokens": "count",
    "sampled_tokens": "count",
}
"""Columns that say what a record is, in order, and the kind of their values."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A packed record and its skeleton, read."""

    summary: TrajectorySummary
    packed: Packed
    fields: Any
    """Of the skeleton, as attributes."""
    digest: bytes
    """SHA-256 of the bytes of `packed`."""


def opened(stored: PackedTrajectory) -> Opened:
    """Read a record's skeleton; one of an older schema is brought to the present one first.

    Raises:
        StoreError: the skeleton is none.
    """
    packed, fields = glance(stored.packed)
    digest = stored.summary.digest if packed is stored.packed else sha256(packed.to_bytes()).digest()
    return Opened(stored.summary, packed, fields, digest)


def readable(record: Opened, outcome: Outcome | None) -> tuple[Any, ...]:
    """Return the values of `READABLE`.

    Args:
        record: the record.
        outcome: what the ledger says of it; None if nothing.
    """
    fields, summary = record.fields, record.summary
    blamed = [fields.failure] if fields.failure else [(t.blame, t.cause) for t in fields.transitions if t.cause is not None]
    blame, cause = blamed[-1] if blamed else (None, None)
    totals = summary.rewards
    scored = bool(totals) and not summary.unscored and None not in totals.values()
    ended = outcome if outcome is not None else Outcome()
    return (
        *(summary.trajectory_id, fields.run_id, summary.step, summary.phase, summary.superseded),
        *(summary.task_id, summary.group_id, fields.member, fields.attempt, *(fields.parent or (None, None, None))),
        *(fields.environment_version, fields.tokenizer_hash, fields.policy_name, fields.trainable, summary.policy_versions),
        *(summary.ending, summary.unscored, blame, cause),
        *(sum(totals.values()) if scored else None, list(totals.items())),  # type: ignore[arg-type]
        [(t.turn, *item) for t in fields.transitions for item in t.reward_components.items()],
        *(ended.state, ended.reason, ended.trained, list(ended.excluded.items()), ended.advantage),
        *(len(fields.actions), len(record.packed.token_ids), summary.sampled_tokens),
    )
