"""What a policy saw: `records in order -> lines of spans -> the context of any action, token by token`.

A record and its continuations are one line, each adding its spans behind those of the one before; a branch begins a line behind a
part of another; a compaction, subagent or rewrite begins a line with its own prompt, copies resolved. So a context is "the first n
spans of a line": no walk to the root is ever repeated, however long the chain.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import chain

from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.store.forest.links import last_turn, leads_on
from rosellm.roserlhf.trajectory import CopySpan, PolicyAction, TokenSpan, Trajectory, VersionSpan


@dataclass(frozen=True, slots=True)
class ContextSpan(TokenSpan):
    """Context ids and where they come from; `policy` is True where a policy sampled them, which makes them no less context."""

    _: KW_ONLY
    record_id: str
    """The record that stores the ids; of a copy, the record at the end of the chain of copies."""
    start: int
    """Position of the first id in that record's own row."""
    turn: int | None = None
    """Absolute turn of the action or observation; None in a prompt."""
    version_spans: tuple[VersionSpan, ...] = ()
    """Who sampled these ids, tiling them; `()` where nobody did, or where another record only says that a policy did."""


@dataclass(slots=True, eq=False)
class _Line:
    """Spans behind the first `prefix_spans` spans of another line."""

    prefix: _Line | None = field(default=None, repr=False)
    prefix_spans: int = 0
    prefix_tokens: int = 0
    gap: tuple[int, str] | None = None
    """Number of spans before the first place where ids are missing, and what is missing there."""
    spans: list[ContextSpan] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """Tokens up to the end of each span, from the beginning of the whole context."""

    def tokens(self, count: int) -> int:
        """Count the tokens of the first `count` spans and of everything in front of them."""
        return self.ends[count - 1] if count else self.prefix_tokens

    def add(self, span: ContextSpan) -> None:
        self.ends.append(self.tokens(len(self.spans)) + len(span.token_ids))
        self.spans.append(span)

    def miss(self, what: str) -> None:
        self.gap = self.gap or (len(self.spans), what)

    def missing(self, count: int) -> str | None:
        """Name what is missing in front of span `count`, if anything."""
        return None if self.gap is None or count < self.gap[0] else self.gap[1]

    def first(self, count: int) -> tuple[ContextSpan, ...]:
        """Gather the first `count` spans and everything in front of them."""
        parts = []
        line = self
        while line.prefix is not None:
            parts.append(line.spans[:count])
            line, count = line.prefix, line.prefix_spans
        parts.append(line.spans[:count])
        return tuple(chain.from_iterable(reversed(parts)))


