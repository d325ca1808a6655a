"""An environment of one's own, in one class, and the run that learns it: `python examples/own_environment.py`, about a minute.

To ring somebody up: look up the room of the person, look up the number of that room, dial it. Room and number are drawn for each
task, so nothing can be learned by heart, only how to use the two tools. A transformer with random weights is shown scripted
episodes, many of them wrong on purpose; from there on it learns by reinforcement alone.
"""

import argparse
import random
from collections.abc import Generator, Sequence
from typing import Any

from rosellm.roserlhf import ToolEnvironment, recipes, tool, train
from rosellm.roserlhf.trainer.progress import Progress

PEOPLE = ("Ann", "Ben", "Cid", "Dora", "Eve", "Finn", "Gus", "Hal", "Ida", "Joe", "Kit", "Lou")


class Phonebook(ToolEnvironment):
    """`Ring Ann`: `lookup(Ann)` says 37, `lookup(37)` says 512, `dial(512)`."""

    vocabulary = ("Ring ", "lookup(", "dial(", *PEOPLE)  # text that the built-in tokenizer keeps whole

    @staticmethod
    def make_task(rng: random.Random) -> dict[str, str]:
        return {"person": rng.choice(PEOPLE), "room": str(rng.randint(10, 99)), "number": str(rng.randint(100, 999))}

    def reset(self) -> None:
        self.dialled = ""

    def prompt(self) -> str:
        return f"Ring {self.task.payload['person']}"

    @tool
    def lookup(self, entry: str) -> str:
        """Look up the room of a person, or the number of a room."""
        task = self.task.payload
        return str({task["person"]: task["room"], task["room"]: task["number"]}.get(entry, "not found"))

    @tool
    def dial(self, number: str) -> str:
        """Dial a number; this ends the episode."""
        self.dialled = number
        self.finish()
        return "ringing"

    def score(self) -> dict[str, float | None]:  # out of the agent's reach; None would mean "not scored"
        return {"correct": float(self.dialled == self.task.payload["number"])}

    def demonstrate(self, rng: random.Random, *, faulty: bool) -> Generator[str, str, None]:
        fault = rng.choice(("no room", "no number", "wrong number")) if faulty else None
        room = str(rng.randint(10, 99)) if fault == "no room" else (yield f"lookup({self.task.payload['person']})")
        number = room if fault == "no number" else (yield f"lookup({room})")
        yield f"dial({rng.randint(100, 999) if fault == 'wrong number' else number})"


OPTIONS: dict[str, Any] = {
    "model": {"layers": 2, "hidden_size": 64, "intermediate_size": 128},
    "warm_start": {"demonstrations": 300, "fault_rate": 0.4, "learning_rate": 3e-3},
    "collect": {"tasks": 32, "max_turns": 4, "context_window": 64},
    "evaluate": {"tasks": 512},
}
"""A smaller model and smaller steps than by default: this task is easier than `shop`."""


def tell(now: Progress) -> None:
    """Print what is worth a line, and every tenth step."""
    if now.message:
        print(now.message)
    elif now.phase == "train" and now.success is not None and now.step % 10 == 0:
        print(f"step {now.step} of {now.steps}: success while training {now.success:.2f}")


def main(argv: Sequence[str] | None = None, options: dict[str, Any] = OPTIONS) -> dict[str, Any]:
    """Train, say how often held-out tasks are solved before and after, and return the run's summary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=40, help="training steps after the warm start")
    parser.add_argument("--seed", type=int, default=0, help="every random stream is derived from it")
    parser.add_argument("--out", default="runs/phonebook", help="run folder; new or empty")
    chosen = parser.parse_args(argv)
    recipe = recipes.grpo(seed=chosen.seed, steps=chosen.steps, **options)
    run = train(recipe, environment=Phonebook, out=chosen.out, on_progress=tell)
    summary = run.summary or {}
    print(f"held-out success {summary['success_before']['sampled']:.2f} -> {summary['success_after']['sampled']:.2f}")
    print(f"report: {run.folder / 'report.html'}")
    return summary


if __name__ == "__main__":
    main()
