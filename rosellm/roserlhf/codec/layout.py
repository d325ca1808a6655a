"""Where in a rendered conversation each message stands, and which part of it is body, which scaffold.

A *skeleton* is the same conversation with every content replaced by one character: what remains between those characters is what
the template writes. Laid against the real rendering, it says where the contents are, however the template trimmed or quoted them.

```
skeleton   "①user\\nα②\\n①tool\\nβ②\\n①assistant\\n"
rendered   "①user\\nHow much?②\\n①tool\\n17②\\n①assistant\\n"
sections   user: body [6, 15) of [0, 17)    tool: body [23, 25) of [17, 27)    assistant: no body, [27, 38)
```
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.protocol import Spans
from rosellm.roserlhf.errors import TemplateError
from rosellm.roserlhf.trajectory import TokenSpan

_FIRST_PLACEHOLDER = 0xF0000
_PLACEHOLDER = re.compile("[\U000f0000-\U000ffffd]")


def placeholder(place: int) -> str:
    """The character that stands for the content of the message at a place."""
    return chr(_FIRST_PLACEHOLDER + place % 0xFFFE)


@dataclass(frozen=True)
class Section:
    """Positions of one message in a rendered text; the generation prompt is one without a body."""

    role: str
    start: int
    end: int
    body: tuple[int, int]


def sections(
    text: str,
    skeleton: str,
    *,
    roles: Sequence[str],
    contents: Sequence[str],
    closings: Mapping[str, str],
    controls: Container[str],
) -> list[Section]:
    """Lay a skeleton against a rendered conversation that ends with a generation prompt.

    Args:
        text: the rendered conversation.
        skeleton: the same with `placeholder(i)` for content `i`.
        roles: of the messages.
        contents: of the messages; one that the template quoted or cut is found between its scaffolds instead.
        closings: role → what the template writes after its content when it is the last message.
        controls: the characters that stand in for control tokens; where no closing is known a message ends before the last of them.

    Returns:
        One section for each message, then one for the generation prompt; together they cover the text.

    Raises:
        TemplateError: the template leaves a message out that no policy wrote.
    """
    scaffolds = _PLACEHOLDER.split(skeleton)
    shown = {ord(found) - _FIRST_PLACEHOLDER: at for at, found in enumerate(_PLACEHOLDER.findall(skeleton))}
    found: list[Section] = []
    start = cursor = 0
    for place, (role, content) in enumerate(zip(roles, contents, strict=True)):
        at = shown.get(place)
        if at is None:
            if content and role != "assistant":  # what a policy said earlier may go, and is a break; an observation may not
                got = f"one of role {role!r}, which it leaves out"
                raise checks.fail(TemplateError, "message", "be shown by the chat template", got)
            found.append(Section(role, start, start, (start, start)))
            continue
        before, after = scaffolds[at], scaffolds[at + 1]
        body = _body(text, cursor, content, before, after, last=at == len(shown) - 1)
        cursor = body[1]
        end = cursor + _closing(after, closings.get(role), controls)
        found.append(Section(role, start, end, body))
        start = end
    found.append(Section("assistant", start, len(text), (len(text), len(text))))
    return found


def _body(text: str, cursor: int, content: str, before: str, after: str, *, last: bool) -> tuple[int, int]:
    """Find a content that stands between two scaffolds, the first of which begins at the cursor."""
    # where the template writes another scaffold around this very content, the content says where it is
    start = cursor + len(before) if text.startswith(before, cursor) else max(cursor, text.find(content.strip(), cursor))
    for said in (content, content.strip()):
        end = start + len(said)
        if text.startswith(said, start) and text.startswith(after, end) and (not last or end + len(after) == len(text)):
            return start, end
    end = len(text) - len(after) if last and text.endswith(after) else text.find(after, start)
    return (start, end) if end >= start else (start, start)


def _closing(scaffold: str, closing: str | None, controls: Container[str]) -> int:
    """Tell how much of what stands between two contents belongs to the first of them."""
    if closing is not None:
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(scaffold, closing, strict=False)))
    return next((place for place in range(len(scaffold) - 1, -1, -1) if scaffold[place] in controls), 0)


def spans(
    ids: Sequence[int], places: Sequence[tuple[int, int]], found: Sequence[Section], text: str, controls: Container[str]
) -> Spans:
    """Cut ids at the sections of their text.

    A token belongs to the section in which it begins, and to the body if it holds a character of it; but a control token that
    swallowed blanks of the body does not.

    Args:
        ids: of the whole text.
        places: [start, end) in the text of each.
        found: the sections, in order; those without a token are left out.
        text: the text.
        controls: the characters that stand in for control tokens.
    """
    cut: list[TokenSpan] = []
    at = 0
    for section in found:
        end = len(ids) if section is found[-1] else bisect_right(places, section.end - 1, lo=at, key=lambda place: place[0])
        if end > at:
            low, high = section.body
            limit = high if text[high : high + 1] in controls else len(text)
            mask = tuple(start < high and low < stop <= limit for start, stop in places[at:end])
            cut.append(TokenSpan(tuple(ids[at:end]), section.role, mask))
        at = end
    return tuple(cut)