@dataclass(slots=True, eq=False)
class _Place:
    """Where a record's own spans stand in its line, counted in spans."""

    line: _Line
    first: int
    first_turn: int
    actions: list[int] = field(default_factory=list)
    end: int = 0

    def before(self, turn: int) -> int:
        """Count the spans in front of the action of `turn`, or of what would come next."""
        offset = turn - self.first_turn
        return self.actions[offset] if offset < len(self.actions) else self.end


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """Everything in front of one action, in order; a view of the `Forest` that gave it."""

    record_id: str
    """The record that the action belongs to."""
    turn: int
    """Absolute turn of the action."""
    _line: _Line = field(repr=False)
    _count: int = field(repr=False)

    @property
    def spans(self) -> tuple[ContextSpan, ...]:
        """The spans: ids, role, content flags, and who sampled them."""
        return self._line.first(self._count)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The exact ids."""
        return tuple(chain.from_iterable(span.token_ids for span in self.spans))

    @property
    def tokens(self) -> int:
        """Number of ids, without walking them."""
        return self._line.tokens(self._count)


class Lineage:
    """Contexts of all records of a run."""

    def __init__(self, records: Mapping[str, Trajectory], order: Iterable[str]) -> None:
        """Lay out the lines of `records`, whose links hold together, in an order in which what a record stands on comes first."""
        self._places: dict[str, _Place] = {}
        for record_id in order:
            record = records[record_id]
            place = self._places[record_id] = self._begin(record)
            self._fill(place, record)

    def context(self, record: Trajectory, turn: int | None) -> Context:
        """Give the context of an action, or of the first one.

        Raises:
            RecordError: the record has no such turn, nothing leads on to it, or ids in front of it were not recorded.
        """
        first, end = record.first_turn, last_turn(record)
        last = end if leads_on(record) else end - 1
        wanted = first if turn is None else plain.natural(turn, "turn")
        if not first <= wanted <= last:
            rule = f"lie in the turns [{first}, {last}] that {record.trajectory_id!r} leads to"
            raise fail(RecordError, "turn", rule, wanted, fix="ask the record that owns the turn")
        place = self._places[record.trajectory_id]
        count = place.before(wanted)
        missing = place.line.missing(count)
        if missing is not None:
            what = f"the ids in front of turn {wanted} of {record.trajectory_id!r}"
            raise fail(RecordError, what, "all be recorded", f"none for {missing}")
        return Context(record.trajectory_id, wanted, place.line, count)

    def _begin(self, record: Trajectory) -> _Place:
        if record.parent is None or record.parent.kind not in ("branch", "continuation"):
            return _Place(_Line(), 0, record.first_turn)
        parent = self._places[record.parent.record_id]
        if record.parent.kind == "continuation":
            return _Place(parent.line, parent.end, record.first_turn)
        count = parent.before(record.parent.turn)
        missing = parent.line.missing(count)
        gap = None if missing is None else (0, missing)
        return _Place(_Line(parent.line, count, parent.line.tokens(count), gap), 0, record.first_turn)

    def _fill(self, place: _Place, record: Trajectory) -> None:
        name, line = record.trajectory_id, place.line
        base = line.tokens(place.first)
        if not record.prompt and (record.parent is None or record.parent.kind not in ("branch", "continuation")):
            line.miss(f"the prompt of {name!r}")
        for span in record.prompt:
            for piece in self._copied(span) if isinstance(span, CopySpan) else [_shown(span, name, _here(line) - base, None)]:
                line.add(piece)
        for i, action in enumerate(record.actions):
            place.actions.append(len(line.spans))
            line.add(_sampled(action, name, _here(line) - base))
            if i == len(record.transitions):
                break
            for span in record.transitions[i].observation:
                line.add(_shown(span, name, _here(line) - base, action.turn))
            if not record.transitions[i].observation:
                line.miss(f"the observation of turn {action.turn} of {name!r}")
        place.end = len(line.spans)

    def _copied(self, copy: CopySpan) -> Iterator[ContextSpan]:
        place = self._places[copy.record_id]
        line, base = place.line, place.line.tokens(place.first)
        low, high = base + copy.start, base + copy.end
        for i in range(bisect_right(line.ends, low, place.first, place.end), place.end):
            begin, end = line.tokens(i), line.ends[i]
            if begin >= high:
                break
            if max(begin, low) < min(end, high):
                yield _cut(line.spans[i], max(begin, low) - begin, min(end, high) - begin)


def _here(line: _Line) -> int:
    return line.tokens(len(line.spans))


def _sampled(action: PolicyAction, record_id: str, start: int) -> ContextSpan:
    return ContextSpan(
        action.token_ids,
        "assistant",
        policy=True,
        images=action.images,
        record_id=record_id,
        start=start,
        turn=action.turn,
        version_spans=tuple(action.version_spans),
    )


def _shown(span: TokenSpan, record_id: str, start: int, turn: int | None) -> ContextSpan:
    return ContextSpan(
        span.token_ids, span.role, span.content_mask, span.policy, span.images, record_id=record_id, start=start, turn=turn
    )


def _cut(span: ContextSpan, start: int, end: int) -> ContextSpan:
    """Keep positions [start, end) of a span."""
    if start == 0 and end == len(span.token_ids):
        return span
    versions = [
        replace(v, start=max(v.start, start) - start, end=min(v.end, end) - start)
        for v in span.version_spans
        if v.start < end and start < v.end
    ]
    return replace(
        span,
        token_ids=span.token_ids[start:end],
        content_mask=None if span.content_mask is None else span.content_mask[start:end],
        start=span.start + start,
        version_spans=tuple(versions),
    )
