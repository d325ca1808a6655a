"""The law over forests: every sampled token once, and joined actions that lose none."""

from __future__ import annotations

from collections import Counter
from typing import Any

import oracles_forest as slow
import pytest
from forest_strategies import forests
from hypothesis import given
from record_strategies import PROPERTY

from rosellm.roserlhf.batching.credit import group_rows
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.store import Forest
from rosellm.roserlhf.store.forest.law import Account, add
from rosellm.roserlhf.trajectory import (
    CopySpan,
    ParentKind,
    ParentLink,
    PolicyAction,
    StopReason,
    TokenSpan,
    Trajectory,
    TransitionRecord,
    VersionSpan,
)


def sampling(name: str, count: int, parent: tuple[str, int, ParentKind] | None = None, **fields: Any) -> Trajectory:
    """A record of one action of `count` tokens; it ends as `ending` says."""
    ending, stale = fields.pop("ending", "terminated"), fields.pop("stale", 0)
    begins = fields.pop("continues_action", False)
    prompt = fields.pop("prompt", [] if parent and parent[2] in ("branch", "continuation") else [TokenSpan([1], "user")])
    record = Trajectory(name, "task", "e", "tok", parent=ParentLink(*parent) if parent else None, prompt=prompt, **fields)
    spans = [VersionSpan(0, count - stale, "v1"), *([VersionSpan(count - stale, count, "v2", "stale")] if stale else [])]
    stop: StopReason | None = "interrupted" if ending == "interrupted" else None
    action = PolicyAction(
        record.first_turn, [7] * count, [-1.0] * count, "v1", "", version_spans=spans, stop_reason=stop, continues_action=begins
    )
    ends: dict[str, Any] = {} if ending in (None, "failed") else {ending: True}
    shown = [TokenSpan([3], "tool")] if ending in (None, "failed", "truncated") else []
    record.append(action, None if stop else TransitionRecord(action.turn, None, {}, observation=shown, **ends))
    return record


def broken(record: Trajectory, blame: Any) -> Trajectory:
    record.fail(blame, "broke off")
    return record


def test_counts_by_hand() -> None:
    forest = Forest(
        [
            sampling("a", 100, stale=30, ending="handed_off"),
            sampling("b", 50, ("a", 1, "compaction"), prompt=[CopySpan("a", 0, 101)]),  # sees a's tokens again
            sampling("c", 9, ("a", 1, "subagent"), trainable=False),
            sampling("d", 8, ("a", 0, "branch")),
            broken(sampling("e", 7, ending=None), "infrastructure"),
            broken(sampling("f", 6, ending=None), "policy"),  # a failure of the policy is data
            sampling("g", 5, ending="interrupted"),
        ]
    )
    counts = forest.counts()
    assert counts.rollouts["a"] == Account(159, 120, {"stale prefix cache": 30, "not trainable": 9})  # 70 + 50 of 100 + 50 + 9
    assert counts.records["a"] == Account(100, 70, {"stale prefix cache": 30})
    assert counts.records["b"] == Account(50, 50)
    assert [counts.rollouts[name] for name in "defg"] == [
        Account(8, 8),
        Account(7, 0, {"unscored": 7}),
        Account(6, 6),
        Account(5, 0, {"interrupted": 5}),
    ]
    reasons = {"stale prefix cache": 30, "not trainable": 9, "unscored": 7, "interrupted": 5}
    assert counts.total == Account(185, 134, reasons)  # 120 + 8 + 6 trainable


def test_what_has_no_end_yet_is_pending_while_the_run_goes_on() -> None:
    records = [sampling("a", 5, stale=2, ending="interrupted"), sampling("b", 4)]
    assert Forest(records, live=True).counts().total == Account(9, 4, {"stale prefix cache": 2}, pending=3)
    assert Forest(records).counts().total == Account(9, 4, {"stale prefix cache": 2, "interrupted": 3})
    handed = sampling("c", 3, ending="handed_off")
    assert Forest([handed], live=True).counts().total == Account(3, 0, pending=3)
    rest = sampling("d", 1, ("a", 0, "continuation"), continues_action=True)
    assert Forest([*records, rest]).counts().rollouts["a"] == Account(6, 4, {"stale prefix cache": 2})


