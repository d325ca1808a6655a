"""Rows of tokens as columns: `packed records -> arrays over all their tokens, aligned with each other`.

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
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store.export.columns import Opened

POLICY_ROLE = "assistant"
"""Role of the tokens that the policy sampled."""

_WIDEST = 2**31 - 1
Array = npt.NDArray[Any]


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


class TokenRows:
    """Rows of tokens on their way into columns.

    Stretches of tokens that stand together are kept in three flat lists: a tuple each would keep the garbage collector busy.
    """

    def __init__(self) -> None:
        """Hold no row."""
        self._lengths: list[int] = []
        self._turns: list[int] = []
        """-1 before the first action."""
        self._roles: list[str | None] = []
        """None where the policy sampled them."""
        self._ids: list[array[int]] = []
        self._logprobs: list[array[float]] = []

    def add(self, record: Opened) -> None:
        """Add the row of a record.

        Raises:
            StoreError: its skeleton counts other tokens than its arrays hold.
        """
        fields, first, sampled = record.fields, len(self._lengths), 0
        self._context(fields.prompt, -1)
        for action, transition in zip_longest(fields.actions, fields.transitions):
            turn = action.turn if action.turn <= _WIDEST else -1
            sampled += action.token_ids
            self._lengths.append(action.token_ids)
            self._turns.append(turn)
            self._roles.append(None)
            if transition is not None:
                self._context(transition.observation, turn)
        counted, packed = (sum(self._lengths[first:]), sampled), record.packed
        if counted != (len(packed.token_ids), len(packed.logprobs)):
            name = record.summary.trajectory_id
            held = f"{len(packed.token_ids)} ids and {len(packed.logprobs)} log-probabilities"
            raise StoreError(f"stored record {name!r:.200} must hold the {counted} tokens its skeleton counts, got {held}")
        self._ids.append(packed.token_ids)
        self._logprobs.append(packed.logprobs)

    def _context(self, spans: Sequence[Any], turn: int) -> None:
        for span in spans:
            if type(span.token_ids) is int:  # a copy's tokens stand in the row of another record
                self._lengths.append(span.token_ids)
                self._turns.append(turn)
                self._roles.append(span.role)

    def columns(self) -> TokenColumns:
        """Lay the rows one after the other."""
        codes = {role: code for code, role in enumerate(dict.fromkeys(self._roles))}
        counts = np.array(self._lengths, np.int64)
        policy_mask = np.repeat(np.array([role is None for role in self._roles], bool), counts)
        logprobs = np.zeros(len(policy_mask), np.float64)
        logprobs[policy_mask] = _joined(self._logprobs, np.float64)
        return TokenColumns(
            np.cumsum([0, *map(len, self._ids)]).astype(np.int32),
            _joined(self._ids, np.int64),
            policy_mask,
            np.repeat(np.array(self._turns, np.int32), counts),
            np.repeat(np.array([codes[role] for role in self._roles], np.int32), counts),
            [POLICY_ROLE if role is None else role for role in codes],
            logprobs,
        )


def _joined(parts: Sequence[array[Any]], dtype: Any) -> Array:
    views = [np.frombuffer(part, part.typecode) for part in parts if part]
    return np.concatenate(views, dtype=dtype) if views else np.zeros(0, dtype)
