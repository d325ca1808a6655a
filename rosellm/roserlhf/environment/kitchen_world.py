"""The world of `kitchen`: `state, action → state, what is said about it`; states are values, so that equal ones can be recognised.

```
garden ── kitchen ── pantry ── cellar
basket    fridge*    shelf     chest*        * closed at first
          stove, table
```
One thing can be carried at a time. Whatever is taken can be put back, and whichever way was gone can be gone back; but what was
cooked stays cooked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError

ROOMS: Mapping[str, tuple[str, ...]] = {
    "garden": ("kitchen",),
    "kitchen": ("garden", "pantry"),
    "pantry": ("kitchen", "cellar"),
    "cellar": ("pantry",),
}
"""Rooms and where their doors lead."""
PLACES: Mapping[str, str] = {"basket": "garden", "fridge": "kitchen", "table": "kitchen", "shelf": "pantry", "chest": "cellar"}
"""Places that hold things, and their rooms."""
CLOSED = ("fridge", "chest")
"""Places that are closed at first; what is opened stays open."""
STOVE = "kitchen"
ITEMS = ("egg", "fish", "carrot", "potato", "onion", "apple")
HAND = "hand"
VERBS = ("go", "open", "take", "put", "cook")


@dataclass(frozen=True)
class Thing:
    """One item."""

    place: str
    """One of `PLACES`, or `HAND`."""
    cooked: bool = False


@dataclass(frozen=True)
class State:
    """All there is to know; equal states have equal futures."""

    room: str
    opened: frozenset[str]
    things: tuple[tuple[str, Thing], ...]
    """Items by name, sorted."""

    @property
    def held(self) -> str | None:
        """Name of the thing in the hand."""
        return next((name for name, thing in self.things if thing.place == HAND), None)

    def key(self) -> str:
        """Write the state as a canonical text."""
        things = ",".join(f"{name}@{thing.place}{'+cooked' if thing.cooked else ''}" for name, thing in self.things)
        return f"{self.room}|{','.join(sorted(self.opened))}|{things}"


@dataclass(frozen=True)
class Goal:
    """The item belongs on the table, cooked or raw."""

    item: str
    cooked: bool

    def met(self, state: State) -> bool:
        """Whether it is there."""
        return dict(state.things).get(self.item) == Thing("table", self.cooked)


def first_state(room: str, places: Mapping[str, str]) -> State:
    """Begin in a room, with every item raw at its place."""
    return State(room, frozenset(), tuple(sorted((name, Thing(place)) for name, place in places.items())))


def act(state: State, verb: str, what: str) -> tuple[State, str | None]:
    """Carry out an action.

    Returns:
        The next state, and None; or the state as it was, and why nothing happened.
    """
    if verb == "go":
        return (replace(state, room=what), None) if what in ROOMS[state.room] else (state, "no way there from here")
    if verb == "open":
        return _open(state, what)
    if verb == "take":
        return _take(state, what)
    return _put(state, what) if verb == "put" else _cook(state, what)


def look(state: State) -> str:
    """Describe what is seen from the present room."""
    here = [place for place, room in PLACES.items() if room == state.room]
    seen = [f"{place}: {_inside(state, place)}" for place in here]
    return f"{state.room}; {', '.join(seen)}; hand: {_named(state, state.held) if state.held else 'empty'}"


def shortest(state: State, goal: Goal) -> list[tuple[str, str]]:
    """Find a shortest sequence of actions to the goal, breadth first, in a fixed order; each is (verb, argument).

    Raises:
        RangeError: the goal is out of reach, since what should be raw was cooked.

    Example:
        >>> shortest(first_state("pantry", {"egg": "shelf"}), Goal("egg", cooked=False))
        [('take', 'egg'), ('go', 'kitchen'), ('put', 'table')]
    """
    came: dict[State, tuple[State, tuple[str, str]] | None] = {state: None}
    queue = deque([state])
    while not goal.met(state := queue.popleft()):
        if dict(state.things)[goal.item].cooked and not goal.cooked:
            raise checks.fail(RangeError, "goal", "be within reach", f"a raw {goal.item}, which was cooked")
        for step in choices(state):
            if step[0] == "take" and step[1] != goal.item:
                continue  # other things are never in the way
            following, complaint = act(state, *step)
            if complaint is None and following not in came:
                came[following] = (state, step)
                queue.append(following)
    path = []
    while (link := came[state]) is not None:
        state, step = link
        path.append(step)
    return path[::-1]


def choices(state: State) -> Iterator[tuple[str, str]]:
    """List the actions that might do something in this state."""
    yield from (("go", room) for room in ROOMS[state.room])
    yield from (("open", place) for place in CLOSED if PLACES[place] == state.room and place not in state.opened)
    if state.held is None:
        yield from (("take", name) for name, thing in state.things if thing.place != HAND)
    else:
        yield from (("put", place) for place, room in PLACES.items() if room == state.room)
        yield ("cook", state.held)


def _open(state: State, place: str) -> tuple[State, str | None]:
    if PLACES.get(place) != state.room:
        return state, f"no {place} here" if place in PLACES else "no such place"
    if place not in CLOSED or place in state.opened:
        return state, f"{place} is open"
    return replace(state, opened=state.opened | {place}), None


def _take(state: State, name: str) -> tuple[State, str | None]:
    thing = dict(state.things).get(name)
    if thing is None or thing.place == HAND or PLACES[thing.place] != state.room or _shut(state, thing.place):
        return state, "not seen here"
    if state.held is not None:
        return state, "the hand is full"
    return _with(state, name, replace(thing, place=HAND)), None


def _put(state: State, place: str) -> tuple[State, str | None]:
    if state.held is None:
        return state, "the hand is empty"
    if PLACES.get(place) != state.room:
        return state, f"no {place} here" if place in PLACES else "no such place"
    if _shut(state, place):
        return state, f"{place} is closed"
    return _with(state, state.held, replace(dict(state.things)[state.held], place=place)), None


def _cook(state: State, name: str) -> tuple[State, str | None]:
    if state.held is None or state.held != name:
        return state, "not in the hand"
    if state.room != STOVE:
        return state, "no stove here"
    thing = dict(state.things)[name]
    return (state, "cooked already") if thing.cooked else (_with(state, name, replace(thing, cooked=True)), None)


def _with(state: State, name: str, thing: Thing) -> State:
    return replace(state, things=tuple((other, thing if other == name else known) for other, known in state.things))


def _shut(state: State, place: str) -> bool:
    return place in CLOSED and place not in state.opened


def _inside(state: State, place: str) -> str:
    if _shut(state, place):
        return "closed"
    return " ".join(_named(state, name) for name, thing in state.things if thing.place == place) or "empty"


def _named(state: State, name: str) -> str:
    return f"cooked {name}" if dict(state.things)[name].cooked else name
