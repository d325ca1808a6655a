"""What a judge is asked and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rosellm.roserlhf.guard.rules import Suspicion
from rosellm.roserlhf.guard.setting import Setting


@dataclass(frozen=True, slots=True)
class Case:
    """A suspicious call as a judge sees it."""

    tool: str
    arguments: Mapping[str, Any]
    history: Sequence[str]
    """Earlier calls and words of the episode as text, oldest first."""
    suspicions: Sequence[Suspicion]
    """Why the rules stopped it; at least one."""
    setting: Setting


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge decided about a case."""

    hack: bool
    reason: str
    rule: str | None = None
    """The rule that the judge found broken; None if it found none broken or names none."""


Judge = Callable[[Case], Awaitable[Verdict]]
"""Decide on a suspicious call; whatever it raises is a failed judgement, which blocks that call."""
