"""`bfcl`: several requests of a user, one after another, to be fulfilled with stateful tools; every turn is verified exactly.

A reply with calls is answered by their results; a reply without any ends the user's turn, and the next request follows. Functions
that a task withholds (category `miss_func`) are unknown tools until their turn; then the user's message brings their documents.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.environment.bfcl import files
from rosellm.roserlhf.environment.bfcl.documented import read_document
from rosellm.roserlhf.environment.bfcl.literals import read_call
from rosellm.roserlhf.environment.bfcl.verifier import TurnVerifier
from rosellm.roserlhf.environment.bfcl.world import World
from rosellm.roserlhf.environment.protocol import Capabilities, Observation, StepResult, ToolRunner
from rosellm.roserlhf.environment.tools import Tool, ToolSet
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure, ToolCall

MOST_STEPS = 20
"""Replies with calls that one request may take; the benchmark, too, gives up at the next one."""
MORE_FUNCTIONS = "I have updated some more functions you can choose from. What about now?"


class Bfcl(ToolEnvironment):
    """Fulfil a user's requests with the tools of up to two of eight simulated services.

    Rewards: `correct` 1 if every turn was right, else 0; `turns` the share of turns that were right before the first wrong one;
    `format` −1 for each malformed call. Only `correct` carries a weight.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(snapshot=True, instant=True)
    categories: ClassVar[tuple[str, ...]] = files.CATEGORIES
    """Categories that tasks are drawn from."""

    @classmethod
    def make_task(cls, rng: random.Random) -> Mapping[str, Any]:
        """Draw one of the 800 tasks: the draw is an index, the payload is the task itself, its ground truth included."""
        return rng.choice([entry for entry in files.entries() if entry["category"] in cls.categories])

    @classmethod
    def kin(cls, payload: Mapping[str, Any]) -> Any:
        """A request exists in four variants, one in each category, under one number: they stand on one side of the split."""
        return payload["id"].rpartition("_")[2]

    def reset(self) -> None:
        """Build the worlds of policy and verifier, and the tools of the first turn."""
        entry = self.task.payload
        self._world, self._verifier = World(entry), TurnVerifier(entry)
        self._turn = self._steps = 0
        self._called = False
        self._outputs: list[str] = []
        self._events: list[list[Any]] = []
        documents = [document for name in entry["classes"] for document in files.documents(name)]
        known = {
            document["name"]: read_document(document, functools.partial(self._call, document["name"])) for document in documents
        }
        withheld = {name for names in entry["withheld"].values() for name in names}
        self._withheld = {name: known[name] for name in withheld}
        self._offered: dict[str, Tool] = {name: tool for name, tool in known.items() if name not in withheld}
        self.tools = ToolSet(self._offered)

    def prompt(self) -> str:
        """The user's first request."""
        request: str = self.task.payload["questions"][0][0]
        return request

    async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
        """Carry out calls, or, if the reply holds none, end the user's turn."""
        if _is_plain_reply(action):
            return self._next_turn()
        result = await super().step(action, run)
        self._steps += 1
        self._events.append(["step"])
        if self._steps <= MOST_STEPS:
            return result
        cause = f"more than {MOST_STEPS} steps in one turn"
        return StepResult(result.observation, result.results, truncated=True, cause=cause)

    def score(self) -> dict[str, float | None]:
        """Name what the verifier found in the turns that were ended; an unfinished one is not right."""
        passed, turns = self._verifier.passed, len(self.task.payload["questions"])
        right = passed.index(False) if False in passed else len(passed)
        return {"correct": float(right == turns), "turns": right / turns, "format": -float(self.mistakes)}

    def gold(self) -> Sequence[ParsedAction]:
        """The ground truth: all calls of a turn in one reply (two turns have more of them than replies), then a word."""
        parameters = {tool.name: list(tool.parameters) for tool in (*self._offered.values(), *self._withheld.values())}
        actions = []
        for texts in self.task.payload["ground_truth"]:
            found = [read_call(text) for text in texts]
            calls = [
                ToolCall(f"call-{i}", one.name, {**dict(zip(parameters[one.name], one.positional, strict=False)), **one.arguments})
                for i, one in enumerate(found)
            ]
            actions += [ParsedAction(calls=tuple(calls))] * bool(calls) + [ParsedAction("Done.")]
        return actions

    def save_state(self) -> Mapping[str, Any]:
        """What happened to the worlds, in order."""
        return {"events": self._events}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Let it happen again."""
        for kind, *call in state["events"]:
            if kind == "call":
                self._call(call[0], **call[1])
            elif kind == "step":
                self._steps += 1
                self._events.append(["step"])
            else:
                self._next_turn()

    def _call(self, name: str, /, **arguments: Any) -> str:
        self._events.append(["call", name, arguments])
        self._outputs.append(self._world.call(name, arguments))
        self._called = True
        return self._outputs[-1]

    def _next_turn(self) -> StepResult:
        self._events.append(["turn"])
        self._verifier.verify(self._world, self._outputs, called=self._called)
        self._turn, self._steps, self._called = self._turn + 1, 0, False
        self._chain("turn", self._turn)
        questions = self.task.payload["questions"]
        if self._turn == len(questions):
            self.finish()
            return StepResult(Observation(()), terminated=True, cause="finished")
        self.shown = "\n".join(questions[self._turn]) or self._bring()
        return StepResult(Observation((Message("user", self.shown),)))

    def _bring(self) -> str:
        """Offer what was withheld until this turn, and word it as a message."""
        brought = {name: self._withheld[name] for name in self.task.payload["withheld"].get(str(self._turn), ())}
        self._offered.update(brought)
        documents = json.dumps([tool.schema()["function"] for tool in brought.values()])
        return f"{documents}\n{MORE_FUNCTIONS}"


def _is_plain_reply(action: ParsedAction | ParseFailure) -> bool:
    """Whether a whole reply was plain text: neither calls, nor malformed ones, nor cut by a budget."""
    if isinstance(action, ParseFailure):
        return action.call_id is None and action.name is None and not action.cut
    return not (action.calls or action.failures)
