"""Rewards to advantages: who is compared with whom, who is left out and why, and what each group can teach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles_batching import standardised
from rollout_fakes import CODEC, Echo, play_together, says
from torch import Tensor

from rosellm.roserlhf.advantages import group_standardized_advantages, leave_one_out_advantages
from rosellm.roserlhf.batching.credit import GroupSignal, group_rows, group_signal, total_reward
from rosellm.roserlhf.batching.scored import PerGroup
from rosellm.roserlhf.environment.protocol import Task
from rosellm.roserlhf.errors import NonFiniteError, ShapeError
from rosellm.roserlhf.trajectory import PolicyAction, TokenSpan, Trajectory, TransitionRecord

PROPERTY = settings(derandomize=True, max_examples=60, deadline=None)


def episode(member: int, group: str | None = "g", *, turns: int = 1, trainable: bool = True, **components: Any) -> Trajectory:
    """A finished record: two tokens sampled a turn, the components given at the end."""
    record = Trajectory(f"{group}/{member}", "task", "e", "h", prompt=[TokenSpan([1], "user")], group_id=group, trainable=trainable)
    for turn in range(turns):
        last = turn == turns - 1
        answer = TransitionRecord(
            turn, None, components if last else {}, last, observation=() if last else [TokenSpan([3], "tool")]
        )
        record.append(PolicyAction(turn, [7, 8], [-0.1, -0.2], "v1", ""), answer)
    return record


def group(name: str | None, *rewards: float | None) -> list[Trajectory]:
    return [episode(member, name, correct=reward) for member, reward in enumerate(rewards)]


def rewards_of(episodes: Sequence[Trajectory]) -> list[float | None]:
    return [total_reward(e, {"correct": 1.0}) for e in episodes]


def advantages(
    episodes: Sequence[Trajectory], credit: Any = group_standardized_advantages, *, drop: bool = True
) -> list[float | None]:
    rows = group_rows(episodes, rewards_of(episodes), PerGroup(credit), drop_uniform=drop)
    assert [row.trajectory_id for row in rows] == [e.trajectory_id for e in episodes]
    return [None if row.advantage is None else round(single(row.advantage), 5) for row in rows]


def single(advantage: float | tuple[float, ...] | None) -> float:
    """The advantage of a row that has one for all its turns."""
    assert isinstance(advantage, float)
    return advantage


def test_a_total_is_the_weighted_sum_of_the_components_over_all_turns() -> None:
    record = Trajectory("t", "task", "e", "h", prompt=[TokenSpan([1], "user")])
    record.append(
        PolicyAction(0, [7], [-0.1], "v1", ""),
        TransitionRecord(0, None, {"wage": 0.5, "noise": 9.0}, observation=[TokenSpan([3], "tool")]),
    )
    record.append(PolicyAction(1, [7], [-0.1], "v1", ""), TransitionRecord(1, None, {"wage": 1.5, "correct": 1.0}, True))
    # 1 · 1.0 + 0.25 · (0.5 + 1.5) = 1.5
    assert total_reward(record, {"correct": 1.0, "wage": 0.25}) == 1.5
    assert total_reward(record, {"correct": 1.0}) == 1.0
    assert total_reward(record, {}) == 0.0


@pytest.mark.parametrize("components", [{"correct": None}, {}, {"correct": 1.0, "style": None}, {"style": 1.0}])
def test_none_is_not_zero(components: dict[str, Any]) -> None:
    assert total_reward(episode(0, **components), {"correct": 1.0, "style": 0.5}) is None


def test_a_failure_of_the_infrastructure_has_no_total_whatever_was_scored() -> None:
    record = Trajectory("t", "task", "e", "h", prompt=[TokenSpan([1], "user")])
    answer = TransitionRecord(0, None, {"correct": 1.0}, True, cause="score raised OSError", blame="infrastructure")
    record.append(PolicyAction(0, [7], [-0.1], "v1", ""), answer)
    assert total_reward(record, {"correct": 1.0}) is None


def test_R16_rollouts_of_one_task_are_one_group() -> None:
    # four rollouts of one task through plan, collect and batching: ids of their own, one group
    scores = iter([1.0, 0.0, 1.0, 0.0])

    class Graded(Echo):
        def score(self) -> dict[str, float | None]:
            return {"correct": next(scores)}

    _, episodes = play_together(Graded, says(CODEC, "end(x)"), [Task("task", {})], members=4)
    assert len({e.trajectory_id for e in episodes}) == 4
    # mean 1/2, population deviation 1/2: (1 − 1/2) / (1/2) = 1
    assert advantages(episodes) == [1.0, -1.0, 1.0, -1.0]
    signal = group_signal(episodes, rewards_of(episodes), [True, False, True, False])
    assert signal == GroupSignal(total=1, all_fail=0, all_pass=0, mixed=1, unscored=0, uniform=0)


def test_groups_are_found_by_id_in_any_order() -> None:
    a, b = group("a", 1.0, 0.0), group("b", 0.0, 0.0, 1.0)
    # b: mean 1/3, deviation √2/3: −1/√2, −1/√2, √2
    assert advantages([b[0], a[1], b[2], a[0], b[1]]) == [-0.70711, -1.0, 1.41421, 1.0, -0.70711]


def test_R17_one_rollout_alone_is_left_out_and_the_others_are_not_touched() -> None:
    lonely, four = group("a", 1.0), group("b", 1.0, 0.0, 0.0, 0.0)
    rows = group_rows([*lonely, *four], rewards_of([*lonely, *four]), PerGroup(group_standardized_advantages), drop_uniform=True)
    assert (rows[0].advantage, rows[0].trained, rows[0].excluded) == (None, 0, {"alone in its group": 2})
    # mean 1/4, deviation √3/4: √3, −1/√3
    assert [round(single(row.advantage), 5) for row in rows[1:]] == [1.73205, -0.57735, -0.57735, -0.57735]
    assert advantages(four) == [1.73205, -0.57735, -0.57735, -0.57735]
    assert group_signal([*lonely, *four], rewards_of([*lonely, *four]), [True, True, False, False, False]).unscored == 1


def test_R17_without_a_group_everyone_is_alone() -> None:
    episodes = group(None, 1.0, 0.0)
    rows = group_rows(episodes, rewards_of(episodes), PerGroup(group_standardized_advantages), drop_uniform=True)
    assert [row.excluded for row in rows] == [{"alone in its group": 2}] * 2
    # an id that equals somebody's group does not join it
    named = [episode(0, "x/1", correct=1.0), Trajectory("x/1", "task", "e", "h")]
    assert group_signal(named, [1.0, 0.0], [True, False]).total == 2


def test_R20_a_trajectory_votes_once_however_many_turns_it_has() -> None:
    episodes = [episode(0, turns=3, correct=1.0), episode(1, correct=0.0)]
    # mean 1/2, deviation 1/2; by rows it would be 3/4 and √3/4: 0.577, −1.732
    assert advantages(episodes) == [1.0, -1.0]
    rows = group_rows(episodes, rewards_of(episodes), PerGroup(group_standardized_advantages), drop_uniform=True)
    assert [row.trained for row in rows] == [6, 2]
    assert {*rows[0].turns} == {-1, 0, 1, 2}  # all turns of it share the one advantage


def test_R56_an_unscored_member_leaves_its_own_group_only() -> None:
    one, two = group("a", 1.0, 0.0, None, 1.0), group("b", 0.0, 1.0, 0.0, 1.0)
    together = [x for pair in zip(one, two, strict=True) for x in pair]
    found = advantages(together)
    assert found[1::2] == advantages(two) == [-1.0, 1.0, -1.0, 1.0]
    # three members: mean 2/3, deviation √2/3: 1/√2, −√2
    assert found[::2] == [0.70711, -1.41421, None, 0.70711]
    rows = group_rows(together, rewards_of(together), PerGroup(group_standardized_advantages), drop_uniform=True)
    assert [row.excluded for row in rows[::2]] == [{}, {}, {"unscored": 2}, {}]


def test_R56_a_verifier_that_says_nan_counts_as_unscored_all_the_way() -> None:
    said = iter([1.0, 0.0, math.nan, 1.0, 0.0, 1.0, 0.0, 1.0])

    class Graded(Echo):
        def score(self) -> dict[str, float | None]:
            return {"correct": next(said)}

    _, episodes = play_together(Graded, says(CODEC, "end(x)"), [Task("a", {}), Task("b", {})], members=4)
    assert rewards_of(episodes) == [1.0, 0.0, None, 1.0, 0.0, 1.0, 0.0, 1.0]
    assert advantages(episodes) == [0.70711, -1.41421, None, 0.70711, -1.0, 1.0, -1.0, 1.0]


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_R56_a_reward_that_is_no_number_never_reaches_the_statistics(reward: float) -> None:
    episodes = group("g", 1.0, 0.0)
    with pytest.raises(NonFiniteError, match=r"reward of 'g/1' must be a finite number, got .*; None means not scored"):
        group_rows(episodes, [1.0, reward], PerGroup(group_standardized_advantages), drop_uniform=True)
    with pytest.raises(NonFiniteError, match="reward of 'g/1'"):
        group_signal(episodes, [1.0, reward], [True, False])


@pytest.mark.parametrize("rewards", [[1.0], [1.0, 0.0, 1.0], []])
def test_R55_one_reward_for_each_trajectory(rewards: list[float]) -> None:
    episodes = group("g", 1.0, 0.0)
    with pytest.raises(ShapeError, match=f"rewards must hold one for each of 2 episodes, got {len(rewards)}"):
        group_rows(episodes, rewards, PerGroup(group_standardized_advantages), drop_uniform=True)
    with pytest.raises(ShapeError, match="successes must hold one for each of 2 episodes, got 1"):
        group_signal(episodes, [1.0, 0.0], [True])


@pytest.mark.parametrize("wrong", [lambda r: r.mean(), lambda r: r[:1], lambda r: r[None]])
def test_a_credit_function_returns_one_advantage_a_member(wrong: Any) -> None:
    episodes = group("g", 1.0, 0.0, 0.0)
    with pytest.raises(ShapeError, match="credit must return one advantage for each of 3 rewards"):
        group_rows(episodes, rewards_of(episodes), PerGroup(wrong), drop_uniform=True)


@pytest.mark.parametrize("value", [0.35, 0.1, 1 / 3, 100.1, 0.0])
@pytest.mark.parametrize("credit", [group_standardized_advantages, leave_one_out_advantages])
def test_R18_a_uniform_group_has_credit_zero_and_leaves_if_asked(value: float, credit: Any) -> None:
    episodes = group("g", *[value] * 7)
    kept = group_rows(episodes, rewards_of(episodes), PerGroup(credit), drop_uniform=False)
    assert [(row.advantage, row.trained) for row in kept] == [(0.0, 2)] * 7
    dropped = group_rows(episodes, rewards_of(episodes), PerGroup(credit), drop_uniform=True)
    assert [(row.trained, row.excluded) for row in dropped] == [(0, {"uniform group": 2})] * 7


def test_a_group_that_is_uniform_without_its_unscored_members_is_uniform() -> None:
    episodes = group("g", 1.0, None, 1.0)
    rows = group_rows(episodes, rewards_of(episodes), PerGroup(group_standardized_advantages), drop_uniform=True)
    assert [row.excluded for row in rows] == [{"uniform group": 2}, {"unscored": 2}, {"uniform group": 2}]


def test_evidence_is_never_trained_and_has_no_part_in_the_statistics() -> None:
    episodes = [*group("g", 1.0, 0.0), episode(9, trainable=False, correct=1.0)]
    rows = group_rows(episodes, rewards_of(episodes), PerGroup(group_standardized_advantages), drop_uniform=True)
    assert [row.advantage for row in rows] == [pytest.approx(1.0), pytest.approx(-1.0), None]
    assert rows[2].excluded == {"not trainable": 2}


def test_the_credit_function_sees_float64_and_scored_members_only() -> None:
    seen: list[Tensor] = []

    def credit(rewards: Tensor) -> Tensor:
        seen.append(rewards)
        return rewards

    episodes = [*group("a", 1.0, None, 0.25), *group("b", None, None), *group("c", 0.5)]
    group_rows(episodes, rewards_of(episodes), PerGroup(credit), drop_uniform=False)
    assert len(seen) == 1
    assert torch.equal(seen[0], torch.tensor([1.0, 0.25], dtype=torch.float64))
    assert seen[0].dtype == torch.float64


def test_every_group_is_counted_by_what_it_can_teach() -> None:
    groups = {
        "fail": group("fail", 0.0, 0.0),
        "pass": group("pass", 1.0, 1.0),
        "mixed": group("mixed", 0.0, 1.0, None),
        "graded": group("graded", 0.0, 0.5),  # none succeeded, but they differ
        "unscored": group("unscored", None, None),
        "alone": group("alone", 1.0, None),
    }
    episodes = [e for members in groups.values() for e in members]
    successes = [None if r is None else r >= 1 for r in rewards_of(episodes)]
    signal = group_signal(episodes, rewards_of(episodes), successes)
    assert signal == GroupSignal(total=6, all_fail=2, all_pass=1, mixed=1, unscored=2, uniform=2)


def test_no_trajectories_are_no_groups() -> None:
    assert group_rows([], [], PerGroup(group_standardized_advantages), drop_uniform=True) == []
    assert group_signal([], [], []).total == 0


@PROPERTY
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c", None]), st.none() | st.sampled_from([0.0, 0.1, 0.35, 1.0, 1 / 3]), st.integers(1, 3)
        ),
        max_size=8,
    ),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_sampled_is_trained_plus_excluded_and_order_does_not_matter(
    members: list[tuple[str | None, float | None, int]], drop: bool, random: Any
) -> None:
    episodes = [episode(i, name, turns=turns, correct=reward) for i, (name, reward, turns) in enumerate(members)]
    rows = group_rows(episodes, rewards_of(episodes), PerGroup(group_standardized_advantages), drop_uniform=drop)
    for record, row in zip(episodes, rows, strict=True):
        assert record.sampled_tokens == row.sampled == row.trained + sum(row.excluded.values())
        assert (row.advantage is None) <= (row.trained == 0)  # what is trained has credit
    for name in {name for name, _, _ in members if name is not None}:
        places = [i for i, (other, reward, _) in enumerate(members) if other == name and reward is not None]
        scored = [members[i][1] or 0.0 for i in places]
        if len(scored) < 2:
            assert [rows[i].advantage for i in places] == [None] * len(scored)
        else:  # a deviation of 1/120 against its ε of 1e-8
            assert [rows[i].advantage for i in places] == pytest.approx(standardised(scored), rel=1e-5)
    order = list(range(len(episodes)))
    random.shuffle(order)
    shuffled = [episodes[i] for i in order]
    again = group_rows(shuffled, rewards_of(shuffled), PerGroup(group_standardized_advantages), drop_uniform=drop)
    assert [row.excluded for row in again] == [rows[i].excluded for i in order]
    assert [row.advantage for row in again] == pytest.approx([rows[i].advantage for i in order])
