"""How the records of a run hang together: `records in any order -> Forest -> contexts, rollouts, groups, accounts`.

```
root ─ turn 0 ─ turn 1 ─ turn 2 (handed off)      rollout "root": its episode goes on in the compaction
         │         │         └─ compaction ─ turn 3
         │         └─ subagent ─ turn 0 ─ turn 1     of the same rollout, in a context of its own
         └─ branch ─ turn 1 ─ turn 2 (cut)           another rollout, of the same tree
                               └─ continuation ─ turn 2, the rest ─ turn 3
```
Plain data; every number is derived from the records, none is stored twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.store.forest.context import Context, Lineage
from rosellm.roserlhf.store.forest.joined import JoinedAction, join
from rosellm.roserlhf.store.forest.law import Account, SampledRun, account, add, sampled_runs
from rosellm.roserlhf.store.forest.links import by_id, check_links, in_order, last_turn
from rosellm.roserlhf.trajectory import ParentKind, Trajectory


@dataclass(frozen=True, slots=True)
class Accounts:
    """The law's counts: every sampled token once, however often it is copied or branched from."""

    records: Mapping[str, Account]
    """By record."""
    rollouts: Mapping[str, Account]
    """By rollout: the sums over its records."""
    total: Account
    """Of the whole run."""


