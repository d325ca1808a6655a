"""The codec over any chat template: what the template writes becomes control ids, what a message spells stays text.

```
prompt          ①user⏎How much?②⏎ ①assistant⏎      context, mask 0
action 0        search(lamps)②                      sampled, mask 1: the stop token too
observation 0   ⏎①tool⏎17②⏎ ①assistant⏎            context, mask 0: what the template adds after what was sampled
```

Nothing that was sampled is tokenised again. After a reply the codec appends what the template's rendering of the conversation says
beyond the context; where that rendering is not an extension of the context it returns a `PrefixBreak`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec import layout
from rosellm.roserlhf.codec.breaks import cause_of, first_difference
from rosellm.roserlhf.codec.calls import parameters_of, parse_call
from rosellm.roserlhf.codec.markers import CUT
from rosellm.roserlhf.codec.markup import Markup, Standing
from rosellm.roserlhf.codec.protocol import PrefixBreak, Spans
from rosellm.roserlhf.codec.template import QUESTION, Render, Template
from rosellm.roserlhf.errors import RecordError, TemplateError
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure

_REPLY = Message("assistant", "y")


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """What the codec needs of a tokenizer."""

    encode: Callable[[Standing], tuple[list[int], list[int]]]
    """Text with stand-ins → ids, and the position in the text at which each begins."""
    decode: Callable[[Sequence[int]], str]
    """Ids → text, control tokens spelled out."""
    render: Render
    """The chat template."""
    markup: Markup
    """The control tokens."""
    control_ids: Mapping[str, int]
    """Control token → id."""
    eos_id: int | None
    """End of sequence."""
    identity: str
    """Hash of vocabulary and template."""


class ChatCodec:
    """Messages ↔ ids by a chat template.

    Args:
        tokenizer: what is needed of it.
        tools: JSON schemas of the tools.

    Raises:
        TemplateError: the template cannot be served; it says why.
    """

    def __init__(self, tokenizer: Tokenizer, tools: Sequence[Mapping[str, Any]]) -> None:
        self._tokenizer = tokenizer
        self._bind(tools)
        self.stop_ids: tuple[int, ...] = self._find_stop_ids()
        self.tokenizer_hash = tokenizer.identity

    def for_tools(self, tools: Sequence[Mapping[str, Any]]) -> Self:
        """Return the same codec for other tools."""
        if list(tools) == self._tools:
            return self
        other = copy.copy(self)
        other._bind(tools)
        return other

    def _bind(self, tools: Sequence[Mapping[str, Any]]) -> None:
        self._tools, self._schemas = list(tools), parameters_of(tools)
        self._template = Template(self._tokenizer.render, self._tokenizer.markup, tools)

    def render(self, messages: Sequence[Message]) -> Spans:
        """Render the first messages and open the assistant's turn."""
        return self._spans(self._template.text(messages), self._template.skeleton(messages), messages)

    def extend(
        self, context_ids: Sequence[int], messages: Sequence[Message], new_messages: Sequence[Message]
    ) -> Spans | PrefixBreak:
        """Render what follows a reply; see `Codec.extend`."""
        if not messages or messages[-1].role != "assistant":
            got = messages[-1].role if messages else "none"
            raise checks.fail(RecordError, "messages", "end with the assistant's reply", got)
        stopped = bool(context_ids) and context_ids[-1] in self.stop_ids
        stop = self._tokenizer.decode(context_ids[-1:]) if stopped else ""
        whole = [*messages, *new_messages]
        if _doubled(len(messages), len(whole)):
            rendered = self._template.text(whole)
            kept = self._tokenizer.decode(context_ids)
            place = self._end_of(rendered, kept)
            if place is None:
                return self._broken(rendered, whole, context_ids, messages, new_messages)
            skeleton = self._template.skeleton(whole, start=len(messages)).removeprefix(rendered.text[:place])
        else:
            short = [QUESTION, messages[-1], *new_messages]
            rendered = self._template.text(short)
            spell = self._tokenizer.markup.spell
            said = spell(self._template.opening) + spell(self._template.reply(messages[-1].content)) + stop
            place = self._end_of(rendered, said)
            if place is None:
                return self._broken(self._template.text(whole), whole, context_ids, messages, new_messages)
            skeleton = self._template.skeleton(short, start=2).removeprefix(rendered.text[:place])
        if stopped:
            place, skeleton = place - 1, rendered.text[place - 1] + skeleton
        tail = Standing(rendered.text[place:], tuple(at - place for at in rendered.literal if at >= place))
        added = self._spans(tail, skeleton, new_messages)
        return _without_first(added) if stopped else added

    def parse(self, token_ids: Sequence[int]) -> ParsedAction | ParseFailure:
        """Parse one reply; one that was cut by a budget is told so, not called malformed."""
        if not token_ids or token_ids[-1] not in self.stop_ids:
            return ParseFailure(CUT, raw=self.text(token_ids), cut=True)
        return parse_call(self.text(token_ids[:-1]), self._schemas)

    def reply(self, text: str) -> tuple[int, ...]:
        """Encode a scripted reply, its stop token included."""
        return (*self._tokenizer.encode(self._template.reply(text))[0], self.stop_ids[0])

    def reply_text(self, token_ids: Sequence[int]) -> str:
        """Decode one reply without its stop token."""
        return self.text(token_ids[:-1] if token_ids and token_ids[-1] in self.stop_ids else token_ids)

    def text(self, token_ids: Sequence[int]) -> str:
        """Decode ids for people."""
        return self._tokenizer.decode(token_ids)

    def _find_stop_ids(self) -> tuple[int, ...]:
        """Find the token that ends a turn: the first control token that the template writes after a reply."""
        markup, ids = self._tokenizer.markup, self._tokenizer.control_ids
        rendered = self._template.text([QUESTION, _REPLY, QUESTION])
        begun = self._template.opening.text + _REPLY.content
        if not rendered.text.startswith(begun):
            raise checks.fail(TemplateError, "template", "write a reply after its generation prompt", rendered.text[:80])
        after = [token for place, token in markup.standing(rendered) if place >= len(begun)]
        eos = () if self._tokenizer.eos_id is None else (self._tokenizer.eos_id,)
        return tuple(dict.fromkeys([*(ids[token] for token in after[:1]), *eos]))

    def _end_of(self, rendered: Standing, said: str) -> int | None:
        """Find where a rendering has said so much; None if it says something else."""
        spelled = self._tokenizer.markup.spell(rendered)
        if not spelled.startswith(said):
            return None
        shift = 0
        for place, token in self._tokenizer.markup.standing(rendered):
            if place + shift >= len(said):
                break
            shift += len(token) - 1
        return len(said) - shift

    def _broken(
        self,
        rendered: Standing,
        whole: Sequence[Message],
        context_ids: Sequence[int],
        messages: Sequence[Message],
        new_messages: Sequence[Message],
    ) -> PrefixBreak:
        spelled = self._tokenizer.markup.spell(rendered)
        position, kept, other = first_difference(context_ids, spelled, self._tokenizer.decode)
        spans = self._spans(rendered, self._template.skeleton(whole), whole)
        return PrefixBreak(position, kept, other, cause_of(kept, other), spans)

    def _spans(self, rendered: Standing, skeleton: str, messages: Sequence[Message]) -> Spans:
        ids, starts = self._tokenizer.encode(rendered)
        found = layout.sections(
            rendered.text,
            skeleton,
            roles=[message.role for message in messages],
            contents=[message.content for message in messages],
            closings=self._template.closings,
            controls=self._tokenizer.markup.characters,
        )
        return layout.spans(ids, starts, found)


def _doubled(before: int, after: int) -> bool:
    """Tell whether a conversation grew past a power of two."""
    return before.bit_length() < after.bit_length()


def _without_first(spans: Spans) -> Spans:
    """Drop the first id: it stands in the context already, sampled."""
    first = spans[0]
    mask = None if first.content_mask is None else first.content_mask[1:]
    rest = spans[1:]
    return rest if len(first.token_ids) == 1 else (type(first)(first.token_ids[1:], first.role, mask), *rest)
