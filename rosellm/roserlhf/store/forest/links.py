"""What the records of one run must have in common: `records by id -> links that hold together`.

| kind | where it hangs | what it needs |
|---|---|---|
| branch | before any action of the parent, or at its end if the episode goes on there | nothing: it is another rollout |
| continuation | at the parent's end | a parent that is open or was cut; it goes on with the cut action |
| compaction, rewrite | at the parent's end | a parent that handed off |
| subagent | before any action, or at the end | nothing: it does not end the parent |

At most one record goes on with another. Parents and copied records came before: their links form no cycle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.trajectory import CopySpan, Trajectory, naming_trajectory

_HANDED = ("compaction", "rewrite")


def by_id(records: Iterable[Trajectory]) -> dict[str, Trajectory]:
    """Index records by id; two of one id are refused."""
    found: dict[str, Trajectory] = {}
    for i, record in enumerate(records):
        if not isinstance(record, Trajectory):
            raise fail(RecordError, f"records[{i}]", "be a Trajectory", plain.shown(record), fix="a stored one is its .trajectory")
        if record.trajectory_id in found:
            fix = "read one phase, without superseded records"
            raise fail(RecordError, "records", "have different ids", f"{record.trajectory_id!r} twice", fix=fix)
        found[record.trajectory_id] = record
    return found


def goes_on(record: Trajectory) -> bool:
    """Whether the record is the next part of its parent's episode."""
    return record.parent is not None and (record.parent.kind == "continuation" or record.parent.kind in _HANDED)


def last_turn(record: Trajectory) -> int:
    """Absolute turn of the action that would come next."""
    return record.first_turn + len(record.actions)


def leads_on(record: Trajectory) -> bool:
    """Whether a context stands behind the last action: the episode is open, or a limit ended it."""
    return record.ending in (None, "truncated")


def is_open(record: Trajectory) -> bool:
    """Whether the record has no end of its own: another one must go on with it."""
    return record.failure is None and record.ending in (None, "interrupted", "handed_off")


def check_links(records: Mapping[str, Trajectory], order: Iterable[str], *, live: bool) -> dict[str, str]:
    """Check every link between records.

    Args:
        records: by id.
        order: their ids, parents first, as `in_order` gives them.
        live: accept a record that handed off and whose next part is not there yet.

    Returns:
        For each record that another goes on with, that other.

    Raises:
        RecordError: a rule is broken; the message names the record.
    """
    following: dict[str, str] = {}
    in_cut: dict[str, bool] = {}  # whether the record begins in the middle of an action
    lengths: dict[str, int] = {}
    for record_id in order:
        record = records[record_id]
        with naming_trajectory(record_id):
            in_cut[record_id] = False
            if record.parent is not None:
                parent = records[record.parent.record_id]
                if record.parent.kind == "continuation":
                    # A continuation that was cut before its first token leaves the action where it was.
                    in_cut[record_id] = parent.ending == "interrupted" or (not parent.actions and in_cut[parent.trajectory_id])
                _check_parent(record, parent, in_cut)
                if goes_on(record):
                    _follow(record, parent.trajectory_id, following)
            _check_copies(record, records, lengths)
    for record in records.values():
        if record.ending == "handed_off" and record.trajectory_id not in following and not live:
            got, fix = f"{record.trajectory_id!r} without one", "live=True while the run goes on"
            raise fail(RecordError, "a record that handed off", "have a compaction or rewrite child", got, fix=fix)
    _check_groups(records.values())
    _check_run(records.values())
    return following


def _check_parent(child: Trajectory, parent: Trajectory, in_cut: Mapping[str, bool]) -> None:
    assert child.parent is not None
    kind, turn, end = child.parent.kind, child.parent.turn, last_turn(parent)
    where = f"{parent.trajectory_id!r}"
    if not parent.first_turn <= turn <= end:
        rule = f"lie in the turns [{parent.first_turn}, {end}] of {where}"
        raise fail(RecordError, "turn of the parent link", rule, turn, fix="link to the record that owns the turn")
    if kind == "continuation":
        _check_continuation(child, parent, cut=in_cut[child.trajectory_id])
    elif kind in _HANDED:
        if parent.ending != "handed_off" or turn != end:
            got = f"{where}, {parent.ending or 'open'} at turn {end}, and turn {turn}"
            raise fail(RecordError, f"parent of a {kind}", "have handed off just before the child's turn", got)
    elif in_cut[parent.trajectory_id] and turn == parent.first_turn:
        fix = "link to the record that holds the beginning of that action"
        raise fail(RecordError, "turn of the parent link", f"be > {turn}, where {where} goes on with a cut action", turn, fix=fix)
    elif kind == "branch" and turn == end and not leads_on(parent):
        raise fail(RecordError, "turn of the parent link", f"be < {end}, where {where} is {parent.ending}", turn)
    if kind != "subagent":
        for name in ("tokenizer_hash", "task_id"):
            if getattr(child, name) != getattr(parent, name):
                got = repr(getattr(child, name))
                raise fail(RecordError, name, f"be {getattr(parent, name)!r} as in the parent {where}", got)


