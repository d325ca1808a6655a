"""What chat templates do: each property that is reported, held against the library's own rendering, where it holds or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chat_templates import SERVED, codec_for, every_served, flat, names, refusal_of, tokenizer_for, tokenizer_of

from rosellm.roserlhf.codec.description import described
from rosellm.roserlhf.codec.hf import chat_codec, tokenizer_facts
from rosellm.roserlhf.codec.probes import KINDS
from rosellm.roserlhf.codec.properties import TemplateProperties
from rosellm.roserlhf.codec.protocol import PrefixBreak
from rosellm.roserlhf.trajectory import Message

PAGE = Path(__file__).parent.parent / "docs" / "codec.md"
TOOL = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Look up the price.",
        "parameters": {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
    },
}
FOLLOWING = {
    "tool": {"role": "tool", "content": "t", "name": "search", "tool_call_id": "call-0"},
    "user": {"role": "user", "content": "u"},
}
REPLIES = {
    "plain": ["y", "</think>y", "\n</think>\n\ny", "\n<think></think>\ny", "<think>\n\n</think>\n\ny"],
    "padded": [" y "],
    "reasoning": [
        f"{before}r{after}y"
        for before in ("<think>\n", "<think>", "\n<think>", "")
        for after in ("\n</think>\n\n", "\n</think>\n", "</think>\n", "</think>")
    ],
}


def written(name: str, chat: list[dict[str, Any]], *, prompt: bool = True, tools: Any = None) -> str | None:
    """What the library makes of a conversation; None if the template refuses it."""
    form = codec_for(name).properties.form
    if form.parts:
        chat = [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in chat]
    try:
        return str(tokenizer_for(name).apply_chat_template(chat, tools=tools, add_generation_prompt=prompt, tokenize=False))
    except Exception:  # noqa: BLE001 - a template may raise anything
        return None


def sampled(name: str, reply: str) -> list[int]:
    """The ids of a reply as a policy may sample them, with the stop token."""
    ids: list[int] = tokenizer_for(name)(reply, add_special_tokens=False)["input_ids"]
    return [*ids, codec_for(name).stop_ids[0]]


def reply_message(properties: TemplateProperties, reply: str) -> dict[str, Any]:
    """A reply in the form that the properties name, made by hand."""
    message: dict[str, Any] = {"role": "assistant", "content": reply}
    if "</think>" in reply and properties.form.reasoning == "opened" and "<think>" not in reply:
        message["content"] = properties.form.opener + reply
    if "</think>" in reply and properties.form.reasoning == "field":
        thoughts, answer = reply.split("</think>")
        message |= {"reasoning_content": thoughts.strip().removeprefix("<think>").strip("\n"), "content": answer.lstrip("\n")}
    return message


# --- the table: one row a template, held against docs/codec.md ---


def _kept(properties: TemplateProperties, role: str) -> str:
    if role in properties.refuses:
        return "left out" if properties.refuses[role] == "it is left out" else "refused"
    kinds = properties.keeps[role]
    return "all" if len(kinds) == len(KINDS) else ", ".join(kind for kind in KINDS if kind in kinds) or "none"


def row(name: str) -> str:
    """One row of the table in the documentation."""
    if refusal_of(name) is not None:
        return f"| `{name}` | not served | | | | | | | |"
    properties = codec_for(name).properties
    system = properties.system if properties.system in ("shown", "default") else "refused"
    same = " (stable)" if properties.calls.stable else ""
    calls = f"{properties.calls.format}{same}" if properties.calls.text else "–"
    stops = " ".join(f"`{stop}`" for stop in properties.stops).replace("|", "\\|") or "eos"
    glue = f"`{properties.glue!r}`" if properties.glue else "–"
    every_turn = ", ".join(role for role in properties.keeps if role not in properties.local) or "–"
    cells = [
        _kept(properties, "tool"),
        _kept(properties, "user"),
        system,
        "yes" if properties.shows_tools else "no",
        calls,
        stops,
        glue,
    ]
    return f"| `{name}` | {' | '.join(cells)} | {every_turn} |"


def table() -> str:
    """The table in the documentation."""
    kept = "kept before tool results | kept before user messages"
    head = f"| template | {kept} | system | shows tools | calls | ends with | glue | renders all |"
    return "\n".join([head, "|" + "---|" * 9, *map(row, names())])


def test_the_documentation_has_the_table_of_all_templates() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


# --- each property, by the library's own rendering ---


@every_served
def test_replies_are_kept_where_it_is_said_and_nowhere_else(name: str) -> None:
    codec = codec_for(name)
    properties = codec.properties
    asked = {"role": "user", "content": "x"}
    begun = written(name, [asked])
    assert begun is not None
    for role, following in FOLLOWING.items():
        if role in properties.refuses:
            shown = written(name, [asked, {"role": "assistant", "content": "y"}, {**following, "content": "shown?"}])
            assert shown is None or "shown?" not in shown
            continue
        for kind, replies in REPLIES.items():
            stands = []
            for reply in replies:
                text = written(name, [asked, reply_message(properties, reply), following])
                assert text is not None
                stands.append(any(text.startswith(begun + reply + codec.text([stop])) for stop in codec.stop_ids))
                context = [*flat(codec.render([Message("user", "x")])), *sampled(name, reply)]
                said = [Message("user", "x"), Message("assistant", reply)]
                new = Message(role, following["content"], following.get("name"), following.get("tool_call_id"))
                found = codec.extend(context, said, [new])
                assert isinstance(found, PrefixBreak) != text.startswith(begun + reply + codec.text(codec.stop_ids[:1])), reply
                if isinstance(found, PrefixBreak):
                    assert found.cause in ("reasoning stripped", "edited history")
                else:
                    assert codec.text([*context, *flat(found)]) == text
            assert any(stands) == (kind in properties.keeps[role]), (role, kind)


@every_served
def test_a_turn_ends_with_what_the_template_writes(name: str) -> None:
    codec = codec_for(name)
    asked, said = {"role": "user", "content": "x"}, {"role": "assistant", "content": "QyQ"}
    for following in ([], *([FOLLOWING[role]] for role in codec.properties.keeps)):
        text = written(name, [asked, said, *following], prompt=bool(following))
        assert text is not None
        after = text.partition("QyQ")[2]
        if after.strip():
            assert any(after.lstrip().startswith(stop) for stop in codec.properties.stops)
    if len(codec.properties.stops) == 1 and written(name, [asked, said], prompt=False) != text:
        (stop,) = codec.properties.stops
        whole = written(name, [asked, said], prompt=False)
        assert whole is not None
        rest = whole.partition("QyQ")[2].lstrip().removeprefix(stop)
        assert rest[: len(rest) - len(rest.lstrip())] == codec.properties.glue


@every_served
def test_system_messages_trimming_and_quoting_are_as_said(name: str) -> None:
    properties = codec_for(name).properties
    asked = {"role": "user", "content": "x"}
    alone, text = written(name, [asked]), written(name, [{"role": "system", "content": "QsQ"}, asked])
    assert alone is not None
    assert (text is not None and "QsQ" in text) == (properties.system in ("shown", "default"))
    if text is not None and properties.system == "default":
        # what stood there alone is gone: the template had said something in its place
        before, _, after = text.partition("QsQ")
        assert len(alone) > len(before) + len(after)
    for role in ("system", "user", "tool"):
        chat = {
            "system": [{"role": "system", "content": ' Q"Q '}, asked],
            "user": [{"role": "user", "content": ' Q"Q '}],
            "tool": [asked, {"role": "assistant", "content": "y"}, {**FOLLOWING["tool"], "content": ' Q"Q '}],
        }[role]
        shown = written(name, chat)
        if shown is None or "Q" not in shown:
            assert role not in properties.trims | properties.quotes
        else:
            assert (" Q" not in shown) == (role in properties.trims)
            assert ('Q\\"Q' in shown) == (role in properties.quotes)


@every_served
def test_tools_are_shown_and_calls_written_as_said(name: str) -> None:
    codec = codec_for(name).for_tools([TOOL])
    text = written(name, [{"role": "user", "content": "x"}], tools=[TOOL])
    assert (text is not None and "Look up the price." in text) == codec.properties.shows_tools
    calls = codec.properties.calls
    call = {"id": "call-0", "type": "function", "function": {"name": "search", "arguments": {"item": "lamps"}}}
    asking: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [call]}
    chat: list[dict[str, Any]] = [{"role": "user", "content": "x"}, asking, FOLLOWING["tool"]]
    again = written(name, chat) or written(name, chat[:2])
    said = codec.reply_text(codec.reply("search(lamps)")).strip()
    if calls.stable:
        assert again is not None
        assert any(said + stop in again for stop in codec.properties.stops)
    elif calls.text and calls.format != "function":
        assert again is not None
        assert not any(said + stop in again for stop in codec.properties.stops)


@every_served
def test_what_follows_is_the_same_after_longer_conversations_where_it_is_said(name: str) -> None:
    """By hand: after three replies and after one. Where the templates are said to depend on what came before, one shows it."""
    properties = codec_for(name).properties
    asked = {"role": "user", "content": "x"}
    for role in properties.local:
        kind = next(iter(sorted(properties.keeps[role])), None)
        for reply in REPLIES[kind or "plain"][:2]:
            said = reply_message(properties, reply)
            short = written(name, [asked, said, FOLLOWING[role]])
            past = [asked, said, FOLLOWING[role], said, FOLLOWING[role]]
            long, before, begun = written(name, [*past, said, FOLLOWING[role]]), written(name, past), written(name, [asked])
            assert short is not None
            assert long is not None
            assert before is not None
            assert begun is not None
            if short.startswith(begun + reply) and long.startswith(before + reply):
                assert short[len(begun) :] == long[len(before) :]


def test_a_template_that_counts_tool_results_is_seen_to() -> None:
    """DeepSeek's template opens the list of tool results once in a conversation; its second result stands without."""
    assert codec_for("deepseekv3").properties.local == frozenset()
    asked, said = {"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}
    once = written("deepseekv3", [asked, said, FOLLOWING["tool"]])
    twice = written("deepseekv3", [asked, said, FOLLOWING["tool"], said, FOLLOWING["tool"]])
    assert once is not None
    assert twice is not None
    assert once.count("<｜tool▁outputs▁begin｜>") == twice.count("<｜tool▁outputs▁begin｜>") == 1


def test_templates_that_a_text_cannot_serve_are_refused_with_the_reason() -> None:
    refused = {name: why for name in names() if (why := refusal_of(name)) is not None}
    assert sorted(refused) == ["gptoss", "gptoss_training", "muse_glimmer", "muse_glimmer_training"]
    assert "got '<|channel|>final<|message|>' before it" in refused["gptoss"]
    assert all("it needs a codec of its own" in why for why in refused.values())
    assert len(SERVED) + len(refused) == len(names())


def test_the_forms_in_which_thoughts_are_handed_over() -> None:
    forms = {name: codec_for(name).properties.form.reasoning for name in SERVED}
    assert forms["qwen3"] == "text"
    assert forms["nemotron_3_nano"] == "opened"
    assert forms["qwen3_8"] == "field"
    assert codec_for("qwen3_8").properties.form.opener == "<think>\n"
    assert [name for name in SERVED if codec_for(name).properties.form.parts] == [
        *("idefics3", "idefics3_training", "llava_next", "llava_next_training", "smolvlm", "smolvlm_training")
    ]


# --- the same in words ---


def words(name: str, **facts: Any) -> dict[str, tuple[str, str, str]]:
    codec, tokenizer = codec_for(name), tokenizer_for(name)
    return {found.name: (found.found, found.so, found.worth) for found in described(codec, tokenizer_facts(tokenizer, **facts))}


def test_the_report_says_what_a_template_rewrites_and_why() -> None:
    found, so, worth = words("qwen3")["prefix-extending after user messages"]
    assert found == "plain and padded replies stand as they were sampled; the template rewrites reasoning: reasoning stripped"
    assert "a child of kind `rewrite` goes on" in so
    assert worth == "note"
    assert words("qwen3")["prefix-extending after tool results"][0] == "yes: every reply stands as it was sampled"
    assert words("llama3")["prefix-extending after tool results"][0].endswith("rewrites padded: edited history")
    found, _, worth = words("gemma")["prefix-extending after tool results"]
    assert "Conversation roles must alternate" in found
    assert worth == "problem"
    assert words("deepseekv3")["prefix-extending after tool results"][1].endswith("all of it is rendered each turn")


@every_served
def test_every_template_can_be_described(name: str) -> None:
    found = described(codec_for(name), tokenizer_facts(tokenizer_for(name)))
    assert len({one.name for one in found}) == len(found) >= 12


def test_the_report_knows_pad_eos_and_spare_logits() -> None:
    chatml = (
        "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    tokenizer = tokenizer_of(chatml)
    codec = chat_codec(tokenizer, [])

    def said(name: str, **facts: Any) -> tuple[str, str]:
        found = {one.name: one for one in described(codec, tokenizer_facts(tokenizer, **facts))}[name]
        return found.found, found.worth

    size = len(tokenizer)
    assert said("pad") == ("none", "good")
    assert said("vocabulary")[1] == "good"
    assert said("vocabulary", logits=size + 24) == (f"{size:,} ids, {size + 24:,} logits", "note")
    assert said("vocabulary", logits=size - 1)[1] == "problem"
    tokenizer.pad_token = tokenizer.eos_token
    assert said("pad") == ("<|eos|>, the same as eos", "good")
    tokenizer.pad_token = "<|bos|>"
    assert said("pad") == ("<|bos|>, apart from eos", "good")


@pytest.mark.parametrize(("name", "clock"), [("llama3_2", True), ("llama3_1", False)])
def test_a_template_that_writes_the_date_is_named(name: str, clock: bool) -> None:
    assert ("date" in words(name)) == clock


@every_served
def test_no_template_of_the_package_renders_what_follows_otherwise_beside_tools(name: str) -> None:
    properties = codec_for(name).properties
    assert properties.local_with_tools == properties.local
