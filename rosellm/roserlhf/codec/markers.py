"""A chat format of role markers and one end marker: `<user>…<end><assistant>…<end><tool>…<end><assistant>`.

```
prompt          <user> What do  3   lamps …  cost? <end> <assistant>      context, mask 0
action 0        search( lamps ) <end>                                     sampled, mask 1 (the end marker too)
observation 0   <tool> 1 7 <end> <assistant>                              context, mask 0
```
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Self

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.calls import call_format, parameters_of, relocated
from rosellm.roserlhf.codec.protocol import Spans
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure, TokenSpan

CUT = "cut off before the end of the turn"
"""What the policy is told about a reply that a budget ended."""


class MarkerCodec:
    """The marker format over any tokenizer.

    Args:
        encode: text → ids, with control markers in the text treated as plain characters.
        decode: ids → text.
        markers: role name → id of its opening marker; must hold `assistant`.
        end_id: id of the end marker.
        tools: JSON schemas of the tools whose calls are to be parsed.
        tokenizer_hash: identity of the tokenizer.

    Raises:
        RangeError: no marker for `assistant`, or a tool parameter of an unknown type.
    """

    def __init__(
        self,
        *,
        encode: Callable[[str], Sequence[int]],
        decode: Callable[[Sequence[int]], str],
        markers: Mapping[str, int],
        end_id: int,
        tools: Sequence[Mapping[str, Any]],
        tokenizer_hash: str,
    ) -> None:
        if "assistant" not in markers:
            raise checks.fail(RangeError, "markers", "hold assistant", ", ".join(markers) or "none")
        # observations repeat: the same price, the same complaint
        self._encode = lru_cache(maxsize=65536)(lambda text: tuple(encode(text)))
        self._decode = decode
        self._markers, self._end = dict(markers), end_id
        self._tools, self._schemas = list(tools), parameters_of(tools)
        self.stop_ids: tuple[int, ...] = (end_id,)
        self.tokenizer_hash = tokenizer_hash

    def for_tools(self, tools: Sequence[Mapping[str, Any]]) -> Self:
        """Return the same format for other tools."""
        if list(tools) == self._tools:
            return self
        other = copy.copy(self)
        other._tools, other._schemas = list(tools), parameters_of(tools)
        return other

    def render(self, messages: Sequence[Message]) -> Spans:
        """Render the first messages and open the assistant's turn."""
        return (*(self._message(message) for message in messages), self._generation_prompt())

    def extend(self, context_ids: Sequence[int], messages: Sequence[Message], new_messages: Sequence[Message]) -> Spans:
        """Render what follows a reply; a reply cut before its end marker is closed by one that the policy did not sample."""
        closing = () if context_ids[-1] == self._end else (TokenSpan((self._end,), "assistant", (False,)),)
        return (*closing, *self.render(new_messages))

    def reply(self, text: str) -> tuple[int, ...]:
        """Encode a scripted reply, its end marker included."""
        return (*self._encode(text), self._end)

    def parse(self, token_ids: Sequence[int]) -> ParsedAction | ParseFailure:
        """Parse one reply; one that was cut by a budget is told so, not called malformed."""
        if not token_ids or token_ids[-1] != self._end:
            return ParseFailure(CUT, raw=self.text(token_ids), cut=True)
        parsed = call_format("function").parse(self.text(token_ids[:-1]), self._schemas)
        return relocated(parsed, lambda _: None)

    def reply_text(self, token_ids: Sequence[int]) -> str:
        """Decode one reply without its end marker."""
        return self.text(token_ids[:-1] if token_ids and token_ids[-1] == self._end else token_ids)

    def text(self, token_ids: Sequence[int]) -> str:
        """Decode ids for people."""
        return self._decode(token_ids)

    def _message(self, message: Message) -> TokenSpan:
        if message.role not in self._markers:
            raise checks.fail(RangeError, "message.role", f"be one of {', '.join(self._markers)}", repr(message.role))
        body = self._encode(message.content)
        return TokenSpan((self._markers[message.role], *body, self._end), message.role, (False, *[True] * len(body), False))

    def _generation_prompt(self) -> TokenSpan:
        return TokenSpan((self._markers["assistant"],), "assistant", (False,))
