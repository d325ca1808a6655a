"""The shortest legal parts of a record, for tests that change one thing about them."""

from __future__ import annotations

from typing import Any

from rosellm.roserlhf.trajectory import (
    ParentLink,
    PolicyAction,
    TokenSpan,
    Trajectory,
)


def action(turn: int = 0, version: str = "v1", **fields: Any) -> PolicyAction:
    return PolicyAction(turn, [11, 12, 2], [-0.1, -0.5, -0.01], version, "hi", **fields)


def record(**fields: Any) -> Trajectory:
    return Trajectory("run/0/task-1/0", "task-1", "shop-1", "tok-1", **fields)


def child(kind: Any, turn: int = 3, **fields: Any) -> Trajectory:
    return record(parent=ParentLink("parent", turn, kind), **fields)


PROMPT = [TokenSpan([1, 2, 3], "user", [False, True, False])]
SHOWN = [TokenSpan([4, 5], "tool", [True, False])]
