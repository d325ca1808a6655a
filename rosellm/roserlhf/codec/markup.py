"""Control tokens in text: those that a template writes become control ids, those that a message spells stay text.

```
message          "a<|im_end|>b"       spelled by a user, a tool, …
marked           "a<M|im_end|>b"      M, a private-use character, goes through the template with it
rendered         "<|im_start|>user\\na<M|im_end|>b<|im_end|>\\n"
standing in      "①user\\na<|im_end|>b②\\n"     every unmarked control token becomes one character of its own, and M goes
```

The tokenizer then reads ①, ② (its *stand-ins*) as the control ids and everything else as text.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError

_MARKERS = tuple(map(chr, range(0xE000, 0xF900)))
_FIRST_STAND_IN = 0x10FFFD


class Standing(NamedTuple):
    """A rendered conversation in which one character stands in for every control token that the template wrote."""

    text: str
    """The text, stand-ins for control tokens included."""
    literal: tuple[int, ...] = ()
    """Positions of characters that look like a stand-in and are not: a message held that very private-use character."""

    def after(self, place: int) -> Standing:
        """Return the text from a place on."""
        return Standing(self.text[place:], tuple(at - place for at in self.literal if at >= place))

    def behind(self, text: str) -> Standing:
        """Return the text with another one before it."""
        return Standing(text + self.text, tuple(at + len(text) for at in self.literal))


class Markup:
    """The control tokens of one tokenizer.

    Args:
        tokens: their texts.
        own: those that a policy may write in its own reply, e.g. `<think>`: in an assistant's text they are control tokens.

    Raises:
        RangeError: one of them is empty.
    """

    def __init__(self, tokens: Iterable[str], own: Iterable[str] = ()) -> None:
        every = sorted({*tokens}, key=lambda token: (-len(token), token))
        if "" in every:
            raise checks.fail(RangeError, "control tokens", "be non-empty", repr(every))
        self.stand_ins = {token: chr(_FIRST_STAND_IN - place) for place, token in enumerate(every)}
        self._tokens = {mark: token for token, mark in self.stand_ins.items()}
        self._every, self._own = tuple(every), frozenset(own)
        self._spelled = _starts_of([*every, *self._tokens])
        self._spelled_by_policy = _starts_of([*(token for token in every if token not in self._own), *self._tokens])
        self._standing = re.compile(_any_of(self._tokens) or "(?!)")

    @property
    def own(self) -> frozenset[str]:
        """The tokens that a policy may write in its own reply."""
        return self._own

    def owning(self, own: Iterable[str]) -> Markup:
        """Return the same control tokens with other ones for the policy to write."""
        return Markup(self._every, own)

    @property
    def characters(self) -> Container[str]:
        """The stand-ins."""
        return self._tokens

    def marker(self, texts: Iterable[str]) -> str:
        """Return a private-use character that no text holds; the empty string when no text needs one.

        Raises:
            RangeError: the texts hold every private-use character.
        """
        held = list(texts)
        if not any(self._spelled.search(text) for text in held):
            return ""
        free = next((marker for marker in _MARKERS if not any(marker in text for text in held)), None)
        if free is None:
            raise checks.fail(RangeError, "messages", "leave one of U+E000–U+F8FF unused", "all of them")
        return free

    def mark(self, text: str, marker: str, *, policy: bool = False) -> str:
        """Put the marker into every control token that the text spells; `policy`: but for its own ones."""
        if not marker:
            return text
        return (self._spelled_by_policy if policy else self._spelled).sub(lambda found: found.group() + marker, text)

    def mark_all(self, value: Any, marker: str) -> Any:
        """Mark every string of a JSON value, names included."""
        if not marker:
            return value
        if isinstance(value, str):
            return self.mark(value, marker)
        if isinstance(value, Mapping):
            return {self.mark(key, marker): self.mark_all(item, marker) for key, item in value.items()}
        return [self.mark_all(item, marker) for item in value] if isinstance(value, (list, tuple)) else value

    def stand_in(self, rendered: str, marker: str) -> Standing:
        """Write a rendered conversation with stand-ins for its control tokens, and without the marker."""
        text = _written(self._every, marker).sub(lambda found: self.stand_ins[found.group()], rendered)
        if not marker:
            return Standing(text)
        marked = [found.start() for found in re.finditer(f"(?:{self._standing.pattern}){marker}", text)]
        plain = text.replace(marker, "")
        return Standing(plain, tuple(place - text.count(marker, 0, place) for place in marked))

    def spell(self, text: Standing) -> str:
        """Write stand-ins as the control tokens they stand for."""
        literal = {*text.literal}
        return self._standing.sub(lambda f: f.group() if f.start() in literal else self._tokens[f.group()], text.text)

    def place(self, text: Standing, spelled: int) -> int:
        """Return the place in a text after which its spelling has so many characters."""
        longer = 0
        for place, token in self.standing(text):
            if place + longer >= spelled:
                break
            longer += len(token) - 1
        return spelled - longer

    def standing(self, text: Standing) -> list[tuple[int, str]]:
        """List the control tokens of a text with their positions."""
        literal = {*text.literal}
        return [(f.start(), self._tokens[f.group()]) for f in self._standing.finditer(text.text) if f.start() not in literal]


@lru_cache(maxsize=1024)
def _written(tokens: tuple[str, ...], marker: str) -> re.Pattern[str]:
    """Match the control tokens that carry no marker."""
    pattern = _any_of(tokens)
    return re.compile(f"{pattern}(?!{marker})" if pattern and marker else pattern or "(?!)")


def _starts_of(tokens: Iterable[str]) -> re.Pattern[str]:
    """Match the first character of every token, those that overlap included."""
    pattern = _any_of(tokens)
    return re.compile(f"(?={pattern})." if pattern else "(?!)", re.DOTALL)


def _any_of(tokens: Iterable[str]) -> str:
    """Return a pattern for the longest token at a place, as a tree: a text full of `<` costs one look per character."""
    tree: dict[str, Any] = {}
    for token in tokens:
        node = tree
        for character in token:
            node = node.setdefault(character, {})
        node[""] = {}
    return _pattern(tree) if tree else ""


def _pattern(node: Mapping[str, Any]) -> str:
    parts = []
    for character, below in node.items():
        if not character:
            continue
        text = re.escape(character)
        while (
            len(below) == 1 and "" not in below
        ):  # a run without a branch is written flat: tokens are longer than a recursion is deep
            ((character, below),) = below.items()
            text += re.escape(character)
        parts.append(text + (_pattern(below) if len(below) > 1 else ""))
    whole = f"(?:{'|'.join(parts)})"
    return f"{whole}?" if "" in node else whole
