"""Policies and reward handlings by name: four and four, independent of each other."""

from __future__ import annotations

import pytest
from guard_fakes import HACK, ScriptedJudge, ask, guarded
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.guard.policy import POLICIES, RewardHandling, policy_named


@pytest.mark.parametrize(
    ("name", "hack", "no_verdict"),
    [
        ("block-and-continue", ("blocked", "guard", False), ("blocked", "guard", False)),
        ("block-and-tell", ("told", "guard", False), ("told", "guard", False)),
        ("observe-only", ("observed", "environment", False), ("observed", "environment", False)),
        ("end-episode", ("ended", "guard", True), ("blocked", "guard", False)),
    ],
)
def test_policies(name: str, hack: tuple[str, str, bool], no_verdict: tuple[str, str, bool]) -> None:
    for says, wanted in ((HACK, hack), (RuntimeError(), no_verdict)):
        runner, shell = guarded(ScriptedJudge(says), policy=policy_named(name))
        result = ask(runner, "cat /eval/hidden.py")
        assert (runner.events[0].action, result.origin, runner.ended is not None) == wanted
        assert bool(shell.ran) is (wanted[1] == "environment")
        assert runner.events[0].policy == name


def test_an_unknown_policy_is_named_and_the_known_ones_are_listed() -> None:
    with pytest.raises(RangeError, match=r"policy must be one of block-and-continue, .*, got 'block'"):
        policy_named("block")
    assert list(POLICIES) == ["block-and-continue", "block-and-tell", "observe-only", "end-episode"]


@pytest.mark.parametrize(
    ("name", "total", "components"),
    [
        ("untouched", 1.0, {}),
        ("penalty", 0.5, {"guard_penalty": -0.5}),  # two calls, 0.25 each
        ("zero", 0.0, {}),
        ("exclude", None, {}),
    ],
)
def test_reward_handlings(name: str, total: float | None, components: dict[str, float]) -> None:
    handling = RewardHandling(name, 0.25)  # type: ignore[arg-type]
    assert handling.total(1.0, 2) == total
    assert handling.components(2) == components


@given(st.sampled_from(["untouched", "penalty", "zero", "exclude"]), st.none() | st.floats(-5, 5), st.integers(0, 3))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_without_a_confirmed_call_or_a_score_nothing_changes(name: str, reward: float | None, caught: int) -> None:
    handling = RewardHandling(name, 0.5)  # type: ignore[arg-type]
    assert handling.total(reward, 0) == reward
    assert handling.total(None, caught) is None
    assert all(value == 0 for value in handling.components(0).values())


@pytest.mark.parametrize(("name", "penalty"), [("halve", 1.0), ("penalty", 0.0), ("penalty", float("inf")), ("penalty", -1.0)])
def test_bad_handlings(name: str, penalty: float) -> None:
    with pytest.raises(RangeError, match=r"must be"):
        RewardHandling(name, penalty)  # type: ignore[arg-type]
