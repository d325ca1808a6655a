"""The codec over any chat template: what the template writes becomes control ids, what a message spells stays text.

```
prompt          ①user⏎How much?②⏎ ①assistant⏎      context, mask 0
action 0        search(lamps)②                      sampled, mask 1: the stop token too
observation 0   ⏎①tool⏎17②⏎ ①assistant⏎            context, mask 0: what the template adds after what was sampled
```

Nothing that was sampled is tokenised again. After a reply the codec appends what the template's rendering of the conversation says
beyond the context; where that rendering is not an extension of the context, it returns a `PrefixBreak`. Rendering the whole
conversation every turn would cost the square of its length, so where the template was seen to render new messages alike whatever
came before (`TemplateProperties.local`), only the last reply and what follows it are rendered, and the whole conversation whenever
its number of messages has doubled.
"""

from __future__ import annotations

import copy
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec import layout
from rosellm.roserlhf.codec.breaks import cause_in_template, first_difference
from rosellm.roserlhf.codec.calls import CallFormat, call_format, parameters_of, relocated
from rosellm.roserlhf.codec.calls.function import FunctionCalls
from rosellm.roserlhf.codec.markup import Markup, Standing
from rosellm.roserlhf.codec.properties import TemplateProperties, properties_of
from rosellm.roserlhf.codec.protocol import PrefixBreak, Spans
from rosellm.roserlhf.codec.template import QUESTION, Render, Template
from rosellm.roserlhf.errors import RecordError, TemplateError
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure

CUT = "cut off before the end of the turn"
"""What the policy is told about a reply that a budget ended."""
_SCRIPTED = FunctionCalls()


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
    """End of sequence; None if there is none."""
    identity: str
    """Hash of vocabulary and template."""


