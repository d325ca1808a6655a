import random
from collections.abc import Generator

from rosellm.roserlhf import ToolEnvironment, tool

COLOURS, DOORS = ("red", "blue", "green", "white", "black", "brown", "pink", "grey"), "ABCD"


class Doors(ToolEnvironment):
    """Find the door of the wanted colour: look behind doors until it shows, then open that one."""

    vocabulary = ("Open the ", " door.", "look(", "open(", *COLOURS)  # text that the built-in tokenizer keeps whole

    @staticmethod
    def make_task(rng: random.Random) -> dict[str, object]:
        colours = rng.sample(COLOURS, len(DOORS))
        return {"colours": dict(zip(DOORS, colours, strict=True)), "wanted": rng.choice(colours)}

    def reset(self) -> None:
        self.opened = ""

    def prompt(self) -> str:
        return f"Open the {self.task.payload['wanted']} door."

    @tool
    def look(self, door: str) -> str:
        return str(self.task.payload["colours"].get(door, "no such door"))

    @tool
    def open(self, door: str) -> str:
        self.opened = door
        self.finish()
        return "done"

    def score(self) -> dict[str, float | None]:  # out of the agent's reach; None would mean "not scored"
        return {"correct": float(self.task.payload["colours"].get(self.opened) == self.task.payload["wanted"])}

    def demonstrate(self, rng: random.Random, *, faulty: bool) -> Generator[str, str, None]:
        for door in DOORS:  # a faulty demonstration opens a door too early
            if (yield f"look({door})") == self.task.payload["wanted"] or (faulty and rng.random() < 0.4):
                break
        yield f"open({door})"
