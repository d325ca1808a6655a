"""The codec over any chat template: what the template writes becomes control ids, what a message spells stays text.

```
prompt          ①user⏎How much?②⏎ ①assistant⏎      context, mask 0
action 0        search(lamps)②                      sampled, mask 1: the stop token too
observation 0   ⏎①tool⏎17②⏎ ①assistant⏎            context, mask 0: what the template adds after what was sampled
```

Nothing that was sampled is tokenised again. After a reply the codec appends what the template's rendering of the conversation says
beyond the context; where that rendering is not an extension of the context, it returns a `PrefixBreak`. Rendering the whole
conversation every turn would cost the square of its length, so where the template was seen to render new messages alike whatever
came before (`TemplateProperties.local`, `local_with_tools`), only the last reply and what follows it are rendered, and the whole
conversation whenever its number of messages has passed a power of two.
"""

from __future__ import annotations

import copy
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec import layout
from rosellm.roserlhf.codec.breaks import cause_in_template, first_difference
from rosellm.roserlhf.codec.calls import CallFormat, call_format, parameters_of, relocated
from rosellm.roserlhf.codec.calls.function import FunctionCalls
from rosellm.roserlhf.codec.markers import CUT
from rosellm.roserlhf.codec.markup import Markup, Standing
from rosellm.roserlhf.codec.probes import FOLLOW_UPS
from rosellm.roserlhf.codec.properties import TemplateProperties, properties_of
from rosellm.roserlhf.codec.protocol import PrefixBreak, Spans
from rosellm.roserlhf.codec.template import QUESTION, REASONING_END, REPLY, Render, Template
from rosellm.roserlhf.codec.tool_note import told, tool_note
from rosellm.roserlhf.errors import RecordError, TemplateError
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure

_SCRIPTED = FunctionCalls()
_LEAST = 8
"""Messages below which the probes of a template have seen every shape of conversation."""
_REMEMBERED = 512
"""Characters, or tokens, of what is remembered."""
_MEMORY = 4096
"""Renderings that are remembered."""


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """What the codec needs of a tokenizer."""

    encode: Callable[[Standing], tuple[list[int], list[tuple[int, int]]]]
    """Text with stand-ins → ids, and the place [start, end) in the text of each."""
    decode: Callable[[Sequence[int]], str]
    """Ids → text, control tokens spelled out."""
    render: Render
    """The chat template."""
    markup: Markup
    """The control tokens."""
    control_ids: Mapping[str, int]
    """Control token → id."""
    eos_id: int | None
    """End of sequence; None if there is none."""
    identity: str
    """Hash of vocabulary and template."""


