"""A world that a tiny random policy can play: two turns, a tool, and a reward that differs between the members of a group."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from safetensors.torch import load_file

from rosellm.roserlhf import recipes, tool
from rosellm.roserlhf.environment.base import Script, ToolEnvironment
from rosellm.roserlhf.environment.protocol import StepResult, ToolRunner
from rosellm.roserlhf.models.causal import weights_hash
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.trainer.recipe import Recipe
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


class Patient(Lookup):
    """The same, at a pace that the environment variable `LOOKUP_SECONDS` sets."""

    def reset(self) -> None:
        super().reset()
        time.sleep(float(os.environ.get("LOOKUP_SECONDS", "0")))


TINY: dict[str, Any] = {
    "environment": "loop_worlds:Lookup",
    "steps": 4,
    "checkpoint_every": 2,
    "model": {"layers": 1, "hidden_size": 16, "heads": 2, "key_value_heads": 1, "intermediate_size": 16},
    "warm_start": {
        "demonstrations": 16,
        "fault_rate": 0.5,
        "batch_size": 8,
        "learning_rate": 0.02,
        "max_steps": 12,
        "stop_at_success": 1.0,
        "check_every": 4,
        "check_tasks": 4,
    },
    "collect": {"tasks": 3, "group_size": 4, "max_turns": 3, "max_turn_tokens": 6, "context_window": 96},
    "optimizer": {"learning_rate": 0.01, "warmup_steps": 2, "micro_batch_rows": 5},
    "evaluate": {"tasks": 8, "every": 2, "during_tasks": 5},
}


def tiny(**options: Any) -> Recipe:
    """Build a recipe whose whole run takes about a second; options of a section are laid over those of `TINY`."""
    named = {"recipe": "grpo", **TINY}
    for name, value in options.items():
        named[name] = {**named.get(name, {}), **value} if isinstance(value, dict) else value
    return recipes.recipe_from(recipes.options_to_config(named))


def lines(folder: Path) -> list[dict[str, Any]]:
    """Read `metrics.jsonl`."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def outcome(folder: Path) -> dict[str, Any]:
    """Collect everything that a run computed, without the time it took and the machine it ran on."""
    timed = ("seconds", "tokens_per_second", "guard_cost")
    newest = max((folder / "checkpoints").iterdir(), key=lambda path: int(path.name) if path.name.isdigit() else -1)
    summary = json.loads((folder / "summary.json").read_text())
    with EventLog.read(folder / "events.db") as log:
        return {
            "step": newest.name,
            "model": weights_hash(load_file(newest / "model.safetensors")),
            "optimizer": weights_hash(load_file(newest / "optimizer.safetensors")),
            "exported": weights_hash(load_file(folder / "model" / "model.safetensors")),
            "metrics": [{name: value for name, value in line.items() if name not in timed} for line in lines(folder)],
            "policies": log.policies(),
            "records": [(s.step, s.phase, s.trajectory.trajectory_id, s.trajectory.content_hash()) for s in log.trajectories()],
            "ledger": list(log.ledger()),
            "updates": list(log.updates()),
            "summary": {name: value for name, value in summary.items() if name not in ("seconds", "versions", "peak_rss_bytes")},
        }
