"""A world that a tiny random policy can play: two turns, a tool, and a reward that differs between the members of a group."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from rosellm.roserlhf import tool
from rosellm.roserlhf.environment.base import Script, ToolEnvironment
from rosellm.roserlhf.environment.protocol import StepResult, ToolRunner
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure


class Lookup(ToolEnvironment):
    """Look a digit up behind a letter and submit it; `parity`, which carries a weight too, is as good as a coin."""

    vocabulary: ClassVar[tuple[str, ...]] = ("look(", "submit(", "Digit of ")
    reward_weights: ClassVar[Mapping[str, float]] = {"correct": 1.0, "parity": 0.5}

    @staticmethod
    def make_task(rng: random.Random) -> Mapping[str, Any]:
        return {"letter": rng.choice("abcdefgh"), "digit": rng.randint(0, 9), "noise": rng.randint(0, 999)}

    def reset(self) -> None:
        self.answer = ""
        self.said = ""

    def prompt(self) -> str:
        return f"Digit of {self.task.payload['letter']} {self.task.payload['noise']}"

    @tool
    def look(self, letter: str) -> str:
        """Look up a letter."""
        return str(self.task.payload["digit"]) if letter == self.task.payload["letter"] else "?"

    @tool
    def submit(self, digit: str) -> str:
        """Answer."""
        self.answer = digit
        self.finish()
        return "done"

    async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
        self.said += repr(action)
        return await super().step(action, run)

    def score(self) -> Mapping[str, float | None]:
        return {
            "correct": float(self.answer == str(self.task.payload["digit"])),
            "parity": float(sum(map(ord, self.said)) % 2),
        }

    def demonstrate(self, rng: random.Random, *, faulty: bool) -> Script:
        digit = yield f"look({self.task.payload['letter']})"
        yield f"submit({rng.randint(0, 9) if faulty else digit})"
