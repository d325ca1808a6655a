"""A chat message: what environment and codec exchange."""

from __future__ import annotations

from dataclasses import dataclass

from rosellm.roserlhf.record import plain


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, before any tokenizer saw it."""

    role: str
    """`system`, `user`, `assistant` or `tool`."""
    content: str
    """The text; whatever it holds, it is never read as control markup."""
    name: str | None = None
    """Tool that a `tool` message comes from, for templates that say so."""
    call_id: str | None = None
    """Call that a `tool` message answers, for templates that say so."""

    def __post_init__(self) -> None:
        plain.name(self.role, "role")
        plain.text(self.content, "content")
        plain.optional(plain.text, name=self.name, call_id=self.call_id)
