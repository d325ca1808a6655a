"""The seam between an episode and its world: `start → Observation`, `step(action) → StepResult`, `score → named rewards`."""

from __future__ import annotations

from collections.abc import Awaitable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rosellm.roserlhf.environment.tools import ToolSet
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure, ToolCall, ToolResult


@dataclass(frozen=True)
class Task:
    """One problem to be solved; its id is the hash of its content, so equal content is one task wherever it appears.

    The payload is copied deeply and read-only: all members of a group share it, and none can change it for the others.

    Raises:
        RecordError: the payload holds anything but JSON values under string names.
    """

    task_id: str
    """Content hash."""
    payload: Mapping[str, Any]
    """What the environment needs to start; JSON values."""

    def __post_init__(self) -> None:
        plain.name(self.task_id, "task_id")
        if not isinstance(self.payload, plain.FrozenDict):  # which nobody can change
            object.__setattr__(self, "payload", plain.mapping(self.payload, "payload", plain.json_value))


@dataclass(frozen=True)
class Capabilities:
    """What an environment promises."""

    deterministic: bool = True
    """The same task, seed and actions give the same episode."""
    snapshot: bool = False
    """Its state can be saved and restored at any turn: it is a `SnapshotEnvironment`."""
    replayable: bool = True
    """An episode can be replayed from its actions."""
    instant: bool = False
    """Its plain methods return at once, whatever happens: they are called directly, without a thread that could be left behind."""


@dataclass(frozen=True)
class Observation:
    """What the policy is shown next."""

    messages: tuple[Message, ...]


@dataclass(frozen=True)
class StepResult:
    """What one action led to. An episode that goes on has neither flag; one that ended has exactly one."""

    observation: Observation
    results: tuple[ToolResult, ...] = ()
    """Tool results in call order."""
    rewards: Mapping[str, float | None] = field(default_factory=dict)
    """Named reward components of this step; None = not scored."""
    terminated: bool = False
    """The task itself is over: nothing can follow."""
    truncated: bool = False
    """The environment's own limit stopped it; it could have gone on."""
    cause: str | None = None
    """Why it ended."""


class ToolRunner(Protocol):
    """Every tool call passes through it, so that a guard or a sandbox can stand in between. One instance per episode."""

    async def call(self, call: ToolCall, history: Sequence[ToolResult]) -> ToolResult:
        """Execute one call.

        Args:
            call: what the policy asked for.
            history: results of this episode so far, in order.
        """
        ...


class Environment(Protocol):
    """One episode per instance. Methods may be plain or `async`, but for `state_key`.

    They are called one at a time and within time limits: an `async` one on the event loop, a plain one in a thread of the episode,
    so that one that hangs stops nobody else; or directly, if `capabilities` promise that plain ones return at once.
    """

    @property
    def tools(self) -> ToolSet:
        """The tools of the episode."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it promises."""
        ...

    def start(self, task: Task, seed: int) -> Observation | Awaitable[Observation]:
        """Begin the episode and return the first messages; `seed` is this episode's own."""
        ...

    def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult | Awaitable[StepResult]:
        """Take one action of the policy."""
        ...

    def state_key(self) -> Hashable | None:
        """Name the present state, equal exactly when this task would call two states the same; None if it has no such notion."""
        ...

    def score(self) -> Mapping[str, float | None] | Awaitable[Mapping[str, float | None]]:
        """Verify the finished episode: named components, None where nothing could be scored. Never within the agent's reach."""
        ...

    def close(self) -> Awaitable[None] | None:
        """Release what the episode holds; called once, however the episode went."""
        ...


class SnapshotEnvironment(Environment, Protocol):
    """An environment whose capabilities promise snapshots.

    The law: whoever restores a snapshot answers the same actions with the same results, rewards and states as the instance it was
    taken from, however that one went on.
    """

    def snapshot(self) -> bytes:
        """Save the episode as it stands."""
        ...

    def restore(self, snapshot: bytes) -> None:
        """Go on from there."""
        ...
