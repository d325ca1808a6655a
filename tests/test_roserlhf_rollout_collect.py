"""Many episodes at once: order, members, groups, and what happens to the others when one cannot go on."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import pytest
from rollout_fakes import CODEC, TASK, Echo, FakeEngine, chunk, play_together, says, turn_of

from rosellm.roserlhf.engine.protocol import Chunk, Request
from rosellm.roserlhf.environment.protocol import Observation, Task
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.rollout.collect import plan

TASKS = [Task("a", {}), Task("b", {}), Task("c", {})]


def test_results_come_in_the_order_of_the_plan_whatever_ends_first() -> None:
    def speak(request: Request) -> list[Chunk]:
        # the first members talk longest: member 0 needs 3 turns, member 1 two, member 2 one
        last = turn_of(request) == 2 - int(request.stream[4])
        return [chunk(CODEC.reply("end(x)" if last else "hm"))]

    engine = FakeEngine(speak)
    planned, episodes = play_together(Echo, engine, TASKS, members=3)
    assert [episode.trajectory_id for episode in episodes] == [p.trajectory_id for p in planned]
    assert [len(episode.actions) for episode in episodes] == [3, 2, 1] * 3
    assert engine.most_in_flight == 9  # together, not one after the other


def test_a_plan_goes_task_by_task_and_a_group_is_a_task() -> None:
    planned = plan(TASKS, members=2, run="r", seed=1, purpose="train", step=5)
    assert [(p.task.task_id, p.key.member) for p in planned] == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0), ("c", 1)]
    assert [p.group_id for p in planned] == [f"r/train/5/{name}" for name in "aabbcc"]
    assert planned[3].trajectory_id == "r/train/5/b/1"
    assert {(p.key.run, p.key.seed, p.key.purpose, p.key.step) for p in planned} == {("r", 1, "train", 5)}


def test_a_task_that_appears_twice_has_more_members_not_the_same_ones() -> None:
    planned = plan([TASK, TASKS[0], TASK], members=2, run="r", seed=1, purpose="train", step=5)
    assert [(p.task.task_id, p.key.member) for p in planned] == [
        ("task-1", 0), ("task-1", 1), ("a", 0), ("a", 1), ("task-1", 2), ("task-1", 3),
    ]  # fmt: skip
    assert len({p.trajectory_id for p in planned}) == 6
    assert len({p.key.stream(p.task, 0) for p in planned}) == 6
    assert len({p.group_id for p in planned}) == 2


def test_every_episode_has_an_environment_of_its_own() -> None:
    made: list[Echo] = []

    def new() -> Echo:
        made.append(Echo())
        return made[-1]

    _, episodes = play_together(new, says(CODEC, "end(x)"), TASKS, members=2)
    assert len(made) == len(episodes) == 6
    assert [environment.closed for environment in made] == [1] * 6
    assert len({environment.seed for environment in made}) == 6  # chance of its own, too


def test_one_broken_environment_leaves_the_others_alone() -> None:
    planned, episodes = play_together(lambda: Fragile(), says(CODEC, "end(x)"), TASKS, members=2)
    assert [episode.is_unscored for episode in episodes] == [False, False, True, True, False, False]
    assert [episode.group_id for episode in episodes] == [p.group_id for p in planned]


class Fragile(Echo):
    def start(self, task: Task, seed: int) -> Observation:
        if task.task_id == "b":
            raise OSError("no b")
        return Observation(())


def test_an_engine_that_fails_stops_all_episodes_and_closes_their_environments() -> None:
    made: list[Echo] = []

    def new() -> Echo:
        made.append(Echo())
        return made[-1]

    def speak(request: Request) -> Iterable[Chunk]:
        if request.stream[3:5] == ("b", 1):
            raise RuntimeError("out of memory")
        return repeat(chunk([5], stop_reason=None))

    engine = FakeEngine(speak)
    with pytest.raises(RuntimeError, match="out of memory"):
        play_together(new, engine, TASKS, members=2)
    assert [environment.closed for environment in made] == [1] * 6
    assert engine.in_flight == 0


def test_an_environment_that_cannot_be_made_is_raised_and_the_others_are_closed() -> None:
    made: list[Echo] = []

    def new() -> Echo:
        if len(made) == 2:
            raise TypeError("no more")
        made.append(Echo())
        return made[-1]

    with pytest.raises(TypeError, match="no more"):
        play_together(new, says(CODEC, "hm"), TASKS, members=2)
    assert [environment.closed for environment in made] == [1, 1]


def test_a_group_needs_a_member() -> None:
    with pytest.raises(RangeError, match=r"members must be in \[1, inf\), got 0"):
        plan(TASKS, members=0, run="r", seed=1, purpose="train", step=5)
