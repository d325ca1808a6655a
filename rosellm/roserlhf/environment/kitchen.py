"""`kitchen`: bring one thing to the table, cooked or raw; four rooms, recurring states, and a reward at the very end only.

Many episodes of one task pass through the same states and go on differently, which is what credit for single steps compares.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from rosellm.roserlhf.environment.base import Script, ToolEnvironment
from rosellm.roserlhf.environment.kitchen_world import (
    ITEMS,
    PLACES,
    ROOMS,
    VERBS,
    Goal,
    State,
    Thing,
    act,
    choices,
    first_state,
    look,
    shortest,
)
from rosellm.roserlhf.environment.protocol import Capabilities
from rosellm.roserlhf.environment.tools import tool

THINGS_PER_TASK = 3


class Kitchen(ToolEnvironment):
    """Find, carry, cook and serve with five tools.

    Rewards: `correct` 1 if the wanted thing lies on the table as it should, else 0, and nothing on the way; `format` −1 for each
    reply without an executable call; `steps` −1 for each action that was carried out. Only `correct` carries a weight.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(instant=True, snapshot=True)
    told: ClassVar[bool] = True
    """Whether the prompt says where the wanted thing is; if not, it must be searched for."""
    vocabulary: ClassVar[tuple[str, ...]] = (
        *(f"{verb}(" for verb in VERBS),
        *ROOMS,
        *PLACES,
        *ITEMS,
        *("Bring a ", "raw ", "cooked ", " to the table", " is at the ", ": ", ", ", "; ", "hand", "empty", "closed"),
        *("no way there from here", "no such place", "not seen here", "the hand is full", "the hand is empty"),
        *("not in the hand", "no stove here", "cooked already", " is open", " is closed", "no ", " here"),
    )

    @staticmethod
    def make_task(rng: random.Random) -> Mapping[str, Any]:
        """Draw three things with their places, which of them is wanted and how, and the room to begin in."""
        things = rng.sample(ITEMS, THINGS_PER_TASK)
        places = {thing: rng.choice([place for place in PLACES if place != "table"]) for thing in sorted(things)}
        return {"room": rng.choice(list(ROOMS)), "places": places, "wanted": things[0], "cooked": rng.random() < 0.5}

    def reset(self) -> None:
        """Set up the world."""
        self.goal = Goal(self.task.payload["wanted"], self.task.payload["cooked"])
        self.state = first_state(self.task.payload["room"], self.task.payload["places"])

    def prompt(self) -> str:
        """Say what is wanted, where it is, and what is seen."""
        wanted = self.goal.item
        where = f" {wanted} is at the {self.task.payload['places'][wanted]}." if self.told else ""
        return f"Bring a {'cooked' if self.goal.cooked else 'raw'} {wanted} to the table.{where}\n{look(self.state)}"

    @tool(instant=True)
    def go(self, room: str) -> str:
        """Walk through a door into the next room."""
        return self._act("go", room)

    @tool(instant=True)
    def open(self, place: str) -> str:
        """Open something that is closed."""
        return self._act("open", place)

    @tool(instant=True)
    def take(self, item: str) -> str:
        """Take a thing into the hand."""
        return self._act("take", item)

    @tool(instant=True)
    def put(self, place: str) -> str:
        """Put what is in the hand somewhere."""
        return self._act("put", place)

    @tool(instant=True)
    def cook(self, item: str) -> str:
        """Cook what is in the hand on the stove in the kitchen."""
        return self._act("cook", item)

    def score(self) -> dict[str, float | None]:
        """Look at the table."""
        steps = sum(result.status == "ok" for result in self.results)
        return {"correct": float(self.goal.met(self.state)), "format": -float(self.mistakes), "steps": -float(steps)}

    def state_key(self) -> Hashable | None:
        """The world as it is, however it came to be so."""
        return self.state.key()

    def save_state(self) -> Mapping[str, Any]:
        """The world as it is."""
        things = {name: [thing.place, thing.cooked] for name, thing in self.state.things}
        return {"room": self.state.room, "opened": sorted(self.state.opened), "things": things}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take it back."""
        things = tuple((name, Thing(place, cooked)) for name, (place, cooked) in state["things"].items())
        self.state = State(state["room"], frozenset(state["opened"]), things)

    def demonstrate(self, rng: random.Random, *, faulty: bool) -> Script:
        """Go a shortest way; a faulty one strays for some steps on its way, or for good, and then comes too late."""
        path = shortest(self.state, self.goal)
        stray_at = rng.randrange(len(path)) if faulty else -1
        for place, (verb, what) in enumerate(path):
            if place == stray_at:
                yield from self._stray(rng, steps=None if rng.random() < 0.5 else rng.randint(2, 4))
                path = shortest(self.state, self.goal)
                break
            yield f"{verb}({what})"
        else:
            return
        for verb, what in path:
            yield f"{verb}({what})"

    def _stray(self, rng: random.Random, *, steps: int | None) -> Script:
        """Do anything that is possible but reach the goal, for some steps or for ever."""
        while steps is None or steps > 0:
            possible = [step for step in choices(self.state) if self._leads_nowhere(step)]
            verb, what = rng.choice(possible)
            yield f"{verb}({what})"
            steps = None if steps is None else steps - 1

    def _leads_nowhere(self, step: tuple[str, str]) -> bool:
        following, complaint = act(self.state, *step)
        return complaint is None and step[0] != "cook" and not self.goal.met(following)  # what is cooked stays cooked

    def _act(self, verb: str, what: str) -> str:
        self.state, complaint = act(self.state, verb, what)
        if self.goal.met(self.state):
            self.finish()
        return complaint or look(self.state)