def test_a_rollout_has_the_outcome_of_its_last_segment_and_a_subagent_its_own_end() -> None:
    root, lost = sampling("a", 5), sampling("b", 3, ("a", 1, "subagent"), ending="interrupted")
    assert Forest([root, lost]).counts().rollouts["a"] == Account(8, 5, {"interrupted": 3})
    cut, done = sampling("a", 5, ending="interrupted"), sampling("b", 3, ("a", 0, "subagent"))
    assert Forest([cut, done]).counts().rollouts["a"] == Account(8, 0, {"interrupted": 8})


def test_a_trunk_ends_in_its_branches() -> None:
    trunk = sampling("a", 5, ending=None)
    assert Forest([trunk]).counts().total.excluded == {"interrupted": 5}
    leaves = [sampling(name, 2, ("a", 1, "branch")) for name in "bc"]
    assert Forest([trunk, *leaves]).counts().total == Account(9, 9)
    early = sampling("b", 2, ("a", 0, "branch"))  # forks before the trunk's action: another outcome, not the trunk's
    assert Forest([trunk, early]).counts().records["a"] == Account(5, 0, {"interrupted": 5})


def test_an_infrastructure_failure_unscores_the_rollout_and_no_other() -> None:
    root = sampling("a", 5)
    agent = broken(sampling("b", 3, ("a", 1, "subagent"), ending=None), "infrastructure")
    branch = sampling("c", 2, ("a", 0, "branch"))
    counts = Forest([root, agent, branch]).counts()
    assert counts.rollouts == {"a": Account(8, 0, {"unscored": 8}), "c": Account(2, 2)}


@PROPERTY
@given(forests())
def test_every_sampled_token_is_counted_once(records: list[Trajectory]) -> None:
    forest = Forest(records)
    counts = forest.counts()
    found = {name: Counter({"trainable": account.trainable, **account.excluded}) for name, account in counts.records.items()}
    assert found == slow.fates({r.trajectory_id: r for r in records})
    assert all(count for account in counts.records.values() for count in account.excluded.values())
    assert counts.total == add(counts.rollouts.values()) == add(counts.records.values())
    assert counts.total.sampled == sum(r.sampled_tokens for r in records)
    joined = [a for r in forest.rollouts for a in forest.joined_actions(r.trajectory_id)]
    agents = [a for r in records if r.parent and r.parent.kind == "subagent" for a in forest.joined_actions(r.trajectory_id)]
    parts = [id(part) for action in [*joined, *agents] for part in action.parts]
    assert sorted(parts) == sorted(id(action) for r in records for action in r.actions)
    for action in [*joined, *agents]:
        assert len(action.token_ids) == len(action.behaviour_logprobs) == action.version_spans[-1].end
        assert (action.transition is None) == (action.parts[-1].stop_reason == "interrupted")


def test_the_reasons_are_those_of_the_rows() -> None:
    records = [
        sampling("a", 5, stale=2),
        sampling("b", 4, trainable=False),
        broken(sampling("c", 3, ending=None), "infrastructure"),
    ]
    rows = group_rows(records, [1.0, 1.0, None], lambda scored: scored.rewards, drop_uniform=False)
    counts = Forest(records).counts().records
    for row in rows[1:]:  # a's trainable tokens are alone in their group, which is the batch's reason
        assert (row.trained, row.excluded) == (counts[row.trajectory_id].trainable, counts[row.trajectory_id].excluded)
    assert rows[0].excluded == {"stale prefix cache": 2, "alone in its group": counts["a"].trainable}


def test_an_account_that_does_not_balance_is_refused() -> None:
    with pytest.raises(RecordError, match="sampled must equal trainable \\+ excluded \\+ pending, got 5 and 4"):
        Account(5, 3, {"late": 1})
