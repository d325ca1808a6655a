"""What the environment answered: `results + observation ids + named rewards + ending -> TransitionRecord`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.record.calls import ToolResult
from rosellm.roserlhf.record.spans import TokenSpan

Blame = Literal["policy", "environment", "infrastructure"]
"""Who caused a failure. Only `infrastructure` makes a rollout unscored."""
Ending = Literal["terminated", "truncated", "handed_off", "interrupted"]
"""How a record ends; `None` while it is open. An interrupted record is not finished: a continuation child goes on."""

_set = object.__setattr__


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an episode broke off without a transition that could say so."""

    blame: Blame
    """Who caused it."""
    cause: str
    """What happened, in a few stable words (they are counted)."""

    def __post_init__(self) -> None:
        plain.one_of(self.blame, "blame", Blame)
        plain.name(self.cause, "cause")


@dataclass(frozen=True, slots=True)
class TransitionRecord:
    """What the environment answered to one action.

    At most one of `terminated`, `truncated`, `handed_off`; none while the episode goes on.
    """

    turn: int
    """Turn of the action it answers."""
    observation_ref: str | None
    """Where the raw observation is kept; None if nowhere."""
    reward_components: Mapping[str, float | None] = plain.EMPTY
    """Named rewards and penalties of this turn; None means not scored, which is not 0."""
    terminated: bool = False
    """The task ended: nothing follows, value 0."""
    truncated: bool = False
    """A limit ended the episode: the value of the last observation may stand for the rest."""
    state_hash: str | None = None
    """Hash of the state after the action."""
    _: KW_ONLY
    results: Sequence[ToolResult] = ()
    """Tool results in the order of the calls."""
    observation: Sequence[TokenSpan] = ()
    """Exact ids of the observation, generation prompt included; present iff another action follows or the end is truncated."""
    handed_off: bool = False
    """The episode goes on in a child with a prompt of its own: no terminal and no bootstrap here."""
    cause: str | None = None
    """Why the episode ended or the turn failed, in a few stable words (they are counted)."""
    blame: Blame | None = None
    """Who caused a failure; needs a `cause`."""
    timing: Mapping[str, float] = plain.EMPTY
    """Seconds (or integer nanoseconds) by name; not part of the content hash."""

    def __post_init__(self) -> None:
        _set(self, "turn", plain.natural(self.turn, "turn"))
        plain.optional(plain.text, observation_ref=self.observation_ref, state_hash=self.state_hash)
        _set(self, "reward_components", plain.mapping(self.reward_components, "reward_components", plain.reward))
        ends = [name for name in ("terminated", "truncated", "handed_off") if plain.flag(getattr(self, name), name)]
        if len(ends) > 1:
            raise fail(RecordError, f"turn {self.turn}", "end in at most one way", " and ".join(ends))
        _set(self, "results", plain.records(self.results, "results", ToolResult))
        _set(self, "observation", plain.records(self.observation, "observation", TokenSpan))
        if self.observation and (self.terminated or self.handed_off):
            raise fail(RecordError, "observation", f"be empty at a {ends[0]} end", f"{len(self.observation)} span(s)")
        plain.optional(plain.name, cause=self.cause)
        if self.blame is not None:
            plain.one_of(self.blame, "blame", Blame)
            if self.cause is None:
                raise fail(RecordError, "cause", f"be given with blame {self.blame!r}", None)
        _set(self, "timing", plain.mapping(self.timing, "timing", plain.seconds))

    @property
    def ending(self) -> Ending | None:
        """How the episode ended here; None if it goes on."""
        return "terminated" if self.terminated else "truncated" if self.truncated else "handed_off" if self.handed_off else None


@dataclass(frozen=True, slots=True)
class ScoreRecord:
    """Rewards given after the fact (late, judged, scored again); the trajectory itself stays as it is."""

    trajectory_id: str
    """The record it scores."""
    turn: int
    """The turn it scores."""
    components: Mapping[str, float | None]
    """Named rewards; None means the scorer gave none."""
    scorer_hash: str
    """Hash of the scorer, its prompt and its parameters."""

    def __post_init__(self) -> None:
        plain.name(self.trajectory_id, "trajectory_id")
        plain.name(self.scorer_hash, "scorer_hash")
        _set(self, "turn", plain.natural(self.turn, "turn"))
        _set(self, "components", plain.mapping(self.components, "components", plain.reward))
