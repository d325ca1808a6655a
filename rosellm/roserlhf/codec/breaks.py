"""Where and why a conversation, rendered anew, leaves the ids that stand in the context.

Seven causes. Two are the template's: it strips the reasoning of earlier replies, or edits what was said (trims it, for example).
BPE drift is the tokenizer's: the same text in other ids. The others are those of whoever wrote the new conversation: calls written
in another form, a history compacted, another agent's conversation, the same question asked again, a message changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rosellm.roserlhf.codec.protocol import BreakCause, Codec, PrefixBreak
from rosellm.roserlhf.trajectory import Message, ParsedAction

SHOWN = 80
"""Characters shown of each side."""
_REASONING_ENDS = ("</think>", "[/THINK]", "<|END_THINKING|>")


def first_difference(context_ids: Sequence[int], rendered: str, decode: Callable[[Sequence[int]], str]) -> tuple[int, str, str]:
    """Find the first token whose text a rendering does not say; return its position and both texts from there on."""
    low, high = 0, len(context_ids)
    while low < high:  # the longest prefix that, decoded, the rendering begins with
        middle = (low + high + 1) // 2
        if rendered.startswith(decode(context_ids[:middle])):
            low = middle
        else:
            high = middle - 1
    place = len(decode(context_ids[:low]))
    return low, decode(context_ids[low : low + SHOWN])[:SHOWN], rendered[place : place + SHOWN]


def cause_in_template(replies: Sequence[str], rendered: str, kept: str) -> BreakCause:
    """Say why a template's rendering does not say what was said.

    Args:
        replies: the assistant's contents so far.
        rendered: the whole conversation as the template writes it.
        kept: what the context says from the first difference on.
    """
    changed = next((reply for reply in replies if reply not in rendered), "")
    stripped = kept.lstrip().startswith("<think>") if not _thoughts(changed) else not _keeps_thoughts(changed, rendered)
    return "reasoning stripped" if stripped else "edited history"


def _thoughts(reply: str) -> tuple[str, str] | None:
    """Split the thoughts off a reply; return them and what ends them."""
    for end in _REASONING_ENDS:
        thoughts, found, _ = reply.rpartition(end)
        if found:
            return thoughts.strip().removeprefix("<think>").strip(), end
    return None


def _keeps_thoughts(reply: str, rendered: str) -> bool:
    thoughts = _thoughts(reply)
    return thoughts is not None and re.search(rf"{re.escape(thoughts[0])}\s*{re.escape(thoughts[1])}", rendered) is not None


def diagnose(
    codec: Codec, context_ids: Sequence[int], messages: Sequence[Message], conversation: Sequence[Message]
) -> PrefixBreak | None:
    """Find out why a conversation, as a client sends it, does not extend a context.

    Args:
        codec: its own rendering of the conversation is what is compared.
        context_ids: everything so far, sampled replies included.
        messages: what the context says, replies as they were sampled.
        conversation: all messages of the next request.

    Returns:
        The break, with its cause; None if the rendering begins with the very ids of the context.
    """
    spans = codec.render(conversation)
    ids = [i for span in spans for i in span.token_ids]
    if ids[: len(context_ids)] == list(context_ids):
        return None
    kept, rendered = codec.text(context_ids), codec.text(ids)
    if rendered.startswith(kept):
        pairs = enumerate(zip(context_ids, ids, strict=False))
        position = next((place for place, (mine, theirs) in pairs if mine != theirs), len(ids))
        after = SHOWN // 4
        said, theirs = codec.text(context_ids[position : position + after]), codec.text(ids[position : position + after])
        return PrefixBreak(position, said, theirs, "BPE drift", spans)
    position, said, other = first_difference(context_ids, rendered, codec.text)
    return PrefixBreak(position, said, other, _cause(codec, messages, conversation, rendered, said), spans)


def _cause(codec: Codec, messages: Sequence[Message], conversation: Sequence[Message], rendered: str, kept: str) -> BreakCause:
    same = next(
        (place for place, pair in enumerate(zip(messages, conversation, strict=False)) if not _equal(*pair)),
        min(len(messages), len(conversation)),
    )
    if same == len(messages):
        return cause_in_template([message.content for message in messages if message.role == "assistant"], rendered, kept)
    if same == len(conversation):
        return "retry"
    old, new = messages[same], conversation[same]
    if old.role == new.role == "assistant":
        if _is_without_reasoning(old.content, new.content):
            return "reasoning stripped"
        if _calls(codec, old.content) and _calls(codec, old.content) == _calls(codec, new.content):
            return "call re-serialised"
    if not any(_equal(one, other) for one in conversation for other in messages):
        return "sub-agent"
    return "compaction" if len(conversation) < len(messages) else "edited history"


def _equal(one: Message, other: Message) -> bool:
    return (one.role, one.content) == (other.role, other.content)


def _is_without_reasoning(old: str, new: str) -> bool:
    thoughts = _thoughts(old)
    return thoughts is not None and old.rpartition(thoughts[1])[2].strip() == new.strip()


def _calls(codec: Codec, content: str) -> list[tuple[str, object]]:
    parsed = codec.parse(codec.reply(content))
    return [(call.name, dict(call.arguments)) for call in parsed.calls] if isinstance(parsed, ParsedAction) else []
