"""What the guard did in a record, on the tokens of its calls: `Trajectory, tokens → GuardStory` for every event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rosellm.roserlhf.audit.explanation.token_story import TokenStory
from rosellm.roserlhf.guard.event import GuardEvent
from rosellm.roserlhf.guard.token_spans import event_spans
from rosellm.roserlhf.trajectory import Trajectory


@dataclass(frozen=True)
class GuardStory:
    """One event."""

    turn: int
    """Turn of the call."""
    first: int
    """Position in the row of the call's first token."""
    end: int
    """One behind its last."""
    event: GuardEvent
    """What was decided and done."""

    @property
    def words(self) -> str:
        """Say it in a sentence."""
        return f"turn {self.turn}, call {self.event.call_id} of {self.event.tool}: {self.event.words}."


def guard_stories(trajectory: Trajectory, tokens: Sequence[TokenStory]) -> tuple[GuardStory, ...]:
    """Tell the guard's events of a record.

    Args:
        trajectory: the record.
        tokens: of its row, all of them.
    """
    firsts: dict[int, int] = {}
    for token in tokens:
        if token.sampled and token.turn is not None:
            firsts.setdefault(token.turn, token.position)
    return tuple(
        GuardStory(span.turn, firsts[span.turn] + span.start, firsts[span.turn] + span.end, span.event)
        for span in event_spans(trajectory)
        if span.turn in firsts
    )


def with_events(tokens: Sequence[TokenStory], stories: Sequence[GuardStory]) -> tuple[TokenStory, ...]:
    """Put every event on the tokens of its call."""
    said = {place: story.event.words for story in stories for place in range(story.first, story.end)}
    return tuple(replace(token, guard=said.get(token.position)) for token in tokens)


def sentences(stories: Sequence[GuardStory]) -> list[str]:
    """Say in the story's own words what the guard did."""
    if not stories:
        return []
    blocked = sum(story.event.blocked for story in stories)
    confirmed = sum(story.event.attempt for story in stories)
    calls = "1 call" if len(stories) == 1 else f"{len(stories)} calls"
    return [f"The guard looked twice at {calls}: {confirmed} confirmed as a hack, {blocked} not executed."]
