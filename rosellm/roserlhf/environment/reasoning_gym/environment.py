"""A question of a reasoning-gym data set, answered in one turn: the whole reply is the answer, or what `submit` is called with."""

from __future__ import annotations

import functools
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.base import Script, ToolEnvironment
from rosellm.roserlhf.environment.protocol import Capabilities, Observation, StepResult, ToolRunner
from rosellm.roserlhf.environment.reasoning_gym import exact
from rosellm.roserlhf.environment.reasoning_gym.boxed import BoxedScorer
from rosellm.roserlhf.environment.reasoning_gym.datasets import BOXED, CLEAN
from rosellm.roserlhf.environment.reasoning_gym.source import Source
from rosellm.roserlhf.errors import ConfigError
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure

SEEDS = 2**31


class ReasoningGym(ToolEnvironment):
    """Base of the environments that `dataset_environment` makes; `toolbox = (submit,)` in a subclass asks for answers by that tool.

    Rewards: `correct` 1 if the data set's scorer gives at least 1, else 0; `partial` what the scorer gives, which may be above 0
    for an answer that merely contains the right one; `format` −1 for each reply without one. Only `correct` carries a weight.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(snapshot=True, instant=True)
    dataset: ClassVar[str]
    """Name of the data set."""
    request: ClassVar[str] = "Reply with the answer alone."
    """What the prompt says after the question."""
    vocabulary: ClassVar[tuple[str, ...]] = (request,)

    @classmethod
    def make_task(cls, rng: random.Random) -> Mapping[str, Any]:
        """Draw a seed; the payload is the item it makes."""
        return cls._source().item(rng.randrange(SEEDS))

    def prompt(self) -> str:
        """The question and how to answer it."""
        return f"{self.task.payload['question']}\n{self.request}"

    async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
        """Take a plain reply as the answer, unless there are tools to give it by; everything else as any environment."""
        reply = None if self.tools.tools else _plain_reply(action)
        if reply is None:
            return await super().step(action, run)
        self.answer, self.shown = reply, ""
        self.finish()
        self._chain("answer", reply)
        return StepResult(Observation(()), terminated=True, cause="finished")

    def score(self) -> Mapping[str, float | None] | Awaitable[Mapping[str, float | None]]:
        """Ask the scorer of the data set."""
        return self._named(0.0 if self.answer is None else self._scorer(self.answer, self.task.payload))

    def _named(self, partial: float | None) -> dict[str, float | None]:
        correct = None if partial is None else float(partial >= 1)
        return {"correct": correct, "partial": partial, "format": -float(self.mistakes)}

    def save_state(self) -> Mapping[str, Any]:
        """Nothing beside the answer."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take back nothing."""

    def demonstrate(self, rng: random.Random, *, faulty: bool) -> Script:
        """Give the reference answer; a faulty one gives that of another question."""
        answer = self.make_task(rng)["answer"] if faulty else self.task.payload["answer"]
        yield f"submit({answer})" if self.tools.tools else answer

    @classmethod
    def _source(cls) -> Source:
        return _source(cls.dataset)

    @classmethod
    def _scorer(cls, answer: str, item: Mapping[str, Any]) -> float:
        own = _OWN.get(cls.dataset)
        return cls._source().score(answer, item) if own is None else own(answer, item)


class BoxedReasoningGym(ReasoningGym):
    """Base of those whose scorer runs in the sandbox; where it gives no verdict in time, the episode is unscored."""

    capabilities: ClassVar[Capabilities] = Capabilities(snapshot=True)

    async def score(self) -> Mapping[str, float | None]:
        """Ask the scorer of the data set in a box."""
        return self._named(0.0 if self.answer is None else await boxed_scorer(self.dataset).score(self.answer, self.task.payload))


_OWN: Mapping[str, Callable[[str, Mapping[str, Any]], float]] = {"countdown": exact.countdown, "puzzle24": exact.puzzle24}


def dataset_environment(dataset: str) -> type[ReasoningGym]:
    """Make the environment of a data set; equal names give the same class.

    Args:
        dataset: its name.

    Raises:
        ConfigError: there is no such data set, it is refused, or nothing is known about its scorer.
        SandboxError: its scorer needs a sandbox, and there is none here.
        MissingExtraError: reasoning-gym is not installed.
    """
    _source(dataset)
    if dataset in BOXED:
        boxed_scorer(dataset)
    elif dataset not in CLEAN and dataset not in _OWN:
        raise checks.fail(ConfigError, "data set", "be one whose scorer was examined", repr(dataset))
    return _made(dataset)


@functools.cache
def boxed_scorer(dataset: str) -> BoxedScorer:
    """The scorer of a data set of `BOXED`.

    Raises:
        SandboxError: there is no sandbox here.
    """
    return BoxedScorer(dataset, _source(dataset).module)


@functools.cache
def _source(dataset: str) -> Source:
    return Source(dataset)


@functools.cache
def _made(dataset: str) -> type[ReasoningGym]:
    name = "".join(part.title() for part in dataset.split("_"))
    fields = {
        "__doc__": f"Questions of the data set {dataset}.",
        "__module__": ReasoningGym.__module__,
        "dataset": dataset,
        "command_name": f"reasoning-gym:{dataset}",
    }
    return type(name, (BoxedReasoningGym if dataset in BOXED else ReasoningGym,), fields)


def _plain_reply(action: ParsedAction | ParseFailure) -> str | None:
    """Return the text of a reply that is nothing but text and was not cut; None for any other."""
    if isinstance(action, ParseFailure):
        return None if action.cut or action.call_id is not None or not action.raw.strip() else action.raw.strip()
    return action.content.strip() or None if not (action.calls or action.failures) else None
