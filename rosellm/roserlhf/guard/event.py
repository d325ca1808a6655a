"""What a guard did about one call, as a record keeps it: `GuardEvent ↔ JSON text in ToolResult.guard_event`, exact both ways.

| verdict | action | was the call executed | what the policy was shown |
|---|---|---|---|
| cleared | executed | yes | the true result |
| hack, failed | observed | yes | the true result |
| hack, failed | blocked | no | a dummy result |
| hack, failed | told | no | that it was blocked |
| hack | ended | no | nothing: the episode is over |
| hack, failed | refused | no: the tools refuse such a call anyway | their refusal |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, Literal, Self

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.trajectory import ToolResult, Trajectory

VERSION = 1
"""Of the format; a text of another one is refused."""
Outcome = Literal["hack", "cleared", "failed"]
"""What the judge said; `failed`: it gave no verdict, which blocks the call and accuses nobody."""
Action = Literal["executed", "observed", "blocked", "told", "ended", "refused"]
"""What became of the call."""
_STAGES = ("rules", "judge")
_set = object.__setattr__


@dataclass(frozen=True, slots=True)
class GuardEvent:
    """A suspicious call, what was decided and what was done.

    Example:
        >>> from rosellm.roserlhf.guard.event import GuardEvent
        >>> event = GuardEvent("c0", "shell", "hidden", "command", (4, 11), "/eval/x", "hack", "reads a test", "blocked")
        >>> GuardEvent.decode(event.encode()) == event, event.attempt, event.blocked
        (True, True, True)
    """

    call_id: str
    """The call, within its action."""
    tool: str
    """Tool that was called."""
    rule: str
    """Rule that decided: the one that the judge named, else the first that the call met."""
    argument: str
    """Argument of the call that holds the evidence; "" if that is the call as a whole."""
    span: tuple[int, int]
    """Where in the argument's text, [start, end)."""
    evidence: str
    """The text there, shortened."""
    outcome: Outcome
    """What the judge said."""
    reason: str
    """Its reason; of a failure, what went wrong."""
    action: Action
    """What became of the call."""
    _: KW_ONLY
    rules: tuple[str, ...] = ()
    """Every rule that the call met, in order."""
    policy: str = ""
    """Name of the policy in force."""
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Time of each stage, `rules` and `judge`; no part of what was decided, nor of a record's hash."""

    def __post_init__(self) -> None:
        for name in ("call_id", "tool", "rule", "argument", "evidence", "reason", "policy"):
            plain.text(getattr(self, name), name)
        plain.one_of(self.outcome, "outcome", Outcome)
        plain.one_of(self.action, "action", Action)
        _set(self, "span", plain.span(self.span, "span"))
        _set(self, "rules", plain.records(self.rules, "rules", str))
        _set(self, "seconds", plain.mapping(self.seconds, "seconds", plain.real))

    @property
    def attempt(self) -> bool:
        """Whether the judge called it a hack, whatever was done about it."""
        return self.outcome == "hack"

    @property
    def blocked(self) -> bool:
        """Whether the guard kept it from being executed."""
        return self.action in ("blocked", "told", "ended")

    @property
    def latency(self) -> float:
        """Seconds of all stages together."""
        return sum(self.seconds.values())

    @property
    def decision(self) -> str:
        """Everything but the times, as text: what must be the same when it is decided again."""
        return json.dumps(self._values(), sort_keys=True, ensure_ascii=True)

    def encode(self) -> str:
        """Write it as JSON, ASCII only."""
        return json.dumps({**self._values(), "seconds": dict(self.seconds)}, ensure_ascii=True)

    def _values(self) -> dict[str, Any]:
        return {"guard_event": VERSION, **{name: getattr(self, name) for name in _NAMES if name != "seconds"}}

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read it back.

        Raises:
            RecordError: it is no event, or one of another version.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise checks.fail(RecordError, "guard_event", "be JSON", plain.shown(text)) from error
        if not isinstance(values, dict) or values.pop("guard_event", None) != VERSION or values.keys() != set(_NAMES):
            requirement = f"be an object of version {VERSION} with {', '.join(_NAMES)}"
            raise checks.fail(RecordError, "guard_event", requirement, plain.shown(text))
        return cls(**{**values, "span": plain.sequence(values["span"], "span"), "rules": plain.sequence(values["rules"], "rules")})


_NAMES = tuple(one.name for one in fields(GuardEvent))


def event_of(result: ToolResult) -> GuardEvent | None:
    """Return the event about a call; None if there is none, or if another guard wrote it in a format of its own."""
    if result.guard_event is None:
        return None
    try:
        return GuardEvent.decode(result.guard_event)
    except RecordError:
        return None


def events_of(trajectory: Trajectory) -> Iterator[tuple[int, GuardEvent]]:
    """Yield (turn, event) of a record, in order."""
    for transition in trajectory.transitions:
        for result in transition.results:
            if (event := event_of(result)) is not None:
                yield transition.turn, event
