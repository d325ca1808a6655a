"""One episode as credit sees it: `records, root first → turns, rewards, ending of the whole`.

Most episodes leave one record. Where a template rewrote the conversation, or a generation was cut and continued, there are more:
one rollout all the same, one member of its group, whose rewards add up and whose advantage is that of every token in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rosellm.roserlhf import checks
from rosellm.roserlhf.batching.rows import Row, row_of
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.trajectory import Ending, Failure, PolicyAction, TokenSpan, Trajectory, TransitionRecord

_GOES_ON = ("rewrite", "compaction", "continuation")


@dataclass(frozen=True)
class Rollout:
    """The records of one episode, in order; the root (or the branch) first.

    Example:
        >>> from rosellm.roserlhf.batching.rollout import rollouts_of
        >>> root = Trajectory("a", "task", "shop-1", "tok", group_id="g")
        >>> root.append(PolicyAction(0, [5], [-0.1], "v1", ""), TransitionRecord(0, None, {"wage": 0.5}, handed_off=True))
        >>> link = ParentLink("a", 1, "rewrite")
        >>> end = Trajectory("a/rewrite-1", "task", "shop-1", "tok", prompt=[CopySpan("a", 0, 1)], parent=link)
        >>> end.append(PolicyAction(1, [6], [-0.2], "v1", ""), TransitionRecord(1, None, {"wage": 1.0}, terminated=True))
        >>> (rollout,) = rollouts_of([root, end])
        >>> rollout.trajectory_id, rollout.group_id, rollout.reward_totals(), rollout.ending
        ('a', 'g', {'wage': 1.5}, 'terminated')
    """

    records: tuple[Trajectory, ...]
    """At least one."""
    contexts: Mapping[str, Sequence[TokenSpan]] = field(default_factory=dict)
    """By record: everything in front of its first action, for a record that does not hold it itself."""
    left_out: str | None = None
    """Why it has no part in its group though it is scored; None if it has one."""

    @property
    def root(self) -> Trajectory:
        """The record that the episode began with."""
        return self.records[0]

    @property
    def trajectory_id(self) -> str:
        """Id of the root, which names the rollout in groups and in the ledger."""
        return self.root.trajectory_id

    @property
    def task_id(self) -> str:
        """Its task."""
        return self.root.task_id

    @property
    def group_id(self) -> str | None:
        """The group it is a member of."""
        return self.root.group_id

    @property
    def trainable(self) -> bool:
        """Whether every record is."""
        return all(record.trainable for record in self.records)

    @property
    def initial_state_hash(self) -> str | None:
        """Hash of the state that the episode began in."""
        return self.root.initial_state_hash

    @property
    def first_turn(self) -> int:
        """Absolute turn of the first action."""
        return self.root.first_turn

    @property
    def turns(self) -> tuple[PolicyAction, ...]:
        """One action for each turn: of one that was cut, the part that began it."""
        return tuple(action for record in self.records for action in record.actions if not action.continues_action)

    @property
    def transitions(self) -> tuple[TransitionRecord, ...]:
        """What the environment answered, turn by turn; a last action that was cut has no answer."""
        return tuple(transition for record in self.records for transition in record.transitions)

    @property
    def sampled_tokens(self) -> int:
        """Number of sampled tokens."""
        return sum(record.sampled_tokens for record in self.records)

    @property
    def ending(self) -> Ending | None:
        """How it ended: as its last record did."""
        return self.records[-1].ending

    @property
    def failure(self) -> Failure | None:
        """Why it broke off; None if it did not."""
        return self.records[-1].failure

    @property
    def is_unscored(self) -> bool:
        """Whether the infrastructure failed anywhere in it."""
        return any(record.is_unscored for record in self.records)

    def reward_totals(self) -> dict[str, float | None]:
        """Sum each reward component over all turns; None if any of them is not scored, because None is not 0."""
        totals: dict[str, float | None] = {}
        for record in self.records:
            for name, value in record.reward_totals().items():
                before = totals.get(name, 0.0)
                totals[name] = None if before is None or value is None else before + value
        return totals

    def rows(self) -> list[Row]:
        """Lay out every record as a row of its own.

        Raises:
            RecordError: the context of a record stands in another one and was not handed in.
        """
        first, *others = [row_of(record, context=self.contexts.get(record.trajectory_id)) for record in self.records]
        return [first, *(replace(row, part_of=first.trajectory_id) for row in others)]


Episode = Trajectory | Rollout
"""A rollout, or the one record that is one."""


def as_rollout(episode: Episode) -> Rollout:
    """Take a record that is a rollout of its own as one."""
    return episode if isinstance(episode, Rollout) else Rollout((episode,))


def connected(records: Iterable[Trajectory]) -> list[Trajectory]:
    """Keep the records that begin an episode or go on with one that is kept; for readers, who show what there is."""
    kept: dict[str, Trajectory] = {}
    for record in records:
        link = record.parent
        if record.is_rollout or (link is not None and link.kind in _GOES_ON and link.record_id in kept):
            kept[record.trajectory_id] = record
    return list(kept.values())


def rollouts_of(records: Iterable[Trajectory], *, contexts: Mapping[str, Sequence[TokenSpan]] | None = None) -> list[Rollout]:
    """Put the records of each episode together.

    Args:
        records: those of one episode in order, the root before what goes on with it.
        contexts: by record, for those that do not hold their context themselves; needed for rows only.

    Returns:
        Rollouts in the order of their roots.

    Raises:
        RecordError: a record goes on with one that is not among those before it, or is a subagent, which has no turns of the
            rollout's own.
    """
    found: dict[str, list[Trajectory]] = {}
    heads: dict[str, str] = {}
    for record in records:
        if record.is_rollout:
            head = record.trajectory_id
        else:
            assert record.parent is not None
            if record.parent.kind not in _GOES_ON:
                rule = "be a root, a branch, or go on with one before it"
                raise checks.fail(RecordError, f"trajectory {record.trajectory_id!r}", rule, f"a {record.parent.kind}")
            head = heads.get(record.parent.record_id, "")
            if not head:
                rule, got = "follow the record that it goes on with", f"{record.parent.record_id!r} not before it"
                raise checks.fail(RecordError, f"trajectory {record.trajectory_id!r}", rule, got)
        if record.trajectory_id in heads:
            raise checks.fail(RecordError, "records", "have different ids", f"{record.trajectory_id!r} twice")
        heads[record.trajectory_id] = head
        found.setdefault(head, []).append(record)
    return [Rollout(tuple(parts), contexts or {}) for parts in found.values()]
