"""The codec over real chat templates: the library's ids for harmless text, text for hostile text, nothing sampled encoded again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from chat_templates import SERVED, codec_for, every_served, flat, reference, source, tokenizer_for, tokenizer_of
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.codec.chat import ChatCodec
from rosellm.roserlhf.codec.hf import build_tokenizer, chat_codec, marker_codec
from rosellm.roserlhf.codec.markers import CUT
from rosellm.roserlhf.codec.protocol import PrefixBreak
from rosellm.roserlhf.environment.shop import Shop
from rosellm.roserlhf.errors import ConfigError, RangeError, RecordError, TemplateError
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure

PROPERTY = settings(derandomize=True, max_examples=40, deadline=None)
ROLES = st.sampled_from(["system", "user", "assistant", "tool"])
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SEARCH: dict[str, Any] = {
    "name": "search",
    "description": "Look up.",
    "parameters": {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
}
TOOLS = [{"type": "function", "function": SEARCH}]
PLAIN = chat_codec(tokenizer_of(CHATML), TOOLS, tell_tools=False)
CONVERSATIONS = (
    [Message("user", "Hi, é 日本 🦊  two  blanks\n\nnew line")],
    [Message("system", "Be brief."), Message("user", " padded \n")],
    [Message("user", "a"), Message("assistant", "b\n"), Message("user", "c{}")],
    [Message("user", "a"), Message("assistant", "b"), Message("tool", '{"x": "ü\\n"}', "search", "call-0")],
    [
        Message("user", "a"),
        Message("assistant", "b"),
        Message("tool", "t1", "search", "call-0"),
        Message("tool", "t2", "search", "call-1"),
        Message("user", "x"),
    ],
)


def id_of(name: str, token: str) -> int:
    found = tokenizer_for(name).convert_tokens_to_ids(token)
    assert isinstance(found, int)
    return found


def extended(codec: ChatCodec, context: list[int], messages: list[Message], new: list[Message]) -> Any:
    found = codec.extend(context, messages, new)
    assert not isinstance(found, PrefixBreak), found
    return found


def body(codec: ChatCodec, span: Any) -> str:
    return codec.text([i for i, content in zip(span.token_ids, span.content_mask, strict=True) if content])


# --- the law for harmless text ---


@every_served
def test_harmless_text_becomes_the_ids_of_the_library(name: str) -> None:
    codec = codec_for(name)
    rendered = 0
    for messages in CONVERSATIONS:
        try:
            spans = codec.render(messages)
        except TemplateError:
            continue  # which roles a template takes is another test's matter
        rendered += 1
        assert flat(spans) == reference(tokenizer_for(name), messages, parts=codec.properties.form.parts)
        assert [span.role for span in spans[: len(messages)]] == [message.role for message in messages]
        for message, span in zip(messages, spans, strict=False):
            if message.role not in codec.properties.quotes:
                assert body(codec, span).strip() == message.content.strip()
    assert rendered


@every_served
def test_an_episode_extended_by_ids_is_the_template_of_the_whole_conversation(name: str) -> None:
    codec = codec_for(name)
    parts = codec.properties.form.parts
    for role, kinds in codec.properties.keeps.items():
        if "plain" not in kinds:
            continue
        messages = [Message("user", "a")]
        context = flat(codec.render(messages))
        for turn in range(6):
            ids = codec.reply(
                "fine" if codec.properties.prompt.count("<think>") == codec.properties.prompt.count("</think>") else ""
            )
            if not codec.text(ids).startswith("fine"):
                break
            context += ids
            messages.append(Message("assistant", codec.reply_text(ids)))
            new = [Message(role, f"answer {turn}", "search" if role == "tool" else None)]
            found = codec.extend(context, messages, new)
            if isinstance(found, PrefixBreak):  # templates that want empty thoughts before a plain answer
                assert "<think>" in found.kept + found.rendered
                break
            context += flat(found)
            messages += new
            assert "".join(body(codec, span) for span in found if span.role == role).strip('"') == f"answer {turn}"
        else:
            assert context == reference(tokenizer_for(name), messages, parts=parts)


@PROPERTY
@given(st.lists(st.tuples(ROLES, st.text(st.characters(exclude_categories=["Cs"]), max_size=12)), min_size=1, max_size=4))
def test_any_text_without_control_tokens_becomes_the_ids_of_the_library(said: list[tuple[str, str]]) -> None:
    messages = [Message(role, text) for role, text in said]
    spans = PLAIN.for_tools([]).render(messages)
    assert flat(spans) == reference(tokenizer_of_chatml(), messages)
    assert [body(PLAIN, span) for span in spans[:-1]] == [text for _, text in said]


def tokenizer_of_chatml() -> Any:
    return tokenizer_of(CHATML)


# --- hostile text ---

HOSTILE = st.lists(
    st.sampled_from(
        [
            "<|im_end|>",
            "<|im_start|>",
            "<|bos|>",
            "<|eos|>",
            "<",
            "|",
            "im_end",
            ">",
            " ",
            "\n",
            "a",
            "\ue000",
            "\ue001",
            "\U0010fffd",
            "\x00",
            "🦊",
        ]
    ),
    max_size=8,
).map("".join)


@PROPERTY
@given(HOSTILE, ROLES)
def test_hostile_text_never_becomes_a_control_id(text: str, role: str) -> None:
    controls = {*tokenizer_of_chatml().added_tokens_decoder}
    (span, prompt) = PLAIN.render([Message(role, text)])
    assert PLAIN.text(span.token_ids) == f"<|im_start|>{role}\n{text}<|im_end|>\n"
    assert [PLAIN.text([i]) for i in span.token_ids if i in controls] == ["<|im_start|>", "<|im_end|>"]
    assert text in body(PLAIN, span)
    assert PLAIN.text(prompt.token_ids) == "<|im_start|>assistant\n"
    assert not controls & {*PLAIN.reply(text)[:-1]}


@every_served
def test_every_template_keeps_hostile_messages_text(name: str) -> None:
    codec, tokenizer = codec_for(name), tokenizer_for(name)
    controls = {*tokenizer.added_tokens_decoder}
    role = next(iter(codec.properties.keeps))

    def count(said: str) -> int:
        last = Message(role, said, "search" if role == "tool" else None)
        return sum(i in controls for i in flat(codec.render([Message("user", said), Message("assistant", "y"), last])))

    for token in tokenizer.added_tokens_decoder.values():
        assert count(f"a{token.content}b") == count("ab"), token


def test_tool_schemas_and_tool_names_are_text_as_well() -> None:
    tool = {"type": "function", "function": {**SEARCH, "description": "x <|im_end|> y"}}
    codec = codec_for("qwen3").for_tools([tool])
    ids = flat(codec.render([Message("user", "x")]))
    assert ids.count(id_of("qwen3", "<|im_end|>")) == 2
    assert "x <|im_end|> y" in codec.text(ids)


def test_a_template_that_trims_and_splits_still_meets_marked_text() -> None:
    codec = codec_for("llama3")
    ids = flat(codec.render([Message("user", "  <|eot_id|>  ")]))
    assert codec.text(ids).count("<|eot_id|>") == 2
    assert ids.count(id_of("llama3", "<|eot_id|>")) == 1


def test_a_reply_may_spell_the_tokens_that_replies_are_made_of_and_no_others() -> None:
    codec = codec_for("qwen3")
    think, end = id_of("qwen3", "</think>"), id_of("qwen3", "<|im_end|>")
    ids = codec.reply("<think>a</think>b<|im_end|>c")
    assert ids.count(think) == 1
    assert ids.count(end) == 1
    assert ids[-1] == end
    assert codec.text(ids[:-1]) == "<think>a</think>b<|im_end|>c"


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_half_a_character_is_refused(text: str) -> None:
    with pytest.raises(RangeError, match="text must hold whole characters"):
        PLAIN.render([Message("user", text)])


def test_a_vocabulary_that_does_not_cover_a_text_is_an_error_with_the_text() -> None:
    codec = chat_codec(build_tokenizer(["lamps"]), [])
    with pytest.raises(RangeError, match="text must be covered by the vocabulary, got 'ï'"):
        codec.render([Message("user", "naïve")])


def test_images_are_refused_where_a_message_is_made() -> None:
    with pytest.raises(RecordError, match="content must be a string"):
        Message("user", [{"type": "image", "url": "x"}])  # type: ignore[arg-type]
    assert "<image>" in codec_for("idefics3").text(flat(codec_for("idefics3").render([Message("user", "<image>")])))


# --- what follows a reply ---


def test_R09_the_glue_after_a_reply_is_appended_with_mask_0() -> None:
    context = flat(PLAIN.render([Message("user", "a")]))
    ids = PLAIN.reply("search(lamps)")
    messages = [Message("user", "a"), Message("assistant", "search(lamps)")]
    tool, prompt = extended(PLAIN, [*context, *ids], messages, [Message("tool", "17")])
    assert PLAIN.text(tool.token_ids) == "\n<|im_start|>tool\n17<|im_end|>\n"
    assert PLAIN.text(prompt.token_ids) == "<|im_start|>assistant\n"
    assert body(PLAIN, tool) == "17"
    assert not any(prompt.content_mask)
    assert not tool.policy


def test_a_cut_reply_is_ended_by_glue_and_never_inside_the_action() -> None:
    context = flat(PLAIN.render([Message("user", "a")]))
    ids = PLAIN.reply("search(la")[:-1]
    messages = [Message("user", "a"), Message("assistant", "search(la")]
    tool, _ = extended(PLAIN, [*context, *ids], messages, [Message("tool", "17")])
    assert PLAIN.text(tool.token_ids) == "<|im_end|>\n<|im_start|>tool\n17<|im_end|>\n"
    assert tool.content_mask[0] is False


def test_a_reply_that_ended_in_another_stop_token_is_a_break() -> None:
    codec = codec_for("qwen3")
    eos = tokenizer_for("qwen3").eos_token_id
    assert codec.stop_ids == (id_of("qwen3", "<|im_end|>"), eos)
    context = [*flat(codec.render([Message("user", "a")])), *codec.reply("b")[:-1], eos]
    found = codec.extend(context, [Message("user", "a"), Message("assistant", "b")], [Message("tool", "17")])
    assert isinstance(found, PrefixBreak)
    assert (found.kept, found.position) == ("<|eos|>", len(context) - 1)


def test_R07_sampled_ids_stay_as_they_are_whatever_the_tokenizer_would_make_of_their_text() -> None:
    tokenizer = tokenizer_of_chatml()
    context = flat(PLAIN.render([Message("user", "a")]))
    drifted = [i for character in "message" for i in tokenizer(character)["input_ids"]]
    assert drifted != tokenizer("message")["input_ids"]
    messages = [Message("user", "a")]
    for turn in range(12):  # the whole conversation is compared as well, at 8 and 16 messages
        context += [*drifted, PLAIN.stop_ids[0]]
        messages.append(Message("assistant", "message"))
        before = list(context)
        context += flat(extended(PLAIN, context, messages, [Message("tool", str(turn))]))
        messages.append(Message("tool", str(turn)))
        assert context[: len(before)] == before
    assert PLAIN.text(context) == PLAIN.text(flat(PLAIN.render(messages)))


def test_bytes_that_are_no_text_are_kept_as_sampled() -> None:
    tokenizer = tokenizer_of_chatml()
    half = tokenizer("é")["input_ids"][:1] if len(tokenizer("é")["input_ids"]) > 1 else tokenizer("🦊")["input_ids"][:1]
    assert "\ufffd" in PLAIN.text(half)
    messages = [Message("user", "a")]
    context = flat(PLAIN.render(messages))
    for _ in range(6):
        ids = [*half, PLAIN.stop_ids[0]]
        assert isinstance(PLAIN.parse(ids), (ParsedAction, ParseFailure))
        context += ids
        messages.append(Message("assistant", PLAIN.reply_text(ids)))
        context += flat(extended(PLAIN, context, messages, [Message("tool", "what?")]))
        messages.append(Message("tool", "what?"))


def test_a_control_id_that_a_policy_samples_inside_its_reply_stays() -> None:
    start = tokenizer_of_chatml().convert_tokens_to_ids("<|im_start|>")
    messages = [Message("user", "a")]
    context = flat(PLAIN.render(messages))
    for _ in range(6):
        ids = [*PLAIN.reply("b")[:-1], start, PLAIN.stop_ids[0]]
        context += ids
        messages.append(Message("assistant", PLAIN.reply_text(ids)))
        assert messages[-1].content == "b<|im_start|>"
        context += flat(extended(PLAIN, context, messages, [Message("tool", "what?")]))
        messages.append(Message("tool", "what?"))


def test_extend_wants_the_reply_last() -> None:
    with pytest.raises(RecordError, match="messages must end with the assistant's reply, got user"):
        PLAIN.extend([1], [Message("user", "a")], [Message("tool", "b")])
    with pytest.raises(RecordError, match="got no context"):
        PLAIN.extend([], [Message("assistant", "a")], [Message("tool", "b")])


# --- calls ---


def test_calls_carry_their_places_in_the_sampled_ids() -> None:
    codec = codec_for("qwen3").for_tools(TOOLS)
    ids = codec.reply("search(lamps)")
    assert codec.calls.name == "hermes"
    assert codec.text(ids) == '<tool_call>\n{"name": "search", "arguments": {"item": "lamps"}}\n</tool_call><|im_end|>'
    parsed = codec.parse(ids)
    assert isinstance(parsed, ParsedAction)
    (call,) = parsed.calls
    assert (call.name, dict(call.arguments), call.span) == ("search", {"item": "lamps"}, (0, len(ids) - 1))
    ids = (*codec.reply("Let me see: ")[:-1], *ids)
    parsed = codec.parse(ids)
    assert isinstance(parsed, ParsedAction)
    assert parsed.calls[0].span is not None
    assert codec.text(ids[slice(*parsed.calls[0].span)]).startswith("<tool_call>")
    assert parsed.content == "Let me see:"


def test_a_script_says_calls_in_the_codecs_format_and_anything_else_as_it_is() -> None:
    codec = codec_for("llama3_1").for_tools(TOOLS)
    assert codec.reply_text(codec.reply("search(red lamps)")) == '{"name": "search", "parameters": {"item": "red lamps"}}'
    assert codec.reply_text(codec.reply("I do not know.")) == "I do not know."
    assert codec.reply_text(codec.reply("buy(lamps)")) == "buy(lamps)"  # no such tool
    assert PLAIN.reply_text(PLAIN.reply("search(red lamps)")) == "search(red lamps)"


def test_a_reply_cut_by_a_budget_is_told_so() -> None:
    parsed = PLAIN.parse(PLAIN.reply("search(lamps)")[:-1])
    assert parsed == ParseFailure(CUT, raw="search(lamps)", cut=True)
    assert PLAIN.parse([]) == ParseFailure(CUT, raw="", cut=True)


@PROPERTY
@given(st.lists(st.integers(0, len(tokenizer_of(CHATML)) - 1), max_size=24))
def test_whatever_is_sampled_can_be_read_and_followed(ids: list[int]) -> None:
    parsed = PLAIN.parse(ids)
    assert isinstance(parsed, (ParsedAction, ParseFailure))
    messages = [Message("user", "a"), Message("assistant", PLAIN.reply_text(ids))]
    context = [*flat(PLAIN.render(messages[:1])), *ids]
    found = PLAIN.extend(context, messages, [Message("tool", "ok")])
    assert not isinstance(found, PrefixBreak)


# --- what cannot be served, and what only looks so ---


def test_a_tokenizer_without_a_chat_template_is_refused() -> None:
    with pytest.raises(TemplateError, match="tokenizer must have a chat template, got none"):
        chat_codec(tokenizer_of(None), [])


def test_a_template_without_any_end_needs_eos() -> None:
    said = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}"
    template = said + "{{ 'assistant: ' if add_generation_prompt }}"
    with pytest.raises(TemplateError, match="chat template must end a reply with a control token, got none"):
        chat_codec(tokenizer_of(template, eos=None), [])
    codec = chat_codec(tokenizer_of(template), [])
    assert codec.stop_ids == (tokenizer_of(template).eos_token_id,)


def test_a_tokenizer_without_eos_ends_turns_as_its_template_does() -> None:
    codec = chat_codec(tokenizer_of(CHATML, eos=None), [])
    assert codec.text(codec.stop_ids) == "<|im_end|>"


def test_the_templates_own_words_are_the_error() -> None:
    with pytest.raises(TemplateError, match="Conversation roles must alternate"):
        codec_for("gemma").render([Message("user", "a"), Message("user", "b")])
    with pytest.raises(TemplateError, match="System role not supported"):
        codec_for("gemma").render([Message("system", "a"), Message("user", "b")])
    with pytest.raises(TemplateError, match="message must be shown by the chat template, got one of role 'tool'"):
        codec_for("phi3").render([Message("user", "a"), Message("assistant", "b"), Message("tool", "c")])


def test_a_message_that_a_template_leaves_out_is_never_lost_silently() -> None:
    codec = codec_for("phi3")
    context = [*flat(codec.render([Message("user", "a")])), *codec.reply("b")]
    with pytest.raises(TemplateError, match="which it leaves out"):
        codec.extend(context, [Message("user", "a"), Message("assistant", "b")], [Message("tool", "c")])


def test_an_unknown_call_format_is_refused() -> None:
    with pytest.raises(ConfigError, match="call format must be one of"):
        chat_codec(tokenizer_of(CHATML), [], calls="xml")


def test_empty_messages_are_messages() -> None:
    spans = PLAIN.render([Message("system", ""), Message("user", "")])
    assert [PLAIN.text(span.token_ids) for span in spans] == [
        "<|im_start|>system\n<|im_end|>\n",
        "<|im_start|>user\n<|im_end|>\n",
        "<|im_start|>assistant\n",
    ]
    context = [*flat(spans), PLAIN.stop_ids[0]]
    tool, _ = extended(PLAIN, context, [Message("user", ""), Message("assistant", "")], [Message("tool", "")])
    assert not any(tool.content_mask)
    with pytest.raises(TemplateError, match="messages must be accepted by the chat template"):
        codec_for("qwen3").render([])


@pytest.mark.parametrize("text", ["a b" * 330_000, "<" * 1_000_000, "<|im_end|>" * 100_000, "<|im_start" * 100_000])
def test_a_million_characters_take_seconds_at_most(text: str) -> None:
    began = time.process_time()
    spans = PLAIN.render([Message("user", text)])
    assert time.process_time() - began < 10
    assert body(PLAIN, spans[0]) == text


# --- one codec for all: the built-in tokenizer ---


def test_the_built_in_tokenizer_gets_the_very_same_ids_from_both_codecs() -> None:
    tokenizer = build_tokenizer([*Shop.vocabulary])
    tools = Shop().tools.schemas()
    chat, marker = chat_codec(tokenizer, tools, tell_tools=False), marker_codec(tokenizer, tools)
    assert chat.stop_ids == marker.stop_ids
    assert chat.tokenizer_hash == marker.tokenizer_hash
    messages = [Message("user", "What do 3 lamps cost? <end><tool>")]
    assert chat.render(messages) == marker.render(messages)
    context = flat(chat.render(messages))
    for said, answer in [("search(lamps)", "17"), ("calculate(3*17)", "51"), ("search(", "not a call"), ("end<end>", "")]:
        ids = chat.reply(said)
        assert ids == marker.reply(said)
        context += ids
        messages.append(Message("assistant", chat.reply_text(ids)))
        new = [Message("tool", answer)]
        found = extended(chat, context, messages, new)
        assert found == marker.extend(context, messages, new)
        context += flat(found)
        messages += new


def test_all_templates_of_the_package_are_known_here() -> None:
    assert len(SERVED) >= 60
    assert all(source(name) for name in SERVED)


# ---- tools in words, where the template leaves them out


def noted(messages: Sequence[Message], codec: ChatCodec) -> str:
    return codec.text(flat(codec.render(messages)))


def test_a_model_is_told_of_tools_that_its_template_leaves_out() -> None:
    schema = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
    tool = {"type": "function", "function": {"name": "search", "description": "Look up a price.", "parameters": schema}}
    codec = chat_codec(tokenizer_of(CHATML), [tool])
    note = "Tools:\nsearch(item): Look up a price.\nCall one like this: search(...)"
    asked = noted([Message("user", "lamps?")], codec)
    assert asked == f"<|im_start|>system\n{note}<|im_end|>\n<|im_start|>user\nlamps?<|im_end|>\n<|im_start|>assistant\n"
    own = noted([Message("system", "Be brief."), Message("user", "lamps?")], codec)
    assert own.startswith(f"<|im_start|>system\nBe brief.\n\n{note}<|im_end|>\n<|im_start|>user")
    assert "Tools:" not in noted([Message("user", "lamps?")], codec.for_tools([]))


def test_the_note_stays_where_it_is_when_a_conversation_goes_on() -> None:
    schema = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
    tool = {"type": "function", "function": {"name": "search", "description": "Look up a price.", "parameters": schema}}
    codec = chat_codec(tokenizer_of(CHATML), [tool])
    messages = [Message("user", "lamps?")]
    context = flat(codec.render(messages))
    for turn in range(9):  # past the turns at which the whole conversation is rendered
        context += codec.reply("search(lamps)")
        messages.append(Message("assistant", "search(lamps)"))
        new = [Message("tool", str(turn))]
        added = codec.extend(context, messages, new)
        assert not isinstance(added, PrefixBreak)
        context += flat(added)
        messages += new
    assert codec.text(context).count("Tools:") == 1


def test_a_template_that_shows_the_tools_is_not_helped() -> None:
    schema = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
    tool = {"type": "function", "function": {"name": "search", "description": "Look up a price.", "parameters": schema}}
    codec = chat_codec(tokenizer_for("qwen2_5"), [tool])
    assert "Call one like this" not in noted([Message("user", "lamps?")], codec)


SHOWN_LATE = (
    "{% for m in messages %}{% if tools and loop.last and m['role'] == 'user' %}{{ '<|tools|>' + tools | tojson }}{% endif %}"
    "{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""As Mistral's: the tools stand before the last question, wherever that is."""