class ChatCodec:
    """Messages ↔ ids by a chat template; made by `hf.chat_codec`.

    Args:
        tokenizer: what is needed of it.
        tools: JSON schemas of the tools.
        calls: format of the calls, a name of `calls.FORMATS`; `auto`: the one in which the template writes calls.

    Raises:
        TemplateError: the template cannot be served; it says why.
        ConfigError: no call format of that name.
    """

    def __init__(self, tokenizer: Tokenizer, tools: Sequence[Mapping[str, Any]], *, calls: str = "auto") -> None:
        self.properties: TemplateProperties = properties_of(tokenizer.render, tokenizer.markup)
        self._markup = tokenizer.markup.owning(self.properties.own)
        self._tokenizer = tokenizer
        self.calls: CallFormat = call_format(self.properties.calls.format if calls == "auto" else calls)
        self.stop_ids: tuple[int, ...] = self._stop_ids()
        self.tokenizer_hash = tokenizer.identity
        self._short = self._new_template(())
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

    def _new_template(self, tools: Sequence[Mapping[str, Any]]) -> Template:
        return Template(self._tokenizer.render, self._markup, tools, form=self.properties.form)

    def render(self, messages: Sequence[Message]) -> Spans:
        """Render the first messages and open the assistant's turn.

        Raises:
            TemplateError: the template refuses the conversation, or leaves a message out.
            RangeError: half a surrogate pair, or text that the vocabulary does not cover.
        """
        return self._spans(self._whole.text(messages), self._whole.skeleton(messages), messages)

    def extend(
        self, context_ids: Sequence[int], messages: Sequence[Message], new_messages: Sequence[Message]
    ) -> Spans | PrefixBreak:
        """Render what follows a reply; see `Codec.extend`.

        Raises:
            RecordError: the last of `messages` is no assistant's.
            TemplateError, RangeError: as `render`.
        """
        if not messages or messages[-1].role != "assistant":
            got = messages[-1].role if messages else "none"
            raise checks.fail(RecordError, "messages", "end with the assistant's reply", got)
        whole = [*messages, *new_messages]
        local = all(message.role in self.properties.local for message in new_messages)
        if local and not _doubled(len(messages), len(whole)):
            tail = self._tail_of_reply(context_ids, messages[-1], new_messages)
            if tail is not None:
                return self._after(context_ids, tail, new_messages)
        rendered = self._whole.text(whole)
        tail = self._tail(rendered, self._tokenizer.decode(context_ids))
        if tail is None:
            return self._break(rendered, whole, context_ids, messages)
        return self._after(context_ids, tail, new_messages)

    def parse(self, token_ids: Sequence[int]) -> ParsedAction | ParseFailure:
        """Parse one reply; one that was cut by a budget is told so, not called malformed. Spans are token positions."""
        if not token_ids or token_ids[-1] not in self.stop_ids:
            return ParseFailure(CUT, raw=self.text(token_ids), cut=True)
        said = token_ids[:-1]
        parsed = self.calls.parse(self.text(said), self._schemas)
        return relocated(parsed, lambda span: self._positions(said, span))

    def reply(self, text: str) -> tuple[int, ...]:
        """Encode a scripted reply, its stop token included; `name(argument, …)` of a known tool is written in its format."""
        if self.calls.name != _SCRIPTED.name:
            match _SCRIPTED.parse(text, self._schemas):
                case ParsedAction(calls=(call,)) if call.name in self._schemas:
                    text = self.calls.write((call,), self._schemas)
        return (*self._tokenizer.encode(self._whole.reply(text))[0], self.stop_ids[0])

    def reply_text(self, token_ids: Sequence[int]) -> str:
        """Decode one reply without its stop token."""
        return self.text(token_ids[:-1] if token_ids and token_ids[-1] in self.stop_ids else token_ids)

    def text(self, token_ids: Sequence[int]) -> str:
        """Decode ids for people."""
        return self._tokenizer.decode(token_ids)

    def _stop_ids(self) -> tuple[int, ...]:
        found = [self._tokenizer.control_ids[token] for token in self.properties.stops]
        eos = [] if self._tokenizer.eos_id is None else [self._tokenizer.eos_id]
        if not found and not eos:
            fix = "set eos_token"
            raise checks.fail(
                TemplateError, "tokenizer", "have a token that ends a turn", "neither one of the template nor eos", fix=fix
            )
        return tuple(dict.fromkeys([*found, *eos]))

    def _tail_of_reply(self, context_ids: Sequence[int], reply: Message, new_messages: Sequence[Message]) -> Standing | None:
        """Render the last reply and what follows, and return what comes after it; None if the reply is not as it was sampled."""
        rendered = self._short.text([QUESTION, reply, *new_messages])
        spell = self._markup.spell
        stop = self._tokenizer.decode(context_ids[-1:]) if context_ids[-1] in self.stop_ids else ""
        return self._tail(rendered, spell(self._short.opening) + spell(self._short.reply(reply.content)) + stop)

    def _tail(self, rendered: Standing, said: str) -> Standing | None:
        """Return what a rendering says beyond `said`; None if it says something else."""
        spelled = self._markup.spell(rendered)
        if not spelled.startswith(said):
            return None
        return rendered.after(self._markup.place(rendered, len(said)))

    def _after(self, context_ids: Sequence[int], tail: Standing, new_messages: Sequence[Message]) -> Spans:
        """Encode what follows; behind the sampled stop token, which the tokenizer is shown and which is not repeated."""
        skeleton = self._short.tail_skeleton(new_messages)
        if context_ids[-1] not in self.stop_ids:
            return self._spans(tail, skeleton, new_messages)
        stop = self._markup.stand_ins.get(self._tokenizer.decode(context_ids[-1:]), "")
        if not skeleton.startswith(stop):
            skeleton = stop + skeleton
        return _without_first(self._spans(tail.behind(stop), skeleton, new_messages))

    def _break(
        self, rendered: Standing, whole: Sequence[Message], context_ids: Sequence[int], messages: Sequence[Message]
    ) -> PrefixBreak:
        spelled = self._markup.spell(rendered)
        position, kept, other = first_difference(context_ids, spelled, self._tokenizer.decode)
        replies = [message.content for message in messages if message.role == "assistant"]
        spans = self._spans(rendered, self._whole.skeleton(whole), whole)
        return PrefixBreak(position, kept, other, cause_in_template(replies, spelled, kept), spans)

    def _spans(self, rendered: Standing, skeleton: str, messages: Sequence[Message]) -> Spans:
        ids, starts = self._tokenizer.encode(rendered)
        found = layout.sections(
            rendered.text,
            skeleton,
            roles=[message.role for message in messages],
            contents=[message.content for message in messages],
            closings=self._short.closings,
            controls=self._markup.characters,
        )
        return layout.spans(ids, starts, found)

    def _positions(self, token_ids: Sequence[int], span: tuple[int, int]) -> tuple[int, int]:
        """Turn positions in the text of a reply into those of its tokens."""
        places = range(len(token_ids))
        start = bisect_right(places, span[0], key=lambda place: len(self.text(token_ids[: place + 1])))
        return start, bisect_left(places, span[1], lo=start, key=lambda place: len(self.text(token_ids[: place + 1]))) + 1


def _doubled(before: int, after: int) -> bool:
    """Tell whether a number of messages passed a power of two."""
    return before.bit_length() < after.bit_length()


def _without_first(spans: Spans) -> Spans:
    """Drop the first id: it stands in the context already, sampled."""
    first, *rest = spans
    if len(first.token_ids) == 1:
        return tuple(rest)
    mask = None if first.content_mask is None else first.content_mask[1:]
    return (replace(first, token_ids=first.token_ids[1:], content_mask=mask), *rest)
