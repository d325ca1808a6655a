"""`kitchen`: its shortest ways are known by search, its states recur across episodes, its reward comes at the end alone."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import defaultdict, deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.codec.hf import build_tokenizer, marker_codec
from rosellm.roserlhf.environment.kitchen import Kitchen
from rosellm.roserlhf.environment.kitchen_world import (
    CLOSED,
    PLACES,
    ROOMS,
    VERBS,
    Goal,
    State,
    act,
    choices,
    first_state,
    look,
    shortest,
)
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.errors import RangeError

PROPERTY = settings(derandomize=True, max_examples=40, deadline=None)
CODEC = marker_codec(build_tokenizer(Kitchen.vocabulary), Kitchen().tools.schemas())
TASK = Kitchen.task_from(
    {"room": "pantry", "places": {"egg": "chest", "fish": "basket", "onion": "chest"}, "wanted": "egg", "cooked": True}
)
WAY = ["go(cellar)", "open(chest)", "take(egg)", "go(pantry)", "go(kitchen)", "cook(egg)", "put(table)"]


def started(seed: int | None = None) -> Kitchen:
    kitchen = Kitchen()
    kitchen.start(TASK if seed is None else Kitchen.task_from(Kitchen.make_task(random.Random(seed))), seed=0)
    return kitchen


def say(kitchen: Kitchen, reply: str) -> str:
    asyncio.run(kitchen.step(CODEC.parse(CODEC.reply(reply)), DirectRunner(kitchen.tools)))
    return kitchen.shown


def by_script(kitchen: Kitchen, rng: random.Random, *, faulty: bool, turns: int) -> list[str]:
    """Play a demonstration until the episode or its turns are over."""
    script = kitchen.demonstrate(rng, faulty=faulty)
    said = [next(script)]
    while say(kitchen, said[-1]) and not kitchen.finished and len(said) < turns:
        said.append(script.send(kitchen.shown))
    script.close()
    return said


def test_a_task_by_hand() -> None:
    kitchen = started()
    assert kitchen.prompt() == "Bring a cooked egg to the table. egg is at the chest.\npantry; shelf: empty; hand: empty"
    seen = [say(kitchen, reply) for reply in WAY]
    assert seen == [
        "cellar; chest: closed; hand: empty",
        "cellar; chest: egg onion; hand: empty",
        "cellar; chest: onion; hand: egg",
        "pantry; shelf: empty; hand: egg",
        "kitchen; fridge: closed, table: empty; hand: egg",
        "kitchen; fridge: closed, table: empty; hand: cooked egg",
        "kitchen; fridge: closed, table: cooked egg; hand: empty",
    ]
    assert kitchen.finished
    assert kitchen.score() == {"correct": 1.0, "format": 0.0, "steps": -7.0}
    assert [f"{verb}({what})" for verb, what in shortest(started().state, started().goal)] == WAY


@pytest.mark.parametrize(
    ("replies", "answer"),
    [
        (["go(garden)"], "no way there from here"),
        (["go(attic)"], "no way there from here"),
        (["open(chest)"], "no chest here"),
        (["open(egg)"], "no such place"),
        (["open(shelf)"], "shelf is open"),
        (["take(egg)"], "not seen here"),
        (["go(cellar)", "take(egg)"], "not seen here"),  # the chest is closed
        (["put(shelf)"], "the hand is empty"),
        (["cook(egg)"], "not in the hand"),
        ([*WAY[:3], "cook(egg)"], "no stove here"),
        ([*WAY[:3], "take(onion)"], "the hand is full"),
        ([*WAY[:5], "put(fridge)"], "fridge is closed"),
        ([*WAY[:5], "put(chest)"], "no chest here"),
        ([*WAY[:6], "cook(egg)"], "cooked already"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(replies: list[str], answer: str) -> None:
    kitchen = started()
    for reply in replies[:-1]:
        say(kitchen, reply)
    before = kitchen.state_key()
    assert say(kitchen, replies[-1]) == answer
    assert kitchen.state_key() == before
    assert (kitchen.mistakes, kitchen.score()["correct"]) == (0, 0.0)


def test_the_wrong_way_to_serve_is_not_paid() -> None:
    kitchen = started()
    for reply in [*WAY[:5], "put(table)"]:  # raw
        say(kitchen, reply)
    assert (kitchen.finished, kitchen.score()["correct"]) == (False, 0.0)


def distances(state: State, goal: Goal) -> int:
    """Another search, over all actions with all arguments, for the length alone."""
    arguments = [*ROOMS, *PLACES, *(name for name, _ in state.things)]
    seen, queue = {state}, deque([(state, 0)])
    while True:
        state, depth = queue.popleft()
        if goal.met(state):
            return depth
        for verb, what in itertools.product(VERBS, arguments):
            following, _ = act(state, verb, what)
            if following not in seen:
                seen.add(following)
                queue.append((following, depth + 1))


@settings(PROPERTY, max_examples=12)
@given(st.integers(0, 2**32))
def test_the_shortest_way_is_shortest_and_within_bounds(seed: int) -> None:
    kitchen = started(seed)
    path = shortest(kitchen.state, kitchen.goal)
    assert len(path) == distances(kitchen.state, kitchen.goal)
    # at least take, go and put; at most: three doors there, open, take, three back, cook, put (+ a detour is never needed)
    assert 2 <= len(path) <= 10
    said = by_script(kitchen, random.Random(seed), faulty=False, turns=10)
    assert said == [f"{verb}({what})" for verb, what in path]
    assert kitchen.score()["correct"] == 1.0


@PROPERTY
@given(st.integers(0, 2**32))
def test_a_faulty_demonstration_comes_late_or_never_and_makes_no_mistake(seed: int) -> None:
    kitchen = started(seed)
    fewest = len(shortest(kitchen.state, kitchen.goal))
    said = by_script(kitchen, random.Random(seed), faulty=True, turns=16)
    assert len(said) > fewest
    assert kitchen.mistakes == 0
    assert kitchen.finished == (kitchen.score()["correct"] == 1.0)


def test_some_faulty_demonstrations_arrive_and_some_do_not() -> None:
    arrived = 0
    for seed in range(60):
        kitchen = started(seed)
        by_script(kitchen, random.Random(seed), faulty=True, turns=16)
        arrived += kitchen.finished
    assert 15 <= arrived <= 45


@PROPERTY
@given(st.integers(0, 2**32))
def test_equal_keys_have_equal_futures_and_equal_looks(seed: int) -> None:
    rng = random.Random(seed)
    kitchen = started(seed)
    known: dict[str, State] = {}
    state = kitchen.state
    for _ in range(60):
        assert known.setdefault(state.key(), state) == state
        following, complaint = act(state, *rng.choice(list(choices(state))))
        assert (following == state) == (complaint is not None)
        assert look(following)
        state = following


def test_a_raw_thing_that_was_cooked_is_out_of_reach() -> None:
    state = first_state("kitchen", {"egg": "table"})
    for step in (("take", "egg"), ("cook", "egg")):
        state, _ = act(state, *step)
    with pytest.raises(RangeError, match="goal must be within reach, got a raw egg, which was cooked"):
        shortest(state, Goal("egg", cooked=False))


def test_states_recur_across_members_and_go_on_differently() -> None:
    """What grouping by states needs: the same state in several members of a group, left by different actions."""
    recurring = shared = visits = 0
    for task in range(10):
        left: dict[object, set[tuple[int, str]]] = defaultdict(set)
        for member in range(8):
            kitchen, rng = started(task), random.Random(f"{task}/{member}")
            script = kitchen.demonstrate(rng, faulty=rng.random() < 0.7)
            said = next(script)
            for _ in range(12):
                left[kitchen.state_key()].add((member, said))
                visits += 1
                say(kitchen, said)
                if kitchen.finished:
                    break
                said = script.send(kitchen.shown)
            script.close()
        several = [visit for visit in left.values() if len({member for member, _ in visit}) > 1]
        shared += sum(len(visit) for visit in several)
        recurring += sum(len({reply for _, reply in visit}) > 1 for visit in several)
    assert shared / visits > 0.5  # most visits are to a state that another member knows
    assert recurring >= 10 * 3  # at least three such states a task, left in different ways


def test_the_reward_is_sparse_and_the_prompt_may_keep_the_place_to_itself() -> None:
    kitchen = started()
    for reply in WAY[:-1]:
        say(kitchen, reply)
        assert kitchen.score()["correct"] == 0.0

    class Untold(Kitchen):
        told = False

    untold = Untold()
    untold.start(TASK, seed=0)
    assert untold.prompt() == "Bring a cooked egg to the table.\npantry; shelf: empty; hand: empty"


def test_everything_that_is_said_is_in_the_vocabulary() -> None:
    longest = 0
    for seed in range(60):
        kitchen, rng = started(seed), random.Random(seed)
        longest = max(longest, len(CODEC.reply(kitchen.prompt())))
        for _ in range(10):
            verb, what = rng.choice(list(choices(kitchen.state)))
            text = say(kitchen, f"{verb}({what})")
            assert CODEC.reply_text(CODEC.reply(text)) == text
    assert longest <= 40
    assert {*CLOSED} < {*PLACES}
