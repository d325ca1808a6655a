"""An environment from a class of one's own: mark methods as tools, say how a task is made, worded and scored.

`ToolEnvironment` supplies the rest of the `Environment` protocol: it routes parsed calls to the tools, turns every mistake of the
policy into an observation that says what was wrong, and lets the caller's `ToolRunner` stand between call and tool.
"""

from __future__ import annotations

import hashlib
import json
import random
from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Mapping, Sequence
from typing import Any, ClassVar

from rosellm.roserlhf.environment.protocol import Capabilities, Observation, StepResult, Task, ToolRunner
from rosellm.roserlhf.environment.tools import ToolSet, tools_of
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure, ToolCall, ToolResult

Script = Generator[str, str, None]
"""A scripted episode: yields what the assistant writes, is sent the observation that came back."""


class ToolEnvironment(ABC):
    """Base class of environments whose actions are tool calls.

    A subclass gives `make_task`, `prompt`, `score`, its `@tool` methods, and, to be learnt from scratch by the built-in small
    model, `vocabulary` and `demonstrate`. A tool that ends the episode calls `self.finish()`.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()
    version: ClassVar[str] = "1"
    """Raise it when the meaning of a task or a reward changes; it is recorded with every trajectory."""
    vocabulary: ClassVar[Sequence[str]] = ()
    """Pieces of text that the built-in tokenizer keeps whole; every other character is a token of its own."""
    reward_weights: ClassVar[Mapping[str, float]] = {"correct": 1.0}
    """What training maximises: the weighted sum of these components. Components without a weight are recorded only."""
    success_component: ClassVar[str] = "correct"
    """An episode succeeded when this component is at least 1."""

    def __init__(self) -> None:
        self.tools: ToolSet = tools_of(self)
        self.task: Task = Task("", {})
        self.finished = False
        self.results: list[ToolResult] = []
        self.mistakes = 0
        """Replies that held no executable call."""
        self.shown = ""
        """The last observation, as one text."""

    @staticmethod
    @abstractmethod
    def make_task(rng: random.Random) -> Mapping[str, Any]:
        """Draw the payload of one task: JSON values only."""

    @abstractmethod
    def prompt(self) -> str:
        """Word the task for the policy."""

    @abstractmethod
    def score(self) -> Mapping[str, float | None]:
        """Name and verify the rewards of the episode as it stands."""

    def reset(self) -> None:
        """Prepare state of one's own for `self.task`; called by `start`."""

    def demonstrate(self, rng: random.Random, *, faulty: bool) -> Script:
        """Play the episode by script, with a mistake somewhere if `faulty`."""
        raise NotImplementedError(
            f"{type(self).__name__} has no demonstrations; define demonstrate() or set warm_start.max_steps = 0"
        )

    def state_key(self) -> Hashable | None:
        """Two visits with the same task and the same results so far are the same state."""
        return tuple((r.status, r.content) for r in self.results)

    def finish(self) -> None:
        """End the episode after this action."""
        self.finished = True

    def start(self, task: Task, seed: int) -> Observation:
        """Begin an episode."""
        self.task, self.finished, self.results, self.mistakes = task, False, [], 0
        self.reset()
        self.shown = self.prompt()
        return Observation((Message("user", self.shown),))

    async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
        """Execute the calls of one action in order; without any, say so."""
        calls = action.calls if isinstance(action, ParsedAction) else ()
        failures = action.failures if isinstance(action, ParsedAction) else (action,)
        results = [await run.call(call, tuple(self.results)) for call in calls]
        complaints = [failure.reason for failure in failures] or ([] if calls else ["no tool call"])
        self.mistakes += len(complaints) + sum(result.status == "invalid" for result in results)
        self.results += results
        messages = tuple(Message("tool", text) for text in (*(result.content for result in results), *complaints))
        self.shown = "\n".join(message.content for message in messages)
        cause = "finished" if self.finished else None
        return StepResult(Observation(messages), tuple(results), terminated=self.finished, cause=cause)

    def close(self) -> None:
        """Nothing is held."""

    @classmethod
    def task_from(cls, payload: Mapping[str, Any]) -> Task:
        """Wrap a payload under the hash of its content."""
        text = json.dumps([cls.__name__, cls.version, payload], sort_keys=True, allow_nan=False)
        return Task(hashlib.sha256(text.encode()).hexdigest()[:24], payload)


class DirectRunner:
    """Run calls straight on the tools, checking names and arguments; mistakes come back as results, never as exceptions."""

    def __init__(self, tools: ToolSet) -> None:
        self._tools = tools

    async def call(self, call: ToolCall, history: Sequence[ToolResult]) -> ToolResult:
        """Execute one call; an unknown tool or a wrong argument is the policy's mistake and is answered in words."""
        known = self._tools.tools.get(call.name)
        if known is None:
            return ToolResult(call.call_id, "invalid", f"unknown tool; use {', '.join(self._tools.tools)}", "harness", attempts=0)
        wrong = _wrong_arguments(call.arguments, known.parameters)
        if wrong:
            return ToolResult(call.call_id, "invalid", wrong, "harness", attempts=0)
        answer = known.function(**call.arguments)
        return answer if isinstance(answer, ToolResult) else ToolResult(call.call_id, "ok", str(answer))


def _wrong_arguments(arguments: Mapping[str, Any], parameters: Mapping[str, type]) -> str | None:
    missing, extra = parameters.keys() - arguments.keys(), arguments.keys() - parameters.keys()
    if missing or extra:
        return f"missing {', '.join(sorted(missing))}" if missing else f"unexpected {', '.join(sorted(extra))}"
    for name, kind in parameters.items():
        value = arguments[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            return f"{name} must be {kind.__name__}"
    return None
