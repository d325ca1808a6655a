"""Where the guard's events lie in a record: `Trajectory → (turn, positions in the action's tokens, event)`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rosellm.roserlhf.guard.event import GuardEvent, event_of
from rosellm.roserlhf.trajectory import ParsedAction, PolicyAction, Trajectory


@dataclass(frozen=True, slots=True)
class EventSpan:
    """An event on the tokens of its call."""

    turn: int
    """Absolute turn of the action."""
    start: int
    """First token of the call within the action."""
    end: int
    """One behind its last; call and action are the same where the parser did not say which tokens a call is."""
    event: GuardEvent


def event_spans(trajectory: Trajectory) -> Iterator[EventSpan]:
    """Yield the events of a record, in order, each with the tokens of its call.

    Example:
        >>> from rosellm.roserlhf.guard.event import GuardEvent
        >>> from rosellm.roserlhf.guard.token_spans import event_spans
        >>> event = GuardEvent("c0", "shell", "hidden", "command", (4, 11), "/eval/x", "hack", "reads a test", "blocked")
        >>> said = ParsedAction(calls=[ToolCall("c0", "shell", {"command": "cat /eval/x"}, span=(1, 4))])
        >>> action = PolicyAction(0, [5, 6, 7, 8, 2], [-0.1] * 5, "v1", "", said)
        >>> result = ToolResult("c0", "blocked", "", "guard", guard_event=event.encode())
        >>> end = TransitionRecord(0, None, terminated=True, results=[result])
        >>> episode = Trajectory("t", "task", "env", "tok", [action], [end])
        >>> [(one.turn, one.start, one.end, one.event.rule) for one in event_spans(episode)]
        [(0, 1, 4, 'hidden')]
    """
    for action, transition in zip(trajectory.actions, trajectory.transitions, strict=False):
        for result in transition.results:
            if (event := event_of(result)) is not None:
                yield EventSpan(action.turn, *_tokens(action, result.call_id), event)


def _tokens(action: PolicyAction, call_id: str) -> tuple[int, int]:
    calls = action.parsed_action.calls if isinstance(action.parsed_action, ParsedAction) else ()
    span = next((call.span for call in calls if call.call_id == call_id), None)
    return (0, len(action.token_ids)) if span is None else span
