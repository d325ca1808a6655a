"""The prompt of a record that goes on where a template rewrote the conversation: `old row, new rendering → copies and new ids`.

```
row of the parent   <user> q <end> <assistant> [think …] answer <end>
rendered anew       <user> q <end> <assistant>           answer <end> <tool> 7 <end> <assistant>
prompt of the child ──────── copy ────────────           ─── copy ───  ─────── new ids ────────       all of it mask 0
```
Copies are equal id by id. The common beginning is always one; behind it, runs of 16 equal ids or more, in the same order, are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rosellm.roserlhf.codec.protocol import Spans
from rosellm.roserlhf.trajectory import CopySpan, TokenSpan

LEAST = 16
"""Ids that a copy behind the common beginning holds at least."""


def rewritten_prompt(record_id: str, row: Sequence[int], rendered: Spans) -> tuple[TokenSpan | CopySpan, ...]:
    """Write a rendering as copies of a record's row and, where it says something else, as spans of new ids.

    Args:
        record_id: the record that hands off.
        row: ids of its own row: prompt, actions and observations.
        rendered: the whole conversation as the template writes it now.

    Example:
        >>> rewritten_prompt("a", [5, 6, 7, 8], (TokenSpan([5, 6], "user"), TokenSpan([9, 8], "assistant", [False, True])))
        (CopySpan(record_id='a', start=0, end=2), TokenSpan(token_ids=(9, 8), role='assistant', content_mask=(False, True), ...
    """
    ids = [token for span in rendered for token in span.token_ids]
    prompt: list[TokenSpan | CopySpan] = []
    for source, start, end in _pieces(row, ids):
        if source is None:
            prompt += _cut(rendered, start, end)
        else:
            prompt.append(CopySpan(record_id, source, source + end - start))
    return tuple(prompt)


def _pieces(row: Sequence[int], ids: Sequence[int]) -> Iterator[tuple[int | None, int, int]]:
    """Tile `ids` with (place in the row or None, start, end)."""
    at = _equal(row, 0, ids, 0)
    if at:
        yield 0, 0, at
    places: dict[tuple[int, ...], list[int]] = {}
    for place in range(at, len(row) - LEAST + 1):
        places.setdefault((*row[place : place + LEAST],), []).append(place)
    low = fresh = at
    while at <= len(ids) - LEAST and low <= len(row) - LEAST:
        known = places.get((*ids[at : at + LEAST],), ())
        index = bisect_left(known, low)
        if index == len(known):
            at += 1
            continue
        if fresh < at:
            yield None, fresh, at
        place = known[index]
        count = _equal(row, place, ids, at)
        yield place, at, at + count
        at = fresh = at + count
        low = place + count
    if fresh < len(ids):
        yield None, fresh, len(ids)


def _equal(row: Sequence[int], place: int, ids: Sequence[int], at: int) -> int:
    """Count how far both agree from there on."""
    most = min(len(row) - place, len(ids) - at)
    return next((i for i in range(most) if row[place + i] != ids[at + i]), most)


def _cut(spans: Spans, start: int, end: int) -> Iterator[TokenSpan]:
    """Keep positions [start, end) of all spans."""
    offset = 0
    for span in spans:
        low, high = max(start - offset, 0), min(end - offset, len(span.token_ids))
        offset += len(span.token_ids)
        if low < high:
            mask = None if span.content_mask is None else span.content_mask[low:high]
            yield replace(span, token_ids=span.token_ids[low:high], content_mask=mask)