def _check_continuation(child: Trajectory, parent: Trajectory, *, cut: bool) -> None:
    assert child.parent is not None
    where = f"{parent.trajectory_id!r}"
    if parent.failure is not None or parent.is_finished:
        got = f"{where}, which is {'failed' if parent.failure else parent.ending}"
        raise fail(RecordError, "parent of a continuation", "be open or interrupted", got)
    turn = last_turn(parent) - (parent.ending == "interrupted")
    if child.parent.turn != turn:
        rule = f"be {turn}, where {where} {'was cut' if cut else 'ends'}"
        raise fail(RecordError, "turn of the parent link", rule, child.parent.turn)
    if child.actions and child.actions[0].continues_action != cut:
        rule = f"be {cut}: the last action of {where} was {'' if cut else 'not '}cut"
        raise fail(RecordError, "continues_action", rule, child.actions[0].continues_action)


def _follow(record: Trajectory, parent_id: str, following: dict[str, str]) -> None:
    if parent_id in following:
        got = f"{following[parent_id]!r} before this one"
        raise fail(RecordError, "parent", f"be a record that no other goes on with ({parent_id!r})", got)
    following[parent_id] = record.trajectory_id


def _check_copies(record: Trajectory, records: Mapping[str, Trajectory], lengths: dict[str, int]) -> None:
    for i, span in enumerate(record.prompt):
        if not isinstance(span, CopySpan):
            continue
        source = records[span.record_id]
        if source.tokenizer_hash != record.tokenizer_hash:
            rule = f"be {source.tokenizer_hash!r} as in the copied {span.record_id!r}"
            raise fail(RecordError, "tokenizer_hash", rule, repr(record.tokenizer_hash))
        if span.record_id not in lengths:
            lengths[span.record_id] = own_length(source)
        if span.end > lengths[span.record_id]:
            rule = f"lie in the {lengths[span.record_id]} positions of {span.record_id!r}"
            raise fail(RecordError, f"prompt[{i}]", rule, f"[{span.start}, {span.end})")


def own_length(record: Trajectory) -> int:
    """Count the tokens of the record's own row."""
    return sum(span.end - span.start if isinstance(span, CopySpan) else len(span.token_ids) for span in record.spans())


def _check_groups(records: Iterable[Trajectory]) -> None:
    tasks: dict[str, Trajectory] = {}
    for record in records:
        if record.group_id is not None:
            first = tasks.setdefault(record.group_id, record)
            if record.task_id != first.task_id:
                rule = f"be one task's, {first.task_id!r} as in {first.trajectory_id!r}"
                raise fail(RecordError, f"trajectory {record.trajectory_id!r}: group_id", rule, repr(record.task_id))


def _check_run(records: Iterable[Trajectory]) -> None:
    first: Trajectory | None = None
    for record in records:
        if record.run_id is not None:
            first = first or record
            if record.run_id != first.run_id:
                rule = f"be one run's, {first.run_id!r} as in {first.trajectory_id!r}"
                raise fail(RecordError, f"trajectory {record.trajectory_id!r}: run_id", rule, repr(record.run_id))


def in_order(records: Mapping[str, Trajectory]) -> list[str]:
    """Order ids so that every record comes after its parent and after the records it copies.

    Raises:
        RecordError: one of those is missing, or there is no such order.
    """
    before = {record_id: _sources(record, records) for record_id, record in records.items()}
    waiting = {record_id: len(sources) for record_id, sources in before.items()}
    after: dict[str, list[str]] = {}
    for record_id, sources in before.items():
        for source in sources:
            after.setdefault(source, []).append(record_id)
    ready = deque(record_id for record_id, count in waiting.items() if not count)
    order: list[str] = []
    while ready:
        order.append(ready.popleft())
        for record_id in after.get(order[-1], ()):
            waiting[record_id] -= 1
            if not waiting[record_id]:
                ready.append(record_id)
    if len(order) < len(records):
        cycle = _cycle(before, waiting)
        rule = "come after its parent and after the records it copies"
        raise fail(RecordError, f"record {cycle[0]!r}", rule, "a cycle: " + " after ".join(map(repr, cycle)))
    return order


def _sources(record: Trajectory, records: Mapping[str, Trajectory]) -> set[str]:
    named = {} if record.parent is None else {record.parent.record_id: "parent"}
    for i, span in enumerate(record.prompt):
        if isinstance(span, CopySpan):
            named.setdefault(span.record_id, f"record_id of prompt[{i}]")
    for record_id, argument in named.items():
        if record_id not in records:
            where, fix = f"trajectory {record.trajectory_id!r}: {argument}", "store a record before those that hang on it"
            raise fail(RecordError, where, "name one of the records", repr(record_id), fix=fix)
    return {*named}


def _cycle(before: Mapping[str, set[str]], waiting: Mapping[str, int]) -> list[str]:
    """Walk back from a record that never became ready until one repeats."""
    place = min(record_id for record_id, count in waiting.items() if count)
    walk: dict[str, None] = {}
    while place not in walk:
        walk[place] = None
        place = min(source for source in before[place] if waiting[source])
    path = list(walk)
    return [*path[path.index(place) :], place]
