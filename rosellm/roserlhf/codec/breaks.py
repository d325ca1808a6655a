"""Where and why a template's rendering of a conversation leaves the ids that stand in the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rosellm.roserlhf.codec.protocol import BreakCause

SHOWN = 80
"""Characters shown of each side."""


def first_difference(context_ids: Sequence[int], rendered: str, decode: Callable[[Sequence[int]], str]) -> tuple[int, str, str]:
    """Find the first token whose text the rendering does not say; return its position and both texts from there on."""
    low, high = 0, len(context_ids)
    while low < high:  # the longest decoded prefix that the rendering begins with
        middle = (low + high + 1) // 2
        if rendered.startswith(decode(context_ids[:middle])):
            low = middle
        else:
            high = middle - 1
    place = len(decode(context_ids[:low]))
    return low, decode(context_ids[low : low + SHOWN])[:SHOWN], rendered[place : place + SHOWN]


def cause_of(kept: str, rendered: str) -> BreakCause:
    return "edited history"
