"""Rules select suspicious acts."""

from __future__ import annotations

from dataclasses import dataclass

from rosellm.roserlhf.guard.act import Act


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A rule that an act of a call met."""

    rule: str
    """The rule's id."""
    reason: str
    """Why such an act is suspicious, from the rule."""
    act: Act
    """What met it; its `argument` and `span` are the evidence."""