class Forest:
    """All records of one run and the links between them.

    Example:
        >>> prompt = [TokenSpan([1, 2], "user")]
        >>> root = Trajectory("a", "task", "e", "tok", prompt=prompt)
        >>> root.append(PolicyAction(0, [7], [-0.5], "v1", ""), TransitionRecord(0, None, observation=[TokenSpan([3], "tool")]))
        >>> root.append(PolicyAction(1, [8], [-0.1], "v1", ""), TransitionRecord(1, None, terminated=True))
        >>> branch = Trajectory("b", "task", "e", "tok", parent=ParentLink("a", 1, "branch"))
        >>> branch.append(PolicyAction(1, [9, 9], [-2.0, -0.1], "v2", ""), TransitionRecord(1, None, terminated=True))
        >>> forest = Forest([branch, root])
        >>> forest.context("b").token_ids, forest.tree_id("b"), forest.rollout_id("b")
        ((1, 2, 7, 3), 'a', 'b')
        >>> forest.counts().total
        Account(sampled=4, trainable=4, excluded={}, pending=0)
    """

    def __init__(self, records: Iterable[Trajectory], *, live: bool = False) -> None:
        """Link records and check every rule that concerns more than one of them.

        Args:
            records: of one run, in any order; the order in which they are listed again.
            live: the run goes on, so a record may have handed off to one that is not there yet, and rollouts without an end are
                pending. By default these are all the records there will be.

        Raises:
            RecordError: the records contradict each other; the message names the record and the rule.
        """
        self._records = by_id(records)
        self._live = plain.flag(live, "live")
        self._order = in_order(self._records)
        self._following = check_links(self._records, self._order, live=live)
        self._trees: dict[str, str] = {}
        self._rollouts: dict[str, str] = {}
        self._children: dict[str, list[Trajectory]] = {}
        for record_id in self._order:
            record = self._records[record_id]
            above = None if record.parent is None else record.parent.record_id
            self._trees[record_id] = record_id if above is None else self._trees[above]
            self._rollouts[record_id] = record_id if above is None or record.is_rollout else self._rollouts[above]
            if above is not None:
                self._children.setdefault(above, []).append(record)
        for siblings in self._children.values():
            siblings.sort(key=lambda child: (child.parent.turn if child.parent else 0, child.trajectory_id))

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Trajectory]:
        return iter(self._records.values())

    def __contains__(self, record_id: object) -> bool:
        return record_id in self._records

    def __getitem__(self, record_id: str) -> Trajectory:
        """Return the record of this id.

        Raises:
            RecordError: there is none.
        """
        record = self._records.get(record_id)
        if record is None:
            raise fail(RecordError, "record_id", "name a record of the forest", plain.shown(record_id))
        return record

    @cached_property
    def rollouts(self) -> tuple[Trajectory, ...]:
        """Roots and branches."""
        return tuple(record for record in self if record.is_rollout)

    def children(self, record_id: str, kind: ParentKind | None = None) -> tuple[Trajectory, ...]:
        """List what hangs on a record, of one kind or any, by turn and id."""
        if kind is not None:
            plain.one_of(kind, "kind", ParentKind)
        found = self._children.get(self[record_id].trajectory_id, ())
        return tuple(child for child in found if kind is None or (child.parent is not None and child.parent.kind == kind))

    def branches(self, record_id: str) -> tuple[Trajectory, ...]:
        """List the rollouts that branch off a record, by turn and id."""
        return self.children(record_id, "branch")

    def tree_id(self, record_id: str) -> str:
        """Name the root above a record."""
        return self._trees[self[record_id].trajectory_id]

    def rollout_id(self, record_id: str) -> str:
        """Name the rollout of a record: the nearest root or branch, itself or above it."""
        return self._rollouts[self[record_id].trajectory_id]

    def segments(self, record_id: str) -> tuple[Trajectory, ...]:
        """Follow an episode from a record to its last: continuation after a cut, compaction or rewrite after a hand-off."""
        found = [self[record_id]]
        while (after := self._following.get(found[-1].trajectory_id)) is not None:
            found.append(self._records[after])
        return tuple(found)

    def members(self, rollout_id: str) -> tuple[Trajectory, ...]:
        """List all records of a rollout: its own segments, then those of its subagents, outer ones first.

        Raises:
            RecordError: there is no such rollout.
        """
        if not self[rollout_id].is_rollout:
            got = f"{rollout_id!r}, a record of {self.rollout_id(rollout_id)!r}"
            raise fail(RecordError, "rollout_id", "name a root or a branch", got)
        found: list[Trajectory] = []
        heads = [rollout_id]
        for head in heads:
            episode = self.segments(head)
            found += episode
            heads += [agent.trajectory_id for part in episode for agent in self.children(part.trajectory_id, "subagent")]
        return tuple(found)

    def groups(self) -> dict[str, tuple[Trajectory, ...]]:
        """List the members of each group, by member number and id; rollouts without a group are in none."""
        found: dict[str, list[Trajectory]] = {}
        for rollout in self.rollouts:
            if rollout.group_id is not None:
                found.setdefault(rollout.group_id, []).append(rollout)
        return {
            group: tuple(sorted(members, key=lambda r: (r.member is None, r.member or 0, r.trajectory_id)))
            for group, members in found.items()
        }

    def context(self, record_id: str, turn: int | None = None) -> Context:
        """Give what the policy saw before an action, exact ids.

        For a record that goes on with a cut action, what was already sampled of it is part of the context.

        Args:
            record_id: the record.
            turn: absolute turn of one of its actions, or of the one that would come next; None for its first.

        Raises:
            RecordError: no such record or turn, nothing leads on to the turn, or ids in front of it were not recorded.
        """
        return self._lineage.context(self[record_id], turn)

    @cached_property
    def _lineage(self) -> Lineage:
        return Lineage(self._records, self._order)

    def joined_actions(self, record_id: str) -> tuple[JoinedAction, ...]:
        """List the whole actions of an episode from a record on, halves of cut ones joined: credit sees each turn once."""
        return join(self.segments(record_id))

    def sampled(self, rollout_id: str) -> tuple[SampledRun, ...]:
        """Walk the sampled tokens of a rollout, in the order of its `members`, each run with the reason why it is not trained.

        Raises:
            RecordError: there is no such rollout.
        """
        members = self.members(rollout_id)
        branched = {
            branch.parent.record_id
            for member in members
            for branch in self.branches(member.trajectory_id)
            if branch.parent is not None and branch.parent.turn == last_turn(member)
        }
        return sampled_runs(members, branched=branched)

    def counts(self) -> Accounts:
        """Count every sampled token once, per record, per rollout and in total: trainable, excluded by reason, or pending."""
        runs: dict[str, list[SampledRun]] = {record.trajectory_id: [] for record in self}
        for rollout in self.rollouts:
            for run in self.sampled(rollout.trajectory_id):
                runs[run.record.trajectory_id].append(run)
        records = {name: account(found, live=self._live) for name, found in runs.items()}
        parts: dict[str, list[Account]] = {rollout.trajectory_id: [] for rollout in self.rollouts}
        for name, part in records.items():
            parts[self._rollouts[name]].append(part)
        return Accounts(records, {name: add(found) for name, found in parts.items()}, add(records.values()))
