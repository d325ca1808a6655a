"""A chat template as the codec uses it: messages -> text in which control tokens are told apart from text that spells them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from rosellm.roserlhf.codec.layout import placeholder
from rosellm.roserlhf.codec.markup import Markup, Standing
from rosellm.roserlhf.errors import TemplateError
from rosellm.roserlhf.trajectory import Message

Render = Callable[[list[dict[str, Any]], list[Any] | None, bool], str]
"""(messages, tools, with generation prompt) -> text; raises `TemplateError` with the template's own words."""

QUESTION = Message("user", "x")
"""Opens the short conversations in which replies are looked at."""


class Template:
    """A template with the tools that it shows.

    Args:
        render: the template itself.
        markup: control tokens of the tokenizer.
        tools: JSON schemas.
    """

    def __init__(self, render: Render, markup: Markup, tools: Sequence[Mapping[str, Any]]) -> None:
        self._render, self._markup = render, markup
        self._tools = [dict(tool) for tool in tools]
        self._tool_texts = list(_strings(self._tools))

    def text(self, messages: Sequence[Message], *, prompt: bool = True) -> Standing:
        """Render a conversation; `prompt`: with the generation prompt at its end."""
        texts = [text for message in messages for text in (message.content, message.name, message.call_id) if text]
        marker = self._markup.marker([*texts, *self._tool_texts])
        chat = [self._chat_message(message, marker) for message in messages]
        tools = self._markup.mark_all(self._tools, marker) or None
        return self._markup.stand_in(self._render(chat, tools, prompt), marker)

    def skeleton(self, messages: Sequence[Message], *, start: int = 0, prompt: bool = True) -> str:
        """Render a conversation with a placeholder for every content from the message `start` on; an empty content stays empty."""
        return self.text([*messages[:start], *_hollow(messages[start:])], prompt=prompt).text

    def reply(self, content: str) -> Standing:
        """Write a reply with stand-ins, as it stands in a rendered conversation that does not change it."""
        marker = self._markup.marker([content])
        return self._markup.stand_in(self._markup.mark(content, marker, policy=True), marker)

    @cached_property
    def opening(self) -> Standing:
        """A short conversation up to where its reply begins."""
        return self.text([QUESTION])

    @cached_property
    def closings(self) -> Mapping[str, str]:
        """Role → what the template writes after a content when the conversation ends there."""
        answer = Message("assistant", placeholder(0))
        before = {"system": [], "user": [], "assistant": [QUESTION], "tool": [QUESTION, answer]}
        found = {}
        for role, history in before.items():
            last = placeholder(1)
            try:
                text = self.text([*history, Message(role, last)], prompt=False).text
            except TemplateError:
                continue
            if last in text:
                found[role] = text.rpartition(last)[2]
        return found

    def _chat_message(self, message: Message, marker: str) -> dict[str, Any]:
        mark = self._markup.mark
        chat = {"role": message.role, "content": mark(message.content, marker, policy=message.role == "assistant")}
        if message.name is not None:
            chat["name"] = mark(message.name, marker)
        if message.call_id is not None:
            chat["tool_call_id"] = mark(message.call_id, marker)
        return chat


def _hollow(messages: Sequence[Message]) -> list[Message]:
    return [
        Message(message.role, placeholder(place) if message.content else "", message.name, message.call_id)
        for place, message in enumerate(messages)
    ]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)
