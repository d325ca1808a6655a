"""Environments for the doctor of environments: a good one, and one for each thing that can be wrong."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rosellm.roserlhf import tool
from rosellm.roserlhf.environment.base import Script, ToolEnvironment
from rosellm.roserlhf.environment.protocol import Capabilities, Observation, Task
from rosellm.roserlhf.environment.verifiers import numeric
from rosellm.roserlhf.trajectory import ParsedAction, ToolCall

_counter = iter(range(10**9))


class Sum(ToolEnvironment):
    """Add two numbers; sound in every respect."""

    capabilities = Capabilities(snapshot=True)

    @staticmethod
    def make_task(rng: random.Random) -> Mapping[str, Any]:
        return {"a": rng.randint(100, 999), "b": rng.randint(100, 999)}

    def reset(self) -> None:
        self.answer: str | None = None
        self.looked = 0

    def prompt(self) -> str:
        return f"What is {self.task.payload['a']} + {self.task.payload['b']}?"

    @property
    def right(self) -> str:
        return str(self.task.payload["a"] + self.task.payload["b"])

    @tool
    def look(self, times: int = 1) -> str:
        """Look at the question again."""
        self.looked += 1
        return f"{self.prompt()} ({self.looked})"

    @tool
    async def submit(self, answer: str) -> str:
        """Answer."""
        self.submitted(answer)
        self.finish()
        return "done"

    def submitted(self, answer: str) -> None:
        self.answer = answer

    def score(self) -> Mapping[str, float | None]:
        return {"correct": numeric(self.answer, self.right)}

    def demonstrate(self, rng: random.Random, *, faulty: bool) -> Script:
        yield "look()"
        yield "look(2)"
        yield f"submit({self.right if not faulty else 0})"

    def snapshot(self) -> bytes:
        saved = [dict(self.task.payload), self.answer, self.looked, self.finished, self.shown, self._trace]
        return repr(saved).encode()

    def restore(self, saved: bytes) -> None:
        import ast

        payload, answer, looked, finished, shown, trace = ast.literal_eval(saved.decode())
        self.start(self.task_from(payload), 0)
        self.answer, self.looked, self.finished, self.shown, self._trace = answer, looked, finished, shown, trace


class Wordy(Sum):
    """Forgets half of its state, quietly."""

    def restore(self, saved: bytes) -> None:
        super().restore(saved)
        self.looked = 0


class Evaluates(Sum):
    """Runs the answer as a program."""

    def score(self) -> Mapping[str, float | None]:
        try:
            return {"correct": float(eval(str(self.answer)) == int(self.right))}  # noqa: S307 - that is its fault
        except Exception:  # noqa: BLE001 - and it hides it
            return {"correct": 0.0}


class Shells(Sum):
    """Hands the answer to a shell."""

    @tool
    def find(self, where: str = "here") -> str:
        """Look somewhere."""
        subprocess.run(f"echo {where}", shell=True, capture_output=True, check=False)  # noqa: S602 - that is its fault
        return "nothing"


class Hangs(Sum):
    """Counts as long as the answer says."""

    def submitted(self, answer: str) -> None:
        while "**" in answer:
            time.sleep(0.01)
        super().submitted(answer)


class Dies(Sum):
    """Takes the process down."""

    def submitted(self, answer: str) -> None:
        if len(answer) > 10_000:
            os.abort()
        super().submitted(answer)


class RaisesOnNul(Sum):
    """Cannot stand NUL."""

    def submitted(self, answer: str) -> None:
        if "\0" in answer:
            raise ValueError("embedded null byte")
        super().submitted(answer)


class PaysForNan(Sum):
    """Its tolerance is written the wrong way round: every comparison with nan is false."""

    def score(self) -> Mapping[str, float | None]:
        try:
            wrong = abs(float(self.answer or "0") - float(self.right)) > 0.5
        except ValueError:
            wrong = True
        return {"correct": float(not wrong)}


class PaysForMentions(Sum):
    """Pays for a reply in which the right answer stands somewhere."""

    @staticmethod
    def make_task(rng: random.Random) -> Mapping[str, Any]:
        return {"a": rng.randint(10, 99), "b": rng.randint(10, 99)}

    def score(self) -> Mapping[str, float | None]:
        return {"correct": float(self.right in (self.answer or ""))}


class PaysForYes(Sum):
    """Pays for the same value of a yes-or-no answer, whatever the task."""

    @tool
    def decide(self, yes: bool) -> str:
        """Answer with yes or no."""
        self.answer = self.right if yes else "no"
        self.finish()
        return "done"


class Coin(Sum):
    """A yes-or-no answer that is right half of the time; there is nothing wrong with that."""

    @tool
    def decide(self, yes: bool) -> str:
        """Answer whether the sum is even."""
        self.answer = self.right if yes == (int(self.right) % 2 == 0) else "no"
        self.finish()
        return "done"


class Prints(Sum):
    """Somebody left a print."""

    def reset(self) -> None:
        super().reset()
        print("starting", self.task.task_id)


class Warns(Sum):
    """Writes to standard error."""

    def reset(self) -> None:
        super().reset()
        sys.stderr.write("deprecated\n")


class GlobalRandom(Sum):
    """Draws from the random state that everybody shares."""

    def reset(self) -> None:
        super().reset()
        self.luck = random.random()


class SeedsNumpy(Sum):
    """Seeds numpy for everybody."""

    def reset(self) -> None:
        import numpy as np

        super().reset()
        np.random.seed(0)


class Unsteady(Sum):
    """Draws other tasks every time."""

    @staticmethod
    def make_task(rng: random.Random) -> Mapping[str, Any]:
        return {"a": rng.randint(100, 999), "b": next(_counter)}


class Hashes(Sum):
    """Chooses from a set of strings, whose order is another in each process."""

    @staticmethod
    def make_task(rng: random.Random) -> Mapping[str, Any]:
        names = {f"name {number}" for number in range(50)}
        return {"a": rng.randint(100, 999), "b": 7, "name": next(iter(names))}


class NoJson(Sum):
    """Its payload is no JSON."""

    @staticmethod
    def make_task(rng: random.Random) -> Mapping[str, Any]:
        return {"a": {1, 2}, "b": rng.randint(0, 9)}


class OneTask(Sum):
    """Knows one task only."""

    @staticmethod
    def make_task(rng: random.Random) -> Mapping[str, Any]:
        return {"a": 1, "b": 2}


class WrongGold(Sum):
    """Its verifier wants another form than its script writes."""

    def score(self) -> Mapping[str, float | None]:
        return {"correct": float(self.answer == f"{self.right}.0")}


class NoGold(Sum):
    """Demonstrates nothing."""

    demonstrate = ToolEnvironment.demonstrate


class Solved(NoGold):
    """Demonstrates nothing, but knows its solution."""

    def gold(self) -> Sequence[ParsedAction]:
        return (ParsedAction(calls=(ToolCall("call-0", "submit", {"answer": self.right}),)),)


class Fickle(Sum):
    """Scores by the number of times it was asked."""

    def reset(self) -> None:
        super().reset()
        self.asked = 0

    def score(self) -> Mapping[str, float | None]:
        self.asked += 1
        return {**super().score(), "asked": float(self.asked)}


class ScoresNan(Sum):
    """A score that is no number."""

    def score(self) -> Mapping[str, float | None]:
        return {**super().score(), "style": float("nan")}


class Misnames(Sum):
    """Does not name what is trained."""

    reward_weights: ClassVar[Mapping[str, float]] = {"correct": 1.0, "style": 0.5}


class Abstains(Sum):
    """Cannot score what is no number."""

    def score(self) -> Mapping[str, float | None]:
        try:
            return {"correct": float(int(self.answer or "0") == int(self.right))}
        except ValueError:
            return {"correct": None}


class Clocked(Sum):
    """What it says depends on the time."""

    def start(self, task: Task, seed: int) -> Observation:
        self.now = time.time_ns()
        return super().start(task, seed)

    @tool
    def look(self, times: int = 1) -> str:
        """Look at the clock."""
        return f"it is {self.now}"


class Unordered(Sum):
    """The name of its state depends on the order of a set."""

    def state_key(self) -> str:
        return str({"one", "two", "three", "four", self._trace})


class Honest(Clocked):
    """The same, but it says so."""

    capabilities = Capabilities(deterministic=False, replayable=False)


class Locked(Sum):
    """Its last tool cannot be undone."""

    @tool(irreversible=True)
    def send(self, text: str) -> str:
        """Send it."""
        raise AssertionError("nobody confirmed")


raised_at_import = "no"
