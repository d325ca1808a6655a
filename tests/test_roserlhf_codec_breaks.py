"""Where a conversation, rendered anew, is no extension of its context: position, both texts, cause; and what looking costs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from chat_templates import codec_for, flat, tokenizer_for, tokenizer_of
from counted_work import instructions

from rosellm.roserlhf.codec.breaks import diagnose
from rosellm.roserlhf.codec.chat import ChatCodec
from rosellm.roserlhf.codec.hf import chat_codec, chat_tokenizer
from rosellm.roserlhf.codec.protocol import PrefixBreak
from rosellm.roserlhf.trajectory import Message

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Look up.",
            "parameters": {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
        },
    }
]
SYSTEM, TASK, RESULT = Message("system", "You shop."), Message("user", "What do lamps cost?"), Message("tool", "17")
THINKING = "<think>\nI should look.\n</think>\n\n"
CALL = '<tool_call>\n{"name": "search", "arguments": {"item": "lamps"}}\n</tool_call>'
QWEN3 = codec_for("qwen3").for_tools(TOOLS)


def said(codec: ChatCodec, prompt: list[Message], reply: str) -> tuple[list[int], list[Message]]:
    """A context of a prompt and one reply."""
    context = [*flat(codec.render(prompt)), *codec.reply(reply)]
    return context, [*prompt, Message("assistant", reply)]


def broken(found: Any) -> PrefixBreak:
    assert isinstance(found, PrefixBreak), found
    return found


def cause(conversation: list[Message], reply: str = CALL, prompt: list[Message] | None = None) -> str | None:
    context, messages = said(QWEN3, [SYSTEM, TASK] if prompt is None else prompt, reply)
    found = diagnose(QWEN3, context, messages, conversation)
    return None if found is None else found.cause


# --- a template that rewrites history ---


def test_R08_thoughts_that_a_template_strips_are_a_break_and_the_new_message_is_not_lost() -> None:
    context, messages = said(QWEN3, [TASK], THINKING + "17.")
    tool = QWEN3.extend(context, messages, [RESULT])
    assert not isinstance(tool, PrefixBreak)  # a tool's answer leaves the thoughts where they are
    found = broken(QWEN3.extend(context, messages, [Message("user", "again")]))
    assert found.cause == "reasoning stripped"
    assert found.kept.startswith("<think>\nI should look.")
    assert found.rendered.startswith("17.<|im_end|>\n<|im_start|>user\nagain<|im_end|>")
    assert QWEN3.text(context[found.position :]).startswith("<think>\nI should look.")
    ids = flat(found.spans)
    assert ids[: found.position] == context[: found.position]
    assert ids == flat(QWEN3.render([*messages, Message("user", "again")]))
    assert [span.role for span in found.spans] == ["user", "assistant", "user", "assistant"]


def test_the_template_of_trl_for_training_keeps_them() -> None:
    codec = codec_for("qwen3_training")
    context, messages = said(codec, [TASK], THINKING + "17.")
    assert not isinstance(codec.extend(context, messages, [Message("user", "again")]), PrefixBreak)


def test_thoughts_of_earlier_replies_are_found_though_the_last_reply_stands() -> None:
    context, messages = said(QWEN3, [TASK], THINKING + "Let me see.")
    context += flat(QWEN3.extend(context, messages, [RESULT]))
    messages.append(RESULT)
    context += QWEN3.reply("17.")
    messages.append(Message("assistant", "17."))
    found = broken(QWEN3.extend(context, messages, [Message("user", "again")]))
    assert (found.cause, found.kept[:7]) == ("reasoning stripped", "<think>")


def test_a_reply_that_a_template_trims_is_a_break() -> None:
    codec = codec_for("llama3")
    context, messages = said(codec, [TASK], " 17.")
    found = broken(codec.extend(context, messages, [Message("user", "again")]))
    assert (found.cause, found.kept, found.rendered[:4]) == ("edited history", " 17.<|eot_id|>", "17.<")
    context, messages = said(codec, [TASK], "17.")
    assert not isinstance(codec.extend(context, messages, [Message("user", "again")]), PrefixBreak)


def test_a_break_deep_in_a_conversation_is_found_when_the_whole_is_rendered() -> None:
    """A template that changes the second message once there are ten: no probe has seen that, the whole conversation shows it."""
    template = (
        "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}"
        "{{ 'gone' if loop.index0 == 1 and messages | length >= 10 else m['content'] }}{{ '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    codec = chat_codec(tokenizer_of(template), [])
    messages = [TASK]
    context = flat(codec.render(messages))
    breaks = []
    for turn in range(10):
        context += codec.reply("y")
        messages.append(Message("assistant", "y"))
        found = codec.extend(context, messages, [RESULT])
        messages.append(RESULT)
        if isinstance(found, PrefixBreak):
            breaks.append((turn, found))
            break
        context += flat(found)
    ((turn, found),) = breaks
    assert len(messages) <= 17  # at the first power of two after it began
    assert (found.cause, found.kept[:11], found.rendered[:4]) == ("edited history", "y<|im_end|>", "gone")
    assert turn == 7


def test_a_template_that_writes_otherwise_where_there_are_tools_is_rendered_as_a_whole() -> None:
    template = (
        "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] }}"
        "{{ '!' if tools and m['role'] == 'tool' else '' }}{{ '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    without = chat_codec(tokenizer_of(template), [])
    for codec, end in ((without, "17<|im_end|>\n"), (without.for_tools(TOOLS), "17!<|im_end|>\n")):
        context, messages = said(codec, [TASK], "y")
        found = codec.extend(context, messages, [RESULT])
        assert not isinstance(found, PrefixBreak)
        assert codec.text(found[0].token_ids).endswith(end)


# --- the seven causes ---


def test_a_conversation_that_extends_the_context_has_no_cause() -> None:
    assert cause([SYSTEM, TASK, Message("assistant", CALL), RESULT]) is None
    assert cause([SYSTEM, TASK, Message("assistant", "17."), RESULT], reply="17.") is None


def test_the_reasoning_was_stripped_by_the_template_or_by_the_client() -> None:
    reply = THINKING + "17."
    assert cause([SYSTEM, TASK, Message("assistant", reply), Message("user", "and mugs?")], reply=reply) == "reasoning stripped"
    assert cause([SYSTEM, TASK, Message("assistant", "17."), RESULT], reply=reply) == "reasoning stripped"


def test_BPE_drift_is_the_same_text_in_other_ids() -> None:
    tokenizer = tokenizer_for("qwen3")
    prompt = [SYSTEM, TASK]
    drifted = [i for character in "message" for i in tokenizer(character)["input_ids"]]
    before = flat(QWEN3.render(prompt))
    context = [*before, *drifted, QWEN3.stop_ids[0]]
    messages = [*prompt, Message("assistant", "message")]
    found = broken(diagnose(QWEN3, context, messages, [*messages, RESULT]))
    assert found.cause == "BPE drift"
    assert found.position == len(before)
    assert (found.kept[:7], found.rendered[:7]) == ("message", "message")
    assert not isinstance(QWEN3.extend(context, messages, [RESULT]), PrefixBreak)  # who only appends does not meet it


def test_a_call_written_in_another_form_is_reserialised() -> None:
    other = '<tool_call>\n{"name":"search","arguments":{"item":"lamps"}}\n</tool_call>'
    assert cause([SYSTEM, TASK, Message("assistant", other), RESULT]) == "call re-serialised"
    another = other.replace("lamps", "mugs")
    assert cause([SYSTEM, TASK, Message("assistant", another), RESULT]) == "edited history"


def test_a_shorter_conversation_that_keeps_some_of_it_is_compacted() -> None:
    prompt = [SYSTEM, TASK, Message("assistant", CALL), RESULT]
    assert cause([SYSTEM, Message("user", "Summary: lamps cost 17."), Message("assistant", "ok")], prompt=prompt) == "compaction"
    assert cause([SYSTEM, TASK, Message("user", "Summary: a search was made.")], prompt=prompt) == "compaction"


def test_a_conversation_that_shares_nothing_is_another_agents() -> None:
    assert cause([Message("system", "You check prices."), Message("user", "Is 17 right?")]) == "sub-agent"


def test_the_same_question_again_is_a_retry() -> None:
    assert cause([SYSTEM, TASK]) == "retry"


def test_a_message_that_changed_is_an_edited_history() -> None:
    assert cause([SYSTEM, Message("user", "What do mugs cost?"), Message("assistant", CALL), RESULT]) == "edited history"
    assert cause([SYSTEM, TASK, Message("assistant", "never said"), RESULT], reply="17.") == "edited history"


def test_the_position_is_the_first_token_that_differs() -> None:
    context, messages = said(QWEN3, [SYSTEM, TASK], "17.")
    found = broken(diagnose(QWEN3, context, messages, [SYSTEM, Message("user", "What do mugs cost?")]))
    assert QWEN3.text(context[: found.position]).endswith("What do")
    assert (found.kept[:6], found.rendered[:5]) == (" lamps", " mugs")


# --- what it costs ---


def played(codec: ChatCodec, turns: int) -> list[int]:
    messages = [TASK]
    context = flat(codec.render(messages))
    for turn in range(turns):
        ids = codec.reply(f"search(lamps {turn})")
        context += ids
        messages.append(Message("assistant", codec.reply_text(ids)))
        new = [Message("tool", f"result {turn}")]
        found = codec.extend(context, messages, new)
        assert not isinstance(found, PrefixBreak)
        context += flat(found)
        messages += new
    return context


@pytest.mark.parametrize("name", ["qwen2_5", "llama3_1", "qwen3", "lfm2"])
def test_R72_twice_the_turns_cost_twice_the_rendering(name: str) -> None:
    written = {}
    for turns in (100, 200, 400):
        tokenizer, count = chat_tokenizer(tokenizer_for(name)), [0]

        def render(*given: Any, true: Any = tokenizer.render, count: list[int] = count) -> str:
            text: str = true(*given)
            count[0] += len(text)
            return text

        codec = ChatCodec(dataclasses.replace(tokenizer, render=render), TOOLS, calls="function")
        count[0] = 0
        context = played(codec, turns)
        written[turns] = count[0]
        if turns == 100:
            messages = [TASK]
            for turn in range(turns):
                messages += [Message("assistant", f"search(lamps {turn})"), Message("tool", f"result {turn}")]
            assert context == flat(codec.render(messages))  # the slow way: all of it at once
    assert written[400] <= 2.5 * written[200]
    assert written[200] <= 2.5 * written[100]
    codec = ChatCodec(chat_tokenizer(tokenizer_for(name)), TOOLS, calls="function")
    played(codec, 400)  # what is remembered of single replies is the same for both
    assert instructions(lambda: played(codec, 400)) <= 2.5 * instructions(lambda: played(codec, 200))
