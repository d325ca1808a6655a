"""The seam between messages and ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure, TokenSpan

Spans = tuple[TokenSpan, ...]
"""Context ids by message, glue included; none of them sampled, so all of them carry policy mask 0."""

BreakCause = Literal["reasoning stripped", "BPE drift", "call re-serialised", "compaction", "sub-agent", "retry", "edited history"]
"""Why a prompt is not an extension of the context before it."""


@dataclass(frozen=True)
class PrefixBreak:
    """The template's own rendering of a conversation does not begin with the ids that stand in the context."""

    position: int
    """First position at which both differ."""
    kept: str
    """What the context says from there on, decoded, shortened."""
    rendered: str
    """What the template says from there on, decoded, shortened."""
    cause: BreakCause
    """Why."""
    spans: Spans
    """The whole conversation as the template renders it, generation prompt included: the prompt of the record that goes on."""


class Codec(Protocol):
    """One tokenizer with one chat format and the schemas of the tools."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end an assistant turn; sampled, so they carry policy mask 1."""
        ...

    @property
    def tokenizer_hash(self) -> str:
        """Identity of vocabulary and format."""
        ...

    def for_tools(self, tools: Sequence[Mapping[str, Any]]) -> Self:
        """Return the same codec for other tools, given by their plain JSON schemas; itself if they are its own already."""
        ...

    def render(self, messages: Sequence[Message]) -> Spans:
        """Turn the first messages into ids, generation prompt included. Hostile text never becomes a control id."""
        ...

    def extend(
        self, context_ids: Sequence[int], messages: Sequence[Message], new_messages: Sequence[Message]
    ) -> Spans | PrefixBreak:
        """Turn what follows a sampled reply into ids: the template's glue after it, the new messages, the generation prompt.

        Args:
            context_ids: everything so far; looked at (did the reply end with a stop id?), never encoded again.
            messages: what the context says, the reply as its last message, an assistant's, with its text as it was sampled.
            new_messages: what follows.
        """
        ...

    def parse(self, token_ids: Sequence[int]) -> ParsedAction | ParseFailure:
        """Read the tool calls of one reply. Whatever was sampled, this does not raise."""
        ...

    def reply(self, text: str) -> tuple[int, ...]:
        """Encode a scripted reply, its stop id included: `name(argument, …)` is written as a call in the codec's own format."""
        ...

    def reply_text(self, token_ids: Sequence[int]) -> str:
        """Decode one reply as the content of an assistant's message: without its stop id."""
        ...

    def text(self, token_ids: Sequence[int]) -> str:
        """Decode ids for people; never for the model."""
        ...
