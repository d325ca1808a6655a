"""A chat template as the codec uses it: messages -> text in which control tokens are told apart from text that spells them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

from rosellm.roserlhf.codec.layout import placeholder
from rosellm.roserlhf.codec.markup import Markup, Standing
from rosellm.roserlhf.errors import TemplateError
from rosellm.roserlhf.trajectory import Message

Render = Callable[[list[dict[str, Any]], list[Any] | None, bool], str]
"""(messages, tools, with generation prompt) -> text; raises `TemplateError` with the template's own words."""

QUESTION = Message("user", "x")
"""Opens the short conversations in which replies are looked at."""
REPLY = placeholder(-1)
"""The reply in a short conversation of which only what follows it matters."""
REASONING_END = "</think>"
_REASONING_START = "<think>"
_Shape = tuple[tuple[str, str | None, str | None], ...]


@dataclass(frozen=True)
class Form:
    """How a template wants to be handed what was said."""

    parts: bool = False
    """Content as a list of parts, as templates for images read it."""
    reasoning: Literal["text", "opened", "field"] = "text"
    """Where a reply's thoughts go: `text`, in the content as they were sampled; `opened`, there, behind `opener`; `field`, in
    `reasoning_content`."""
    opener: str = ""
    """`<think>` and the blanks behind it, if the generation prompt ends so: the policy then does not say them itself."""


class Template:
    """A template with the tools that it shows.

    Args:
        render: the template itself.
        markup: control tokens of the tokenizer.
        tools: JSON schemas.
        form: how it is handed what was said.
    """

    def __init__(
        self, render: Render, markup: Markup, tools: Sequence[Mapping[str, Any]] = (), *, form: Form | None = None
    ) -> None:
        self._render, self.markup = render, markup
        self._tools = [dict(tool) for tool in tools]
        tool_texts = list(_strings(self._tools))
        self._spelling_tools = tool_texts if markup.marker(tool_texts) else []
        self.form = form or Form()
        self._hollow = lru_cache(maxsize=1024)(self._skeleton)
        self._hollow_tail = lru_cache(maxsize=1024)(self._tail_skeleton)

    def text(self, messages: Sequence[Message], *, prompt: bool = True) -> Standing:
        """Render a conversation; `prompt`: with the generation prompt at its end."""
        texts = [text for message in messages for text in (message.content, message.name, message.call_id) if text]
        marker = self.markup.marker([*texts, *self._spelling_tools])
        chat = [self._chat_message(message, marker) for message in messages]
        return self.markup.stand_in(self._render(chat, self.markup.mark_all(self._tools, marker) or None, prompt), marker)

    def of_chat(self, chat: list[dict[str, Any]], *, prompt: bool = True) -> Standing:
        """Render messages as the template knows them, calls in fields of their own for example; nothing in them is marked."""
        return self.markup.stand_in(self._render(chat, self._tools or None, prompt), "")

    def reply(self, content: str) -> Standing:
        """Write a reply with stand-ins, as it stands in a rendered conversation that does not change it."""
        marker = self.markup.marker([content])
        return self.markup.stand_in(self.markup.mark(content, marker, policy=True), marker)

    def skeleton(self, messages: Sequence[Message]) -> str:
        """Render a conversation with a placeholder for every content."""
        return self._hollow(_shape(messages))

    def tail_skeleton(self, new_messages: Sequence[Message]) -> str:
        """Render what follows a reply, with a placeholder for every new content."""
        return self._hollow_tail(_shape(new_messages))

    def _skeleton(self, shape: _Shape) -> str:
        return self.text(_hollow(shape)).text

    def _tail_skeleton(self, shape: _Shape) -> str:
        return self.text([QUESTION, Message("assistant", REPLY), *_hollow(shape)]).text.partition(REPLY)[2]

    @cached_property
    def opening(self) -> Standing:
        """A short conversation up to where its reply begins."""
        return self.text([QUESTION])

    @cached_property
    def closings(self) -> Mapping[str, str]:
        """Role → what the template writes after a content when the conversation ends there."""
        before = {"system": [], "user": [], "assistant": [QUESTION], "tool": [QUESTION, Message("assistant", placeholder(0))]}
        found = {}
        for role, history in before.items():
            last = placeholder(1)
            try:
                text = self.text([*history, Message(role, last, "x", "x")], prompt=False).text
            except TemplateError:
                continue
            if last in text:
                found[role] = text.rpartition(last)[2]
        return found

    def _chat_message(self, message: Message, marker: str) -> dict[str, Any]:
        mark = self.markup.mark
        content = mark(message.content, marker, policy=message.role == "assistant")
        chat: dict[str, Any] = {"role": message.role, "content": content}
        if message.role == "assistant" and REASONING_END in content:
            chat |= self._reasoned(content)
        if self.form.parts:
            chat["content"] = [{"type": "text", "text": chat["content"]}]
        if message.name is not None:
            chat["name"] = mark(message.name, marker)
        if message.call_id is not None:
            chat["tool_call_id"] = mark(message.call_id, marker)
        return chat

    def _reasoned(self, content: str) -> dict[str, str]:
        match self.form.reasoning:
            case "field":
                thoughts, _, answer = content.rpartition(REASONING_END)
                thoughts = thoughts.lstrip().removeprefix(_REASONING_START)
                return {"reasoning_content": thoughts.strip("\n"), "content": answer.lstrip("\n")}
            case "opened" if _REASONING_START not in content:
                return {"content": self.form.opener + content}
        return {}


def _shape(messages: Sequence[Message]) -> _Shape:
    return tuple((message.role, message.name, message.call_id) for message in messages)


def _hollow(shape: _Shape) -> list[Message]:
    return [Message(role, placeholder(place), name, call_id) for place, (role, name, call_id) in enumerate(shape)]


def _strings(value: Any) -> Iterator[str]:
    """List the strings of a JSON value, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)
