"""One trajectory as one row of tokens, every column aligned to `token_ids`, and the account of what is trained.

```
token_ids            <user> What … <end> <assistant> search( lamps ) <end> <tool> 1 7 <end> <assistant> …
policy_mask            0     0       0        0         1      1   1   1      0   0 0   0       0
behaviour_logprobs     0     0       0        0       −0.2   −0.9 −0.0 −0.0   0   0 0   0       0        (0 = nothing stands there)
```
The row ends with the last sampled token: what follows it predicts nothing that could be trained.
The law: `sampled = trained + Σ excluded[reason]` for every row, hence for every step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.record import exclusion
from rosellm.roserlhf.trajectory import CopySpan, PolicyAction, TokenSpan, Trajectory

STALE = exclusion.STALE
"""Tokens sampled over keys and values of an older policy version: no single distribution made them."""


@dataclass(frozen=True)
class Row:
    """A trajectory ready to be padded or packed."""

    trajectory_id: str
    group_id: str | None
    token_ids: tuple[int, ...]
    policy_mask: tuple[bool, ...]
    """True where the policy sampled the token in this record."""
    loss_mask: tuple[bool, ...]
    """`policy_mask` minus exclusions."""
    behaviour_logprobs: tuple[float, ...]
    """As recorded; 0.0 where `policy_mask` is False, where nothing may read it."""
    turns: tuple[int, ...]
    """Turn of each sampled token; −1 elsewhere."""
    excluded: Mapping[str, int] = field(default_factory=dict)
    """Sampled tokens that are not trained, by reason."""
    advantage: float | tuple[float, ...] | None = None
    """Credit of the whole row, or of each of its turns in order; None = none assigned."""
    part_of: str | None = None
    """The rollout, for a row that is not its first; None for the row of a root or a branch."""
    support: tuple[Sequence[int] | None, ...] | None = None
    """Per token, the ids that truncated sampling kept, None for the whole vocabulary; None if nothing in the row was truncated."""

    @property
    def rollout_id(self) -> str:
        """The rollout whose tokens these are, named after its first record."""
        return self.part_of or self.trajectory_id

    @property
    def sampled(self) -> int:
        """Sampled tokens."""
        return sum(self.policy_mask)

    @property
    def trained(self) -> int:
        """Tokens in the loss."""
        return sum(self.loss_mask)

    @property
    def first_turn(self) -> int:
        """Absolute turn that the first entry of `advantage` belongs to: the least sampled one, for every action has a token."""
        return min(turn for turn in self.turns if turn >= 0)

    def advantage_of(self, turn: int) -> float | None:
        """Return the credit of an absolute turn of the row; None if none was assigned."""
        if not isinstance(self.advantage, tuple):
            return self.advantage
        return self.advantage[turn - self.first_turn]

    def token_advantages(self) -> list[float]:
        """Return the credit of every token: that of its turn, 0 where nothing was sampled; all NaN in a row without credit."""
        if self.advantage is None:
            return [math.nan] * len(self.token_ids)
        by_turn = {turn: self.advantage_of(turn) or 0.0 for turn in {*self.turns} if turn >= 0}
        return [by_turn.get(turn, 0.0) for turn in self.turns]


def row_of(trajectory: Trajectory, *, context: Sequence[TokenSpan] | None = None) -> Row:
    """Lay a record out as a row: its context, then what it adds; tokens sampled over a stale prefix cache are excluded.

    Args:
        trajectory: the record.
        context: everything in front of its first action, for a record that does not hold it itself (`Forest.context` gives it as
            `.spans`). Mask 0, whoever sampled it. None: the record's own prompt.

    Raises:
        RecordError: part of the context stands in another record and was not handed in, or `context` is not the record's prompt.
    """
    front = _own_prompt(trajectory) if context is None else _given(trajectory, context)
    ids: list[int] = []
    policy: list[bool] = []
    loss: list[bool] = []
    logprobs: list[float] = []
    turns: list[int] = []
    support: list[Sequence[int] | None] = []
    end = 0
    for span in (*front, *_added(trajectory)):
        count = len(span.token_ids)
        ids += span.token_ids
        if isinstance(span, PolicyAction):
            policy += [True] * count
            loss += [s.prefix_cache == "recomputed" for s in span.version_spans for _ in range(s.start, s.end)]
            logprobs += span.old_logprobs
            turns += [span.turn] * count
            support += span.kept_support or [None] * count
            end = len(ids)
        else:
            policy += [False] * count
            loss += [False] * count
            logprobs += [0.0] * count
            turns += [-1] * count
            support += [None] * count
    stale = sum(policy) - sum(loss)
    return Row(
        trajectory.trajectory_id,
        trajectory.group_id,
        tuple(ids[:end]),
        tuple(policy[:end]),
        tuple(loss[:end]),
        tuple(logprobs[:end]),
        tuple(turns[:end]),
        {STALE: stale} if stale else {},
        support=tuple(support[:end]) if any(kept is not None for kept in support) else None,
    )


def _own_prompt(trajectory: Trajectory) -> list[TokenSpan]:
    if trajectory.parent is not None and not trajectory.prompt:
        got = f"a {trajectory.parent.kind} of {trajectory.parent.record_id!r}"
        raise checks.fail(RecordError, "trajectory", "hold its whole context", got, fix="hand in its context")
    spans = []
    for span in trajectory.prompt:
        if isinstance(span, CopySpan):
            got = f"a copy of {span.record_id!r}"
            raise checks.fail(RecordError, "trajectory", "hold its whole context", got, fix="hand in its context")
        spans.append(span)
    return spans


def _given(trajectory: Trajectory, context: Sequence[TokenSpan]) -> Sequence[TokenSpan]:
    """Require of a record with a prompt that the context agrees with it: the same length, the same ids where it holds ids."""
    if not trajectory.prompt:
        return context
    ids = [token for span in context for token in span.token_ids]
    place = 0
    for span in trajectory.prompt:
        count = span.end - span.start if isinstance(span, CopySpan) else len(span.token_ids)
        if not isinstance(span, CopySpan) and (*ids[place : place + count],) != span.token_ids:
            raise checks.fail(
                RecordError, "context", "hold the prompt's own ids", f"others at positions [{place}, {place + count})"
            )
        place += count
    if place != len(ids):
        raise checks.fail(RecordError, "context", f"hold the {place} tokens of the prompt", len(ids))
    return context


def _added(trajectory: Trajectory) -> Iterator[TokenSpan | PolicyAction]:
    for i, action in enumerate(trajectory.actions):
        yield action
        if i < len(trajectory.transitions):
            yield from trajectory.transitions[i].observation


def exclude(row: Row, reason: str) -> Row:
    """Take every token of a row out of the loss and book it under one reason; what is excluded already keeps its own."""
    counted = {**row.excluded, reason: row.excluded.get(reason, 0) + row.trained} if row.trained else row.excluded
    return replace(row, loss_mask=(False,) * len(row.loss_mask), excluded=counted)


def exclude_at(row: Row, places: Sequence[int], reason: str) -> Row:
    """Take some tokens of a row out of the loss and book them under one reason; what is excluded already keeps its own.

    Args:
        row: the row.
        places: positions in it; those that are in no loss anyway change nothing.
        reason: why, in a few stable words.
    """
    taken = {place for place in places if row.loss_mask[place]}
    if not taken:
        return row
    counted = {**row.excluded, reason: row.excluded.get(reason, 0) + len(taken)}
    kept = tuple(trained and place not in taken for place, trained in enumerate(row.loss_mask))
    return replace(row, loss_mask=kept, excluded=counted)
