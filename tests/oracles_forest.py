"""Obvious recursion for forests: contexts token by token, rollouts, and where every sampled token ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from rosellm.roserlhf.trajectory import CopySpan, PolicyAction, TokenSpan, Trajectory

Records = Mapping[str, Trajectory]


class Cell(NamedTuple):
    """One token of a context."""

    token: int
    role: str
    content: bool
    policy: bool
    record_id: str
    position: int
    turn: int | None
    version: str | None


def own_row(records: Records, record_id: str) -> list[Cell]:
    """Prompt with its copies written out, action, observation, action, …"""
    record = records[record_id]
    row: list[Cell] = []
    spans: list[tuple[TokenSpan | CopySpan | PolicyAction, int | None]] = [(span, None) for span in record.prompt]
    for i, action in enumerate(record.actions):
        spans.append((action, action.turn))
        if i < len(record.transitions):
            spans += [(span, action.turn) for span in record.transitions[i].observation]
    for span, turn in spans:
        if isinstance(span, CopySpan):
            row += own_row(records, span.record_id)[span.start : span.end]
        elif isinstance(span, PolicyAction):
            for i, token in enumerate(span.token_ids):
                (version,) = [s.version for s in span.version_spans if s.start <= i < s.end]
                row.append(Cell(token, "assistant", True, True, record_id, len(row), turn, version))
        else:
            for i, token in enumerate(span.token_ids):
                content = span.content_mask is None or bool(span.content_mask[i])
                row.append(Cell(token, span.role, content, span.policy, record_id, len(row), turn, None))
    return row


def in_front(records: Records, record_id: str) -> list[Cell]:
    """What stands in front of the record's own row: the walk to the root, or nothing where the prompt is the record's own."""
    parent = records[record_id].parent
    if parent is None or parent.kind not in ("branch", "continuation"):
        return []
    if parent.kind == "continuation":
        return in_front(records, parent.record_id) + own_row(records, parent.record_id)
    return context(records, parent.record_id, parent.turn)


def context(records: Records, record_id: str, turn: int | None = None) -> list[Cell]:
    """Everything in front of the action of `turn`, by default the first."""
    record = records[record_id]
    turns = 0 if turn is None else turn - record.first_turn
    count = sum(s.end - s.start if isinstance(s, CopySpan) else len(s.token_ids) for s in record.prompt)
    for i in range(turns):
        count += len(record.actions[i].token_ids) + sum(len(span.token_ids) for span in record.transitions[i].observation)
    return in_front(records, record_id) + own_row(records, record_id)[:count]


def rollout(records: Records, record_id: str) -> str:
    """Walk up to the nearest root or branch."""
    record = records[record_id]
    return record_id if record.parent is None or record.parent.kind == "branch" else rollout(records, record.parent.record_id)


def tree(records: Records, record_id: str) -> str:
    """Walk up to the root."""
    parent = records[record_id].parent
    return record_id if parent is None else tree(records, parent.record_id)


def has_end(records: Records, record_id: str) -> bool:
    """Whether the episode of which the record is a part comes to an end, or goes on in branches."""
    record = records[record_id]
    for child in records.values():
        link = child.parent
        if link is not None and link.record_id == record_id and link.kind in ("continuation", "compaction", "rewrite"):
            return has_end(records, child.trajectory_id)
    if record.failure is not None or record.ending in ("terminated", "truncated"):
        return True
    end = record.first_turn + len(record.actions)
    return any(
        child.parent is not None and (child.parent.record_id, child.parent.kind, child.parent.turn) == (record_id, "branch", end)
        for child in records.values()
    )


def fates(records: Records) -> dict[str, Counter[str]]:
    """Per record, count its sampled tokens by fate, one at a time."""
    unscored = {rollout(records, name) for name, record in records.items() if record.is_unscored}
    counts: dict[str, Counter[str]] = {}
    for name, record in records.items():
        counts[name] = Counter()
        for action in record.actions:
            for i in range(len(action.token_ids)):
                (span,) = [s for s in action.version_spans if s.start <= i < s.end]
                if span.prefix_cache == "stale":
                    fate = "stale prefix cache"
                elif not record.trainable:
                    fate = "not trainable"
                elif rollout(records, name) in unscored:
                    fate = "unscored"
                elif not has_end(records, rollout(records, name)) or not has_end(records, name):
                    fate = "interrupted"
                else:
                    fate = "trainable"
                counts[name][fate] += 1
    return counts
