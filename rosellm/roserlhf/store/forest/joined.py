"""Actions as the environment answered them: `halves in several records -> one action`.

A generation that was cut and continued stands in two records or more; its reward belongs to all of its tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain

from rosellm.roserlhf.trajectory import PolicyAction, Trajectory, TransitionRecord, VersionSpan


@dataclass(frozen=True, slots=True)
class JoinedAction:
    """One whole action."""

    turn: int
    """Absolute turn."""
    record_ids: tuple[str, ...]
    """The record of each part."""
    parts: tuple[PolicyAction, ...]
    """What each of those records holds, in order; one part where nothing was cut."""
    transition: TransitionRecord | None
    """What the environment answered; None while the action is still cut."""

    @property
    def token_ids(self) -> tuple[int, ...]:
        """All sampled ids."""
        return tuple(chain.from_iterable(part.token_ids for part in self.parts))

    @property
    def behaviour_logprobs(self) -> tuple[float, ...]:
        """Behaviour log-probability of each id."""
        return tuple(chain.from_iterable(part.old_logprobs for part in self.parts))

    @property
    def version_spans(self) -> tuple[VersionSpan, ...]:
        """Spans that tile all ids."""
        spans: list[VersionSpan] = []
        offset = 0
        for part in self.parts:
            spans += [replace(s, start=s.start + offset, end=s.end + offset) for s in part.version_spans]
            offset += len(part.token_ids)
        return tuple(spans)


def join(records: Iterable[Trajectory]) -> tuple[JoinedAction, ...]:
    """Join the cut actions of records that go on with each other, in order.

    Args:
        records: of one episode, first to last, as `Forest.segments` gives them.
    """
    found: list[tuple[list[str], list[PolicyAction], TransitionRecord | None]] = []
    for record in records:
        for i, action in enumerate(record.actions):
            answer = record.transitions[i] if i < len(record.transitions) else None
            ids, parts, _ = found.pop() if action.continues_action and found else ([], [], None)
            found.append(([*ids, record.trajectory_id], [*parts, action], answer))
    return tuple(JoinedAction(parts[0].turn, tuple(ids), tuple(parts), answer) for ids, parts, answer in found)