SHOWN_LAST = CHATML.replace("'<|im_start|>assistant\n'", "'<|im_start|>assistant\n' + ('' if tools else 'No tools. ')")


@pytest.mark.parametrize("role", ["user", "tool"])
@pytest.mark.parametrize("template", [SHOWN_LATE, SHOWN_LAST])
def test_tools_that_change_what_follows_a_reply_are_seen_in_every_turn(template: str, role: str) -> None:
    tokenizer = tokenizer_of(template)
    codec = chat_codec(tokenizer, TOOLS, tell_tools=False)
    messages = [Message("user", "a")]
    context = flat(codec.render(messages))
    ids = codec.reply("b")
    messages += [Message("assistant", "b")]
    new = [Message(role, "c")]
    found = codec.extend([*context, *ids], messages, new)
    whole = flat(codec.render([*messages, *new]))
    if isinstance(found, PrefixBreak):
        assert "<|tools|>" in codec.text(context)
        assert flat(found.spans) == whole
    else:
        assert [*context, *ids, *flat(found)] == whole


@pytest.mark.parametrize("parameters", [{}, {"parameters": {"type": "object"}}, {"parameters": None}])
def test_a_tool_may_take_nothing(parameters: dict[str, Any]) -> None:
    codec = chat_codec(tokenizer_of(CHATML), [{"type": "function", "function": {"name": "now", **parameters}}])
    assert "now(): no description\nCall one like this: now()" in codec.text(flat(codec.render([Message("user", "x")])))
    parsed = codec.parse(codec.reply("now()"))
    assert isinstance(parsed, ParsedAction)
    assert [(call.name, call.arguments) for call in parsed.calls] == [("now", {})]
