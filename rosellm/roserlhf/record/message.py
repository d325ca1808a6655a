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

    def __post_init__(self) -> None:
        plain.name(self.role, "role")
        plain.text(self.content, "content")
