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

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store.encoding import Packed, pack_record, unpack, unpack_record
from rosellm.roserlhf.store.outcomes import Outcome
from rosellm.roserlhf.store.rows import PackedTrajectory, TrajectorySummary
from rosellm.roserlhf.store.skeleton import FIELDS, Fields
from rosellm.roserlhf.trajectory import SCHEMA_VERSION, PolicyAction, Trajectory, TransitionRecord

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

_WIDEST = 2**63 - 1
Array = npt.NDArray[Any]

_ACTION = {name: i for i, name in enumerate(FIELDS[PolicyAction])}
_TRANSITION = {name: i for i, name in enumerate(FIELDS[TransitionRecord])}
_TURN, _ANSWERED, _REWARDS = _ACTION["turn"], _TRANSITION["turn"], _TRANSITION["reward_components"]
_BLAME, _CAUSE = _TRANSITION["blame"], _TRANSITION["cause"]


@dataclass(frozen=True, slots=True)
class Opened:
    """A packed record and its skeleton, read."""

    summary: TrajectorySummary
    packed: Packed
    fields: Mapping[str, Any]
    """By the names of `Trajectory`'s fields, nested as in the skeleton."""
    digest: bytes
    """Of `packed`."""


def opened(stored: PackedTrajectory) -> Opened:
    """Read a record's skeleton; one of an older schema is brought to the present one first.

    Raises:
        StoreError: the skeleton is none.
    """
    packed = stored.packed
    found = unpack(packed.skeleton)
    if isinstance(found, list) and len(found) == 3 and found[0] != SCHEMA_VERSION:
        packed = pack_record(unpack_record(packed))
        found = unpack(packed.skeleton)
    if not isinstance(found, list) or len(found) != 3 or not isinstance(found[1], list) or len(found[1]) < 3:
        raise StoreError(f"a stored skeleton must hold fields, got {type(found).__name__}")
    return Opened(stored.summary, packed, dict(zip(FIELDS[Trajectory], found[1], strict=False)), record_digest(packed))


def record_digest(packed: Packed) -> bytes:
    """Hash a record's parts (SHA-256); unlike the hash of its bytes in a log, it does not depend on how those are compressed."""
    sizes = f"{len(packed.skeleton)} {packed.token_ids.typecode}{len(packed.token_ids)} {packed.logprobs.typecode} "
    digest = hashlib.sha256(sizes.encode())
    for part in (packed.skeleton, packed.token_ids, packed.logprobs):
        digest.update(part)
    return digest.digest()


def readable(record: Opened, outcome: Outcome | None) -> tuple[Any, ...]:
    """Return the values of `READABLE`.

    Args:
        record: the record.
        outcome: what the ledger says of it; None if nothing.
    """
    get, summary = record.fields.get, record.summary
    parent, failure = get("parent") or (None, None, None), get("failure")
    transitions = record.fields["transitions"]
    blamed = [failure] if failure else [(t[_BLAME], t[_CAUSE]) for t in transitions if t[_CAUSE] is not None]
    blame, cause = blamed[-1] if blamed else (None, None)
    totals = summary.rewards
    scored = bool(totals) and not summary.unscored and None not in totals.values()
    ended = outcome if outcome is not None else Outcome()
    return (
        *(summary.trajectory_id, get("run_id"), summary.step, summary.phase, summary.superseded),
        *(summary.task_id, summary.group_id, get("member"), get("attempt", 0), *parent),
        *(get("environment_version"), get("tokenizer_hash"), get("policy_name"), get("trainable", True), summary.policy_versions),
        *(summary.ending, summary.unscored, blame, cause),
        *(sum(totals.values()) if scored else None, list(totals.items())),  # type: ignore[arg-type]
        [(t[_ANSWERED], *item) for t in transitions for item in t[_REWARDS].items()],
        *(ended.state, ended.reason, ended.trained, list(ended.excluded.items()), ended.advantage),
        *(len(record.fields["actions"]), len(record.packed.token_ids), summary.sampled_tokens),
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
    """int64: turn of the action, or of the action that an observation answers; -1 where there is none."""
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
    lengths = np.array(runs.lengths, np.int64)
    policy_mask = np.repeat(np.array(runs.sampled, bool), lengths)
    token_ids = _joined([record.packed.token_ids for record in records], np.int64)
    logprobs = np.zeros(len(token_ids), np.float64)
    logprobs[policy_mask] = _joined([record.packed.logprobs for record in records], np.float64)
    ends = np.cumsum([len(record.packed.token_ids) for record in records], dtype=np.int64)
    return TokenColumns(
        np.concatenate(([0], ends)).astype(np.int32),
        token_ids,
        policy_mask,
        np.repeat(np.array(runs.turns, np.int64), lengths),
        np.repeat(np.array(runs.roles, np.int32), lengths),
        list(runs.codes),
        logprobs,
    )


class _Runs:
    """Stretches of tokens that share a role, a turn and whether they were sampled."""

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.roles: list[int] = []
        self.turns: list[int] = []
        self.sampled: list[bool] = []
        self.codes: dict[str, int] = {}

    def add(self, record: Opened) -> None:
        first = len(self.lengths)
        self._context(record.fields["prompt"], -1)
        sampled = 0
        for action, transition in zip_longest(record.fields["actions"], record.fields["transitions"]):
            turn = action[_TURN] if action[_TURN] <= _WIDEST else -1
            self._run(action[0], POLICY_ROLE, turn, sampled=True)
            sampled += action[0]
            if transition is not None:
                self._context(transition[0], turn)
        counted, packed = (sum(self.lengths[first:]), sampled), record.packed
        if counted != (len(packed.token_ids), len(packed.logprobs)):
            held = f"{len(packed.token_ids)} ids and {len(packed.logprobs)} log-probabilities"
            name = record.summary.trajectory_id
            raise StoreError(f"stored record {name!r:.200} must hold the {counted} tokens its skeleton counts, got {held}")

    def _context(self, spans: Sequence[Fields], turn: int) -> None:
        for span in spans:
            if not isinstance(span[0], str):  # what is copied from another record stands in that one's row
                self._run(span[0], span[1], turn, sampled=False)

    def _run(self, length: int, role: str, turn: int, *, sampled: bool) -> None:
        self.lengths.append(length)
        self.roles.append(self.codes.setdefault(role, len(self.codes)))
        self.turns.append(turn)
        self.sampled.append(sampled)


def _joined(parts: Sequence[array[Any]], dtype: Any) -> Array:
    views = [np.frombuffer(part, part.typecode) for part in parts if part]
    return np.concatenate(views, dtype=dtype) if views else np.zeros(0, dtype)
