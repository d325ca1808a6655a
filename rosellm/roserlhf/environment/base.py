"""An environment from a class of one's own: mark methods as tools, say how a task is made, worded and scored.

`ToolEnvironment` supplies the rest of the `Environment` protocol: it routes parsed calls to the tools, turns every mistake of the
policy into an observation that says what was wrong, and lets the caller's `ToolRunner` stand between call and tool.
"""

from __future__ import annotations

import hashlib
import json
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Hashable, Mapping, Sequence
from typing import Any, ClassVar

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment import snapshot as snapshots
from rosellm.roserlhf.environment.protocol import Capabilities, Observation, StepResult, Task, ToolRunner
from rosellm.roserlhf.environment.runner import unexecuted
from rosellm.roserlhf.environment.tools import ToolSet, tools_of
from rosellm.roserlhf.errors import ConfigError, NonFiniteError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure, ToolCall, ToolResult

Script = Generator[str, str, None]
"""A scripted episode: yields what the assistant writes, is sent the observation that came back."""


class ToolEnvironment(ABC):
    """Base class of environments whose actions are tool calls.

    A subclass gives `make_task`, `prompt`, `score`, its `@tool` methods, and, to be learnt from scratch by the built-in small
    model, `vocabulary` and `demonstrate`. A tool that ends the episode calls `self.finish()`. What the policy got wrong a tool says
    in its answer; an exception in a tool means that the environment is broken, and such an episode is not scored.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()
    command_name: ClassVar[str | None] = None
    """Name for command lines and configurations of a class that was made on demand and has no import path."""
    version: ClassVar[str] = "1"
    """Raise it when the meaning of a task or a reward changes; it is recorded with every trajectory."""
    vocabulary: ClassVar[Sequence[str]] = ()
    """Pieces of text that the built-in tokenizer keeps whole; every other printable ASCII character is a token of its own."""
    reward_weights: ClassVar[Mapping[str, float]] = {"correct": 1.0}
    """What training maximises: the weighted sum of these components. Components without a weight are recorded only."""
    success_component: ClassVar[str] = "correct"
    """An episode succeeded when this component is at least 1."""
    guard_setting: ClassVar[Mapping[str, Any] | None] = None
    """What a guard holds the episodes of every task against, as JSON (see `guard.setting.Setting`); None: it cannot be guarded."""
    toolbox: ClassVar[Sequence[Callable[..., Any]]] = ()
    """Ready-made tools, beside the marked methods: `(calculator, search_tool(folder), submit)`."""
    answer: str | None
    """What the tool `submit` was given; None before."""
    task: Task
    """What this episode is about; its `payload` is what `make_task` drew."""

    def __init__(self) -> None:
        self.tools: ToolSet = tools_of(self)
        self.finished = False
        """Whether the episode is over; no further call is executed."""
        self.results: list[ToolResult] = []
        """What the calls of this episode led to, in order."""
        self.mistakes = 0
        """Calls that could not be executed, and replies that held none; a reply that was cut by a budget is no mistake."""
        self.shown = ""
        """The last observation, as one text."""
        self._trace = ""

    @staticmethod
    @abstractmethod
    def make_task(rng: random.Random) -> Mapping[str, Any]:
        """Draw the payload of one task: JSON values only, and all chance from `rng`."""

    @abstractmethod
    def prompt(self) -> str:
        """Word the task for the policy."""

    @abstractmethod
    def score(self) -> Mapping[str, float | None] | Awaitable[Mapping[str, float | None]]:
        """Name and verify the rewards of the episode as it stands."""

    def reset(self) -> None:
        """Prepare state of one's own for `self.task`; called by `start`."""

    def demonstrate(self, rng: random.Random, *, faulty: bool) -> Script:
        """Play the episode by script, with a mistake somewhere if `faulty`."""
        fix = "only a model that knows the task already can do without"
        raise checks.fail(
            ConfigError, "environment", "define demonstrate() to be learnt from scratch", type(self).__name__, fix=fix
        )

    def gold(self) -> Sequence[ParsedAction] | None:
        """Name actions that solve the task of this episode, for the doctor to play; None: it plays what `demonstrate` writes."""
        return None

    def task_setting(self) -> Mapping[str, Any] | None:
        """Say what a guard holds this episode against; for tasks with limits of their own, which stand in `self.task`."""
        return self.guard_setting

    def dummy_result(self, call: ToolCall) -> str | None:
        """Say what a call that a guard blocked seems to have led to, in the words of the tool; None: as such tools usually do."""
        return None

    @classmethod
    def is_canary(cls, payload: Mapping[str, Any]) -> bool:
        """Tell whether no honest episode can succeed at a task, so that a success is a hack; such tasks are counted apart."""
        return False

    def state_key(self) -> Hashable | None:
        """Two visits are the same state if the same calls were executed with the same results, in order, on the same task."""
        return self._trace

    def finish(self) -> None:
        """End the episode after this call."""
        self.finished = True

    def start(self, task: Task, seed: int) -> Observation:
        """Begin an episode; tasks of this kind have no chance beyond what `make_task` drew, so the seed is not used."""
        self.task, self.finished, self.results, self.mistakes = task, False, [], 0
        self.answer = None
        self._trace = task.task_id
        self.reset()
        self.shown = self.prompt()
        return Observation((Message("user", self.shown),))

    async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
        """Execute the calls of one action in order until one of them ends the episode; without any, say so."""
        calls = action.calls if isinstance(action, ParsedAction) else ()
        failures = action.failures if isinstance(action, ParsedAction) else (action,)
        results = [await self._execute(call, run) for call in calls]
        complaints = [failure.reason for failure in failures] or ([] if calls else ["no tool call"])
        self.mistakes += len(complaints) - sum(failure.cut for failure in failures)
        texts = [*(result.content for result in results), *complaints]
        self.shown = "\n".join(texts)
        observation = Observation(tuple(Message("tool", text) for text in texts))
        cause = "finished" if self.finished else None
        return StepResult(observation, tuple(results), terminated=self.finished, cause=cause)

    async def _execute(self, call: ToolCall, run: ToolRunner) -> ToolResult:
        if self.finished:
            result = unexecuted(call.call_id, "refused", "the episode is over")
        else:
            result = await run.call(call, tuple(self.results))
        self.results.append(result)
        self.mistakes += result.status == "invalid"
        if result.status not in ("invalid", "refused"):
            self._chain(call.name, call.arguments, result.status, result.content)
        return result

    def _chain(self, *happened: Any) -> None:
        """Add JSON values to the trace; it is a hash, so that a key costs the same at turn 400 as at turn 1."""
        text = json.dumps([self._trace, *happened], sort_keys=True)
        self._trace = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def close(self) -> Awaitable[None] | None:
        """Release nothing."""
        return None

    def save_state(self) -> Mapping[str, Any]:
        """Say in JSON values what `reset` prepared, as it stands now; needed where `capabilities` promise snapshots."""
        fix = "an environment that defines save_state and load_state may declare Capabilities(snapshot=True)"
        raise checks.fail(ConfigError, "environment", "be able to save its state", type(self).__name__, fix=fix)

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take back what `save_state` said; called after `reset` for the same task."""
        raise checks.fail(ConfigError, "environment", "be able to load its state", type(self).__name__)

    def snapshot(self) -> bytes:
        """Save the episode as it stands, as JSON: an instance that restores it answers the same actions with the same results.

        Raises:
            ConfigError: the environment does not promise snapshots.
        """
        values = {
            "task_id": self.task.task_id,
            "payload": self.task.payload,
            "answer": self.answer,
            "finished": self.finished,
            "results": [snapshots.result_values(result) for result in self.results],
            "mistakes": self.mistakes,
            "shown": self.shown,
            "trace": self._trace,
            "state": self.save_state(),
        }
        return snapshots.write(self._identity(), values)

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot, in this instance or another, in this process or another.

        Raises:
            ConfigError: the environment does not promise snapshots.
            RecordError: the bytes are no snapshot of this environment and version.
        """
        values = snapshots.read(snapshot, self._identity())
        self.start(Task(values["task_id"], values["payload"]), seed=0)
        self.load_state(values["state"])
        self.answer, self.finished = values["answer"], values["finished"]
        self.mistakes, self.shown = values["mistakes"], values["shown"]
        self.results, self._trace = [ToolResult(**result) for result in values["results"]], values["trace"]

    @classmethod
    def _identity(cls) -> str:
        return f"{cls.__name__}-{cls.version}"

    @classmethod
    def task_from(cls, payload: Mapping[str, Any]) -> Task:
        """Wrap a payload under the hash of its content; the first eight digits, which decide the split, are those of its kin.

        Raises:
            RecordError: the payload holds anything but JSON values under string names.
            NonFiniteError: it holds NaN or an infinity, which JSON cannot say.
        """
        content = plain.mapping(payload, "payload", plain.json_value)
        kin = cls.kin(content)
        own = cls._hash(content)
        return Task(own if kin is content else cls._hash(kin)[:8] + own[8:], content)

    @classmethod
    def kin(cls, payload: Mapping[str, Any]) -> Any:
        """Say what tasks have in common that must stand on one side of the split: by default the whole content of one."""
        return payload

    @classmethod
    def _hash(cls, content: Any) -> str:
        try:
            text = json.dumps([cls.__name__, cls.version, content], sort_keys=True, allow_nan=False)
        except ValueError as error:
            raise checks.fail(NonFiniteError, "payload", "hold finite numbers", plain.shown(content)) from error
        return hashlib.sha256(text.encode()).hexdigest()[:24]
