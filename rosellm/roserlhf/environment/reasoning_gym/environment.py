"""A question of a reasoning-gym data set, answered in one turn: the whole reply is the answer, or what `submit` is called with."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.base import Script, ToolEnvironment
from rosellm.roserlhf.environment.protocol import Capabilities, Observation, StepResult, ToolRunner
from rosellm.roserlhf.environment.reasoning_gym.datasets import CLEAN
from rosellm.roserlhf.environment.reasoning_gym.source import Source
from rosellm.roserlhf.environment.tools import ToolSet, tool
from rosellm.roserlhf.errors import ConfigError
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure

SEEDS = 2**31


class ReasoningGym(ToolEnvironment):
    """Base of the environments that `dataset_environment` makes; a subclass of one may ask for answers by `submit`.

    Rewards: `correct` 1 if the data set's scorer gives at least 1, else 0; `partial` what the scorer gives, which may be above 0
    for an answer that merely contains the right one; `format` −1 for each reply without one. Only `correct` carries a weight.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(snapshot=True)
    dataset: ClassVar[str]
    """Name of the data set."""
    answer_by: ClassVar[Literal["text", "submit"]] = "text"
    """`text`: there are no tools, the whole reply is the answer. `submit`: the answer is the argument of that tool."""
    request: ClassVar[str] = "Reply with the answer alone."
    """What the prompt says after the question."""

    def __init__(self) -> None:
        super().__init__()
        if self.answer_by == "text":
            self.tools = ToolSet({name: known for name, known in self.tools.tools.items() if name != "submit"})

    @classmethod
    def make_task(cls, rng: random.Random) -> Mapping[str, Any]:
        """Draw a seed; the payload is the item it makes."""
        return cls._source().item(rng.randrange(SEEDS))

    def reset(self) -> None:
        """Forget the last answer."""
        self.answer: str | None = None

    def prompt(self) -> str:
        """The question and how to answer it."""
        return f"{self.task.payload['question']}\n{self.request}"

    @tool
    def submit(self, answer: str) -> str:
        """Give the final answer."""
        self.answer = answer
        self.finish()
        return "done"

    async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
        """Take a plain reply as the answer where the whole reply is; everything else as any environment."""
        reply = _plain_reply(action) if self.answer_by == "text" else None
        if reply is None:
            return await super().step(action, run)
        self.shown = self.submit(reply)
        self._chain("answer", reply)
        return StepResult(Observation((Message("tool", self.shown),)), terminated=True, cause="finished")

    def score(self) -> dict[str, float | None]:
        """Ask the scorer of the data set."""
        partial = 0.0 if self.answer is None else self._source().score(self.answer, self.task.payload)
        return {"correct": float(partial >= 1), "partial": partial, "format": -float(self.mistakes)}

    def save_state(self) -> Mapping[str, Any]:
        """What `reset` forgets."""
        return {"answer": self.answer}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take it back."""
        self.answer = state["answer"]

    def demonstrate(self, rng: random.Random, *, faulty: bool) -> Script:
        """Give the reference answer; a faulty one gives that of another question."""
        answer = self.make_task(rng)["answer"] if faulty else self.task.payload["answer"]
        yield f"submit({answer})" if self.answer_by == "submit" else answer

    @classmethod
    def _source(cls) -> Source:
        return _source(cls.dataset)


def dataset_environment(dataset: str) -> type[ReasoningGym]:
    """Make the environment of a data set; equal names give the same class.

    Args:
        dataset: its name.

    Raises:
        ConfigError: there is no such data set, it is refused, or its scorer is only safe in a sandbox.
        MissingExtraError: reasoning-gym is not installed.
    """
    _source(dataset)
    if dataset not in CLEAN:
        raise checks.fail(ConfigError, "data set", "have a scorer that runs nothing of what an answer says", repr(dataset))
    return _made(dataset)


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
    return type(name, (ReasoningGym,), fields)


def _plain_reply(action: ParsedAction | ParseFailure) -> str | None:
    """Return the text of a reply that is nothing but text and was not cut; None for any other."""
    if isinstance(action, ParseFailure):
        return None if action.cut or action.call_id is not None or not action.raw.strip() else action.raw.strip()
    return action.content.strip() or None if not (action.calls or action.failures) else None
