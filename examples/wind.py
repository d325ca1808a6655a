"""An environment written from the pages of `docs/` alone: an `async` tool, a ready-made tool, a ready-made verifier."""

import asyncio
import random
from collections.abc import Generator
from string import ascii_uppercase

from rosellm.roserlhf import ToolEnvironment, submit, tool
from rosellm.roserlhf.environment.verifiers import exact

BEST = {"storm": "stay", "breeze": "sail", "calm": "row"}


class Wind(ToolEnvironment):
    """`Boat KQ?`: `measure()` says breeze, `submit(sail)`."""

    toolbox = (submit,)
    vocabulary = ("Boat ", "measure()", "submit(", *BEST.keys(), *BEST.values())

    @staticmethod
    def make_task(rng: random.Random) -> dict[str, str]:
        return {"boat": "".join(rng.sample(ascii_uppercase, 2)), "wind": rng.choice([*BEST])}

    def prompt(self) -> str:
        return f"Boat {self.task.payload['boat']}?"

    @tool
    async def measure(self) -> str:
        """Measure the wind where the boat is."""
        await asyncio.sleep(0)  # a real service would be awaited here
        return str(self.task.payload["wind"])

    def score(self) -> dict[str, float | None]:
        return {"correct": exact(self.answer, BEST[self.task.payload["wind"]])}

    def demonstrate(self, rng: random.Random, *, faulty: bool) -> Generator[str, str, None]:
        wind = yield "measure()"
        yield f"submit({rng.choice([*BEST.values()]) if faulty else BEST[wind]})"
