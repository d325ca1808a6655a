"""Scripted episodes: what they record, and a script that does not fit its episode."""

from __future__ import annotations

import random
from typing import Any

import pytest
from rollout_fakes import codec_of, play, run

from rosellm.roserlhf.engine.protocol import PolicyHandle
from rosellm.roserlhf.environment.base import Script, ToolEnvironment
from rosellm.roserlhf.environment.tools import tool
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.rollout.script import ScriptedEngine


class Count(ToolEnvironment):
    """Asks for a number and tells the next one; stops at three."""

    @staticmethod
    def make_task(rng: random.Random) -> dict[str, Any]:
        return {"first": rng.randint(0, 0)}

    def prompt(self) -> str:
        return f"from {self.task.payload['first']}"

    @tool
    def next(self, number: int) -> str:
        if number == 2:
            self.finish()
        return str(number + 1)

    def score(self) -> dict[str, float | None]:
        return {"correct": float(self.finished)}

    def demonstrate(self, rng: random.Random, *, faulty: bool) -> Script:
        number = "0"
        for _ in range(1 if faulty else 3):
            number = yield f"next({number})"


def scripted(script: Script | None = None, **limits: Any) -> Any:
    environment = Count()
    codec = codec_of(environment)
    engine = ScriptedEngine(environment, codec, script or environment.demonstrate(random.Random(0), faulty=False))
    return play(environment, engine, codec=codec, task=Count.task_from({"first": 0}), **limits), codec


def test_a_script_hears_each_observation_and_speaks_with_certainty() -> None:
    episode, codec = scripted()
    assert [codec.text(action.token_ids) for action in episode.actions] == ["next(0)<end>", "next(1)<end>", "next(2)<end>"]
    assert {logprob for action in episode.actions for logprob in action.old_logprobs} == {0.0}
    assert episode.behavior_policy_versions == ("script",)
    assert (episode.ending, episode.reward_totals()) == ("terminated", {"correct": 1.0})


def test_a_script_may_be_cut_by_the_turn_budget() -> None:
    assert scripted(max_turns=2)[0].ending == "truncated"


def test_a_script_that_is_over_before_its_episode_is_an_error_of_its_author() -> None:
    rule = "Count.demonstrate must yield a reply for every turn until the episode ends or its turns are used up, got none after '1'"
    with pytest.raises(RangeError) as raised:
        scripted(Count().demonstrate(random.Random(0), faulty=True))
    assert str(raised.value) == rule


def test_a_line_that_does_not_fit_is_not_cut() -> None:
    with pytest.raises(
        RangeError, match=r"Count.demonstrate must fit the 7 tokens left, got 'next\(0\)' of 8; raise collect.max_turn"
    ):
        scripted(max_turn_tokens=7)


def test_a_script_has_no_weights() -> None:
    environment = Count()
    engine = ScriptedEngine(environment, codec_of(environment), iter(()))  # type: ignore[arg-type]
    with pytest.raises(RangeError, match="policy must not be published to a script, got 'v1'"):
        run(engine.publish(PolicyHandle("v1", {})))
