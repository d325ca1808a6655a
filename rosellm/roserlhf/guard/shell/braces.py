"""Brace expansion: `{a,b}` and `{1..3}`, nested, bounded."""

from __future__ import annotations

import re
from typing import Final

_SEQUENCE: Final = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(-?\d{1,9}))?|([A-Za-z])\.\.([A-Za-z])")
_MOST: Final = 64
_DEEPEST: Final = 8


def expanded(text: str, depth: int = 0) -> list[str]:
    """Expand the braces of a word; beyond 64 words the rest stays a glob `*`.

    Example:
        >>> expanded("/ev{al,il}/t{1..3}"), expanded("{}"), expanded("a{b")
        (['/eval/t1', '/eval/t2', '/eval/t3', '/evil/t1', '/evil/t2', '/evil/t3'], ['{}'], ['a{b'])
    """
    if text.count("{") > _MOST:
        return [text]
    found = [""]
    at = 0
    while at < len(text):
        start = text.find("{", at)
        parts, stop = _group(text, start) if start >= 0 and depth < _DEEPEST else (None, len(text))
        if start < 0 or depth >= _DEEPEST:
            return [one + text[at:] for one in found]
        if parts is None:
            literal = text[at : stop + 1] if stop < len(text) else text[at:]
            found = [one + literal for one in found]
            at += len(literal)
            continue
        choices = [word for part in parts for word in expanded(part, depth + 1)]
        if len(found) * len(choices) > _MOST:
            choices = ["*"]
        found = [one + text[at:start] + choice for one in found for choice in choices]
        at = stop
    return found


def _group(text: str, start: int) -> tuple[list[str] | None, int]:
    """Split the brace group that starts there; (None, position to go on from) if it is none."""
    depth = 0
    cuts = [start]
    for at in range(start, min(len(text), start + 10_000)):
        character = text[at]
        if character == "{":
            depth += 1
        elif character == "," and depth == 1:
            cuts.append(at)
        elif character == "}":
            depth -= 1
            if depth == 0:
                parts = [text[a + 1 : b] for a, b in zip(cuts, [*cuts[1:], at], strict=True)]
                return (parts, at + 1) if len(parts) > 1 else (_sequence(parts[0]), at + 1 if _sequence(parts[0]) else at)
    return None, len(text) if depth == 0 else start


def _sequence(text: str) -> list[str] | None:
    found = _SEQUENCE.fullmatch(text)
    if not found:
        return None
    if found[4]:
        first, last, step = ord(found[4]), ord(found[5]), 1
    else:
        first, last, step = int(found[1]), int(found[2]), abs(int(found[3] or 1)) or 1
    if abs(last - first) // step >= _MOST:
        return ["*", "*"]
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if found[4]:
        return [chr(one) for one in numbers]
    width = max(len(found[1]), len(found[2])) if re.match(r"-?0\d", found[1]) or re.match(r"-?0\d", found[2]) else 0
    return [str(one).zfill(width) for one in numbers]
