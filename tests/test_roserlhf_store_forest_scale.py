"""Long chains, wide trees and huge records: time and recursion."""

from __future__ import annotations

from least_time import least_seconds

from rosellm.roserlhf.store import Forest
from rosellm.roserlhf.store.forest.mixed_policy import per_segment_ratios
from rosellm.roserlhf.trajectory import (
    CopySpan,
    ParentKind,
    ParentLink,
    PolicyAction,
    TokenSpan,
    Trajectory,
    TransitionRecord,
)


def turn_of(record: Trajectory, *, ended: bool) -> Trajectory:
    turn = record.first_turn + len(record.actions)
    shown = [] if ended else [TokenSpan([3, 4], "tool")]
    record.append(PolicyAction(turn, [7, 8], [-1.0, -2.0], "v1", ""), TransitionRecord(turn, None, {}, ended, observation=shown))
    return record


def chain(length: int, kind: ParentKind, name: str = "") -> list[Trajectory]:
    """A root and `length - 1` records, each hanging on the one before, of one turn each."""
    records = [turn_of(Trajectory(f"{name}0", "task", "e", "tok", prompt=[TokenSpan([1, 2, 5], "user")]), ended=length == 1)]
    for i in range(1, length):
        link = ParentLink(records[-1].trajectory_id, i, kind)
        records.append(turn_of(Trajectory(f"{name}{i}", "task", "e", "tok", parent=link), ended=i == length - 1))
    return records


def test_a_chain_of_5000_continuations_does_not_recurse() -> None:
    records = chain(5000, "continuation")
    forest = Forest(records[::-1])
    # prompt 3, then 4 tokens per turn
    assert [forest.context(str(i)).tokens for i in (0, 1, 4999)] == [3, 7, 3 + 4 * 4999]
    assert len(forest.context("4999").token_ids) == 3 + 4 * 4999
    assert (forest.tree_id("4999"), forest.rollout_id("4999"), len(forest.segments("0"))) == ("0", "0", 5000)
    assert [a.turn for a in forest.joined_actions("0")] == list(range(5000))
    assert forest.counts().total.trainable == 10_000
    assert per_segment_ratios(forest.sampled("0"), ["v1"], current="v1").segments[0].end == 10_000


def test_a_chain_of_5000_branches_does_not_recurse() -> None:
    forest = Forest(chain(5000, "branch")[::-1])
    assert forest.context("4999").tokens == len(forest.context("4999").token_ids) == 3 + 4 * 4999
    assert (forest.tree_id("4999"), forest.rollout_id("4999"), len(forest.rollouts)) == ("0", "4999", 5000)
    assert forest.counts().total.trainable == 10_000
    assert "prefix" not in repr(forest.context("4999"))


def test_a_chain_of_5000_copies_does_not_recurse() -> None:
    records = [turn_of(Trajectory("0", "task", "e", "tok", prompt=[TokenSpan([1, 2, 5], "user")]), ended=True)]
    for i in range(1, 5000):
        prompt: list[TokenSpan | CopySpan] = [CopySpan(str(i - 1), 0, 3), TokenSpan([i], "user")]
        link = ParentLink("0", 0, "subagent")
        records.append(turn_of(Trajectory(str(i), "task", "e", "tok", prompt=prompt, parent=link), ended=True))
    forest = Forest(records[::-1])
    first, second = forest.context("4999").spans
    assert (first.token_ids, first.record_id, second.token_ids) == ((1, 2, 5), "0", (4999,))
    assert len(forest.members("0")) == 5000


def test_a_million_tokens_in_one_record() -> None:
    million = 1_000_000
    root = Trajectory("a", "task", "e", "tok", prompt=[TokenSpan(range(million), "user")])
    reply = PolicyAction(0, range(million), [-1.0] * million, "v1", "")
    root.append(reply, TransitionRecord(0, None, handed_off=True))
    prompt = [CopySpan("a", million - 2, million + 2), CopySpan("a", million + 5, 2 * million)]
    rest = Trajectory("b", "task", "e", "tok", parent=ParentLink("a", 1, "compaction"), prompt=prompt)
    forest = Forest([root, turn_of(rest, ended=True)])
    ids = forest.context("b").token_ids
    assert len(ids) == forest.context("b").tokens == 4 + million - 5
    assert ids[:5] == (million - 2, million - 1, 0, 1, 5)
    assert forest.counts().total.sampled == million + 2


def test_R72_contexts_of_a_long_episode_cost_as_much_per_turn_as_those_of_a_short_one() -> None:
    def seconds(length: int, chains: int) -> float:
        records = [record for c in range(chains) for record in chain(length, "continuation", f"{c}-")]

        def walk() -> None:
            forest = Forest(records)
            assert sum(forest.context(r.trajectory_id).tokens for r in records) == chains * sum(3 + 4 * i for i in range(length))

        return least_seconds(walk, 3)

    # the same 4000 records; a walk to the root for each would take 20 times as long where chains are 20 times as long
    assert seconds(2000, 2) < 4 * seconds(100, 40)
