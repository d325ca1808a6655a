"""What credit is given, and what becomes of it: turns, states and components of records; one advantage a rollout or one a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from rosellm.roserlhf.batching.credit import group_rows, total_reward
from rosellm.roserlhf.batching.rows import Row, row_of
from rosellm.roserlhf.batching.scored import PerGroup, ScoredRollouts, scored_rollouts
from rosellm.roserlhf.batching.tensors import pad
from rosellm.roserlhf.credit.group import leave_one_out_advantages
from rosellm.roserlhf.errors import GroupError, ShapeError
from rosellm.roserlhf.trajectory import PolicyAction, TokenSpan, Trajectory, TransitionRecord

WEIGHTS = {"correct": 1.0, "cost": 0.5}


def episode(name: str, states: Sequence[str | None], costs: Sequence[float | None], *, group: str | None = "g") -> Trajectory:
    """A turn of two sampled tokens for each cost; `correct` is 1 at the end; states are those before each turn."""
    record = Trajectory(
        name, "task", "e", "h", prompt=[TokenSpan([1], "user")], group_id=group, initial_state_hash=states[0] if states else None
    )
    for turn, cost in enumerate(costs):
        last = turn == len(costs) - 1
        rewards = {"cost": cost, **({"correct": 1.0} if last else {})}
        after = states[turn + 1] if turn + 1 < len(states) else None
        shown = () if last else [TokenSpan([3], "tool")]
        answer = TransitionRecord(turn, None, rewards, last, state_hash=after, observation=shown)
        record.append(PolicyAction(turn, [7, 8], [-0.1, -0.2], "v1", ""), answer)
    return record


def laid_out(*episodes: Trajectory) -> ScoredRollouts:
    totals = [total for one in episodes if (total := total_reward(one, WEIGHTS)) is not None]
    return scored_rollouts(episodes, totals, [0] * len(episodes), WEIGHTS)


def test_records_become_rewards_components_turns_and_states() -> None:
    found = laid_out(episode("a", ["s", "t"], [-1.0, -3.0]), episode("b", ["s", "u", "t"], [0.0, -1.0, 0.0]))
    assert found.rewards.tolist() == [1 - 2.0, 1 - 0.5]
    assert found.known("components").tolist() == [[1.0, -4.0], [1.0, -1.0]]
    assert found.known("weights").tolist() == [1.0, 0.5]
    assert found.known("lengths").tolist() == [4, 6]
    assert found.known("turn_rollouts").tolist() == [0, 0, 1, 1, 1]
    assert found.known("turn_rewards").tolist() == [-0.5, 1 - 1.5, 0.0, -0.5, 1.0]
    # the state in which a turn began: s t | s u t
    assert found.known("turn_states").tolist() == [0, 1, 0, 2, 1]
    sums = torch.zeros(2, dtype=torch.float64).index_add(0, found.known("turn_rollouts"), found.known("turn_rewards"))
    assert torch.equal(sums, found.rewards)


def test_a_state_that_is_not_known_equals_no_other() -> None:
    found = laid_out(episode("a", ["s", None], [0.0, 0.0]), episode("b", ["s", None], [0.0, 0.0]))
    assert found.known("turn_states").tolist() == [0, 1, 0, 2]
    nothing = laid_out(episode("a", [], [0.0]), episode("b", [], [0.0]))
    with pytest.raises(GroupError, match=r"turn_states must be known .*state_key\(\) name the states"):
        nothing.known("turn_states")


def test_without_weights_only_totals_are_known() -> None:
    found = scored_rollouts([episode("a", ["s"], [0.0]), episode("b", ["s"], [0.0])], [1.0, 0.0], [0, 0], None)
    assert (found.components, found.weights, found.turn_rewards) == (None, None, None)
    with pytest.raises(GroupError, match="components must be known to this credit function, got None; give the weights"):
        found.known("components")


def per_turn(scored: ScoredRollouts) -> Tensor:
    return torch.arange(len(scored.known("turn_rollouts"))).double()


def rows_of(episodes: Sequence[Trajectory], credit: Any, *, drop: bool = False) -> list[Row]:
    rewards = [total_reward(one, WEIGHTS) for one in episodes]
    return group_rows(episodes, rewards, credit, drop_uniform=drop, weights=WEIGHTS)


def test_every_turn_has_the_advantage_that_credit_gave_it() -> None:
    # the third one is unscored, so credit sees turns of the first and the last only
    episodes = [episode("a", [], [0.0, 0.0]), episode("b", [], [None, 0.0]), episode("c", [], [0.0, 0.0, 0.0])]
    one, unscored, other = rows_of(episodes, per_turn)
    assert (one.advantage, unscored.advantage, other.advantage) == ((0.0, 1.0), None, (2.0, 3.0, 4.0))
    # user 7 8 tool 7 8 tool 7 8
    assert other.token_advantages() == [0.0, 2.0, 2.0, 0.0, 3.0, 3.0, 0.0, 4.0, 4.0]
    assert [other.advantage_of(turn) for turn in range(3)] == [2.0, 3.0, 4.0]
    batch = pad([one, unscored, other])
    assert batch.advantages[0].tolist() == [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert batch.advantages[1, :6].isnan().all()
    assert batch.advantages[2].tolist() == other.token_advantages()


def test_a_row_of_a_branch_counts_its_turns_from_where_it_begins() -> None:
    rows = [Row("b", "g", (1, 7, 3, 8), (False, True, False, True), (False, True, False, True), (0.0,) * 4, (-1, 4, -1, 5))]
    branch = Row(**{**vars(rows[0]), "advantage": (0.25, -0.5)})
    assert (branch.advantage_of(4), branch.advantage_of(5)) == (0.25, -0.5)
    assert branch.token_advantages() == [0.0, 0.25, 0.0, -0.5]


def test_a_row_has_one_advantage_for_all_its_tokens_or_none() -> None:
    one, _ = rows_of([episode("a", [], [0.0, 0.0]), episode("b", [], [-2.0])], PerGroup(leave_one_out_advantages))
    assert one.token_advantages() == [0.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    bare = row_of(episode("a", [], [0.0]))
    assert bare.advantage_of(0) is None
    assert all(value != value for value in bare.token_advantages())


def test_a_group_is_uniform_if_all_advantages_of_its_turns_are_equal() -> None:
    episodes = [episode(name, [], [0.0] * 2, group=name[0]) for name in ("a1", "b1", "a2", "b2")]  # all totals are equal

    def credit(scored: ScoredRollouts) -> Tensor:
        return torch.tensor([0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)

    rows = rows_of(episodes, credit, drop=True)
    assert [row.excluded for row in rows] == [{"uniform group": 4}, {}, {"uniform group": 4}, {}]
    assert rows[0].advantage == (0.0, 0.0)  # the ledger says what it would have been


@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_credit_is_one_advantage_a_rollout_or_a_turn(count: int) -> None:
    episodes = [episode("a", [], [0.0, 0.0]), episode("b", [], [0.0, 0.0, 0.0])]
    with pytest.raises(ShapeError, match=rf"credit must return one advantage for each of 2 rewards or 5 turns, got \({count},\)"):
        rows_of(episodes, lambda scored: torch.zeros(count))


def test_the_order_of_records_does_not_matter_to_credit_per_group() -> None:
    scored = ScoredRollouts.of(torch.tensor([1.0, 5.0, 0.0, 7.0, 2.0]), torch.tensor([4, 0, 4, 0, 4]))
    credit = PerGroup(leave_one_out_advantages)
    order = torch.tensor([3, 0, 4, 1, 2])
    shuffled = ScoredRollouts.of(scored.rewards[order], scored.group_ids[order])
    assert torch.equal(credit(shuffled), credit(scored)[order])
    assert credit(scored).tolist() == [0.0, -2.0, -1.5, 2.0, 1.5]
