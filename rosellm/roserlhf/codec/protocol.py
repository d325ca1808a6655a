"""The seam between messages and ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure, TokenSpan

Spans = tuple[TokenSpan, ...]
"""Context ids by message, glue included; none of them sampled, so all of them carry policy mask 0."""


class Codec(Protocol):
    """One tokenizer with one chat format."""

    stop_ids: tuple[int, ...]
    """Ids that end an assistant turn; sampled, so they carry policy mask 1."""
    tokenizer_hash: str
    """Identity of vocabulary and format."""

    def render(self, messages: Sequence[Message]) -> Spans:
        """Turn the first messages into ids, generation prompt included. Hostile text never becomes a control id."""
        ...

    def extend(self, context_ids: Sequence[int], new_messages: Sequence[Message]) -> Spans:
        """Turn what follows a sampled reply into ids: glue of the template, the new messages, the generation prompt.

        Only the new messages are tokenised: the context is looked at (did the reply end with a stop id?), never re-encoded.
        """
        ...

    def parse(self, token_ids: Sequence[int]) -> ParsedAction | ParseFailure:
        """Read the tool calls of one reply."""
        ...

    def text(self, token_ids: Sequence[int]) -> str:
        """Decode ids for people; never for the model."""
        ...
