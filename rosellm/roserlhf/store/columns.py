"""Records as columns: `Packed -> what can be read at a glance + arrays over its row of tokens`, without building a record.

```
                     <user> What … <end>   search( lamps ) <end>   <tool> 1 7 <end>   …
token_ids              31     7  …   2        40     41      2        33  5 6   2     …
role                  user  user … user   assistant  …  assistant   tool  …   tool    …
turn                    –     –  …   –         0      0      0         0  0 0   0     …
policy_mask             0     0  …   0         1      1      1         0  0 0   0     …
behaviour_logprobs      –     –  …   –       −0.2   −0.9   −0.0        –  – –   –     …       – = null, nothing stands there
```
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store.encoding import Packed
from rosellm.roserlhf.store.glance import glance
from rosellm.roserlhf.store.outcomes import Outcome
from rosellm.roserlhf.store.rows import PackedTrajectory, TrajectorySummary

POLICY_ROLE = "assistant"
"""Role of the tokens that the policy sampled."""

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

_WIDEST = 2**31 - 1
Array = npt.NDArray[Any]


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


@dataclass(frozen=True, slots=True)
class TokenColumns:
    """The rows of tokens of several records, one after the other; every array but `offsets` has one entry per token."""

    offsets: Array
    """int32 `[records + 1]`: row i is `[offsets[i], offsets[i + 1])`."""
    token_ids: Array
    """int64; -1 stands for an id of 64 bits or more."""
    policy_mask: Array
    """bool: sampled by the policy."""
    turn: Array
    """int32: turn of the action, or of the action that an observation answers; -1 where there is none, or no such number."""
    role: Array
    """int32: index into `roles`."""
    roles: Sequence[str]
    """Names of the roles."""
    behaviour_logprobs: Array
    """float64: as recorded; 0 where `policy_mask` is False, where nothing stands."""


def token_columns(records: Sequence[Opened]) -> TokenColumns:
    """Lay the rows of tokens of several records one after the other.

    Raises:
        StoreError: a skeleton counts other tokens than its arrays hold.
    """
    runs = _Runs()
    for record in records:
        runs.add(record)
    lengths, turns, roles = runs.lengths, runs.turns, runs.roles
    codes = {role: code for code, role in enumerate(dict.fromkeys(roles))}
    counts = np.array(lengths, np.int64)
    policy_mask = np.repeat(np.array([role is None for role in roles], bool), counts)
    token_ids = _joined([record.packed.token_ids for record in records], np.int64)
    logprobs = np.zeros(len(token_ids), np.float64)
    logprobs[policy_mask] = _joined([record.packed.logprobs for record in records], np.float64)
    ends = np.cumsum([0, *(len(record.packed.token_ids) for record in records)])
    return TokenColumns(
        ends.astype(np.int32),
        token_ids,
        policy_mask,
        np.repeat(np.array(turns, np.int32), counts),
        np.repeat(np.array([codes[role] for role in roles], np.int32), counts),
        [POLICY_ROLE if role is None else role for role in codes],
        logprobs,
    )


class _Runs:
    """Stretches of tokens that stand together; three flat lists, because a tuple each would keep the garbage collector busy."""

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.turns: list[int] = []
        """-1 before the first action."""
        self.roles: list[str | None] = []
        """None where the policy sampled them."""

    def add(self, record: Opened) -> None:
        fields, first, sampled = record.fields, len(self.lengths), 0
        self._context(fields.prompt, -1)
        for action, transition in zip_longest(fields.actions, fields.transitions):
            turn = action.turn if action.turn <= _WIDEST else -1
            sampled += action.token_ids
            self.lengths.append(action.token_ids)
            self.turns.append(turn)
            self.roles.append(None)
            if transition is not None:
                self._context(transition.observation, turn)
        counted, packed = (sum(self.lengths[first:]), sampled), record.packed
        if counted != (len(packed.token_ids), len(packed.logprobs)):
            name = record.summary.trajectory_id
            held = f"{len(packed.token_ids)} ids and {len(packed.logprobs)} log-probabilities"
            raise StoreError(f"stored record {name!r:.200} must hold the {counted} tokens its skeleton counts, got {held}")

    def _context(self, spans: Sequence[Any], turn: int) -> None:
        for span in spans:
            if type(span.token_ids) is int:  # a copy's tokens stand in the row of another record
                self.lengths.append(span.token_ids)
                self.turns.append(turn)
                self.roles.append(span.role)


def _joined(parts: Sequence[array[Any]], dtype: Any) -> Array:
    views = [np.frombuffer(part, part.typecode) for part in parts if part]
    return np.concatenate(views, dtype=dtype) if views else np.zeros(0, dtype)
