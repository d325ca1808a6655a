"""Small forests drawn at random: all five kinds of child, cut actions, copies of copies, open ends; always legal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from oracles_forest import own_row
from record_strategies import CACHES

from rosellm.roserlhf.trajectory import (
    CopySpan,
    ParentKind,
    ParentLink,
    PolicyAction,
    TokenSpan,
    Trajectory,
    TransitionRecord,
    VersionSpan,
)

VERSIONS = ["z", "b", "y", "a"]
"""A policy table whose order is not the alphabet's."""
_ENDINGS = [None, "terminated", "truncated", "handed_off", "interrupted", "failed"]


class Grower:
    """Draws one legal record after the other."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.records: dict[str, Trajectory] = {}
        self.followed: set[str] = set()
        self.in_cut: dict[str, bool] = {}
        self.names = draw(st.permutations([f"r{i}" for i in range(24)]))

    def ids(self, least: int = 1) -> list[int]:
        return self.draw(st.lists(st.integers(0, 99), min_size=least, max_size=3))

    def span(self) -> TokenSpan:
        ids = self.ids(0)
        mask = self.draw(st.none() | st.lists(st.booleans(), min_size=len(ids), max_size=len(ids)))
        return TokenSpan(ids, self.draw(st.sampled_from(["user", "tool"])), mask, self.draw(st.booleans()))

    def copy(self) -> CopySpan:
        name = self.draw(st.sampled_from(sorted(self.records)))
        start, end = sorted(self.draw(st.tuples(*[st.integers(0, len(own_row(self.records, name)))] * 2)))
        return CopySpan(name, start, end)

    def action(self, turn: int, **fields: Any) -> PolicyAction:
        ids = self.ids()
        cut = self.draw(st.integers(0, len(ids)))
        edges = sorted({0, cut, len(ids)})
        spans = [VersionSpan(a, b, self.draw(st.sampled_from(VERSIONS)), self.draw(CACHES)) for a, b in itertools.pairwise(edges)]
        logprobs = [-self.draw(st.integers(0, 9)) / 4 for _ in ids]
        return PolicyAction(turn, ids, logprobs, spans[0].version, "", version_spans=spans, **fields)

    def grow(self, parent: ParentLink | None, endings: Sequence[str | None] = _ENDINGS) -> Trajectory:
        draw, kind = self.draw, parent and parent.kind
        prompt: list[TokenSpan | CopySpan] = []
        if kind not in ("branch", "continuation"):
            prompt = [
                self.copy() if self.records and parent and draw(st.booleans()) else self.span()
                for _ in range(draw(st.integers(1, 3)))
            ]
        record = Trajectory(
            self.names[len(self.records)],
            "task",
            "e",
            "tok",
            prompt=prompt,
            parent=parent,
            group_id=draw(st.none() | st.sampled_from("gh")) if kind in (None, "branch") else None,
            member=draw(st.none() | st.integers(0, 2)),
            trainable=draw(st.integers(0, 4)) > 0,
        )
        goes_on_with_cut = kind == "continuation" and parent is not None and self.is_cut(parent.record_id)
        self.fill(record, draw(st.sampled_from(endings)), continues_action=goes_on_with_cut)
        self.in_cut[record.trajectory_id] = goes_on_with_cut
        if parent is not None and kind in ("continuation", "compaction", "rewrite"):
            self.followed.add(parent.record_id)
        self.records[record.trajectory_id] = record
        return record

    def fill(self, record: Trajectory, ending: str | None, continues_action: bool) -> None:
        count = self.draw(st.integers(0 if ending in (None, "failed") else 1, 3))
        for i in range(count):
            last = i == count - 1
            begins: dict[str, Any] = {"continues_action": continues_action} if i == 0 else {}
            turn = record.first_turn + i
            if last and ending == "interrupted":
                record.append(self.action(turn, stop_reason="interrupted", **begins))
                continue
            ends: dict[str, Any] = {ending: True} if last and ending in ("terminated", "truncated", "handed_off") else {}
            shown = [] if ends and ending != "truncated" else [self.span() for _ in range(self.draw(st.integers(1, 2)))]
            record.append(self.action(turn, **begins), TransitionRecord(turn, None, {}, observation=shown, **ends))
        if ending == "failed":
            record.fail(self.draw(st.sampled_from(["policy", "infrastructure"])), "broke off")

    def is_cut(self, name: str) -> bool:
        record = self.records[name]
        return record.ending == "interrupted" if record.actions else self.in_cut[name]

    def links(self) -> list[ParentLink]:
        """Every place where another record may hang."""
        found: list[ParentLink] = []
        for name, record in self.records.items():
            first, end = record.first_turn, record.first_turn + len(record.actions)
            beginnings = range(first + self.in_cut[name], end + 1)
            found += [ParentLink(name, turn, "subagent") for turn in beginnings]
            found += [ParentLink(name, turn, "branch") for turn in beginnings if turn < end or record.ending in (None, "truncated")]
            if name not in self.followed and record.failure is None:
                kinds: list[ParentKind] = ["compaction", "rewrite"] if record.ending == "handed_off" else []
                found += [ParentLink(name, end, kind) for kind in kinds]
                if record.ending in (None, "interrupted"):
                    found.append(ParentLink(name, end - (record.ending == "interrupted"), "continuation"))
        return found


@st.composite
def forests(draw: st.DrawFn, *, live: bool = False) -> list[Trajectory]:
    """Draw the records of a run in any order; unless `live`, no hand-off is left without a successor."""
    grower = Grower(draw)
    grower.grow(None)
    for _ in range(draw(st.integers(0, 8))):
        links = grower.links()
        kinds = sorted({link.kind for link in links})
        kind = draw(st.sampled_from([None, *kinds]))
        grower.grow(None if kind is None else draw(st.sampled_from([link for link in links if link.kind == kind])))
    if not live:
        for name, record in list(grower.records.items()):
            if record.ending == "handed_off" and name not in grower.followed:
                link = ParentLink(name, record.first_turn + len(record.actions), "compaction")
                grower.grow(link, [None, "terminated"])
    return draw(st.permutations(list(grower.records.values())))