class ChatCodec:
    """Messages ↔ ids by a chat template; made by `hf.chat_codec`.

    Args:
        tokenizer: what is needed of it.
        tools: JSON schemas of the tools.
        calls: format of the calls, a name of `calls.FORMATS`; `auto`: the one in which the template writes calls.
        tell_tools: tell of the tools in the system message where the template does not show them.

    Raises:
        TemplateError: the template cannot be served; it says why.
        ConfigError: no call format of that name.
    """

    def __init__(
        self, tokenizer: Tokenizer, tools: Sequence[Mapping[str, Any]], *, calls: str = "auto", tell_tools: bool = True
    ) -> None:
        self.properties: TemplateProperties = properties_of(tokenizer.render, tokenizer.markup)
        self._markup = tokenizer.markup.owning(self.properties.own)
        self._tokenizer = tokenizer
        self.calls: CallFormat = call_format(self.properties.calls.format if calls == "auto" else calls)
        self.stop_ids: tuple[int, ...] = self._stop_ids()
        self.tokenizer_hash = tokenizer.identity
        self._short = self._new_template(())
        self._stands = lru_cache(_MEMORY)(self._is_kept)
        self._tail = lru_cache(_MEMORY)(self._new_tail)
        self._decoded = lru_cache(_MEMORY)(tokenizer.decode)
        self._tells = tell_tools and not self.properties.shows_tools
        self._bind(tools)

    def for_tools(self, tools: Sequence[Mapping[str, Any]]) -> Self:
        """Return the same codec for other tools."""
        if list(tools) == self._tools:
            return self
        other = copy.copy(self)
        other._bind(tools)
        return other

    def _bind(self, tools: Sequence[Mapping[str, Any]]) -> None:
        self._tools, self._schemas = list(tools), parameters_of(tools)
        self._whole = self._new_template(tools)
        self._note = tool_note(tools, self.calls) if tools and self._tells else ""
        self._is_local = self.properties.local_with_tools if tools else self.properties.local
        self._prompt = lru_cache(_MEMORY)(self._rendered)
        self._parsed = lru_cache(_MEMORY)(self._parse)

    def _new_template(self, tools: Sequence[Mapping[str, Any]]) -> Template:
        return Template(self._tokenizer.render, self._markup, tools, form=self.properties.form)

    def render(self, messages: Sequence[Message]) -> Spans:
        """Render the first messages and open the assistant's turn.

        Raises:
            TemplateError: the template refuses the conversation, or leaves a message out.
            RangeError: half a surrogate pair, or text that the vocabulary does not cover.
        """
        return self._prompt(tuple(messages)) if _is_small(messages) else self._rendered(messages)

    def extend(
        self, context_ids: Sequence[int], messages: Sequence[Message], new_messages: Sequence[Message]
    ) -> Spans | PrefixBreak:
        """Render what follows a reply; see `Codec.extend`.

        Raises:
            RecordError: the context is empty, or the last of `messages` is no assistant's.
            TemplateError, RangeError: as `render`.
        """
        if not context_ids or not messages or messages[-1].role != "assistant":
            got = "no context" if not context_ids else messages[-1].role if messages else "none"
            raise checks.fail(RecordError, "messages", "end with the assistant's reply", got)
        stop = self._tokenizer.decode(context_ids[-1:]) if context_ids[-1] in self.stop_ids else ""
        roles = tuple(message.role for message in new_messages)
        if self._is_local.issuperset(roles) and not _is_due(len(messages) - 1, len(messages) + len(new_messages)):
            reply = messages[-1]
            if (self._stands if _is_small([reply]) else self._is_kept)(reply, roles, stop):
                return (self._tail if _is_small(new_messages) else self._new_tail)(tuple(new_messages), stop)
        return self._extend_whole(context_ids, messages, new_messages, stop)

    def parse(self, token_ids: Sequence[int]) -> ParsedAction | ParseFailure:
        """Parse one reply; one that was cut by a budget is told so, not called malformed. Spans are token positions."""
        return self._parsed(tuple(token_ids)) if len(token_ids) <= _REMEMBERED else self._parse(token_ids)

    def reply(self, text: str) -> tuple[int, ...]:
        """Encode a scripted reply, its stop token included: as the template would write it, so that it stands.

        `name(argument, …)` of a known tool is written in the codec's call format. Where a template wants thoughts before an answer,
        empty ones are put there.
        """
        match _SCRIPTED.parse(text, self._schemas):
            case ParsedAction(calls=(call,)) if call.name in self._schemas and self.calls.name != _SCRIPTED.name:
                around = self.properties.calls.around if self.calls.name == self.properties.calls.format else None
                before, after = around or (self.properties.lead, "")
                text = f"{before}{self.calls.write((call,), self._schemas)}{after}"
            case _ if REASONING_END not in text:
                text = self.properties.lead + text
        return (*self._tokenizer.encode(self._whole.reply(text))[0], self.stop_ids[0])

    def reply_text(self, token_ids: Sequence[int]) -> str:
        """Decode one reply without its stop token."""
        return self.text(token_ids[:-1] if token_ids and token_ids[-1] in self.stop_ids else token_ids)

    def text(self, token_ids: Sequence[int]) -> str:
        """Decode ids for people."""
        return self._decoded(tuple(token_ids)) if len(token_ids) <= _REMEMBERED else self._tokenizer.decode(token_ids)

    def _stop_ids(self) -> tuple[int, ...]:
        found = [self._tokenizer.control_ids[token] for token in self.properties.stops]
        eos = [] if self._tokenizer.eos_id is None else [self._tokenizer.eos_id]
        if not found and not eos:
            got = "none after a reply, and no eos_token"
            raise checks.fail(TemplateError, "chat template", "end a reply with a control token", got)
        return tuple(dict.fromkeys([*found, *eos]))

    def _told(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Tell of the tools in words where the template does not."""
        return told(messages, self._note, system=self.properties.system in ("shown", "default")) if self._note else messages

    def _rendered(self, messages: Sequence[Message]) -> Spans:
        messages = self._told(messages)
        return self._spans(self._whole.text(messages), self._whole.skeleton(messages), messages)

    def _is_kept(self, reply: Message, roles: tuple[str, ...], stop: str) -> bool:
        """Tell whether a reply stands as it was sampled once messages of these roles follow it."""
        spell = self._markup.spell
        rendered = self._short.text([QUESTION, reply, *(FOLLOW_UPS[role] for role in roles)])
        return spell(rendered).startswith(spell(self._short.opening) + spell(self._short.reply(reply.content)) + stop)

    def _new_tail(self, new_messages: Sequence[Message], stop: str) -> Spans:
        """Render what follows a reply that stands as it was sampled."""
        rendered = self._short.text([QUESTION, Message("assistant", REPLY), *new_messages])
        return self._after(rendered.after(rendered.text.index(REPLY) + 1), stop, new_messages)

    def _extend_whole(
        self, context_ids: Sequence[int], messages: Sequence[Message], new_messages: Sequence[Message], stop: str
    ) -> Spans | PrefixBreak:
        whole = self._told([*messages, *new_messages])
        rendered = self._whole.text(whole)
        spelled, said = self._markup.spell(rendered), self._tokenizer.decode(context_ids)
        if spelled.startswith(said):
            place = self._markup.place(rendered, len(said) - len(stop))
            return self._after(rendered.after(place), stop, new_messages)
        # a tokenizer may not keep every text as it is: what counts is what it makes of the rendering
        ids, places = self._tokenizer.encode(rendered)
        spelled = self._tokenizer.decode(ids)
        if not spelled.startswith(said):
            return self._break(rendered, spelled, whole, context_ids, messages)
        before = bisect_left(range(len(ids)), len(said) - len(stop), key=lambda count: len(self._tokenizer.decode(ids[:count])))
        return self._after(rendered.after(places[before][0]), stop, new_messages)

    def _after(self, tail: Standing, stop: str, new_messages: Sequence[Message]) -> Spans:
        """Encode what follows a reply; the stop token that was sampled is shown to the tokenizer and not repeated."""
        spans = self._spans(tail, self._short.tail_skeleton(new_messages), new_messages)
        return _without_first(spans) if stop else spans

    def _break(
        self,
        rendered: Standing,
        spelled: str,
        whole: Sequence[Message],
        context_ids: Sequence[int],
        messages: Sequence[Message],
    ) -> PrefixBreak:
        position, kept, other = first_difference(context_ids, spelled, self._tokenizer.decode)
        replies = [message.content for message in messages if message.role == "assistant"]
        spans = self._spans(rendered, self._whole.skeleton(whole), whole)
        return PrefixBreak(position, kept, other, cause_in_template(replies, spelled, kept), spans)

    def _spans(self, rendered: Standing, skeleton: str, messages: Sequence[Message]) -> Spans:
        ids, places = self._tokenizer.encode(rendered)
        found = layout.sections(
            rendered.text,
            skeleton,
            roles=[message.role for message in messages],
            contents=[message.content for message in messages],
            closings=self._short.closings,
            controls=self._markup.characters,
        )
        return layout.spans(ids, places, found, rendered.text, self._markup.characters)

    def _parse(self, token_ids: Sequence[int]) -> ParsedAction | ParseFailure:
        if not token_ids or token_ids[-1] not in self.stop_ids:
            return ParseFailure(CUT, raw=self.text(token_ids), cut=True)
        said = token_ids[:-1]
        return relocated(self.calls.parse(self.text(said), self._schemas), lambda span: self._positions(said, span))

    def _positions(self, token_ids: Sequence[int], span: tuple[int, int]) -> tuple[int, int]:
        """Turn positions in the text of a reply into those of its tokens."""
        places = range(len(token_ids))
        start = bisect_right(places, span[0], key=lambda place: len(self.text(token_ids[: place + 1])))
        return start, bisect_left(places, span[1], lo=start, key=lambda place: len(self.text(token_ids[: place + 1]))) + 1


def _is_due(before: int, after: int) -> bool:
    """Tell whether the whole conversation is to be rendered: its number of messages passed a power of two, 8 at least."""
    return after >= _LEAST and before.bit_length() < after.bit_length()


def _is_small(messages: Sequence[Message]) -> bool:
    """Tell whether messages are short enough to be remembered: small talk repeats, and a page does not."""
    return sum(len(message.content) for message in messages) <= _REMEMBERED


def _without_first(spans: Spans) -> Spans:
    """Drop the first id: it stands in the context already, sampled."""
    first, *rest = spans
    if len(first.token_ids) == 1:
        return tuple(rest)
    mask = None if first.content_mask is None else first.content_mask[1:]
    return (replace(first, token_ids=first.token_ids[1:], content_mask=mask), *rest)
